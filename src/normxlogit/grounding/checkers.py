"""Checkers: models that were trained to say whether a text supports a sentence, as a second opinion on an answer.

Three kinds are read as their cards say: classifiers of a text or of a pair of texts, models that write their label
("yes", "1"), and classifiers of tokens that mark the words of an answer. What decided is explained by this library.
"""

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..inputs.chat import has_chat_template
from ..tasks.base import Generates
from ..tasks.targets import ALL
from ..text.characters import Span
from ..text.same import comparable
from .checking import Check
from .verdicts import Opinion

if TYPE_CHECKING:
    from ..results.attribution import Attribution
    from ..results.targets import Prediction
    from ..results.units.units import UnitScore

COMPARED = 3
"""How many of a sentence's first sources are compared with it."""

WORDS = 3
"""Most words of either text that are named as those that decided."""

TINY = 1e-30
"""Least sum of the probabilities of labels by which one's share is taken."""

FIELDS = {"source", "sentence", "question"}
"""What a template may hold."""

OPINIONS: dict[Opinion, tuple[str, ...]] = {
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


class _Written(NamedTuple):
    """What a checker reads of a pair: one text, or two."""

    text: Any  # a text, or a tuple of two
    source: Span  # where the source is in it; of two texts in the first one
    sentence: Span  # where the sentence is; of two texts in the second one


class Checker:
    """A model that was trained to say whether a text supports a sentence.

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
        self._generates = isinstance(self.explainer.task_model.task, Generates)
        names = tuple(labels or ()) if self._generates else self.explainer.task_model.task.outputs.labels
        self.labels: dict[str, Opinion] = _opinions(names, labels)
        if template is not None:
            _check_template(template)
        if self._generates and template is None:
            raise InputError("a checker that writes its label needs template=, the prompt of its card")

    @property
    def marks_words(self) -> bool:
        """Whether it marks the words of an answer that the sources do not support."""
        task = self.explainer.task_model.task
        return bool(task.outputs.labels) and not task.position.pooled and self.position is None

    def compare(self, pairs: Sequence[Sequence[Pair]]) -> list[Check]:
        """Compare each sentence with its sources, and explain the comparison that decides.

        That is the one with the highest probability among those that entail or contradict, if any do.

        Args:
            pairs: For each sentence the pairs with its sources; none for a sentence without sources.

        Returns:
            A check of each sentence, whose source is the place of the pair.
        """
        written = [[self._write(pair) for pair in group] for group in pairs]
        predictions = iter(self._predict([each.text for group in written for each in group]))
        checks = []
        for group in written:
            candidates = [next(predictions)._replace(source=place) for place in range(len(group))]
            decisive = max(candidates, key=Check.weight, default=Check())
            checks.append(self._explained(decisive, group[decisive.source]) if group else decisive)
        return checks

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
        prompt = source if self.template is None else self._filled(Pair(question, source, ""))[0]
        checks_of_words = self._checks_of_words(self.explainer((prompt, answer), position=ALL, method="random"), answer)
        checks, start = [], 0
        for sentence in sentences:
            end = start + len(sentence)
            checks.append(_check_of_words([check for place, check in checks_of_words if start <= place < end]))
            start = end + 1
        return checks

    def _write(self, pair: Pair) -> _Written:
        """Return what the model reads of a pair."""
        if self.template is None:
            return _Written((pair.source, pair.sentence), (0, len(pair.source)), (0, len(pair.sentence)))
        text, spans = self._filled(pair)
        return _Written(text, spans["source"], spans["sentence"])

    def _filled(self, pair: Pair) -> tuple[str, dict[str, Span]]:
        """Return the template with a pair in it, and where each of its fields is."""
        text, spans = "", {"source": (0, 0), "sentence": (0, 0)}
        for literal, field, _, _ in Formatter().parse(self.template or ""):
            text += literal
            if field is not None:
                value = str(getattr(pair, field))
                spans[field] = len(text), len(text) + len(value)
                text += value
        return text, spans

    def _predict(self, texts: Sequence[Any]) -> list[Check]:
        """Return the label of each text, from one forward pass."""
        if not texts:
            return []
        if self._generates:
            return self._predict_written_labels(texts)
        results = self.explainer(texts, method="random", **self._options())
        return [self._check(result.prediction) for result in results]

    def _check(self, prediction: "Prediction") -> Check:
        """Return what a prediction says."""
        opinion = self.labels.get(prediction.label, "")
        return Check(label=prediction.label, probability=float(prediction.probability or 0.0), opinion=opinion)

    def _options(self) -> dict[str, Any]:
        return {} if self.position is None else {"position": self.position}

    def _predict_written_labels(self, texts: Sequence[str]) -> list[Check]:
        """Return the label of each text whose first token is the likeliest to be written, among the labels."""
        chances = np.array([self._chances(texts, label) for label in self.labels])  # (L, n)
        labels, totals = list(self.labels), np.maximum(chances.sum(0), TINY)
        predicted = [
            (labels[place], float(chance))
            for place, chance in zip(chances.argmax(0), chances.max(0) / totals, strict=True)
        ]
        return [Check(label=label, probability=chance, opinion=self.labels[label]) for label, chance in predicted]

    def _chances(self, texts: Sequence[str], label: str) -> list[float]:
        """Return the probability that the first token of a label follows each text."""
        completions = [[self._first_token(label)]] * len(texts)
        results = self.explainer.explain_completion(self._prompts(texts), completions, method="random")
        return [float(result.generated[0].probability or 0.0) for result in results]

    def _prompts(self, texts: Sequence[str]) -> list[Any]:
        """Return texts as the model is asked: as messages of a user, if it has a chat template."""
        if not has_chat_template(self.explainer.task_model.reader):
            return [*texts]
        return [[{"role": "user", "content": text}] for text in texts]

    def _first_token(self, label: str) -> int:
        ids: list[int] = self.explainer.tokenizer(label, add_special_tokens=False)["input_ids"]
        return ids[0]

    def _explained(self, check: Check, written: _Written) -> Check:
        """Return a comparison with the words of both texts that speak most for what it predicts."""
        if not self._generates:
            explained = self.explainer(written.text, target=check.label, **self._options())
        else:
            others = [label for label in self.labels if label != check.label]
            first, contrast = self._first_token(check.label), self._first_token(others[0])
            (prompt,) = self._prompts([written.text])
            explained = self.explainer.explain_completion(prompt, [first], target=first, contrast=contrast)[0]
        source_words, words = _deciding_words(explained, written)
        return check._replace(source_words=source_words, words=words)

    def _checks_of_words(self, marked: "Attribution", answer: str) -> list[tuple[int, Check]]:
        """Return the first character of each word of the answer, and what its label says of it."""
        words = marked.words(sequence=1)
        checks = []
        for target, prediction in zip(marked.targets, marked.predictions, strict=True):
            word = next((word for word in words if target.position in word.tokens), None)
            if word is not None:
                checks.append((word.start, self._check(prediction)._replace(words=(answer[word.start : word.end],))))
        return checks


def _check_of_words(words: Sequence[Check]) -> Check:
    """Return what the checks of a sentence's words say of it: the surest mark, or the least sure word without one."""
    marked = [word for word in words if word.opinion in ("unsupported", "contradicts")]
    if not marked:
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
    spelled = comparable(name).text.replace("_", " ")
    for opinion, beginnings in OPINIONS.items():
        if spelled.startswith(beginnings):
            return opinion
    return ""


def _check_template(template: str) -> None:
    """Refuse a template with other fields, or without a source."""
    try:
        fields = {field for _, field, _, _ in Formatter().parse(template) if field is not None}
    except ValueError as error:
        raise InputError(f"template= is not a format string: {error}") from None
    if not fields <= FIELDS or "source" not in fields:
        raise InputError("template= holds {source} and {sentence}, and may hold {question}, and no other field")


def _deciding_words(explained: "Attribution", written: _Written) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of the source, and those of the sentence, that speak most for what is explained."""
    is_pair = isinstance(written.text, tuple)
    shift = 0 if is_pair else (explained.text or "").find(written.text)  # a chat template writes more around it
    source_words, words = explained.words(sequence=0), explained.words(sequence=int(is_pair))
    return _strongest(_inside(source_words, written.source, shift)), _strongest(_inside(words, written.sentence, shift))


def _inside(words: Sequence["UnitScore"], span: Span, shift: int) -> list["UnitScore"]:
    start, end = span
    return [word for word in words if shift + start <= word.start < shift + end]


def _strongest(words: Sequence["UnitScore"]) -> tuple[str, ...]:
    ranked = sorted(words, key=lambda word: -float(word.score))
    return tuple(word.text for word in ranked[:WORDS] if word.score > 0)


def checker_of(checker: Any) -> Checker:
    """Return a checker.

    Args:
        checker: A `Checker`, or an explainer or a pipeline of a model whose labels say what they mean.
    """
    return checker if isinstance(checker, Checker) else Checker(checker)
