"""Inputs that the user has tokenised: padded token ids to encodings."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress, pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase

from ..errors import InputError
from .decoded_tokens import readable_tokens
from .encoding import Encoding, Spans
from .texts import is_column, named_columns, plain_cell, whole_number

NO_MASK = "{} padding tokens were left out, as the token ids came without an attention_mask; a mask of ones keeps them"

PADDED_BEFORE = (
    "{} padding tokens before the text were left out: the answer to the text alone is explained, and a model that "
    "counts positions from the first token, or reads its answer there, answers otherwise with them"
)

ANSWERS = frozenset(("label", "labels", "start_positions", "end_positions"))
"""What a model takes beside its inputs in training."""

Encoded = Mapping[str, Any]
"""What a tokenizer returned, such as `input_ids`, by name."""

Row = dict[str, list[Any]]
"""The inputs of one text by name, with a number for each token, or several."""


def batches_of_ids(inputs: Any) -> list[Encoded] | None:
    """Return token ids as tokenizers return them, in one mapping or several; None for anything else.

    Bare ids are of several texts, or of one in a tensor: a list of numbers could be labels.
    """
    columns = inputs if isinstance(inputs, Mapping) else named_columns(inputs)
    if columns is not None:
        return [columns] if "input_ids" in columns else None
    if isinstance(inputs, Tensor | np.ndarray):
        return [{"input_ids": inputs}] if _is_array_of_ids(inputs) else None
    if isinstance(inputs, str) or not isinstance(inputs, Sequence | DataLoader):
        return None
    items = list(inputs)
    return _batches_of_items(items) if items else None


def _batches_of_items(items: list[Any]) -> list[Encoded] | None:
    """Return several of what tokenizers return, or rows of token ids as one batch; None for anything else."""
    if all(isinstance(item, Mapping) and "input_ids" in item for item in items):
        return items
    return [{"input_ids": items}] if all(map(_is_row_of_ids, items)) else None


def _is_array_of_ids(values: Tensor | np.ndarray[Any, Any]) -> bool:
    """Return whether a tensor or an array holds a row for each text; a vector, one text's, must be a tensor."""
    if isinstance(values, Tensor) and values.ndim == 1:
        return True
    # Fractions are taken for ids, too, and refused as such: `_checked_row` says what is wrong.
    is_numeric = isinstance(values, Tensor) or values.dtype.kind in "iuf"
    return is_numeric and values.ndim == 2 and len(values) > 0


def _is_row_of_ids(row: Any) -> bool:
    """Return whether a value is a vector, or a list of whole numbers."""
    if isinstance(row, list):
        return len(row) > 0 and all(whole_number(number) is not None for number in row)
    return isinstance(row, Tensor) and row.ndim == 1


def read_token_ids(
    encoded: Encoded,
    tokenizer: PreTrainedTokenizerBase,
    vocabulary: int | None,
    model_inputs: Collection[str] | None = None,
    *,
    continued: bool = False,
) -> list[Encoding]:
    """Return one encoding for each row of a tokenizer's output, without padding and what the model does not read.

    Args:
        encoded: The tokenizer's output, with `input_ids` of one or several rows.
        tokenizer: The tokenizer.
        vocabulary: How many token ids the model has; None if that is not known.
        model_inputs: The names of the inputs that the model reads; None for all.
        continued: Whether `generate` continues them, which counts positions from the first real token.

    Raises:
        InputError: If rows do not fit each other, hold no tokens of the model, or hide a token inside a text.
    """
    if not isinstance(encoded, Mapping):
        raise InputError(f"encoded input is a mapping, what a tokenizer returns, not {type(encoded).__name__}")
    if encoded.get("input_ids") is None:
        raise InputError("encoded input needs 'input_ids'")
    rows = _rows_of_fields(encoded, model_inputs)
    backends = getattr(encoded, "encodings", None) or ()  # what a fast tokenizer knows of each row
    if len(backends) != len(rows):  # unknown, or those of other rows
        backends = [None] * len(rows)
    return [
        _RowReader(tokenizer, vocabulary, continued=continued, number=number).read(row, backend)
        for number, (row, backend) in enumerate(zip(rows, backends, strict=True))
    ]


