"""The layers of post-LayerNorm encoders with their internal states, for the decomposition methods only."""

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..compat import request_for_probabilities
from ..copies.checkpointing import without_cache
from ..copies.clone import clone
from ..copies.run import Site, run
from ..errors import UnsupportedModelError
from ..inputs.batches import Batch
from ..model.task_model import TaskModel
from ..parts.proofs import is_full, proof
from .encoder_families import Family, family_of
from .layer_calls import LayerCall, record_layers
from .module_weights import NormParts, is_floating, linear_weights, norm_parts

EXACT_TOLERANCE = 1e-4
"""Relative tolerance of a layer's states in full precision."""

COARSE_TOLERANCE = 0.1
"""Relative tolerance of a layer's states in half precision or with quantised weights."""

TINY = 1e-12
"""Keeps denominators from being 0."""


@dataclass(frozen=True)
class EncoderLayer:
    """One layer's internal states for B texts of T tokens, in float32, and its parts."""

    number: int
    states: Tensor  # its input h, (B, T, H)
    attention: Tensor  # attention probabilities, (B, heads, T, T)
    value: Tensor  # value vectors with their bias, (B, T, heads, D)
    pre_norm1: Tensor  # the input of the first LayerNorm, (B, T, H)
    normed1: Tensor  # what it gave back, (B, T, H)
    slope: Tensor  # activation over pre-activation of the feed-forward part, (B, T, F)
    pre_norm2: Tensor  # the input of the second LayerNorm, (B, T, H)
    returned: Tensor  # its output, (B, T, H)
    parts: dict[str, nn.Module]  # its modules, by their names in `LayerPaths`
    dtype: torch.dtype  # the precision in which it worked

    @proof(
        compares="what each part of a layer returned, and what it would return if it were only that of its family",
        tolerance=f"{EXACT_TOLERANCE:g} of the largest, {COARSE_TOLERANCE:g} in half precision or quantised",
        why="decompositions are formulas of the family's layers; a hook or an adapter is not in them",
        when="each call of alti, decompx and globenc; arithmetic on one layer",
    )
    def prove_layer_of_family(self, mask: Tensor, *, feed_forward: bool) -> None:
        """Refuse a layer whose computation differs from its family's.

        Args:
            mask: The real tokens, (B, T).
            feed_forward: Whether the part between the two norms is compared as well: for methods that use its weights.

        Raises:
            UnsupportedModelError: If a part of it returns something else.
        """
        maps = {name: linear_weights(self.parts[name]) for name in ("output", "up", "down")}
        carried = (self.attention @ self.value.transpose(1, 2)).transpose(1, 2).flatten(2)  # (B, T, heads * D)
        comparisons = [
            ("attention", self.pre_norm1, _apply_linear(maps["output"], carried) + self.states),
            ("first norm", self.normed1, self._apply_norm("norm1", self.pre_norm1)),
            ("second norm", self.returned, self._apply_norm("norm2", self.pre_norm2)),
        ]
        if feed_forward:
            inner = _apply_linear(maps["up"], self.normed1) * self.slope  # (B, T, F)
            comparisons.append(("feed-forward part", self.pre_norm2, _apply_linear(maps["down"], inner) + self.normed1))
        # Relative to the largest value at real tokens: what a layer gives at padding is of no use.
        tolerance = EXACT_TOLERANCE if self.exact else COARSE_TOLERANCE
        for quantity, actual, expected in comparisons:
            difference = (expected - actual)[mask].abs().max().item()
            largest = max(actual[mask].abs().max().item(), TINY)
            if not difference <= tolerance * largest:  # written so that NaN is refused
                raise UnsupportedModelError(
                    f"needs layers that are their family's and nothing more, and the {quantity} of layer {self.number} "
                    f"gives something else, by {difference:.2g}: a hook, an adapter or another module is there"
                )

    @property
    def exact(self) -> bool:
        """Whether the layer works in full precision, where rounding explains only small differences."""
        maps = (part for name, part in self.parts.items() if name != "attention")  # which has no weight itself
        return is_full(self.dtype) and all(map(is_floating, maps))

    def _apply_norm(self, name: str, states: Tensor) -> Tensor:
        """Apply a LayerNorm of the layer to states, (B, T, H)."""
        gain, bias, deviation = self.norm(name)
        return gain * (states - states.mean(-1, keepdim=True)) / deviation[..., None] + bias  # (B, T, H)

    def norm(self, name: str) -> NormParts:
        """Return a LayerNorm of the layer, "norm1" or "norm2", at the states that it was given."""
        states = self.pre_norm1 if name == "norm1" else self.pre_norm2  # (B, T, H)
        return norm_parts(self.parts[name], states)


