"""From a question and documents to an answer with citations.

A prompt beyond the model's length is read in windows: each is the prompt without the sources of the other windows, so
what stands around the sources (the question, the words of a chat template) is in each. All sources are scored once, and
the best ones that fit are read together.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ...copies.memory import enough_memory
from ...errors import InputError
from ...leave_out.search import run_searches
from ...leave_out.units import Together, Verify, picked
from ...methods import Method
from ...model.task_model import TaskModel
from ...pipeline.completions.completed_prompts import Completed
from ...pipeline.completions.leave_out import (
    Ablations,
    Array,
    answers_without,
    removable_sources,
    with_completion_verification,
)
from ...pipeline.completions.sources import explain_sources, part_weights
from ...pipeline.options import Options
from ...results.units.spans import answer_parts
from ...results.verification import Verification
from ..checking import checker_of, checks
from ..result import Citations, of_targets
from .answers import Answered, read_answered
from .reading import SentencesAfterPrompt

UNTESTED_MEDIA = (
    "the share of a picture or a sound does not tell whether an answer rests on it: verify= asks the model without it"
)
"""The note of citations with pictures or sounds that were not tested; measured in docs/results-pointing.md."""

MARGIN = 2.0
"""Upper bound of a source's loss in nats, as a multiple of the loss that its score predicts."""

VERIFIED_AT_ONCE = 2
"""Sources that are removed in one batch of a verification."""


def cite(
    model: TaskModel,
    question: str | None,
    documents: Any,
    *,
    method: Method,
    verify: Verify = 0,
    checker: Any = None,
    **arguments: Any,
) -> Citations:
    """Find the sources of each sentence of an answer; the arguments are those of `Explainer.cite`."""
    if checker is not None and not verify:
        raise InputError("checker= is a second opinion on verdicts, and verify=0 gives none")
    checking = None if checker is None else checker_of(checker)
    answered = read_answered(model, question, documents, **arguments)
    cited = cite_answered(model, answered, Options(method=method, verify=verify))
    return replace(cited, checks=checks(checking, cited)) if checking and cited.readings else cited


def cite_answered(model: TaskModel, answered: Answered, options: Options) -> Citations:
    """Find the sources that each sentence of an answer rests on, and verify them if the options ask for it."""

    def explain(completed: Completed, read: SentencesAfterPrompt) -> Citations:
        sources, count = completed.named_sources, len(read.sentences)
        explained = explain_sources(model, completed, options, sources, "sentence", token_weights=read.gains())
        return Citations(
            question=answered.question,
            attribution=of_targets(explained, range(count)),
            weighted_scores=explained.scores[count:] if len(explained.targets) > count else None,  # (K, U)
            messages=answered.messages,
        )

    def score(completed: Completed) -> dict[str, float]:
        cited = explain(completed, SentencesAfterPrompt(model, [completed], "sentence"))
        return dict(zip(cited.names, cited.evidence.scores[:, cited.sources].sum(0).tolist(), strict=True))

    completed, limit, verify = answered.completed, model.encoder.limit, options.verify
    if limit is not None and len(completed.encoding) > limit:
        if isinstance(verify, Together):
            raise InputError(f"prompt and answer have {len(completed.encoding)} tokens and the model reads {limit}")
        completed = read_in_windows(completed, limit, score)
    read = SentencesAfterPrompt(model, [completed], "sentence")
    cited = explain(completed, read)
    if not cited.concluding:
        raise InputError("the answer is all reasoning; max_new_tokens= lets the model write more")
    # Behind a reasoning that repeats the sources, no sentence would need them any more.
    concluded = completed.without_reasoning()
    read = read if concluded is completed else SentencesAfterPrompt(model, [concluded], "sentence")
    attribution, is_of_texts = cited.attribution, not completed.encoding.media
    if verify is not None and is_of_texts and not isinstance(verify, Together):  # verdicts have seen texts only
        cited = replace(cited, readings=read.readings(cited.quotations))
    if verify == "reasoning":
        attribution = with_completion_verification(model, completed, attribution, "reasoning")
    elif verify is not None:
        attribution = replace(attribution, verified=tested(model, concluded, cited, verify, read))
    elif not is_of_texts:
        attribution = replace(attribution, notes=(*attribution.notes, UNTESTED_MEDIA))
    return replace(cited, attribution=attribution)


@enough_memory("measure what the answer loses without a source")
def tested(
    model: TaskModel, completed: Completed, cited: Citations, verify: Verify, read: SentencesAfterPrompt
) -> Verification:
    """Measure the loss of each sentence without some sources, and without all."""
    evidence, parts = cited.evidence, answer_parts(completed.sequenced(), "sentence")
    weights, whole = part_weights(completed, parts), evidence.whole()  # (K, G)
    units, sources = removable_sources(whole, completed, completed.named_sources)
    known = {(True,) * len(sources): read.answer_nats, (False,) * len(sources): read.answer_nats_without}
    ablations = Ablations(model, completed, list(sources.values()), known=known)
    if verify == "auto":
        first = list(verified(ablations, weights.sum(0), np.array([part.score for part in units.parts])))
        first += evidence.scores[:, cited.sources].argmax(1).tolist()  # all that a sentence rests on may be one source
        chosen = [units.parts[i] for i in first]
    else:  # the messages of a conversation, or documents, are what sources are called by
        units = picked(whole, units, list(dict.fromkeys(cited.documents)) if verify == "message" else verify)
        chosen = units.parts[: units.singles]
    removed = {sources.get(part.tokens) for part in chosen} - {None}
    chosen += [part for part in units.parts if sources.get(part.tokens) in removed]  # of the same words
    singles = {part.tokens: part for part in chosen}
    others = [part for part in units.parts if part.tokens not in singles]
    units = units._replace(parts=[*singles.values(), *others], singles=len(singles), target="the answer")
    units = units._replace(all_together=units.one_by_one)
    (result,) = run_searches([evidence], [units], answers_without(ablations, sources, weights))
    return cast(Verification, result.verified)


