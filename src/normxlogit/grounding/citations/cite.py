"""From a question and documents to an answer with citations."""

from dataclasses import replace
from typing import Any, cast

import numpy as np

from ...copies.memory import enough_memory
from ...errors import InputError
from ...leave_out.search import run_searches
from ...leave_out.units import Together, Verify, picked
from ...methods import Method, Random
from ...model.task_model import TaskModel
from ...pipeline.arguments import checked_arguments
from ...pipeline.completions.completed_prompts import Completed
from ...pipeline.completions.leave_out import (
    Ablations,
    answers_without,
    removable_sources,
    with_completion_verification,
)
from ...pipeline.completions.sources import explain_sources, part_weights
from ...pipeline.options import Options
from ...results.attribution import Attribution
from ...results.storage.schema import FloatArray
from ...results.units.spans import answer_parts
from ...results.verification import Removal, Verification
from ..result import Citations, of_targets, quotations
from ..verdicts import Reading
from .answers import Answered, read_answered
from .checking import checker_of, checks
from .losses import verified
from .reading import SentencesAfterPrompt, sentences_in
from .windows import read_in_windows

UNTESTED_MEDIA = (
    "the share of a picture or a sound does not tell whether an answer rests on it: verify= asks the model without it"
)
"""The note of citations with pictures or sounds that were not tested; measured in docs/results-pointing.md."""


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
    """Find the sentences of documents, or of a conversation, that each sentence of an answer rests on.

    The arguments are those of `Explainer.cite`; those that are not named here go to `read_answered`.
    """
    options = Options(method=method, verify=verify)
    if checker is not None and not verify:
        raise InputError("checker= is a second opinion on verdicts, and verify=0 gives none")
    checking = None if checker is None else checker_of(checker)
    cited = cite_answered(model, read_answered(model, question, documents, **arguments), options)
    return replace(cited, checks=checks(checking, cited)) if checking and cited.readings else cited


def cite_answered(model: TaskModel, answered: Answered, options: Options) -> Citations:
    """Find the sources that each sentence of an answer rests on, and verify them if the options ask for it.

    Args:
        model: A causal language model.
        answered: The question with its sources and the answer.
        options: How the sources are scored, and how many are left out to test them.
    """

    def explain(completed: Completed, read: SentencesAfterPrompt) -> Citations:
        sources = completed.named_sources
        explained = explain_sources(model, completed, options, sources, "sentence", token_weights=read.gains())
        return answered.cited(*_weighted_scores(explained, len(read.sentences)))

    def score(completed: Completed) -> dict[str, float]:
        cited = explain(completed, read_sentences(model, completed))
        evidence = cited.evidence.scores[:, cited.sources].sum(0)
        return dict(zip(cited.names, evidence.tolist(), strict=True))

    completed, limit = answered.completed, model.encoder.limit
    if limit is not None and len(completed.encoding) > limit:
        completed = read_in_windows(completed, limit, score)
    read = read_sentences(model, completed)
    cited = explain(completed, read)
    # Behind a reasoning that repeats the sources, no sentence would need them any more.
    concluded, readings = completed.without_reasoning(), tuple[Reading, ...]()
    read = read if concluded is completed else read_sentences(model, concluded)
    if options.verify is not None and not completed.encoding.media:  # the verdict's regressions have seen texts only
        readings = _readings(read, concluded)
    attribution = cited.attribution
    if options.verify == "reasoning":
        attribution = with_completion_verification(model, completed, attribution, "reasoning")
    elif options.verify is not None:
        attribution = replace(attribution, verified=_tested(model, concluded, cited, options.verify, read))
    elif completed.encoding.media:
        attribution = replace(attribution, notes=(*attribution.notes, UNTESTED_MEDIA))
    return replace(cited, attribution=attribution, readings=readings)


def read_sentences(model: TaskModel, completed: Completed) -> SentencesAfterPrompt:
    """Read each sentence of an answer with its sources and without them."""
    parts = answer_parts(completed.sequenced(), "sentence")
    return SentencesAfterPrompt(model, completed, sentences_in(completed, parts))


