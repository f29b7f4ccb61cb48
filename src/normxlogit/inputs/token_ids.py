"""Inputs that the user has tokenised: padded token ids to encodings."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress, pairwise
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase

from ..errors import InputError
from .encoding import Encoding, Spans, check_ids, readable_tokens
from .texts import is_column, named_columns, plain_cell, whole_number

NO_MASK = "{} padding tokens were left out, as the token ids came without an attention_mask; a mask of ones keeps them"

PADDED_BEFORE = (
    "{} padding tokens before the text were left out: the answer to the text alone is explained, and a model that "
    "counts positions from the first token, or reads its answer there, answers otherwise with them"
)

ANSWERS = frozenset(("label", "labels", "start_positions", "end_positions"))
"""What a model takes beside its inputs in training."""

Row = dict[str, list[Any]]
"""The inputs of one text by name, with a number for each token, or several."""


def batches_of_ids(inputs: Any) -> list[Mapping[str, Any]] | None:
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
    if not items:
        return None
    if all(isinstance(item, Mapping) and "input_ids" in item for item in items):
        return items
    return [{"input_ids": items}] if all(map(_is_row_of_ids, items)) else None


def _is_array_of_ids(values: Tensor | np.ndarray[Any, Any]) -> bool:
    """Return whether a tensor or an array holds a row for each text; a vector, one text's, must be a tensor."""
    if isinstance(values, Tensor) and values.ndim == 1:
        return True
    is_numeric = isinstance(values, Tensor) or values.dtype.kind in "iuf"
    return is_numeric and values.ndim == 2 and len(values) > 0


def _is_row_of_ids(row: Any) -> bool:
    """Return whether a value is a vector, or a list of whole numbers."""
    if isinstance(row, list):
        return len(row) > 0 and all(whole_number(number) is not None for number in row)
    return isinstance(row, Tensor) and row.ndim == 1


def read_token_ids(
    encoded: Mapping[str, Any],
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
    backends = getattr(encoded, "encodings", None) or ()
    if len(backends) != len(rows):
        backends = [None] * len(rows)
    encodings = []
    for number, (row, backend) in enumerate(zip(rows, backends, strict=True)):
        mask = row.pop("attention_mask", None)
        is_real = _without_padding(row["input_ids"], tokenizer, number) if mask is None else _checked_mask(mask, number)
        inputs = {name: list(compress(values, is_real)) for name, values in row.items()}
        ids = inputs["input_ids"]
        if not ids:
            raise InputError(f"row {number} of the encoded input has no real token")
        check_ids(ids, vocabulary, f"row {number} of the encoded input")
        located = _located(backend, is_real, ids)
        if backend is not None and located is not None:
            _check_tokenizer(tokenizer, ids, compress(backend.tokens, is_real), number)
        offsets, sequences = located or (None, _sequences(inputs, tokenizer))
        special = tuple(sequence is None for sequence in sequences)
        counts_padding = mask is not None and not continued and "position_ids" not in row
        notes = _padding_notes(is_real, has_mask=mask is not None, counts_padding=counts_padding)
        tokens = readable_tokens(tokenizer, ids)
        encodings.append(Encoding(inputs, tokens, offsets, None, sequences, special, notes=notes))
    return encodings


class _Located(NamedTuple):
    """Where tokens stand in their text, if that is known, and which of two texts each is of."""

    offsets: Spans | None
    sequences: tuple[int | None, ...]


def _located(backend: Any, is_real: Sequence[bool], ids: Sequence[int]) -> _Located | None:
    """Return what a fast tokenizer knows of the real tokens of a row; None if the row is not as it returned it."""
    if backend is None or len(backend.ids) != len(is_real):  # cut or joined since
        return None
    if list(compress(backend.ids, is_real)) != ids:
        return None
    offsets, words, sequences = (
        tuple(compress(values, is_real)) for values in (backend.offsets, backend.word_ids, backend.sequence_ids)
    )
    return _Located(None if _begin_anew(offsets, words, sequences) else offsets, sequences)


def _sequences(inputs: Row, tokenizer: PreTrainedTokenizerBase) -> tuple[int | None, ...]:
    """Return which of two texts each token is of by its token types; None at special tokens but the mask."""
    ids = inputs["input_ids"]
    special_ids = {index for index in tokenizer.all_special_ids if index != tokenizer.mask_token_id}
    types = inputs.get("token_type_ids", [0] * len(ids))
    types_of_text = {kind for token_id, kind in zip(ids, types, strict=True) if token_id not in special_ids}
    if types_of_text != {0, 1}:  # one text
        types = [0] * len(ids)
    return tuple(None if token_id in special_ids else kind for token_id, kind in zip(ids, types, strict=True))


def _padding_notes(is_real: Sequence[bool], *, has_mask: bool, counts_padding: bool) -> tuple[str, ...]:
    """Return what a reader should know of the padding that was left out."""
    if not has_mask and not all(is_real):
        return (NO_MASK.format(is_real.count(False)),)
    if counts_padding and not is_real[0]:
        return (PADDED_BEFORE.format(is_real.index(True)),)
    return ()


def _check_tokenizer(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], tokens: Iterable[str], number: int
) -> None:
    """Refuse a row of another tokenizer, whose ids stand for other tokens in the model's vocabulary."""
    known = tokenizer.convert_ids_to_tokens(list(ids)) if tokenizer.is_fast else ()
    for token_id, token, token_of_model in zip(ids, tokens, known, strict=False):
        if token != token_of_model:
            raise InputError(
                f"row {number} of the encoded input is of another tokenizer: id {token_id} is {token!r} there and "
                f"{token_of_model!r} in the model's; pass the text, or encode it with the model's tokenizer"
            )


