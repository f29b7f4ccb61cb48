"""Faithfulness: the change of the output when the tokens with the highest scores are masked.

See NormXLogit, EMNLP 2025, section 4. Deletion of the words of the highest scores needs no share and no level: in which
of the texts the prediction is another after one, two, three or six words, or by how much a value is lower then.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..errors import DataError, InputError, NormXLogitError, UnsupportedModelError, check_choice
from ..explainer import Explainer
from ..inputs.encoding import Encoding
from ..inputs.texts import Text, is_column
from ..leave_out.outcomes import Answer
from ..leave_out.picking import removable_for_task
from ..leave_out.removal import TextRemoval, masks
from ..leave_out.text_answers import TextAnswers
from ..long_runs.gold.model_labels import ModelLabels
from ..long_runs.gold.reading import read_gold
from ..long_runs.intervals import student_interval
from ..methods import Method, method_named
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.storage.schema import Number
from .datasets import Example, GlueTask
from .options import Protocol
from .runs import OnProgress, Refused, ResultCache
from .statistics import Array, Interval, mean_interval

LEVELS = tuple(tenths / 10 for tenths in range(1, 10))
"""Shares of the tokens that are perturbed; figures are means over these levels."""

PUBLISHED_LENGTH = 90
"""Texts are cut to this many tokens under the published protocol."""

COUNTS = (1, 2, 3, 6)
"""Numbers of deleted words that tables show."""

MOST = 6
"""Most words that are deleted."""

MOST_REASONS = 3
"""Most reasons why rows are left out that a report lists."""

CHUNK = 64
"""Texts that are explained between two steps of the progress bar."""

RANDOM = "random"
"""The method that ranks tokens by chance, below which no method should be."""


Attributed = Sequence[Attribution]
"""The scores of the tokens of texts, one result for each."""

Labels = Sequence[float] | Sequence[Sequence[float]]
"""The gold labels of texts; of models with several true labels a 1 or a 0 for each."""


@dataclass(frozen=True)
class Faithfulness:
    """The result of one method.

    Attributes:
        method: Its name, with settings that differ from the defaults.
        aopc: Mean drop over texts and levels (Area Over the Perturbation Curve; Samek et al., 2017), in ERASER (DeYoung
            et al., 2020) comprehensiveness; higher is better.
        aopc_interval: Bootstrap 95% interval over texts.
        sufficiency: Mean drop when only the top tokens are kept; lower is better.
        sufficiency_interval: Bootstrap 95% interval over texts.
        quality: Mean accuracy, or Pearson's correlation, on the perturbed texts; lower is better.
        curves: "aopc", "sufficiency" and "quality" at each level.
        curve_intervals: Their 95% intervals by Student's t over texts, low and high at each level; a correlation
            has none.
        texts: Number of texts.
        per_text: Each text's mean drop, for paired tests between methods.
        levels: The shares perturbed.
        whole_quality: Accuracy or Pearson's correlation on the whole texts.
        flips: How many words of the highest scores are deleted from each text until its prediction changes, infinity
            for more than six; empty for regression.
        falls: How much lower each text's explained probability or value is after 1, 2, 3 and 6 deleted words.
        flippable: In which share of the texts some single word changes the prediction when it is deleted, found by
            trying each: the most that one word can reach in `flips`. None for regression.
    """

    method: str
    aopc: float
    aopc_interval: tuple[float, float]
    sufficiency: float
    sufficiency_interval: tuple[float, float]
    quality: Number
    quality_name: Literal["accuracy", "pearson"]
    curves: Mapping[str, tuple[Number, ...]]
    texts: int
    per_text: tuple[float, ...]
    levels: tuple[float, ...] = LEVELS
    whole_quality: Number | None = None
    flips: tuple[Number, ...] = ()
    falls: tuple[tuple[Number, ...], ...] = ()
    flippable: Number | None = None
    curve_intervals: Mapping[str, tuple[tuple[Number, Number], ...]] = field(default_factory=dict)


def evaluate(
    explainer: Explainer,
    examples: Iterable[Example],
    methods: str | Method | Sequence[str | Method] = ("normxlogit", "logat", "input-norm", "random"),
    *,
    protocol: Protocol = "default",
    seed: int = 0,
) -> list[Faithfulness]:
    """Compare methods on the same texts.

    Args:
        explainer: The model.
        examples: Labelled texts.
        methods: One or several methods, or names with settings as "name:setting=value".
        protocol: "default" leaves special tokens out and perturbs round(K x maskable tokens); "published" is what the
            paper's notebook does: texts cut to 90 tokens, int(K x length) with special tokens counted, and only the
            first position excluded from the ranking. Ties go to the earlier position in both.
        seed: Seed of the bootstrap.

    Raises:
        DataError: If a label is outside the model's.
        UnsupportedModelError: If the model does not classify, or a method does not work on it.
        MethodError: If a method does not exist.
    """
    chosen = list(map(method_named, [methods] if isinstance(methods, str | Method) else methods))
    results = run_methods(explainer, list(examples), chosen, protocol=protocol, seed=seed, refusals=())
    return [result for result in results if isinstance(result, Faithfulness)]


def run_methods(
    explainer: Explainer,
    examples: Sequence[Example],
    methods: Sequence[Method],
    *,
    folder: Path | None = None,
    protocol: Protocol = "default",
    seed: int = 0,
    refusals: tuple[type[NormXLogitError], ...] = (UnsupportedModelError,),
    on_progress: OnProgress | None = None,
) -> Iterator[Faithfulness | Refused]:
    """Yield the result of each method, or its refusal, on the same texts; each distinct perturbed text is run once.

    Args:
        explainer: The model.
        examples: The texts with their right answers.
        methods: The methods.
        folder: Where results are kept for another run; None to keep none.
        protocol: As in `evaluate`.
        seed: Of the bootstrap of intervals.
        refusals: Errors of a method that are its result; others end the run.
        on_progress: Called with the method, the texts that are done and all texts; None for nothing.
    """
    labels = checked_labels(explainer.task_model, examples)
    texts = [example.text for example in examples]
    results_depend_on = [texts, labels, protocol, seed]
    cache = ResultCache[Faithfulness | Refused](folder, explainer.task_model, results_depend_on, Faithfulness | Refused)
    # The texts are answered once, and not at all where the results of all methods are in the folder.
    answers = lru_cache(lambda: Answers.of(explainer, encode(explainer, texts, protocol)))

    def measure_method(method: Method) -> Faithfulness | Refused:
        """Explain the texts by a method, and measure it; return its refusal if it does not work on the model."""
        encodings = answers().masked.encodings
        try:
            attributions = _attributions_by(explainer, method, encodings, on_progress)
            return measure(method.spec, answers(), attributions, labels, protocol=protocol, seed=seed)
        except refusals as error:
            return Refused(method.spec, str(error))

    for method in methods:
        result = cache.cached(partial(measure_method, method), method.info.name, method.settings)
        if on_progress is not None:
            on_progress(method.spec, len(examples), len(examples))
        yield result


def _attributions_by(
    explainer: Explainer, method: Method, encodings: Sequence[Encoding], on_progress: OnProgress | None
) -> list[Attribution]:
    """Explain texts by a method; the step that ends them all is reported by the caller, after the measurement."""
    attributions: list[Attribution] = []
    for start in range(0, len(encodings), CHUNK):
        chunk = list(encodings[start : start + CHUNK])
        attributions += explainer(chunk, method=method, token_predictions=False)
        if on_progress is not None and len(attributions) < len(encodings):
            on_progress(method.spec, len(attributions), len(encodings))
    return attributions


def encode(explainer: Explainer, texts: Sequence[Text], protocol: Protocol) -> list[Encoding]:
    """Encode the texts for all methods of a run.

    Args:
        explainer: The model.
        texts: Texts or pairs.
        protocol: As in `evaluate`.
    """
    check_choice("protocol", protocol, ("default", "published"), optional=False)
    return explainer.encode(texts, max_length=PUBLISHED_LENGTH if protocol == "published" else None)


def count_texts(explainer: Explainer, examples: Sequence[Example], protocol: Protocol = "default") -> dict[str, Any]:
    """Count the texts that are measured, those of them that are truncated, and the rows that are left out.

    Args:
        explainer: The model.
        examples: The labelled texts; `Examples` of a table know the rows that are left out.
        protocol: As in `evaluate`.

    Returns:
        The counts, by the names that a report gives them; none of what did not happen.
    """
    encodings = encode(explainer, [example.text for example in examples], protocol)
    truncated = sum(bool(encoding.notes) for encoding in encodings)  # an encoding has a note where it is truncated
    counts: dict[str, Any] = {"texts": len(examples)}
    if truncated:
        counts["of which cut"] = truncated
    if left_out := getattr(examples, "left_out", {}):
        reasons = [f"{reason} ({count})" for reason, count in Counter(left_out.values()).most_common(MOST_REASONS)]
        counts["rows left out"] = f"{len(left_out)}, {'; '.join(reasons)}"
    return counts


def measure_attributions(
    explainer: Explainer,
    attributions: Attributed,
    labels: Labels,
    *,
    protocol: Protocol = "default",
    method: str = "",
) -> Faithfulness:
    """Measure given scores, this library's or another's.

    Args:
        explainer: The model that classifies the perturbed texts.
        attributions: Results with one score for each token, and with their texts.
        labels: Gold labels; of models with several true labels a 1 or a 0 for each.
        protocol: As in `evaluate`.
        method: The name of the result.

    Raises:
        DataError: If an attribution has no text, several scores for a token, or tokens that are not this model's.
    """
    texts: list[Text] = []
    for index, a in enumerate(attributions):
        if a.text is None or a.scores.ndim != 1:
            raise DataError(f"attribution {index} needs its text and one score for each token")
        texts.append(a.text if a.text_pair is None else (a.text, a.text_pair))
    encodings = encode(explainer, texts, protocol)
    for index, a in enumerate(attributions):
        if list(a.token_ids) != encodings[index].ids:
            raise DataError(f"the tokens of attribution {index} are not those that this model reads in its text")
    return measure(method, Answers.of(explainer, encodings), attributions, labels, protocol=protocol)


class Answers(NamedTuple):
    """A model's answers to texts without some of their tokens, which all methods share: each is computed once.

    Attributes:
        masked: The answers where tokens are masked in place; the same as `deleted` for models that read no masks.
        deleted: The answers where tokens are deleted.
    """

    masked: TextAnswers
    deleted: TextAnswers

    @classmethod
    def of(cls, explainer: Explainer, encodings: Sequence[Encoding]) -> "Answers":
        """Return the answers to texts; measured is the label, or value, that is predicted of the whole text."""
        model = explainer.task_model
        predictions = explainer(list(encodings), method=RANDOM, token_predictions=False)
        deleted = TextAnswers(model, encodings, predictions)
        if not masks(model):
            return cls(masked=deleted, deleted=deleted)
        return cls(TextAnswers(model, encodings, predictions, masked=True), deleted)


def measure(
    method: str,
    answers: Answers,
    attributions: Attributed,
    labels: Labels,
    *,
    protocol: Protocol = "default",
    seed: int = 0,
) -> Faithfulness:
    """Perturb texts by scores and measure how the model's answers change.

    At each of the `LEVELS` the tokens of the highest scores are taken out, for AOPC, or all other tokens, for
    sufficiency. The drop of a text is p(predicted label | text) - p(predicted label | perturbed text), for regression
    the size of the output's change.

    Args:
        method: The name of the result.
        answers: The model's answers to the texts without some of their tokens.
        attributions: The scores of the tokens of each text.
        labels: Gold labels; of models with several true labels a 1 or a 0 for each.
        protocol: As in `evaluate`.
        seed: Of the bootstrap of intervals.
    """
    regression = answers.masked.model.task.outputs.kind == "value"
    whole = _values_without(answers.masked, [TextRemoval(text, ()) for text in range(len(attributions))])  # (N, C)
    drops_by_level: list[Array] = []  # (N,) each, without the top tokens
    kept_drops_by_level: list[Array] = []  # (N,) each, with the top tokens alone
    outputs_by_level: list[Array] = []  # (N,) each, without the top tokens
    for level in LEVELS:
        removals = _removals_at(level, answers.masked.encodings, attributions, protocol)
        without_top = _values_without(answers.masked, removals.top)  # (N, C)
        top_alone = _values_without(answers.masked, removals.rest)  # (N, C)
        drops_by_level.append(_drop_to(without_top, whole, regression=regression))
        kept_drops_by_level.append(_drop_to(top_alone, whole, regression=regression))
        outputs_by_level.append(_outputs_of(without_top, regression=regression))
    drop, kept_drop = np.stack(drops_by_level, 1), np.stack(kept_drops_by_level, 1)  # (N, 9) each
    per_text = drop.mean(1)  # (N,)
    gold = np.asarray(labels, dtype=np.float64)  # (N,); of models with several true labels (N, C)
    qualities = [quality(outputs, gold, regression=regression) for outputs in outputs_by_level]
    intervals = {"aopc": _level_intervals(drop), "sufficiency": _level_intervals(kept_drop)}
    if not regression:
        intervals["quality"] = _level_intervals(np.stack([hits(outputs, gold) for outputs in outputs_by_level], 1))
    deletions = delete_words(answers.deleted, attributions)
    flippable = None if regression else float(flips_by_some_word(answers.deleted, attributions).mean())
    return Faithfulness(
        method=method,
        aopc=float(per_text.mean()),
        aopc_interval=mean_interval(per_text, seed)[1:],
        sufficiency=float(kept_drop.mean()),
        sufficiency_interval=mean_interval(kept_drop.mean(1), seed)[1:],
        quality=float(np.mean(qualities)),
        quality_name="pearson" if regression else "accuracy",
        curves={
            "aopc": tuple(drop.mean(0).tolist()),
            "sufficiency": tuple(kept_drop.mean(0).tolist()),
            "quality": tuple(qualities),
        },
        texts=len(per_text),
        per_text=tuple(per_text.tolist()),
        whole_quality=quality(_outputs_of(whole, regression=regression), gold, regression=regression),
        flips=() if regression else tuple(deletions.flips.tolist()),
        falls=tuple(map(tuple, deletions.falls.tolist())),
        flippable=flippable,
        curve_intervals=intervals,
    )


class _Removals(NamedTuple):
    """What is taken out of each of N texts at a level."""

    top: list[TextRemoval]  # the tokens of the highest scores
    rest: list[TextRemoval]  # the other tokens that may be perturbed


def _removals_at(
    level: float, encodings: Sequence[Encoding], attributions: Attributed, protocol: Protocol
) -> _Removals:
    """Return the tokens of the highest scores of each text at a level, and the other tokens."""
    removals = _Removals([], [])
    for text, attribution in enumerate(attributions):
        top, rest = split(encodings[text], attribution.scores, level, protocol)
        removals.top.append(TextRemoval(text, tuple(sorted(top))))
        removals.rest.append(TextRemoval(text, tuple(sorted(rest))))
    return removals


def _level_intervals(figures: Array) -> tuple[tuple[float, float], ...]:
    """Return the 95% interval of each level's mean, of figures of texts at levels (N, 9)."""
    return tuple(student_interval(figures_of_level)[1:] for figures_of_level in figures.T)


