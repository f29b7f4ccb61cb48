"""What the calls of this package's extensions take and return, for type checkers: the base of `Explainer` there."""

from .grounding import call as _grounding
from .interactions import call as _interactions
from .media.speech import call as _speech
from .model_comparison import call as _model_comparison
from .recorded import call as _recorded
from .similarity import call as _similarity

class Calls:
    cite = _grounding.cite
    compare_models = _model_comparison.compare_models
    from_outputs = _recorded.from_outputs
    pairs = _interactions.pairs
    similarity = _similarity.similarity
    transcribe = _speech.transcribe