def _begin_anew(spans: Spans, words: Sequence[int | None], sequences: Sequence[int | None]) -> bool:
    """Return whether spans count the characters in each word, as of words that were split before."""
    tokens = zip(sequences, words, spans, strict=True)
    return any(
        sequence == last_sequence is not None and word != last_word and start < last_end
        for (last_sequence, last_word, (_, last_end)), (sequence, word, (start, _)) in pairwise(tokens)
    )


def _rows_of_fields(encoded: Mapping[str, Any], model_inputs: Collection[str] | None) -> list[Row]:
    """Return what the model reads of each text, without what a data set has beside it, such as a label."""
    ids = _plain(encoded["input_ids"])
    is_single = not _holds_lists(ids)
    counts = [_size(row) for row in ([ids] if is_single else ids)]
    rows: list[Row] = [{} for _ in counts]
    names = {"input_ids", "attention_mask", *(model_inputs or ("token_type_ids", "position_ids"))} - ANSWERS
    for name, values in encoded.items():
        if name not in names or values is None:
            continue
        cells = _plain(values)
        if is_single and not (_size(cells) == 1 and _holds_lists(cells)):
            cells = [cells]
        if not isinstance(cells, list) or len(cells) != len(rows):
            raise InputError(f"'{name}' must hold a row for each of the {len(rows)} rows of 'input_ids'")
        for number, (row, cell, count) in enumerate(zip(rows, cells, counts, strict=True)):
            row[name] = _checked_row(cell, name, count, number)
    return rows


def _plain(values: Any) -> Any:
    """Return an input as lists of numbers, whatever library holds them."""
    cells = plain_cell(values)
    return [_plain(cell) for cell in cells] if is_column(cells) else cells


def _holds_lists(values: Any) -> bool:
    """Return whether a value is a list with a list in it."""
    return isinstance(values, list) and any(isinstance(value, list) for value in values)


def _size(values: Any) -> int:
    """Return how many values a list holds; 0 for anything else."""
    return len(values) if isinstance(values, list) else 0


def _checked_row(row: Any, name: str, count: int, number: int) -> list[Any]:
    """Return a row of whole numbers, or of several for each token, such as a box; `count` is that of the tokens."""
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


def _checked_mask(mask: Sequence[Any], number: int) -> list[bool]:
    """Return which tokens of a row are real by its mask, after checking that padding is only at the ends."""
    if not set(mask) <= {0, 1}:
        raise InputError("'attention_mask' must hold 1 at tokens and 0 at padding, and nothing else")
    is_real = list(map(bool, mask))
    if sum(before != after for before, after in pairwise([False, *is_real, False])) > 2:
        raise InputError(
            f"the attention mask of row {number} has a hole: a token between others is hidden, which only padding at "
            "the ends may be; leave the token out"
        )
    return is_real


def _without_padding(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase, number: int) -> list[bool]:
    """Return which token ids of a row are real where no mask says it: padding at one end is not."""
    pad_id = tokenizer.pad_token_id
    before = next((index for index, value in enumerate(ids) if value != pad_id), len(ids))
    after = next((index for index, value in enumerate(reversed(ids)) if value != pad_id), len(ids))
    if pad_id in (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.unk_token_id, tokenizer.mask_token_id):
        if pad_id is not None and max(before, after) > 1:  # one of them may be a token of the text
            raise InputError(
                f"row {number} of the encoded input has {max(before, after)} tokens {tokenizer.pad_token!r} at one "
                "end, which may be padding or end the text: pass attention_mask beside input_ids"
            )
        return [True] * len(ids)
    return [before <= index < len(ids) - after for index in range(len(ids))]
