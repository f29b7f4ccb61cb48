"""`explainer.from_outputs`: explanations of a forward pass, or of a generation, that the caller has run."""

from collections.abc import Mapping
from typing import Any

from typing_extensions import Unpack

from ..explainer import Explainer
from ..methods.defaults import named_or_default
from ..pipeline.keywords import OfForwardPass
from ..pipeline.options import Options
from ..results.attribution import Attribution
from ..results.collection import Attributions
from .generation import explain_generation
from .outputs import explain


def from_outputs(
    explainer: Explainer, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **options: Unpack[OfForwardPass]
) -> Attributions[Attribution]:
    """Explain the outputs of your own call of the model, or of its `generate`, with hidden states.

    The default method is `normxlogit`. Of `generate`, called without beams and with `return_dict_in_generate=True,
    output_hidden_states=True, output_logits=True`, every generated token is explained, by a method that reads each
    token's own states: `normxlogit`, `logat` or `input-norm`.

    Only the embedding layer runs again, and at the first call the head on two of the texts. The first hidden states
    are checked to be of these ids, and the last to give these logits; those between, which only `layers` reads, and
    the `attention_mask` are trusted. Layers whose `hidden_states` do not fit the head take a pass each.

    Args:
        inputs: The model's inputs, with `input_ids` (B, T), padded on the left or not.
        outputs: The model's outputs, with its hidden states and logits.
        **options: What is explained and how, see `OfForwardPass`.

    Raises:
        InputError: If the outputs lack something, are of another shape, of several beams, or not of these inputs.
        TargetError: If a target does not exist, or is not a token of a completion.
        MethodError: If the method does not exist, or needs a pass of its own over a completion.
        HeadMismatchError: If the hidden states and the logits do not belong together.
    """
    checked = Options.of(options, method=named_or_default(options.get("method"), "recorded"))
    if isinstance(outputs, Mapping) and outputs.get("sequences") is not None:
        return explain_generation(explainer.language_model, inputs, outputs, checked)
    return explain(explainer.task_model, inputs, outputs, checked)
