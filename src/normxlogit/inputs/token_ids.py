"""Inputs that the user has tokenised: padded token ids to encodings."""

from collections.abc import Collection, Mapping, Sequence
from itertools import compress, pairwise
from typing import Any

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
    if isinstance(inputs, Mapping):
        return [inputs] if "input_ids" in inputs else None
    columns = named_columns(inputs)
    if columns is not None:
        return [columns] if "input_ids" in columns else None
    if isinstance(inputs, Tensor) or (isinstance(inputs, np.ndarray) and inputs.dtype.kind in "iuf"):
        has_rows = inputs.ndim == 2 and len(inputs) > 0
        is_vector = inputs.ndim == 1 and isinstance(inputs, Tensor)
        return [{"input_ids": inputs}] if has_rows or is_vector else None
    items = list(inputs) if isinstance(inputs, Sequence | DataLoader) and not isinstance(inputs, str) else []
    if items and all(isinstance(item, Mapping) and "input_ids" in item for item in items):
        return items
    return [{"input_ids": items}] if items and all(map(_is_row_of_ids, items)) else None


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
    """
    if not isinstance(encoded, Mapping):
        raise InputError(f"encoded input is a mapping, what a tokenizer returns, not {type(encoded).__name__}")
    if encoded.get("input_ids") is None:
        raise InputError("encoded input needs 'input_ids'")
    rows = _rows_of_fields(encoded, model_inputs)
    backends = getattr(encoded, "encodings", None) or ()
    backends = backends if len(backends) == len(rows) else [None] * len(rows)
    specials = {token_id for token_id in tokenizer.all_special_ids if token_id != tokenizer.mask_token_id}
    result = []
    for number, (row, backend) in enumerate(zip(rows, backends, strict=True)):
        mask = row.pop("attention_mask", None)
        is_real = _without_padding(row["input_ids"], tokenizer, number) if mask is None else _checked_mask(mask, number)
        inputs = {name: list(compress(values, is_real)) for name, values in row.items()}
        ids = inputs["input_ids"]
        if not ids:
            raise InputError(f"row {number} of the encoded input has no real token")
        check_ids(ids, vocabulary, f"row {number} of the encoded input")
        offsets, special = None, tuple(token_id in specials for token_id in ids)
        types = inputs.get("token_type_ids", [0] * len(ids))
        is_pair = {kind for kind, is_special in zip(types, special, strict=True) if not is_special} == {0, 1}
        kinds = types if is_pair else [0] * len(ids)
        sequences: tuple[int | None, ...] = tuple(None if s else kind for kind, s in zip(kinds, special, strict=True))
        # The user may have cut or joined the tokenizer's output.
        if backend is not None and len(backend.ids) == len(is_real) and list(compress(backend.ids, is_real)) == ids:
            spans, words, sequences = (
                tuple(compress(values, is_real)) for values in (backend.offsets, backend.word_ids, backend.sequence_ids)
            )
            special = tuple(sequence is None for sequence in sequences)
            offsets = None if _begin_anew(spans, words, sequences) else spans
        notes = (NO_MASK.format(len(is_real) - len(ids)),) if mask is None and len(ids) < len(is_real) else ()
        if mask is not None and not (is_real[0] or continued or "position_ids" in row):
            notes = (PADDED_BEFORE.format(is_real.index(True)),)
        result.append(Encoding(inputs, readable_tokens(tokenizer, ids), offsets, None, sequences, special, notes=notes))
    return result


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
    is_single = not (isinstance(ids, list) and any(isinstance(row, list) for row in ids))
    ids = [ids] if is_single else ids
    rows: list[Row] = [{} for _ in ids]
    names = {"input_ids", "attention_mask", *(model_inputs or ("token_type_ids", "position_ids"))} - ANSWERS
    for name in (name for name, values in encoded.items() if name in names and values is not None):
        cells = _plain(encoded[name])
        if is_single and not (isinstance(cells, list) and len(cells) == 1 and isinstance(cells[0], list)):
            cells = [cells]
        if not isinstance(cells, list) or len(cells) != len(rows):
            raise InputError(f"'{name}' must hold a row for each of the {len(rows)} rows of 'input_ids'")
        for number, (row, cell) in enumerate(zip(rows, cells, strict=True)):
            row[name] = _checked_row(cell, name, len(ids[number]) if isinstance(ids[number], list) else 0, number)
    return rows


def _plain(values: Any) -> Any:
    """Return an input as lists of numbers, whatever library holds them."""
    cells = plain_cell(values)
    return [_plain(cell) for cell in cells] if is_column(cells) else cells


def _checked_row(row: Any, name: str, count: int, number: int) -> list[Any]:
    """Return a row of whole numbers, or of several for each token, such as a box; `count` is that of the tokens."""
    groups = [value if isinstance(value, list) and name != "input_ids" else [value] for value in row or ()]
    kinds: Any = int | float if name == "attention_mask" else int
    if not isinstance(row, list) or not all(isinstance(value, kinds) for group in groups for value in group):
        raise InputError(f"'{name}' must hold rows of whole numbers")
    if len(row) != count or not row:
        raise InputError(f"'{name}' has {len(row)} values in row {number}, which has {count} tokens")
    return row


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
