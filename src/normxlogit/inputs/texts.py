"""Containers of texts: one or several in any container, checked one by one."""

import math
import operator
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import accumulate, chain, count
from pathlib import Path
from typing import Any

from ..errors import DataError, InputError

Text = str | tuple[str, str]
"""A text, or a pair of them."""

Question = tuple[str, Sequence[str]]
"""A prompt and the choices that may follow it."""

Columns = Mapping[Any, Any]
"""The columns of a table by name, or the cells of a row."""

PAIRS = (("text", "text_pair"), ("question", "context"))
"""Names of two columns that are a pair: those of transformers' pipelines and of SQuAD."""

WORDS = "tokens"
"""The name of a column of lists of words in data sets for tagging."""


class SplitText(str):
    """A text whose words the caller has split: they are joined by spaces, and tokenised one by one."""

    words: tuple[str, ...]

    def __new__(cls, words: Iterable[str]) -> "SplitText":
        """Join words."""
        word_list = tuple(words)
        text = super().__new__(cls, " ".join(word_list))
        text.words = word_list
        return text

    def __getnewargs__(self) -> tuple[Any, ...]:  # for copies and pickles
        return (self.words,)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first character of each word, and one past its last."""
        starts = accumulate((len(word) + 1 for word in self.words), initial=0)  # a space follows each word
        # There is one start more than words, behind the last one.
        return [(start, start + len(word)) for word, start in zip(self.words, starts, strict=False)]


def pair_of(text: Text) -> tuple[str, str | None]:
    """Return a text with the second text of a pair."""
    return text if isinstance(text, tuple) else (text, None)


def read_texts(inputs: Any) -> tuple[list[Text], bool]:
    """Return one or several texts or pairs as a list, and whether it was a single one.

    Of a table or a row the texts are the only column of texts, one called "text", a pair of `PAIRS`, or the lists of
    words in a column called "tokens".
    """
    inputs = arrow_value(text_column(inputs))
    # Bytes are one input, too, so that they are refused whole, and not number by number.
    if isinstance(inputs, str | tuple | bytes):
        return [_checked_text(inputs, "the input")], True
    _check_container(inputs)
    return [_checked_text(item, f"input {index}") for index, item in enumerate(inputs)], False


def split_texts(inputs: Any) -> Any:
    """Return the words of one text, of a pair (a tuple of two) or of several texts as texts for `read_texts`."""
    split = _split(inputs)
    if split is None:
        raise InputError(
            "is_split_into_words=True reads the words of a text in a list, of two texts in a tuple of two lists, or "
            f"several of these in a list, not {_type_in_words(inputs)}"
        )
    return split


def _split(value: Any) -> Any:
    """Return words as a text, two lists of words in a tuple as a pair, several of these as a list; None for others."""
    value = collected(value)
    columns = named_columns(value)
    if columns is not None:
        return _split_column(columns)
    cells = plain_cell(value)
    if not is_column(cells):
        return None
    is_tuple = isinstance(cells, tuple)
    cells = list(cells)
    if all(isinstance(cell, str) for cell in cells):
        return SplitText(map(str, cells))
    texts = [_split(cell) for cell in cells]
    if not all(isinstance(text, SplitText | tuple) for text in texts):  # a tuple is a pair
        return None
    is_pair = is_tuple and len(texts) == 2
    return tuple(texts) if is_pair else texts


def _split_column(columns: Columns) -> Any:
    """Return the words of the column that is called "tokens", or of the only one that holds words; otherwise None."""
    split_columns = {name: _split(column) for name, column in columns.items()}
    word_columns = {name: split for name, split in split_columns.items() if split is not None}
    if word_columns.get(WORDS):
        return word_columns[WORDS]
    return next(iter(word_columns.values())) if len(word_columns) == 1 else None


def plain_cell(value: Any) -> Any:
    """Return a cell of a column as Python's own list or value, whatever library holds it."""
    value = arrow_value(value)
    # numpy, pandas, torch and arrays of Arrow have the first, Polars the second.
    for name in ("tolist", "to_list"):
        if hasattr(value, name):
            return getattr(value, name)()
    return value


