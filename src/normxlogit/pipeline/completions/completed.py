"""A prompt with its completion, before anything is explained."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...errors import InputError
from ...inputs.chat import Content, ReadPrompt
from ...inputs.encoding import Encoding
from ...results.units.regions import is_box
from ...results.units.spans import MessageSpan, Sequenced, SourceSpec, prompt_sources

NO_MESSAGES = ReadPrompt("", None)


@dataclass(frozen=True)
class Completed:
    """A prompt with its completion.

    Attributes:
        encoding: Both, as the model reads them; of an encoder-decoder model what its decoder reads, with the source.
        prompt_tokens: Tokens of the encoding that stand before the completion.
        prompt: The prompt as one text, with its messages, pictures and sounds.
        named_sources: Spans of the sources that the caller named, in characters of the text, by name.
    """

    encoding: Encoding
    prompt_tokens: int
    prompt_characters: int
    prompt: ReadPrompt = NO_MESSAGES
    named_sources: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def joined(self) -> "Completed":
        """Return a copy with the source of an encoder-decoder model on a line before the decoder's text.

        The prompt is then the source and the decoder's first token.
        """
        encoded, source = self.encoding, self.encoding.source
        if source is None:
            return self
        text, offsets, shift = None, None, 0
        if None not in (source.text, source.offsets, encoded.text, encoded.offsets):
            shift = len(source.text or "") + 1
            text = f"{source.text}\n{encoded.text}"
            offsets = (*(source.offsets or ()), *((start + shift, end + shift) for start, end in encoded.offsets or ()))
        encoding = Encoding(
            {"input_ids": [*source.ids, *encoded.ids]},
            (*source.tokens, *encoded.tokens),
            offsets,
            None,
            (*source.sequence_ids, *encoded.sequence_ids),
            (*source.special, *encoded.special),
            text,
            notes=encoded.notes,
        )
        return replace(
            self,
            encoding=encoding,
            prompt_tokens=len(source) + self.prompt_tokens,
            prompt_characters=shift + self.prompt_characters,
        )

    def without(self, out: Collection[int]) -> Encoding:
        """Return the model's input without some tokens of the prompt.

        Args:
            out: Their places in `joined`.
        """
        encoded, source = self.encoding, self.encoding.source
        if source is None:
            return encoded.take(i for i in range(len(encoded)) if i not in out)
        decoder = encoded.take(i for i in range(len(encoded)) if len(source) + i not in out)
        return replace(decoder, source=source.take(i for i in range(len(source)) if i not in out))

    @property
    def contents(self) -> tuple[Content, ...] | None:
        """What the messages of a chat say; None for a prompt that was one text."""
        return self.prompt.contents

    @property
    def messages(self) -> tuple[MessageSpan, ...] | None:
        """The spans of a chat's messages in the text; None if the prompt was one text."""
        contents = self.contents
        return None if contents is None else tuple(MessageSpan(c.role, c.start, c.end) for c in contents)

    def sequenced(self) -> Sequenced:
        """Return prompt and completion as characters and tokens; `joined` for an encoder-decoder model."""
        joined = self.joined()
        encoding = joined.encoding
        if encoding.offsets is None or encoding.text is None:
            raise InputError("sources need a tokenizer that reports character offsets")
        return Sequenced(
            encoding.text,
            encoding.offsets,
            encoding.special,
            joined.prompt_tokens,
            joined.prompt_characters,
            self.messages,
        )

    def with_sources(self, sources: Mapping[str, Sequence[int]] | None) -> "Completed":
        """Return a copy with named sources of the prompt.

        Args:
            sources: Character spans (start, end) of the prompt; of a prompt of messages (message, start, end), counted
                in the message's content.
        """
        if sources is None:
            return self
        if not isinstance(sources, Mapping):
            raise InputError(f"sources are spans by name, as in {{'notes': (0, 40)}}, not {type(sources).__name__}")
        spans = {str(name): self._span(str(name), tuple(span)) for name, span in sources.items()}
        if spans:
            prompt_sources(self.sequenced(), spans)
        return replace(self, named_sources=spans)

    def division(self, sources: SourceSpec | Mapping[str, Sequence[int]]) -> SourceSpec:
        """Return the division of the prompt into sources, with spans in its whole text.

        Args:
            sources: A kind of source, or spans as in `with_sources` and boxes of pictures by name.
        """
        if not isinstance(sources, Mapping):
            return sources
        boxes = {str(name): tuple(box) for name, box in sources.items() if is_box(box)}
        spans = {name: span for name, span in sources.items() if not is_box(span)}
        return {**boxes, **(self.with_sources(spans).named_sources if spans or not boxes else {})}

    def with_tokens(self, sources: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
        """Return the sources with at least one ordinary token; a source of unknown words may have none.

        Args:
            sources: As in `with_sources`.
        """
        sequence = self.sequenced()
        spans = {name: self._span(name, tuple(span)) for name, span in sources.items()}
        return {n: span for n, span in sources.items() if sequence.tokens_in(*spans[n], of_answer=False)}

    def _span(self, name: str, span: tuple[int, ...]) -> tuple[int, int]:
        if self.contents is None and len(span) == 2:
            return span[0], span[1]
        if self.contents is None or len(span) != 3:
            form = "(start, end)" if self.contents is None else "(message, start, end)"
            raise InputError(f"source {name!r}: in this prompt a span is {form}, in characters, not {span!r}")
        content = next((c for c in self.contents if c.message == span[0]), None)
        if content is None:
            raise InputError(f"source {name!r}: the prompt holds no message {span[0]}")
        start, end = (content.start - content.trimmed + position for position in span[1:])
        if not content.start <= start < end <= content.end:
            raise InputError(f"source {name!r}: {span[1:]} is not a span of message {span[0]} as the prompt holds it")
        return start, end
