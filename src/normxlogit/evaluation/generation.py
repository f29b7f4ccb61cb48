"""Do a method's sources matter? The answer is measured with sources taken out (REFERENCE: ContextCite, 2024)."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError, InputError
from ..explainer import Explainer
from ..methods import Method, method_named
from ..methods.guided_lime import GuidedLime
from ..methods.perturbation import KernelShap, Lime, Occlusion
from ..models.seq2seq import Seq2SeqModel
from ..models.task_model import TaskModel
from ..pipeline.ablations import Ablations, leave_one_out, random_ablations, score_by_ablation
from ..pipeline.cite import ask, documents_by_name
from ..pipeline.completed import Completed
from ..pipeline.completion import default_method
from ..pipeline.options import Options
from ..pipeline.sources import explain_sources, part_weights
from ..results.spans import answer_parts, prompt_sources
from .context_cite import published_context_cite

__all__ = [
    "BASELINES",
    "Asked",
    "SourceResult",
    "default_methods",
    "evaluate_sources",
    "load_questions",
    "qnli_questions",
    "summarise",
]

TOP = (1, 3, 5)
"""How many of the highest sources are taken out."""

MATTERS = 2.0
"""Nats that the most important source of a prompt must be worth; otherwise the answer rests on no source."""

SENTENCES = 7
"""Sentences of a document made from QNLI: the one that answers and others."""

BASELINES = ("random", "length")

EXCESS = " (excess)"
"""Added to the name of a method whose sums over tokens are taken less what as many tokens have on average."""
RESAMPLES = 2000

PUBLISHED = "package context-cite:samples={}"
"""The row of the published package."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """A question with the documents that it is asked of.

    Attributes:
        question: The question.
        documents: Texts by name.
    """

    question: str
    documents: Mapping[str, str]


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


def load_questions(path: str | Path, limit: int, seed: int = 0) -> list[Asked]:
    """Read a JSONL file of questions, each line with "question" and "documents", texts or a mapping of them by name.

    Rows of QNLI ("question", "sentence", "label") are made to questions with documents of seven sentences.

    Args:
        path: The file.
        limit: Most questions.
        seed: Chooses among QNLI's rows.

    Raises:
        DataError: If it cannot be read; names file and line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    found, pairs = [], []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if "documents" not in row and {"sentence", "label"} <= set(row):
                pairs.append(row)
            else:
                found.append(Asked(row["question"], documents_by_name(row["documents"])))
                if not isinstance(row["question"], str):
                    raise TypeError("a question is a text")
        except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
            raise DataError(f"{path}, line {number}: no question with documents: {error}") from None
    if pairs and not found:
        return qnli_questions(pairs, limit, seed)
    if not found:
        raise DataError(f"{path}: empty")
    return found[:limit]


def qnli_questions(rows: Sequence[Mapping[str, Any]], count: int, seed: int = 0) -> list[Asked]:
    """Make questions with documents of seven sentences out of QNLI: the sentence that answers among six others.

    Args:
        rows: QNLI's rows; label 0 means that the sentence answers the question.
        count: How many at most.
        seed: Chooses questions, the other sentences, and the order.

    Raises:
        DataError: If there are too few rows.
    """
    random = np.random.default_rng(seed)
    answered = [i for i, row in enumerate(rows) if row["label"] == 0]
    if not answered or len(rows) < SENTENCES:
        raise DataError(f"a document of {SENTENCES} sentences needs as many rows, and one with label 0")
    found = []
    for i in random.permutation(answered)[:count].tolist():
        sentences = [" ".join(str(rows[i]["sentence"]).split())]
        for other in random.permutation(len(rows)).tolist():
            sentence = " ".join(str(rows[other]["sentence"]).split())
            if sentence not in sentences and len(sentences) < SENTENCES:
                sentences.append(sentence)
        order = random.permutation(len(sentences)).tolist()
        found.append(Asked(str(rows[i]["question"]), {"text": "\n\n".join(sentences[k] for k in order)}))
    return found


def default_methods(explainer: Explainer) -> list[Method]:
    """Return what is measured unless other methods are named: those that a model's sources can be scored by."""
    model = explainer._language_model
    found = [default_method(model), method_named("normxlogit"), method_named("lime:samples=32")]
    return [method for method in found if not (isinstance(model, Seq2SeqModel) and method.info.tokenwise)]


