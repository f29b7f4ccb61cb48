"""From a question and documents to an answer with citations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ...copies.memory import enough_memory
from ...errors import InputError
from ...inputs.chat import Prompt, ReadPrompt, has_chat_template, read_prompt
from ...inputs.encoder import private_tokenizer
from ...inputs.encoding import Encoding
from ...leave_out.search import run_searches
from ...leave_out.units import Together, Verify, picked
from ...methods import Method, Random
from ...model.task_model import TaskModel
from ...pipeline.arguments import checked_arguments
from ...pipeline.completions.ablations import Ablations, verified
from ...pipeline.completions.completed_prompts import Completed, generate_each, read_completion
from ...pipeline.completions.reasoning import ReasoningSpec, opens_reasoning, reasoning_marks, shifted
from ...pipeline.completions.sources import explain_sources, part_weights
from ...pipeline.completions.verification import answers_without, removable_sources, with_completion_verification
from ...pipeline.options import Options
from ...results.attribution import Attribution
from ...results.storage.schema import FloatArray
from ...results.units.sentences import sentence_spans
from ...results.units.spans import MessageSpan, answer_parts
from ...results.verification import Removal, Verification
from ..documents.conversations import Conversation, read_conversation
from ..documents.documents import read_documents
from ..result import Citations, of_targets, quotations
from ..verdicts import Reading
from .checking import checker_of, checks
from .prompts import Spans, conversation_prompt
from .reading import SentencesAfterPrompt, sentences_in
from .windows import read_in_windows

UNTESTED_MEDIA = (
    "the share of a picture or a sound does not tell whether an answer rests on it: verify= asks the model without it"
)
"""The note of citations with pictures or sounds that were not tested; measured in docs/results-pointing.md."""


@dataclass(frozen=True)
class Answered:
    """A question with its sources and an answer.

    Attributes:
        completed: The prompt and the answer; its named sources are the sources.
        question: The question.
        messages: The messages that the sources are of; empty if they are of documents.
    """

    completed: Completed
    question: str
    messages: tuple[MessageSpan, ...] = ()

    def cited(self, sources: Attribution, weighted_scores: FloatArray | None) -> Citations:
        """Return the answer with the scores of its sources."""
        return Citations(
            question=self.question, attribution=sources, weighted_scores=weighted_scores, messages=self.messages
        )


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


def read_answered(
    model: TaskModel,
    question: str | None,
    documents: Any,
    *,
    messages: Any = None,
    turn: int | None = None,
    system: str | None = None,
    **answer: Any,
) -> Answered:
    """Read a question with its documents, or a conversation, up to an answer.

    Args:
        model: A causal language model.
        question: As in `ask`, like `documents` and `system`.
        documents: As in `ask`.
        messages: A conversation, as in `ask_in`, instead of these.
        turn: As in `ask_in`.
        system: As in `ask`.
        **answer: Of `ask`: `answer`, `reasoning` and `max_new_tokens`.
    """
    if messages is not None:
        if any(given is not None for given in (question, documents, system)):
            raise InputError("messages hold the question, the documents and the system message; pass one or the other")
        return ask_in(model, messages, turn, **answer)
    if turn is not None:
        raise InputError("turn= picks an answer of a conversation: pass messages= with it, and no documents")
    return Answered(ask(model, question, documents, system=system, **answer), question or "")


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

    completed = read_in_windows(answered.completed, model.encoder.limit, score)
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


def ask_in(
    model: TaskModel,
    messages: Any,
    turn: int | None = None,
    *,
    answer: str | None = None,
    max_new_tokens: int = 200,
    reasoning: ReasoningSpec | None = None,
) -> Answered:
    """Read a conversation up to an answer; the messages before it are the named sources.

    Args:
        model: A causal language model.
        messages: A conversation, or what `read_conversation` takes.
        turn: Which of the assistant's texts is the answer, counted from 0; None for the last.
        answer: An answer to all of the conversation; None for one in it.
        max_new_tokens: Most tokens of the model's own answer, where the conversation has none.
        reasoning: Where the answer reasons; None for the message's own reasoning, or to look for it.
    """
    conversation = messages if isinstance(messages, Conversation) else read_conversation(messages)
    rendered = conversation_prompt(model, conversation, turn, answer)
    reasoning = rendered.reasoning or reasoning
    completed = _completed(model, rendered.prompt, rendered.spans, rendered.answer, max_new_tokens, reasoning)
    return Answered(completed, rendered.question, _with_media(rendered.messages, completed.encoding))


def _with_media(messages: Sequence[MessageSpan], encoding: Encoding) -> tuple[MessageSpan, ...]:
    """Return the messages of a conversation with its pictures and sounds as messages, in the order of the prompt."""
    media_messages = [
        MessageSpan(medium.kind, *encoding.characters_of(medium), medium.name) for medium in encoding.media
    ]
    return tuple(sorted([*media_messages, *messages], key=lambda message: message.start))


def ask(
    model: TaskModel,
    question: str | None,
    documents: Any,
    *,
    answer: str | None = None,
    system: str | None = None,
    max_new_tokens: int = 200,
    reasoning: ReasoningSpec | None = None,
) -> Completed:
    """Ask a model a question with documents, whose sentences are the named sources.

    Args:
        model: A causal language model.
        question: The question.
        documents: What `read_documents` takes (`grounding/documents/documents.py`).
        answer: An answer that was written elsewhere; None lets the model answer.
        system: The system message; none by default.
        max_new_tokens: Most tokens to generate.
        reasoning: Where the answer reasons: spans of its characters, or what stands around; None to look for it.

    Returns:
        The prompt with the answer, both of which may be longer than the model reads.
    """
    prompt, spans = question_prompt(question, documents, system, chat=has_chat_template(model.reader))
    return _completed(model, prompt, spans, answer, max_new_tokens, reasoning)


def _completed(
    model: TaskModel,
    prompt: Prompt | ReadPrompt,
    spans: Spans,
    answer: str | None,
    max_new_tokens: int,
    reasoning: ReasoningSpec | None,
) -> Completed:
    """Complete a prompt, whose spans are the named sources, by an answer or by the model's own."""
    if answer is None:
        (completed,) = generate_each(model, [prompt], {"max_new_tokens": max_new_tokens}, reasoning)
    elif not isinstance(answer, str) or not answer.strip():
        raise InputError(
            "the answer is empty" if isinstance(answer, str) else f"an answer is a text, not {type(answer).__name__}"
        )
    else:
        opening = "" if has_chat_template(model.reader) else " "
        completed = _read_answer(model, _answering(model, prompt, answer), answer, opening, reasoning)
    if (cited := _without_ending(completed)) is None:
        nothing = "the model answers with nothing; ask in other words, or with other documents"
        raise InputError(nothing if answer is None else "the model's tokenizer knows no word of the answer")
    cited = cited.with_sources(spans)
    if not cited.named_sources and not cited.encoding.media:
        raise InputError("the model's tokenizer knows no word of the documents")
    concluded = (cited.encoding.text or "")[cited.prompt_characters :]
    for start, end in reversed(cited.marked_reasoning):
        concluded = concluded[:start] + concluded[end:]
    if not concluded.strip():
        raise InputError("the answer is all reasoning; max_new_tokens= lets the model write more")
    return cited


