"""A second opinion on the sentences of an answer: a classifier of pairs of texts that knows entailment."""

from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..results.storage.schema import Index, Number
from .verdicts import Judgement, Verdict, says_it

if TYPE_CHECKING:
    from ..explainer import Explainer
    from ..results.attribution import Attribution
    from .result import Citations

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

    source: Index = -1
    label: str = ""
    probability: Number = 0.0
    source_words: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def judgement(self) -> Judgement:
        """The checker's own verdict."""
        label = self.label.casefold()
        return "rests" if label.startswith("entail") else "contradicts" if label.startswith("contra") else "cannot tell"

    def weight(self) -> tuple[bool, float]:
        """Return how much it counts among comparisons of a sentence with several sources."""
        return self.judgement != "cannot tell", self.probability


def combined(verdict: Verdict, check: Check | None) -> Judgement:
    """Return the verdict of the reader and a checker: where one cannot tell the other's, and where they differ none.

    A sentence rests on its sources only if the reader finds that they say it at all: no checker passes an invention.
    """
    reader, checker = verdict.judgement, "cannot tell" if check is None else check.judgement
    if "cannot tell" in (reader, checker):
        if reader == "cannot tell" and (checker != "rests" or says_it(verdict)):
            return checker
        return reader
    agree = reader == checker or (reader, checker) == ("not in the sources", "contradicts")
    return reader if agree else "cannot tell"


def checker_of(checker: Any) -> "Explainer":
    """Return the explainer of a checker: an explainer, or a pipeline, of a classifier of pairs of texts."""
    from ..explainer import Explainer

    explainer = checker if isinstance(checker, Explainer) else Explainer(checker)
    labels = explainer.task_model.task.outputs.labels
    if not any(label.casefold().startswith("entail") for label in labels):
        raise InputError(f"checker= is a classifier with a label called entailment; the labels are {labels or 'none'}")
    return explainer


def checks(checker: "Explainer", cited: "Citations") -> tuple[Check, ...]:
    """Compare each sentence with its first sources, and explain the comparison that decides.

    That is the one with the highest probability among those that predict entailment or contradiction, if any do.
    """
    ranked = [cited.top(SOURCES, sentence=k) for k in range(len(cited.sentences))]
    sources = [[source for source in group if source.text] for group in ranked]
    pairs = [(s.text, text.strip()) for text, group in zip(cited.sentences, sources, strict=True) for s in group]
    explained = iter(checker(pairs) if pairs else ())
    compared = [[_check(next(explained), source.source) for source in group] for group in sources]
    return tuple(max(group, key=Check.weight, default=Check()) for group in compared)


def _check(explained: "Attribution", source: int) -> Check:
    """Return the comparison of a source with a sentence, with the words that speak most for what it predicts."""
    prediction, words = explained.predictions[0], []
    for sequence in (0, 1):
        ranked = sorted(explained.words(sequence=sequence), key=lambda word: -word.score)
        words.append(tuple(word.text for word in ranked[:WORDS] if word.score > 0))
    return Check(source, prediction.label, float(prediction.probability or 0.0), *words)