def leave_one_out(ablations: Ablations, weights: Array) -> Array:
    """Return the loss of each part of the answer without each source, in nats: (K, S).

    d_j = log p(y | all sources) - log p(y | all but source j); a pass for each source and one for all. The weights say
    which tokens are of which part, (K, G).
    """
    count = len(ablations.sources)
    values = ablations(np.vstack([np.ones((1, count), bool), ~np.eye(count, dtype=bool)])) @ weights.T  # (S + 1, K)
    losses: Array = (values[:1] - values[1:]).T
    return losses


def verified(ablations: Ablations, weights: Array, scores: Array) -> dict[int, float]:
    """Measure an answer's loss without its first sources, in nats by place, until no other source can rank first.

    The sources are left out one at a time in the order of their scores, (S,), two in a batch. A source that was not
    measured yet is taken to be worth at most `MARGIN` times its score in nats, by the largest number of nats for a unit
    of score that was measured, none if all were negative; where that is less than the most that was measured, no other
    is. The weights say which tokens of the answer count, (G,).
    """
    order, lost = np.argsort(-scores, kind="stable").tolist(), dict[int, float]()
    present, without = np.ones((1, len(order)), bool), ~np.eye(len(order), dtype=bool)  # (1, S), (S, S)
    while len(lost) < len(order):
        part = order[len(lost) : len(lost) + VERIFIED_AT_ONCE]
        whole, *nats = (ablations(np.vstack([present, without[part]])) @ weights).tolist()
        lost |= {source: whole - left for source, left in zip(part, nats, strict=True)}
        rates = [max(nats, 0.0) / scores[source] for source, nats in lost.items() if scores[source] > 0]
        following = float(scores[order[len(lost)]]) if len(lost) < len(order) else 0.0
        if MARGIN * max(rates, default=0.0) * max(following, 0.0) <= max(lost.values()):
            break
    return lost


def read_in_windows(completed: Completed, limit: int, score: Callable[[Completed], Mapping[str, float]]) -> Completed:
    """Return a prompt and its answer, which do not fit, with only the best sources that fit."""
    length, sequence = len(completed.encoding), completed.sequenced()
    spans = completed.named_sources.items()
    tokens = {name: set(sequence.tokens_in(*span, of_answer=False)) for name, span in spans}
    room = limit - (length - len(set().union(*tokens.values())))
    fitting = {name: places for name, places in tokens.items() if len(places) <= room}
    if not fitting:
        rest = f"{length} tokens, {limit - room} of them without the sources"
        raise InputError(f"prompt and answer have {rest}, and the model reads {limit}: no source fits beside the rest")
    windows = _windows(fitting, room)
    scores: dict[str, float] = {}
    for window in windows:
        scores |= score(_only_sources(completed, tokens, window))
    kept_sources = _best(fitting, scores, room)
    note = (
        f"prompt and answer have {length} tokens and the model reads {limit}: the sources were read in {len(windows)} "
        f"windows, and the {len(kept_sources)} of {len(tokens)} that scored highest are read together"
    )
    shortened = _only_sources(completed, tokens, kept_sources)
    encoding = replace(shortened.encoding, notes=(*shortened.encoding.notes, note))
    return replace(shortened, encoding=encoding)


def _only_sources(completed: Completed, tokens: Mapping[str, set[int]], names: Collection[str]) -> Completed:
    """Return a prompt and its answer with some of the named sources, without the tokens of the others."""
    out = set().union(*tokens.values()) - set().union(*(tokens[name] for name in names))
    return replace(
        completed,
        encoding=completed.without(out),
        prompt_tokens=completed.prompt_tokens - len(out),
        named_sources={name: span for name, span in completed.named_sources.items() if name in names},
    )


def _windows(tokens: Mapping[str, set[int]], room: int) -> list[list[str]]:
    """Divide sources into windows of at most `room` tokens each, in their order and of similar lengths."""
    total = len(set().union(*tokens.values()))
    size = math.ceil(total / math.ceil(total / room))
    windows, filled = [list[str]()], set[int]()
    for name, places in tokens.items():
        if windows[-1] and (len(filled | places) > room or len(filled) >= size):
            windows.append([])
            filled = set()
        windows[-1].append(name)
        filled |= places
    return windows


def _best(tokens: Mapping[str, set[int]], scores: Mapping[str, float], room: int) -> list[str]:
    """Return the sources with the highest scores that fit together."""
    selected, filled = list[str](), set[int]()
    for name in sorted(tokens, key=scores.__getitem__, reverse=True):
        if len(filled | tokens[name]) <= room:
            selected.append(name)
            filled |= tokens[name]
    return selected
