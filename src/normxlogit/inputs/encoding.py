"""`Encoding`, one input for the model with its pictures and sounds, and `Batch`, several as padded tensors."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from typing_extensions import Self

from ..errors import InputError
from ..text.characters import Span

if TYPE_CHECKING:
    from .chat import Content


Spans = tuple[Span, ...]

POSITIONS = "position_ids"
"""The model input that numbers the tokens."""

MAX_PADDING_SHARE = 0.04
"""Most padding in a batch, as a share of its tokens."""

FREE_PADDING_TOKENS = 32
"""Padding tokens that cost less than another forward pass, whatever their share."""

OVERLAP = 4
"""Neighbouring windows of a long text overlap by this fraction, 1 / OVERLAP, of their text."""

Indices = list[int]
"""Of tokens."""


@dataclass(frozen=True)
class EncodedSignal:
    """An input without a text as the model reads it, such as a picture; its parts are tokens or an encoder's input.

    Attributes:
        shapes: The shapes of its inputs; those of the same shapes are read together.
        inputs: The processor's outputs for it: the model's inputs without the batch axis.
    """

    shapes: tuple[tuple[int, ...], ...]
    inputs: Mapping[str, Tensor]

    def without(self, tokens: Sequence[int]) -> Self:
        """Return it without the parts that some tokens are."""
        raise NotImplementedError

    def medium(self, parts: int) -> "EncodedMedium | None":
        """Return it as what has scores in a result, read in so many parts behind the tokens; None for tokens alone."""
        return None


class ScoreSpread(NamedTuple):
    """A linear map from the scores of a model's parts (patches or frames) to places in a picture or a sound; sums stay.

    It is a sparse matrix: each of E entries gives a share of one part's score to one place.

    Attributes:
        where: Where each place is, (h, w, 4) in pixels or (n, 2) in seconds.
        parts: The index of each entry's part, (E,).
        places: The index of its place, (E,), counted through all axes of the places.
        shares: How much of the part's score is there, (E,); those of one part sum to 1.
    """

    where: npt.NDArray[np.float32]
    parts: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float64]

    def __call__(self, scores: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float32]:
        """Return scores of N parts, (..., N), as scores of places, (..., h, w) or (..., n)."""
        *axes, part_count = scores.shape
        place_shape = self.where.shape[:-1]  # (h, w) or (n,)
        place_count = int(np.prod(place_shape))
        rows = scores.reshape(-1, part_count).astype(np.float64)
        totals = [np.bincount(self.places, row[self.parts] * self.shares, place_count) for row in rows]
        return np.array(totals, np.float32).reshape(*axes, *place_shape)


@dataclass(frozen=True)
class EncodedMedium:
    """A part of an input that is not text, such as a picture inside a prompt.

    Attributes:
        kind: Which of the media that extensions name it is, such as "picture".
        tokens: The tokens of the text that stand for it.
        by_token: Its places for scores of these tokens; None if they cannot be told apart.
        by_part: Its places for scores of the parts at its entry into the model (`parts.signal_entry`), counted
            among the parts of all media of the prompt, or of the encoder's frames of a sound.
        extent: Its size along each axis of its places: width and height of a picture, seconds of a sound.
    """

    kind: str
    name: str
    tokens: tuple[int, ...]
    by_token: ScoreSpread | None
    by_part: ScoreSpread | None
    extent: tuple[float, ...]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Encoding:
    """One input as the model reads it; every tuple except `notes` has an entry for each token.

    Attributes:
        inputs: The model's inputs that run along the tokens, such as `input_ids` and `token_type_ids`.
        offsets: Character spans; None if the text is not known.
        words: The characters of the word that the caller has split and a token is of, (0, 0) for special tokens; None
            for a text that was not split.
        sequence_ids: 0, 1 or None for special tokens.
        special: True for tokens that the tokenizer added.
        text: The original text, None if the input came encoded.
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
        """Return first and last character, plus one, of what stands for a picture or sound; (0, 0) if not known."""
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
    run_starts = [0, *accumulate(len(list(run)) for _, run in groupby(added))]  # of added and of other tokens in turn
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


