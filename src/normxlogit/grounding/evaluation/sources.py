"""Evaluation of source rankings by the probability of a model's answer without some sources.

The protocol is ContextCite's (Cohen-Wang et al., 2024).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import DataError
from ...evaluation.datasets import parsed_rows
from ...evaluation.ranking import FigureColumn, RankingResult, agreement, ranking_table, summarise_ranking
from ...evaluation.runs import OnProgress, ResultCache, with_progress
from ...evaluation.statistics import rank_correlation
from ...explainer import Explainer
from ...methods import Method, Occlusion, list_methods, method_named
from ...methods.defaults import default_methods
from ...methods.perturbation import Booleans, Perturbation, random_subsets
from ...model.task_model import TaskModel
from ...pipeline.completions.leave_out import Ablations
from ...pipeline.completions.sources import explain_sources, part_weights, score_sources, sources_and_parts
from ...pipeline.options import Options
from ...results.storage.schema import Fields
from ..citations.cited_answer import read_answered
from ..citations.removals import verified
from ..documents.documents import read_documents

TOP = (1, 3, 5)
"""Numbers of the highest ranked sources that are left out."""

MATTERS = 2.0
"""A prompt counts if leaving out some source costs its answer this many nats."""

Array = npt.NDArray[np.float64]


class Question(NamedTuple):
    """A question with its documents."""

    question: str
    documents: Mapping[str, str]


def load_questions(path: str | Path, limit: int | None = None) -> list[Question]:
    """Read a file of questions, each row with "question" and "documents", texts or a mapping of them by name."""

    def asked(row: Fields) -> Question:
        if not isinstance(row["question"], str):
            raise TypeError("a question is a text")
        return Question(row["question"], read_documents(row["documents"])[0])

    return parsed_rows(path, asked, "no question with documents", limit)


class Scored(NamedTuple):
    """Scores of the sources, (S,), and their cost in forward passes."""

    scores: Array
    passes: float


def source_methods(explainer: Explainer) -> list[Method]:
    """Return the default methods: those that can score the sources of a model's answers."""
    task = explainer.language_model.task
    present = {info.name for info in list_methods()}  # a wing of methods may have been deleted
    methods = [*default_methods("completions"), method_named("normxlogit")]
    methods += [method_named("context-cite")] if "context-cite" in present else []
    return [method for method in methods if task.position.left_to_right or not method.info.tokenwise]


