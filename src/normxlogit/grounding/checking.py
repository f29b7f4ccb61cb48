"""A second opinion on the sentences of an answer: a classifier of pairs of texts that knows entailment."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..results.storage.schema import Number
from .verdicts import Opinion

if TYPE_CHECKING:
    from ..explainer import Explainer
    from ..results.attribution import Attribution

SOURCES = 3
"""How many of a sentence's first sources are compared with it."""

WORDS = 3
"""Most words of either text that are named as those that decided."""


class Check(NamedTuple):
    """What a checker, a classifier of pairs of texts, predicts of a source and a sentence.

    Attributes:
        source: The place of the source among all; -1 if none was compared.
        label: The predicted label.
        probability: Its probability.
        source_words: The words of the source that speak most for the label, the first one most.
        words: Those of the sentence.
    """

    source: int = -1
    label: str = ""
    probability: Number = 0.0
    source_words: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def opinion(self) -> Opinion:
        """What the source makes of the sentence; empty if the checker leaves that open."""
        label = self.label.casefold()
        return "entails" if label.startswith("entail") else "contradicts" if label.startswith("contra") else ""

    def weight(self) -> tuple[bool, float]:
        """Return how much it counts among comparisons of a sentence with several sources."""
        return bool(self.opinion), self.probability

    def described(self) -> str:
        """Return the label with its probability, and the words that decided, as a text."""
        words, source_words = ", ".join(self.words), ", ".join(self.source_words)
        deciding = f' by "{words}" and of the source "{source_words}"' if words or source_words else ""
        return f"checker: {self.label} {self.probability:.0%}{deciding}"


def checker_of(checker: Any) -> "Explainer":
    """Return the explainer of a checker.

    Args:
        checker: An explainer, or a pipeline, of a classifier of pairs of texts.

    Raises:
        InputError: If it has no label whose name begins with "entail".
    """
    from ..explainer import Explainer

    explainer = checker if isinstance(checker, Explainer) else Explainer(checker)
    labels = explainer.task_model.task.outputs.labels
    if not any(label.casefold().startswith("entail") for label in labels):
        raise InputError(f"checker= is a classifier with a label called entailment; the labels are {labels or 'none'}")
    return explainer


def checks(
    checker: "Explainer", sentences: Sequence[str], sources: Sequence[Sequence[tuple[int, str]]]
) -> tuple[Check, ...]:
    """Compare each sentence with its sources, and explain the comparison that decides.

    That is the one with the highest probability among those that predict entailment or contradiction, if any do.

    Args:
        checker: The explainer of a classifier of pairs of texts.
        sentences: The sentences.
        sources: The sources of each, by place and text, the first ones first; `SOURCES` of them are compared.
    """
    groups = [[source for source in ranked if source[1].strip()][:SOURCES] for ranked in sources]
    pairs = [(text.strip(), sentence) for sentence, group in zip(sentences, groups, strict=True) for _, text in group]
    explained = iter(checker(pairs) if pairs else ())
    compared = [[_check(next(explained), place) for place, _ in group] for group in groups]
    return tuple(max(group, key=Check.weight, default=Check()) for group in compared)


def _check(explained: "Attribution", source: int) -> Check:
    """Return the comparison of a source with a sentence, with the words that speak most for what it predicts."""
    prediction, words = explained.predictions[0], []
    for sequence in (0, 1):
        ranked = sorted(explained.words(sequence=sequence), key=lambda word: -word.score)
        words.append(tuple(word.text for word in ranked[:WORDS] if word.score > 0))
    return Check(source, prediction.label, float(prediction.probability or 0.0), *words)