def readable_tokens(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], known: dict[int, str] | None = None
) -> tuple[str, ...]:
    """Return tokens with their markers as the characters they stand for; forms once found are kept in `known`.

    Args:
        tokenizer: The tokenizer.
        ids: The token ids.
        known: The forms by id, to which new ones are added; None to keep none.
    """
    known = {} if known is None else known
    new_ids = [token_id for token_id in set(ids) if token_id not in known]
    pieces = tokenizer.convert_ids_to_tokens(new_ids) if new_ids else []
    known |= {token_id: _readable(tokenizer, piece) for token_id, piece in zip(new_ids, pieces, strict=True)}
    return tuple(map(known.__getitem__, ids))


def _readable(tokenizer: PreTrainedTokenizerBase, piece: str | None) -> str:
    """Return one token in readable form; "" for an id that the tokenizer does not know."""
    if piece is None or piece.isascii():
        return piece or ""
    text = tokenizer.convert_tokens_to_string([piece])
    # SentencePiece writes a space as "▁", and drops it at the beginning of a text.
    is_space_dropped = piece[0] == "▁" and not text.startswith(" ")
    return " " + text if is_space_dropped else text or piece


def check_ids(ids: Sequence[int], vocabulary: int | None, described_source: str) -> None:
    """Refuse token ids for which the model has no embedding; the message says where they are from.

    Args:
        ids: The token ids.
        vocabulary: How many embeddings the model has; None if that is not known.
        described_source: What holds the ids, for the message, such as "input 0".
    """
    if any(isinstance(token_id, bool) for token_id in ids):
        raise InputError(f"{described_source} holds true or false among its token ids")
    low, high = min(ids, default=0), max(ids, default=0)
    if low < 0 or (vocabulary is not None and high >= vocabulary):
        known = "from 0 up" if vocabulary is None else f"0 to {vocabulary - 1}"
        raise InputError(
            f"{described_source} holds token id {low if low < 0 else high} and the model knows {known}; is this the "
            "model's tokenizer?"
        )


# --- batches: groups of encodings of similar length within a token budget, as padded tensors ------------------------


@dataclass(frozen=True)
class Batch:
    """Several encodings as padded tensors.

    Attributes:
        inputs: Model inputs, (B, T).
        mask: True at real tokens, (B, T).
        indices: Those of the texts in the caller's list.
        beside_text: The names of inputs that are of the whole text, (B, ...), and none of its tokens'.
        arguments: Further arguments of the model that change no answer, such as a cache that a frozen pass fills.
    """

    inputs: dict[str, Tensor]
    mask: Tensor
    encodings: Sequence[Encoding]
    indices: list[int]
    beside_text: Collection[str] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def along_tokens(self, name: str) -> bool:
        """Return whether an input has a value, or several, for each token, (B, T) or (B, T, ...)."""
        if name in self.beside_text:
            return False
        return self.inputs[name].shape == self.mask.shape or name in self.encodings[0].inputs

    @cached_property
    def padded(self) -> bool:
        """Whether the batch has padding, computed without a transfer from the device."""
        return min(map(len, self.encodings)) < self.mask.shape[1]

    @cached_property
    def starts(self) -> list[int]:
        """How many tokens of padding stand before each text."""
        return self.mask.int().argmax(-1).tolist() if self.padded else [0] * len(self.encodings)

    @property
    def has_source(self) -> bool:
        """Whether the pass runs an encoder on a source too, beside the decoder on these tokens."""
        return "source" in self.inputs

    @property
    def source_is_signal(self) -> bool:
        """Whether the source is not a text: its embeddings are not those of tokens."""
        return self.has_source and self.encodings[0].signal is not None

    def real(self, values: Tensor) -> Tensor:
        """Return the values at real tokens: (B, T, ...) to (N, ...)."""
        return values[self.mask] if self.padded else values.flatten(0, 1)

    def spread(self, values: Tensor) -> Tensor:
        """Return values of real tokens in the shape of the batch, zero at padding: (N, ...) to (B, T, ...)."""
        if not self.padded:
            return values.view(*self.mask.shape, *values.shape[1:])
        full = values.new_zeros((*self.mask.shape, *values.shape[1:]))  # (B, T, ...)
        full[self.mask] = values
        return full

    def rows(self, rows: slice, length: int | None = None) -> "Batch":
        """Return some texts of the batch, padding included, with their first `length` tokens or all."""
        inputs = {name: value[rows] if length is None else value[rows, :length] for name, value in self.inputs.items()}
        return replace(
            self,
            inputs=inputs,
            mask=self.mask[rows, :length],
            encodings=self.encodings[rows],
            indices=self.indices[rows],
        )

    @cached_property
    def media(self) -> tuple[EncodedMedium, ...]:
        """The pictures and sounds of a batch of one text; () if it has none."""
        return self.encodings[0].media if len(self.encodings) == 1 else ()

    @cached_property
    def placeholder_mask(self) -> Tensor | None:
        """The placeholder tokens of pictures and sounds, (1, T); None if there are none, or several texts."""
        tokens = [token for medium in self.media for token in medium.tokens]
        if not tokens:
            return None
        placeholders = torch.zeros_like(self.mask)  # (1, T): a text with media is a batch by itself
        placeholders[:, tokens] = True
        return placeholders

    @cached_property
    def texts(self) -> Tensor:
        """Which text each real token belongs to, (N,)."""
        rows = torch.arange(len(self.mask), device=self.mask.device)[:, None]  # (B, 1)
        return self.real(rows.expand(self.mask.shape))  # (N,)


