"""From a question and documents to an answer with citations.

A prompt beyond the model's length is read in windows: each is the prompt without the sources of the other windows, so
what stands around the sources (the question, the words of a chat template) is in each. All sources are scored once, and
the best ones that fit are read together.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from ...copies.memory import enough_memory
from ...errors import InputError
from ...inputs.chat import Content, ReadPrompt, has_chat_template, read_prompt
from ...inputs.encoder import private_tokenizer
from ...inputs.texts import numbered
from ...leave_out.picking import Together, Verify, picked
from ...leave_out.search import run_searches
from ...methods import Method
from ...model.task_model import TaskModel
from ...pipeline.completions.completed_prompts import (
    Completed,
    ReasoningSpec,
    Spans,
    are_marks,
    generate_each,
    opens_reasoning,
    read_completion,
    reasoning_marks,
    shifted,
)
from ...pipeline.completions.leave_out import (
    Ablations,
    Array,
    answers_without,
    removable_sources,
    with_completion_verification,
)
from ...pipeline.completions.sources import explain_sources, part_weights
from ...pipeline.options import Options
from ...results.units.spans import MessageSpan, answer_parts
from ...results.verification import Verification
from ...tasks.base import generating_task
from ...text.boundaries import sentence_spans
from ..checking import checker_of, checks
from ..documents.conversations import UNREAD, Conversation, Message, read_conversation
from ..documents.documents import read_documents
from ..result import Citations, of_targets
from .reading import SentencesAfterPrompt
from .rendering import render

SourceSpans = dict[str, tuple[int, int]]
"""Spans of sources by name, in characters of the prompt."""

QUESTION_MARKS = "?？؟՞\N{GREEK QUESTION MARK}"
"""Characters at the end of a question."""

CLOSING = "\"'”’»)]"
"""Characters that may follow the punctuation at the end of a sentence."""

JSON_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)\s*(:?)')
"""A text or another scalar in JSON, and whether it is a key."""


class SourcedPrompt(NamedTuple):
    """A prompt whose sources are known."""

    prompt: ReadPrompt  # all before the answer, as one text
    spans: SourceSpans  # of the sources; those of the question of a conversation only where nothing else was said
    question: str  # of a conversation the last message of the user
    messages: tuple[MessageSpan, ...] = ()  # of a conversation, those that the prompt holds, in its order
    answer: str | None = None  # in a conversation, with its reasoning; None if the model has to write it
    reasoning: tuple[tuple[int, int], ...] = ()  # spans of the reasoning in the answer


def question_prompt(model: TaskModel, question: str | None, documents: Any, system: str | None = None) -> SourcedPrompt:
    """Write a question with its documents as a prompt, whose sources are the documents' sentences: "notes.txt:3".

    Pictures among the documents stand before the text.
    """
    for name, text in {"question": question, "system message": system}.items():
        if not isinstance(text, str | None):
            raise InputError(f"a {name} is a text, not {type(text).__name__}: call cite for each of several")
    if question is None or not question.strip():
        raise InputError("the question is empty")
    named, pictures = read_documents(documents)
    chat = has_chat_template(model.reader)
    if pictures and not chat:
        raise InputError("pictures among documents stand in messages, and the model has no chat template for these")
    text = "" if chat else model.pipeline.prefix + (f"{system.strip()}\n\n" if system else "")
    spans: SourceSpans = {}
    for name, document in named.items():
        text += f"{name}:\n" if len(named) > 1 else ""
        for number, (start, end) in enumerate(sentence_spans(document), start=1):
            spans[f"{name}:{number}"] = len(text) + start, len(text) + end
        text += document.rstrip() + "\n\n"
    if not spans and not pictures:
        raise InputError("the documents hold no sentence")
    text += f"Question: {question.strip()}"
    if not chat:
        return SourcedPrompt(ReadPrompt(f"{text}\nAnswer:", None), spans, question)
    parts = [*({"type": "image", "image": picture} for picture in pictures.values()), {"type": "text", "text": text}]
    message: dict[str, Any] = {"role": "user", "content": parts if pictures else text}
    messages = [{"role": "system", "content": system}, message] if system else [message]
    prompt = read_prompt(model.reader, messages, model.pipeline.chat)
    for medium in prompt.media:
        generating_task(model).check_reads(model, medium.kind)
    content = next((c for c in prompt.contents or () if c.message == len(messages) - 1), None)
    if content is None:
        raise InputError("the chat template does not write the message with the documents once and as it is")
    spans = {name: (content.place_of(start), content.place_of(end)) for name, (start, end) in spans.items()}
    return SourcedPrompt(prompt, spans, question)


def conversation_prompt(
    model: TaskModel, conversation: Conversation, turn: int | None = None, answer: str | None = None
) -> SourcedPrompt:
    """Write the messages before an answer as a prompt whose sources are all their sentences but the question.

    What the assistant thought right before the answer is the answer's reasoning, which no prompt holds.
    """
    thoughts, task = list[str](), generating_task(model)
    if answer is None:
        conversation, message = conversation.until(turn)
        answer = None if message is None else message.text
        while message is not None and conversation.messages and conversation.messages[-1].kind == "reasoning":
            thoughts.insert(0, conversation.messages[-1].text)
            conversation = replace(conversation, messages=conversation.messages[:-1])
    elif turn is not None:
        raise InputError("turn= picks an answer of the conversation; pass it or answer=")
    has_template, notes = has_chat_template(model.reader), [*conversation.notes]
    messages = tuple(m for m in conversation.messages if m.part is None or (has_template and task.reads_medium(m.kind)))
    notes += [UNREAD.format(m.number, m.part["type"]) for m in conversation.messages if m not in messages]
    if not messages:
        raise InputError("the conversation has no text before the answer, and the reader reads nothing else of it")
    prompt, starts = render(model, replace(conversation, messages=messages))
    notes += prompt.notes
    question, question_spans = _question_of(messages)
    message_spans, contents = list[MessageSpan](), list[Content]()
    pieces: list[tuple[str, tuple[int, int], bool]] = []  # name, span, whether it is of the question
    called = numbered(" ".join([m.kind, *m.name.replace(":", " ").split()]) for m in messages)
    for index, (message, name) in enumerate(zip(messages, called, strict=True)):
        if message.part is not None:
            continue
        if (start := starts.get(index)) is None:
            notes.append(f"{name} is not in the prompt as the chat template writes it, so it is not among the sources")
            continue
        end = start + len(message.text)
        contents.append(Content(message.role, start, end, index))
        message_spans.append(MessageSpan(message.kind, start, end, name, message.name))
        pieces += [
            (f"{name}:{source}", (start + first, start + last), (index, first, last) in question_spans)
            for source, first, last in pieces_of(message)
        ]
    names = numbered(name for name, *_ in pieces)
    spans: SourceSpans = {name: span for name, (_, span, asked) in zip(names, pieces, strict=True) if not asked}
    known_contents = tuple(contents) if has_template else None
    prompt = replace(prompt, contents=known_contents, notes=tuple(dict.fromkeys(notes)))
    if not spans and not prompt.media:  # which are sources themselves
        spans = {name: span for name, (_, span, _) in zip(names, pieces, strict=True)}
    answer, reasoning = _with_reasoning(model, prompt.text, answer, thoughts)
    by_start = tuple(sorted(message_spans, key=lambda span: span.start))
    return SourcedPrompt(prompt, spans, question, by_start, answer, reasoning)


def _with_reasoning(
    model: TaskModel, prompt: str, answer: str | None, thoughts: Sequence[str]
) -> tuple[str | None, tuple[tuple[int, int], ...]]:
    """Return an answer with its reasoning before it, in the marks of the chat template, and the reasoning's spans."""
    if answer is None or not thoughts:
        return answer, ()
    opening, ending = reasoning_marks(model.reader)
    before, reasoning = "" if opens_reasoning(prompt, opening) else f"{opening}\n", "\n".join(thoughts)
    return f"{before}{reasoning}\n{ending}\n\n{answer}", ((len(before), len(before) + len(reasoning)),)


