"""Evaluation of source rankings by the probability of a model's answer without some sources.

The protocol is ContextCite's (Cohen-Wang et al., 2024).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import DataError, InputError
from ...evaluation.ranking import FigureColumn, RankingResult, agreement, ranking_table, summarise_ranking
from ...evaluation.runs import OnProgress, ResultCache, with_progress
from ...evaluation.statistics import rank_correlation
from ...explainer import Explainer
from ...methods import Method, list_methods, method_named
from ...methods.defaults import default_methods
from ...methods.perturbation import Perturbation, random_subsets
from ...model.task_model import TaskModel
from ...pipeline.completions.ablations import Ablations, leave_one_out, score_sources, verified
from ...pipeline.completions.sources import explain_sources, part_weights, sources_and_parts
from ...pipeline.options import Options
from ...results.units.kinds import Merge
from ...results.units.spans import PartSpec, Sequenced, SourceSpec
from ..citations.cite import ask
from .questions import Asked

TOP = (1, 3, 5)
"""Numbers of the highest ranked sources that are left out."""

MATTERS = 2.0
"""A prompt counts if leaving out some source costs its answer this many nats."""

TOKEN_MATTERS = 1.0
"""A token of an answer counts if leaving out some word costs it this many nats."""

BASELINES = ("random", "length")

VERIFIED = " (verified)"
"""Suffix of a method whose highest ranked sources were measured, see `cite(verify="auto")`."""

EXCESS = " (excess)"
"""Suffix of a method from whose source scores the mean score of as many tokens is subtracted."""

Array = npt.NDArray[np.float64]


class Scored(NamedTuple):
    """Scores of the sources for each explained part of the answer, (K, S), and their cost in forward passes."""

    table: Array
    passes: float


@dataclass(frozen=True)
class AnswerProtocol:
    """How answers are generated and measured.

    Attributes:
        max_new_tokens: Most tokens of an answer.
        ablations: Random ablations of the linear datamodelling score.
        tokens: How many tokens of each answer are explained, each by the words of the prompt; 0 explains the whole
            answer by the sentences of the documents.
    """

    max_new_tokens: int = 40
    ablations: int = 32
    tokens: int = 0


def source_methods(explainer: Explainer) -> list[Method]:
    """Return the default methods: those that can score the sources of a model's answers."""
    task = explainer.language_model.task
    present = {info.name for info in list_methods()}  # a wing of methods may have been deleted
    methods = [*default_methods("completions"), method_named("normxlogit")]
    methods += [method_named("context-cite")] if "context-cite" in present else []
    return [method for method in methods if task.position.left_to_right or not method.info.tokenwise]