def _answering(model: TaskModel, prompt: Prompt | ReadPrompt, answer: str) -> Prompt | ReadPrompt:
    """Return a prompt behind which an answer stands; where the prompt opens a reasoning, the answer may have none."""
    opening, ending = reasoning_marks(model.reader)
    rendered = prompt if isinstance(prompt, ReadPrompt) else read_prompt(model.reader, prompt, model.pipeline.chat)
    if rendered.media or ending in answer or not opens_reasoning(rendered.text, opening):
        return prompt
    return replace(rendered, text=f"{rendered.text}\n{ending}\n\n")


def _read_answer(
    model: TaskModel, prompt: Prompt | ReadPrompt, answer: str, opening: str, reasoning: ReasoningSpec | None
) -> Completed:
    """Encode a prompt and an answer that was written elsewhere.

    Special tokens at the end of the answer are dropped, with white space around them; inside it they are read as plain
    text.

    Args:
        model: A causal language model.
        prompt: The prompt.
        answer: The answer.
        opening: White space that the answer begins with.
        reasoning: As in `ask`.

    Raises:
        InputError: If the tokenizer cannot read a special token inside the answer as text.
    """
    reasoning = shifted(reasoning, len(opening) - (len(answer) - len(answer.lstrip())))
    answer, tokenizer = answer.strip(), private_tokenizer(model.tokenizer)
    added_special = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    special_tokens = {token for token in added_special | set(tokenizer.all_special_tokens) if token}
    while endings := [token for token in special_tokens if answer.endswith(token)]:
        answer = answer.removesuffix(endings[0]).rstrip()
    marks = " ".join(reasoning_marks(model.reader))
    special_tokens_inside = sorted(token for token in special_tokens if token in answer and token not in marks)
    if not special_tokens_inside:
        return read_completion(model, prompt, opening + answer, longer=True, reasoning=reasoning)
    ids = tokenizer(opening + answer, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    if set(ids) & {tokenizer.convert_tokens_to_ids(token) for token in special_tokens_inside}:
        raise InputError(f"the answer holds {special_tokens_inside[0]!r}, a special token of the model; take it out")
    return read_completion(model, prompt, ids, longer=True, reasoning=reasoning)


def question_prompt(
    question: str | None, documents: Any, system: str | None = None, *, chat: bool
) -> tuple[Prompt, Spans]:
    """Write a question with its documents as a prompt.

    Returns:
        The prompt, and the span of each sentence of each document in it, by names such as "notes.txt:3". Pictures among
        the documents stand before its text.
    """
    if not isinstance(question, str | None):
        raise InputError(f"a question is a text, not {type(question).__name__}: call cite for each of several")
    if question is None or not question.strip():
        raise InputError("the question is empty")
    if system is not None and not isinstance(system, str):
        raise InputError(f"a system message is a text, not {type(system).__name__}")
    named, pictures = read_documents(documents)
    if pictures and not chat:
        raise InputError("pictures among documents stand in messages, and the model has no chat template for these")
    text, spans = "" if chat or not system else system.strip() + "\n\n", {}
    message = (1 if system else 0,) if chat else ()
    for name, document in named.items():
        text += f"{name}:\n" if len(named) > 1 else ""
        for number, (start, end) in enumerate(sentence_spans(document), start=1):
            spans[f"{name}:{number}"] = (*message, len(text) + start, len(text) + end)
        text += document.rstrip() + "\n\n"
    if not spans and not pictures:
        raise InputError("the documents hold no sentence")
    text += f"Question: {question.strip()}"
    if not chat:
        return text + "\nAnswer:", spans
    parts = [*({"type": "image", "image": picture} for picture in pictures.values()), {"type": "text", "text": text}]
    messages = [{"role": "user", "content": parts if pictures else text}]
    return [{"role": "system", "content": system}, *messages] if system else messages, spans


def _without_ending(completed: Completed) -> Completed | None:
    """Remove the special tokens at the end of an answer; None if it has no others."""
    encoding, count = completed.encoding, len(completed.encoding)
    while count > completed.prompt_tokens and encoding.special[count - 1]:
        count -= 1
    if count == completed.prompt_tokens:
        return None
    shortened = encoding.take(range(count))
    if shortened.offsets is not None and shortened.text is not None:
        shortened = replace(shortened, text=shortened.text[: shortened.offsets[-1][1]])
    return replace(completed, encoding=shortened)


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
        turn: Which of its answers is meant, as in `ask_in`.
        system: The system message.
    """
    arguments: dict[str, Any] = {"messages": messages, "turn": turn, "system": system, "answer": answer}
    answered = read_answered(model, question, documents, **arguments)
    completed, limit = answered.completed, model.encoder.limit
    if limit is not None and len(completed.encoding) > limit:
        raise InputError(f"prompt and answer have {len(completed.encoding)} tokens and the model reads {limit}")
    unscored = explain_sources(model, completed, Options(method=Random()), completed.named_sources, "sentence")
    return _tested(model, completed.without_reasoning(), answered.cited(unscored, None), units).together