def sizes_of(encodings: Sequence[Encoding]) -> list[int]:
    """Return the number of tokens of each encoding, with those of its source."""
    return [len(encoding) + (0 if encoding.source is None else len(encoding.source)) for encoding in encodings]


def batches(encodings: Sequence[Encoding], budget: int, *, pad: bool = True) -> Iterator[list[int]]:
    """Yield groups of encodings of similar length, longest first, by their indices.

    Texts x longest stays within `budget` tokens, and padding within 4% of them or a few tokens.

    Args:
        encodings: The encodings.
        budget: Most tokens of a group, padding included; a longer text is a group of its own.
        pad: Whether texts of different lengths may be together; otherwise a group has one length.
    """
    lengths = sizes_of(encodings)
    padding = 0
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        longest = lengths[group[0]] if group else lengths[index]
        tokens = (len(group) + 1) * longest
        padding += longest - lengths[index]
        allowed_padding = max(FREE_PADDING_TOKENS, MAX_PADDING_SHARE * tokens) if pad else 0
        if group and (tokens > budget or padding > allowed_padding):
            yield group
            group = []
            padding = 0
        group.append(index)
    if group:
        yield group


def collate(
    encodings: Sequence[Encoding], indices: list[int], *, pad_id: int, left: bool, device: torch.device
) -> Batch:
    """Return B encodings as tensors on a device, padded to one length, with their indices in the caller's list.

    Models that answer at the last position whatever stands there are padded on the left.

    Args:
        encodings: The encodings.
        indices: The place of each in the list.
        pad_id: The token id that stands at padding.
        left: Whether padding stands before a text, not behind it.
        device: Where the tensors are.
    """
    lengths = np.array(list(map(len, encodings)))[:, None]  # (B, 1)
    longest = int(lengths.max())
    token_places = np.arange(longest)  # (T,)
    mask = token_places >= longest - lengths if left else token_places < lengths  # (B, T)
    arrays = {"attention_mask": mask.astype(np.int64)}  # (B, T)
    for name in encodings[0].inputs:
        numbers = np.array([value for encoding in encodings for value in encoding.inputs[name]])  # (N,) or (N, ...)
        padded = np.full((*mask.shape, *numbers.shape[1:]), pad_id if name == "input_ids" else 0, np.int64)  # (B, T)
        padded[mask] = numbers
        arrays[name] = padded
    inputs = on_device(arrays, device)
    return Batch(inputs, inputs["attention_mask"].bool(), encodings, indices)


