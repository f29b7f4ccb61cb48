"""Results: the attribution with its units and targets, collections and storage."""

from typing import TYPE_CHECKING

from ..extending import lazy_names

if TYPE_CHECKING:
    from .targets import Prediction, Target
    from .units.units import UnitScore
    from .verification import Verification

__all__ = ["Prediction", "Target", "UnitScore", "Verification"]

__getattr__ = lazy_names(
    __name__, {"targets": ("Prediction", "Target"), "units.units": ("UnitScore",), "verification": ("Verification",)}
)
