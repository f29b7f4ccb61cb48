"""Inputs that the user has tokenised: padded token ids to encodings."""

import operator
from collections.abc import Collection, Mapping, Sequence
from itertools import compress, pairwise
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import BatchEncoding, PreTrainedTokenizerBase

from ..errors import InputError
from .alignment import with_decoded_words
from .encoding import Encoding, readable_tokens
from .texts import Text, named_columns, plain_cell, read_texts

IGNORED_FIELDS = (
    "attention_mask",
    "special_tokens_mask",
    "offset_mapping",
    "overflow_to_sample_mapping",
    "num_truncated_tokens",
    "length",
    "label",
    "labels",
)
"""Fields of a tokenizer or a data set that do not affect the model's output."""

NO_MASK = "{} padding tokens were left out, as the token ids came without an attention_mask; a mask of ones keeps them"

_OF_NO_TOKEN = tuple(name for name in IGNORED_FIELDS if name != "attention_mask")


def read_token_ids(
    encoded: Mapping[str, Any],
    tokenizer: PreTrainedTokenizerBase,
    vocabulary: int | None,
    model_inputs: Collection[str] | None = None,
    first_row: int = 0,
) -> list[Encoding]:
    """Return one encoding for each row, without its padding.

    Args:
        encoded: A tokenizer's output: `input_ids` (B, T), (T,) or a list of rows, and, if padded, `attention_mask`.
        tokenizer: Knows the special tokens and how tokens read.
        vocabulary: How many token ids the model knows, None if that is not known.
        model_inputs: The inputs that the model reads, None if that is not known.
        first_row: The number of the first row, for errors.
    """
    if not isinstance(encoded, Mapping):
        raise InputError(f"encoded input is a mapping, what a tokenizer returns, not {type(encoded).__name__}")
    if encoded.get("input_ids") is None:
        raise InputError("encoded input needs 'input_ids'")
    encoded = _without_other_fields(encoded, model_inputs)
    if (rows := _separate_rows(encoded)) is not None:
        return [
            encoding
            for number, row in enumerate(rows)
            for encoding in read_token_ids(row, tokenizer, vocabulary, model_inputs, number)
        ]
    names = [name for name, values in encoded.items() if values is not None and name not in IGNORED_FIELDS]
    unknown_names = [name for name in names if model_inputs is not None and name not in model_inputs]
    if unknown_names:
        raise InputError(f"the encoded input holds {unknown_names[0]!r}, which the model does not read; leave it out")
    fields, mask = _fields_of_tokens(encoded, names), encoded.get("attention_mask")
    shape = fields["input_ids"].shape
    if mask is None:
        real_mask = _without_padding(fields["input_ids"], tokenizer, first_row)  # (B, T)
    else:
        real_mask = _rows_of_numbers(mask, "attention_mask")  # (B, T)
        _check_shape(real_mask, "attention_mask", shape)
    backends = getattr(encoded, "encodings", None)
    if backends and [len(backend.ids) for backend in backends] != [shape[1]] * len(real_mask):
        backends = None  # the user has cut or joined the tokenizer's output
    specials = {token_id for token_id in tokenizer.all_special_ids if token_id != tokenizer.mask_token_id}
    result = []
    for row, is_real in enumerate(_real_tokens(real_mask, first_row)):
        inputs = {name: list(compress(values[row].tolist(), is_real)) for name, values in fields.items()}
        ids = inputs["input_ids"]
        check_ids(ids, vocabulary, f"row {first_row + row} of the encoded input")
        offsets, words = None, tuple[int | None, ...]()
        special = tuple(token_id in specials for token_id in ids)
        sequences: tuple[int | None, ...] = tuple(None if is_special else 0 for is_special in special)
        types = inputs.get("token_type_ids", [])
        if {token_type for token_type, is_special in zip(types, special, strict=False) if not is_special} == {
            0,
            1,
        }:  # they tell a pair's texts apart
            sequences = tuple(
                None if is_special else token_type for token_type, is_special in zip(types, special, strict=True)
            )
        if backends and list(compress(backends[row].ids, is_real)) == ids:
            backend = backends[row]
            offsets = tuple(compress(backend.offsets, is_real))
            words = tuple(compress(backend.word_ids, is_real))
            sequences = tuple(compress(backend.sequence_ids, is_real))
            special = tuple(is_special is None for is_special in sequences)
        notes = (NO_MASK.format(len(is_real) - len(ids)),) if mask is None and len(ids) < len(is_real) else ()
        encoding = Encoding(inputs, readable_tokens(tokenizer, ids), offsets, None, sequences, special, notes=notes)
        result.append(with_decoded_words(tokenizer, encoding, words) if _was_split(encoding, words) else encoding)
    return result


def _was_split(encoding: Encoding, words: Sequence[int | None]) -> bool:
    """Return whether words were split before they were tokenised: offsets begin anew in each word."""
    tokens = zip(encoding.sequence_ids, words, encoding.offsets or (), strict=False)
    return any(
        sequence == last_sequence is not None and word != last_word and start < last_end
        for (last_sequence, last_word, (_, last_end)), (sequence, word, (start, _)) in pairwise(tokens)
    )


