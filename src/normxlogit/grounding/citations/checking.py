"""A second opinion on the sentences of an answer: a classifier of pairs of texts that knows entailment."""

from typing import Any

from ...errors import InputError
from ...explainer import Explainer
from ...results.attribution import Attribution
from ..result import Citations
from ..verdicts import Check

SOURCES = 3
"""How many of a sentence's first sources are compared with it."""

WORDS = 3
"""Most words of either text that are named as those that decided."""


def checker_of(checker: Any) -> Explainer:
    """Return the explainer of a checker.

    Args:
        checker: An explainer, or a pipeline, of a classifier of pairs of texts with a label called entailment.
    """
    explainer = checker if isinstance(checker, Explainer) else Explainer(checker)
    labels = explainer.task_model.task.outputs.labels
    if not any(label.casefold().startswith("entail") for label in labels):
        raise InputError(f"checker= is a classifier with a label called entailment; the labels are {labels or 'none'}")
    return explainer


def checks(checker: Explainer, cited: Citations) -> tuple[Check, ...]:
    """Compare each sentence with its first sources, and explain the comparison that decides.

    That is the one with the highest probability among those that predict entailment or contradiction, if any do. The
    checker is the explainer of a classifier; a pair is a source and a sentence.
    """
    ranked = [cited.top(SOURCES, sentence=k) for k in range(len(cited.sentences))]
    sources = [[source for source in some if source.text] for some in ranked]
    pairs = [(s.text, text.strip()) for text, some in zip(cited.sentences, sources, strict=True) for s in some]
    explained = iter(checker(pairs) if pairs else ())
    compared = [[_check(next(explained), source.source) for source in some] for some in sources]
    return tuple(max(some, key=Check.weight, default=Check()) for some in compared)


def _check(explained: Attribution, source: int) -> Check:
    """Return the comparison of a source with a sentence, with the words that speak most for what it predicts."""
    prediction, words = explained.predictions[0], []
    for sequence in (0, 1):
        ranked = sorted(explained.words(sequence=sequence), key=lambda word: -word.score)
        words.append(tuple(word.text for word in ranked[:WORDS] if word.score > 0))
    return Check(source, prediction.label, float(prediction.probability or 0.0), *words)
