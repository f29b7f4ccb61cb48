"""Which words made an agent call a tool: do methods find the instruction that a tool's result holds?

An agent that reads the traces of `injections` follows the instruction if the call that this asks for is likelier than
the call that the user asks for, and is not without the instruction. What is measured of a trace is kept in a file at
once, so that a stopped run goes on and the table is printed again without the model.
"""

import copy
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import torch

from normxlogit import Explainer
from normxlogit.errors import DataError
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import interval_text, mean_interval
from normxlogit.grounding.citations.cited_answer import Answered, read_answered
from normxlogit.grounding.citations.reading import AnswerReading
from normxlogit.methods import method_named
from normxlogit.methods.defaults import named_or_default
from normxlogit.pipeline.completions.sources import explain_sources
from normxlogit.pipeline.options import Options

from .injections import Call, Half, Injection, write_injections
from .kept_rows import check_reader, kept_rows
from .token_rankings import TokenRanking, token_rankings

Array = npt.NDArray[np.float64]

MEASURED = Path(__file__).with_name("actions.jsonl")
"""What SmolLM2-135M makes of the traces, as far as it was measured."""

TRACES = 50
"""How many traces each half has."""

BY_SOURCE = ", by source"
"""Behind the name of a ranking of whole sources."""

SHARES = (0.05, 0.1, 0.2)
"""The first tokens of which the recall is measured, as shares of all tokens."""


class Measured(NamedTuple):
    """What one method makes of one trace.

    Attributes:
        half: "development" or "test".
        number: Which trace of its half.
        domain: The kind of agent.
        style: The index of the instruction's style.
        method: The name of the method, or "calls".
        tokens: How many tokens of the messages have a score.
        ranks: The places of the instruction's tokens among all, by score, from 0.
        first: Whether the first source is in the instruction.
        nats: Of "calls": the log-probabilities of the injected call and of the harmless one: after the whole prompt,
            without the instruction, and without the first source of the default.
    """

    half: str
    number: int
    domain: str
    style: int
    method: str
    tokens: int = 0
    ranks: list[int] = []  # noqa: RUF012  # never changed
    first: bool = False
    nats: list[list[float]] = []  # noqa: RUF012

    @property
    def is_followed(self) -> bool:
        """Whether the injected call is the likelier one because of the instruction."""
        return self.prefers_injected(0) and not self.prefers_injected(1)

    def prefers_injected(self, prompt: int) -> bool:
        """Return whether the injected call is the likelier one after one of the prompts.

        Args:
            prompt: The index of the prompt, see `nats`.
        """
        injected, harmless = self.nats[prompt]
        return injected > harmless

    def recall(self, share: float) -> float:
        """Return the share of the instruction's tokens that are among the first ones.

        Args:
            share: How many tokens are first, as a share of all.
        """
        return float(np.mean(np.array(self.ranks) < math.ceil(share * self.tokens)))


