"""Find the sources of each sentence of an answer, and say what is known of it."""

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from ...errors import InputError
from ...inputs.windows import check_fits
from ...leave_out.picking import Together, Verify
from ...model.task_model import TaskModel
from ...pipeline.completions.completed import Completed
from ...pipeline.completions.sources import explain_sources
from ...pipeline.completions.verification import with_completion_verification
from ...pipeline.options import Options
from ...results.attribution import Attribution
from ...results.storage.schema import Strings
from ..action import Action
from ..checkers import Checker
from ..result import Citations, of_targets
from ..support import Effect
from .alone import document_gains
from .cited_answer import Answered
from .prompts import CallParts, SourcedPrompt
from .reading import AnswerReading
from .removals import MOST_OF_AUTO, loss_without, tested
from .supporting import with_support
from .windows import read_in_windows

Update = Callable[..., None]
"""Shows progress: `completed=` and `advance=` are shares of the work, `description=` what is done."""

READING = 3
"""Reading the answer with the sources and without, and scoring them, takes about as long as so many removals."""

UNTESTED_MEDIA = (
    "the share of a picture or a sound does not tell whether an answer rests on it: verify= asks the model without it"
)
"""The note of citations with pictures or sounds that were not tested; measured in docs/results-pointing.md."""


def cite_answered(
    model: TaskModel,
    answered: Answered,
    options: Options,
    checker: Checker | None = None,
    update: Update = lambda **_: None,
) -> Citations:
    """Find the sources that each sentence of an answer rests on, and leave some of them out if the options ask for it.

    Args:
        model: A language model.
        answered: The question with its sources and the answer.
        options: The method, and which sources are left out.
        checker: A second opinion.
        update: Shows the share of the work that is completed, and what is done next.
    """
    update(description="reading the answer")
    completed = _fitting(model, answered, options)
    reading = AnswerReading(model, completed, options)
    cited = _explained(answered.prompt, reading, options)
    if not cited.concluding:
        raise InputError("the answer is all reasoning; max_new_tokens= lets the model write more")
    if completed.reasoning and options.verify is not None:
        # Behind a reasoning that repeats the sources, no sentence would need them any more.
        reading = AnswerReading(model, completed.without_reasoning())
    # Of an answer behind a reasoning this needs the second reading: without it, sentences are "not tested".
    if not completed.reasoning or options.verify is not None:
        cited = _with_readings(cited, reading, options, update)
    if options.verify == "reasoning":
        attribution = with_completion_verification(model, completed, cited.attribution, "reasoning")
    else:
        attribution = _verified(cited, options.verify, reading, update)
    cited = replace(cited, attribution=attribution)
    if answered.prompt.call is not None:
        cited = replace(cited, action=_action(answered.prompt, answered.prompt.call, cited, reading, options))
    return with_support(cited, answered, checker)


def _with_readings(cited: Citations, reading: AnswerReading, options: Options, update: Update) -> Citations:
    """Return an answer with how likely the model finds its sentences, if it is tested also after each document alone.

    Of an answer with pictures or sounds only what it loses without them is measured: see docs/grounding.md.
    """
    completed = reading.completed
    if completed.encoding.media:
        return cited
    cited = replace(cited, readings=reading.readings())
    if completed.reasoning or options.verify in (None, "reasoning"):
        return cited
    update(description="reading each document alone")
    return document_gains(reading, cited)


def _fitting(model: TaskModel, answered: Answered, options: Options) -> Completed:
    """Return a prompt with its answer, of which only the best sources are left where the model cannot read them all."""
    completed, limit = answered.completed, model.answer_limit
    if limit is None or len(completed.encoding) <= limit:
        return completed
    if isinstance(options.verify, Together):  # of `Explainer.without`, whose random scores choose no sources
        check_fits("prompt and answer have", len(completed.encoding), limit)

    def score(window: Completed) -> dict[str, float]:
        cited = _explained(answered.prompt, AnswerReading(model, window, options), options)
        return dict(zip(cited.names, cited.evidence.scores[:, cited.sources].sum(0).tolist(), strict=True))

    return read_in_windows(completed, limit, score)


def _explained(prompt: SourcedPrompt, reading: AnswerReading, options: Options) -> Citations:
    """Return the scores of the sources for each sentence: of its tokens alike, and weighted by their gains."""
    model, completed, count = reading.model, reading.completed, len(reading.sentences)
    explained = explain_sources(
        model,
        completed,
        options,
        completed.named_sources,
        completed.parts,
        token_weights=reading.gains(),
        run=reading.text.run,
    )
    # The first K targets are the sentences; behind them, of methods that have these, the same by weighted tokens.
    attribution = of_targets(explained, range(count))
    if completed.parting is not None:
        other_token = model.task.outputs.name_of(completed.parting.other_id)
        (target,) = attribution.targets  # the part of the call in which the answers part is the only one
        attribution = replace(attribution, targets=(target._replace(contrast=other_token),))
    return Citations(
        question=prompt.question,
        attribution=attribution,
        weighted_scores=explained.scores[count:] if len(explained.targets) > count else None,  # (K, U)
        messages=prompt.messages,
    )


