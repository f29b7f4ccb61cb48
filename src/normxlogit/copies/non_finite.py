"""The error for a model that answers with NaN or infinity: it names the module where they begin."""

from torch import Tensor, nn

from ..errors import UnsupportedModelError
from .arithmetic import finite_or_excluded
from .memory import attempted
from .module_io import Inputs
from .pool import private_clone
from .trace import Call, Calls, trace


def non_finite_error(model: nn.Module, inputs: Inputs, calls: Calls | None = None) -> UnsupportedModelError:
    """Return an error that names the module whose output first has NaN or infinity.

    Args:
        model: The model, of which a clone runs if there are no calls.
        inputs: The inputs of the pass, (B, T).
        calls: The calls of a recorded pass; None to record one.
    """
    with attempted():  # where this fails, the error is returned all the same, without the module's name
        calls = trace(private_clone(model), inputs)[0] if calls is None else calls
    broken_calls = [call for call in calls or () if _returns_non_finite(call, inputs)]
    # Said if no recorded call returned such values.
    where = "in its head"
    cause = "; load the model in float32 or bfloat16 if it overflows, and check its weights"
    if broken_calls:
        # The first that ended: a module around it ends later, and returns them as well.
        path = min(broken_calls, key=lambda call: call.end).path
        where = f"first in what {path or 'the model itself'} returns"
        broken_weight = _broken_weight(model.get_submodule(path))
        if broken_weight is not None:
            cause = f", whose {broken_weight} is not finite: the weights are broken"
    return UnsupportedModelError(f"{type(model).__name__} answers with NaN or infinite values, {where}{cause}")


def _broken_weight(module: nn.Module) -> str | None:
    """Return the name of a module's own weight that holds NaN or infinity, the last one; None if none does."""
    broken = None
    for name, weight in module.named_parameters(recurse=False):
        # Quantised weights cannot be asked, and those on the meta device (offloaded ones) hold no values.
        if type(weight) is nn.Parameter and not weight.is_meta and not weight.isfinite().all():
            broken = name
    return broken


def _returns_non_finite(call: Call, inputs: Inputs) -> bool:
    """Return whether a module returned NaN or infinity at a real token."""
    output, mask = call.output, inputs.get("attention_mask")
    if output is None or not output.is_floating_point():
        return False
    if isinstance(mask, Tensor) and mask.shape == output.shape[:2]:
        output = output[mask.bool().to(output.device)]  # values at padding do not matter
    return not finite_or_excluded(output)