def evaluate_sources(
    explainer: Explainer,
    questions: Sequence[Question],
    methods: Sequence[str | Method],
    *,
    max_new_tokens: int = 40,
    ablations: int = 32,
    rankings: "Rankings | None" = None,
    seed: int = 0,
    folder: Path | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[list[RankingResult], int]:
    """Measure how well methods, and further rankings of a prompt's sources by name, find what answers rest on.

    Args:
        explainer: An explainer of a language model.
        questions: The questions with their documents.
        methods: The methods, by name or as they are.
        max_new_tokens: Most tokens of an answer.
        ablations: How many random ablations the scores are compared with.
        rankings: Further rankings.
        seed: Of the random ablations and of the bootstrap.
        folder: Where results are kept, so that a second run goes on; None to keep none.
        on_progress: Shows how many prompts are measured.

    Returns:
        A result for each method, and on how many prompts some source matters, the only ones that count.
    """
    rankings, method_list = rankings or {}, [method_named(method) for method in methods]
    model, specs = explainer.language_model, [method.spec for method in method_list]
    stored = ResultCache[Fields](folder, model, [max_new_tokens, ablations, seed], Fields)

    def measure(question: Question, prompt_seed: int) -> Fields:
        # Nothing of a prompt that does not count; it is kept, so that a second run does not measure it again.
        prompt = AnsweredPrompt(model, question, max_new_tokens, ablations, prompt_seed)
        return prompt.all_figures(method_list, rankings) if prompt.matters else {}

    prompts = []
    for number, question in with_progress("prompts", questions, on_progress):
        request = (question.question, dict(question.documents), specs, list(rankings))
        figures = stored.cached(partial(measure, question, seed + number), f"prompt-{number}", *request)
        if figures:
            prompts.append(figures)
    if not prompts:
        raise DataError(f"no source is worth {MATTERS} nats on any of {len(questions)} prompts")
    return [_summary(name, [rows[name] for rows in prompts], seed) for name in prompts[0]], len(prompts)


def _summary(name: str, rows: Sequence[Fields], seed: int) -> RankingResult:
    """Return the result of a ranking from its figures on each prompt."""
    passes = float(np.mean([row["passes"] for row in rows]))
    return summarise_ranking(name, [row["figures"] for row in rows], passes, seed)


class AnsweredPrompt:
    """A question with the model's answer, for measurements without some of the S sources.

    Attributes:
        model: A language model.
        ablations: How many random ablations scores are compared with.
        seed: Of the random ablations.
        completed: The prompt with the answer.
        sources: The sources, the sentences of the documents.
        weights: Which tokens of the answer are measured, (1, G): all of them.
        measure: Returns the log-probabilities of the answer's tokens, (N, G), with some of the sources, (N, S).
        drops: What the answer loses without each source, (S,), in nats.
        reference_scores: The scores that are compared with those of methods, by name.
    """

    def __init__(self, model: TaskModel, question: Question, max_new_tokens: int, ablations: int, seed: int) -> None:
        self.model, self.ablations, self.seed = model, ablations, seed
        answered = read_answered(model, question.question, question.documents, max_new_tokens=max_new_tokens)
        self.completed = answered.completed
        # None: the answer is one part, K = 1.
        self.sources, parts = sources_and_parts(self.completed, self.completed.named_sources, None)
        self.weights = part_weights(self.completed, parts)  # (1, G)
        self.measure = Ablations(model, self.completed, self.sources)
        scores, _, _ = score_sources(Occlusion(), self.measure, self.weights)  # (1, S)
        self.drops = scores[0]  # (S,): nats lost without each source
        lengths = np.array([len(source.tokens) for source in self.sources], np.float64)  # (S,)
        self.reference_scores: dict[str, Scored] = {
            "occlusion": Scored(self.drops, len(self.sources) + 1.0),  # a pass without each, and one with all
            "random": Scored(np.random.default_rng(seed).random(self.drops.shape), 0.0),
            "length": Scored(lengths, 0.0),
        }

    @property
    def matters(self) -> bool:
        """Whether any source matters to the answer."""
        return bool(self.drops.max() >= MATTERS)

    @cached_property
    def datamodel(self) -> tuple[Booleans, Array]:
        """Random ablations, (N, S), and the log-probability of the answer with them, (N,)."""
        # Another seed than that of methods: they are not fitted to the ablations that they are measured by.
        subsets = random_subsets(len(self.sources), self.ablations, self.seed + 1_000_003)
        # The score compares ranks, and log-probabilities have those of the logits of probabilities.
        return subsets, self.measure(subsets) @ self.weights[0]

    def all_figures(self, methods: Sequence[Method], rankings: "Rankings") -> Fields:
        """Return the figures of methods, of further rankings and of those to compare with, by name."""
        scored = dict(self.reference_scores)
        for method in methods:
            scored |= self.scored(method)
        scored |= {name: rank(self) for name, rank in rankings.items()}
        return {name: self.figures(ranking) for name, ranking in scored.items()}

    def scored(self, method: Method) -> dict[str, Scored]:
        """Return the scores of a method by its name, and its ranking after its first sources were measured.

        A method that leaves sources out has measured them itself.
        """
        scored = self.reference_scores.get(method.spec) or self._score(method)  # occlusion was measured already
        if isinstance(method, Perturbation):
            return {method.spec: scored}
        lost = verified(self.measure, self.weights[0], scored.scores)
        measured = np.array([lost.get(source, -np.inf) for source in range(len(self.sources))])  # (S,)
        # The last key counts first. (S,): by nats lost, then those that were not measured, which are at -inf.
        order = np.lexsort((-scored.scores, -measured))
        # As scores, ranks are negative: the first source has 0, the highest.
        passes = scored.passes + len(lost) + 1.0
        return {method.spec: scored, f"{method.spec} (verified)": Scored(-order.argsort().astype(np.float64), passes)}

    def figures(self, ranking: Scored) -> Fields:
        """Return the metrics of a ranking of the sources by their scores."""
        scores, (subsets, log_probabilities) = ranking.scores, self.datamodel
        order = np.argsort(-scores, kind="stable")
        is_kept = np.ones((1 + len(TOP), len(self.sources)), bool)  # the first row is the whole prompt
        for row, count in enumerate(TOP, start=1):
            is_kept[row, order[:count]] = False
        nats = self.measure(is_kept) @ self.weights[0]  # (4,)
        figures = {f"top {count}": float(nats[0] - left) for count, left in zip(TOP, nats[1:], strict=True)}
        lds = rank_correlation(subsets @ scores, log_probabilities)
        figures |= agreement(scores, self.drops) | {"lds": lds}
        return {"scores": scores.tolist(), "passes": ranking.passes, "figures": figures}

    def _score(self, method: Method) -> Scored:
        """Return a method's scores of the sources and their cost."""
        if isinstance(method, Perturbation):
            table, _, passes = score_sources(method, self.measure, self.weights)
            # The published package runs an ablation again that it drew twice.
            again = method.info.name == "context-cite"
            return Scored(table[0], float(method.settings["samples"]) if again else passes)
        options = Options(method=method)
        explained = explain_sources(self.model, self.completed, options, self.completed.named_sources)
        cost = explained.diagnostics
        passes = cost["forward_passes"] + 2 * cost.get("backward_passes", 0.0)
        return Scored(explained.scores[0, : len(self.sources)].astype(np.float64), passes)


Rankings = Mapping[str, Callable[[AnsweredPrompt], Scored]]
"""Further rankings of a prompt's sources by name."""


def sources_table(results: Sequence[RankingResult]) -> str:
    """Return a Markdown table, leave-one-out (`occlusion`) first, the others by the drop without their first source."""
    columns: list[FigureColumn] = [("first source as leave-one-out's ↑", "agrees", 2), ("its nats ↑", "nats", 2)]
    columns += [(f"drop, top {k} ↑", f"top {k}", 1) for k in TOP]
    return ranking_table(results, [*columns, ("Spearman ↑", "spearman", 2), ("LDS ↑", "lds", 2)], "top 1")
