"""What differs between the versions of transformers and torch: the only file that may depend on one.

Each entry says which versions have which form. It asks for the form that is there, not for a number. Where behaviour
differs and a score could be wrong, a proof of `parts/proofs.py` decides, not an entry here.
"""

import inspect
import math
from collections.abc import Collection, Mapping
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto import modeling_auto

try:  # transformers 5.5 and later
    from transformers.utils import output_capturing as _recording
except ImportError:  # 5.0 and before
    from transformers.utils import generic as _recording  # type: ignore[no-redef]

# --- how transformers records hidden states for `output_hidden_states` ------------------------------------------------


def recorder_classes() -> dict[str, Any]:
    """Return the registry of classes that record them: 4.51 has none, 4.57 and 5.0 that of `generic`."""
    return getattr(_recording, "_CAN_RECORD_REGISTRY", {})


RECORDING_MODULE = "transformers.utils.output_capturing"
"""The module of the hooks that transformers 5.5 and later add and leave on the model; 5.0 and before add none."""

RECORDING_MARK = "_output_capturing_hooks_installed"
"""The attribute of a model that has such hooks."""

# --- arguments of a model's forward -----------------------------------------------------------------------------------


def cache_argument(model: nn.Module) -> str:
    """Return the name of the cache among the arguments of a model: `past_key_values` before 5.24, `cache` since."""
    return "cache" if "cache" in _arguments(model) else "past_key_values"


def request_for_probabilities(attention: nn.Module) -> dict[str, bool]:
    """Return the argument of a model with which its attention returns probabilities.

    Args:
        attention: The attention module of a layer. Up to 4.57 the kernels of BERT and DistilBERT return probabilities
            only if they are given `output_attentions`. Since 5.0 the eager kernel always does, and takes no such
            argument.
    """
    return {"output_attentions": True} if "output_attentions" in _arguments(attention) else {}


def without_probabilities(returned: Any) -> Any:
    """Return what a layer returned, without the probabilities that DistilBERT's returns first up to 4.57.

    Args:
        returned: States, (B, T, H); or a tuple of probabilities, (B, heads, T, T), which have four axes, and states.
    """
    is_after_them = isinstance(returned, tuple) and len(returned) > 1 and getattr(returned[0], "ndim", 0) == 4
    return returned[1:] if is_after_them else returned


def _arguments(module: nn.Module) -> Collection[str]:
    """Return the names of the arguments of a module's forward, as its class declares them."""
    return inspect.signature(type(module).forward).parameters


# --- parts of a model ------------------------------------------------------------------------------------------------


def encoder_of(model: Any) -> Any:
    """Return the encoder of a model with encoder and decoder; up to 4.57 its base model has it, its heads do not."""
    return getattr(model, "base_model", model).get_encoder()


def decoder_of(model: Any) -> Any:
    """Return the decoder of a model with encoder and decoder, see `encoder_of`."""
    return getattr(model, "base_model", model).get_decoder()


INSTALL_FOR_TOWERS = "pip install 'transformers>=5'"
"""How to get models with two towers whose vectors are explained."""


def towers_return_states(model: Any) -> bool:
    """Return whether a model with two towers returns hidden states with its vectors; up to 4.57 it does not."""
    of_pictures = getattr(model, "get_image_features", None)
    return of_pictures is not None and "kwargs" in inspect.signature(of_pictures).parameters


def stretching_length(config: Any) -> float:
    """Return the length from which a model's rotary embeddings depend on the length of a text; infinity if they do not.

    The settings are `rope_parameters` in 5.0 and later, maybe for each type of layer, and `rope_scaling` before.

    Args:
        config: The configuration of a model, or None.
    """
    settings = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    # The type of the embeddings is looked for in the text of the settings: layers of each type may have their own.
    if "longrope" in str(settings):
        name = "original_max_position_embeddings"
        return float(getattr(config, name, None) or settings.get(name, 0))  # 0 where only types of layers have it
    return float(config.max_position_embeddings) if "dynamic" in str(settings) else math.inf


# --- names ------------------------------------------------------------------------------------------------------------

AUTO_CLASS_BEFORE = {"AutoModelForMultimodalLM": "AutoModelForSeq2SeqLM"}
"""Auto classes of transformers 5.0 and later, and the one that loaded their models before."""


def auto_class(name: str) -> Any:
    """Return the auto class of transformers with a name, or the one that loads the same models in older versions."""
    return getattr(transformers, name, None) or getattr(transformers, AUTO_CLASS_BEFORE[name])


