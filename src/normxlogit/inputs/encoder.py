"""Texts to encodings, without changing the user's tokenizer."""

import copy
import warnings
from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, NamedTuple

from tokenizers import Tokenizer
from torch import Tensor
from transformers import BatchEncoding, PretrainedConfig, PreTrainedTokenizerBase

from ..errors import InputError
from ..text.characters import moved
from .alignment import aligned_offsets, spans_of_words
from .decoded_tokens import readable_tokens
from .encoding import Encoding, Spans, doubled_special_tokens
from .texts import SplitText, Text, collected, pair_of, positive_integer, read_texts
from .token_ids import Encoded, batches_of_ids, check_ids, read_token_ids
from .windows import too_long

LongText = Literal["truncate", "window", "error"]
"""What to do with a text beyond the model's length."""

TRUNCATED = (
    "texts longer than the model reads were truncated; notes and to_pandas(level='text') say which. long_text='window' "
    "reads them whole, and long_text='truncate' truncates them without this warning"
)

MAX_UNKNOWN_SHARE = 0.5
"""The note on a text asks for another tokenizer where a larger share of the tokens is unknown."""

MIN_UNKNOWN = 3
"""With fewer unknown tokens and some known ones it does not: they may be rare words."""

UNLIMITED = 1_000_000
"""Tokenizers without a limit report an astronomically large one."""

COMPONENTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
"""The parts of a tokenizer's backend beside its vocabulary."""


