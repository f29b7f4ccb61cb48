"""Which tokens of a text does its next token rest on? Methods are compared with leave-one-out."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, NormXLogitError
from ..explainer import Explainer
from ..methods import Method, method_named
from ..methods.defaults import default_methods
from ..models.model_digest import model_digest
from ..pipeline.ablations import Ablations, Array, leave_one_out
from ..pipeline.completed import Completed
from ..pipeline.writing import read_completion
from ..results.files import write_json, write_text
from ..results.schema import plain
from ..results.spans import Piece
from .frontier import measure_cost
from .result_cache import ResultCache
from .statistics import Candidate, Interval, mean_interval, rank_correlation, recommendations

__all__ = [
    "NextTokenResult",
    "evaluate_next_token",
    "load_beginnings",
    "next_token_methods",
    "next_token_table",
    "write_next_token",
]

TOP = (1, 3)
"""How many of the highest tokens are taken out."""

LEAST = 3
"""Tokens that a text must have for a ranking of them, and of those before the last, to say anything."""

POSITIONS = ("last token", "first token", "random")
"""Rankings that read nothing: what a method must be better than."""

SHORTEST, LONGEST = 6, 24
"""Words of a beginning."""

COUNTED = 8
"""Texts that a method is timed on."""


@dataclass(frozen=True)
class NextTokenResult:
    """How well a method ranks the tokens of N texts for the token that follows; means with 95% bootstrap intervals.

    Attributes:
        method: What was measured.
        texts: N.
        agrees: Share of texts whose first token is leave-one-out's.
        nats: The drop of the next token's log-probability without the first token, as a share of the largest.
        drops: By k, the mean drop without the k highest tokens of the texts that have more.
        spearman: Rank correlation with leave-one-out.
        earlier_agrees: `agrees` among the tokens before the last one.
        earlier_nats: `nats` among them.
        earlier_spearman: `spearman` among them.
        passes: Cost in forward passes; None for a ranking that reads nothing.
        per_text: For each text the drop without the first token, in nats.
    """

    method: str
    texts: int
    agrees: Interval
    nats: float
    drops: dict[int, Interval]
    spearman: Interval
    earlier_agrees: Interval
    earlier_nats: float
    earlier_spearman: Interval
    passes: float | None
    per_text: tuple[float, ...]


def load_beginnings(path: str | Path, limit: int, split: str = "validation", seed: int = 0) -> list[str]:
    """Read the beginnings of sentences, of 6 to 24 words each.

    Args:
        path: A text file with a sentence a line, or JSON lines with a "text"; either may be compressed (.gz).
        limit: How many.
        split: "train" draws from the first, third, ... line, "validation" from the others.
        seed: Draws lines and lengths.

    Raises:
        DataError: If the file cannot be read, or holds no sentence of more than six words.
    """
    path = Path(path)
    if split not in ("train", "validation"):
        raise DataError(f"split is 'train' or 'validation', not {split!r}")
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = raw.decode("utf-8").splitlines()[split == "validation" :: 2]
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            lines = [json.loads(line)["text"] for line in lines if line.strip()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as sentences: {error!r}") from None
    random = np.random.default_rng(seed)
    found: list[str] = []
    for place in random.permutation(len(lines)):
        words = lines[place].split()
        count = int(random.integers(SHORTEST, LONGEST + 1))
        if len(words) > count:
            found.append(" ".join(words[:count]))
        if len(found) == limit:
            return found
    if not found:
        raise DataError(f"{path}: no sentence of more than {SHORTEST} words")
    return found


def next_token_methods() -> list[Method]:
    """Return what is compared unless other methods are named."""
    named = [
        "frozen-gradient:sink_threshold=none",
        "frozen-gradient:read_at=0",
        "frozen-gradient:read_at=0,sink_threshold=none",
        "frozen-gradient:read_at=middle",
        "normxlogit",
        "logat",
        "gradient-x-input",
        "integrated-gradients:steps=20",
    ]
    return list(dict.fromkeys([*default_methods("tokens"), *map(method_named, named)]))


def evaluate_next_token(
    explainer: Explainer,
    texts: Sequence[str],
    methods: Sequence[str | Method] = (),
    *,
    rounds: int = 3,
    seed: int = 0,
    folder: Path | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> list[NextTokenResult]:
    """Compare methods with leave-one-out on the token that a language model finds most likely after each text.

    d_i = log p(y | text) - log p(y | text without token i), positions closed up.

    Args:
        explainer: A causal language model.
        texts: Beginnings of texts.
        methods: What to measure; `next_token_methods` if there are none. Rankings by position are added.
        rounds: Counted rounds of the timing.
        seed: Of the bootstrap and of the random ranking.
        folder: Where what was measured is kept, so that a stopped run goes on; None keeps nothing.
        on_progress: Called with what is done, texts done and texts in all.

    Returns:
        Leave-one-out first, then the methods that work on the model, then the rankings by position.

    Raises:
        DataError: If no text has three tokens.
        UnsupportedModelError: If the model is no causal language model.
    """
    chosen = [method_named(method) for method in methods] or next_token_methods()
    model = explainer._language_model
    cache = ResultCache(folder, [] if folder is None else [model_digest(model), seed, rounds], NextTokenResult)
    rows: dict[str, list[dict[str, float]]] = {}
    random = np.random.default_rng(seed)
    read = []
    for number, text in enumerate(texts):
        first = explainer(text, method="input-norm")  # the prediction, for the least
        completed = read_completion(model, text, [first.prediction.id])
        players = [i for i, special in enumerate(first.special_tokens_mask) if not special]
        if len(players) >= LEAST:
            read.append(text)
            removed, drop = _leave_one_out(explainer, completed, players)
            count = len(players)
            scores = {"leave-one-out": removed, "last token": np.arange(count), "first token": -np.arange(count)}
            scores["random"] = random.random(count)
            for method in chosen:
                asked = (f"{number}-{method.info.name}", text, method.settings)
                state = cache.get(*asked) or cache.put(_scores(explainer, text, method), *asked)
                if state["scores"] is not None:
                    scores[method.spec] = np.asarray(state["scores"], np.float64)[players]
            for name, values in scores.items():
                rows.setdefault(name, []).append(_compared(np.asarray(values, np.float64), removed, drop))
        if on_progress is not None:
            on_progress("texts", number + 1, len(texts))
    if not read:
        raise DataError(f"no text has {LEAST} tokens")
    encodings = explainer.encode(read[:COUNTED])
    passes: dict[str, float] = {}
    for method in chosen:
        if len(rows.get(method.spec, ())) == len(read):
            timed = (f"cost-{method.info.name}", method.settings)
            cost = cache.get(*timed)
            if cost is None:
                cost = cache.put({"passes": measure_cost(explainer, encodings, method, rounds=rounds).passes}, *timed)
            passes[method.spec] = cost["passes"]
    order = dict.fromkeys(["leave-one-out", *passes, *POSITIONS])  # "random" may be both
    return [_summarised(name, rows[name], passes.get(name), seed) for name in order]


def next_token_table(results: Sequence[NextTokenResult], seed: int = 0) -> str:
    """Return a Markdown table, leave-one-out first and the others by agreement, and what is recommended.

    Args:
        results: From `evaluate_next_token`.
        seed: Of the bootstrap of the recommendation.
    """
    first, others = results[0], sorted(results[1:], key=lambda r: -r.agrees[0])
    heads = ["method", "passes", "first token as leave-one-out's ↑", "its nats ↑"]
    heads += [f"drop, top {k} ↑" for k in TOP] + ["Spearman ↑", "before the last: first ↑", "its nats ↑", "Spearman ↑"]
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    for r in (first, *others):
        cells = ["" if r.passes is None else f"{r.passes:.3g}", _shown(r.agrees), f"{r.nats:.2f}"]
        cells += [_shown(r.drops[k]) if k in r.drops else "" for k in TOP] + [_shown(r.spearman)]
        cells += [_shown(r.earlier_agrees), f"{r.earlier_nats:.2f}", _shown(r.earlier_spearman)]
        lines.append(f"| {r.method} | {' | '.join(cells)} |")
    measured = [Candidate(r.method, r.passes, np.array(r.per_text)) for r in results if r.passes is not None]
    return "\n".join(lines) + "\n\n" + recommendations(measured, "nats without the first token", seed)


def write_next_token(folder: Path, results: Sequence[NextTokenResult], about: Mapping[str, Any], seed: int = 0) -> None:
    """Write `next-token.json` and `next-token.md` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json({"about": dict(about), "results": [plain(asdict(r)) for r in results]}, folder / "next-token.json")
    heading = ", ".join(f"{key}: {value}" for key, value in about.items())
    write_text(f"{heading}\n\n{next_token_table(results, seed)}", folder / "next-token.md")


