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
        encoded = self.encoding
        source = encoded.source
        if source is None:
            return self
        text = None
        offsets = None
        shift = 0  # how many characters are put before those of the decoder
        if None not in (source.text, source.offsets, encoded.text, encoded.offsets):
            shift = len(source.text or "") + 1
            text = f"{source.text}\n{encoded.text}"
            offsets = (*(source.offsets or ()), *(moved(span, shift) for span in encoded.offsets or ()))
        encoding = Encoding(
            inputs={"input_ids": [*source.ids, *encoded.ids]},
            tokens=(*source.tokens, *encoded.tokens),
            offsets=offsets,
            words=None,
            sequence_ids=(*source.sequence_ids, *encoded.sequence_ids),
            special=(*source.special, *encoded.special),
            text=text,
            notes=encoded.notes,
        )
        return replace(
            self,
            encoding=encoding,
            prompt_tokens=len(source) + self.prompt_tokens,
            prompt_characters=shift + self.prompt_characters,
        )

    def with_reasoning(self, model: TaskModel, spec: ReasoningSpec | None = None) -> "Completed":
        """Return a copy that knows where the completion reasons; see `reasoning_spans`."""
        text = self.encoding.text or ""
        start = self.prompt_characters
        spans, marked = reasoning_spans(model, text[start:], text[:start], spec)
        return replace(self, reasoning=spans, marked_reasoning=marked)

    def without(self, removed: Collection[int]) -> Encoding:
        """Return the model's input without some tokens of the prompt, by their places in `joined`."""
        source = self.encoding.source
        start = 0 if source is None else len(source)
        kept = self.encoding.take(place for place in range(len(self.encoding)) if start + place not in removed)
        if source is None:
            return kept
        return replace(kept, source=source.take(place for place in range(start) if place not in removed))

    @property
    def messages(self) -> tuple[MessageSpan, ...] | None:
        """The spans of a chat's messages in the text; None if the prompt was one text."""
        return message_spans(self.prompt.contents)

    def sequenced(self) -> Sequenced:
        """Return prompt and completion as characters and tokens; `joined` for an encoder-decoder model."""
        joined = self.joined()
        encoding = joined.encoding
        if encoding.offsets is None or encoding.text is None:
            raise InputError("sources need the text and the character offsets of its tokens")
        return Sequenced(
            encoding.text,
            encoding.offsets,
            encoding.special,
            joined.prompt_tokens,
            joined.prompt_characters,
            self.messages,
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
        if len(span) != (2 if contents is None else 3):
            form = "(start, end)" if contents is None else "(message, start, end)"
            raise InputError(f"source {name!r}: in this prompt a span is {form}, in characters, not {span!r}")
        if contents is None:
            return span[0], span[1]
        content = next((c for c in contents if c.holds(*span)), None)
        if content is None:
            raise InputError(f"source {name!r}: {span[1:]} is not a span of message {span[0]} as the prompt holds it")
        return content.place_of(span[1]), content.place_of(span[2])
