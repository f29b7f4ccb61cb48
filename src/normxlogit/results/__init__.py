"""What an explanation is: scores with everything needed to read, show and store them; the types of their parts."""

from .citations import Support
from .targets import Prediction, Target
from .units.words import UnitScore
from .verification import Verification

__all__ = ["Prediction", "Support", "Target", "UnitScore", "Verification"]
