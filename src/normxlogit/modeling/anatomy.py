"""Finding the parts of a model by watching one small forward pass, and proving what was found."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..errors import HeadMismatchError
from .headpiece import Headpiece, answer_of

__all__ = ["Anatomy", "dissect"]


@dataclass(frozen=True)
class Anatomy:
    """Where the parts of a model are, as module paths.

    Attributes:
        head: The proved head.
        trunk: The module whose output the head reads.
        trunk_gives_states: Whether the trunk's own output holds the layers' outputs, so that the head need not run.
        entrance: The module whose first input is the embedding layer's output (`hidden_states[0]`); None if no module
            takes it as it is, as in trunks that work time-first.
        final_norm: The norm between the last layer and the head; None if the last layer's output is final.
        layers: Number of layers; None when the layers' outputs cannot be brought to the head.
    """

    head: Headpiece
    trunk: str
    trunk_gives_states: bool
    entrance: str | None
    final_norm: str | None
    layers: int | None


@dataclass
class _Call:
    path: str
    given: Tensor | None
    returned: Any = None

    @property
    def hidden(self) -> Tensor | None:
        """The hidden states among what the module returned."""
        return hidden_of(self.returned)


def hidden_of(output: Any) -> Tensor | None:
    """The (B, T, H) hidden states in a trunk's or layer's output, None if there are none."""
    if isinstance(output, ModelOutput):
        output = output.get("last_hidden_state")
    elif isinstance(output, tuple | list) and output:
        output = output[0]
    return output if isinstance(output, Tensor) and output.ndim == 3 else None


def dissect(model: PreTrainedModel, inputs: Mapping[str, Any], filler: int) -> Anatomy:
    """Watch the model answer `inputs` and find its trunk, head, embedding output and final norm.

    Args:
        model: A structural clone in evaluation mode.
        inputs: A small batch.
        filler: See `Headpiece`.

    Raises:
        HeadMismatchError: If no trunk is found with which the head reproduces the model's logits; names what was tried.
    """
    calls, outputs = _watch(model, inputs)
    logits = answer_of(outputs)
    if logits is None:
        raise HeadMismatchError(f"{type(model).__name__} returns no logits: it has no head to apply to a token")
    head, trunk = _proved_head(model, calls, inputs, logits, filler)
    states = outputs.get("hidden_states")
    entrance, final_norm, layers = _layers(calls, states, trunk.hidden) if states else (None, None, None)
    gives = isinstance(trunk.returned, ModelOutput) and trunk.returned.get("hidden_states") is not None
    return Anatomy(head, head.trunk, gives, entrance, final_norm, layers)


def _watch(model: PreTrainedModel, inputs: Mapping[str, Any]) -> tuple[list[_Call], ModelOutput]:
    calls: list[_Call] = []
    open_calls: list[_Call] = []
    handles = []

    def enter(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = args[0] if args else kwargs.get("hidden_states")
        call = _Call(path, given if isinstance(given, Tensor) else None)
        calls.append(call)
        open_calls.append(call)

    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda _, a, k, path=path: enter(path, a, k), with_kwargs=True))
        handles.append(
            module.register_forward_hook(lambda _, __, output: setattr(open_calls.pop(), "returned", output))
        )
    try:
        with torch.inference_mode():
            outputs = model(**inputs, output_hidden_states=True, return_dict=True)
    finally:
        for handle in handles:
            handle.remove()
    return calls, outputs


def _trunk_candidates(model: PreTrainedModel, calls: list[_Call]) -> Iterator[_Call]:
    """Calls whose output could be what the head reads, likely ones first."""
    called = {call.path: call for call in calls if call.path and call.hidden is not None}
    base = model.base_model
    first = next((path for path, module in model.named_modules() if module is base and path), None)
    order = [first, *(path for path, call in called.items() if isinstance(call.returned, ModelOutput))]
    order += [path for path in called if path.count(".") <= 1]
    for path in dict.fromkeys(order):
        if path in called:
            yield called[path]


def _proved_head(
    model: PreTrainedModel, calls: list[_Call], inputs: Mapping[str, Any], logits: Tensor, filler: int
) -> tuple[Headpiece, _Call]:
    tolerance = tolerance_for(logits)
    tried = []
    for call in _trunk_candidates(model, calls):
        hidden = call.hidden
        if hidden is None:
            continue
        try:
            with torch.inference_mode():
                head = Headpiece(model, call.path, call.returned, filler)
                found = head.whole(hidden, inputs)
                difference = (found - logits).abs().max().item() if found.shape == logits.shape else float("inf")
                head.tokens(hidden[0, :1])
                if difference <= tolerance and model.get_output_embeddings() is not None and logits.ndim == 3:
                    head.prove_rows(hidden[0], logits[0], tolerance)
        except Exception as error:  # a wrong guess may fail in any way; the next one is tried
            tried.append(f"{call.path}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            continue
        if difference <= tolerance:
            return head, call
        tried.append(f"{call.path}: logits differ by {difference:.2g}")
    raise HeadMismatchError(
        f"the head of {type(model).__name__} could not be applied by itself: no trunk was found with which it "
        f"reproduces the model's logits. Tried {'; '.join(tried) or 'nothing: no module returns hidden states'}"
    )


def tolerance_for(logits: Tensor) -> float:
    """The difference that rounding explains, for logits of this size and precision."""
    rounding = 1e-5 if logits.dtype in (torch.float32, torch.float64) else 8 * torch.finfo(logits.dtype).eps
    return float(rounding * max(1.0, logits.abs().max().item()))


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b or (a is not None and b is not None and a.shape == b.shape and torch.equal(a, b))


def _layers(
    calls: list[_Call], states: tuple[Tensor, ...], hidden: Tensor | None
) -> tuple[str | None, str | None, int | None]:
    """Where layer 1 begins, and what stands between the last layer and the head."""
    entrance = next((call.path for call in calls if call.given is states[0]), None)
    if not _same(states[-1], hidden):
        return entrance, None, None
    last = next((call for call in calls if call.given is states[-2]), None)
    if last is None:
        return entrance, None, None
    if _same(last.hidden, hidden):
        return entrance, None, len(states) - 1
    norm = next((c for c in calls if c.given is last.hidden and c.hidden is not None and _same(c.hidden, hidden)), None)
    return (entrance, norm.path, len(states) - 1) if norm is not None else (entrance, None, None)