def _values_without(answers: TextAnswers, removals: list[TextRemoval]) -> Array:
    """Return the probabilities, or the output of a regression model, without some tokens, (N, C)."""
    # Every answer of a classifier, or regression, has logits: the condition is for the type checker.
    logits = torch.stack([answer.logits for answer in answers(removals) if answer.logits is not None])
    probabilities = answers.model.task.outputs.probabilities(logits)  # (N, C)
    return (logits if probabilities is None else probabilities).double().numpy()  # (N, C)


def _outputs_of(values: Array, *, regression: bool) -> Array:
    """Return the predicted class, or the output of a regression model, (N,), of values, (N, C)."""
    return values.ravel() if regression else values.argmax(1).astype(np.float64)


def _drop_to(values: Array, whole: Array, *, regression: bool) -> Array:
    """Return the drop of the probability of the label that is predicted of each whole text, (N,).

    Args:
        values: The probabilities for the perturbed texts, (N, C), or the outputs of a regression model, (N, 1).
        whole: The same for the whole texts.
        regression: Whether they are outputs of a regression model: then the size of their change is returned.
    """
    rows, predicted = np.arange(len(whole)), whole.argmax(1)  # (N,) each
    drop: Array = whole[rows, predicted] - values[rows, predicted]  # (N,)
    return np.abs(drop) if regression else drop


