"""Do a method's sources matter? The answer is measured with sources taken out (REFERENCE: ContextCite, 2024)."""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError, InputError
from ..explainer import Explainer
from ..methods import ContextCite, Method, method_named
from ..methods.defaults import default_methods
from ..methods.perturbation import Perturbation, random_subsets
from ..models.model_digest import model_digest
from ..models.task_model import TaskModel
from ..pipeline.ablations import Ablations, Prior, leave_one_out, score_sources, verified
from ..pipeline.cite import ask
from ..pipeline.options import Options
from ..pipeline.sources import explain_sources, part_weights
from ..results.files import read_json, write_text
from ..results.sources import Merging
from ..results.spans import By, Of, Sequenced, answer_parts, prompt_sources
from .context_cite import published_context_cite
from .questions import Asked
from .statistics import mean_interval, rank_correlation

__all__ = ["BASELINES", "SourceResult", "source_methods", "evaluate_sources", "measure_prompt", "summarise"]

TOP = (1, 3, 5)
"""How many of the highest sources are taken out."""

MATTERS = 2.0
"""Nats that the most important source of a prompt must be worth; otherwise the answer rests on no source."""

TOKEN_MATTERS = 1.0
"""Nats that the most important word of a prompt must be worth to a token of the answer."""

BASELINES = ("random", "length")

VERIFIED = " (verified)"
"""Added to the name of a method whose first sources were measured, see `cite(verify="auto")`."""

EXCESS = " (excess)"
"""Added to the name of a method whose sums over tokens are taken less what as many tokens have on average."""

PUBLISHED = "package context-cite:samples={}"
"""The row of the published package."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SourceResult:
    """How well a method ranks the sources of N prompts; the means have 95% bootstrap intervals.

    Attributes:
        method: What was measured.
        prompts: N.
        drops: By k, the mean drop of the answer's log-probability without the k highest sources, and its interval.
        agrees: Share of prompts whose first source is leave-one-out's, and its interval.
        nats: The drop without its first source as a share of the drop without leave-one-out's.
        spearman: Mean rank correlation with leave-one-out, and its interval.
        lds: Mean linear datamodelling score, and its interval.
        passes: Mean forward passes over the finished sequence; a backward pass counts as two.
    """

    method: str
    prompts: int
    drops: dict[int, tuple[float, float, float]]
    agrees: tuple[float, float, float]
    nats: float
    spearman: tuple[float, float, float]
    lds: tuple[float, float, float]
    passes: float


def source_methods(explainer: Explainer) -> list[Method]:
    """Return what is measured unless other methods are named: those that a model's sources can be scored by."""
    task = explainer._language_model.task
    found = [*default_methods("completions"), method_named("normxlogit"), method_named("context-cite")]
    return [method for method in found if task.left_to_right or not method.info.tokenwise]