class _RowReader(NamedTuple):
    """Reads one row of encoded input."""

    tokenizer: PreTrainedTokenizerBase
    vocabulary: int | None  # how many token ids the model has; None if that is not known
    continued: bool  # whether `generate` continues it
    number: int  # which row it is, for errors

    def read(self, row: Row, backend: Any) -> Encoding:
        """Return the encoding of a row.

        Args:
            row: Its inputs by name, with the mask if it came with one.
            backend: What a fast tokenizer knows of it; None if that is not known.
        """
        mask = row.pop("attention_mask", None)
        is_real = self._without_padding(row["input_ids"]) if mask is None else self._checked_mask(mask)
        inputs = {name: list(compress(values, is_real)) for name, values in row.items()}
        ids = inputs["input_ids"]
        if not ids:
            raise InputError(f"row {self.number} of the encoded input has no real token")
        check_ids(ids, self.vocabulary, f"row {self.number} of the encoded input")
        located = None if backend is None else _located(backend, is_real, ids)
        if backend is None or located is None:
            located = _Located(offsets=None, sequences=self._sequences(inputs))
        else:
            self._check_tokenizer(ids, compress(backend.tokens, is_real))
        has_mask = mask is not None
        # With a mask alone, models count positions from the first token of the row, padding too; `generate` does not.
        counts_padding = has_mask and not self.continued and "position_ids" not in row
        return Encoding(
            inputs=inputs,
            tokens=readable_tokens(self.tokenizer, ids),
            offsets=located.offsets,
            words=None,
            sequence_ids=located.sequences,
            special=tuple(sequence is None for sequence in located.sequences),
            notes=_padding_notes(is_real, has_mask=has_mask, counts_padding=counts_padding),
        )

    def _sequences(self, inputs: Row) -> tuple[int | None, ...]:
        """Return which of two texts each token is of by its token types; None at special tokens but the mask.

        Types of another meaning than 0 and 1 for two texts are left alone: all tokens are of one text.
        """
        ids = inputs["input_ids"]
        tokenizer = self.tokenizer
        special_ids = {index for index in tokenizer.all_special_ids if index != tokenizer.mask_token_id}
        types = inputs.get("token_type_ids", [0] * len(ids))
        ordinary_types = {
            token_type for token_id, token_type in zip(ids, types, strict=True) if token_id not in special_ids
        }
        is_pair = ordinary_types == {0, 1}
        sequences = types if is_pair else [0] * len(ids)
        return tuple(
            None if token_id in special_ids else sequence for token_id, sequence in zip(ids, sequences, strict=True)
        )

    def _check_tokenizer(self, ids: Sequence[int], tokens: Iterable[str]) -> None:
        """Refuse a row of another tokenizer, whose ids stand for other tokens in the model's vocabulary."""
        known = self.tokenizer.convert_ids_to_tokens(list(ids)) if self.tokenizer.is_fast else ()
        for token_id, token, token_of_model in zip(ids, tokens, known, strict=False):
            if token != token_of_model:
                raise InputError(
                    f"row {self.number} of the encoded input is of another tokenizer: id {token_id} is {token!r} there "
                    f"and {token_of_model!r} in the model's; pass the text, or encode it with the model's tokenizer"
                )

    def _checked_mask(self, mask: Sequence[Any]) -> list[bool]:
        """Return which tokens of a row are real by its mask, after checking that padding is only at the ends."""
        if not set(mask) <= {0, 1}:
            raise InputError("'attention_mask' must hold 1 at tokens and 0 at padding, and nothing else")
        is_real = list(map(bool, mask))
        changes = sum(before != after for before, after in pairwise([False, *is_real, False]))
        if changes > 2:  # from padding to the text, and from the text to padding
            raise InputError(
                f"the attention mask of row {self.number} has a hole: a token between others is hidden, which only "
                "padding at the ends may be; leave the token out"
            )
        return is_real

    def _without_padding(self, ids: Sequence[int]) -> list[bool]:
        """Return which token ids of a row are real where no mask says it: padding at one end is not."""
        tokenizer = self.tokenizer
        pad_id: Any = tokenizer.pad_token_id
        before, after = _leading_count(ids, pad_id), _leading_count(reversed(ids), pad_id)
        # Where padding has the id of another special token, or none, the ids do not say which of them are padding.
        if pad_id in (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.unk_token_id, tokenizer.mask_token_id):
            if pad_id is not None and max(before, after) > 1:  # a single one may begin or end the text
                raise InputError(
                    f"row {self.number} of the encoded input has {max(before, after)} tokens {tokenizer.pad_token!r} "
                    "at one end, which may be padding or end the text: pass attention_mask beside input_ids"
                )
            return [True] * len(ids)
        return [before <= index < len(ids) - after for index in range(len(ids))]


def _leading_count(ids: Iterable[int], token_id: int | None) -> int:
    """Return how many of the first ids are a certain one."""
    return len(list(takewhile(lambda value: value == token_id, ids)))


class _Located(NamedTuple):
    """Where tokens stand in their text, if that is known, and which of two texts each is of."""

    offsets: Spans | None
    sequences: tuple[int | None, ...]