def on_device(arrays: Mapping[str, npt.NDArray[np.int64]], device: torch.device) -> dict[str, Tensor]:
    """Bring arrays to a device in one transfer, which the host does not wait for."""
    flat = torch.from_numpy(np.concatenate([array.ravel() for array in arrays.values()]))
    if device.type == "cuda":
        flat = flat.pin_memory()  # without which a transfer is waited for
    parts = flat.to(device, non_blocking=True).split([array.size for array in arrays.values()])
    return {name: part.view(array.shape) for (name, array), part in zip(arrays.items(), parts, strict=True)}


# --- windows of a text beyond the model's length ---------------------------------------------------------------------


def windows(encoding: Encoding, limit: int, position: int | None = None) -> list[Indices]:
    """Cut a text longer than the limit into windows that overlap by a quarter, or into one around a position.

    Special tokens and the shorter text of a pair are in all windows, and the last one ends where the text ends.

    Args:
        encoding: The text.
        limit: How many tokens the model reads.
        position: The token in the middle of the only window; None for windows over the whole text.
    """
    content, size = text_to_cut(encoding, limit)
    if position is not None:
        tokens_before = sum(token < position for token in content)
        start = max(0, tokens_before - size // 2)  # the position is in the middle, unless it is near an end of the text
        return [_window_indices(encoding, content, min(start, len(content) - size), size)]
    step = size - size // OVERLAP
    starts = [*range(0, len(content) - size, step), len(content) - size]
    return [_window_indices(encoding, content, start, size) for start in starts]


EMPTY = Encoding({"input_ids": []}, (), (), None, (), (), "")
"""The encoding of an empty text."""


def too_long(index: int, length: int, limit: int) -> InputError:
    """Return the error for an input of which the model cannot read all tokens at once."""
    return InputError(f"input {index} has {length} tokens and the model reads {limit}; long_text='window' reads all")


def check_fits(content: str, count: int, limit: int | None, advice: str = "shorten them") -> None:
    """Refuse more tokens than a model reads, where none of them can be left out.

    Args:
        content: What the tokens are of, with its verb, such as "the prompt has".
        count: How many tokens there are.
        limit: How many the model reads; None for any number.
        advice: What to do.

    Raises:
        InputError: If there are more.
    """
    if limit is not None and count > limit:
        raise InputError(f"{content} {count} tokens and the model reads {limit}; {advice}")


class TextToCut(NamedTuple):
    """What of a long encoding is cut into windows: its text, or the longer text of a pair."""

    tokens: Indices  # its tokens, without special ones
    tokens_per_window: int  # how many of them fit into a window


def text_to_cut(encoding: Encoding, limit: int) -> TextToCut:
    """Return which tokens of an encoding are cut into windows, and how many of them fit into one.

    Args:
        encoding: A text or a pair.
        limit: How many tokens the model reads.

    Raises:
        InputError: If the rest, which is in every window, leaves no room.
    """
    tokens_of_texts: tuple[Indices, Indices] = ([], [])
    for token, (sequence, special) in enumerate(zip(encoding.sequence_ids, encoding.special, strict=True)):
        if sequence is not None and not special:
            tokens_of_texts[sequence].append(token)
    longer = max(tokens_of_texts, key=len)
    tokens_per_window = limit - (len(encoding) - len(longer))
    if tokens_per_window < 1:
        raise InputError(f"the shorter text of the pair fills the model's {limit} tokens and leaves none for windows")
    return TextToCut(longer, tokens_per_window)


def _window_indices(encoding: Encoding, content: Indices, start: int, size: int) -> Indices:
    """Return the token indices of a window: `size` of the text to cut, and all tokens that every window keeps."""
    left_out = set(content[:start]) | set(content[start + size :])
    return [token for token in range(len(encoding)) if token not in left_out]