class Deletions(NamedTuple):
    """The model's outputs without the words of the highest scores."""

    flips: Array  # how many words are deleted until the prediction changes, (N,): infinity for more than `MOST`
    falls: Array  # fall of the probability, or value, after each of `COUNTS` words, (N, 4)


def delete_words(answers: TextAnswers, attributions: Attributed) -> Deletions:
    """Delete the words of the highest scores from texts, one after the other.

    Args:
        answers: The model's answers to the texts without some of their tokens.
        attributions: The scores of the tokens of each text, N of them.
    """
    model = answers.model
    removals: list[TextRemoval] = []
    for text, attribution in enumerate(attributions):
        words = removable_for_task(model, attribution).parts  # the highest scored first
        for count in range(min(MOST, len(words)) + 1):
            tokens = sorted(token for word in words[:count] for token in word.tokens)
            removals.append(TextRemoval(text, tuple(tokens)))
    by_text: dict[int, list[Answer]] = {}
    for removal, answer in zip(removals, answers(removals), strict=True):
        by_text.setdefault(removal.text, []).append(answer)
    flips = np.full(len(attributions), np.inf)  # (N,)
    falls = np.zeros((len(attributions), len(COUNTS)))  # (N, 4)
    for text, answers_of_text in by_text.items():  # the answers without 0, 1, 2... words
        original = answers_of_text[0]
        most_deleted = len(answers_of_text) - 1
        flipping = [count for count, answer in enumerate(answers_of_text) if answer.outcome != original.outcome]
        flips[text] = min(flipping, default=np.inf)
        falls[text] = [original.value - answers_of_text[min(count, most_deleted)].value for count in COUNTS]
    return Deletions(flips, falls)