def evaluate_sources(
    explainer: Explainer,
    questions: Sequence[Asked],
    methods: Sequence[str | Method],
    *,
    max_new_tokens: int = 40,
    ablations: int = 32,
    context_cite: int = 0,
    tokens: int = 0,
    seed: int = 0,
    folder: Path | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[list[SourceResult], int]:
    """Measure how well methods find the sources that answers rest on.

    Args:
        explainer: A causal language model.
        questions: Questions with documents, whose sentences are the sources.
        methods: What to measure; a random order and the sources' lengths are added.
        max_new_tokens: Most tokens of an answer.
        ablations: Random ablations of the linear datamodelling score.
        context_cite: Random ablations of the published package context-cite, a row of its own; 0 for none.
        tokens: How many tokens of each answer are explained, each by the words of the prompt, in the place of the whole
            answer by the sentences of the documents; 0 for these. Figures are means over the tokens of a prompt.
        seed: Of the ablations, the random order and the bootstrap.
        folder: Where what was measured on a prompt is kept, so that a stopped run goes on and one with more methods
            measures those alone.
        on_progress: Called with what is done, prompts done and prompts in all.

    Returns:
        A result for each method, and on how many prompts some source matters, the only ones that count.

    Raises:
        DataError: If no source matters on any prompt, or a file of what was measured is broken.
        InputError: If the published package is asked for tokens.
    """
    if tokens and context_cite:
        raise InputError("the package context-cite is measured on sentences; leave it out, or explain whole answers")
    chosen = [method_named(method) for method in methods]
    asked = [method.spec for method in chosen]
    published = [PUBLISHED.format(context_cite)] if context_cite else []
    model = explainer._language_model
    identity = None if folder is None else model_digest(model)
    measured: list[dict[str, Any]] = []
    for number, question in enumerate(questions):
        path = None if folder is None else folder / f"prompt-{seed}-{number}.json"
        state = read_json(path) if path is not None and path.is_file() else {}
        run = [question.question, dict(question.documents), identity, max_new_tokens, ablations]
        run += [f"{tokens} tokens"] if tokens else []
        known = state if state.get("run") == run else {}
        left = [method for method in chosen if method.spec not in known.get("methods", {})]
        samples = context_cite if any(name not in known.get("methods", {}) for name in published) else 0
        if not known or (known["matters"] and (left or samples)):
            how = (max_new_tokens, ablations, seed + number)
            state = measure_prompt(model, question, left, *how, samples, tokens)
            if known and state["answer"] == known["answer"]:
                state["methods"] = known["methods"] | state["methods"]
            elif left != chosen:  # what was measured belongs to another answer
                state = measure_prompt(model, question, chosen, *how, context_cite, tokens)
            state = {"run": run} | state
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(json.dumps(state), path)
        if state["matters"]:
            measured.append(state)
        if on_progress is not None:
            on_progress("prompts", number + 1, len(questions))
    if not measured:
        raise DataError(f"no source is worth {MATTERS} nats on any of {len(questions)} prompts")
    more = [name + end for end in (VERIFIED, EXCESS) for name in asked]
    order = dict.fromkeys(["occlusion", *BASELINES, *asked, *published, *more])
    names = [name for name in order if all(name in state["methods"] for state in measured)]
    return [summarise(name, [state["methods"][name] for state in measured], seed) for name in names], len(measured)


def measure_prompt(
    model: TaskModel,
    question: Asked,
    methods: Sequence[Method],
    max_new_tokens: int,
    samples: int,
    seed: int,
    context_cite: int = 0,
    tokens: int = 0,
) -> dict[str, Any]:
    """Measure the methods on one prompt, as plain values.

    Args:
        model: A language model.
        question: The question with its documents.
        methods: What to measure.
        max_new_tokens: Most tokens of the answer.
        samples: Random ablations of the linear datamodelling score.
        seed: Of the ablations, the random order and the tokens.
        context_cite: Random ablations of the published package; 0 leaves it out.
        tokens: How many tokens of the answer are explained, each by the words of the prompt; 0 explains the whole
            answer by the sentences of the documents.
    """
    completed = ask(model, question.question, question.documents, max_new_tokens=max_new_tokens)
    sequence = completed.sequenced()
    random = np.random.default_rng(seed)
    by: By = "word" if tokens else completed.named
    of: Of = sampled_tokens(sequence, tokens, random) if tokens else None
    sources, parts = prompt_sources(sequence, by), answer_parts(sequence, of)
    weights = part_weights(completed, parts)  # (K, G)
    measure = Ablations(model, completed, sources)
    removed = leave_one_out(measure, weights)  # (K, S)
    matter = [k for k, own in enumerate(removed) if own.max() >= (TOKEN_MATTERS if tokens else MATTERS)]
    state: dict[str, Any] = {
        "question": question.question,
        "answer": sequence.text[sequence.prompt_characters :],
        "tokens": len(sequence.offsets),
        "explained": [part.name for part in parts],
        "matters": bool(matter),
        "leave_one_out": removed.tolist() if tokens else removed.ravel().tolist(),
        "methods": {},
    }
    if not matter:
        return state

    def direct(method: Method) -> tuple[Array, Mapping[str, float]]:
        merge: Merging = "max" if tokens and method.word_merge == "max" else "sum"
        found = explain_sources(model, completed, Options(method=method), by, of, merge)
        return found.table.astype(np.float64), found.diagnostics

    lengths = np.array([s.end - s.start if tokens else len(s.tokens) for s in sources], np.float64)  # (S,)
    scores = {
        "occlusion": (removed, len(sources) + 1.0),
        "random": (random.random(removed.shape), 0.0),
        "length": (np.broadcast_to(lengths, removed.shape), 0.0),
    }
    scores |= {m.spec: _scored(m, measure, weights, direct) for m in methods if m.spec not in scores}
    if context_cite:
        weight = published_context_cite(model, completed, sources, context_cite, seed)
        scores[PUBLISHED.format(context_cite)] = (weight[None], float(context_cite))
    for method in methods if not tokens else ():
        values, passes = scores[method.spec]
        if not isinstance(method, Perturbation):
            lost = verified(measure, weights[0], values[0])
            first = np.array([lost.get(place, -np.inf) for place in range(len(sources))])  # (S,)
            order = np.lexsort((-values[0], -first))  # measured ones by their nats, then the others by score
            scores[method.spec + VERIFIED] = (-order.argsort()[None].astype(np.float64), passes + len(lost) + 1.0)
    for method in methods if not tokens else ():  # what long sources have for being long, taken off
        values, passes = scores[method.spec]
        if not isinstance(method, Perturbation):
            scores[method.spec + EXCESS] = (values - values.sum() / lengths.sum() * lengths, passes)
    kept = random_subsets(len(sources), samples, seed + 1_000_003)
    measured = measure(kept) @ weights.T  # (N, K), which the logit of the probability ranks alike
    (whole,) = measure(np.ones((1, len(sources)), bool)) @ weights.T  # (K,)
    for name, (values, passes) in scores.items():
        each = []
        for k in matter:
            order = np.argsort(-values[k], kind="stable")
            left = np.ones((len(TOP), len(sources)), bool)
            for row, count in enumerate(TOP):
                left[row, order[:count]] = False
            each.append(
                {
                    "drops": (whole[k] - measure(left) @ weights[k]).tolist(),
                    "agrees": float(order[0] == removed[k].argmax()),
                    "best": float(removed[k].max()),
                    "spearman": rank_correlation(values[k], removed[k]),
                    "lds": rank_correlation(kept @ values[k], measured[:, k]),
                }
            )
        means = {figure: np.mean([one[figure] for one in each], 0) for figure in each[0]}  # over the tokens
        drops = means.pop("drops").tolist()
        state["methods"][name] = {
            "scores": values.tolist() if tokens else values.ravel().tolist(),
            "drops": dict(zip(map(str, TOP), drops, strict=True)),
            "passes": passes,
            **{figure: float(value) for figure, value in means.items()},
        }
    return state


def sampled_tokens(sequence: Sequenced, count: int, random: np.random.Generator) -> list[int]:
    """Choose tokens of an answer that are seen and are not special, in their order.

    Raises:
        InputError: If there is none.
    """
    start = sequence.prompt_tokens
    seen = [
        place - start
        for place, (a, b) in enumerate(sequence.offsets)
        if place >= start and not sequence.special[place] and sequence.text[a:b].strip()
    ]
    if not seen:
        raise InputError("no token of the answer can be seen")
    return sorted(random.permutation(seen)[:count].tolist())


def _scored(method: Method, measure: Ablations, weights: Array, direct: Prior) -> tuple[Array, float]:
    """Return a method's scores of the sources, (K, S), and what they cost in forward passes over the finished text."""
    if not isinstance(method, Perturbation):
        table, passes = direct(method)
    else:
        table, _, passes, _ = score_sources(method, measure, weights, direct)
    if isinstance(method, ContextCite):  # the published package runs an ablation again that it drew twice
        return table, float(method.samples)
    return table, passes["forward_passes"] + 2 * passes.get("backward_passes", 0.0)


def summarise(name: str, prompts: Sequence[Mapping[str, Any]], seed: int = 0) -> SourceResult:
    """Average what was measured on prompts.

    Args:
        name: The method.
        prompts: What `measure_prompt` holds of it, one for each prompt.
        seed: Of the bootstrap.
    """
    first = sum(p["drops"]["1"] for p in prompts)
    mean = functools.partial(mean_interval, seed=seed)
    return SourceResult(
        method=name,
        prompts=len(prompts),
        drops={k: mean([p["drops"][str(k)] for p in prompts]) for k in TOP},
        agrees=mean([p["agrees"] for p in prompts]),
        nats=first / sum(p["best"] for p in prompts),
        spearman=mean([p["spearman"] for p in prompts]),
        lds=mean([p["lds"] for p in prompts]),
        passes=float(np.mean([p["passes"] for p in prompts])),
    )