def evaluate_sources(
    explainer: Explainer,
    questions: Sequence[Asked],
    methods: Sequence[str | Method],
    *,
    max_new_tokens: int = 40,
    ablations: int = 32,
    context_cite: int = 0,
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
        seed: Of the ablations, the random order and the bootstrap.
        folder: Where what was measured on a prompt is kept, so that a stopped run goes on and one with more methods
            measures those alone.
        on_progress: Called with what is done, prompts done and prompts in all.

    Returns:
        A result for each method, and on how many prompts some source matters, the only ones that count.

    Raises:
        DataError: If no source matters on any prompt.
    """
    chosen = [method_named(method) for method in methods]
    asked = [method.spec for method in chosen]
    published = [PUBLISHED.format(context_cite)] if context_cite else []
    model = explainer._language_model
    measured: list[dict[str, Any]] = []
    for number, question in enumerate(questions):
        path = None if folder is None else folder / f"prompt-{seed}-{number}.json"
        state = json.loads(path.read_text(encoding="utf-8")) if path is not None and path.is_file() else {}
        run = [question.question, dict(question.documents), model.name, max_new_tokens, ablations]
        known = state if state.get("run") == run else {}
        left = [method for method in chosen if method.spec not in known.get("methods", {})]
        samples = context_cite if any(name not in known.get("methods", {}) for name in published) else 0
        if not known or (known["matters"] and (left or samples)):
            state = measure_prompt(model, question, left, max_new_tokens, ablations, seed + number, samples)
            if known and state["answer"] == known["answer"]:
                state["methods"] = known["methods"] | state["methods"]
            elif left != chosen:  # what was measured belongs to another answer
                state = measure_prompt(model, question, chosen, max_new_tokens, ablations, seed + number, context_cite)
            state = {"run": run} | state
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(state), encoding="utf-8")
        if state["matters"]:
            measured.append(state)
        if on_progress is not None:
            on_progress("prompts", number + 1, len(questions))
    if not measured:
        raise DataError(f"no source is worth {MATTERS} nats on any of {len(questions)} prompts")
    names = ["occlusion", *measured[0]["methods"]]
    wanted = {"occlusion", *BASELINES, *asked, *published, *(name + EXCESS for name in asked)}
    names = list(dict.fromkeys(name for name in names if name in wanted))
    return [summarise(name, [state["methods"][name] for state in measured], seed) for name in names], len(measured)


def measure_prompt(
    model: TaskModel,
    question: Asked,
    methods: Sequence[Method],
    max_new_tokens: int,
    samples: int,
    seed: int,
    context_cite: int = 0,
) -> dict[str, Any]:
    """Measure the methods on one prompt, as plain values.

    Args:
        model: A causal language model.
        question: The question with its documents.
        methods: What to measure.
        max_new_tokens: Most tokens of the answer.
        samples: Random ablations of the linear datamodelling score.
        seed: Of the ablations and the random order.
        context_cite: Random ablations of the published package; 0 leaves it out.
    """
    completed = ask(model, question.question, question.documents, max_new_tokens=max_new_tokens)
    sequence = completed.sequenced()
    sources = prompt_sources(sequence, completed.named)
    weights = part_weights(completed, answer_parts(sequence, None))
    measure = Ablations(model, completed, sources)
    removed = leave_one_out(measure, weights)[0]  # (S,)
    answer = completed.encoding.text or ""
    state: dict[str, Any] = {
        "question": question.question,
        "answer": answer[completed.prompt_characters :],
        "tokens": len(completed.encoding),
        "matters": bool(removed.max() >= MATTERS),
        "leave_one_out": removed.tolist(),
        "methods": {},
    }
    if not state["matters"]:
        return state
    random = np.random.default_rng(seed)
    scores = {
        "occlusion": (removed, len(sources) + 1.0),
        "random": (random.random(len(sources)), 0.0),
        "length": (np.array([len(source.tokens) for source in sources], np.float64), 0.0),
    }
    scores |= {m.spec: _scored(model, completed, m, measure, weights) for m in methods if m.spec not in scores}
    if context_cite:
        weight = published_context_cite(model, completed, sources, context_cite, seed)
        scores[PUBLISHED.format(context_cite)] = (weight, float(context_cite))
    lengths = scores["length"][0]
    for method in methods:  # what long sources have for being long, taken off
        values, passes = scores[method.spec]
        if not isinstance(method, Occlusion | Lime | KernelShap | GuidedLime):
            scores[method.spec + EXCESS] = (values - values.sum() / lengths.sum() * lengths, passes)
    kept = random_ablations(len(sources), samples, seed + 1_000_003)
    measured = (measure(kept) @ weights.T)[:, 0]  # (N,), which the logit of the probability ranks alike
    whole = float(measure(np.ones((1, len(sources)), bool))[0] @ weights[0])
    for name, (values, passes) in scores.items():
        order = np.argsort(-values, kind="stable")
        drops = {}
        for k in TOP:
            left = np.ones((1, len(sources)), bool)
            left[0, order[:k]] = False
            drops[str(k)] = whole - float(measure(left)[0] @ weights[0])
        state["methods"][name] = {
            "scores": np.asarray(values, np.float64).tolist(),
            "drops": drops,
            "agrees": float(order[0] == int(removed.argmax())),
            "best": float(removed.max()),
            "spearman": _spearman(values, removed),
            "lds": _spearman(kept @ values, measured),
            "passes": passes,
        }
    return state


def _scored(
    model: TaskModel, completed: Completed, method: Method, measure: Ablations, weights: Array
) -> tuple[Array, float]:
    """Return a method's scores of the sources, (S,), and what they cost in forward passes."""

    def prior(method: Method) -> tuple[Array, Mapping[str, float]]:
        found = explain_sources(model, completed, Options(method=method), completed.named)
        return found.table.astype(np.float64), found.diagnostics

    ablated = score_by_ablation(method, measure, weights, prior)
    table, passes = prior(method) if ablated is None else (ablated.table, ablated.passes)
    if isinstance(method, Lime):  # ContextCite runs the ablations that it drew twice too
        return table[0], float(method.samples)
    return table[0], passes["forward_passes"] + 2 * passes.get("backward_passes", 0.0)


def summarise(name: str, prompts: Sequence[Mapping[str, Any]], seed: int = 0) -> SourceResult:
    """Average what was measured on prompts.

    Args:
        name: The method.
        prompts: What `measure_prompt` holds of it, one for each prompt.
        seed: Of the bootstrap.
    """
    draws = np.random.default_rng(seed).integers(0, len(prompts), (RESAMPLES, len(prompts)))

    def mean(values: Sequence[float]) -> tuple[float, float, float]:
        array = np.asarray(values, np.float64)  # (N,)
        low, high = np.quantile(array[draws].mean(1), [0.025, 0.975])
        return float(array.mean()), float(low), float(high)

    first = sum(p["drops"]["1"] for p in prompts)
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


def _spearman(one: Array, other: Array) -> float:
    """Return the rank correlation, 0 where one of them is constant."""
    from scipy.stats import spearmanr

    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(spearmanr(one, other).statistic)
