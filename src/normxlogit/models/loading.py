"""From a name or folder to a task model and its tokenizer."""

from importlib import resources
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoFeatureExtractor,
    AutoImageProcessor,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto import modeling_auto as auto

from ..errors import InputError, UnsupportedModelError
from .tasks import TASKS, TaskName, no_head, task_name

__all__ = ["default_model_folder", "load"]


def default_model_folder() -> Path:
    """The folder of the model that ships with the package."""
    return Path(str(resources.files("normxlogit") / "default_model"))


def load(
    name: str | Path | None = None,
    *,
    task: TaskName | None = None,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    **options: Any,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model with its head, and its tokenizer (image processor, feature extractor).

    Args:
        name: Hub name or folder; None for the model in the package.
        task: Which head, for checkpoints that do not say.
        dtype: Precision; by default the checkpoint's, but float32 for a float16 checkpoint on a CPU.
        device: Where to put the model; leave it out when `device_map` is among the options.
        trust_remote_code: Allow code from the model's repository to run.
        allow_pickle: Allow weights that are not safetensors, whose loading can run code.
        **options: Passed to `from_pretrained`, such as `device_map`, `revision`, `gguf_file`, `quantization_config`.

    Raises:
        InputError: If there is no such model.
        UnsupportedModelError: If the checkpoint is a bare encoder or of an unsupported kind.
    """
    source = str(default_model_folder() if name is None else name)
    local = {key: options[key] for key in ("revision", "gguf_file", "subfolder", "token") if key in options}
    if Path(source).is_file() or (_looks_like_path(source) and not Path(source).exists()):
        raise InputError(f"{source}: no such model folder")
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=trust_remote_code, **local)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"cannot load {source}: {_first_line(error)}") from error
    found = task or _declared_task(source, config)
    if dtype is None:
        on_cpu = str(device or "cpu") == "cpu" and "device_map" not in options
        dtype = torch.float32 if on_cpu and getattr(config, "dtype", None) == torch.float16 else "auto"
    loader = getattr(transformers, _AUTO[found])
    if not allow_pickle and "gguf_file" not in options:
        options = {"use_safetensors": True} | options
    try:
        model = loader.from_pretrained(source, dtype=dtype, trust_remote_code=trust_remote_code, **options)
        reader = _READERS.get(found, AutoTokenizer)
        tokenizer = reader.from_pretrained(source, trust_remote_code=trust_remote_code, **local)
    except (OSError, ValueError, ImportError) as error:
        hint = "; allow_pickle=True would read weights that are not safetensors" if "safetensors" in str(error) else ""
        raise InputError(f"cannot load {source}: {_first_line(error)}{hint}") from error
    if device is not None:
        model.to(device)
    return model.eval(), tokenizer


_AUTO: dict[TaskName, str] = {
    "sequence-classification": "AutoModelForSequenceClassification",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "multiple-choice": "AutoModelForMultipleChoice",
    "image-classification": "AutoModelForImageClassification",
    "audio-classification": "AutoModelForAudioClassification",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
}

_READERS: dict[TaskName, Any] = {
    "image-classification": AutoImageProcessor,
    "audio-classification": AutoFeatureExtractor,
}
"""What stands in the tokenizer's place."""


def _declared_task(source: str, config: Any) -> TaskName:
    """The task of a checkpoint by the class that its configuration names."""
    names = getattr(config, "architectures", None) or []
    for name in names:
        found = task_name(name)
        if found is not None:
            return found
    if names:
        raise UnsupportedModelError(f"{source}: {names[0]} {no_head(names[0])}")
    if config.model_type in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:  # GGUF files name no class
        return "causal-lm"
    raise UnsupportedModelError(f"{source} does not say which head it has; pass task= one of {', '.join(TASKS)}")


def _looks_like_path(source: str) -> bool:
    return source.startswith((".", "/", "~")) or source.count("/") > 1


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
