"""Results: the attribution with its units and targets, collections, citations and storage."""

from .citations import Support
from .targets import Prediction, Target
from .units.words import UnitScore
from .verification import Verification

__all__ = ["Prediction", "Support", "Target", "UnitScore", "Verification"]
