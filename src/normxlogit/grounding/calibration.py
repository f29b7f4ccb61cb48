"""From the number that ranks a sentence to a probability, where somebody has labelled sentences for this reader.

Platt's curve (Platt, 1999): p = 1 / (1 + exp(-(slope * support + intercept))), fitted to sentences that are known to be
supported by their documents or not. A calibration belongs to the model whose readings it was fitted to, and is applied
to no other; without one there is no probability. `normxlogit calibrate` fits one for the user's model.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..loading.model_files import FOLDER_VARIABLE, cache_folder
from ..long_runs.identity import Identity
from ..long_runs.model_identity import identity_of
from ..model.task_model import TaskModel
from ..results.storage.files import read_json, write_json
from ..results.storage.schema import Index, Number, check, plain

Array = npt.NDArray[np.float64]

LEAST_OF_EACH = 20
"""Least supported and least unsupported sentences that a curve is fitted to."""


OF_PACKAGE = Path(__file__).with_name("calibration.json")
"""The package's calibration, of one reader."""


class Calibration(NamedTuple):
    """A curve from support to probability, and the model whose readings it was fitted to."""

    slope: Number
    intercept: Number
    reader: str  # the model's name, for people
    data: str  # what the sentences are from, for people
    sentences: Index  # how many
    parameters: Index  # of the model, by which others are refused without reading their weights
    identity: Identity

    def probability(self, support: float) -> float:
        """Return the probability that the documents support a sentence."""
        return float(curve(np.array(support), self.slope, self.intercept))

    def is_of(self, model: TaskModel) -> bool:
        """Return whether it was fitted to the readings of a model as it is now."""
        return self.parameters == parameter_count(model) and self.identity.is_same(identity_of(model))


def curve(supports: Array, slope: float, intercept: float) -> Array:
    """Return the probability of each support, of any shape."""
    logits = np.clip(slope * supports + intercept, -500, 500)  # beyond these a float is 0 or 1
    probabilities: Array = 1 / (1 + np.exp(-logits))
    return probabilities


def fit(model: TaskModel, supports: Array, is_supported: npt.NDArray[np.bool_], data: str) -> Calibration:
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
    identity, name = identity_of(model), model.name or "the model"
    return Calibration(slope, intercept, name, data, len(supports), parameter_count(model), identity)


def platt(supports: Array, is_supported: npt.NDArray[np.bool_]) -> tuple[float, float]:
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
    both_labels = np.concatenate([is_supported, ~is_supported])  # (2n,)
    weights = np.concatenate([of_label, 1 - of_label])  # (2n,)
    regression = LogisticRegression(C=np.inf).fit(np.tile(supports, 2)[:, None], both_labels, weights)
    return float(regression.coef_[0, 0]), float(regression.intercept_[0])


def parameter_count(model: TaskModel) -> int:
    """Return the number of a model's parameters."""
    return sum(parameter.numel() for parameter in model.caller_model.parameters())


def calibration_for(model: TaskModel) -> Calibration | None:
    """Return the calibration that was fitted to a model's readings, the user's before the package's; None without."""
    return next((calibration for calibration in _kept() if calibration.is_of(model)), None)


def save(calibration: Calibration) -> Path:
    """Keep a calibration in the cache, in place of an earlier one of the same model, and return its file."""
    folder = _folder()
    if folder is None:
        raise DataError(f"{FOLDER_VARIABLE} is empty, so that nothing is kept: set it to a folder, or unset it")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{calibration.identity.digest}.json"
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
    root = cache_folder()
    return None if root is None else root / "calibrations"


def _kept() -> Iterator[Calibration]:
    """Yield the user's calibrations, then the package's."""
    folder = _folder()
    for path in sorted(folder.glob("*.json")) if folder is not None else ():
        yield load(path)
    yield load(OF_PACKAGE)