def is_table(values: Any) -> bool:
    """Return whether a value has columns with names: a frame, a table or a data set; a mapping is not one."""
    if is_lazy(values):
        return True
    has_columns = hasattr(values, "column_names") or hasattr(values, "columns")
    return has_columns and not isinstance(values, Mapping)


def named_columns(values: Any) -> dict[Any, Any] | None:
    """Return the columns of a frame, a table, a data set or a mapping by name; None for others.

    Raises:
        InputError: If several splits of a data set are given.
    """
    names = _column_names(values)
    if names is None:
        return None
    if _has_transform(values) and len(values):  # its columns, asked for one by one, are those before the transform
        rows = list(values)
        return {name: [row[name] for row in rows] for name in rows[0]}
    columns = {name: values[name] for name in names}
    if any(hasattr(column, "column_names") for column in columns.values()):
        raise InputError(f"a data set with the splits {', '.join(map(str, columns))} was given; pass one of them")
    return columns


def _column_names(values: Any) -> Any:
    """Return the names of the columns of a frame, a table, a data set or a mapping; None for others."""
    if isinstance(values, Mapping):
        return list(values)
    return getattr(values, "column_names", None) or getattr(values, "columns", None)


def _has_transform(values: Any) -> bool:
    """Return whether a data set has a transform, which makes its columns where a row is read."""
    row_format = getattr(values, "format", None)
    return isinstance(row_format, Mapping) and row_format.get("type") == "custom"


def positive_integer(number: Any, name: str) -> int:
    """Return a positive whole number that a caller gave, of any integer type, as an int."""
    count = whole_number(number)
    if count is None or count < 1:
        raise InputError(f"{name} must be a positive whole number, not {number!r}")
    return count


def whole_number(value: Any) -> int | None:
    """Return a number of any integer type as an int; None for anything else, also for booleans."""
    if type(value).__name__ in ("bool", "bool_"):  # of numpy too, which older versions take for a number
        return None
    try:
        return operator.index(value)
    except (TypeError, RuntimeError, ValueError):  # such as tensors of several elements, of floats, or without data
        return None


def checked_whole_number(value: Any) -> int:
    """Return a number of any integer type as an int.

    Raises:
        TypeError: If it is anything else, also a boolean or a fraction.
    """
    if (number := whole_number(value)) is None:
        raise TypeError(f"expected a whole number, got {value!r}")
    return number


def text_column(inputs: Any) -> Any:
    """Return the only column of texts of a table or a mapping; anything else unchanged.

    Raises:
        InputError: If no column holds texts, or several do of which none is called "text" and no two are a pair.
    """
    inputs = collected(inputs)
    columns = named_columns(inputs)
    if columns is None:
        shape: Any = getattr(inputs, "shape", ())
        is_single_column = len(shape) == 2 and shape[1] == 1  # of an array
        return inputs.reshape(-1) if is_single_column else inputs
    words = _column_of_words(inputs, columns)
    if words is not None:
        return words
    texts = {name: column for name, column in columns.items() if _is_text(column) or begins_with_text(column)}
    chosen = _chosen_texts(texts)
    if chosen is None:
        raise _no_text_column(type(inputs).__name__, columns, texts)
    return chosen


def _column_of_words(inputs: Any, columns: Columns) -> Any:
    """Return the words of texts in a table's column "tokens", or of the text in a row's; None without such words."""
    if WORDS not in columns or "text" in columns:
        return None
    split = _split(columns[WORDS])
    is_row = isinstance(inputs, Mapping)
    # A table whose cells are texts is read as one text of split words, which it is not.
    return split if is_row or isinstance(split, list) else None


def _chosen_texts(texts: Columns) -> Any:
    """Return the texts of the only column, of two that are a pair, or of "text"; None where another may be meant."""
    if len(texts) == 1:
        return next(iter(texts.values()))
    for first, second in PAIRS:
        if first in texts and second in texts:
            pair = texts[first], texts[second]
            return pair if _is_text(pair[0]) else list(zip(*pair, strict=True))
    return texts.get("text")


