"""What the calls of this package's extensions take and return, for type checkers: the base of `Explainer` there."""

from .grounding import call as _grounding
from .recorded import call as _recorded
from .similarity import call as _similarity

class Calls:
    cite = _grounding.cite
    from_outputs = _recorded.from_outputs
    similarity = _similarity.similarity