def _leave_one_out(explainer: Explainer, completed: Completed, players: Sequence[int]) -> tuple[Array, Any]:
    """Return what the next token loses without each token, (S,), and a function of the tokens that are out."""
    pieces = [Piece(f"{i}", 0, 0, (i,)) for i in players]
    measure, weights = Ablations(explainer._language_model, completed, pieces), np.ones((1, 1))
    (removed,) = leave_one_out(measure, weights)  # (S,)

    def drop(out: Sequence[int]) -> float:
        kept = np.ones((2, len(pieces)), bool)
        kept[1, list(out)] = False
        whole, left = measure(kept)[:, 0].tolist()
        return float(whole - left)

    return removed, drop


def _scores(explainer: Explainer, text: str, method: Method) -> dict[str, Any]:
    """Return a method's scores of the tokens of a text, or why it does not work on the model."""
    try:
        return {"scores": explainer(text, method=method).scores.tolist()}
    except NormXLogitError as error:
        return {"scores": None, "reason": str(error)}


def _compared(values: Array, removed: Array, drop: Callable[[Sequence[int]], float]) -> dict[str, float]:
    """Return how a ranking of the tokens of one text compares with leave-one-out's."""
    order = np.argsort(-values, kind="stable")
    found = {f"top {k}": drop(order[:k].tolist()) for k in TOP if k < len(values)}
    for name, kept in (("", slice(None)), ("earlier ", slice(-1))):
        own, truth = values[kept], removed[kept]
        first = int(own.argmax())
        found |= {f"{name}agrees": float(first == truth.argmax()), f"{name}first": float(truth[first])}
        found |= {f"{name}best": float(truth.max()), f"{name}spearman": rank_correlation(own, truth)}
    return found


def _summarised(name: str, rows: Sequence[Mapping[str, float]], passes: float | None, seed: int) -> NextTokenResult:
    def mean(figure: str) -> Interval:
        return mean_interval([row[figure] for row in rows if figure in row], seed)

    def share(prefix: str) -> float:
        return sum(row[f"{prefix}first"] for row in rows) / sum(row[f"{prefix}best"] for row in rows)

    return NextTokenResult(
        method=name,
        texts=len(rows),
        agrees=mean("agrees"),
        nats=share(""),
        drops={k: mean(f"top {k}") for k in TOP if any(f"top {k}" in row for row in rows)},
        spearman=mean("spearman"),
        earlier_agrees=mean("earlier agrees"),
        earlier_nats=share("earlier "),
        earlier_spearman=mean("earlier spearman"),
        passes=passes,
        per_text=tuple(row["first"] for row in rows),
    )


def _shown(interval: Interval) -> str:
    mean, low, high = interval
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"
