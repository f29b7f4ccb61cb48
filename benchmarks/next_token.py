"""Evaluation on the next token of texts: methods are compared with leave-one-out."""

import gzip
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from normxlogit.errors import DataError, NormXLogitError
from normxlogit.evaluation.frontier import Cost, measure_cost
from normxlogit.evaluation.ranking import FigureColumn, RankingResult, agreement, ranking_table, summarise_ranking
from normxlogit.evaluation.runs import OnProgress, Refused, ResultCache, with_progress
from normxlogit.explainer import Explainer
from normxlogit.methods import Method, Occlusion, method_named
from normxlogit.methods.defaults import default_methods
from normxlogit.pipeline.completions.completed import Completed
from normxlogit.pipeline.completions.completed_prompts import read_completion
from normxlogit.pipeline.completions.leave_out import Ablations, Array
from normxlogit.pipeline.completions.sources import score_sources
from normxlogit.results.units.spans import NamedSpan

TOP = (1, 3)
"""How many of the highest ranked tokens are removed."""

LEAST = 3
"""Tokens that a text must have for a ranking of them, and of those before the last, to be meaningful."""

POSITIONS = ("last token", "first token", "random")
"""Baselines: rankings by position alone."""

SHORTEST, LONGEST = 6, 24
"""Words of a beginning."""

COUNTED = 8
"""Texts that a method is timed on."""


COLUMNS: tuple[FigureColumn, ...] = (
    ("first token as leave-one-out's ↑", "agrees", 2),
    ("its nats ↑", "nats", 2),
    *((f"drop, top {count} ↑", f"top {count}", 2) for count in TOP),
    ("Spearman ↑", "spearman", 2),
    ("before the last: first ↑", "earlier agrees", 2),
    ("its nats ↑", "earlier nats", 2),
    ("Spearman ↑", "earlier spearman", 2),
)


def split_sentences(path: str | Path, split: str) -> list[str]:
    """Read the sentences of a split: "train" has the first, third, ... line of a file, "validation" the others.

    Args:
        path: A text file with a sentence a line, or JSON lines with a "text"; either may be compressed (.gz).
        split: Which lines.

    Raises:
        DataError: If the file cannot be read.
    """
    path = Path(path)
    if split not in ("train", "validation"):
        raise DataError(f"split is 'train' or 'validation', not {split!r}")
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = raw.decode("utf-8").splitlines()[split == "validation" :: 2]
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            return [json.loads(line)["text"] for line in lines if line.strip()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as sentences: {error!r}") from None
    return lines


def load_beginnings(path: str | Path, limit: int, split: str = "validation", seed: int = 0) -> list[str]:
    """Read the beginnings of sentences, of 6 to 24 words each.

    Args:
        path: A text file with a sentence a line, or JSON lines with a "text"; either may be compressed (.gz).
        limit: How many.
        split: As in `split_sentences`.
        seed: Draws lines and lengths.

    Raises:
        DataError: If the file cannot be read, or holds no sentence of more than six words.
    """
    lines = split_sentences(path, split)
    random = np.random.default_rng(seed)
    beginnings: list[str] = []
    for index in random.permutation(len(lines)):
        words = lines[index].split()
        count = int(random.integers(SHORTEST, LONGEST + 1))
        if len(words) > count:
            beginnings.append(" ".join(words[:count]))
        if len(beginnings) == limit:
            return beginnings
    if not beginnings:
        raise DataError(f"{path}: no sentence of more than {SHORTEST} words")
    return beginnings


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
    on_progress: OnProgress | None = None,
) -> list[RankingResult]:
    """Compare methods with leave-one-out on the token that a language model finds most likely after each text.

    d_i = log p(y | text) - log p(y | text without token i), positions closed up.

    Args:
        explainer: A causal language model.
        texts: Beginnings of texts.
        methods: What to measure; `next_token_methods` if there are none. Rankings by position are added.
        rounds: Counted rounds of the timing.
        seed: Of the bootstrap and of the random ranking.
        folder: Where finished results are kept, so that a stopped run can be resumed; None keeps nothing.
        on_progress: Called with what is done, texts done and texts in all.

    Returns:
        Leave-one-out first, then the methods that work on the model, then the rankings by position.

    Raises:
        DataError: If no text has three tokens.
        UnsupportedModelError: If the model is not a causal language model.
    """
    chosen = [method_named(method) for method in methods] or next_token_methods()
    model = explainer.language_model
    stored = ResultCache[tuple[float, ...] | Refused](folder, model, [], tuple[float, ...] | Refused)
    rows: dict[str, list[dict[str, float]]] = {}
    random = np.random.default_rng(seed)
    read = []
    for number, text in with_progress("texts", texts, on_progress):
        a = explainer(text, method="input-norm")  # for its prediction: this method costs least
        completed = read_completion(model, text, [a.prediction.id])
        players = [token for token, is_special in enumerate(a.special_tokens_mask) if not is_special]
        if len(players) >= LEAST:
            read.append(text)
            removed, drop = _leave_one_out(explainer, completed, players)
            count = len(players)
            scores = {"leave-one-out": removed, "last token": np.arange(count), "first token": -np.arange(count)}
            scores["random"] = random.random(count)
            for method in chosen:
                name = f"{number}-{method.info.name}"
                result = stored.cached(partial(_scores, explainer, text, method), name, text, method.settings)
                if not isinstance(result, Refused):
                    scores[method.spec] = np.asarray(result, np.float64)[players]
            for name, values in scores.items():
                rows.setdefault(name, []).append(_compared(np.asarray(values, np.float64), removed, drop))
    if not read:
        raise DataError(f"no text has {LEAST} tokens")
    encodings = explainer.encode(read[:COUNTED])

    def cost(method: Method) -> Cost:
        return measure_cost(explainer, encodings, method, rounds=rounds)

    timed = ResultCache[Cost](folder, model, [rounds, [e.ids for e in encodings]], Cost)
    working = [method for method in chosen if len(rows.get(method.spec, ())) == len(read)]
    costs = {m.spec: timed.cached(partial(cost, m), f"cost-{m.info.name}", m.settings) for m in working}
    passes = {spec: cost.passes for spec, cost in costs.items()}
    order = dict.fromkeys(["leave-one-out", *passes, *POSITIONS])  # "random" may be both
    return [summarise_ranking(name, rows[name], passes.get(name), seed) for name in order]


