"""The sentences of an answer with what orders them, measured by one model."""

from collections.abc import Sequence
from dataclasses import replace

from ...model.task_model import TaskModel
from ...text.boundaries import sentence_spans
from ..calibration import Calibration, calibration_for
from ..facts import ComparedText
from ..measured import RankedSentence
from ..ranking import share_in_one
from ..result import Citations
from .passages import passage_gains


def rank_sentences(
    model: TaskModel,
    sentences: Sequence[str],
    sources: Sequence[str],
    missing: Sequence[int],
    calibration: Calibration | None = None,
) -> tuple[RankedSentence, ...]:
    """Measure what orders the sentences of an answer: the lower the support, the more doubtful.

    Args:
        model: A language model.
        sentences: The sentences, of one answer or of several about the same sources.
        sources: The texts of the sources, such as whole documents.
        missing: How many numbers and names of each sentence stand nowhere.
        calibration: The model's, see `calibration_for`; None for no probabilities.
    """
    source_sentences = [ComparedText(text[start:end]) for text in sources for start, end in sentence_spans(text)]
    measured = zip(sentences, passage_gains(model, sentences, sources), missing, strict=True)
    ranked = [RankedSentence(share_in_one(each, source_sentences), gain, count) for each, gain, count in measured]
    return tuple(ranked if calibration is None else map(calibration.applied, ranked))


def with_ranking(model: TaskModel, cited: Citations) -> Citations:
    """Return an answer with what orders its sentences; with probabilities where the model was calibrated.

    Args:
        model: The model that read the answer.
        cited: The answer.
    """
    sentences = [sentence.strip() for sentence in cited.sentences]
    missing = [sum(word.kind != "word" for word in facts.missing) for facts in cited.facts]
    # Each document, or message, from its first source to its last one.
    documents = [cited.text[spans[0][0] : spans[-1][1]] for spans in cited.document_spans.values()]
    ranking = rank_sentences(model, sentences, documents, missing, calibration_for(model))
    return replace(cited, ranking=ranking)
