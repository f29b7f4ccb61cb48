"""Faithfulness: the change of the output when the tokens with the highest scores are masked.

See NormXLogit, EMNLP 2025, section 4. Deletion of the words of the highest scores needs no share and no level: in which
of the texts the prediction is another after one, two, three or six words, or by how much a value is lower then.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ..errors import DataError, NormXLogitError, UnsupportedModelError, check_choice
from ..explainer import Explainer
from ..inputs.encoding import Encoding
from ..inputs.texts import Text
from ..leave_out.removal import masks
from ..leave_out.text_answers import TextAnswers
from ..long_runs.intervals import student_interval
from ..methods import Method, method_named
from ..results.attribution import Attribution
from ..results.storage.schema import Number
from .datasets import Example
from .flips import delete_words, flips_by_some_word
from .gold_labels import Labels, checked_labels
from .options import Protocol
from .perturbation import LEVELS, hits, perturb, quality
from .runs import OnProgress, Refused, ResultCache
from .statistics import Array, Interval, mean_interval

PUBLISHED_LENGTH = 90
"""Texts are cut to this many tokens under the published protocol."""

MOST_REASONS = 3
"""Most reasons why rows are left out that a report lists."""

CHUNK = 64
"""Texts that are explained between two steps of the progress bar."""

RANDOM = "random"
"""The method that ranks tokens by chance, below which no method should be."""


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
    # With no `refusals` all are results: the condition is for the type checker.
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
    labels = checked_labels(explainer.task_model, examples)  # it refuses what is not a list of examples
    run = _Run(
        explainer,
        texts=[example.text for example in examples],
        labels=labels,
        protocol=protocol,
        seed=seed,
        refusals=refusals,
        on_progress=on_progress,
    )
    results_depend_on = [run.texts, labels, protocol, seed]
    cache = ResultCache[Faithfulness | Refused](folder, explainer.task_model, results_depend_on, Faithfulness | Refused)
    for method in methods:
        result = cache.cached(partial(run.measured, method), method.info.name, method.settings)
        if on_progress is not None:
            on_progress(method.spec, len(examples), len(examples))
        yield result


@dataclass(frozen=True)
class _Run:
    """Texts on which methods are measured, one after the other, with the arguments of `run_methods`."""

    explainer: Explainer
    texts: Sequence[Text]
    labels: Labels
    protocol: Protocol
    seed: int
    refusals: tuple[type[NormXLogitError], ...]
    on_progress: OnProgress | None

    @cached_property
    def answers(self) -> "Answers":
        """The answers to the texts, computed once, and not at all where the folder has the results of all methods."""
        return Answers.of(self.explainer, encode(self.explainer, self.texts, self.protocol))

    def measured(self, method: Method) -> Faithfulness | Refused:
        """Explain the texts by a method, and measure it; return its refusal if it does not work on the model."""
        answers = self.answers
        try:
            attributions = self._attributions_by(method, answers.masked.encodings)
            return measure(method.spec, answers, attributions, self.labels, protocol=self.protocol, seed=self.seed)
        except self.refusals as error:
            return Refused(method.spec, str(error))

    def _attributions_by(self, method: Method, encodings: Sequence[Encoding]) -> list[Attribution]:
        """Explain texts by a method; the step that ends them all is reported by the caller, after the measurement."""
        attributions: list[Attribution] = []
        for start in range(0, len(encodings), CHUNK):
            chunk = list(encodings[start : start + CHUNK])
            attributions += self.explainer(chunk, method=method, token_predictions=False)
            if self.on_progress is not None and len(attributions) < len(encodings):
                self.on_progress(method.spec, len(attributions), len(encodings))
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
    attributions: Sequence[Attribution],
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
        """Return the answers to texts: what is measured is the label, or value, that is predicted of the whole text.

        Args:
            explainer: The model.
            encodings: The texts.
        """
        model = explainer.task_model
        # Of these results only the predictions count: the cheapest method gives them.
        predictions = explainer(list(encodings), method=RANDOM, token_predictions=False)
        deleted = TextAnswers(model, encodings, predictions)
        if not masks(model):
            return cls(masked=deleted, deleted=deleted)
        return cls(TextAnswers(model, encodings, predictions, masked=True), deleted)


def measure(
    method: str,
    answers: Answers,
    attributions: Sequence[Attribution],
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
    perturbed = perturb(answers.masked, attributions, protocol)
    per_text = perturbed.drops.mean(1)  # (N,)
    gold = np.asarray(labels, dtype=np.float64)  # (N,); of models with several true labels (N, C)
    qualities = [quality(outputs, gold, regression=regression) for outputs in perturbed.outputs]
    intervals = {
        "aopc": _level_intervals(perturbed.drops),
        "sufficiency": _level_intervals(perturbed.kept_drops),
    }
    if not regression:
        intervals["quality"] = _level_intervals(np.stack([hits(outputs, gold) for outputs in perturbed.outputs], 1))
    deletions = delete_words(answers.deleted, attributions)
    flippable = None if regression else float(flips_by_some_word(answers.deleted, attributions).mean())
    return Faithfulness(
        method=method,
        aopc=float(per_text.mean()),
        aopc_interval=mean_interval(per_text, seed)[1:],  # low and high, without the mean before them
        sufficiency=float(perturbed.kept_drops.mean()),
        sufficiency_interval=mean_interval(perturbed.kept_drops.mean(1), seed)[1:],
        quality=float(np.mean(qualities)),
        quality_name="pearson" if regression else "accuracy",
        curves={
            "aopc": tuple(perturbed.drops.mean(0).tolist()),
            "sufficiency": tuple(perturbed.kept_drops.mean(0).tolist()),
            "quality": tuple(qualities),
        },
        texts=len(per_text),
        per_text=tuple(per_text.tolist()),
        whole_quality=quality(perturbed.whole_outputs, gold, regression=regression),
        flips=() if regression else tuple(deletions.flips.tolist()),
        falls=tuple(map(tuple, deletions.falls.tolist())),
        flippable=flippable,
        curve_intervals=intervals,
    )


def _level_intervals(figures: Array) -> tuple[tuple[float, float], ...]:
    """Return the 95% interval of each level's mean, low and high, of figures of texts at levels (N, 9)."""
    return tuple(student_interval(figures_of_level)[1:] for figures_of_level in figures.T)


def paired_p_value(a: Faithfulness, b: Faithfulness) -> float:
    """Return the p-value of a two-sided Wilcoxon signed-rank test of two methods' drops on the same texts.

    Raises:
        DataError: If the two were not measured on the same number of texts.
    """
    from scipy.stats import wilcoxon

    # The test ranks the differences that are not 0: without one it has no value, and the methods are alike.
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