def _question_of(messages: Sequence[Message]) -> tuple[str, set[tuple[int, int, int]]]:
    """Return what the user's last message says, and its sentences that are questions: (message, start, end).

    These are not sources of the answer: the sentences that end with a question mark, or the only sentence of a message.
    Punctuation cannot tell an instruction from a fact that the answer rests on, so every other sentence is a source.
    """
    number = max((message.number for message in messages if message.kind == "user"), default=None)
    texts = {i: m.text for i, m in enumerate(messages) if (m.kind, m.number) == ("user", number)}
    question, spans, first = "\n\n".join(texts.values()), set(), 0
    sentences = sentence_spans(question)
    marked = [(a, b) for a, b in sentences if question[a:b].rstrip(CLOSING).endswith(tuple(QUESTION_MARKS))]
    for place, text in texts.items():  # several texts stand between pictures
        for start, end in marked or (sentences if len(sentences) == 1 else []):
            spans |= {(place, start - first, end - first)} if first <= start < first + len(text) else set()
        first += len(text) + 2
    return question, spans


def pieces_of(message: Message) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and end of the sources in a message: its sentences, or those of a tool's fields of JSON."""
    fields = json_fields(message.text) if message.kind in ("tool call", "tool result") else []
    for key, start, end in fields or [("", 0, len(message.text))]:
        sentences = sentence_spans(message.text[start:end])
        for number, (first, last) in enumerate(sentences, start=1):
            name = key if key and len(sentences) == 1 else f"{key} {number}".strip()
            yield name, start + first, start + last


