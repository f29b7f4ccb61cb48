"""Synthetic traces of agents with known evidence: is the source that holds the fact the first one?

Five kinds: five tools return something and one result holds the fact, as a field of JSON or as a sentence; the system
message holds it among other facts, or the user says them before asking; and a memory in the system message is outdated
while a tool returns the fact of today. Traces count where the reader would give the answer itself: no other value in
the conversation is likelier in the answer than the right one.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.explainer import Explainer
from normxlogit.grounding import Citations

Kind = Literal[
    "a field of JSON", "a tool's text", "the system text", "a tool, with an outdated memory", "the user's message"
]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Fact(NamedTuple):
    """A kind of fact about things.

    Attributes:
        things: What the fact can be about.
        field: The key of a tool's result.
        sentence: A sentence that says it.
        question: Asks for it.
        values: What it can be.
    """

    things: tuple[str, ...]
    field: str
    sentence: str
    question: str
    values: tuple[str, ...]


FACTS = (
    Fact(
        tuple(f"order {number}" for number in (412, 538, 617, 729, 846, 953)),
        "shipping_date",
        "The shipping date of {thing} is {value}.",
        "What is the shipping date of {thing}?",
        ("4 May", "9 June", "21 March", "17 July", "30 August", "12 October"),
    ),
    Fact(
        ("Anna", "Boris", "Chiara", "Deniz", "Emil", "Fatima"),
        "office",
        "The office of {thing} is room {value}.",
        "Which room is the office of {thing}?",
        ("204", "318", "127", "451", "562", "673"),
    ),
    Fact(
        ("the desk lamp", "the office chair", "the keyboard", "the monitor", "the webcam", "the printer"),
        "price",
        "The price of {thing} is {value} dollars.",
        "What is the price of {thing}?",
        ("34", "129", "58", "245", "76", "183"),
    ),
    Fact(
        ("the city museum", "the town library", "the zoo", "the castle", "the swimming pool", "the post office"),
        "opening_time",
        "The opening time of {thing} is {value}.",
        "What is the opening time of {thing}?",
        ("9:15", "10:30", "7:45", "11:20", "8:40", "12:10"),
    ),
    Fact(
        ("Lisbon", "Oslo", "Vienna", "Dublin", "Prague", "Athens"),
        "temperature",
        "The temperature in {thing} is {value} degrees.",
        "What is the temperature in {thing}?",
        ("14", "27", "19", "31", "23", "36"),
    ),
    Fact(
        ("Project Falcon", "Project Heron", "Project Osprey", "Project Raven", "Project Swift", "Project Wren"),
        "manager",
        "The manager of {thing} is {value}.",
        "Who is the manager of {thing}?",
        ("Ms. Keller", "Mr. Okafor", "Ms. Lindqvist", "Mr. Tanaka", "Ms. Moreau", "Mr. Silva"),
    ),
)


class Trace(NamedTuple):
    """A conversation with a right answer.

    Attributes:
        kind: Where the fact is.
        messages: The conversation, as OpenAI's chat completions have it.
        value: The value in the answer, and in the source that it rests on.
        other: Another value of the kind, which no message has.
        values: Other values of the kind, which messages before the answer have.
    """

    kind: Kind
    messages: list[dict[str, Any]]
    value: str
    other: str
    values: tuple[str, ...] = ()


class Found(NamedTuple):
    """What the citations of a trace say.

    Attributes:
        kind: Where the fact is.
        right: Whether the reader gives the answer, too: no other value is likelier in it.
        summed: Whether the source that holds it is first by its score for all tokens of the answer.
        attributed: The same by the evidence, which counts the answer's values for a half.
        verified: The same by what the answer loses without the source.
        left_out: How many sources were left out to measure that.
    """

    kind: Kind
    right: bool
    summed: bool
    attributed: bool
    verified: bool
    left_out: int


def write_traces(count: int, seed: int = 0) -> list[Trace]:
    """Return synthetic traces, the kinds in turn.

    Args:
        count: How many.
        seed: Draws facts, things, values and places.
    """
    random = np.random.default_rng(seed)
    return [_trace(KINDS[number % len(KINDS)], random) for number in range(count)]


def _trace(kind: Kind, random: np.random.Generator) -> Trace:
    """Write a trace of a kind."""
    fact = FACTS[int(random.integers(len(FACTS)))]
    things = [fact.things[index] for index in random.permutation(len(fact.things))[:5]]
    values = [fact.values[index] for index in random.permutation(len(fact.values))]  # six, the last of no thing
    place = int(random.integers(5))  # of the thing that is asked for
    sentences, rows = [], []
    for thing, value in zip(things, values, strict=False):
        sentences.append(fact.sentence.format(thing=thing, value=value))
        rows.append(json.dumps({"name": thing, fact.field: value, "status": "ok"}))
    system = "You answer in one short sentence."
    question = fact.question.format(thing=things[place])
    if kind == "the system text":
        system, results = " ".join([system, *sentences]), {}
    elif kind == "a tool, with an outdated memory":
        old = fact.sentence.format(thing=things[place], value=values[5])
        system = f"{system} Memory of last year, which may be outdated: {old}"
        results = {things[place]: random.choice([rows[place], sentences[place]])}
    elif kind == "the user's message":
        question, results = " ".join([*sentences, question]), {}
    else:
        results = dict(zip(things, rows if kind == "a field of JSON" else sentences, strict=True))
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": question},
        *_calls(results),
        {"role": "assistant", "content": sentences[place]},
    ]
    text = " ".join(str(message["content"]) for message in messages)
    in_no_message = next(value for value in reversed(values) if not holds(text, value))
    others = tuple(value for value in values if value != values[place] and holds(text, value))
    return Trace(kind, messages, value=values[place], other=in_no_message, values=others)


def _calls(results: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a message with a tool call for each thing, and the results; nothing for no result."""
    calls, returned = [], []
    for number, (thing, text) in enumerate(results.items()):
        call = {"name": "look_up", "arguments": json.dumps({"name": thing})}
        calls.append({"id": f"call_{number}", "type": "function", "function": call})
        returned.append({"role": "tool", "tool_call_id": f"call_{number}", "content": str(text)})
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *returned] if calls else []


