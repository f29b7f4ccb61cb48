"""Texts to token ids and back: one `Encoding` for each text."""

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Literal, get_args

import torch
from transformers import BatchEncoding, PretrainedConfig, PreTrainedTokenizerBase

from ..errors import InputError

__all__ = ["Encoder", "Encoding"]

LongText = Literal["truncate", "window", "error"]
"""What to do with a text beyond the model's length."""
Text = str | tuple[str, str]

_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_UNLIMITED = 1_000_000
"""Tokenizers without a limit report an astronomically large one."""


@dataclass(frozen=True)
class Encoding:
    """One text as the model reads it; every list has one entry for each of its T tokens.

    Attributes:
        inputs: The model's inputs that run along the tokens, such as `input_ids` and `token_type_ids`.
        tokens: Readable strings.
        offsets: Character spans, None if the tokenizer cannot tell.
        word_ids: Word index within the sequence, None for special tokens.
        sequence_ids: 0, 1 or None for special tokens.
        special: True for tokens that the tokenizer added.
        text: The original text, None if the input came encoded.
        text_pair: The second text of a pair.
        notes: What was done to the text.
        position: Index of the token whose prediction the caller wants explained, None for the task's default.
    """

    inputs: Mapping[str, list[int]]
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...] | None
    word_ids: tuple[int | None, ...] | None
    sequence_ids: tuple[int | None, ...]
    special: tuple[bool, ...]
    text: str | None = None
    text_pair: str | None = None
    notes: tuple[str, ...] = ()
    position: int | None = None

    @property
    def ids(self) -> list[int]:
        """The token ids."""
        return self.inputs["input_ids"]

    def describe_targets(self) -> dict[str, Any]:
        """What a result says of its text and tokens, by the names of an `Attribution`'s fields."""
        return {
            "tokens": self.tokens,
            "token_ids": tuple(self.ids),
            "offsets": self.offsets,
            "word_ids": self.word_ids,
            "sequence_ids": self.sequence_ids,
            "special_tokens_mask": self.special,
            "text": self.text,
            "text_pair": self.text_pair,
            "notes": self.notes,
        }

    def opening(self, count: int) -> "Encoding":
        """The first `count` tokens, as a text that goes on."""
        return replace(
            self,
            inputs={name: values[:count] for name, values in self.inputs.items()},
            tokens=self.tokens[:count],
            offsets=self.offsets and self.offsets[:count],
            word_ids=self.word_ids and self.word_ids[:count],
            sequence_ids=self.sequence_ids[:count],
            special=self.special[:count],
        )

    def __len__(self) -> int:
        return len(self.tokens)


