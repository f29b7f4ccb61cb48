"""A task model frozen at its forward pass: the answers' slopes by what flows through it, proved on the first text."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError
from ..inputs.batching import Batch
from ..surgery.clone import clone
from ..surgery.frozen import FrozenNetwork
from ..surgery.layer_outputs import LayerOutput
from ..surgery.parts import tolerance_for
from ..surgery.trace import tensor_of
from .forward_pass import ForwardPass
from .targets import Target
from .task_model import TaskModel

__all__ = ["FrozenModel", "Slopes"]

PROOF_TOKENS = 64
"""Tokens that the proof reads: its second gradient takes several times the memory of the first."""


@dataclass(frozen=True)
class Slopes:
    """What a frozen pass gives.

    Attributes:
        answer: The explained quantities, (b, K).
        states: By place (0 the word embeddings, l the output of layer l), what flows there, (b, T, H).
        gradients: By place, the slope of each of the K quantities, (b, T, H) each.
    """

    answer: Tensor
    states: dict[int, Tensor]
    gradients: dict[int, list[Tensor]]


@dataclass
class _Seen(threading.local):
    """What the hooks of the current thread's pass saw."""

    calls: dict[str, int] = field(default_factory=dict)
    wanted: dict[tuple[str, int], int] = field(default_factory=dict)
    found: dict[int, Any] = field(default_factory=dict)


class FrozenModel:
    """A task model whose own forward pass is affine in the word embeddings, or in the output of a layer.

    Args:
        model: The model, which has read something already.

    Raises:
        UnsupportedModelError: If it has no word embeddings.
    """

    def __init__(self, model: TaskModel) -> None:
        self.model = model
        self.module = model.module
        self._embeddings = model.embeddings  # before the clone, which takes its hook along
        self._network = FrozenNetwork(clone(model.module))
        self._proved: set[bool] = set()
        self._lock = threading.Lock()
        self._seen = _Seen()
        for path in {output.path for output in model.parts.outputs or ()}:
            self._listen(path)

    @classmethod
    def of(cls, model: TaskModel) -> "FrozenModel":
        """Return the frozen form of a model, made once and anew when the model was taken apart anew."""
        kept = model.__dict__.get("_frozen_model")
        if kept is None or kept.module is not model.module:
            kept = model.__dict__["_frozen_model"] = cls(model)
        found: FrozenModel = kept
        return found

    def vectors(self, batch: Batch) -> Tensor:
        """Return the word embeddings of a batch, (B, T, H)."""
        with torch.no_grad():
            return self._embeddings(batch.inputs["input_ids"].clone())

    def slopes(
        self,
        run: ForwardPass,
        target: Target,
        texts: Tensor,
        places: Sequence[int],
        vectors: Tensor | None = None,
    ) -> Slopes:
        """Freeze the network at some texts and go back once for each target.

        Args:
            run: Their forward pass, which was made without gradients and serves for the inputs only.
            target: What is explained.
            texts: Which texts of the batch, (b,).
            places: Where the slopes are wanted: 0, or layers.
            vectors: What is read in the place of the word embeddings, (b, T, H), where 0 is wanted.

        Raises:
            UnsupportedModelError: If the network is not affine once frozen, or a layer's output does not pass by.
        """
        # Copies, because autograd keeps no tensor that was made in inference mode.
        inputs = {name: value[texts].clone() for name, value in run.batch.inputs.items()}
        positions = None if run.positions is None else run.positions[texts].clone()
        contrast = None if target.contrast is None else target.contrast[texts].clone()
        target = replace(target, ids=target.ids[texts].clone(), contrast=contrast)
        rows, target = target.rows() if target.task.vocabulary else (None, target)
        self._prove(inputs, positions, rows, whole=0 in places)
        if 0 in places:
            if vectors is None:
                raise ValueError("slopes by the word embeddings need them")
            leaf = vectors.detach().clone().requires_grad_()
            with self._listening(places), self._embeddings.given(leaf, inputs["input_ids"]), self._network.frozen():
                logits = self.model.answer(inputs, positions, rows, self._network.model)  # (b, C)
            states = {0: leaf}
        else:
            first = self._output(min(places))
            with self._listening(places), self._network.frozen_from(first.path, first.call) as report:
                logits = self.model.answer(inputs, positions, rows, self._network.model)  # (b, C)
            if report.leaf is None:
                raise UnsupportedModelError(f"the output of layer {min(places)} did not pass by")
            states = {min(places): report.leaf}
        states |= {place: state for place, state in self._seen.found.items() if place not in states}
        self._seen.found = {}
        answer = target.read(logits)  # (b, K)
        order = [states[place] for place in places]
        gradients: dict[int, list[Tensor]] = {place: [] for place in places}
        count = answer.shape[1]
        for k in range(count):
            found = torch.autograd.grad(answer[:, k].sum(), order, retain_graph=k + 1 < count, allow_unused=True)
            for place, state, slope in zip(places, order, found, strict=True):
                kept = torch.zeros_like(state) if slope is None else slope
                gradients[place].append(self._shaped(kept, place))
        return Slopes(answer.detach(), {p: self._shaped(states[p], p).detach() for p in places}, gradients)

    def _shaped(self, held: Tensor, place: int) -> Tensor:
        """Bring what a module holds into the order (b, T, H)."""
        return held if place == 0 else held.permute(self._output(place).axes)

    def _output(self, layer: int) -> LayerOutput:
        outputs = self.model.parts.outputs
        if outputs is None:
            raise UnsupportedModelError(
                f"no module of {type(self.module).__name__} returns the output of a layer as `hidden_states` has it, "
                "so the frozen network cannot be read there; read_at=0 reads the word embeddings"
            )
        return outputs[layer - 1]

    def _prove(self, inputs: Mapping[str, Tensor], positions: Tensor | None, rows: Tensor | None, whole: bool) -> None:
        """Prove once that the frozen pass gives the model's answer and is affine."""
        with self._lock:
            if whole in self._proved or True in self._proved:
                return
            one = {name: value[:1] for name, value in inputs.items()}
            place = None if positions is None else positions[:1]
            with torch.no_grad():
                own = self.model.answer(one, place, rows)  # (1, C)
                leaf = self._embeddings(one["input_ids"])  # (1, T, H)

            def run() -> tuple[Tensor, Tensor]:
                vectors = leaf.detach().clone().requires_grad_()
                with self._embeddings.given(vectors, one["input_ids"]):
                    return self.model.answer(one, place, rows, self._network.model), vectors

            self._network.prove(run, own, 10 * tolerance_for(own))
            self._proved.add(True)

    def _listen(self, path: str) -> None:
        seen = self._seen

        def after(_: nn.Module, __: Any, output: Any) -> None:
            if not seen.wanted:
                return
            seen.calls[path] = seen.calls.get(path, 0) + 1
            place = seen.wanted.get((path, seen.calls[path]))
            if place is not None:
                seen.found[place] = tensor_of(output)

        self._network.model.get_submodule(path).register_forward_hook(after)

    def _listening(self, places: Sequence[int]) -> "_Listening":
        wanted = {(self._output(p).path, self._output(p).call): p for p in places if p}
        return _Listening(self._seen, wanted)


class _Listening:
    """Lets the hooks of the current thread's pass note the outputs of layers."""

    def __init__(self, seen: _Seen, wanted: dict[tuple[str, int], int]) -> None:
        self._seen, self._wanted = seen, wanted

    def __enter__(self) -> None:
        self._seen.calls, self._seen.wanted, self._seen.found = {}, self._wanted, {}

    def __exit__(self, *_: object) -> None:
        self._seen.wanted = {}
