"""From the number that ranks a sentence to a probability, where the user has labelled sentences for this reader.

Platt's curve (Platt, 1999): p = 1 / (1 + exp(-(slope * support + intercept))), fitted to sentences that are known to be
supported by their documents or not. It holds for the reader that measured them, and for sentences like them: so the
package has none, and `normxlogit calibrate` fits one to the user's own.

A reader is known by what it measures of a fixed text. So a calibration is kept whatever settings change that measure
nothing here (labels, limits, how answers are generated), and lost where the numbers change (weights, adapters,
quantisation, tokenizer, chat template).
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..errors import DataError
from ..loading.converted_gguf import FOLDER_VARIABLE, cache_folder
from ..model.task_model import TaskModel
from ..results.storage.files import read_json, write_json
from ..results.storage.schema import Index, Number, check, plain
from .citations.passages import token_gains
from .measured import RankedSentence

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.bool_]

LEAST_OF_EACH = 20
"""Least supported and least unsupported sentences that a curve is fitted to."""

FIXED = "The old movie was good.", "That old movie was never bad, and its plot was very good."
"""A sentence and a passage, by whose gains a reader is known."""

TOLERANCE = 1e-2
"""Most nats by which one reader's gains differ between devices."""


class Calibration(NamedTuple):
    """A curve from support to probability, and the reader whose measurements it was fitted to."""

    slope: Number
    intercept: Number
    data: str  # what the sentences are from, for people
    sentences: Index  # how many
    reader: tuple[Number, ...]  # what it gains of `FIXED`, in nats

    def applied(self, ranked: RankedSentence) -> RankedSentence:
        """Return a sentence with the probability that the documents support it."""
        probability = float(curve(np.array(ranked.support), self.slope, self.intercept))
        return ranked._replace(probability=probability, calibrated_on=self.data)

    def is_of(self, reader: tuple[float, ...]) -> bool:
        """Return whether it was fitted to the measurements of a reader, see `reader_of`."""
        # Another tokenizer divides `FIXED` into another number of tokens, and each has a gain.
        return len(self.reader) == len(reader) and np.allclose(self.reader, reader, rtol=0, atol=TOLERANCE)


def curve(supports: Array, slope: float, intercept: float) -> Array:
    """Return the probability of each support, of any shape."""
    # torch's, as NumPy has no sigmoid and its exp overflows where supports are very low.
    return torch.as_tensor(slope * supports + intercept).sigmoid().numpy()


def fit(model: TaskModel, supports: Array, is_supported: Labels, data: str) -> Calibration:
    """Fit a curve to sentences with labels.

    Args:
        model: The model that measured the supports.
        supports: The support of each sentence, (n,).
        is_supported: Whether its documents support it, (n,).
        data: What the sentences are from, for people.

    Raises:
        DataError: If there are too few sentences, or a higher support does not mean that more are supported.
    """
    counts = int(is_supported.sum()), int((~is_supported).sum())
    if min(counts) < LEAST_OF_EACH:
        labelled = f"{counts[0]} supported and {counts[1]} unsupported sentences"
        raise DataError(f"found {labelled}: a calibration needs {LEAST_OF_EACH} of each")
    slope, intercept = platt(supports, is_supported)
    if slope <= 0:
        raise DataError("this model's support is not higher where the labels say supported: there is no calibration")
    return Calibration(slope, intercept, data, sentences=len(supports), reader=reader_of(model))


def platt(supports: Array, is_supported: Labels) -> tuple[float, float]:
    """Return slope and intercept of Platt's curve.

    Of n sentences with a label, the probability of the label is taken to be (n + 1) / (n + 2) and not 1 (Platt, 1999,
    section 2.2), so that a few sentences that are told apart without a mistake do not give certainty.

    Args:
        supports: The support of each sentence, (n,).
        is_supported: Whether its documents support it, (n,).
    """
    from sklearn.linear_model import LogisticRegression

    counts = np.where(is_supported, is_supported.sum(), (~is_supported).sum())  # (n,)
    of_label = (counts + 1) / (counts + 2)  # (n,)
    # scikit-learn takes no probabilities for labels: each sentence is there with both, and weights say how likely.
    both_labels = np.concatenate([is_supported, ~is_supported])  # (2n,)
    weights = np.concatenate([of_label, 1 - of_label])  # (2n,)
    # An infinite C is no regularisation: the curve is the likeliest one.
    regression = LogisticRegression(C=np.inf).fit(np.tile(supports, 2)[:, None], both_labels, weights)
    return float(regression.coef_[0, 0]), float(regression.intercept_[0])


def reader_of(model: TaskModel) -> tuple[float, ...]:
    """Return what a model, as it is now, measures of a fixed text, by which it is known."""
    sentence, passage = FIXED
    (gains,) = token_gains(model, [sentence], [passage])
    return tuple(gains.tolist())


def calibration_for(model: TaskModel) -> Calibration | None:
    """Return the calibration that was fitted to a model's measurements; None without one."""
    calibrations = list(_kept().values())
    reader = reader_of(model) if calibrations else ()  # the model reads only where there is something to compare with
    return next((calibration for calibration in calibrations if calibration.is_of(reader)), None)


def save(calibration: Calibration) -> Path:
    """Keep a calibration in the cache, in place of an earlier one of the same model, and return its file."""
    folder = _folder()
    if folder is None:
        raise DataError(f"{FOLDER_VARIABLE} is empty, so that nothing is kept: set it to a folder, or unset it")
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"{hashlib.sha256(str(calibration.reader).encode()).hexdigest()[:16]}.json"
    # An earlier file has another name where the same reader measured slightly other gains, as on another device.
    path = next((path for path, earlier in _kept().items() if earlier.is_of(calibration.reader)), new)
    write_json(plain(calibration), path)
    return path


def load(path: Path) -> Calibration:
    """Read a calibration.

    Raises:
        DataError: If the file holds something else.
    """
    try:
        calibration: Calibration = check(Calibration)(read_json(path))
    except ValueError as error:
        raise DataError(f"{path}: not a calibration: {error}") from None
    return calibration


def _folder() -> Path | None:
    root = cache_folder()  # None where the user has turned the cache off
    return None if root is None else root / "calibrations"


def _kept() -> dict[Path, Calibration]:
    """Return the user's calibrations by their files."""
    folder = _folder()
    return {path: load(path) for path in sorted(folder.glob("*.json"))} if folder is not None else {}