def _no_text_column(type_name: str, columns: Columns, texts: Columns) -> InputError:
    """Return the error for a table whose texts are not one column: none, or several of which one is to be chosen."""
    problem = f"a {type_name} with the columns {', '.join(map(repr, columns)) or 'none'} was given"
    if not texts:
        return InputError(f"{problem}, and none of texts; pass a string, a pair (tuple of two), or a list of them")
    first, second = (f"data[{name!r}]" for name in list(texts)[:2])
    is_row = _is_text(next(iter(texts.values())))
    pairs = f"({first}, {second})" if is_row else f"list(zip({first}, {second}))"
    return InputError(f"{problem}, several of texts; pass one of them, as {first}, or pairs, as {pairs}")


def repeatable(inputs: Any) -> Any:
    """Return an iterator as a list; anything else, also an open file, unchanged."""
    return list(inputs) if isinstance(inputs, Iterator) and not hasattr(inputs, "read") else inputs


def collected(inputs: Any) -> Any:
    """Return a lazy frame with its rows computed, the only split of a data set, a row as a mapping; others unchanged.

    A row is a named tuple, or a series of pandas whose names are those of columns.
    """
    if is_lazy(inputs):
        return inputs.collect()
    if isinstance(inputs, Mapping):
        return _only_split(inputs)
    if hasattr(inputs, "_asdict"):
        return inputs._asdict()
    return inputs.to_dict() if _is_row_of_pandas(inputs) else inputs


def _only_split(inputs: Columns) -> Any:
    """Return the only split of a data set; other mappings unchanged."""
    if len(inputs) != 1:
        return inputs
    (split,) = inputs.values()
    # What a data set of `datasets` has, and a column of a row does not.
    is_data_set = hasattr(split, "info") and hasattr(split, "column_names")
    return split if is_data_set else inputs


def _is_row_of_pandas(values: Any) -> bool:
    """Return whether a series of pandas is a row of a frame: its index has names, and it is not a column of texts."""
    if getattr(values, "ndim", 0) != 1 or not hasattr(values, "to_dict"):
        return False
    names = list(getattr(values, "index", ()))
    if not all(isinstance(name, str) for name in names):
        return False
    return "text" in names or not all(_is_text(value) or is_missing(value) for value in values)


def is_column(value: Any) -> bool:
    """Return whether a value is a list, an array or another collection of cells, and not one cell."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def is_lazy(frame: Any) -> bool:
    """Return whether a value is a lazy frame."""
    return hasattr(frame, "collect_schema") and hasattr(frame, "collect") and not hasattr(frame, "shape")


def begins_with_text(column: Any) -> bool:
    """Return whether the first non-missing value of a column, of any library, is a text."""
    # A tuple is a pair of texts in one cell; an array without axes is a single value.
    if isinstance(column, Mapping | tuple) or not isinstance(column, Iterable) or getattr(column, "ndim", 1) == 0:
        return False
    values = (arrow_value(value) for value in column)
    return _is_text(next((value for value in values if not is_missing(value)), None))


def is_missing(value: Any) -> bool:
    """Return whether a value is a missing text: None, NaN or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and math.isnan(value))


def _is_text(value: Any) -> bool:
    """Return whether a value is a text."""
    return isinstance(arrow_value(value), str)


def arrow_value(value: Any) -> Any:
    """Return the value of an Arrow scalar; anything else unchanged."""
    return value.as_py() if hasattr(value, "as_py") else value


def _check_container(inputs: Any) -> None:
    """Refuse values that are not an ordered collection of texts."""
    type_name = type(inputs).__name__
    if getattr(inputs, "ndim", 1) > 1:
        raise InputError(f"a {type_name} with several columns was given; pass one column, or a list of pairs (tuples)")
    if isinstance(inputs, Set):
        raise InputError(f"a {type_name} has no order, so the results could not be told apart; pass a list")
    if isinstance(inputs, Mapping) or not isinstance(inputs, Iterable):
        raise InputError(
            f"cannot read texts from a {type_name}; pass a string, a pair (tuple of two) or a list of them"
        )


