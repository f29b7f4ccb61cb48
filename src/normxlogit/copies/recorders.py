"""Transformers' own recording of hidden states: hooks, and a registry of classes that is filled as models are built."""

from torch import nn
from transformers import PreTrainedModel
from transformers.utils import output_capturing

from .clone import clone
from .snapshot import INSTALLED_MARK, RECORDING


def register_recorders(model: nn.Module) -> None:
    """Enter a model's classes in transformers' registry of modules that return hidden states.

    A process that unpickled the model has built none of its class: without the entry the model would return no hidden
    states.
    """
    registry = getattr(output_capturing, "_CAN_RECORD_REGISTRY", None)
    if registry is None:
        return
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            dict.setdefault(registry, str(type(module)), getattr(module, "_can_record_outputs", None))


def without_recording_hooks(model: nn.Module) -> nn.Module:
    """Return a model without the hooks that transformers adds for `output_hidden_states`, which cannot be pickled."""
    if not any(_recording_hooks(module) for module in model.modules()):
        return model
    copied = clone(model)
    for module in copied.modules():
        for number in _recording_hooks(module):
            del module._forward_hooks[number]
        module.__dict__.pop(INSTALLED_MARK, None)
    return copied.train(model.training)


def _recording_hooks(module: nn.Module) -> list[int]:
    """Return the numbers of the hooks that record."""
    return [number for number, hook in module._forward_hooks.items() if getattr(hook, "__module__", "") == RECORDING]
