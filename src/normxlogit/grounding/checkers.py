"""Checkers: models that were trained to say whether a text supports a sentence, as a second opinion on an answer.

Three kinds are read as their cards say: classifiers of a text or of a pair of texts, models that write their label
("yes", "1"), and classifiers of tokens that mark the words of an answer. What decided is explained by this library.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..inputs.chat import has_chat_template
from ..results.storage.schema import Strings
from ..tasks.base import Generates
from ..tasks.targets import ALL
from ..text.same import comparable
from .support import Check
from .verdicts import Opinion

if TYPE_CHECKING:
    from ..results.attribution import Attribution
    from ..results.targets import Prediction
    from ..results.units.units import UnitScore

COMPARED = 3
"""How many of a sentence's first sources are compared with it."""

WORDS = 3
"""Most words of either text that are named as those that decided."""

NOT_EXPLAINED = "random"
"""The method where only the prediction is needed: it costs nothing beside the forward pass."""

TINY = 1e-30
"""Least sum of the probabilities of labels by which one's share is taken."""

FIELDS = {"source", "sentence", "question"}
"""What a template may hold."""

OPINIONS: dict[Opinion, Strings] = {
    "entails": ("entail", "support", "consistent"),
    "contradicts": ("contradict",),
    "unsupported": ("not ", "unsupport", "inconsistent", "hallucinat"),
}
"""How the names of labels begin that say what they mean."""


class Pair(NamedTuple):
    """A sentence of an answer with a source.

    Attributes:
        question: The question.
        source: The text of the source.
        sentence: The sentence.
    """

    question: str
    source: str
    sentence: str