def _checked_text(item: Any, name: str) -> Text:
    """Return an item as a text or a pair of texts.

    Args:
        item: What the caller gave.
        name: What errors call it.

    Raises:
        InputError: If it is something else, is empty, or holds half a character.
    """
    # An item may be a row of a data set.
    item = arrow_value(text_column(item))
    is_pair = isinstance(item, tuple)
    parts = list(map(_plain_text, item if is_pair else [item]))
    expected_count = 2 if is_pair else 1
    if len(parts) != expected_count or not all(isinstance(part, str) for part in parts):
        raise InputError(
            f"{name} must be a string or a pair (tuple of two strings), not {_type_in_words(item)}{_advice_on(item)}"
        )
    characters = "".join(parts)
    try:
        characters.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} holds half a character (a lone surrogate): it was decoded wrongly") from None
    if not characters.strip():
        raise InputError(f"{name} is empty; there is no token to explain")
    return (parts[0], parts[1]) if is_pair else parts[0]


def _plain_text(value: Any) -> Any:
    """Return a text of Arrow or numpy as Python's own, or as split words; anything else unchanged."""
    value = arrow_value(value)
    return str(value) if isinstance(value, str) and not isinstance(value, SplitText) else value


def _advice_on(item: Any) -> str:
    """Return what to do with an item that is no text: a missing value, or token ids."""
    if is_missing(item):
        return " (a missing value): leave such rows out, as in texts.dropna()"
    first_value = item[0] if isinstance(item, list) and item else item
    is_token_id = type(first_value) is int
    return "; token ids are passed as {'input_ids': ids}" if is_token_id else ""


def _type_in_words(item: Any) -> str:
    """Return a description of an item's type, for errors."""
    if isinstance(item, tuple):
        types = ", ".join(type(part).__name__ for part in item)
        return f"a tuple of {types}" if len(item) == 2 else f"a tuple of {len(item)}; several texts are a list"
    hint = " (a pair is a tuple, and is_split_into_words=True reads lists of words)"
    return type(item).__name__ + (hint if is_column(item) else "")


def with_distinct_names(media: Iterable[Any]) -> list[Any]:
    """Return pictures and sounds whose names tell them apart."""
    media = list(media)
    names = numbered(medium.name for medium in media)
    return [replace(medium, name=name) for medium, name in zip(media, names, strict=True)]


def numbered(names: Iterable[str]) -> list[str]:
    """Return names, with a number where the name stood before: "page.png (2)"."""
    unique: dict[str, None] = {}
    for name in names:
        candidates = chain([name], (f"{name} ({number})" for number in count(2)))
        first_unused = next(candidate for candidate in candidates if candidate not in unique)
        unique[first_unused] = None
    return list(unique)


UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""The byte order marks of UTF-16."""


def encoding_of(start: bytes) -> str:
    """Return the encoding of a text by its first bytes: UTF-16, which has a mark, or UTF-8 with a mark or without."""
    return "utf-16" if start.startswith(UTF16) else "utf-8-sig"


def decoded(content: bytes, name: str) -> str:
    """Return bytes of UTF-8, or of UTF-16 with its mark, as text with line feeds; no other is guessed."""
    try:
        text = content.decode(encoding_of(content))
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text") from None
    if "\0" in text:  # such as UTF-16 without its mark
        raise DataError(f"{name} is not UTF-8 text")
    return text.replace("\r\n", "\n")


def is_existing_path(text: str) -> bool:
    """Return whether a text is the path of something that exists."""
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # longer than a name can be, or with a zero byte
        return False


def is_file_name(text: str) -> bool:
    """Return whether a text is the name of an existing file alone."""
    return len(text.split()) == 1 and is_existing_path(text) and Path(text).is_file()


def visible_files(folder: Path, suffixes: Container[str]) -> list[Path]:
    """Return the files of some suffixes in a folder and its subfolders, without hidden files and folders."""
    return sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in suffixes
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