def classes_in(mapping: str) -> Collection[Any]:
    """Return the names of the classes in one of transformers' mappings; none where an older version lacks it."""
    return getattr(modeling_auto, mapping, {}).values()


DTYPE = "dtype" if hasattr(transformers.PretrainedConfig(), "dtype") else "torch_dtype"
"""What `from_pretrained` and configurations call the type of the weights: `torch_dtype` in 4.51, `dtype` in 4.57."""


def dtype_of_checkpoint(config: Any) -> torch.dtype | None:
    """Return the type that a checkpoint's configuration declares for its weights; None if it declares none.

    Newer versions write `dtype`, which 4.51 keeps as the text that stands in the file.
    """
    declared = getattr(config, DTYPE, None) or getattr(config, "dtype", None)
    return getattr(torch, declared, None) if isinstance(declared, str) else declared


def parses_responses(tokenizer: Any) -> bool:
    """Return whether a tokenizer can split an answer into reasoning, text and calls by its own response template.

    4.57 applies no such template. 5.0 applies one of another form, without the prompt, and has no argument `prefix`
    for it. In both, the marks in an answer are read instead.

    Args:
        tokenizer: Any tokenizer or processor.
    """
    parse = getattr(tokenizer, "parse_response", None)
    declares = bool(getattr(tokenizer, "response_template", None))
    return declares and parse is not None and "prefix" in inspect.signature(parse).parameters


def other_shapes(info: Mapping[str, Any]) -> dict[str, str]:
    """Return the weights of a checkpoint with other shapes than the model's, each with what is known of its shapes.

    Args:
        info: What `from_pretrained` says of loading: names alone in 4.57, names with both shapes in 5.5.
    """
    descriptions = {}
    for weight in info["mismatched_keys"]:
        if isinstance(weight, str):
            descriptions[weight] = weight
        else:
            name, saved_shape, expected_shape = weight
            descriptions[name] = f"{name} {tuple(saved_shape)} for {tuple(expected_shape)}"
    return descriptions


def generation_state(token_count: int) -> dict[str, torch.Tensor]:
    """Return what `generate` keeps beside a model's inputs, which 4.57 counts on: the positions of a prompt."""
    return {"cache_position": torch.arange(token_count)}


def without_model_defaults() -> dict[str, bool]:
    """Return the argument of `generate` with which a generation configuration counts as it is given.

    From 4.50 to 4.57 each setting that equals transformers' default, such as greedy decoding, is otherwise replaced by
    the model's own.
    """
    generate = getattr(transformers.GenerationMixin, "generate")  # noqa: B009  # type checkers do not know it
    takes_argument = "use_model_defaults" in inspect.signature(generate).parameters
    return {"use_model_defaults": False} if takes_argument else {}


def generation_defaults(pipeline: Any) -> Mapping[str, Any]:
    """Return the settings with which a pipeline generates by default.

    Up to 4.57 a pipeline has no table of them, and adds them to what the model's configuration says.
    """
    defaults = getattr(pipeline, "_generation_defaults", None)
    config = getattr(pipeline, "generation_config", None)
    if defaults is None and config is not None:
        defaults = config.to_diff_dict()
    return defaults or {}


# --- errors -----------------------------------------------------------------------------------------------------------


def lacks_accelerate(error: Exception) -> bool:
    """Return whether a model was not loaded for want of accelerate, of which 4.51 has no error of its own."""
    return isinstance(error, NameError) and "init_empty_weights" in str(error)


def lacks_tokenizer_file(error: Exception) -> bool:
    """Return whether a tokenizer of a folder was not loaded for want of any file: 4.57 ends in an error of types."""
    is_named = isinstance(error, OSError) and str(error).startswith("Can't load tokenizer")  # in 4.51
    return is_named or (isinstance(error, TypeError) and "NoneType" in str(error))


# --- devices ----------------------------------------------------------------------------------------------------------


def accelerator() -> torch.device | None:
    """Return the accelerator of the machine, None if there is none; torch before 2.6 has no name for it."""
    if hasattr(torch, "accelerator"):
        return torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    kind = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else None
    return None if kind is None else torch.device(kind)


def synchronise() -> None:
    """Wait for what the accelerator of the machine was given to do."""
    device = accelerator()
    if device is not None:
        getattr(torch, device.type).synchronize()