class Checker:
    """A model that was trained to say whether a text supports a sentence.

    Attributes:
        explainer: The explainer of the model.
        template: As below.
        position: As below.
        labels: What each label means.

    Args:
        model: An explainer, or a pipeline, of the model.
        template: How a source and a sentence become the text that the model reads, as its card says, such as
            "predict: {source}</s>{sentence}"; it may hold {question} too. By default they are read as a pair of texts.
        labels: What its labels mean, such as {"1": "entails", "0": "unsupported"}: "entails", "contradicts",
            "unsupported" or "" for a label that leaves it open. A model that writes its label needs them. By default as
            the labels are called.
        position: The token whose label is the answer, of a classifier of tokens that decides at one; without it, a
            classifier of tokens marks the words of the answer.

    Raises:
        InputError: If it does not say which label means that a source supports a sentence.

    Examples:
        >>> from normxlogit import Explainer
        >>> from normxlogit.grounding import Checker
        >>> model = Explainer.from_pretrained(labels=["unsupported", "supported"])
        >>> Checker(model, template="{source} {sentence}").labels
        {'unsupported': 'unsupported', 'supported': 'entails'}
    """

    def __init__(
        self,
        model: Any,
        *,
        template: str | None = None,
        labels: Mapping[str, Opinion] | None = None,
        position: int | None = None,
    ) -> None:
        from ..explainer import Explainer

        self.explainer: Explainer = model if isinstance(model, Explainer) else Explainer(model)
        self.template, self.position = template, position
        task = self.explainer.task_model.task
        if task.outputs.kind == "value":
            raise InputError(f"a checker has labels, and {self.explainer.task_model.name} predicts a number")
        self._generates = isinstance(task, Generates)
        # A model that writes its label has none of its own: those of the caller are all that it may write.
        names = tuple(labels or ()) if self._generates else task.outputs.labels
        self.labels: dict[str, Opinion] = _opinions(names, labels)
        if template is not None:
            _check_template(template)
        if self._generates and template is None:
            raise InputError("a checker that writes its label needs template=, the prompt of its card")

    @property
    def marks_words(self) -> bool:
        """Whether it marks the words of an answer that the sources do not support."""
        task = self.explainer.task_model.task
        # A classifier of tokens: it has labels, which generating models lack, and does not pool the text to one answer.
        return bool(task.outputs.labels) and not task.position.pooled and self.position is None

    def compare(self, pairs: Sequence[Sequence[Pair]]) -> list[Check]:
        """Compare each sentence with its sources, and return the comparison that decides, with the words that decide.

        That is the one with the highest probability among those that entail or contradict, if any do.

        Args:
            pairs: For each sentence the pairs with its sources; none for a sentence without sources.

        Returns:
            A check of each sentence, whose source is the place of the pair.
        """
        distinct = list(dict.fromkeys(chain.from_iterable(pairs)))
        # Only the comparisons that decide are explained: the method costs more than the prediction.
        checks = {each.pair: each.check for each in self._predictions(distinct, NOT_EXPLAINED)}
        places = [_decisive([checks[pair] for pair in group]) for group in pairs]
        deciding = [group[place] for group, place in zip(pairs, places, strict=True) if group]
        # An iterator: sentences without sources have no check in it, and take none.
        explained = map(self._with_words, self._predictions(deciding, None))
        return [next(explained)._replace(source=place) if place >= 0 else Check() for place in places]

    def mark(self, question: str, source: str, sentences: Sequence[str]) -> list[Check]:
        """Mark the words of an answer that the sources do not support.

        Args:
            question: The question.
            source: The texts of all sources as one.
            sentences: The sentences of the answer.

        Returns:
            A check of each sentence, with its marked words and the surest one's probability.
        """
        answer = " ".join(sentences)
        prompt = source if self.template is None else _filled(self.template, Pair(question, source, ""))
        marked = self.explainer((prompt, answer), position=ALL, method=NOT_EXPLAINED)
        predictions = zip(marked.targets, marked.predictions, strict=True)
        prediction_at = {target.position: prediction for target, prediction in predictions}
        # In the answer, exclusive, each with the space behind it.
        sentence_ends = np.cumsum([len(sentence) + 1 for sentence in sentences])
        checks: list[list[Check]] = [[] for _ in sentences]
        for word in marked.words(sequence=1):
            # On the right: a word that begins where a sentence ends is of the next one.
            sentence = np.searchsorted(sentence_ends, word.start, side="right")
            for token in word.tokens:
                if token in prediction_at:  # the first token of a word, which has the word's label
                    checks[sentence].append(self._check(prediction_at[token])._replace(words=(word.text,)))
        return list(map(_check_of_words, checks))

    def _predictions(self, pairs: Sequence[Pair], method: str | None) -> list["Checked"]:
        """Return what the model predicts of each pair.

        Args:
            pairs: The sentences with a source each.
            method: How the predictions are explained; None for the default method.
        """
        if not pairs:
            return []
        texts = list(map(self._text, pairs))
        if self._generates:
            # Each label is given to the model as its completion, and measured.
            of_labels = [self._predictions_of(label, pairs, texts, method) for label in self.labels]
            return [_likeliest(predictions) for predictions in zip(*of_labels, strict=True)]
        results = self.explainer(texts, position=self.position, method=method)
        return [Checked(pair, self._check(a.prediction), a) for pair, a in zip(pairs, results, strict=True)]

    def _predictions_of(
        self, label: str, pairs: Sequence[Pair], texts: Sequence[str], method: str | None
    ) -> list["Checked"]:
        """Return how likely the first token of a label is after each text; what is explained is this one."""
        first = self._first_token(label)
        # Words speak for a label rather than for another one: of several others, the first.
        contrast = next((self._first_token(name) for name in self.labels if name != label), None)
        results = self.explainer.explain_completion(
            self._prompts(texts), [[first]] * len(texts), target=first, contrast=contrast, method=method
        )
        checked = []
        for pair, a in zip(pairs, results, strict=True):
            check = Check(label=label, probability=a.generated[0].probability or 0.0, opinion=self.labels[label])
            checked.append(Checked(pair, check, a[0]))
        return checked

    def _text(self, pair: Pair) -> Any:
        """Return what the model reads of a pair."""
        return (pair.source, pair.sentence) if self.template is None else _filled(self.template, pair)

    def _check(self, prediction: "Prediction") -> Check:
        """Return what a prediction says."""
        opinion = self.labels.get(prediction.label, "")
        # None of a regression, whose output is a number.
        return Check(label=prediction.label, probability=float(prediction.probability or 0.0), opinion=opinion)

    def _prompts(self, texts: Sequence[str]) -> list[Any]:
        """Return texts as the model is asked: as messages of a user, if it has a chat template."""
        if not has_chat_template(self.explainer.task_model.reader):
            return [*texts]
        return [[{"role": "user", "content": text}] for text in texts]

    def _first_token(self, label: str) -> int:
        # The token that the model would write first: labels are told by it alone.
        ids: list[int] = self.explainer.tokenizer(label, add_special_tokens=False)["input_ids"]
        return ids[0]

    def _with_words(self, checked: "Checked") -> Check:
        """Return a check with the words of the source, and those of the sentence, that speak most for it."""
        pair, check, a = checked
        if self.template is None:
            source_words, words = a.words(sequence=0), a.words(sequence=1)
        else:
            start = (a.text or "").find(self._text(pair))  # a chat template writes more around it
            source_words, words = (_words_in(a, start, self.template, pair, name) for name in ("source", "sentence"))
        return check._replace(source_words=_strongest(source_words), words=_strongest(words))