@enough_memory("measure what the documents rather say")
def _readings(read: SentencesAfterPrompt, completed: Completed) -> tuple[Reading, ...]:
    """Return what the reader makes of each sentence; the edits of quotations are not measured."""
    text = completed.sequenced().text
    sources = [text[start:end] for start, end in completed.named_sources.values()]
    return read.readings(quotations([sentence.text for sentence in read.sentences], sources))


def _weighted_scores(explained: Attribution, sentences: int) -> tuple[Attribution, FloatArray | None]:
    """Return the attribution of the sentences, and the units' contributions to their weighted tokens, (K, U)."""
    if len(explained.targets) == sentences:  # the method does not backpropagate from weighted sums
        return explained, None
    return of_targets(explained, range(sentences)), explained.scores[sentences:]  # (K, U)


@enough_memory("measure what the answer loses without a source")
def _tested(
    model: TaskModel, completed: Completed, cited: Citations, verify: Verify, read: SentencesAfterPrompt | None = None
) -> Verification:
    """Measure the loss of each sentence without some sources, and without all.

    Args:
        model: The model.
        completed: The prompt and the answer.
        cited: The answer with the scores of its sources.
        verify: What is left out, as in `Explainer.cite`; `Together` for these sources together alone.
        read: Its sentences, read with all sources and with none, if they were.
    """
    evidence, parts = cited.evidence, answer_parts(completed.sequenced(), "sentence")
    weights, whole = part_weights(completed, parts), evidence.whole()  # (K, G)
    found, sources = removable_sources(whole, completed, completed.named_sources)
    count, known = len(sources), {}
    if read is not None:
        known = {(True,) * count: read.answer_nats, (False,) * count: read.answer_nats_without}
    ablations = Ablations(model, completed, list(sources.values()), known=known)
    if verify == "auto":
        first = list(verified(ablations, weights.sum(0), np.array([part.score for part in found.parts])))
        first += evidence.scores[:, cited.sources].argmax(1).tolist()  # all that a sentence rests on may be one source
        order = list(dict.fromkeys([*first, *range(count)]))
        units = found._replace(parts=[found.parts[i] for i in order], singles=len(set(first)))
    else:  # the messages of a conversation, or documents, are what sources are called by
        names = list(dict.fromkeys(cited.documents))
        units = picked(whole, found, names if verify == "message" else verify)
    removed = {sources.get(part.tokens) for part in units.parts[: units.singles]} - {None}
    first = [i < units.singles or sources.get(part.tokens) in removed for i, part in enumerate(units.parts)]
    order = sorted(range(len(first)), key=lambda i: not first[i])  # stable; what has the same words is removed with it
    units = units._replace(parts=[units.parts[i] for i in order], singles=sum(first))
    units = units._replace(target="the answer", all_together=units.one_by_one)
    (tested,) = run_searches([evidence], [units], answers_without(ablations, sources, weights))
    return cast(Verification, tested.verified)


@checked_arguments()
def without(
    model: TaskModel,
    question: str | None,
    units: Together,
    *,
    documents: Any = None,
    answer: str | None = None,
    messages: Any = None,
    turn: int | None = None,
    system: str | None = None,
) -> Removal:
    """Measure the log-probability of each sentence of an answer without some sources, or documents, together.

    Args:
        model: A causal language model.
        question: The question.
        units: The names.
        documents: The documents; None for a conversation.
        answer: The answer; None lets the model answer.
        messages: The messages of a conversation.
        turn: Which of its answers is meant, as in `read_answered`.
        system: The system message.
    """
    arguments: dict[str, Any] = {"messages": messages, "turn": turn, "system": system, "answer": answer}
    answered = read_answered(model, question, documents, **arguments)
    completed, limit = answered.completed, model.encoder.limit
    if limit is not None and len(completed.encoding) > limit:
        raise InputError(f"prompt and answer have {len(completed.encoding)} tokens and the model reads {limit}")
    unscored = explain_sources(model, completed, Options(method=Random()), completed.named_sources, "sentence")
    return _tested(model, completed.without_reasoning(), answered.cited(unscored, None), units).together