def flips_by_some_word(answers: TextAnswers, attributions: Attributed) -> npt.NDArray[np.bool_]:
    """Return whether some single word of each text changes the prediction when deleted, (N,), by trying all.

    Args:
        answers: The model's answers to the texts without some of their tokens.
        attributions: Results of the N texts, of any scores.
    """
    texts = range(len(attributions))
    removals = [
        TextRemoval(text, word.tokens)
        for text in texts
        for word in removable_for_task(answers.model, attributions[text]).parts
    ]
    originals = answers([TextRemoval(text, ()) for text in texts])
    changed = np.zeros(len(attributions), bool)  # (N,)
    for removal, answer in zip(removals, answers(removals), strict=True):
        changed[removal.text] |= answer.outcome != originals[removal.text].outcome
    return changed


def hits(outputs: Array, gold: Array) -> Array:
    """Return 1 for each predicted class that is right and 0 for others, (N,).

    Args:
        outputs: The predicted classes, (N,).
        gold: The right classes, (N,); for labels that do not exclude each other a 1 or a 0 for each, (N, C).
    """
    if gold.ndim == 1:
        return (gold == outputs) * 1.0
    is_right: Array = gold[np.arange(len(outputs)), outputs.astype(int)]  # (N,)
    return is_right


def quality(outputs: Array, gold: Array, *, regression: bool) -> float:
    """Return the accuracy of predicted classes, or Pearson's correlation of values with the right ones.

    Args:
        outputs: The predicted classes, or values, (N,).
        gold: The right ones, (N,); for labels that do not exclude each other a 1 or a 0 for each, (N, C).
        regression: Whether they are values.
    """
    if not regression:
        return float(hits(outputs, gold).mean())
    from scipy.stats import pearsonr

    # Texts that are masked to the same text have one value, and a constant has no correlation.
    varied = np.ptp(outputs) and np.ptp(gold)
    return float(pearsonr(outputs, gold).statistic) if varied else 0.0  # pyright: ignore[reportAttributeAccessIssue]


