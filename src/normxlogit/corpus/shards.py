"""Rows of any source as shards: as many rows each, with the same columns, whatever they were read from."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import DataError
from ..results.columns import CORPUS_SOURCES, CORPUS_TEXTS
from ..results.schema import Index
from .formats import ODD, PROBLEM, Block, arrow_module, check_columns, text_column
from .reading import Source

__all__ = ["KEPT", "Done", "InputColumns", "Shard", "choose_columns", "left_shards", "read_shards"]

KEPT = "kept "
"""What the names of kept columns begin with in a shard, whose own columns may be called the same."""


@dataclass(frozen=True)
class InputColumns:
    """Which columns of the input are what.

    Attributes:
        text: The texts.
        pair: Their second texts.
        completion: What follows each text, where they are prompts.
        id: What the rows are called; by default their numbers.
        target: What is explained in each row.
        keep: Columns that are handed on to the results.
        prompts: Whether the texts are prompts: strings, or lists of chat messages.
    """

    text: str
    pair: str | None = None
    id: str | None = None
    target: str | None = None
    keep: tuple[str, ...] = ()
    completion: str | None = None
    prompts: bool = False

    @property
    def all(self) -> list[str]:
        """Return every column that is read, once."""
        named = [self.text, self.pair, self.completion, self.id, self.target, *self.keep]
        return list(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True)
class Done:
    """A shard that is written.

    Attributes:
        shard: Its number.
        first: The number of its first row.
        rows: How many rows it was made of.
        errors: How many of them have no result.
        tokens: Tokens explained.
        digest: Of the rows that it was made of.
    """

    shard: Index
    first: Index
    rows: Index
    errors: Index
    tokens: Index
    digest: str


@dataclass(frozen=True)
class Shard:
    """Some rows in a row.

    Attributes:
        index: Its number.
        first: The number of its first row.
        table: `row`, `id`, `text`, and of the input `text_pair`, `completion`, `target` and, behind `KEPT`, kept
            columns; of prompts `messages`, true where the text is JSON of chat messages; `problem` says why a row
            cannot be read.
        digest: Of everything that results depend on.
        fraction: Share of the input read with it.
    """

    index: int
    first: int
    table: Any
    digest: str
    fraction: float


def choose_columns(source: Source, columns: InputColumns) -> InputColumns:
    """Check the columns against the input, and find the texts where no column was named.

    Raises:
        DataError: If a column is not there, or a kept one would be taken for one of the results.
    """
    names = source.names()
    found = columns
    if not columns.text:
        default = "prompt" if columns.prompts and names != ["text"] else "text"
        if names and default not in names:
            what = f"{default}s"
            raise DataError(f"which column holds the {what}? give --text-column, one of {', '.join(names)}")
        found = replace(columns, text=default)
    for name in found.all:
        if names and name not in names:
            or_written = "; max_new_tokens lets the model write the completions" if name == found.completion else ""
            raise DataError(f"no column {name!r} in the input; there are {', '.join(names)}{or_written}")
    if names:
        check_columns(names, found.all)
    for name in found.keep:
        if name in (CORPUS_SOURCES if columns.prompts else CORPUS_TEXTS):
            raise DataError(f"column {name!r} cannot be kept: the results have one of that name; rename it")
    return found


def read_shards(source: Source, columns: InputColumns, size: int) -> Iterator[Shard]:
    """Read a source shard by shard.

    Args:
        source: Where to read.
        columns: Which columns.
        size: Rows of a shard.
    """
    arrow = arrow_module()
    waiting: list[Any] = []
    count = index = row = 0
    fraction = 0.0
    kept: dict[str, Any] = {}  # types, as the first block has them
    for block in source.blocks(columns.all):
        table = _normalised(arrow, block, columns, row, kept)
        row, before, fraction = row + len(table), fraction, block.fraction
        waiting.append(table)
        count += len(table)
        while count >= size:
            table = arrow.concat_tables(waiting)
            waiting, count, index = [table.slice(size)], count - size, index + 1
            left = min(count / max(len(block.table), 1), 1.0)
            yield _shard(table.slice(0, size), index - 1, fraction - left * (fraction - before))
    if count:
        yield _shard(arrow.concat_tables(waiting), index, fraction)


def left_shards(
    source: Source,
    columns: InputColumns,
    size: int,
    done: Mapping[int, Done],
    skipped: Callable[[float], None] | None = None,
) -> Iterator[Shard]:
    """Read the shards that are not done; those that are must be of the same rows.

    Args:
        source: Where to read.
        columns: Which columns.
        size: Rows of a shard.
        done: The shards that are written.
        skipped: Is told the share of the input that is done.

    Raises:
        DataError: If rows have changed, or there are fewer than before.
    """
    unseen, rows = set(done), 0
    for shard in read_shards(source, columns, size):
        known, rows = done.get(shard.index), rows + len(shard.table)
        unseen.discard(shard.index)
        if known is None:
            yield shard
        elif (known.digest, known.rows) != (shard.digest, len(shard.table)):
            raise DataError(
                f"rows {known.first} to {known.first + known.rows - 1} of the input have changed since they were "
                "explained; give another --output, or the input as it was"
            )
        elif skipped is not None:
            skipped(shard.fraction)
    if unseen:
        last = done[max(unseen)]
        raise DataError(
            f"the input has {rows} rows, and {last.first + last.rows} were explained before; give another --output, or "
            "the input as it was"
        )


def _shard(table: Any, index: int, fraction: float) -> Shard:
    table = table.combine_chunks()
    return Shard(index, table["row"][0].as_py(), table, _digest(table), fraction)


def _digest(table: Any) -> str:
    """Return a digest of the values, the same for the same values however they were read."""
    found = hashlib.blake2b(digest_size=12)
    for name in table.column_names:
        column = table[name]
        found.update(name.encode())
        if str(column.type) != "string":
            arrow = arrow_module()
            sink = arrow.BufferOutputStream()
            with arrow.ipc.new_stream(sink, arrow.schema([(name, column.type)])) as writer:
                writer.write_table(arrow.table({name: column}))
            found.update(sink.getvalue())
            continue
        for chunk in column.chunks:
            _, bounds, data = chunk.buffers()
            places = np.frombuffer(bounds, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
            found.update(np.diff(places).tobytes() + chunk.is_null().to_numpy(zero_copy_only=False).tobytes())
            if data is not None:
                found.update(memoryview(data)[places[0] : places[-1]])
    return found.hexdigest()


def _normalised(arrow: Any, block: Block, columns: InputColumns, first: int, kept: dict[str, Any]) -> Any:
    """Return a block with the columns of a shard."""
    table = block.table
    count = len(table)
    if PROBLEM in table.column_names:
        problem = table[PROBLEM].cast(arrow.string()).combine_chunks()
    else:
        problem = arrow.nulls(count, arrow.string())
    rows = arrow.array(np.arange(first, first + count), arrow.int64())
    found: dict[str, Any] = {"row": rows, "id": rows.cast(arrow.string())}
    if columns.id is not None:
        found["id"] = arrow.compute.coalesce(_named(arrow, table[columns.id], columns.id), found["id"])
    if columns.prompts:
        found["text"], found["messages"], problem = _prompts(arrow, table[columns.text], columns.text, problem)
    for name, column in (
        ("text", None if columns.prompts else columns.text),
        ("text_pair", columns.pair),
        ("completion", columns.completion),
    ):
        if column is not None:
            found[name], problem = _texts(arrow, table[column], column, problem)
    if columns.target is not None:
        found["target"] = _named(arrow, table[columns.target], columns.target)
    for name in columns.keep:
        found[KEPT + name], problem = _kept(arrow, table[name], name, kept, problem)
    return arrow.table({**found, "problem": problem})


def _texts(arrow: Any, column: Any, name: str, problem: Any) -> tuple[Any, Any]:
    """Return a column of texts, and the reasons of rows that have none."""
    compute, types = arrow.compute, arrow.types
    cells = column.combine_chunks()
    kind = cells.type.value_type if types.is_dictionary(cells.type) else cells.type
    missing = f"no text: column {name!r} is null"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        cells, kind = text_column(arrow, cells), arrow.string()
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        wrong = compute.if_else(cells.is_null(), missing, f"not text: column {name!r} holds {kind}")
        return arrow.nulls(len(cells), arrow.string()), compute.coalesce(problem, wrong)
    texts = cells.cast(arrow.string())
    wrong = compute.if_else(texts.is_null(), missing, arrow.scalar(None, arrow.string()))
    odd = compute.fill_null(compute.starts_with(texts, ODD), False)
    if compute.any(odd).as_py():
        reason = compute.binary_join_element_wise("not text: ", compute.utf8_slice_codeunits(texts, 2, 80), "")
        wrong = compute.if_else(odd, reason, wrong)
        texts = compute.if_else(odd, arrow.scalar(None, arrow.string()), texts)
    return texts, compute.coalesce(problem, wrong)


def _prompts(arrow: Any, column: Any, name: str, problem: Any) -> tuple[Any, Any, Any]:
    """Return a column of prompts, which of them are chat messages (as JSON), and why some are neither."""
    read = [_prompt(value, name) for value in column.to_pylist()]
    texts, chats, wrong = zip(*read, strict=True) if read else ((), (), ())
    problems = arrow.compute.coalesce(problem, arrow.array(wrong, arrow.string()))
    return arrow.array(texts, arrow.string()), arrow.array(chats, arrow.bool_()), problems


def _prompt(value: Any, name: str) -> tuple[str | None, bool, str | None]:
    """Return a prompt as text, whether that is JSON of chat messages, and what is wrong with it."""
    if value is None:
        return None, False, f"no prompt: column {name!r} is null"
    if isinstance(value, str) and value.startswith(ODD):  # rows of several types
        try:
            value = json.loads(value[len(ODD) :])
        except ValueError:
            return None, False, f"no prompt: {value[len(ODD) :][:80]}"
    elif isinstance(value, str):
        return value, False, None
    if not isinstance(value, list):
        return None, False, f"no prompt: column {name!r} holds {str(value)[:80]!r}"
    # A struct of Arrow has the fields of all rows, null where a message has none.
    messages = [{k: v for k, v in m.items() if v is not None} if isinstance(m, dict) else m for m in value]
    return json.dumps(messages), True, None


def _named(arrow: Any, column: Any, name: str) -> Any:
    """Return ids or targets as strings, numbers in digits."""
    try:
        return _unmarked(arrow, column.cast(arrow.string()).combine_chunks())
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
        raise DataError(f"column {name!r} holds {column.type}; ids and targets are strings or numbers") from None


def _unmarked(arrow: Any, strings: Any) -> Any:
    odd = arrow.compute.fill_null(arrow.compute.starts_with(strings, ODD), False)
    return arrow.compute.if_else(odd, arrow.compute.utf8_slice_codeunits(strings, 2), strings)


def _kept(arrow: Any, column: Any, name: str, kept: dict[str, Any], problem: Any) -> tuple[Any, Any]:
    """Return a kept column in the type that it had first; what does not fit is a problem of its row."""
    plain = column.combine_chunks()
    if arrow.types.is_string(plain.type):
        plain = _unmarked(arrow, plain)
    kind = kept.setdefault(name, arrow.string() if arrow.types.is_null(plain.type) else plain.type)
    try:
        return plain.cast(kind), problem
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
        pass
    values = [_cast(arrow, value, kind) for value in plain.to_pylist()]
    wrong = [
        f"column {name!r} holds {str(value)[:60]!r}, where it held {kind} before" if new is None and value else None
        for value, new in zip(plain.to_pylist(), values, strict=True)
    ]
    return arrow.array(values, kind), arrow.compute.coalesce(problem, arrow.array(wrong, arrow.string()))


def _cast(arrow: Any, value: Any, kind: Any) -> Any:
    """Return a value as another type holds it, None if it cannot."""
    try:
        return arrow.scalar(value).cast(kind).as_py()
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
        return None
