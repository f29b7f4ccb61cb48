"""Inputs that are not texts, such as pictures, sounds and series of numbers: their parts are tokens without a text."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ..errors import UnsupportedModelError
from ..inputs.batches import Batch
from ..inputs.encoding import Encoding
from ..results.units.media import Medium, medium_class
from ..results.units.units import UnitKind, Units
from .base import Needed, PositionCount, Task, TokenLimits

if TYPE_CHECKING:
    from ..model.task_model import TaskModel


class ReadsSignals(Task):
    """The base of tasks whose inputs are not texts.

    The parts of an input (patches, frames, steps) are its tokens, and its encoding has an `EncodedSignal`. Inputs are
    never padded: a batch holds inputs of one shape. `result_kind` is the kind of its medium, whose class an extension
    names in `Extension.media`. A subclass has `encode` and `medium_of`, and for modules that are not of transformers
    `probes`.
    """

    def medium_of(self, encoding: Encoding) -> Medium | None:
        """Return an input with the places of its parts; None if they have none.

        Args:
            encoding: The encoding of the input; `first` of the medium is the first of its tokens that has a place.
        """
        raise NotImplementedError

    @classmethod
    def tokenizer_of(cls, reader: Any) -> Any:
        """Return any reader, or none: there is no tokenizer."""
        return reader

    def limits(self, model: nn.Module, positions: PositionCount) -> TokenLimits:
        """Return no limit: what reads an input brings it to the size that the model reads."""
        return TokenLimits(None)

    def add_inputs(self, batch: Batch, model: "TaskModel", *, encode_sources: bool = True) -> Batch:
        """Return a batch with the signals, which have one shape, and token ids of zero."""
        # The condition is for the type checker alone: each input of these tasks has a signal.
        signals = [encoding.signal.inputs for encoding in batch.encodings if encoding.signal is not None]
        inputs = {name: torch.stack([signal[name] for signal in signals]).to(model.device) for name in signals[0]}
        no_tokens = torch.zeros_like(batch.inputs["input_ids"])  # (B, T)
        return replace(batch, inputs=batch.inputs | {"input_ids": no_tokens} | inputs)

    def check_input(self, model: "TaskModel", needed: Needed) -> None:
        """Refuse to read such an input as words."""
        if needed == "one input":
            return
        raise UnsupportedModelError(
            f"this needs {needed}, and an input of {model.name} is of the kind {self.result_kind}: call the explainer "
            "on it, with frozen-gradient, normxlogit or logat"
        )

    def units(self, encoding: Encoding) -> tuple[Units, tuple[Medium, ...]]:
        """Return the parts of an input, with the places of those that have one; those of padding are special."""
        medium = self.medium_of(encoding)
        kind = medium_class(self.result_kind).unit_kind
        kinds: tuple[UnitKind, ...] = tuple("token" if special else kind for special in encoding.special)
        units = Units(kind=kinds, text=encoding.tokens, special=encoding.special, sequence=encoding.sequence_ids)
        if medium is None:
            return units, ()
        special = np.ones(len(units), bool)  # tokens without a place, such as a class token
        special[medium.units] = medium.sizes.ravel() == 0  # padding has a place without area or duration
        return replace(units, special=tuple(special.tolist())), (medium,)
