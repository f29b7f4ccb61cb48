"""Tasks for modules of one's own: the classification of series of numbers, and grades of texts."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from normxlogit.copies.clone import override_forward
from normxlogit.inputs.encoding import EncodedSignal, Encoding
from normxlogit.tasks.classification import Classification
from normxlogit.tasks.signals import ReadsSignals
from normxlogit.tasks.task_outputs import Outputs
from normxlogit_series import GRADES, SERIES
from normxlogit_series.medium import SeriesScores


@dataclass(frozen=True)
class Series(EncodedSignal):
    """A series as a module reads it."""

    def without(self, tokens):
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

    def adapt(self, module):
        """Bring series to modules that read (B, 1, T), as convolutions do."""
        if not getattr(module, "channels_first", False):
            return False
        override_forward(module, lambda original, series, **_: original(series.transpose(1, 2)))
        return True

    def caller_inputs(self, inputs, batch, device):
        """Return the inputs as the caller's module takes them."""
        return {"series": inputs["series"].transpose(1, 2)}

    def probes(self, module):
        """Return four series of noise."""
        noise = torch.randn(4, 1, 8, 1, generator=torch.Generator().manual_seed(0))
        return [{"series": series} for series in noise]

    def encode(self, model, inputs, *, long_text=None):
        """Encode one series or several."""
        single = np.ndim(inputs[0]) == 0
        return [encoded(series) for series in ([inputs] if single else inputs)], single

    def medium_of(self, encoding):
        """Return the series, each of whose tokens is a step."""
        starts = np.arange(len(encoding), dtype=np.float32)  # (T,)
        return SeriesScores(name="series", first=0, places=np.stack([starts, starts + 1], -1))


def encoded(series):
    """Return the encoding of a series."""
    values, count = torch.tensor(np.asarray(series, np.float32))[:, None], len(series)
    signal = Series((tuple(values.shape),), {"series": values})
    names, ids = tuple(map(str, range(count))), {"input_ids": list(range(count))}
    return Encoding(ids, names, None, None, (0,) * count, (False,) * count, signal=signal)


class Grades(Outputs):
    """Grades, which are drawn with the word before them."""

    def name_of(self, index):
        """Return the name of a grade."""
        return f"grade {self.labels[index]}"


class Grading(Classification):
    """A text task that declares what its outputs are."""

    name = GRADES.name
    models = GRADES.models
    outputs = Grades(("A", "B", "C"))