def _apply_linear(maps: tuple[Tensor, Tensor], states: Tensor) -> Tensor:
    """Apply a linear map, (weight, bias), to states."""
    weight, bias = maps
    return states @ weight.T + bias  # (..., out)


def encoder_layers(model: TaskModel, batch: Batch, numbers: Container[int]) -> Iterator[EncoderLayer]:
    """Run the encoder once, then each layer again, recording its internal states, one layer at a time.

    Attention probabilities come from the eager kernel, set on a clone: the others return none.

    Args:
        model: The model, an encoder of a known family.
        batch: B texts.
        numbers: The layers that are yielded, counted from 1.

    Raises:
        UnsupportedModelError: If its layers are not those of a known family.
    """
    family = family_of(model)
    path_of_part: dict[str, str] = vars(family.layer)
    for number, call in enumerate(_calls_of_layers(model, batch, family), 1):
        if number not in numbers:  # its internal states would cost another call of it
            continue
        parts = {name: call.layer.get_submodule(path) for name, path in path_of_part.items()}
        recorded = _record_parts(call, path_of_part)
        attention = _probabilities(recorded["attention"].output, model.class_name)  # (B, heads, T, T)
        value = recorded["value"].output.float()  # (B, T, H)
        pre_activation = recorded["up"].output.float()  # (B, T, F)
        activated = recorded["down"].input.float()  # (B, T, F)
        yield EncoderLayer(
            number=number,
            states=call.states.float(),
            attention=attention,
            value=value.unflatten(-1, (attention.shape[1], -1)),
            pre_norm1=recorded["norm1"].input.float(),
            normed1=recorded["norm1"].output.float(),
            slope=activated / (pre_activation + TINY),
            pre_norm2=recorded["norm2"].input.float(),
            returned=call.returned.float(),
            parts=parts,
            dtype=call.returned.dtype,
        )


def _calls_of_layers(model: TaskModel, batch: Batch, family: Family) -> list[LayerCall]:
    """Run an encoder once, with attention that returns its probabilities; return the call of each layer."""
    copy: Any = without_cache(clone(model.module))
    copy.config._attn_implementation = "eager"
    for module in copy.modules():
        if hasattr(module, "chunk_size_feed_forward"):
            module.chunk_size_feed_forward = 0  # the feed-forward part is called once, for all positions
    layers = list(copy.base_model.get_submodule(family.layers).children())
    layer_paths = [path for path, module in copy.named_modules() if module in layers]
    # The whole model is given the request: it prepares the mask for the kernel that will run.
    request: dict[str, Any] = request_for_probabilities(layers[0].get_submodule(family.layer.attention))
    calls = record_layers(model, copy, layer_paths, replace(batch, inputs={**batch.inputs, **request}))
    if len(calls) != len(layers):
        raise UnsupportedModelError(
            f"needs layers that each return one hidden state, and of the {len(layers)} layers of "
            f"{model.class_name} {len(calls)} do"
        )
    return calls


class _PartCall(NamedTuple):
    """What a part of a layer was given and what it returned."""

    input: Any  # its main input; None where it had none
    output: Any


def _record_parts(call: LayerCall, paths: dict[str, str]) -> dict[str, _PartCall]:
    """Call a layer again, and return the main input and the output of each of its parts, by the names of `paths`."""
    inputs = {name: Site(path, is_input=True) for name, path in paths.items()}
    outputs = {name: Site(path) for name, path in paths.items()}
    sites = [*inputs.values(), *outputs.values()]
    # No inputs: `call_again` has those of its call.
    recorded = run(call.layer, {}, record=sites, call=call.call_again).recorded
    return {name: _PartCall(recorded.get(inputs[name]), recorded[outputs[name]]) for name in paths}


def _probabilities(returned: Any, name: str) -> Tensor:
    """Return the probabilities that an attention returned."""
    if len(returned) < 2 or returned[1] is None:  # behind the attention's output
        raise UnsupportedModelError(f"needs attention that returns probabilities, and that of {name} returns none")
    probabilities: Tensor = returned[1]
    return probabilities.float()
