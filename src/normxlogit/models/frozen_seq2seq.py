"""The frozen form of an encoder-decoder language model: contributions of the source's and the decoder's tokens."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError
from ..frozen.readout import PLAIN, Readout, read_out, readers
from ..inputs.batching import Batch
from ..surgery.layer_outputs import LayerOutput, layer_outputs
from ..surgery.pool import private_clone
from ..surgery.run import Replace, in_turn
from ..surgery.trace import hidden_of, path_of, trace
from .embeddings import table_of
from .forward_pass import ForwardPass, no_states
from .frozen_model import FrozenModel
from .frozen_passes import Flow
from .layers import ReadAt, layers_read
from .task_model import TaskModel

SOURCE = -1_000_000
"""The place of the source's word embeddings; the output of layer l of the encoder is l above it."""


class FrozenSeq2Seq(FrozenModel):
    """An encoder-decoder model whose answers are affine in the word embeddings of both sides.

    A path from an embedding to the answer goes through the source's tokens or the decoder's, so the shares of both and
    the part of the biases add up to the answer, also where the source is read at a layer of the encoder: what reaches
    the decoder passes through every layer of it.
    """

    def __init__(self, model: TaskModel) -> None:
        super().__init__(model)
        self._layers: tuple[LayerOutput, ...] | None = None
        self._table_paths = [str(path_of(model.module, table)) for table in self._tables_of_sides()]

    def run_both(
        self, batch: Batch, layers: Sequence[int], *, point: float = 1.0, sink_threshold: float | None = None
    ) -> ForwardPass:
        """Run the frozen network once over a source and a completion; its answers are the model's own.

        Args:
            batch: One text, whose encoder has not run.
            layers: Where contributions of the source will be read: 0 for its word embeddings, or layers of the
                encoder. Those of the decoder are read at its word embeddings.
            point: What the word embeddings of both sides are multiplied by.
            sink_threshold: As for `run`.

        Raises:
            UnsupportedModelError: If the network is not affine once frozen, or the encoder has no such layer.
        """
        vectors = None if point == 1.0 else [side * point for side in self.sides(batch.inputs)]
        flow = partial(self._flow_of_both, layers=layers, sink_threshold=sink_threshold)
        return self._passes.run(batch, min(layers), flow, vectors, predict=False)

    def _flow_of_both(
        self,
        copy: nn.Module,
        batch: Batch,
        vectors: Sequence[Tensor] | None,
        *,
        layers: Sequence[int],
        sink_threshold: float | None,
    ) -> Flow:
        """Run a copy over a source and a completion, see `run_both`."""
        outputs = self._encoder_layers(batch)
        vectors = vectors or self.sides(batch.inputs)  # (1, S, H), (1, T, H)
        read = [read_out(side) for side in vectors]
        readouts = {0: read[1][1]} | ({SOURCE: read[0][1]} if 0 in layers else {})
        flowing = [read[0][0] if 0 in layers else vectors[0], read[1][0]]
        trunk = self.model.parts.trunk_site
        self._passes.encoder_layers |= {output.path for output in outputs}
        with self._replaced(batch.inputs, flowing) as words:
            layer_readers = self._readers_of_both(layers, outputs, batch, sink_threshold, readouts)
            replacing = in_turn(words, layer_readers)
            done = self._passes.forward(copy, batch, replace=replacing, stop=trunk)
        hidden = hidden_of(done.last(trunk))
        if hidden is None or not readouts.keys() >= {SOURCE + layer for layer in layers}:
            raise no_states(self.module)
        return Flow(readouts, [SOURCE + min(layers), 0], hidden, hidden, vectors[1])

    def encoder_layers(self, batch: Batch, read_at: ReadAt) -> tuple[int, ...]:
        """Return the layers of the encoder for a value of `read_at`, 0 for the word embeddings.

        Args:
            batch: A text to find the layers with.
            read_at: As in `FrozenGradient`.

        Raises:
            MethodError: If there is no such layer.
            UnsupportedModelError: If no module returns the outputs of layers.
        """
        if read_at == 0:
            return (0,)
        count = len(self._encoder_layers(batch))
        if not count and isinstance(read_at, int):
            raise UnsupportedModelError(
                f"no module of the encoder of {type(self.module).__name__} returns its layers' outputs, so the source "
                "can be read at its word embeddings alone: read_at=0"
            )
        return layers_read(read_at, count) if count else (0,)

    def sides(self, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the word embeddings of source and decoder, (1, S, H) and (1, T, H)."""
        with torch.no_grad():
            return [
                table(ids).detach().clone() for table, ids in zip(self._tables_of_sides(), _ids(inputs), strict=True)
            ]

    def _tables_of_sides(self) -> list[nn.Module]:
        """Return the embedding tables of encoder and decoder, which may be one module."""
        module = cast(Any, self.module)
        tables = [table for side in (module.get_encoder(), module.get_decoder()) if (table := table_of(side))]
        if len(tables) != 2:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} names no table of word embeddings for its encoder and its decoder, from "
                "which something would flow; normxlogit scores the decoder's tokens, and occlusion the sources"
            )
        return tables

    def _readers_of_both(
        self,
        layers: Sequence[int],
        outputs: tuple[LayerOutput, ...],
        batch: Batch,
        threshold: float | None,
        readouts: dict[int, Readout],
    ) -> dict[str, Replace]:
        """Return the `replace=` that reads contributions at encoder layers, and sinks of both sides above them."""
        held = threshold is not None
        above = range(max(min(layers), 1), len(outputs) + 1) if held else ()
        read = {SOURCE + layer: outputs[layer - 1] for layer in {*layers, *above} - {0}}
        decoder = (self.model.parts.outputs or ()) if held else ()
        masks = {False: batch.mask, True: batch.inputs["source_mask"][..., 0].bool()}
        return readers(read | dict(enumerate(decoder, 1)), masks, threshold, readouts, SOURCE + min(layers))

    @contextmanager
    def _replaced(self, inputs: Mapping[str, Tensor], vectors: Sequence[Tensor]) -> Iterator[dict[str, Replace]]:
        """Replace the word embeddings of both sides by other vectors in one pass.

        Yields:
            What `run` is to replace in a pass in this block.
        """
        waiting = list(zip(_ids(inputs), vectors, strict=True))

        def swap(output: Tensor, args: tuple[Any, ...], _: Any) -> Tensor | None:
            """Replace a lookup by the vectors of the first side that has these ids and was not looked up yet."""
            for side, (ids, values) in enumerate(waiting):
                width = ids.shape[1]
                if args and torch.equal(args[0][..., :width], ids):  # padded by the model itself
                    del waiting[side]
                    return torch.cat((values, output[:, width:]), 1)
            return None

        yield dict.fromkeys(self._table_paths, swap)
        if waiting:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} does not look its tokens up in its tables of word embeddings, so that "
                "nothing can be put in their place; normxlogit scores the decoder's tokens, and occlusion the sources"
            )

    def _encoder_layers(self, batch: Batch) -> tuple[LayerOutput, ...]:
        """Return the modules that return the outputs of the encoder's layers; () if unknown."""
        if self._layers is None:
            reference: Any = private_clone(self.model.copy.reference)
            inputs = self.model.task.caller_inputs(batch.inputs, batch, self.model.device)
            calls, outputs = trace(reference, {**inputs, "use_cache": False})
            states = outputs.get("encoder_hidden_states") or ()
            plain = len(states) > 1 and all(isinstance(state, Tensor) for state in states)
            layers = layer_outputs(calls, path_of(reference, reference.get_encoder()), states) if plain else None
            self._layers = () if layers is None or any(layer.axes != PLAIN for layer in layers) else layers
        return self._layers


def _ids(inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the token ids of source and decoder, (1, S) and (1, T)."""
    return inputs["source"][..., 0], inputs["input_ids"]