def json_fields(text: str) -> list[tuple[str, int, int]]:
    """Return key, start and end of each text, number and boolean in JSON; none if it is not an object or an array.

    A field begins with its key: of '{"a": {"b": 1}, "c": ["x"]}' they are "b" with '"b": 1', and "c" with '"x"'.
    """
    try:
        if not isinstance(json.loads(text), dict | list):
            return []
    except (ValueError, RecursionError):
        return []
    fields, key, key_span = [], "", (0, 0)
    for token in JSON_TOKEN.finditer(text):
        value = json.loads(token[1])
        if token[2]:
            key, key_span = str(value), token.span()
        elif value is not None and str(value).strip():
            follows_key = not text[key_span[1] : token.start()].strip()
            fields.append((key, key_span[0] if follows_key else token.start(), token.end(1)))
    return fields


CITATION_MARK = re.compile(
    r"[^\S\n]*(?:\[\^?(?:(?:doc|document|source) ?)?[1-9]\d{0,2}(?:[,;–-] ?\d+)*\](?:\(\S*?\))?|【[^】]*】)"
)
"""A mark by which an answer cites by itself: "[1]", "[1, 2]", "[^1]", "[doc1]", "[1](https://...)", "【1†source】"."""


class Answered(NamedTuple):
    """A question with its sources and an answer."""

    completed: Completed  # prompt and answer, maybe longer than the model reads; its named sources are the sources
    question: str
    messages: tuple[MessageSpan, ...] = ()  # that the sources are of, in the order of the prompt; none of documents


def read_answered(
    model: TaskModel,
    question: str | None,
    documents: Any = None,
    *,
    messages: Any = None,
    turn: int | None = None,
    system: str | None = None,
    answer: str | None = None,
    max_new_tokens: int = 200,
    reasoning: ReasoningSpec | None = None,
) -> Answered:
    """Read a question with its documents, or a conversation, up to an answer.

    The arguments are those of `Explainer.cite`. The sources are the sentences of the documents, or what was said before
    the answer; an answer that is not given, and that a conversation does not have, is generated.
    """
    if messages is None:
        if turn is not None:
            raise InputError("turn= picks an answer of a conversation: pass messages= with it, and no documents")
        sourced = question_prompt(model, question, documents, system)
    elif any(argument is not None for argument in (question, documents, system)):
        raise InputError("messages hold the question, the documents and the system message; pass one or the other")
    else:
        conversation = messages if isinstance(messages, Conversation) else read_conversation(messages)
        sourced = conversation_prompt(model, conversation, turn, answer)
        answer, reasoning = sourced.answer, sourced.reasoning or reasoning
    if answer is None:
        (completed,) = generate_each(model, [sourced.prompt], {"max_new_tokens": max_new_tokens}, reasoning)
        generated = completed.sequenced()
        if CITATION_MARK.search(written := generated.text[generated.prompt_characters :]):
            completed = _read_answer(model, sourced.prompt, written, reasoning)
    elif not isinstance(answer, str) or not answer.strip():
        problem = "empty" if isinstance(answer, str) else f"a {type(answer).__name__}, not a text"
        raise InputError(f"the answer is {problem}")
    else:
        completed = _read_answer(model, sourced.prompt, answer, reasoning)
    completed = _without_ending(completed)
    if len(completed.encoding) == completed.prompt_tokens:
        nothing = "the model answers with nothing; ask in other words, or with other documents"
        raise InputError(nothing if answer is None else "the model's tokenizer knows no word of the answer")
    sequence, encoding = completed.sequenced(), completed.encoding
    sources = {name: span for name, span in sourced.spans.items() if sequence.tokens_in(*span, of_answer=False)}
    if not sources and not encoding.media:
        raise InputError("the model's tokenizer knows no word of the documents")
    media = [MessageSpan(medium.kind, *encoding.characters_of(medium), medium.name) for medium in encoding.media]
    spans = sorted([*media, *sourced.messages], key=lambda message: message.start) if sourced.messages else ()
    return Answered(replace(completed, named_sources=sources), sourced.question, tuple(spans))


