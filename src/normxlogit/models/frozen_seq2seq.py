"""An encoder-decoder language model frozen at its forward pass: slopes by what its encoder and its decoder read."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..errors import UnsupportedModelError
from ..inputs.batching import Batch
from ..surgery.isolated import private_clone, without_autocast
from ..surgery.layer_outputs import LayerOutput, layer_outputs
from ..surgery.trace import hidden_of, tensor_of, trace
from .embeddings import table_of
from .forward_pass import ForwardPass, FrozenPass
from .frozen_model import LONG, FrozenModel
from .proof import reading
from .task_model import TaskModel

__all__ = ["OWN", "SOURCE", "FrozenSeq2Seq"]

OWN, SOURCE = 0, 1
"""The places of a pass: the word embeddings of the decoder's tokens, and what is read of the source's."""


@dataclass
class _Held(threading.local):
    """What the current thread puts in the place of word embeddings, and what it waits for.

    Attributes:
        given: For each side its token ids and vectors, as long as they were not looked up.
        wanted: The encoder's layer whose output is read, and at which of the module's calls; None for the embeddings.
        calls: How often that module was called.
        found: Its output.
    """

    given: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    wanted: LayerOutput | None = None
    calls: int = 0
    found: Tensor | None = None


class FrozenSeq2Seq(FrozenModel):
    """An encoder-decoder model whose answers are affine in the word embeddings of both sides.

    A path from an embedding to the answer goes through the source's tokens or the decoder's, so the shares of both and
    the part of the biases add up to the answer, also where the source is read at a layer of the encoder: what reaches
    the decoder passes through every layer of it.

    Args:
        model: The model, which has read something already.
        like: A frozen form of the same model, whose proof holds for this one.
    """

    def __init__(self, model: TaskModel, *, like: FrozenModel | None = None) -> None:
        super().__init__(model, like=like)
        self._sides = _Held()
        self._layers: tuple[LayerOutput, ...] | None = None
        for table in {id(table): table for table in self._tables()}.values():
            table.register_forward_hook(self._placed)

    def run_both(self, batch: Batch, layer: int, point: float = 1.0) -> ForwardPass:
        """Run the frozen network once over a source and what the decoder writes; its answers are the model's own.

        Args:
            batch: One text, from `Seq2SeqModel.with_source`.
            layer: Where the slopes by the source will be wanted: 0 for its word embeddings, or a layer of the encoder.
            point: What the word embeddings of both sides are multiplied by.

        Raises:
            UnsupportedModelError: If the network is not affine once frozen, or the encoder has no such layer.
        """
        self._prove(batch)
        long = batch.mask.numel() + batch.inputs["source"].numel() > LONG
        layers = self._encoder_layers(batch) if layer or long else ()
        output = layers[layer - 1] if layer else None
        leaves = [(vectors * point).requires_grad_() for vectors in self.sides(batch.inputs)]  # (1, S, H), (1, T, H)
        with ExitStack() as stack:
            record = stack.enter_context(self.model.copy.recording(stop=True))
            stack.enter_context(reading(self.module, batch.inputs))
            stack.enter_context(without_autocast(batch.inputs))
            stack.enter_context(self._given(batch.inputs, leaves, output))
            stack.enter_context(self._network.frozen())
            if long:
                stack.enter_context(self._network.sparing())
            with self._watched():
                self._network.model(**batch.inputs)
        hidden, record.trunk, record.embedded = hidden_of(record.trunk), None, None
        source = leaves[0] if output is None else self._sides.found
        self._sides.found = None
        if hidden is None or source is None:
            raise UnsupportedModelError(f"{type(self.module).__name__} does not give its layers' outputs")
        with torch.no_grad():
            run = self.model.finish(batch, hidden.detach(), leaves[1].detach(), None, None, False)
        return replace(run, frozen=FrozenPass({OWN: leaves[1], SOURCE: source}, hidden))

    def encoder_layer(self, batch: Batch, read_at: int | str) -> int:
        """Return the layer of the encoder that a setting means, 0 for the word embeddings.

        Args:
            batch: A text to find the layers with.
            read_at: As in `FrozenGradient`.

        Raises:
            UnsupportedModelError: If there is no such layer.
        """
        if read_at == 0:
            return 0
        count = len(self._encoder_layers(batch))
        place = count // 2 if read_at == "middle" else int(read_at)
        place = count + place if place < 0 else place
        if not 0 <= place <= count:
            raise UnsupportedModelError(f"read_at={read_at}: the encoder has layers 1 to {count}")
        return place

    def sides(self, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the word embeddings of source and decoder, (1, S, H) and (1, T, H)."""
        with torch.no_grad():
            return [table(own).detach().clone() for table, own in zip(self._tables(), _ids(inputs), strict=True)]

    def _from_leaf(self, inputs: dict[str, Tensor], place: Tensor | None, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the answer to one text, and the word embeddings of both sides in one row."""
        both = self.sides(inputs)
        leaf = torch.cat([vectors.flatten() for vectors in both]).requires_grad_()  # (S H + T H,)
        parts = leaf.split([vectors.numel() for vectors in both])
        placed = [part.view_as(vectors) for part, vectors in zip(parts, both, strict=True)]
        with self._given(inputs, placed, None):
            return self.model.answer(inputs, place, rows, self._network.model), leaf

    def _tables(self) -> list[nn.Module]:
        """Return what the encoder and the decoder look their tokens up in; it may be one module.

        Raises:
            UnsupportedModelError: If there is none.
        """
        network = cast(Any, self._network.model)
        found = [table for side in (network.get_encoder(), network.get_decoder()) if (table := table_of(side))]
        if len(found) != 2:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} names no table of word embeddings for its encoder and its decoder, from "
                "which something would flow; normxlogit scores the decoder's tokens, and occlusion the sources"
            )
        return found

    @contextmanager
    def _given(
        self, inputs: Mapping[str, Tensor], vectors: Sequence[Tensor], output: LayerOutput | None
    ) -> Iterator[None]:
        """Let the network read vectors where it would read the embeddings of both sides, in this thread and block.

        Raises:
            UnsupportedModelError: At the end of the block, if it did not look both up.
        """
        held = self._sides
        held.given, held.wanted, held.calls, held.found = list(zip(_ids(inputs), vectors, strict=True)), output, 0, None
        try:
            yield
        finally:
            left, held.given, held.wanted = len(held.given), [], None
        if left:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} does not look its tokens up in its tables of word embeddings, so that "
                "nothing can be put in their place; normxlogit scores the decoder's tokens, and occlusion the sources"
            )

    def _placed(self, _: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor | None:
        """Put the vectors of the first side that has these ids, and was not looked up yet, in the place of a lookup."""
        held = self._sides
        for place, (ids, vectors) in enumerate(held.given):
            width = ids.shape[1]
            if args and torch.equal(args[0][..., :width], ids):  # padded by the model itself
                held.given.pop(place)
                return torch.cat((vectors, output[:, width:]), 1)
        return None

    def _encoder_layers(self, batch: Batch) -> tuple[LayerOutput, ...]:
        """Return where the output of each layer of the encoder passes by, found once, and listen there."""
        if self._layers is not None:
            return self._layers
        reference = cast(PreTrainedModel, private_clone(self.model.copy.reference))
        ids = batch.inputs["source"][..., 0]  # (1, S)
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
        calls, outputs = trace(reference, given | {"decoder_input_ids": batch.inputs["input_ids"]})
        encoder: Any = cast(Any, reference).get_encoder()
        path = next(path for path, module in reference.named_modules() if module is encoder)
        states = outputs.get("encoder_hidden_states") or ()
        plain = len(states) > 1 and all(isinstance(state, Tensor) for state in states)
        found = layer_outputs(calls, path, states) if plain else None
        if found is None or any(output.axes != (0, 1, 2) for output in found):
            raise UnsupportedModelError(
                f"no module of the encoder of {type(self.module).__name__} returns its layers' outputs, so the source "
                "can be read at its word embeddings alone: read_at=0"
            )
        with self._lock:
            if self._layers is None:
                for layer in {output.path: output for output in found}:
                    self._network.model.get_submodule(layer).register_forward_hook(
                        lambda _, __, returned, layer=layer: self._passing(layer, returned)
                    )
                self._network.cut_at({output.path for output in found})
                self._layers = found
        return self._layers

    def _passing(self, path: str, returned: Any) -> None:
        held = self._sides
        if held.wanted is not None and held.wanted.path == path:
            held.calls += 1
            if held.calls == held.wanted.call:
                held.found = tensor_of(returned)

    def _shaped(self, held: Tensor, place: int) -> Tensor:
        return held


def _ids(inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the token ids of source and decoder, (1, S) and (1, T)."""
    return inputs["source"][..., 0], inputs["input_ids"]