def next_token_table(results: Sequence[RankingResult]) -> str:
    """Return a Markdown table, leave-one-out first and the others by agreement."""
    return ranking_table(results, COLUMNS, "agrees")


def _leave_one_out(explainer: Explainer, completed: Completed, players: Sequence[int]) -> tuple[Array, Any]:
    """Return the next token's loss without each token, (S,), and the loss as a function of the removed tokens."""
    # A source for each token: its places in the text of the prompt are not asked for.
    sources = [NamedSpan(f"{token}", 0, 0, (token,)) for token in players]
    measure = Ablations(explainer.language_model, completed, sources)
    (removed,), _, _ = score_sources(Occlusion(), measure, np.ones((1, 1)))  # (S,)

    def drop(left_out: Sequence[int]) -> float:
        is_present = np.ones((2, len(sources)), bool)  # with all, and without these
        is_present[1, list(left_out)] = False
        full, without = measure(is_present)[:, 0].tolist()
        return float(full - without)

    return removed, drop


def _scores(explainer: Explainer, text: str, method: Method) -> tuple[float, ...] | Refused:
    """Return a method's scores of the tokens of a text, or why it does not work on the model."""
    try:
        return tuple(explainer(text, method=method).scores.tolist())
    except NormXLogitError as error:
        return Refused(method.spec, str(error))


def _compared(values: Array, removed: Array, drop: Callable[[Sequence[int]], float]) -> dict[str, float]:
    """Return how a ranking of the tokens of one text compares with leave-one-out's.

    Args:
        values: The scores of the S tokens, (S,).
        removed: What the next token loses without each, (S,).
        drop: Returns what it loses without several.
    """
    order = np.argsort(-values, kind="stable")
    figures = {f"top {count}": drop(order[:count].tolist()) for count in TOP if count < len(values)}
    for prefix, tokens in (("", slice(None)), ("earlier ", slice(-1))):
        figures |= agreement(values[tokens], removed[tokens], prefix)
    return figures