def split(
    encoding: Encoding, scores: npt.NDArray[np.floating[Any]], level: float, protocol: Protocol
) -> tuple[list[int], list[int]]:
    """Return the positions of the highest scored tokens at a level, and of the other tokens that may be perturbed.

    Args:
        encoding: The text.
        scores: Of its tokens, (T,).
        level: The share of tokens, from 0 to 1.
        protocol: As in `evaluate`.

    Raises:
        DataError: If there are not as many scores as tokens.
    """
    if len(scores) != len(encoding):
        raise DataError(f"{len(scores)} scores for {len(encoding)} tokens")
    if protocol == "published":
        candidates = np.arange(1, len(encoding))  # all but the first token, [CLS]
        count = int(len(encoding) * level)
    else:
        candidates = np.flatnonzero(~np.asarray(encoding.special))
        count = round(level * len(candidates))
    ranked = candidates[np.argsort(-np.asarray(scores)[candidates], kind="stable")]
    return ranked[:count].tolist(), ranked[count:].tolist()


def paired_p_value(a: Faithfulness, b: Faithfulness) -> float:
    """Return the p-value of a two-sided Wilcoxon signed-rank test of two methods' drops on the same texts.

    Raises:
        DataError: If the two were not measured on the same number of texts.
    """
    from scipy.stats import wilcoxon

    differences = _differences(a, b)  # (N,)
    return 1.0 if not differences.any() else float(wilcoxon(differences).pvalue)  # pyright: ignore[reportAttributeAccessIssue]