def holds(text: str, value: str) -> bool:
    """Return whether a text holds a number or name, other than inside a longer one."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def read(explainer: Explainer, traces: Sequence[Trace], on_progress: OnProgress | None = None) -> list[Found]:
    """Cite each trace, and compare the first source with the one that holds the fact."""
    results = []
    for _, trace in with_progress("traces", traces, on_progress):
        cited = explainer.cite(messages=trace.messages)
        right = all(_nats(cited) >= _nats(_with_value(explainer, trace, value)) for value in trace.values)
        texts = [cited.text[slice(*span)] for span in cited.spans]
        untested = replace(cited, attribution=replace(cited.attribution, verified=None))  # ranked by its evidence
        holds_fact = [holds(text, trace.value) for text in texts]  # each source
        found = Found(
            trace.kind,
            right,
            summed=holds_fact[int(np.argmax(cited.attribution.whole().scores[cited.sources]))],
            attributed=holds_fact[untested.top(1)[0].source],
            verified=holds_fact[cited.top(1)[0].source],
            left_out=len(cited.losses),
        )
        results.append(found)
    return results


def _with_value(explainer: Explainer, trace: Trace, value: str) -> Citations:
    """Cite a trace whose answer has another value."""
    *before, answer = trace.messages
    content = answer["content"].replace(trace.value, value)
    return explainer.cite(messages=[*before, {**answer, "content": content}], verify=0)


def _nats(cited: Citations) -> float:
    """Return the log-probability of an answer, in nats."""
    return sum(reading.nats for reading in cited.readings)


def table(results: Sequence[Found]) -> str:
    """Return for each kind how many answers are right, and for these the share with the right source first."""
    columns = [
        "the fact is in",
        "traces",
        "answered rightly",
        "first by all tokens ↑",
        "first by the evidence ↑",
        "first by the test ↑",
        "left out ↓",
    ]
    rows = []
    for kind in (*KINDS, "all"):
        of_kind = [found for found in results if kind in (found.kind, "all")]
        right = [found for found in of_kind if found.right]
        shares = ["-"] * 4
        if right:
            means = np.mean([(f.summed, f.attributed, f.verified, f.left_out) for f in right], axis=0)  # (4,)
            shares = [f"{share:.2f}" for share in means[:3]] + [f"{means[3]:.1f}"]
        rows.append([kind, str(len(of_kind)), str(len(right)), *shares])
    return markdown_table(columns, rows)
