"""`Completed`: a prompt with its completion, given or generated, before anything is explained."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from ...errors import InputError
from ...inputs.chat import ReadPrompt
from ...inputs.encoding import Encoding, Spans
from ...model.task_model import TaskModel
from ...results.units.media import is_region
from ...results.units.spans import Groups, MessageSpan, PartSpec, Sequenced, SourceSpec, answer_parts
from ...tasks.base import message_spans
from ...text.characters import Span, moved
from .reasoning import ReasoningSpec, reasoning_spans

NO_MESSAGES = ReadPrompt("", None)


class Parting(NamedTuple):
    """The token of a completion at which another completion of the prompt parts from it.

    Attributes:
        token: Its place among the tokens of the completion.
        other_id: The token of the other completion at this place.
    """

    token: int
    other_id: int


@dataclass(frozen=True)
class Completed:
    """A prompt with its completion.

    Attributes:
        encoding: Both, as the model reads them; of an encoder-decoder model what its decoder reads, with the source.
        prompt_tokens: How many of its tokens are the prompt's; of an encoder-decoder model the decoder's first ones.
        prompt_characters: How many characters of its text are the prompt's.
        prompt: The prompt as it was read, with the contents of its messages if it was a chat.
        named_sources: Spans of the sources that the caller named, in characters of the text, by name.
        parts: How the completion is divided where its sentences are explained by sources.
        other: The same prompt with another completion, which this one is explained against.
        parting: The token that is measured and explained against that of another completion, if only one is.
        reasoning: Spans in which the completion reasons, in its characters; `marked_reasoning` with the marks around.
        by_model: Whether the model generated it, with its cache.
    """

    encoding: Encoding
    prompt_tokens: int
    prompt_characters: int
    prompt: ReadPrompt = NO_MESSAGES
    named_sources: Mapping[str, Span] = field(default_factory=dict)
    parts: PartSpec = "sentence"
    other: "Completed | None" = None
    parting: Parting | None = None
    reasoning: Spans = ()
    marked_reasoning: Spans = ()
    by_model: bool = False

    @cached_property
    def context(self) -> Encoding:
        """What the model reads: all but the last token, from which nothing is predicted."""
        return self.encoding.take(range(len(self.encoding) - 1))

    @property
    def generated_ids(self) -> list[int]:
        """The tokens of the completion."""
        return self.encoding.ids[self.prompt_tokens :]

    def part(self, first: int, stop: int) -> "Completed":
        """Return the generated tokens from `first` to `stop`, exclusive, as a completion of all tokens before them."""
        encoding = self.encoding.take(range(self.prompt_tokens + stop))
        return replace(self, encoding=encoding, prompt_tokens=self.prompt_tokens + first)

    def joined(self) -> "Completed":
        """Return a copy whose prompt begins with the source of an encoder-decoder model, on a line of its own."""
        decoded, source = self.encoding, self.encoding.source
        if source is None:
            return self
        text, offsets = None, None
        source_characters = 0
        # If one of them is not known, the text of both is not; every `or` below is for type checkers.
        if None not in (source.text, source.offsets, decoded.text, decoded.offsets):
            source_characters = len(source.text or "") + 1  # with the line break
            text = f"{source.text}\n{decoded.text}"
            decoded_offsets = (moved(span, source_characters) for span in decoded.offsets or ())
            offsets = (*(source.offsets or ()), *decoded_offsets)
        encoding = Encoding(
            {"input_ids": [*source.ids, *decoded.ids]},
            tokens=(*source.tokens, *decoded.tokens),
            offsets=offsets,
            words=None,
            sequence_ids=(*source.sequence_ids, *decoded.sequence_ids),
            special=(*source.special, *decoded.special),
            text=text,
            notes=decoded.notes,
        )
        return replace(
            self,
            encoding=encoding,
            prompt_tokens=len(source) + self.prompt_tokens,
            prompt_characters=source_characters + self.prompt_characters,
        )

    def with_reasoning(self, model: TaskModel, spec: ReasoningSpec | None = None) -> "Completed":
        """Return a copy that knows where the completion reasons; see `reasoning_spans`."""
        text = self.encoding.text or ""
        start = self.prompt_characters
        spans, marked = reasoning_spans(model, text[start:], text[:start], spec)
        return replace(self, reasoning=spans, marked_reasoning=marked)

    def without(self, removed: Collection[int]) -> Encoding:
        """Return the model's input without some tokens of the prompt, given by their places in `joined`."""
        decoded, source = self.encoding, self.encoding.source
        source_tokens = 0 if source is None else len(source)
        remaining = decoded.take(place for place in range(len(decoded)) if source_tokens + place not in removed)
        if source is None:
            return remaining
        return replace(remaining, source=source.take(place for place in range(source_tokens) if place not in removed))

    @property
    def messages(self) -> tuple[MessageSpan, ...] | None:
        """The spans of a chat's messages in the text; None if the prompt was one text."""
        return message_spans(self.prompt.contents)

    def sequenced(self) -> Sequenced:
        """Return prompt and completion as characters and tokens; `joined` for an encoder-decoder model."""
        joined = self.joined()
        text, offsets = joined.encoding.text, joined.encoding.offsets
        if offsets is None or text is None:
            raise InputError("sources need the text and the character offsets of its tokens")
        return Sequenced(
            text,
            offsets,
            joined.encoding.special,
            prompt_tokens=joined.prompt_tokens,
            prompt_characters=joined.prompt_characters,
            messages=self.messages,
            reasoning=list(zip(self.reasoning, self.marked_reasoning, strict=True)),
        )

    def answer_parts(self, parts: PartSpec) -> Groups:
        """Return the parts of the completion; if it is explained at one token alone, with this token for theirs.

        Args:
            parts: How the completion is divided.
        """
        pieces = answer_parts(self.sequenced(), parts)
        if self.parting is None:
            return pieces
        token = self.joined().prompt_tokens + self.parting.token
        return [piece._replace(tokens=(token,)) for piece in pieces]

    def without_reasoning(self) -> "Completed":
        """Return the answer without its reasoning; the marks around it stay, as of a model that answers at once."""
        if not self.reasoning:
            return self
        sequence = self.sequenced()
        spans = [moved(span, sequence.prompt_characters) for span in self.reasoning]
        tokens = {token for span in spans for token in sequence.tokens_in(*span, of_answer=True)}
        return replace(self, encoding=self.without(tokens))

    def division(self, sources: SourceSpec | Mapping[str, Sequence[int]]) -> SourceSpec:
        """Return the division of the prompt into sources, with spans in its whole text; see `span_of`."""
        if not isinstance(sources, Mapping):
            return sources
        named = {str(name): tuple(span) for name, span in sources.items()}
        return {name: span if is_region(span) else self.span_of(name, span) for name, span in named.items()}

    def span_of(self, name: str, span: tuple[int, ...]) -> Span:
        """Return a span (start, end), or (message, start, end) in a message's content, in the whole prompt."""
        contents = self.prompt.contents
        expected_form = "(start, end)" if contents is None else "(message, start, end)"
        if len(span) != (2 if contents is None else 3):
            raise InputError(f"source {name!r}: in this prompt a span is {expected_form}, in characters, not {span!r}")
        if contents is None:
            return span[0], span[1]
        message, start, end = span
        content = next((content for content in contents if content.holds(message, start, end)), None)
        if content is None:
            raise InputError(f"source {name!r}: {span[1:]} is not a span of message {message} as the prompt holds it")
        return content.place_of(start), content.place_of(end)
