"""What transformers hands out hidden states with: hooks, and a list of classes that grows as models are built."""

from torch import nn
from transformers import PreTrainedModel
from transformers.utils import output_capturing

from .clone import clone
from .snapshot import RECORDING, RECORDS

__all__ = ["know_recorders", "without_recorders"]


def know_recorders(model: nn.Module) -> None:
    """Enter a model's classes in the list that says which modules return hidden states.

    A process that was sent the model, or read it whole from a file, has built none of its class: the list would lack
    it, and the model would hand out no hidden states.
    """
    registry = getattr(output_capturing, "_CAN_RECORD_REGISTRY", None)
    if registry is None:
        return
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            dict.setdefault(registry, str(type(module)), getattr(module, "_can_record_outputs", None))


def without_recorders(model: nn.Module) -> nn.Module:
    """Return a model without the hooks that it keeps once it was asked for hidden states, which cannot be pickled.

    Args:
        model: The caller's; it is left as it is, and returned where it has none.
    """
    if not any(_recorders(module) for module in model.modules()):
        return model
    copied = clone(model)
    for module in copied.modules():
        for number in _recorders(module):
            del module._forward_hooks[number]
        module.__dict__.pop(RECORDS, None)
    return copied.train(model.training)


def _recorders(module: nn.Module) -> list[int]:
    """Return the numbers of the hooks that record."""
    return [number for number, hook in module._forward_hooks.items() if getattr(hook, "__module__", "") == RECORDING]
