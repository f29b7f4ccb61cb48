"""The sentences of an answer with what orders them, measured by one model."""

from collections.abc import Sequence

from ...model.task_model import TaskModel
from ...text.boundaries import sentence_spans
from ..calibration import Calibration
from ..facts import ComparedText
from ..measured import RankedSentence
from ..ranking import share_in_one
from .passages import passage_gains


def rank_sentences(
    model: TaskModel, sentences: Sequence[str], sources: Sequence[str], calibration: Calibration | None = None
) -> tuple[RankedSentence, ...]:
    """Measure what orders the sentences of an answer: the lower the support, the more doubtful.

    Args:
        model: A language model.
        sentences: The sentences, of one answer or of several about the same sources.
        sources: The texts of the sources, such as whole documents.
        calibration: The model's, see `calibration_for`; None for no probabilities.
    """
    source_sentences = [ComparedText(text[start:end]) for text in sources for start, end in sentence_spans(text)]
    ranked = list[RankedSentence]()
    for sentence, gain in zip(sentences, passage_gains(model, sentences, sources), strict=True):
        measured = RankedSentence(share_in_one(sentence, source_sentences), gain)
        if calibration is not None:
            measured = measured._replace(probability=calibration.probability(measured.support))
        ranked.append(measured)
    return tuple(ranked)
