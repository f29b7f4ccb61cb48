"""An encoder-decoder language model frozen at its forward pass: contributions of the source and of the decoder."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError
from ..inputs.batching import Batch
from ..surgery.autocast import without_autocast
from ..surgery.layer_outputs import LayerOutput, layer_outputs
from ..surgery.pool import private_clone
from ..surgery.readout import PLAIN, Readout, read_out
from ..surgery.trace import hidden_of, trace
from .embeddings import table_of
from .forward_pass import ForwardPass, FrozenPass
from .frozen_model import LONG, FrozenModel
from .proof import reading
from .task_model import TaskModel

__all__ = ["SOURCE", "FrozenSeq2Seq"]

SOURCE = -1_000_000
"""The place of the source's word embeddings; the output of layer l of the encoder is l above it."""


class _Sides(threading.local):
    """What the current thread puts in the place of word embeddings: of each side its token ids and vectors."""

    waiting: tuple[tuple[Tensor, Tensor], ...] = ()
    """Those that were not looked up yet."""


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
        self._sides = _Sides()
        self._layers: tuple[LayerOutput, ...] | None = None
        for table in {id(table): table for table in self._tables()}.values():
            table.register_forward_hook(self._placed)

    def run_both(
        self, batch: Batch, layers: Sequence[int], *, point: float = 1.0, sink_threshold: float | None = None
    ) -> ForwardPass:
        """Run the frozen network once over a source and a completion; its answers are the model's own.

        Args:
            batch: One text, from `Seq2SeqModel.with_source`.
            layers: Where contributions of the source will be wanted: 0 for its word embeddings, or layers of the
                encoder. Those of the decoder are read at its word embeddings.
            point: What the word embeddings of both sides are multiplied by.
            sink_threshold: As for `run`.

        Raises:
            UnsupportedModelError: If the network is not affine once frozen, or the encoder has no such layer.
        """
        self._prove(batch)
        long = batch.mask.numel() + batch.inputs["source"].numel() > LONG
        outputs = self._encoder_layers(batch) if any(layers) or long or sink_threshold is not None else ()
        vectors = self.sides(batch.inputs)  # (1, S, H), (1, T, H)
        read = [read_out(side * point) for side in vectors]
        readouts = {0: read[1][1]} | ({SOURCE: read[0][1]} if 0 in layers else {})
        flowing = [read[0][0] if 0 in layers else vectors[0] * point, read[1][0]]
        with ExitStack() as stack:
            record = stack.enter_context(self.model.copy.recording(stop=True))
            stack.enter_context(reading(self.module, batch.inputs))
            stack.enter_context(without_autocast(batch.inputs))
            stack.enter_context(self._given(batch.inputs, flowing))
            seen = stack.enter_context(self._reading_both(layers, outputs, batch, sink_threshold))
            stack.enter_context(self._network.frozen())
            if long:
                stack.enter_context(self._network.sparing())
            with self._watched():
                self._network.model(**batch.inputs)
        hidden, record.trunk, record.embedded = hidden_of(record.trunk), None, None
        readouts |= seen
        if hidden is None or not readouts.keys() >= {SOURCE + layer for layer in layers}:
            raise UnsupportedModelError(f"{type(self.module).__name__} does not give its layers' outputs")
        with torch.no_grad():
            run = self.model.finish(batch, hidden.detach(), vectors[1] * point, None, None, False)
        return replace(run, frozen=FrozenPass(readouts, hidden))

    def encoder_layers(self, batch: Batch, read_at: int | str) -> tuple[int, ...]:
        """Return the layers of the encoder that a setting means, 0 for the word embeddings.

        Args:
            batch: A text to find the layers with.
            read_at: As in `FrozenGradient`.

        Raises:
            UnsupportedModelError: If there is no such layer.
        """
        if read_at == 0:
            return (0,)
        count = len(self._encoder_layers(batch))
        if read_at == "all":
            return tuple(range(1, count)) or (0,)
        if not count:
            raise UnsupportedModelError(
                f"no module of the encoder of {type(self.module).__name__} returns its layers' outputs, so the source "
                "can be read at its word embeddings alone: read_at=0"
            )
        place = count // 2 if read_at == "middle" else int(read_at)
        place = count + place if place < 0 else place
        if not 0 <= place <= count:
            raise UnsupportedModelError(f"read_at={read_at}: the encoder has layers 1 to {count}")
        return (place,)

    def sides(self, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the word embeddings of source and decoder, (1, S, H) and (1, T, H)."""
        with torch.no_grad():
            return [table(own).detach().clone() for table, own in zip(self._tables(), _ids(inputs), strict=True)]

    def _find_token_tables(self, inputs: dict[str, Tensor]) -> None:
        """Find none: what both sides look up is given by their own hooks."""

    def _from_leaf(self, inputs: dict[str, Tensor], place: Tensor | None, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the answer to one text, and the word embeddings of both sides in one row."""
        both = self.sides(inputs)
        leaf = torch.cat([vectors.flatten() for vectors in both]).requires_grad_()  # (S H + T H,)
        parts = leaf.split([vectors.numel() for vectors in both])
        placed = [part.view_as(vectors) for part, vectors in zip(parts, both, strict=True)]
        with self._given(inputs, placed):
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
    def _reading_both(
        self, layers: Sequence[int], outputs: tuple[LayerOutput, ...], batch: Batch, threshold: float | None
    ) -> Iterator[dict[int, Readout]]:
        """Read contributions at layers of the encoder in this thread and block, and sinks of both sides above them."""
        held = threshold is not None
        above = range(max(min(layers), 1), len(outputs) + 1) if held else ()
        wanted = {
            (outputs[layer - 1].path, outputs[layer - 1].call): (SOURCE + layer, PLAIN)
            for layer in {*layers, *above} - {0}
        }
        own = (self.model.parts.outputs or ()) if held else ()
        wanted |= {(output.path, output.call): (layer, output.axes) for layer, output in enumerate(own, 1)}
        masks = {False: batch.mask, True: batch.inputs["source_mask"][..., 0].bool()}
        with self._listen_for(wanted, masks, threshold) as readouts:
            yield readouts

    @contextmanager
    def _given(self, inputs: Mapping[str, Tensor], vectors: Sequence[Tensor]) -> Iterator[None]:
        """Let the network read vectors where it would read the embeddings of both sides, in this thread and block.

        Raises:
            UnsupportedModelError: At the end of the block, if it did not look both up.
        """
        sides = self._sides
        sides.waiting = tuple(zip(_ids(inputs), vectors, strict=True))
        try:
            yield
        finally:
            left, sides.waiting = len(sides.waiting), ()
        if left:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} does not look its tokens up in its tables of word embeddings, so that "
                "nothing can be put in their place; normxlogit scores the decoder's tokens, and occlusion the sources"
            )

    def _placed(self, _: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor | None:
        """Put the vectors of the first side that has these ids, and was not looked up yet, in the place of a lookup."""
        waiting = self._sides.waiting
        for side, (ids, vectors) in enumerate(waiting):
            width = ids.shape[1]
            if args and torch.equal(args[0][..., :width], ids):  # padded by the model itself
                self._sides.waiting = waiting[:side] + waiting[side + 1 :]
                return torch.cat((vectors, output[:, width:]), 1)
        return None

    def _encoder_layers(self, batch: Batch) -> tuple[LayerOutput, ...]:
        """Return the modules that return the outputs of the encoder's layers, found once, and listen; () if unknown."""
        if self._layers is not None:
            return self._layers
        reference = private_clone(self.model.copy.reference)
        ids = batch.inputs["source"][..., 0]  # (1, S)
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
        calls, outputs = trace(reference, given | {"decoder_input_ids": batch.inputs["input_ids"]})
        encoder: Any = cast(Any, reference).get_encoder()
        path = next(path for path, module in reference.named_modules() if module is encoder)
        states = outputs.get("encoder_hidden_states") or ()
        plain = len(states) > 1 and all(isinstance(state, Tensor) for state in states)
        found = layer_outputs(calls, path, states) if plain else None
        if found is None or any(output.axes != PLAIN for output in found):
            found = ()
        with self._lock:
            if self._layers is None:
                for path in {output.path for output in found}:
                    self._listen(path)
                self._network.cut_at({output.path for output in found})
                self._layers = found
        return self._layers


def _ids(inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the token ids of source and decoder, (1, S) and (1, T)."""
    return inputs["source"][..., 0], inputs["input_ids"]