def _fields_of_tokens(encoded: Mapping[str, Any], names: Sequence[str]) -> dict[str, Tensor]:
    """Return the fields of a tokenizer's output, (B, T), or of several numbers for each token, such as a box."""
    fields = {name: _rows_of_numbers(encoded[name], name) for name in names}
    shape = fields["input_ids"].shape
    if _length(next(iter(encoded["input_ids"]))) is None:  # of one text, without the axis of texts
        fields = {name: values[None] if len(values) == shape[1] > 1 else values for name, values in fields.items()}
    for name, values in fields.items():
        _check_shape(values, name, shape)
    return fields


def _check_shape(values: Tensor, name: str, shape: torch.Size) -> None:
    """Refuse values that are not of the tokens, (B, T)."""
    if values.shape[:2] != shape or values.ndim > (2 if name == "attention_mask" else 3):
        raise InputError(f"'{name}' is of shape {tuple(values.shape)} and 'input_ids' of {tuple(shape)}")


def _without_padding(ids: Tensor, tokenizer: PreTrainedTokenizerBase, first_row: int) -> Tensor:
    """Return which token ids are real, (B, T), where no mask says it: padding at one end of a row is not.

    Args:
        ids: The token ids, (B, T).
        tokenizer: Knows the id of padding.
        first_row: The number of the first row, for errors.

    Raises:
        InputError: If a row may be padded by a token that also ends a text.
    """
    real, pad_id = torch.ones_like(ids, dtype=torch.long), tokenizer.pad_token_id  # (B, T)
    if pad_id is None:
        return real
    meanings = (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.unk_token_id, tokenizer.mask_token_id)
    for row, values in enumerate(ids.tolist()):
        before = next((place for place, value in enumerate(values) if value != pad_id), len(values))
        after = next((place for place, value in enumerate(reversed(values)) if value != pad_id), len(values))
        if pad_id in meanings:  # one of them may be a token of the text
            if max(before, after) > 1:
                raise InputError(
                    f"row {first_row + row} of the encoded input has {max(before, after)} tokens "
                    f"{tokenizer.pad_token!r} at one end, which may be padding or end the text: pass attention_mask "
                    "beside input_ids"
                )
            continue
        real[row, :before] = 0
        real[row, len(values) - after :] = 0
    return real


def _without_other_fields(encoded: Mapping[str, Any], model_inputs: Collection[str] | None) -> Mapping[str, Any]:
    """Return a tokenizer's output without what a data set has beside it, such as a text or the number of a row."""
    ids = encoded["input_ids"]
    others = [
        name
        for name, value in encoded.items()
        if name not in (*IGNORED_FIELDS, "input_ids", *(model_inputs or ())) and not _runs_along(value, ids)
    ]
    if not others:
        return encoded
    kept = {name: value for name, value in encoded.items() if name not in others}
    return BatchEncoding(kept, getattr(encoded, "encodings", None))


def _runs_along(values: Any, ids: Any) -> bool:
    """Return whether values are numbers in rows like token ids: an input that the model may need."""
    while (length := _length(ids)) is not None:
        if _length(values) != length:
            return False
        if not length:
            return True
        values, ids = next(iter(values)), next(iter(ids))
    return _length(values) is None and not isinstance(values, str | bytes)


def _length(value: Any) -> int | None:
    """Return how many cells a list, a column, an array or a tensor has; None for a number or a text."""
    is_cell = isinstance(value, str | bytes) or getattr(value, "ndim", 1) == 0 or not hasattr(value, "__len__")
    return None if is_cell else len(value)


def texts_of_fields(encoded: Mapping[str, Any]) -> list[Text]:
    """Return the texts that a data set has beside token ids; none where it is not known which they are."""
    try:
        return read_texts({name: values for name, values in encoded.items() if name not in IGNORED_FIELDS})[0]
    except InputError:
        return []


def _separate_rows(encoded: Mapping[str, Any]) -> list[BatchEncoding] | None:
    """Return each row of a tokenizer's output by itself, where they are of several lengths or not numbers yet."""
    rows = encoded["input_ids"]
    if not isinstance(rows, list | tuple) or not all(map(_is_row, rows)):
        return None
    if len(set(map(len, rows))) < 2 and not any(isinstance(row, Tensor) for row in rows):
        return None
    fields = {name: values for name, values in encoded.items() if values is not None and name not in _OF_NO_TOKEN}
    for name, values in fields.items():
        if not isinstance(values, list | tuple) or len(values) != len(rows):
            raise InputError(f"'{name}' must hold a row for each of the {len(rows)} rows of 'input_ids'")
    backends = getattr(encoded, "encodings", None)
    backends = backends if backends and len(backends) == len(rows) else [None] * len(rows)
    return [
        BatchEncoding({name: [plain_cell(values[row])] for name, values in fields.items()}, backend)
        for row, backend in enumerate(backends)
    ]


