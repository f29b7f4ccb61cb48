"""An answer with its sources, read or generated, before anything is scored."""

import re
from dataclasses import replace
from typing import Any, NamedTuple, cast

from ...errors import InputError
from ...inputs.chat import ReadPrompt, has_chat_template
from ...inputs.encoder import private_tokenizer
from ...model.task_model import TaskModel
from ...pipeline.completions.completed_prompts import Completed, generate_each, read_completion
from ...pipeline.completions.reasoning import ReasoningSpec, Spans, are_marks, opens_reasoning, reasoning_marks, shifted
from ...results.units.spans import MessageSpan
from ..documents.conversations import Conversation, read_conversation
from .prompts import conversation_prompt, question_prompt

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
        asked = question_prompt(model, question, documents, system)
    elif any(given is not None for given in (question, documents, system)):
        raise InputError("messages hold the question, the documents and the system message; pass one or the other")
    else:
        conversation = messages if isinstance(messages, Conversation) else read_conversation(messages)
        asked = conversation_prompt(model, conversation, turn, answer)
        answer, reasoning = asked.answer, asked.reasoning or reasoning
    if answer is None:
        (completed,) = generate_each(model, [asked.prompt], {"max_new_tokens": max_new_tokens}, reasoning)
        generated = completed.sequenced()
        if CITATION_MARK.search(own := generated.text[generated.prompt_characters :]):
            completed = _read_answer(model, asked.prompt, own, reasoning)
    elif not isinstance(answer, str) or not answer.strip():
        problem = "empty" if isinstance(answer, str) else f"a {type(answer).__name__}, not a text"
        raise InputError(f"the answer is {problem}")
    else:
        completed = _read_answer(model, asked.prompt, answer, reasoning)
    completed = _without_ending(completed)
    if len(completed.encoding) == completed.prompt_tokens:
        nothing = "the model answers with nothing; ask in other words, or with other documents"
        raise InputError(nothing if answer is None else "the model's tokenizer knows no word of the answer")
    sequence, encoding = completed.sequenced(), completed.encoding
    sources = {name: span for name, span in asked.spans.items() if sequence.tokens_in(*span, of_answer=False)}
    if not sources and not encoding.media:
        raise InputError("the model's tokenizer knows no word of the documents")
    media = [MessageSpan(medium.kind, *encoding.characters_of(medium), medium.name) for medium in encoding.media]
    spans = sorted([*media, *asked.messages], key=lambda message: message.start) if asked.messages else ()
    return Answered(replace(completed, named_sources=sources), asked.question, tuple(spans))


def _read_answer(model: TaskModel, prompt: ReadPrompt, answer: str, reasoning: ReasoningSpec | None) -> Completed:
    """Encode a prompt and an answer that was written elsewhere.

    Special tokens at the end of the answer are dropped, with white space around them; inside it they are read as plain
    text. Marks of its own citations are dropped too, with a note: they are no words that a document could say. Where
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