@dataclass(eq=False)
class Encoder:
    """Turns texts into encodings with the user's tokenizer, which is not changed.

    Attributes:
        model_limit: How many tokens the model reads, None if it sets no bound; the tokenizer may declare fewer.
        vocabulary: How many token ids it knows, None if that is not known.
        names: The inputs that it reads, None if that is not known.
    """

    tokenizer: PreTrainedTokenizerBase
    config: PretrainedConfig
    model_limit: int | None
    vocabulary: int | None = None
    names: Collection[str] | None = None
    _: KW_ONLY
    add_special_tokens: bool = True
    _readable: dict[int, str] = field(default_factory=dict, init=False, repr=False)  # tokens by id

    @property
    def limit(self) -> int | None:
        """Return the most tokens that are read: the smaller limit of the model's and the tokenizer's."""
        limits = self.model_limit, getattr(self.tokenizer, "model_max_length", None)
        return min((int(limit) for limit in limits if limit is not None and limit < UNLIMITED), default=None)

    def __call__(
        self,
        texts: Any,
        *,
        long_text: LongText | None = "truncate",
        max_length: Any = None,
        special: bool | None = None,
    ) -> list[Encoding]:
        """Encode texts or pairs.

        Args:
            texts: The texts or pairs, in any form that `read_texts` reads.
            long_text: As in a call; "window" encodes a text whole, and None truncates and warns.
            max_length: The most tokens of an encoding; None for what the model reads.
            special: Whether the tokenizer adds special tokens: False for texts that a chat template has written, with
                all that they get; None for what the caller has set.
        """
        return self._encode(read_texts(texts)[0], long_text, max_length, special)

    def encode_input(self, inputs: Any, *, long_text: LongText | None = "truncate") -> tuple[list[Encoding], bool]:
        """Encode what `__call__` takes, a tokenizer's output or encodings; also return whether it was a single one."""
        encoded = None if isinstance(inputs, str) else self.read_encoded(inputs)
        if encoded is not None:
            return encoded
        texts, single = read_texts(inputs)
        return self._encode(texts, long_text), single

    def read_encoded(self, inputs: Any, *, continued: bool = False) -> tuple[list[Encoding], bool] | None:
        """Return what was tokenised before as `encode_input` does, None for anything else.

        Args:
            inputs: Encodings, or token ids in any form that `batches_of_ids` reads.
            continued: Whether `generate` continues the ids. It does not count padding before them as positions, so that
                they have no note that their answer may be another with it.
        """
        if isinstance(inputs, Encoding):
            return self._checked_together([inputs]), True
        if isinstance(inputs, Sequence) and inputs and all(isinstance(item, Encoding) for item in inputs):
            return self._checked_together(inputs), False
        inputs = collected(inputs)
        if (batches := batches_of_ids(inputs)) is None:
            return None
        encodings = [encoding for batch in batches for encoding in self.from_batch(batch, continued=continued)]
        # A vector is one text; a tokenizer's output counts as several, also of one row.
        return self._checked_together(encodings), isinstance(inputs, Tensor) and inputs.ndim == 1

    def _checked_together(self, encodings: Sequence[Encoding]) -> list[Encoding]:
        """Return encodings that were made earlier, if they fit this model and each other."""
        for index, encoding in enumerate(encodings):
            check_ids(encoding.ids, self.vocabulary, f"input {index}")
            if encoding.inputs.keys() != encodings[0].inputs.keys():
                raise InputError(f"inputs 0 and {index} are encoded for different models; encode all by this explainer")
        return list(encodings)

    def from_batch(self, encoded: Encoded, *, continued: bool = False) -> list[Encoding]:
        """Return the encodings of inputs that are already token ids; padding on either side is removed."""
        encodings = read_token_ids(encoded, self.tokenizer, self.vocabulary, self.names, continued=continued)
        return [self._with_unknown_note(encoding) for encoding in encodings]

    def opening(self, text: str, *, special: bool) -> Encoding:
        """Encode a prompt, which may be empty, without the special tokens at its end, with a note of them.

        Args:
            text: The prompt.
            special: Whether the tokenizer adds special tokens; not to a text that a chat template has written.
        """
        if not isinstance(text, str):
            raise InputError(f"a prompt is a string or a list of messages, not {type(text).__name__}")
        if text.strip():
            read_texts(text)  # for its checks; an empty prompt, which it refuses, can be continued
        text = str(text)  # a plain text, also of split words: a completion follows the text, not its words
        encoding = self._encoding_of_row(self._tokenize([text], special and self.add_special_tokens), 0, text)
        check_ids(encoding.ids, self.vocabulary, "the prompt")
        ordinary_tokens = [index for index, is_special in enumerate(encoding.special) if not is_special]
        last_token = max(ordinary_tokens, default=0)  # of an empty prompt the first special token stays
        opening = encoding.take(range(last_token + 1)).with_written_special_tokens()
        if ends := encoding.tokens[last_token + 1 :]:
            note = f"the tokenizer puts {', '.join(ends)} at the end of a text: left out, because a prompt goes on"
            opening = replace(opening, notes=(*opening.notes, note))
        return self._with_unknown_note(opening)

    def target_ids(self, text: str) -> list[int]:
        """Return the token ids of a target text of an encoder-decoder model, special tokens included."""
        options = {"verbose": False, "return_special_tokens_mask": True}
        # A copy is called: `text_target` sets the language of a tokenizer for translation.
        encoded = private_tokenizer(self.tokenizer)(text_target=text, **options)
        ids = encoded["input_ids"]
        doubled = doubled_special_tokens(ids, list(map(bool, encoded["special_tokens_mask"])))
        return [int(token_id) for position, token_id in enumerate(ids) if position not in doubled]

    def _encode(
        self, texts: list[Text], long_text: LongText | None, max_length: int | None = None, special: bool | None = None
    ) -> list[Encoding]:
        """Encode texts and pairs, checked and truncated to the model's length."""
        if max_length is not None:
            max_length = positive_integer(max_length, "max_length")
        encodings: dict[int, Encoding] = {}
        # One call for all texts of a kind: tokenizers work in parallel inside a call.
        for kind in set(map(_kind, texts)):
            indices = [index for index, text in enumerate(texts) if _kind(text) == kind]  # of its texts among all
            encoded = self._tokenize([texts[index] for index in indices], special)
            for row, index in enumerate(indices):
                encoding = self._encoding_of_row(encoded, row, texts[index], index).with_written_special_tokens()
                self._check_encoding(encoding, index)
                encodings[index] = self._with_unknown_note(self._cut_to_limit(encoding, index, long_text, max_length))
        return [encodings[index] for index in range(len(texts))]

    def _tokenize(self, texts: Sequence[Text], special: bool | None = None) -> BatchEncoding:
        """Return the tokenizer's output for texts, without truncation, which follows later."""
        first_texts, second_texts = zip(*map(pair_of, texts), strict=True)
        are_pairs = None not in second_texts
        return private_tokenizer(self.tokenizer)(
            list(map(_words_or_text, first_texts)),
            list(map(_words_or_text, second_texts)) if are_pairs else None,
            # All texts of a call are of one kind, see `_encode`.
            is_split_into_words=_kind(texts[0]).is_split,
            add_special_tokens=self.add_special_tokens if special is None else special,
            return_special_tokens_mask=not self.tokenizer.is_fast,  # the backend of a fast one says it
            truncation=False,
            padding=False,
            verbose=False,
        )

    def _encoding_of_row(self, encoded: BatchEncoding, row: int, text: Text, index: int | None = None) -> Encoding:
        """Return the encoding of one row of a tokenizer's output.

        Args:
            encoded: The output, for several texts.
            row: Which of them.
            text: The text or the pair.
            index: Its index among the caller's inputs, for errors; None for a prompt.
        """
        ids = list(encoded["input_ids"][row])
        if not ids:
            raise InputError(f"{'the text' if index is None else f'input {index}'} is empty after tokenisation")
        locate_tokens = self._located_by_backend if self.tokenizer.is_fast else self._located_by_counting
        located = locate_tokens(encoded, row, text)
        not_read = ("special_tokens_mask", "attention_mask")  # a batch has a mask of its own
        first, second = pair_of(text)
        return Encoding(
            inputs={
                name: list(rows[row]) for name, rows in encoded.items() if name not in not_read and self._reads(name)
            },
            tokens=readable_tokens(self.tokenizer, ids, self._readable),
            offsets=located.offsets,
            words=located.words,
            sequence_ids=located.sequences,
            special=located.special,
            text=str(first),
            text_pair=None if second is None else str(second),
        )

    def _located_by_backend(self, encoded: BatchEncoding, row: int, text: Text) -> "_LocatedTokens":
        """Return where the tokens of a row stand, as a fast tokenizer knows it."""
        backend = encoded.encodings[row]  # type: ignore[index]
        sequences, offsets = tuple(backend.sequence_ids), tuple(backend.offsets)
        # A special token that was typed into the text, such as a mask, has a sequence, and counts as a word.
        special = tuple([sequence is None for sequence in sequences])
        words = spans_of_words(text, sequences, backend.word_ids)
        if words is not None:  # of split words, the backend counts characters from the beginning of each word
            offsets = tuple(moved(span, start) for span, (start, _) in zip(offsets, words, strict=True))
        return _LocatedTokens(sequences=sequences, special=special, offsets=offsets, words=words)

    def _located_by_counting(self, encoded: BatchEncoding, row: int, text: Text) -> "_LocatedTokens":
        """Return where the tokens of a slow tokenizer stand, by counting and decoding them."""
        special = tuple(bool(is_special) for is_special in encoded["special_tokens_mask"][row])
        sequences, word_indices = self._count_tokens(special, text)
        words = spans_of_words(text, sequences, word_indices)
        offsets = aligned_offsets(self.tokenizer, encoded["input_ids"][row], text, sequences, words)
        return _LocatedTokens(sequences=sequences, special=special, offsets=offsets, words=words)

    def _reads(self, name: str) -> bool:
        """Return whether the model takes an input of the tokenizer: DistilBERT takes no types of tokens."""
        return self.names is None or name == "input_ids" or name in self.names

    def _count_tokens(self, special: Sequence[bool], text: Text) -> tuple[tuple[int | None, ...], list[int | None]]:
        """Return which text, and which of its words, each token of a slow tokenizer is of; None at special tokens.

        Each word is tokenised alone, and the text's tokens are dealt out to the words by these numbers of tokens. What
        is left over, where words alone give fewer tokens than the text, is of the last word.

        Args:
            special: Which tokens the tokenizer added.
            text: The text or the pair; a text without split words is one word.
        """
        words_of_tokens: list[tuple[int, int]] = []  # of each ordinary token: which text, and which of its words
        last_word = 0, 0
        for sequence, part in enumerate(part for part in pair_of(text) if part is not None):
            words = part.words if isinstance(part, SplitText) else (part,)
            for word_index, word in enumerate(words):
                last_word = sequence, word_index
                words_of_tokens += [last_word] * len(self.tokenizer.tokenize(word))
        remaining = iter(words_of_tokens)
        word_of_each = [(None, None) if is_special else next(remaining, last_word) for is_special in special]
        return tuple(sequence for sequence, _ in word_of_each), [word_index for _, word_index in word_of_each]

    def _check_encoding(self, encoding: Encoding, index: int) -> None:
        """Refuse an encoding without ordinary tokens, with invalid ids, or of a pair for a model of single texts."""
        if all(encoding.special):
            raise InputError(f"input {index} is empty after tokenisation; there is no token to explain")
        check_ids(encoding.ids, self.vocabulary, f"input {index}")
        if encoding.text_pair is None:
            return
        # Token types tell the two texts of a pair apart: a model with one type has none for the second text.
        type_count = getattr(self.config, "type_vocab_size", None)
        if type_count and max(encoding.inputs.get("token_type_ids", [0])) >= type_count:
            raise InputError("the model reads single texts, and a pair was given; pass one string")

    def _cut_to_limit(
        self, encoding: Encoding, index: int, long_text: LongText | None, max_length: int | None
    ) -> Encoding:
        """Return an encoding truncated to the limit, with a note if it was."""
        length = len(encoding)
        limit = min(self.limit or length, max_length or length)  # where there is none, all tokens fit
        if length <= limit or long_text == "window":
            return encoding
        if long_text == "error":
            raise too_long(index, length, limit)
        if long_text is None:
            warnings.warn(TRUNCATED, stacklevel=1)  # one line for all calls, so that Python shows it once
        keep_end = getattr(self.tokenizer, "truncation_side", "right") == "left"
        note = f"the text has {length} tokens; only the {'last' if keep_end else 'first'} {limit} were read"
        indices = _tokens_that_fit(encoding, limit, keep_end=keep_end)
        if indices is None:
            raise InputError(f"input {index}: {limit} tokens do not hold a text and its special tokens")
        return replace(encoding.take(indices), notes=(*encoding.notes, note))

    def _with_unknown_note(self, encoding: Encoding) -> Encoding:
        """Return an encoding, with a note if something in its text is unknown to the tokenizer."""
        unknown: Any = self.tokenizer.unk_token_id
        # Also where the tokenizer has no such token: None is no id.
        if unknown not in encoding.ids:
            return encoding
        text_ids = [token_id for token_id, special in zip(encoding.ids, encoding.special, strict=True) if not special]
        count, size = text_ids.count(unknown), len(text_ids)
        if not count:
            return encoding
        verb = "is" if count == 1 else "are"
        unknown_token = self.tokenizer.unk_token
        note = f"{count} of {size} tokens {verb} unknown to the tokenizer: the model reads {unknown_token} there"
        if count == size or (count >= MIN_UNKNOWN and count > MAX_UNKNOWN_SHARE * size):
            note += "; is it the tokenizer of this model, and the text in its language?"
        return replace(encoding, notes=(*encoding.notes, note))


