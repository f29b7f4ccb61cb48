"""Value Zeroing: the change of a position's output when another token's value vectors are set to zero."""

import itertools
from collections.abc import Collection, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ..copies.checkpointing import without_cache
from ..copies.clone import clone
from ..copies.run import Site
from ..copies.run import run as run_copy
from ..errors import UnsupportedModelError
from ..methods.registry import register
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..parts.proofs import beyond_rounding, proof
from .layer_calls import LayerCall, record_layers
from .matrix import MatrixMethod

PAPER = "Mohebbi et al., 2023"
NEEDS = "attention layers with a value projection of their own"

VALUES = {"v_proj", "v_lin", "v"}
"""Names of the value projection in transformers, beside those with "value" in them."""


def _value_projections(copy: nn.Module) -> dict[str, list[str]]:
    """Return the value projections of each layer, such as {"encoder.layer.0": ["attention.self.value"], ...}.

    Layers are the items of module lists that are in no other list.

    Args:
        copy: A copy of the model.

    Returns:
        The paths of the linear maps inside the layer, by the layer's path in the model.
    """
    projections: dict[str, list[str]] = {}
    list_paths = [f"{path}." for path, module in copy.named_modules() if isinstance(module, nn.ModuleList)]
    for path, module in copy.named_modules():
        outermost_list = next(filter(path.startswith, list_paths), None)  # modules are named from the outside in
        name = path.rpartition(".")[2]
        # Also values under other names, such as those of Longformer's global attention, to see that there are several.
        is_value = (name in VALUES or "value" in name) and hasattr(module, "in_features")
        if is_value and outermost_list is not None:
            number, _, path_in_layer = path.removeprefix(outermost_list).partition(".")
            projections.setdefault(outermost_list + number, []).append(path_in_layer)
    return projections


@proof(
    compares="a layer called again by itself, and its output in the pass",
    tolerance="rounding",
    why="value zeroing calls layers on copies of a text; one that depends on more than its input would differ",
    when="each call of value-zeroing; each layer once more",
)
def layer_gives_the_same_again(repeated: Tensor, returned: Tensor) -> bool:
    """Return whether a layer returns the same when it is called by itself as in a pass, up to rounding.

    Args:
        repeated: What it returns by itself at real tokens, (N, H).
        returned: What it returned in the pass, (N, H).
    """
    return beyond_rounding(repeated, returned) is None


@register(
    "value-zeroing",
    title="each word's attention values set to zero",
    paper=PAPER,
    needs=NEEDS,
    per_layer=True,
    passes="T + 2 forward",
)
class ValueZeroing(MatrixMethod):
    """The change of each position's output when one token's values are zeroed in a layer, multiplied over layers.

    score_ij = 1 - cos(x'_i, x_i), x'_i the layer's output at i with v_j = 0 in every head (queries, keys and softmax
    as they were), rows divided by their sum  (Mohebbi et al., 2023)

    Args:
        rollout: As for `MatrixMethod`.
    """

    def matrices(self, model: TaskModel, run: ForwardPass, layers: Collection[int]) -> Iterator[tuple[int, Tensor]]:
        """Yield the matrices, (B, T, T), after checking that the layers follow each other and have one value each."""
        copy = without_cache(clone(model.module))
        values = _value_projections(copy)
        calls = record_layers(model, copy, list(values), run.batch)
        # A layer with several values has several attentions; one without any is not among the calls.
        if len(calls) != model.layer_count() or any(len(values[call.path]) != 1 for call in calls):
            raise UnsupportedModelError(f"needs {NEEDS}, and a {model.class_name} has other ones")
        for previous, call in itertools.pairwise(calls):
            if not torch.equal(previous.returned, call.states):
                raise UnsupportedModelError(
                    f"needs layers that read what the layer before returned, and the {type(call.layer).__name__} of a "
                    f"{model.class_name} is a part of one"
                )
        for number, call in enumerate(calls, 1):
            if number in layers:
                yield number, _score_matrix(call, values[call.path][0], run.batch.mask, model.batch_tokens)


def _score_matrix(call: LayerCall, value: str, mask: Tensor, budget: int) -> Tensor:
    """Return one layer's score matrix, (B, T, T).

    Args:
        call: The call of the layer.
        value: The path of its value projection, inside it.
        mask: The real tokens, (B, T).
        budget: Most tokens in a call of the layer.

    Raises:
        UnsupportedModelError: If the layer cannot be run by itself.
    """
    if call.returned.shape[1] != mask.shape[1]:  # such as BigBird's, which fill a last block
        raise UnsupportedModelError(
            f"needs layers that read the text's tokens and no others, and the model gives {type(call.layer).__name__} "
            "padding of its own"
        )
    if not layer_gives_the_same_again(call.call_again()[mask], call.returned[mask]):
        raise UnsupportedModelError(
            f"needs layers that can be run by themselves, and {type(call.layer).__name__} gives something else then"
        )
    directions = normalize(call.returned.float(), dim=-1)  # (B, T, H)
    scores = directions.new_zeros((*mask.shape, mask.shape[1]))  # (B, T, T)
    for part in mask.nonzero().split(max(1, budget // mask.shape[1])):  # (N, 2): text, token
        texts, tokens = part.to(directions.device).unbind(1)  # (N,) each: a copy of its text for each token
        zero_values = partial(_with_zero_values, tokens=tokens)
        # The layer is the "model" that runs, with the value projection replaced inside it.
        outputs = run_copy(
            call.layer, {"texts": texts}, replace={Site(value, call=0): zero_values}, call=call.call_again
        ).output  # (N, T, H)
        new_directions = normalize(outputs.float(), dim=-1)  # (N, T, H)
        # 1 - cos of nearly equal vectors cancels; half the squared distance of the unit vectors is the same number.
        scores[texts, :, tokens] = (new_directions - directions[texts]).square().sum(-1) / 2  # (N, T)
    return scores / scores.sum(-1, keepdim=True).clamp_min(1e-30)  # a row in which nothing changed stays 0


def _with_zero_values(values: Tensor, *_: object, tokens: Tensor) -> Tensor:
    """Return the value vectors of N copies of texts, (N, T, width), in which those of one token each, (N,), are 0."""
    changed = values.clone()
    changed[torch.arange(len(tokens), device=tokens.device), tokens] = 0.0
    return changed