def _is_row(row: Any) -> bool:
    """Return whether a value is a list, or a vector."""
    return isinstance(row, list | tuple) or (isinstance(row, Tensor | np.ndarray) and row.ndim == 1)


def table_of_ids(inputs: Any) -> Mapping[str, Any] | None:
    """Return a frame, a table or a data set of token ids as a tokenizer's output; None for others."""
    if isinstance(inputs, Mapping):
        return None
    columns = named_columns(inputs)
    if columns is None or "input_ids" not in columns:
        return None
    return {name: [plain_cell(value) for value in column] for name, column in columns.items()}


def rows_of_ids(inputs: Any) -> list[Any] | None:
    """Return bare token ids of one text or several as rows, which may differ in length.

    A list of numbers and a row of them in an array could be labels: they are not taken for token ids.

    Args:
        inputs: The user's inputs.

    Returns:
        Rows of token ids: only `inputs` where it is a single one; None if it is something else.
    """
    if isinstance(inputs, Tensor) and inputs.ndim == 1:
        return [inputs]
    if isinstance(inputs, Tensor) or (isinstance(inputs, np.ndarray) and inputs.dtype.kind in "iuf"):
        return list(inputs) if inputs.ndim == 2 and len(inputs) else None
    if not isinstance(inputs, Sequence) or isinstance(inputs, str) or not len(inputs):
        return None
    return list(inputs) if all(map(_is_row_of_ids, inputs)) else None


def _is_row_of_ids(row: Any) -> bool:
    """Return whether a value is a vector, or a list of whole numbers."""
    if isinstance(row, list):
        return len(row) > 0 and all(isinstance(number, Integral) and not isinstance(number, bool) for number in row)
    return isinstance(row, Tensor) and row.ndim == 1


def is_list_of_encoded(inputs: Any) -> bool:
    """Return whether a list holds tokenizer outputs: a text or a batch in each item."""
    is_filled = isinstance(inputs, list | tuple) and len(inputs) > 0
    return is_filled and all(isinstance(item, Mapping) and "input_ids" in item for item in inputs)


def check_ids(ids: Sequence[int], vocabulary: int | None, described_source: str) -> None:
    """Raise if the model has no embedding for a token id.

    Args:
        ids: The token ids.
        vocabulary: How many ids the model knows, None if that is not known.
        described_source: A description of their source, for the message.
    """
    if min(ids, default=0) < 0 or (vocabulary is not None and max(ids, default=0) >= vocabulary):
        unknown_id = next(
            token_id for token_id in ids if token_id < 0 or (vocabulary is not None and token_id >= vocabulary)
        )
        known_ids = "from 0 up" if vocabulary is None else f"0 to {vocabulary - 1}"
        raise InputError(
            f"{described_source} holds token id {unknown_id} and the model knows {known_ids}; is this the model's "
            "tokenizer?"
        )


def _rows_of_numbers(value: Any, name: str) -> Tensor:
    """Return rows of whole numbers as a tensor, (B, T)."""
    values = value
    if not isinstance(values, Tensor):
        try:
            values = torch.as_tensor(values)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise InputError(f"'{name}' must hold rows of whole numbers") from None
    if values.layout is not torch.strided or values.device.type == "meta":
        raise InputError(f"'{name}' must hold rows of whole numbers, and is a tensor without them (sparse, or meta)")
    if values.ndim == 1:
        values = values[None]
    if values.ndim > 2 and name != "input_ids" and values.is_floating_point():
        raise InputError(
            f"'{name}' of shape {tuple(values.shape)} is not of tokens: pass pictures in messages, as "
            "generate([{'role': 'user', 'content': [{'type': 'image', 'image': picture}, ...]}])"
        )
    if values.ndim < 2 or (values.ndim > 2 and name == "input_ids") or not values.numel():
        raise InputError(f"'{name}' must be of shape (texts, tokens) with one token or more, not {tuple(values.shape)}")
    not_ids = values.is_floating_point() or values.is_complex() or (values.dtype == torch.bool and name == "input_ids")
    if not_ids and name != "attention_mask":
        raise InputError(f"'{name}' must hold whole numbers, not {str(values.dtype).removeprefix('torch.')}")
    tensor: Tensor = values
    return tensor


def _real_tokens(mask: Tensor, first_row: int) -> list[list[bool]]:
    """Return which tokens of each row are real by its mask, after checking that padding is only at the ends."""
    rows: list[list[bool]] = mask.bool().tolist()
    if not bool(((mask == 0) | (mask == 1)).all()):
        raise InputError("'attention_mask' must hold 1 at tokens and 0 at padding, and nothing else")
    for row, is_real in enumerate(rows, first_row):
        if not any(is_real):
            raise InputError(f"row {row} of the encoded input has no real token")
        first, last = is_real.index(True), len(is_real) - operator.indexOf(reversed(is_real), True)
        if not all(is_real[first:last]):
            hole = is_real.index(False, first)
            raise InputError(
                f"the attention mask of row {row} has a hole at token {hole}: a token between others is hidden, which "
                "only padding at the ends may be; leave the token out"
            )
    return rows
