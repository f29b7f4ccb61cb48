"""Adapters saved by PEFT: folders without a model that name their base model."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import nn

from ..errors import InputError, optional_module
from ..tasks import TaskName, all_tasks, task_name
from .model_files import LoadOptions, download_options, find_file, read_model_json

HEAD_WEIGHTS = ("classifier.out_proj.weight", "classifier.out.weight", "classifier.weight", "score.weight")
"""Weights of a head whose rows are its outputs."""

PREFIX = "base_model.model."


@dataclass(frozen=True)
class Adapter:
    """An adapter's files.

    Attributes:
        source: The folder or hub name of the adapter.
        base: The folder or hub name of its base model.
        revision: The revision of the base model on the hub; None where the adapter names none.
        task: The task whose head the base model needs; None if the files do not say.
        shapes: The shapes of its tensors by the names of the base model's weights.
        has_tokenizer: Whether its tokenizer replaces the base model's.
    """

    source: str
    base: str
    revision: str | None
    task: TaskName | None
    shapes: Mapping[str, tuple[int, ...]]
    has_tokenizer: bool

    def base_options(self, options: LoadOptions) -> LoadOptions:
        """Return the options to load the base model with: without the adapter's revision and subfolder."""
        base_only = {name: value for name, value in options.items() if name not in ("revision", "subfolder")}
        return base_only if self.revision is None else base_only | {"revision": self.revision}

    def head_options(self, options: LoadOptions) -> LoadOptions:
        """Return options for as many outputs as the adapter's head has, unless the caller sets them."""
        outputs = next((self.shapes[name][0] for name in HEAD_WEIGHTS if name in self.shapes), None)
        set_by_caller = {"num_labels", "id2label", "config"} & options.keys()
        return {} if outputs is None or set_by_caller else {"num_labels": outputs}

    def add_to(self, model: nn.Module, options: LoadOptions) -> Any:
        """Return the base model with the adapter in it: a `PeftModel`, which has the attributes of its base."""
        advice = f"{self.source} holds an adapter of PEFT; run: pip install 'normxlogit[adapters]'"
        peft = optional_module("peft", advice, InputError)
        with warnings.catch_warnings(record=True) as warnings_given:
            warnings.simplefilter("always")  # also those that the caller turned off, or that were given before
            # PEFT warns of weights that are missing, and leaves them random.
            adapted_model = peft.PeftModel.from_pretrained(model, self.source, **download_options(options))
        missing = [str(warning.message) for warning in warnings_given if "missing adapter keys" in str(warning.message)]
        if missing:
            raise InputError(f"{self.source} lacks weights of its adapter on {self.base}: {missing[0].splitlines()[0]}")
        return adapted_model


def read_adapter(source: str, options: LoadOptions, *, allow_pickle: bool) -> Adapter | None:
    """Return the adapter in a folder or of a hub name, None if there is none.

    Args:
        source: The folder or hub name.
        options: Those of transformers' `from_pretrained`, such as a revision.
        allow_pickle: Allow weights that are not safetensors, whose loading can run code.

    Raises:
        InputError: If the adapter names no base model, or its weights are missing or broken.
    """
    config = read_model_json(source, "adapter_config.json", options)
    if config is None:
        return None
    base = _base_of(source, config)
    weights = find_file(source, "adapter_model.safetensors", options)
    pickled = find_file(source, "adapter_model.bin", options)
    if weights is None and (pickled is None or not allow_pickle):
        pickles = "" if pickled is None else "; allow_pickle=True would read the pickled ones"
        raise InputError(f"{source}: the adapter's weights, adapter_model.safetensors, are missing{pickles}")
    return Adapter(
        source,
        base,
        revision=config.get("revision"),
        task=_task_of(config),
        # A pickle is not opened for them.
        shapes={} if weights is None else _tensor_shapes(source, weights),
        has_tokenizer=find_file(source, "tokenizer_config.json", options) is not None,
    )


def _base_of(source: str, config: Any) -> str:
    """Return the folder or hub name of the base model that an adapter's configuration names.

    A path may be relative to the working directory, as PEFT takes it, or to the adapter's folder.
    """
    base = config.get("base_model_name_or_path") if isinstance(config, Mapping) else None
    if not base or not isinstance(base, str):
        raise InputError(
            f"{source} holds an adapter of PEFT whose adapter_config.json names no base_model_name_or_path; load the "
            "base model, and pass Explainer(PeftModel.from_pretrained(base, folder), tokenizer)"
        )
    local_base = Path(source) / base  # unless there is a model at the path from the working directory
    return str(local_base) if local_base.is_dir() and not Path(base, "config.json").is_file() else base


def _task_of(config: Any) -> TaskName | None:
    """Return the task that an adapter's configuration names, or the class of its base model; None if neither does.

    Args:
        config: The contents of its `adapter_config.json`.
    """
    for task in all_tasks().values():
        # An adapter may have no `task_type`, None here; a task that PEFT does not know has "", which is not the same.
        if task.models.peft_type == config.get("task_type"):
            return task.name
    return task_name(str((config.get("auto_mapping") or {}).get("base_model_class")))


def _tensor_shapes(source: str, file: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors in an adapter's file, by the names of the base model's weights."""
    try:
        with safe_open(file, "pt") as opened:
            return {name.removeprefix(PREFIX): tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    except Exception as error:
        raise InputError(f"{source}: adapter_model.safetensors cannot be read: {error}") from None