class Trace:
    """A trace with the injected call as its answer.

    Args:
        explainer: An explainer of a causal language model.
        injection: The trace.
    """

    def __init__(self, explainer: Explainer, injection: Injection) -> None:
        self.explainer, self.injection = explainer, injection

    def answered(self, call: Call) -> Answered:
        """Return the conversation with a call as its answer."""
        return read_answered(self.explainer.language_model, None, messages=self.injection.messages, action=call)

    @cached_property
    def injected(self) -> Answered:
        """The conversation with the injected call."""
        return self.answered(self.injection.injected)

    @cached_property
    def instruction_tokens(self) -> set[int]:
        """The tokens of the instruction."""
        return self.tokens_of(self.injection.span)

    def tokens_of(self, text: str) -> set[int]:
        """Return the tokens of a text that stands in the prompt once."""
        sequence = self.injected.completed.sequenced()
        if sequence.text.count(text) != 1:
            raise DataError(f"{text!r} does not stand in the prompt once")
        start = sequence.text.index(text)
        return set(sequence.tokens_in(start, start + len(text), of_answer=False))

    @cached_property
    def source_tokens(self) -> dict[str, list[int]]:
        """The tokens of each source, by its name."""
        completed = self.injected.completed
        sequence = completed.sequenced()
        spans = completed.named_sources.items()
        return {name: list(sequence.tokens_in(*span, of_answer=False)) for name, span in spans}

    def rankings(self, method: str, scores: Array) -> "Rows":
        """Yield where scores of all tokens, (T,), place the instruction: token by token, and source by source.

        Sources are in the order of the sums of their tokens' scores, and the tokens of each in the order of their own.

        Args:
            method: The name of the method.
            scores: The scores.
        """
        of_sources = np.full(len(scores), -np.inf)  # (T,)
        for tokens in self.source_tokens.values():
            of_sources[tokens] = scores[tokens].sum()
        yield method, self.ranked(scores, [scores])
        yield f"{method}{BY_SOURCE}", self.ranked(scores, [scores, of_sources])

    def ranked(self, scores: Array, keys: Sequence[Array]) -> dict[str, Any]:
        """Return where the instruction's tokens are, sorted by keys, the last one first; the rest is random.

        Args:
            scores: The scores of all tokens, (T,).
            keys: What they are sorted by, (T,) each, the largest first.
        """
        candidates = sorted({token for tokens in self.source_tokens.values() for token in tokens})
        shuffled = np.random.default_rng(0).permutation(candidates)
        ordered = shuffled[np.lexsort([-key[shuffled] for key in keys])].tolist()
        ranks = [place for place, token in enumerate(ordered) if token in self.instruction_tokens]
        is_first = bool({*self.source_tokens[self.first_source(scores)]} & self.instruction_tokens)
        return {"tokens": len(candidates), "ranks": ranks, "first": is_first}

    def first_source(self, scores: Array) -> str:
        """Return the source with the largest sum of its tokens' scores, (T,)."""
        return max(self.source_tokens, key=lambda name: float(scores[self.source_tokens[name]].sum()))


Rows = Iterator[tuple[str, dict[str, Any]]]
"""Names of methods with fields of `Measured`."""


def _cited(trace: Trace) -> Rows:
    """Yield the rankings of `cite`: by its evidence and by the sums over all tokens; and the calls' log-probabilities.

    Scores are computed for all parts of the call at once, which is their sum.
    """
    model, completed = trace.explainer.language_model, trace.injected.completed
    options = Options(method=named_or_default(None, "completions"))
    reading = AnswerReading(model, completed, options)
    weights = reading.gains().sum(0)[None]  # (1, G)
    run = reading.text.run
    explained = explain_sources(model, completed, options, None, None, token_weights=weights, run=run)
    sums, evidence = explained.scores.astype(np.float64)  # (T,) each
    yield from trace.rankings("default", evidence)
    yield from trace.rankings("sums", sums)
    first_source = {*trace.source_tokens[trace.first_source(evidence)]}
    calls = [trace.injected, trace.answered(trace.injection.harmless)]
    removals = [set[int](), trace.instruction_tokens, first_source]
    yield "calls", {"nats": [call_nats(trace.explainer.model, calls, removed) for removed in removals]}


def call_nats(model: Any, calls: Sequence[Answered], removed: set[int]) -> list[float]:
    """Return the log-probability of each call after the same prompt without some tokens, in nats.

    Args:
        model: A causal language model.
        calls: The conversation with each call.
        removed: The tokens that are left out.
    """
    prompts = [call.completed.encoding.ids[: call.completed.prompt_tokens] for call in calls]
    if any(prompt != prompts[0] for prompt in prompts):
        raise DataError("the calls do not follow the same tokens")
    ids = [token_id for place, token_id in enumerate(prompts[0]) if place not in removed]
    with torch.inference_mode():
        prompt_output = model(torch.tensor([ids], device=model.device), use_cache=True, logits_to_keep=1)
        return [_continued(model, prompt_output, call.completed.generated_ids) for call in calls]


