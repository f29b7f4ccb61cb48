"""Jobs, the kinds of corpus runs: predictions, completions, answers with documents, answers in conversations."""

from .base import Job, fields_of
from .citations import Answers, Conversations
from .completions import Completions
from .predictions import Predictions

__all__ = ["JOBS", "Answers", "Completions", "Conversations", "Job", "Predictions", "fields_of"]

JOBS: tuple[type[Job], ...] = (Predictions, Completions, Answers, Conversations)