class _LocatedTokens(NamedTuple):
    """Where the tokens of a text or a pair stand; `Encoding` says what each field holds."""

    sequences: tuple[int | None, ...]
    special: tuple[bool, ...]
    offsets: Spans | None
    words: Spans | None


class _Kind(NamedTuple):
    """What a tokenizer is told of texts that it reads in one call."""

    is_pair: bool
    is_split: bool


def _kind(text: Text) -> _Kind:
    """Return whether a text is a pair, and whether its words are split."""
    first, _ = pair_of(text)
    return _Kind(is_pair=isinstance(text, tuple), is_split=isinstance(first, SplitText))


def _words_or_text(text: str) -> str | list[str]:
    """Return a text as a tokenizer takes it: as a list of words where the caller has split it."""
    return list(text.words) if isinstance(text, SplitText) else text


def private_tokenizer(tokenizer: Any) -> Any:
    """Return a copy of the user's tokenizer that shares the vocabulary, but no setting, such as truncation and padding.

    A fast tokenizer keeps these in its backend, and every call sets them there: the user's own would be overwritten,
    also in what `save_pretrained` writes, and a thread that uses it meanwhile would get other tokens. Slow tokenizers
    keep nothing of a call, and are returned as they are.
    """
    backend = getattr(tokenizer, "_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        return tokenizer
    private = copy.copy(tokenizer)
    private._tokenizer = _copy_backend(backend)
    return private


def _copy_backend(backend: Tokenizer) -> Tokenizer:
    """Return a new backend around the components of another."""
    private = Tokenizer(backend.model)
    for name in COMPONENTS:
        if (component := getattr(backend, name)) is not None:
            setattr(private, name, component)
    private.encode_special_tokens = backend.encode_special_tokens
    added_tokens = backend.get_added_tokens_decoder()
    private.add_tokens([added_tokens[index] for index in sorted(added_tokens)])
    if private.get_added_tokens_decoder() != added_tokens:
        raise InputError(
            "the tokenizer numbers its added tokens in a way that it loses when it is saved: its vocabulary was "
            "replaced after they were added; build it again, with the tokens added last"
        )
    return private


def _tokens_that_fit(encoding: Encoding, limit: int, *, keep_end: bool) -> list[int] | None:
    """Return which tokens of a long text or pair fit, as the tokenizer itself would cut it; None if none does.

    Special tokens stay. Of a pair the longer text is cut, and both to half of what fits if both are longer than that.
    Beside a single text, the second one has no tokens.

    Args:
        encoding: The text or the pair.
        limit: How many tokens fit, special ones included.
        keep_end: Whether the ends of the texts are kept, and not their beginnings.
    """
    shorter, longer = sorted(encoding.tokens_of_texts(), key=len)
    special_count = len(encoding) - len(shorter) - len(longer)
    room = limit - special_count
    if room < 1:
        return None
    # The longer text gets the odd token, and what the shorter one does not need.
    kept_of_shorter = min(len(shorter), room // 2)
    cut: set[int] = set()
    for tokens, kept_count in ((shorter, kept_of_shorter), (longer, room - kept_of_shorter)):
        cut_count = max(0, len(tokens) - kept_count)
        cut.update(tokens[:cut_count] if keep_end else tokens[len(tokens) - cut_count :])
    return [index for index in range(len(encoding)) if index not in cut]