def evaluate_sources(
    explainer: Explainer,
    questions: Sequence[Asked],
    methods: Sequence[str | Method],
    *,
    protocol: AnswerProtocol | None = None,
    rankings: Mapping[str, Callable[["AnsweredPrompt"], Scored]] | None = None,
    seed: int = 0,
    folder: Path | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[list[RankingResult], int]:
    """Measure how well methods find the sources that answers rest on.

    Args:
        explainer: A language model.
        questions: Questions with documents, whose sentences are the sources.
        methods: The methods; a random order and the sources' lengths are added.
        protocol: How answers are generated and measured.
        rankings: Further rankings by name: functions that score the sources of a prompt.
        seed: Seed of the ablations, the random order and the bootstrap.
        folder: Where finished results are kept, so that a stopped run can be resumed, and one with more methods
            measures those alone; None keeps nothing.
        on_progress: Called with the name of the work, the finished prompts and all prompts.

    Returns:
        A result for each method, and on how many prompts some source matters, the only ones that count.

    Raises:
        DataError: If no source matters on any prompt, or a kept file is broken.
    """
    protocol, rankings = protocol or AnswerProtocol(), rankings or {}
    method_list = [method_named(method) for method in methods]
    model = explainer.language_model
    stored = ResultCache[Mapping[str, Any]](folder, model, [asdict(protocol), seed], Mapping[str, Any])
    prompts = []
    for number, question in with_progress("prompts", questions, on_progress):
        answered_prompt = cache(partial(AnsweredPrompt, model, question, protocol, seed + number))
        figures_by_name = _figures_of_prompt(
            answered_prompt, question, method_list, rankings, stored, f"prompt-{number}"
        )
        if figures_by_name:
            prompts.append(figures_by_name)
    if not prompts:
        raise DataError(f"no source is worth {MATTERS} nats on any of {len(questions)} prompts")
    specs = [method.spec for method in method_list]
    variants = [spec + suffix for suffix in (VERIFIED, EXCESS) for spec in specs]
    order = dict.fromkeys(["occlusion", *BASELINES, *specs, *rankings, *variants])
    names = [name for name in order if all(name in rows for rows in prompts)]
    results = []
    for name in names:
        figures = [rows[name]["figures"] for rows in prompts]
        passes = float(np.mean([rows[name]["passes"] for rows in prompts]))
        results.append(summarise_ranking(name, figures, passes, seed))
    return results, len(prompts)


def _figures_of_prompt(
    answered_prompt: Callable[[], "AnsweredPrompt"],
    question: Asked,
    methods: Sequence[Method],
    rankings: Mapping[str, Callable[["AnsweredPrompt"], Scored]],
    stored: ResultCache[Mapping[str, Any]],
    name: str,
) -> dict[str, Any]:
    """Return the figures of all rankings on a prompt, by name; empty if no source matters.

    Figures are stored under the prompt and the answer that they are of. The model answers the prompt only where some
    are missing.

    Args:
        answered_prompt: Returns the prompt with the model's answer, which is computed at the first call.
        question: The question of the prompt.
        methods: The methods to measure.
        rankings: Further rankings by name, as in `evaluate_sources`.
        stored: The finished results.
        name: The name of the prompt's files.
    """
    prompt_key = (question.question, dict(question.documents))
    baselines = stored.cached(lambda: answered_prompt().baselines(), name, *prompt_key)
    if not baselines["matters"]:
        return {}

    def measure_method(method: Method) -> dict[str, Any]:
        return answered_prompt().figures_of_method(method)

    def measure_ranking(ranking: str) -> dict[str, Any]:
        prompt = answered_prompt()
        return {ranking: prompt.figures(*rankings[ranking](prompt))}

    measurements: dict[str, Callable[[], dict[str, Any]]] = {m.spec: partial(measure_method, m) for m in methods}
    measurements |= {ranking: partial(measure_ranking, ranking) for ranking in rankings}
    is_complete = all(stored.get(name, *prompt_key, baselines["answer"], spec) is not None for spec in measurements)
    if not is_complete and answered_prompt().answer != baselines["answer"]:
        # Another device may generate another answer than the one whose figures are stored.
        baselines = stored.put(answered_prompt().baselines(), name, *prompt_key)
    figures = dict(baselines["methods"])
    for spec, measure in measurements.items():
        figures |= stored.cached(measure, name, *prompt_key, baselines["answer"], spec)
    return figures


class AnsweredPrompt:
    """A question with the model's answer, for measurements without some sources.

    Args:
        model: A language model.
        question: The question with its documents.
        protocol: How the answer is generated and measured.
        seed: Seed of the ablations, the random order and the tokens.
    """

    def __init__(self, model: TaskModel, question: Asked, protocol: AnswerProtocol, seed: int) -> None:
        self.model, self.question, self.protocol, self.seed = model, question, protocol, seed
        self.by_words = bool(protocol.tokens)  # words are the sources, sampled tokens the parts
        self.completed = ask(model, question.question, question.documents, max_new_tokens=protocol.max_new_tokens)
        sequence = self.sequence = self.completed.sequenced()
        self.answer = sequence.text[sequence.prompt_characters :]
        generator = np.random.default_rng(seed)
        sources: SourceSpec = "word" if self.by_words else self.completed.named_sources
        parts: PartSpec = sampled_tokens(sequence, protocol.tokens, generator) if self.by_words else None
        self.division = (sources, parts)
        self.sources, self.parts = sources_and_parts(self.completed, sources, parts)
        self.weights = part_weights(self.completed, self.parts)  # (K, G)
        self.measure = Ablations(model, self.completed, self.sources)
        self.drops = leave_one_out(self.measure, self.weights)  # (K, S): nats that each part loses without a source
        least = TOKEN_MATTERS if self.by_words else MATTERS
        self.parts_that_matter = [k for k, row in enumerate(self.drops) if row.max() >= least]
        lengths = [s.end - s.start if self.by_words else len(s.tokens) for s in self.sources]
        self.lengths = np.array(lengths, np.float64)  # (S,)
        self.reference_scores: dict[str, Scored] = {
            "occlusion": Scored(self.drops, len(self.sources) + 1.0),
            "random": Scored(generator.random(self.drops.shape), 0.0),
            "length": Scored(np.broadcast_to(self.lengths, self.drops.shape), 0.0),
        }

    @cached_property
    def datamodel(self) -> tuple[npt.NDArray[np.bool_], Array]:
        """Random ablations, (N, S), and the log-probability of each part with them, (N, K)."""
        subsets = random_subsets(len(self.sources), self.protocol.ablations, self.seed + 1_000_003)
        return subsets, self.measure(subsets) @ self.weights.T  # ranked as the logit of the probability is

    def baselines(self) -> dict[str, Any]:
        """Return the answer, whether any source matters to it, and the figures of leave-one-out and the baselines."""
        matters = bool(self.parts_that_matter)
        rows = {name: self.figures(*scored) for name, scored in self.reference_scores.items()} if matters else {}
        return {
            "question": self.question.question,
            "answer": self.answer,
            "tokens": len(self.sequence.offsets),
            "explained": [part.name for part in self.parts],
            "matters": matters,
            "leave_one_out": self.drops.tolist() if self.by_words else self.drops.ravel().tolist(),
            "methods": rows,
        }

    def figures_of_method(self, method: Method) -> dict[str, Any]:
        """Return the figures of a method by its name; for whole answers, also those of two variants of its ranking."""
        scored = self.reference_scores.get(method.spec) or self._score(method)
        rankings = {method.spec: scored}
        if not self.by_words and not isinstance(method, Perturbation):
            rankings[method.spec + VERIFIED] = self._verified(scored)
            rankings[method.spec + EXCESS] = self._excess(scored)
        return {name: self.figures(*scored) for name, scored in rankings.items()}

    def _verified(self, scored: Scored) -> Scored:
        """Rank the sources of the highest scores by the nats lost without each, and the others after them by score."""
        scores = scored.table[0]  # (S,)
        nats_lost = verified(self.measure, self.weights[0], scores)
        measured = np.array([nats_lost.get(source, -np.inf) for source in range(len(self.sources))])  # (S,)
        order = np.lexsort((-scores, -measured))  # (S,), the highest source first
        ranks = order.argsort()[None].astype(np.float64)  # (1, S)
        return Scored(-ranks, scored.passes + len(nats_lost) + 1.0)

    def _excess(self, scored: Scored) -> Scored:
        """Subtract the mean score of a token from a source for each of its tokens: long ones score high for length."""
        mean_of_token = scored.table.sum() / self.lengths.sum()
        return Scored(scored.table - mean_of_token * self.lengths, scored.passes)

    def figures(self, values: Array, passes: float) -> dict[str, Any]:
        """Return the metrics of a ranking of the sources, averaged over the parts for which some source matters."""
        subsets, log_probabilities = self.datamodel
        (full_log_probabilities,) = self.measure(np.ones((1, len(self.sources)), bool)) @ self.weights.T  # (K,)
        rows = []
        for k in self.parts_that_matter:
            order = np.argsort(-values[k], kind="stable")
            is_kept = np.ones((len(TOP), len(self.sources)), bool)
            for row, count in enumerate(TOP):
                is_kept[row, order[:count]] = False
            drops = full_log_probabilities[k] - self.measure(is_kept) @ self.weights[k]  # (3,)
            figures = {f"top {count}": float(drop) for count, drop in zip(TOP, drops, strict=True)}
            lds = rank_correlation(subsets @ values[k], log_probabilities[:, k])
            rows.append(figures | agreement(values[k], self.drops[k]) | {"lds": lds})
        means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        scores = values.tolist() if self.by_words else values.ravel().tolist()
        return {"scores": scores, "passes": passes, "figures": means}

    def _score(self, method: Method) -> Scored:
        """Return a method's scores of the sources and their cost."""

        def explain(method: Method) -> tuple[Array, Mapping[str, float]]:
            merge: Merge = "max" if self.by_words and method.word_merge == "max" else "sum"
            explained = explain_sources(self.model, self.completed, Options(method=method), *self.division, merge)
            return explained.scores[:, : len(self.sources)].astype(np.float64), explained.diagnostics

        passes: Mapping[str, float]
        if isinstance(method, Perturbation):
            scored = score_sources(method, self.measure, self.weights, explain)
            table, passes = scored.table, scored.passes
        else:
            table, passes = explain(method)
        if method.info.name == "context-cite":  # the published package runs an ablation again that it drew twice
            return Scored(table, float(method.settings["samples"]))
        return Scored(table, passes["forward_passes"] + 2 * passes.get("backward_passes", 0.0))


def sampled_tokens(sequence: Sequenced, count: int, random: np.random.Generator) -> list[int]:
    """Sample tokens of an answer that are visible and not special, in their order.

    Raises:
        InputError: If there is none.
    """
    start = sequence.prompt_tokens
    visible = [
        index - start
        for index, (a, b) in enumerate(sequence.offsets)
        if index >= start and not sequence.special[index] and sequence.text[a:b].strip()
    ]
    if not visible:
        raise InputError("the answer has no visible token")
    return sorted(random.permutation(visible)[:count].tolist())


def sources_table(results: Sequence[RankingResult], ranked: str = "source") -> str:
    """Return a Markdown table, leave-one-out (`occlusion`) first, the others by the drop without their first source."""
    columns: list[FigureColumn] = [(f"first {ranked} as leave-one-out's ↑", "agrees", 2), ("its nats ↑", "nats", 2)]
    columns += [(f"drop, top {k} ↑", f"top {k}", 1) for k in TOP]
    return ranking_table(results, [*columns, ("Spearman ↑", "spearman", 2), ("LDS ↑", "lds", 2)], "top 1")