class Encoder:
    """Turns texts into encodings with the user's tokenizer, which is left as it was."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig, limit: int | None) -> None:
        self.tokenizer = tokenizer
        self.config = config
        self.limit = limit
        self._lock = threading.Lock()  # fast tokenizers refuse two borrowers when truncation is switched

    def __call__(
        self, texts: Sequence[Text], *, long_text: LongText = "truncate", max_length: int | None = None
    ) -> list[Encoding]:
        """Encode texts or pairs.

        Args:
            texts: Strings, or tuples of two strings.
            long_text: What to do beyond the model's length: "truncate" explains the first window and notes it,
                "window" encodes it whole, to be read in windows, "error" raises.
            max_length: Read at most this many tokens, if fewer than the model reads.

        Raises:
            InputError: If a text is empty, no string, too long, or a pair for a model of single texts.
        """
        if long_text not in get_args(LongText):
            raise InputError(f"long_text must be 'truncate', 'window' or 'error', not {long_text!r}")
        for place, text in enumerate(texts):
            _check(text, place)
        encodings: list[Encoding | None] = [None] * len(texts)
        with self._lock:
            # One call for all single texts and one for all pairs: tokenizers work in parallel inside a call.
            for wanted in (False, True):
                places = [i for i, text in enumerate(texts) if isinstance(text, tuple) == wanted]
                for place, encoding in zip(
                    places, self._encode([texts[i] for i in places], long_text, max_length), strict=True
                ):
                    encodings[place] = encoding
        return [e for e in encodings if e is not None]

    def opening(self, text: str, *, special: bool) -> Encoding:
        """Encode the beginning of a text that goes on: without the special tokens that would end it.

        Args:
            text: May be empty where the tokenizer puts a token before every text.
            special: Whether the tokenizer adds its special tokens; a chat template has written them already.

        Raises:
            InputError: If there is no token, or the text is no string.
        """
        if not isinstance(text, str):
            raise InputError(f"a prompt is a string or a list of messages, not {type(text).__name__}")
        with self._lock:
            found = self._row(self._tokenize([text], special=special), 0, text)
        count = len(found)
        while count > 1 and found.special[count - 1]:
            count -= 1
        return found.opening(count if not all(found.special) else 1)

    def _encode(self, texts: list[Text], long_text: LongText, max_length: int | None) -> list[Encoding]:
        if not texts:
            return []
        found = self._tokenize(texts)
        lengths = [len(ids) for ids in found["input_ids"]]
        limit = min(self.limit or max(lengths), max_length or max(lengths))
        encodings = []
        for row, (text, length) in enumerate(zip(texts, lengths, strict=True)):
            if length <= limit or long_text == "window":
                encodings.append(self._row(found, row, text))
                continue
            if long_text == "error":
                raise InputError(
                    f"the text has {length} tokens and the model reads {limit}; shorten it, or allow "
                    "long_text='window' to read it in windows, or 'truncate' for the first one"
                )
            note = f"the text has {length} tokens; only the first {limit} were read"
            encodings.append(self._row(self._tokenize([text], limit), 0, text, (note,)))
        self._check_pairs(encodings)
        return encodings

    def _tokenize(self, texts: list[Text], limit: int | None = None, *, special: bool = True) -> BatchEncoding:
        first = [t[0] if isinstance(t, tuple) else t for t in texts]
        second = [t[1] for t in texts if isinstance(t, tuple)] or None
        found: BatchEncoding = self.tokenizer(
            first,
            second,
            add_special_tokens=special,
            truncation=limit is not None,
            max_length=limit,
            padding=False,
            return_special_tokens_mask=True,
            return_offsets_mapping=self.tokenizer.is_fast,
            verbose=False,
        )
        return found

    def _row(self, found: BatchEncoding, row: int, text: Text, notes: tuple[str, ...] = ()) -> Encoding:
        ids = list(found["input_ids"][row])
        if not ids:
            raise InputError("the text is empty after tokenisation")
        special = tuple(bool(s) for s in found["special_tokens_mask"][row])
        first, second = text if isinstance(text, tuple) else (text, None)
        extra = ("special_tokens_mask", "offset_mapping", "attention_mask")
        inputs = {name: list(rows[row]) for name, rows in found.items() if name not in extra}
        offsets, words, sequences = None, None, tuple(None if s else 0 for s in special)
        if self.tokenizer.is_fast:
            backend = found.encodings[row]  # type: ignore[index]
            offsets = tuple(backend.offsets)
            sequences = tuple(backend.sequence_ids)
            # A mask typed into the text is special to the tokenizer and a word to the reader.
            special = tuple(s is None for s in sequences)
            words = _word_ids(backend.word_ids, offsets, sequences, (first, second or ""))
        tokens = readable_tokens(self.tokenizer, ids)
        return Encoding(inputs, tokens, offsets, words, sequences, special, first, second, notes)

    def _check_pairs(self, encodings: Iterable[Encoding]) -> None:
        kinds = getattr(self.config, "type_vocab_size", None)
        if not kinds:
            return
        for encoding in encodings:
            if encoding.text_pair is not None and max(encoding.inputs.get("token_type_ids", [0])) >= kinds:
                raise InputError("the model reads single texts, and a pair was given; pass one string")

    def from_batch(self, encoded: Mapping[str, Any]) -> list[Encoding]:
        """Encodings of inputs that are already token ids; padding on either side is taken off.

        Args:
            encoded: A tokenizer's output: `input_ids` (B, T) and, if padded, `attention_mask`.

        Raises:
            InputError: If there are no token ids or a row is all padding.
        """
        if "input_ids" not in encoded:
            raise InputError("encoded input needs 'input_ids'")
        ids = torch.as_tensor(encoded["input_ids"])
        if ids.ndim == 1:
            ids = ids[None]
        mask = encoded.get("attention_mask")
        keeps = torch.ones_like(ids) if mask is None else torch.as_tensor(mask).reshape(ids.shape)
        backends = getattr(encoded, "encodings", None)
        specials = set() if backends else set(self.tokenizer.all_special_ids) - {self.tokenizer.mask_token_id}
        names = [name for name in ("input_ids", "token_type_ids", "position_ids") if name in encoded]
        fields = {name: torch.as_tensor(encoded[name]).reshape(ids.shape).tolist() for name in names}  # (B, T)
        result = []
        for row, keep in enumerate(keeps.tolist()):
            if not any(keep):
                raise InputError(f"row {row} of the encoded input has no real token")
            inputs = {name: list(compress(values[row], keep)) for name, values in fields.items()}
            kept = inputs["input_ids"]
            offsets = words = None
            special = tuple(i in specials for i in kept)
            sequences: tuple[int | None, ...] = tuple(None if s else 0 for s in special)
            if backends:
                backend = backends[row]
                offsets = tuple(compress(backend.offsets, keep))
                words = tuple(compress(backend.word_ids, keep))
                sequences = tuple(compress(backend.sequence_ids, keep))
                special = tuple(s is None for s in sequences)
            result.append(Encoding(inputs, readable_tokens(self.tokenizer, kept), offsets, words, sequences, special))
        return result


def position_limit(tokenizer: PreTrainedTokenizerBase | None, model: torch.nn.Module) -> int | None:
    """How many tokens the model reads, None if it sets no bound."""
    limits = []
    declared = getattr(tokenizer, "model_max_length", None)
    if declared is not None and declared < _UNLIMITED:
        limits.append(int(declared))
    for name, module in model.named_modules():
        # A learned position table ends where it ends; RoBERTa's begins after its padding row.
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            offset = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - offset)
        elif name.split(".")[-1] == "wpe" and isinstance(module, torch.nn.Embedding):
            limits.append(module.num_embeddings)
    return min(limits) if limits else None


def readable_tokens(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[str, ...]:
    """Tokens as a reader knows them: byte-level and SentencePiece markers become the characters they stand for."""
    raw = tokenizer.convert_ids_to_tokens(list(ids))
    if None not in raw and "".join(raw).isascii():
        return tuple(raw)
    readable = []
    for piece in raw:
        if piece is None:
            readable.append("")
        elif piece.isascii():
            readable.append(piece)
        else:
            text = tokenizer.convert_tokens_to_string([piece])
            readable.append(" " + text if piece[0] == "▁" and not text.startswith(" ") else text or piece)
    return tuple(readable)


def _check(text: object, place: int) -> None:
    parts = text if isinstance(text, tuple) else (text,)
    if len(parts) not in (1, 2) or not all(isinstance(part, str) for part in parts):
        raise InputError(f"input {place} must be a string or a pair of strings, not {type(text).__name__}")
    if not any(part.strip() for part in parts):
        raise InputError(f"input {place} is empty; there is no token to explain")


def _word_ids(
    native: Sequence[int | None],
    offsets: Sequence[tuple[int, int]],
    sequences: Sequence[int | None],
    texts: tuple[str, str],
) -> tuple[int | None, ...]:
    """Word index of each token: the tokenizer's, or by the text where the tokenizer takes it for a single word."""
    found = tuple(None if s is None else w for w, s in zip(native, sequences, strict=True))
    if len(set(found) - {None}) > 1:
        return found
    spans = [[m.span() for m in _WORD.finditer(text)] for text in texts]
    words: list[int | None] = []
    for (start, end), sequence in zip(offsets, sequences, strict=True):
        if sequence is None:
            words.append(None)
            continue
        hits = [i for i, (a, b) in enumerate(spans[sequence]) if a < end and b > start]
        words.append(hits[0] if hits else None)
    return tuple(words)