def paired_difference(a: Faithfulness, b: Faithfulness) -> Interval:
    """Return how much higher the AOPC of `a` is on the same texts, with its 95% interval by Student's t over texts.

    Raises:
        DataError: If the two were not measured on the same number of texts.
    """
    return student_interval(_differences(a, b))


def worse_than_random(results: Iterable[Faithfulness]) -> dict[str, Interval]:
    """Return the methods whose AOPC is surely below that of `random`, which must be among the results.

    Returns:
        For each method whose whole 95% interval lies below 0 the difference of the two AOPCs on the same texts, see
        `paired_difference`.
    """
    results = list(results)
    baseline = next((result for result in results if result.method.partition(":")[0] == RANDOM), None)
    if baseline is None:
        return {}
    worse: dict[str, Interval] = {}
    for result in results:
        difference, low, high = paired_difference(result, baseline)
        if high < 0:  # `random` itself differs by 0
            worse[result.method] = difference, low, high
    return worse


def _differences(a: Faithfulness, b: Faithfulness) -> Array:
    """Return the differences of two methods' drops on the same texts, (N,)."""
    if a.texts != b.texts:
        raise DataError(f"{a.method} was measured on {a.texts} texts, {b.method} on {b.texts}")
    return np.subtract(a.per_text, b.per_text)  # (N,)


def _classifies_texts(model: TaskModel) -> bool:
    """Return whether a model answers with labels, or values, of the whole input and not of its tokens."""
    return model.task.position.pooled and bool(model.task.outputs.labels)