def _located(backend: Any, is_real: Sequence[bool], ids: Sequence[int]) -> _Located | None:
    """Return what a fast tokenizer knows of the real tokens of a row; None if the caller has changed the row since.

    Args:
        backend: What the tokenizer returned for the row, padding included.
        is_real: Which tokens of the row are not padding.
        ids: The ids of the real tokens.
    """
    if len(backend.ids) != len(is_real) or list(compress(backend.ids, is_real)) != ids:
        return None
    offsets = tuple(compress(backend.offsets, is_real))
    words = tuple(compress(backend.word_ids, is_real))
    sequences = tuple(compress(backend.sequence_ids, is_real))
    # The characters of split words are counted from each word, and which text the words stood in is not known.
    is_split = _count_from_words(offsets, words, sequences)
    return _Located(None if is_split else offsets, sequences)


def _padding_notes(is_real: Sequence[bool], *, has_mask: bool, counts_padding: bool) -> tuple[str, ...]:
    """Return what a reader should know of the padding that was left out."""
    if not has_mask and not all(is_real):
        return (NO_MASK.format(is_real.count(False)),)
    if counts_padding and not is_real[0]:
        return (PADDED_BEFORE.format(is_real.index(True)),)
    return ()


def _count_from_words(spans: Spans, words: Sequence[int | None], sequences: Sequence[int | None]) -> bool:
    """Return whether spans count characters from the beginning of each word, as those of split words do.

    Then a word begins before the end of the word before it.

    Args:
        spans: The characters of each token.
        words: Which word each token is of; None for special tokens.
        sequences: Which of two texts each token is of; None for special tokens.
    """
    tokens = zip(sequences, words, spans, strict=True)
    for (sequence, word, (_, end)), (next_sequence, next_word, (next_start, _)) in pairwise(tokens):
        begins_word = sequence == next_sequence is not None and next_word != word
        if begins_word and next_start < end:
            return True
    return False


def _rows_of_fields(encoded: Encoded, model_inputs: Collection[str] | None) -> list[Row]:
    """Return what the model reads of each text, without what a data set has beside it, such as a label.

    Args:
        encoded: The tokenizer's output, of one text or several.
        model_inputs: The names of the inputs that the model reads; None for those of most models.
    """
    ids = _plain(encoded["input_ids"])
    is_single = not _holds_lists(ids)  # one text's, without an axis of texts
    token_counts = list(map(_size, [ids] if is_single else ids))
    rows: list[Row] = [{} for _ in token_counts]
    # The forward of a model takes labels as well.
    names = {"input_ids", "attention_mask", *(model_inputs or ("token_type_ids", "position_ids"))} - ANSWERS
    for name in filter(names.__contains__, encoded):
        if encoded[name] is None:
            continue
        cells = _plain(encoded[name])
        if is_single and not _is_list_of_a_list(cells):  # which has the axis that the ids lack
            cells = [cells]
        if _size(cells) != len(rows):
            raise InputError(f"'{name}' must hold a row for each of the {len(rows)} rows of 'input_ids'")
        for number, cell in enumerate(cells):
            rows[number][name] = _checked_row(cell, name, token_counts[number], number)
    return rows


def _plain(values: Any) -> Any:
    """Return an input as lists of numbers, whatever library holds them."""
    cells = plain_cell(values)
    return [_plain(cell) for cell in cells] if is_column(cells) else cells


def _holds_lists(values: Any) -> bool:
    """Return whether a value is a list with a list in it."""
    return isinstance(values, list) and any(isinstance(value, list) for value in values)


def _is_list_of_a_list(values: Any) -> bool:
    """Return whether a value is a list with a list in it, and nothing else."""
    return _size(values) == 1 and _holds_lists(values)


def _size(values: Any) -> int:
    """Return how many values a list holds; 0 for anything else."""
    return len(values) if isinstance(values, list) else 0


def _checked_row(row: Any, name: str, count: int, number: int) -> list[Any]:
    """Return a row of whole numbers, or of several for each token, such as a box.

    Args:
        row: The values of a text.
        name: The name of the input, for errors.
        count: How many tokens the text has.
        number: The number of the text, for errors.

    Raises:
        InputError: If there is not a value for each token.
    """
    if not isinstance(row, list) or not all(_is_whole(value, name) for value in row):
        raise InputError(f"'{name}' must hold rows of whole numbers")
    if len(row) != count or not row:
        raise InputError(f"'{name}' has {len(row)} values in row {number}, which has {count} tokens")
    return row


def _is_whole(value: Any, name: str) -> bool:
    """Return whether a token's value is a whole number; a mask may hold fractions, other inputs several numbers."""
    if name == "attention_mask":
        return isinstance(value, int | float)
    numbers = value if isinstance(value, list) and name != "input_ids" else [value]
    return all(isinstance(number, int) for number in numbers)


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