def _verified(cited: Citations, verify: Verify, reading: AnswerReading, update: Update) -> Attribution:
    """Return the attribution of an answer with what the answer loses without the sources that are to be left out."""
    attribution = cited.attribution
    if verify is not None:
        # For the display alone; of units that the caller names, all that could be meant.
        most = MOST_OF_AUTO if verify == "auto" else verify if isinstance(verify, int) else len(cited.sources)
        most = min(most, len(cited.sources))
        update(completed=READING / (READING + most), description=f"leaving out {most} sources at most")
        numbers = itertools.count(1)

        def show(steps: float) -> None:
            update(advance=steps / (READING + most), description=f"left out {next(numbers)} sources of at most {most}")

        measured = tested(reading, cited.evidence, cited.documents, verify, lambda _: nullcontext(show))
        return replace(attribution, verified=measured)
    if reading.completed.encoding.media:
        return replace(attribution, notes=(*attribution.notes, UNTESTED_MEDIA))
    return attribution


def _action(
    prompt: SourcedPrompt, call: CallParts, cited: Citations, reading: AnswerReading, options: Options
) -> Action:
    """Return what is known of a call of a tool: what the user asked for last, and what the call loses without it.

    Args:
        prompt: The conversation before the call.
        call: The parts of the call.
        cited: The call with its citations, verified if the options ask for it.
        reading: The call as it was read.
        options: The method, and which sources are left out.
    """
    of_user = [place for place, message in enumerate(cited.messages) if message.role == "user"]
    # A slice, which is empty where the user says nothing.
    request = tuple(source for source, place in enumerate(cited.message_indices) if place in of_user[-1:])
    action = _against_other(Action(call.tool, request), call, reading)
    if options.verify is None or isinstance(options.verify, Together):  # `Together` is of `Explainer.without`
        return action
    if request:
        loss = loss_without(reading, cited.evidence, [cited.sources[source] for source in request])
        action = action._replace(request_loss=loss)
    return action._replace(own_words=_behind_own_words(prompt, call.own_words, cited, reading, options))


def _against_other(action: Action, call: CallParts, reading: AnswerReading) -> Action:
    """Return what is known of a call with how much likelier it is than the answer that it is explained against."""
    parting = reading.completed.parting
    if call.other is None or parting is None:  # both are, or none; the second for the type alone
        return action
    name_of = reading.model.task.outputs.name_of
    tokens = name_of(reading.completed.generated_ids[parting.token]), name_of(parting.other_id)
    return action._replace(other=call.other.described, tokens=tokens, odds=float(reading.nats[parting.token]))


def _behind_own_words(
    prompt: SourcedPrompt, own_names: Strings, cited: Citations, reading: AnswerReading, options: Options
) -> Effect | None:
    """Return the source without which the assistant's words before a call are least likely, and what they lose.

    These are its words in the message of the call, up to the one that the call rests on most; None if the call rests on
    something else, or nothing stands before these words.
    """
    first = cited.first_source().places
    if not {cited.documents[place] for place in first} <= {*own_names}:
        return None
    start = min(message.start for message in cited.messages if message.name in own_names)
    end = max(cited.spans[place][1] for place in first)
    words = _words_between(reading.completed, start, end)
    if not words.named_sources:
        return None
    words_reading = AnswerReading(reading.model, words, options)
    of_words = _explained(prompt, words_reading, options)
    attribution = _verified(of_words, "auto", words_reading, lambda **_: None)
    source = replace(of_words, attribution=attribution).first_source()
    return Effect(source.name, source.nats or 0.0)  # for the type alone: "auto" leaves out one source at least


def _words_between(completed: Completed, start: int, end: int) -> Completed:
    """Return the words between two characters of a prompt as an answer to what stands before them."""
    sequence = completed.sequenced()
    tokens = sequence.tokens_in(start, end, of_answer=False)
    return replace(
        completed,
        encoding=completed.encoding.take(range(tokens[-1] + 1)),  # nothing behind these words
        prompt_tokens=tokens[0],
        prompt_characters=start,
        named_sources={name: span for name, span in completed.named_sources.items() if span[1] <= start},
        parts={"words": (0, end - start)},
        parting=None,
    )
