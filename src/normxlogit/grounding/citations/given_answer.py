"""An answer that was written elsewhere as the model reads it: without marks of citations and special tokens."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...errors import InputError
from ...inputs.chat import ReadPrompt, has_chat_template
from ...inputs.encoder import private_tokenizer
from ...model.task_model import TaskModel
from ...pipeline.completions.completed import Completed
from ...pipeline.completions.completed_prompts import read_completion
from ...pipeline.completions.reasoning import ReasoningSpec, are_marks, opens_reasoning, reasoning_marks, shifted
from ...results.storage.schema import Strings
from ...results.units.media import overlap
from ...text.characters import Span
from ...text.markdown import code_spans, fenced_blocks

_CITATION_MARK = re.compile(
    r"[^\S\n]*(?:\[\^?(?:(?:doc|document|source) ?)?[1-9]\d{0,2}(?:[,;–-] ?\d+)*\](?:\(\S*?\))?|【[^】]*】)"
)
"""A mark by which an answer cites by itself: "[1]", "[1, 2]", "[^1]", "[doc1]", "[1](https://...)", "【1†source】"."""


def read_given_answer(model: TaskModel, prompt: ReadPrompt, answer: str, reasoning: ReasoningSpec | None) -> Completed:
    """Encode a prompt and an answer that was written elsewhere.

    Special tokens at the end of the answer are dropped, with white space around them; inside it they are read as plain
    text. Marks of its own citations are dropped too, with a note: documents do not say them. Where the prompt opens a
    reasoning, the answer may have none.

    Args:
        model: A language model.
        prompt: The prompt.
        answer: The answer.
        reasoning: Where it reasons, in its characters, or the marks around that.
    """
    citations = citation_marks(answer)
    if citations:
        own_marks = ", ".join(answer[start:end].strip() for start, end in citations)
        prompt = replace(prompt, notes=(*prompt.notes, f"not read: the answer's own marks {own_marks}"))
        reasoning = _reasoning_without(citations, reasoning)
        answer = _without(citations, answer)
    # Behind "Answer:" a space; a chat template writes what stands before an answer itself.
    opening, marks = "" if has_chat_template(model.reader) else " ", reasoning_marks(model.reader)
    # A prompt with media is rendered from its messages again, so a mark in its text would be lost.
    if not prompt.media and marks[1] not in answer and opens_reasoning(prompt.text, marks[0]):
        prompt = replace(prompt, text=f"{prompt.text}\n{marks[1]}\n\n")
    reasoning = shifted(reasoning, len(opening) - (len(answer) - len(answer.lstrip())))
    special_tokens = _special_tokens(model.tokenizer)
    answer = opening + _without_end(answer.strip(), special_tokens)
    # The marks of a reasoning may be special tokens, and are meant as such.
    inside = [token for token in special_tokens if token in answer and token not in " ".join(marks)]
    completion = _as_plain_text(model.tokenizer, answer, inside)
    return read_completion(model, prompt, completion, longer=True, reasoning=reasoning)


def citation_marks(answer: str) -> list[Span]:
    """Return the marks by which an answer cites by itself; "items[1]" in code is no mark.

    Args:
        answer: A text, with or without Markdown.
    """
    code = [*code_spans(answer, 0, len(answer)), *(block for block, _ in fenced_blocks(answer))]
    marks = (match.span() for match in _CITATION_MARK.finditer(answer))
    return [mark for mark in marks if not any(overlap(mark, span) for span in code)]


def _reasoning_without(removed: Sequence[Span], reasoning: ReasoningSpec | None) -> ReasoningSpec | None:
    """Return where an answer reasons when some spans of it are gone; marks around a reasoning stay as they are."""

    def place_without(place: int) -> int:
        """Return where a character stands then."""
        return place - sum(min(end, place) - start for start, end in removed if start < place)

    if reasoning is None or are_marks(reasoning):
        return reasoning
    # Moved by nothing: `shifted` checks the spans.
    return [(place_without(start), place_without(end)) for start, end in shifted(reasoning, 0)]


def _without(removed: Sequence[Span], answer: str) -> str:
    """Return an answer without some spans of it, given in their order."""
    for start, end in reversed(removed):  # from the end on, so that earlier spans stay where they are
        answer = answer[:start] + answer[end:]
    return answer


def _special_tokens(tokenizer: Any) -> Strings:
    """Return the texts of a tokenizer's special tokens, those that were added among them."""
    added = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    return tuple(sorted(filter(None, {*added, *tokenizer.all_special_tokens})))


def _without_end(answer: str, special_tokens: Strings) -> str:
    """Return an answer without the special tokens at its end, and the white space between them."""
    while answer.endswith(special_tokens):
        answer = next(answer.removesuffix(token) for token in special_tokens if answer.endswith(token)).rstrip()
    return answer


def _as_plain_text(tokenizer: Any, text: str, special_tokens: Sequence[str]) -> str | list[int]:
    """Return the tokens of a text in which special tokens are read as the characters that they are written with.

    Args:
        tokenizer: The tokenizer.
        text: The text.
        special_tokens: The special tokens in it; without any, it is returned as it is.
    """
    if not special_tokens:
        return text
    tokenizer = private_tokenizer(tokenizer)
    ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    if set(ids) & set(tokenizer.convert_tokens_to_ids(list(special_tokens))):  # not all tokenizers can split them
        raise InputError(f"the answer holds {special_tokens[0]!r}, a special token of the model; take it out")
    return ids
