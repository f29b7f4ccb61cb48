"""The sentences of an answer with what orders them, measured by one model."""

from collections.abc import Sequence
from typing import NamedTuple

from ...model.task_model import TaskModel
from ..calibration import Calibration
from ..ranking import SharedWords, shared_words, support
from .passages import PassageGain, passage_gains


class RankedSentence(NamedTuple):
    """A sentence of an answer, with what orders it among the others.

    Attributes:
        shared: The sentence of the sources that has most of its long words.
        passage: The passage that has most of them, and how much likelier the sentence makes it; None without sources.
        support: The number that orders sentences: the lower, the more doubtful.
        probability: That the sources support it, where the model was calibrated; None otherwise.
    """

    shared: SharedWords
    passage: PassageGain | None
    support: float
    probability: float | None


def rank_sentences(
    model: TaskModel, sentences: Sequence[str], sources: Sequence[str], calibration: Calibration | None = None
) -> tuple[RankedSentence, ...]:
    """Measure what orders the sentences of an answer; their order is `ranking.most_doubtful_first` of the supports.

    Args:
        model: A language model.
        sentences: The sentences, of one answer or of several about the same sources.
        sources: The texts of the sources, such as whole documents.
        calibration: The model's, see `calibration_for`; None for no probabilities.
    """
    ranked = list[RankedSentence]()
    for sentence, gain in zip(sentences, passage_gains(model, sentences, sources), strict=True):
        shared = shared_words(sentence, sources)
        value = support(shared.share, 0.0 if gain is None else gain.nats)
        probability = None if calibration is None else calibration.probability(value)
        ranked.append(RankedSentence(shared, gain, value, probability))
    return tuple(ranked)