def check_head(model: TaskModel, task: GlueTask) -> None:
    """Check that a model can answer a task.

    Args:
        model: The model.
        task: The task.

    Raises:
        UnsupportedModelError: If it classifies no texts, or has another number of labels.
    """
    model.task.check_input(model, "one text")
    if not _classifies_texts(model):
        needs = f"{task.name} needs a model that classifies texts"
        raise UnsupportedModelError(f"{needs}, and {model.name} is for {model.task.name}")
    is_value = model.task.outputs.kind == "value"
    answers = _counted_outputs(len(model.task.outputs.labels), "value" if is_value else "label")
    needs = _counted_outputs(len(task.labels) or 1, "label" if task.labels else "value")
    if answers != needs:
        raise UnsupportedModelError(f"{model.name} answers with {answers}, and {task.name} needs {needs}")


def _counted_outputs(count: int, kind: str) -> str:
    """Return the number of a model's outputs with their kind, "label" or "value", in words."""
    return "one value" if (count, kind) == (1, "value") else f"{count} {kind}s"


def checked_labels(model: TaskModel, examples: Sequence[Example]) -> Labels:
    """Return the gold labels, if the model can answer them: indices or values, or a 0 or a 1 for each label.

    Args:
        model: The model.
        examples: The labelled texts.

    Raises:
        UnsupportedModelError: If faithfulness is not measured on such a model.
        DataError: If there are no examples, or the model knows no such labels.
        InputError: If something else than examples is given.
    """
    outputs = model.task.outputs
    _check_measurable(model, examples)
    if outputs.kind == "value":
        values = []
        for index, example in enumerate(examples):
            if not isinstance(example.label, int | float):
                raise DataError(f"example {index} has label {example.label}; the model answers with a value")
            values.append(float(example.label))
        return values
    marks = _class_marks(examples, list(outputs.labels))  # (N, C)
    if outputs.outcomes == "independent":  # several labels may be true
        return marks
    for index, (marks_of_text, example) in enumerate(zip(marks, examples, strict=True)):
        if sum(marks_of_text) != 1:
            raise DataError(f"example {index} has labels {example.label}; the model answers with one label")
    return [float(marks_of_text.index(1)) for marks_of_text in marks]


def _check_measurable(model: TaskModel, examples: Sequence[Example]) -> None:
    """Refuse models on which faithfulness is not measured, and what is not a list of examples."""
    outputs = model.task.outputs
    model.task.check_input(model, "one text")
    if not _classifies_texts(model):
        advice = ": `normxlogit evaluate generation` measures its sources" if outputs.vocabulary else ""
        supported = "faithfulness is measured on classifiers and regression models"
        raise UnsupportedModelError(f"{supported}, not on {model.task.name}{advice}")
    if outputs.kind == "value" and len(outputs.labels) != 1:
        answers = f"{model.name} answers with {len(outputs.labels)}"
        raise UnsupportedModelError(f"faithfulness is measured on one value, and {answers}")
    if not examples:
        raise DataError("no examples to measure on")
    for index, example in enumerate(examples):
        if not isinstance(example, Example):
            wrapped = "Example(text, label), or load_examples(table) of rows with both"
            raise InputError(f"example {index} is a {type(example).__name__}: pass {wrapped}")


def _class_marks(examples: Sequence[Example], class_names: list[str]) -> list[list[float]]:
    """Return a 1 for each gold label and a 0 for each other label of the model, (N, C)."""
    meanings = [example.meaning for example in examples]
    if meanings.count(meanings[0]) < len(meanings):
        raise DataError("the examples are of data whose labels have different meanings: measure on each by itself")
    try:
        labels = [example.label for example in examples]
        gold_labels = read_gold(labels, ModelLabels.in_order(class_names), meanings[0])
    except InputError as error:
        raise DataError(str(error)) from None
    for index, (gold, example) in enumerate(zip(gold_labels, examples, strict=True)):
        if not gold and not is_column(example.label):  # where several labels may be true, none may be
            raise DataError(f"example {index} has no label; the model knows {', '.join(class_names)}")
    return [[float(name in gold) for name in class_names] for gold in gold_labels]