def _read_answer(model: TaskModel, prompt: ReadPrompt, answer: str, reasoning: ReasoningSpec | None) -> Completed:
    """Encode a prompt and an answer that was written elsewhere.

    Special tokens at the end of the answer are dropped, with white space around them; inside it they are read as plain
    text. Marks of its own citations are dropped too, with a note: documents do not say them. Where
    the prompt opens a reasoning, the answer may have none.
    """
    answer, reasoning, own_marks = _without_citation_marks(answer, reasoning)
    if own_marks:
        prompt = replace(prompt, notes=(*prompt.notes, f"not read: the answer's own marks {', '.join(own_marks)}"))
    opening, marks = "" if has_chat_template(model.reader) else " ", reasoning_marks(model.reader)
    if not prompt.media and marks[1] not in answer and opens_reasoning(prompt.text, marks[0]):
        prompt = replace(prompt, text=f"{prompt.text}\n{marks[1]}\n\n")
    of_marks = " ".join(marks)
    reasoning = shifted(reasoning, len(opening) - (len(answer) - len(answer.lstrip())))
    answer, tokenizer = answer.strip(), private_tokenizer(model.tokenizer)
    added_special = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    special_tokens = {token for token in added_special | set(tokenizer.all_special_tokens) if token}
    while endings := [token for token in special_tokens if answer.endswith(token)]:
        answer = answer.removesuffix(endings[0]).rstrip()
    special_tokens_inside = sorted(token for token in special_tokens if token in answer and token not in of_marks)
    if not special_tokens_inside:
        return read_completion(model, prompt, opening + answer, longer=True, reasoning=reasoning)
    ids = tokenizer(opening + answer, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    if set(ids) & {tokenizer.convert_tokens_to_ids(token) for token in special_tokens_inside}:
        raise InputError(f"the answer holds {special_tokens_inside[0]!r}, a special token of the model; take it out")
    return read_completion(model, prompt, ids, longer=True, reasoning=reasoning)


def _without_citation_marks(
    answer: str, reasoning: ReasoningSpec | None
) -> tuple[str, ReasoningSpec | None, list[str]]:
    """Return an answer without the marks of its own citations, where its reasoning is then, and the marks."""
    marks = [match.span() for match in CITATION_MARK.finditer(answer)]

    def moved(place: int) -> int:
        return place - sum(min(end, place) - start for start, end in marks if start < place)

    if reasoning is not None and not are_marks(reasoning):
        reasoning = [(moved(start), moved(end)) for start, end in cast(Spans, shifted(reasoning, 0))]
    return CITATION_MARK.sub("", answer), reasoning, [answer[start:end].strip() for start, end in marks]


def _without_ending(completed: Completed) -> Completed:
    """Remove the special tokens at the end of an answer."""
    encoding, count = completed.encoding, len(completed.encoding)
    while count > completed.prompt_tokens and encoding.special[count - 1]:
        count -= 1
    shortened = encoding.take(range(count))
    if shortened.offsets is not None and shortened.text is not None:
        shortened = replace(shortened, text=shortened.text[: shortened.offsets[-1][1]])
    return replace(completed, encoding=shortened)


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
    checking, options = None if checker is None else checker_of(checker), Options(method=method, verify=verify)
    answered = read_answered(model, question, documents, **arguments)
    cited = cite_answered(model, answered, options)
    return replace(cited, checks=checks(checking, cited)) if checking and cited.readings else cited


def cite_answered(model: TaskModel, answered: Answered, options: Options) -> Citations:
    """Find the sources that each sentence of an answer rests on, and verify them if the options ask for it."""

    def explain(completed: Completed, sentences: SentencesAfterPrompt) -> Citations:
        sources, count = completed.named_sources, len(sentences.sentences)
        explained = explain_sources(model, completed, options, sources, "sentence", token_weights=sentences.gains())
        return Citations(
            question=answered.question,
            attribution=of_targets(explained, range(count)),
            weighted_scores=explained.scores[count:] if len(explained.targets) > count else None,  # (K, U)
            messages=answered.messages,
        )

    def score(completed: Completed) -> dict[str, float]:
        cited = explain(completed, SentencesAfterPrompt(model, [completed], "sentence"))
        return dict(zip(cited.names, cited.evidence.scores[:, cited.sources].sum(0).tolist(), strict=True))

    completed, limit, verify = answered.completed, model.answer_limit, options.verify
    if limit is not None and len(completed.encoding) > limit:
        if isinstance(verify, Together):
            raise InputError(f"prompt and answer have {len(completed.encoding)} tokens and the model reads {limit}")
        completed = read_in_windows(completed, limit, score)
    sentences = SentencesAfterPrompt(model, [completed], "sentence")
    cited = explain(completed, sentences)
    if not cited.concluding:
        raise InputError("the answer is all reasoning; max_new_tokens= lets the model write more")
    # Behind a reasoning that repeats the sources, no sentence would need them any more.
    concluded = completed.without_reasoning()
    sentences = sentences if concluded is completed else SentencesAfterPrompt(model, [concluded], "sentence")
    attribution, is_of_texts = cited.attribution, not completed.encoding.media
    if verify is not None and is_of_texts and not isinstance(verify, Together):  # verdicts have seen texts only
        cited = replace(cited, readings=sentences.readings(cited.quotations))
    if verify == "reasoning":
        attribution = with_completion_verification(model, completed, attribution, "reasoning")
    elif verify is not None:
        attribution = replace(attribution, verified=tested(model, concluded, cited, verify, sentences))
    elif not is_of_texts:
        attribution = replace(attribution, notes=(*attribution.notes, UNTESTED_MEDIA))
    return replace(cited, attribution=attribution)


@enough_memory("measure what the answer loses without a source")
def tested(
    model: TaskModel, completed: Completed, cited: Citations, verify: Verify, sentences: SentencesAfterPrompt
) -> Verification:
    """Measure the loss of each sentence without some sources, and without all."""
    evidence, parts = cited.evidence, answer_parts(completed.sequenced(), "sentence")
    weights, whole_answer = part_weights(completed, parts), evidence.whole()  # (K, G)
    units, sources = removable_sources(whole_answer, completed, completed.named_sources)
    known = {(True,) * len(sources): sentences.answer_nats, (False,) * len(sources): sentences.answer_nats_without}
    ablations = Ablations(model, completed, list(sources.values()), known=known)
    if verify == "auto":
        first = list(verified(ablations, weights.sum(0), np.array([part.score for part in units.parts])))
        first += evidence.scores[:, cited.sources].argmax(1).tolist()  # all that a sentence rests on may be one source
        units_tested = [units.parts[i] for i in first]
    else:  # the messages of a conversation, or documents, are what sources are called by
        units = picked(whole_answer, units, list(dict.fromkeys(cited.documents)) if verify == "message" else verify)
        units_tested = units.parts[: units.singles]
    removed = {sources.get(part.tokens) for part in units_tested} - {None}
    units_tested += [part for part in units.parts if sources.get(part.tokens) in removed]  # of the same words
    singles = {part.tokens: part for part in units_tested}
    units_untested = [part for part in units.parts if part.tokens not in singles]
    units = units._replace(parts=[*singles.values(), *units_untested], singles=len(singles), target="the answer")
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
        with_all, *nats = (ablations(np.vstack([present, without[part]])) @ weights).tolist()
        lost |= {source: with_all - left for source, left in zip(part, nats, strict=True)}
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