class Checked(NamedTuple):
    """What a checker predicts of a pair.

    Attributes:
        pair: The pair.
        check: The prediction.
        explained: Its attribution.
    """

    pair: Pair
    check: Check
    explained: "Attribution"


def _decisive(checks: Sequence[Check]) -> int:
    """Return the place of the check that decides; -1 of none."""
    return max(range(len(checks)), key=lambda place: checks[place].weight(), default=-1)


def _filled(template: str, pair: Pair) -> str:
    return template.format(**pair._asdict())


def _words_in(explained: "Attribution", start: int, template: str, pair: Pair, field: str) -> list["UnitScore"]:
    """Return the words of a source or a sentence in a text that the model read.

    Args:
        explained: What the model predicts of the text.
        start: Where the template begins in it.
        template: What the source and the sentence stand in.
        pair: Both.
        field: Which of them: "source" or "sentence"; no words if the template has no such field.
    """
    # What stands before the field, with the fields in it filled.
    start += len(_filled(template.partition(f"{{{field}}}")[0], pair))
    part: str = getattr(pair, field)
    return [word for word in explained.words(sequence=0) if start <= word.start < start + len(part)]


def _strongest(words: Sequence["UnitScore"]) -> Strings:
    ranked = sorted(words, key=lambda word: -float(word.score))
    return tuple(word.text for word in ranked[:WORDS] if word.score > 0)


def _likeliest(of_labels: Sequence[Checked]) -> Checked:
    """Return the likeliest label of a pair, with its share of the probability of all labels."""
    likeliest = max(of_labels, key=lambda checked: checked.check.probability)
    total = max(sum(checked.check.probability for checked in of_labels), TINY)
    probability = likeliest.check.probability / total
    return likeliest._replace(check=likeliest.check._replace(probability=probability))


def _check_of_words(words: Sequence[Check]) -> Check:
    """Return what the checks of a sentence's words say of it: the surest mark, or the least sure word without one."""
    marked = [word for word in words if word.opinion in ("unsupported", "contradicts")]
    if not marked:  # the least sure word decides; a sentence without tokens of its own has none
        return min(words, key=lambda word: word.probability, default=Check())._replace(words=())
    surest = max(marked, key=lambda word: word.probability)
    return surest._replace(words=tuple(text for word in marked for text in word.words))


def _opinions(names: Sequence[str], meant: Mapping[str, Opinion] | None) -> dict[str, Opinion]:
    """Return what each label means, as the caller says or as it is called."""
    if meant is not None and (unknown := [label for label in meant if label not in names]):
        raise InputError(f"the checker has no label {unknown[0]!r}, but {', '.join(map(repr, names))}")
    opinions: dict[str, Opinion] = {}
    for name in names:
        opinions[name] = _opinion_by_name(name) if meant is None else meant.get(name, "")
    if "entails" not in opinions.values():
        raise InputError(
            "which label of the checker means that a source supports a sentence? None is called entailment, supported "
            f"or consistent; the labels are {', '.join(map(repr, names)) or 'not known'}. Pass them: "
            'Checker(model, labels={"LABEL_1": "entails", "LABEL_0": "unsupported"})'
        )
    return opinions


def _opinion_by_name(name: str) -> Opinion:
    spelled = comparable(name).text.replace("_", " ")  # "NOT_ENTAILMENT" as "not entailment"
    for opinion, beginnings in OPINIONS.items():
        if spelled.startswith(beginnings):
            return opinion
    return ""


def _check_template(template: str) -> None:
    """Refuse a template with other fields, or without a source."""
    try:
        # None comes with the text behind the last field.
        fields = {field for _, field, _, _ in Formatter().parse(template) if field is not None}
    except ValueError as error:
        raise InputError(f"template= is not a format string: {error}") from None
    if not fields <= FIELDS or "source" not in fields:
        raise InputError("template= holds {source} and {sentence}, and may hold {question}, and no other field")


def checker_of(checker: Any) -> Checker | None:
    """Return a checker; None for none.

    Args:
        checker: A `Checker`, or an explainer or a pipeline of a model whose labels say what they mean; or None.
    """
    return checker if isinstance(checker, Checker | None) else Checker(checker)
