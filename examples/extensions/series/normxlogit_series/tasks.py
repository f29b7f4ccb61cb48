"""A task whose input is a series of numbers: its classification by a module that reads (B, T, 1) or (B, 1, T)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normxlogit.copies.clone import override_forward
from normxlogit.inputs.encoded_media import EncodedSignal
from normxlogit.inputs.encoding import Encoding
from normxlogit.tasks.classification import Classification
from normxlogit.tasks.signals import ReadsSignals
from normxlogit_series import SERIES
from normxlogit_series.medium import SeriesScores


@dataclass(frozen=True)
class Series(EncodedSignal):
    """A series as a module reads it."""

    def without(self, tokens: Collection[int]) -> "Series":
        """Return it with the mean of the other steps in the place of some."""
        values = self.inputs["series"].clone()  # (T, 1)
        others = [step for step in range(len(values)) if step not in tokens]
        values[list(tokens)] = values[others].mean(0) if others else 0.0
        return replace(self, inputs={"series": values})


class SeriesClassification(ReadsSignals, Classification):
    """Classification of series: `explainer([0.1, 0.5, 0.2])`."""

    name = SERIES.name
    models = SERIES.models
    result_kind = "series"

    def adapt(self, module: nn.Module) -> bool:
        """Make a copy of a module that reads (B, 1, T), as convolutions do, read (B, T, 1)."""
        if not getattr(module, "channels_first", False):
            return False
        override_forward(module, lambda original, series, **_: original(series.transpose(1, 2)))
        return True

    def caller_inputs(self, inputs: dict[str, Tensor], batch: Any, device: torch.device) -> dict[str, Tensor]:
        """Return the inputs as the caller's own module takes them, with which an adapted copy is compared."""
        return {"series": inputs["series"].transpose(1, 2)}

    def probes(self, module: nn.Module) -> Sequence[Mapping[str, Tensor]]:
        """Return four series of noise."""
        noise = torch.randn(4, 1, 8, 1, generator=torch.Generator().manual_seed(0))
        return [{"series": series} for series in noise]

    def encode(self, model: Any, inputs: Any, **options: Any) -> tuple[list[Encoding], bool]:
        """Encode one series or several."""
        single = len(inputs) > 0 and np.ndim(inputs[0]) == 0
        return [encoded(series) for series in ([inputs] if single else inputs)], single

    def medium_of(self, encoding: Encoding) -> SeriesScores:
        """Return the series, each of whose tokens is a step."""
        starts = np.arange(len(encoding), dtype=np.float32)  # (T,)
        return SeriesScores(name="series", first=0, places=np.stack([starts, starts + 1], -1))


def encoded(series: Any) -> Encoding:
    """Return the encoding of a series, a token for each step."""
    values, count = torch.tensor(np.asarray(series, np.float32))[:, None], len(series)  # (T, 1)
    return Encoding(
        {"input_ids": list(range(count))},
        tokens=tuple(map(str, range(count))),
        text=None,
        offsets=None,
        words=None,
        sequence_ids=(0,) * count,
        special=(False,) * count,
        signal=Series((tuple(values.shape),), {"series": values}),
    )
