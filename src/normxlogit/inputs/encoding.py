"""`Encoding`: one input as the model reads it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..errors import InputError
from ..text.characters import Span
from .encoded_media import EncodedMedium, EncodedSignal

if TYPE_CHECKING:
    from .chat import Content

Spans = tuple[Span, ...]
"""The characters of each token: the first one, and one past the last."""

POSITIONS = "position_ids"
"""The model input that numbers the tokens."""


@dataclass(frozen=True)
class Encoding:
    """One input as the model reads it; every tuple except `notes` has an entry for each token.

    Attributes:
        inputs: The model's inputs that run along the tokens, such as `input_ids` and `token_type_ids`.
        tokens: The tokens in readable form.
        offsets: The characters of the text that each token stands for; None if the text is not known.
        words: The characters of the word that each token is of, where the caller has split the words, (0, 0) for
            special tokens; None for a text that was not split.
        sequence_ids: Which text of a pair each token is of: 0, 1, or None for special tokens.
        special: Whether the tokenizer added the token.
        text: The original text, None if the input came encoded.
        text_pair: The second text of a pair; None for a single text.
        notes: What a reader of its result should know, in lines.
        position: Index of the token whose prediction the caller wants explained, None for the task's default.
        source: The encoder's input, for an encoder-decoder model; None for others.
        signal: The picture or sound whose patches or frames the tokens are; None for texts.
        media: The pictures and sounds beside the words.
        extra_inputs: The model's inputs that hold them, with their batch axis.
        contents: Where the contents of chat messages are in the text; None for a text that was one from the start.
    """

    inputs: Mapping[str, list[int]]
    tokens: tuple[str, ...]
    offsets: Spans | None
    words: Spans | None
    sequence_ids: tuple[int | None, ...]
    special: tuple[bool, ...]
    text: str | None = None
    text_pair: str | None = None
    notes: tuple[str, ...] = ()
    position: int | None = None
    source: "Encoding | None" = None
    signal: EncodedSignal | None = None
    media: tuple[EncodedMedium, ...] = ()
    extra_inputs: Mapping[str, Tensor] = field(default_factory=dict)
    contents: "tuple[Content, ...] | None" = None

    @property
    def has_source(self) -> bool:
        """Whether the model reads something before these tokens, which are a decoder's."""
        return self.source is not None or self.signal is not None

    @property
    def ids(self) -> list[int]:
        """Return the token ids."""
        return self.inputs["input_ids"]

    def characters_of(self, medium: EncodedMedium) -> Span:
        """Return the span of the text that stands for a picture or sound; (0, 0) if it is not known."""
        if self.offsets is None or not medium.tokens:
            return 0, 0
        starts, ends = zip(*(self.offsets[token] for token in medium.tokens), strict=True)
        return min(starts), max(ends)

    def take(self, indices: Iterable[int]) -> "Encoding":
        """Return an encoding of some of the tokens alone, whose position ids are counted anew; the texts stay whole."""
        kept_indices = list(indices)

        def pick(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(values[index] for index in kept_indices)

        inputs = {name: list(pick(values)) for name, values in self.inputs.items()}
        if POSITIONS in inputs:
            # The first ones as they were given, since they need not begin with 0.
            inputs[POSITIONS] = list(self.inputs[POSITIONS][: len(kept_indices)])
        return replace(
            self,
            inputs=inputs,
            tokens=pick(self.tokens),
            offsets=self.offsets and pick(self.offsets),
            words=self.words and pick(self.words),
            sequence_ids=pick(self.sequence_ids),
            special=pick(self.special),
            media=tuple(_with_moved_tokens(medium, kept_indices) for medium in self.media),
            position=kept_indices.index(self.position) if self.position in kept_indices else None,
        )

    def tokens_of_texts(self) -> tuple[list[int], list[int]]:
        """Return the indices of the tokens of the text, and of the second text of a pair, without special tokens."""
        tokens: tuple[list[int], list[int]] = ([], [])
        for index, (sequence, special) in enumerate(zip(self.sequence_ids, self.special, strict=True)):
            if sequence is not None and not special:
                tokens[sequence].append(index)
        return tokens

    def with_written_special_tokens(self) -> "Encoding":
        """Return the encoding without the special tokens that stand in the text and that the tokenizer added again.

        A text that a chat template wrote begins with "<s>", and the tokenizer adds another one before it. The added one
        is kept, as a special token, and gets the characters of the written one, which is left out.
        """
        added_for = doubled_special_tokens(self.ids, self.special)  # the added token for each written one
        if not added_for:
            return self
        offsets = list(self.offsets or ())
        for written, added in added_for.items() if offsets else ():
            offsets[added] = offsets[written]
        kept_indices = (index for index in range(len(self)) if index not in added_for)
        rest = replace(self, offsets=tuple(offsets) or None).take(kept_indices)
        names = ", ".join(dict.fromkeys(self.tokens[written] for written in added_for))
        note = f"the text has special tokens of the tokenizer at its ends ({names}): they are not added again"
        return replace(rest, notes=(*self.notes, note))

    def __len__(self) -> int:
        return len(self.tokens)


def doubled_special_tokens(ids: Sequence[int], added: Sequence[bool]) -> dict[int, int]:
    """Return the special tokens that stand in a text and that the tokenizer added once more directly beside them.

    Args:
        ids: The token ids.
        added: Which of the tokens the tokenizer added.

    Returns:
        By the index of each such token of the text, the index of the added one.
    """
    added_for: dict[int, int] = {}
    # The tokens fall into runs that the tokenizer added, and runs of the text, in turn.
    run_starts = [0, *accumulate(len(list(run)) for _, run in groupby(added))]
    for start, end in pairwise(run_starts):
        if not added[start]:
            continue
        # The longest match first: several tokens may be doubled as a whole.
        for count in range(end - start, 0, -1):
            before_text = range(end - count, end), range(end, end + count)
            after_text = range(start, start + count), range(start - count, start)
            for added_indices, written in (before_text, after_text):
                is_free = _are_unmatched(written, added_for, added)
                if is_free and _ids_at(ids, written) == _ids_at(ids, added_indices):
                    added_for |= zip(written, added_indices, strict=True)
    return added_for


def _are_unmatched(indices: range, matched: Collection[int], added: Sequence[bool]) -> bool:
    """Return whether all of these tokens exist, are of the text itself, and are not matched with an added one yet."""
    if indices.start < 0 or indices.stop > len(added):
        return False
    return not any(index in matched or added[index] for index in indices)


def _ids_at(ids: Sequence[int], indices: range) -> list[int]:
    """Return the token ids at some indices."""
    return list(ids[indices.start : indices.stop])


def _with_moved_tokens(medium: EncodedMedium, indices: Sequence[int]) -> EncodedMedium:
    """Return a picture or a sound with its token indices counted among the tokens that `indices` keep.

    Raises:
        InputError: If one of its tokens is not kept.
    """
    new_indices = {old: new for new, old in enumerate(indices)}
    if not all(token in new_indices for token in medium.tokens):
        raise InputError(f"a part of {medium.name} cannot be left out of the prompt: it is read whole")
    return replace(medium, tokens=tuple(new_indices[token] for token in medium.tokens))


EMPTY = Encoding({"input_ids": []}, (), (), None, (), (), "")
"""The encoding of an empty text."""