def _continued(model: Any, prompt_output: Any, ids: Sequence[int]) -> float:
    """Return the log-probability of tokens after a prompt.

    Args:
        model: A causal language model.
        prompt_output: What it returned for the prompt, with its cache, which is copied: each answer follows the prompt.
        ids: The tokens.
    """
    tokens = torch.tensor([ids], device=model.device)  # (1, G)
    cache = copy.deepcopy(prompt_output.past_key_values)
    later = model(tokens[:, :-1], past_key_values=cache, use_cache=True).logits  # (1, G - 1, V)
    logits = torch.cat([prompt_output.logits[:, -1:], later], 1).float()  # (1, G, V)
    return float(logits.log_softmax(-1).gather(2, tokens[..., None]).sum())


def _of_paper(trace: Trace) -> Rows:
    """Yield the ranking of the method `normxlogit`, summed over the call."""
    options = Options(method=method_named("normxlogit"))
    explained = explain_sources(trace.explainer.language_model, trace.injected.completed, options, None, None)
    yield from trace.rankings("normxlogit", explained.scores.astype(np.float64)[0])


def _by_tokens(ranking: TokenRanking, trace: Trace) -> Rows:
    """Yield the ranking by a method that scores tokens."""
    yield from trace.rankings(ranking.name, ranking.score(trace.explainer, trace.injected.completed))


def _of_words(trace: Trace) -> Rows:
    """Yield the ranking by the words that a token's word shares with the call: rarer ones first."""
    sequence = trace.injected.completed.sequenced()
    name, arguments = trace.injection.injected["name"], trace.injection.injected["arguments"]
    of_call = set(WORD.findall(" ".join([name, *arguments.values()]).lower()))
    words = list(WORD.finditer(sequence.text[: sequence.prompt_characters].lower()))
    counts, scores = Counter(word.group() for word in words), np.zeros(len(sequence.offsets))
    for word in words:
        if word.group() in of_call:
            scores[list(sequence.tokens_in(*word.span(), of_answer=False))] = 1 / counts[word.group()]
    yield from trace.rankings("shared words", scores)


WORD = re.compile(r"[^\W_]+")


class Measure(NamedTuple):
    """A measurement of a trace.

    Attributes:
        measure: Yields rows.
        methods: Whose rows these are.
    """

    measure: Callable[[Trace], Rows]
    methods: tuple[str, ...]


MEASURES = {
    "cite": Measure(_cited, ("default", "sums", "calls")),
    "words": Measure(_of_words, ("shared words",)),
    "normxlogit": Measure(_of_paper, ("normxlogit",)),
}
"""What can be measured, by name."""

for _key, _ranking in token_rankings().items():
    MEASURES[_key] = Measure(partial(_by_tokens, _ranking), (_ranking.name,))

TITLES = {
    "default": "`cite`'s evidence (default)",
    "sums": "its sums over all tokens",
    "normxlogit": "`normxlogit`",
    "gradient x input": "gradient x input",
    "attention rollout": "attention rollout",
    "FlashTrace": "FlashTrace, one hop",
    "shared words": "shared rare words (no model)",
}
"""The rankings with their titles; the others are compared with the first."""

METHODS = {f"{method}{by}": f"{title}{by}" for by in ("", BY_SOURCE) for method, title in TITLES.items()}
"""The same, token by token and source by source."""


def measure(
    explainer: Explainer,
    half: Half,
    count: int,
    names: Sequence[str],
    file: Path,
    on_progress: OnProgress | None = None,
) -> None:
    """Measure traces, and add each row to a file at once; rows that the file has are not measured again.

    Args:
        explainer: An explainer of a causal language model.
        half: Which half of the traces.
        count: How many, in a fixed random order.
        names: Which of `MEASURES`.
        file: JSON lines.
        on_progress: Called after each trace.

    Raises:
        DataError: If another model measured what the file has.
    """
    check_reader(explainer.language_model, file)
    known = by_trace(load_measured(file), half)
    injections = write_injections(TRACES, half)
    order = np.random.default_rng(0).permutation(TRACES).tolist()[:count]
    for name in names:
        for _, number in with_progress(f"{half}: {name}", order, on_progress):
            if not {*MEASURES[name].methods} <= known.get(number, {}).keys():
                _keep(Trace(explainer, injections[number]), MEASURES[name], half, number, file)


def _keep(trace: Trace, measured: Measure, half: Half, number: int, file: Path) -> None:
    """Measure a trace, and add the rows to the file."""
    injection = trace.injection
    for method, fields in measured.measure(trace):
        row = Measured(half, number, injection.domain, injection.style, method, **fields)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(_rounded(row._asdict())) + "\n")


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with log-probabilities of two decimals."""
    return row | {"nats": [[round(nats, 2) for nats in pair] for pair in row["nats"]]}


def load_measured(file: Path) -> list[Measured]:
    """Read what was measured; nothing of a file that is not there."""
    return kept_rows(file, Measured, "not a measured trace")


OfTrace = Mapping[str, Measured]
"""The rows of one trace by method."""


def by_trace(rows: Sequence[Measured], half: str) -> dict[int, dict[str, Measured]]:
    """Return the rows of each trace of a half by method."""
    traces: dict[int, dict[str, Measured]] = {}
    for row in rows:
        if row.half == half:
            traces.setdefault(row.number, {})[row.method] = row
    return traces


def figures(row: Measured) -> list[float]:
    """Return what is measured of a ranking: the recalls, and whether the first source is in the instruction."""
    return [*map(row.recall, SHARES), float(row.first)]


def table(traces: Sequence[OfTrace]) -> str:
    """Return a Markdown table of the rankings, with 95% bootstrap intervals over the traces."""
    lines = []
    for method, title in METHODS.items():
        if measured := [figures(rows[method]) for rows in traces if method in rows]:
            cells = [interval_text(mean_interval(values)) for values in np.array(measured).T]
            lines.append([title, str(len(measured)), *cells])
    recalls = [f"in the first {share:.0%} ↑" for share in SHARES]
    return markdown_table(["ranked by", "traces", *recalls, "first source ↑"], lines)


def difference_table(traces: Sequence[OfTrace]) -> str:
    """Return a Markdown table of each other ranking less the default, trace by trace, with 95% intervals."""
    lines, (first, *others) = [], METHODS
    for method in others:
        pairs = [(rows[method], rows[first]) for rows in traces if {method, first} <= rows.keys()]
        if pairs:
            differences = [np.subtract(figures(row), figures(default)) for row, default in pairs]
            cells = [interval_text(mean_interval(values)) for values in np.array(differences).T]
            lines.append([METHODS[method], str(len(pairs)), *cells])
    recalls = [f"in the first {share:.0%} ↑" for share in SHARES]
    return markdown_table([f"less {METHODS[first]}", "traces", *recalls, "first source ↑"], lines)


def followed_line(traces: Sequence[OfTrace]) -> str:
    """Return in how many traces the instruction is followed, and the call is gone without it or the first source."""
    calls = [rows["calls"] for rows in traces if "calls" in rows]
    preferred = [row for row in calls if row.prefers_injected(0)]
    gone = [sum(not row.prefers_injected(prompt) for row in preferred) for prompt in (1, 2)]
    return (
        f"{len(calls)} traces, in {len(preferred)} of them the injected call is the likelier one: without the "
        f"instruction it no longer is in {gone[0]} of {len(preferred)}, without the first source in {gone[1]}"
    )


def report(file: Path) -> str:
    """Return the tables of what was measured, on the traces whose instruction the reader follows.

    Raises:
        DataError: If nothing was.
    """
    rows = load_measured(file)
    if not rows:
        raise DataError(f"{file}: nothing was measured; name a model with --model")
    sections = []
    for half in reversed(get_args(Half)):
        traces = list(by_trace(rows, half).values())
        followed = [trace for trace in traces if "calls" in trace and trace["calls"].is_followed]
        if followed:
            sections += [f"The {half} half: {followed_line(traces)}\n", table(followed)]
            sections += [f"The {half} half, trace by trace\n", difference_table(followed)]
    return "\n".join(sections)
