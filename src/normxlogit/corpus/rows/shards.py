"""Shards of the input: tables of equal size, with the same columns for every input format."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import DataError, InputError
from ...inputs.documents.conversations import read_conversation
from ...inputs.documents.named_documents import documents_by_name
from ...inputs.documents.traces import to_plain_data
from ...results.storage.columns import CORPUS
from ...results.storage.schema import Index
from .formats import RowBlock, arrow_module, check_columns
from .media import BESIDE, DEFAULTS, media_columns
from .reading import Source

KEPT = "kept "
"""Prefix of the names of kept columns in a shard, which has columns of other meanings by the same names."""


@dataclass(frozen=True)
class InputColumns:
    """Names of the columns of the input by what they hold.

    Attributes:
        text: The texts.
        pair: Their second texts.
        completion: The completions, where the texts are prompts.
        id: Names of the rows; by default their numbers.
        target: The target of each row.
        keep: Columns that are copied to the results.
        prompts: Whether the texts are prompts: strings, or lists of chat messages.
        documents: The documents, where the texts are questions and the completions answers.
        messages: The conversations, where their answers are cited: a column of conversations, or several that make a
            trace together, such as a request and its response.
        media: Whether the texts are pictures or sounds: paths, or whatever `media_columns` takes.
        image: A picture for each prompt.
    """

    text: str
    pair: str | None = None
    id: str | None = None
    target: str | None = None
    keep: tuple[str, ...] = ()
    completion: str | None = None
    prompts: bool = False
    documents: str | None = None
    media: bool = False
    image: str | None = None
    messages: tuple[str, ...] = ()

    @property
    def cited(self) -> bool:
        """Whether the rows are answers that are cited, from documents or from what was said before them."""
        return self.documents is not None or bool(self.messages)

    @property
    def all(self) -> list[str]:
        """Return every column that is read, once."""
        text = self.messages or (self.text,)
        named = [*text, self.documents, self.pair, self.completion, self.image, self.id, self.target, *self.keep]
        return list(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True)
class WrittenShard:
    """A written shard.

    Attributes:
        shard: Its number.
        first: The number of its first row.
        rows: How many input rows it has.
        errors: How many of them have no result.
        tokens: Tokens explained.
        digest: Of its input rows.
    """

    shard: Index
    first: Index
    rows: Index
    errors: Index
    tokens: Index
    digest: str


@dataclass(frozen=True)
class Shard:
    """Contiguous rows of the input.

    Attributes:
        index: Its number.
        first: The number of its first row.
        table: `row`, `id`, `text`, and of the input `text_pair`, `completion`, `documents` (JSON of texts by name),
            `target` and, behind `KEPT`, kept columns; of prompts `messages`, true where the text is JSON of chat
            messages, and behind `BESIDE` their pictures; of conversations the text is JSON, too; of pictures and sounds
            the fields of `Medium`; `problem` says why a row cannot be read.
        digest: Of everything that results depend on.
        fraction: Share of the input read with it.
    """

    index: int
    first: int
    table: Any
    digest: str
    fraction: float


def choose_columns(source: Source, columns: InputColumns) -> InputColumns:
    """Check the columns against the input, and choose that of the texts where none was named."""
    names = source.names()
    chosen = columns
    if not columns.text and not columns.messages:
        default = "prompt" if columns.prompts and names != ["text"] else "text"
        default = "question" if columns.documents else default
        if columns.media:
            default = next((name for name in DEFAULTS if name in names), DEFAULTS[0])
        if names and default not in names:
            what = "pictures or sounds, or their paths" if columns.media else f"{default}s"
            raise DataError(f"which column holds the {what}? give --text-column, one of {', '.join(names)}")
        chosen = replace(columns, text=default)
    for name in chosen.all:
        if names and name not in names:
            or_written = "; max_new_tokens lets the model generate the completions" if name == chosen.completion else ""
            raise DataError(f"no column {name!r} in the input; there are {', '.join(names)}{or_written}")
    if names:
        check_columns(names, chosen.all)
    for name in chosen.keep:
        if name in _result_columns(columns):
            raise DataError(f"column {name!r} cannot be kept: the results have one of that name; rename it")
    return chosen


def _result_columns(columns: InputColumns) -> Mapping[str, Any]:
    if columns.cited:
        return CORPUS["citations"]
    return CORPUS["sources" if columns.prompts else "image" if columns.media else "text"]


def read_shards(source: Source, columns: InputColumns, size: int) -> Iterator[Shard]:
    """Read a source shard by shard."""
    arrow = arrow_module()
    waiting: list[Any] = []
    count = index = row = 0
    fraction = 0.0
    kept_types: dict[str, Any] = {}  # types, as the first block has them
    for block in source.blocks(columns.all):
        table = _normalised(arrow, block, columns, row, kept_types)
        row, before, fraction = row + len(table), fraction, block.fraction
        waiting.append(table)
        count += len(table)
        while count >= size:
            table = arrow.concat_tables(waiting)
            waiting, count, index = [table.slice(size)], count - size, index + 1
            unread = min(count / max(len(block.problems), 1), 1.0)
            yield _shard(table.slice(0, size), index - 1, fraction - unread * (fraction - before))
    if count:
        yield _shard(arrow.concat_tables(waiting), index, fraction)


def left_shards(
    source: Source,
    columns: InputColumns,
    size: int,
    written: Mapping[int, WrittenShard],
    skipped: Callable[[float], None] | None = None,
) -> Iterator[Shard]:
    """Read the shards that are not written; check that the others are of the same rows.

    Args:
        source: Where to read.
        columns: Which columns.
        size: Rows of a shard.
        written: The shards that are written.
        skipped: Called with the share of the input that is done.
    """
    unseen, rows = set(written), 0
    for shard in read_shards(source, columns, size):
        finished, rows = written.get(shard.index), rows + len(shard.table)
        unseen.discard(shard.index)
        if finished is None:
            yield shard
        elif (finished.digest, finished.rows) != (shard.digest, len(shard.table)):
            raise DataError(
                f"rows {finished.first} to {finished.first + finished.rows - 1} of the input have changed since they "
                "were explained; give another --output, or the input as it was"
            )
        elif skipped is not None:
            skipped(shard.fraction)
    if unseen:
        last = written[max(unseen)]
        raise DataError(
            f"the input has {rows} rows, and {last.first + last.rows} were explained before; give another --output, or "
            "the input as it was"
        )


def _shard(table: Any, index: int, fraction: float) -> Shard:
    table = table.combine_chunks()
    return Shard(index, table["row"][0].as_py(), table, _digest(table), fraction)


def _digest(table: Any) -> str:
    """Return a digest of the values, the same for the same values however they were read."""
    digest = hashlib.blake2b(digest_size=12)
    for name in table.column_names:
        column = table[name]
        digest.update(name.encode())
        if str(column.type) != "string":
            arrow = arrow_module()
            sink = arrow.BufferOutputStream()
            with arrow.ipc.new_stream(sink, arrow.schema([(name, column.type)])) as writer:
                writer.write_table(arrow.table({name: column}))
            digest.update(sink.getvalue())
            continue
        for chunk in column.chunks:
            _, bounds, data = chunk.buffers()
            places = np.frombuffer(bounds, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
            digest.update(np.diff(places).tobytes() + chunk.is_null().to_numpy(zero_copy_only=False).tobytes())
            if data is not None:
                digest.update(memoryview(data)[places[0] : places[-1]])
    return digest.hexdigest()


def _normalised(arrow: Any, block: RowBlock, columns: InputColumns, first: int, kept_types: dict[str, Any]) -> Any:
    """Return a block as a table with the columns of a shard."""
    problems = list(block.problems)
    rows = arrow.array(np.arange(first, first + len(problems)), arrow.int64())
    table: dict[str, Any] = {"row": rows, "id": rows.cast(arrow.string())}
    table |= _media(arrow, block, columns, problems)
    if columns.media:
        table["id"] = arrow.compute.coalesce(table["text"], table["id"])
    if columns.id is not None:
        unnamed = arrow.array([f"row {row}" for row in rows.to_pylist()], arrow.string())  # another may be named "7"
        table["id"] = arrow.compute.coalesce(_named(arrow, block.columns[columns.id], columns.id), unnamed)
    table |= _texts(arrow, block, columns, problems)
    if columns.target is not None:
        table["target"] = _named(arrow, block.columns[columns.target], columns.target)
    for name in columns.keep:
        table[KEPT + name] = _kept(arrow, block.columns[name], name, kept_types, problems)
    return arrow.table({**table, "problem": arrow.array(problems, arrow.string())})


def _texts(arrow: Any, block: RowBlock, columns: InputColumns, problems: list[str | None]) -> dict[str, Any]:
    """Return the texts of a block, or prompts with completions, questions with answers, or conversations."""

    def read(name: str, parse: Callable[[Any, str], Any]) -> Any:
        """Parse the values of a column; the first that is wrong in a row is the row's problem."""
        values: list[Any] = []
        for row, value in enumerate(_values(block.columns[name])):
            try:
                values.append(parse(value, name))
            except ValueError as error:  # noqa: PERF203  # of this row alone
                values.append(None)
                problems[row] = problems[row] or str(error)
        return arrow.array(values, arrow.string())

    table: dict[str, Any] = {}
    if columns.messages:
        table["text"] = _conversations(arrow, block, columns.messages, problems)
    elif columns.documents is not None:
        table["documents"] = read(columns.documents, _documents)
    elif columns.prompts:
        table["text"] = read(columns.text, _prompt)
        table["messages"] = arrow.array([isinstance(value, list) for value in _values(block.columns[columns.text])])
    for name, column in (
        ("text", None if "text" in table or columns.media else columns.text),
        ("text_pair", columns.pair),
        ("completion", columns.completion),
    ):
        if column is not None:
            table[name] = read(column, _text)
    return table


def _media(arrow: Any, block: RowBlock, columns: InputColumns, problems: list[str | None]) -> dict[str, Any]:
    """Return the pictures and sounds of a block: those in the place of texts, and those of prompts."""
    table: dict[str, Any] = {}
    for name, prefix in ((columns.text if columns.media else None, ""), (columns.image, BESIDE)):
        if name is not None:
            table |= media_columns(arrow, _values(block.columns[name]), name, problems, prefix)
    return table


def _values(column: Any) -> list[Any]:
    return column if isinstance(column, list) else column.to_pylist()


def _text(value: Any, name: str) -> str:
    """Return a value as text."""
    if value is None:
        raise ValueError(f"no text: column {name!r} is null")
    if not isinstance(value, str | bytes):
        raise ValueError(f"not text: column {name!r} holds {str(value)[:80]!r}")
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else value.encode("utf-8").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not text: bytes that are not UTF-8, at {error.start}") from None
    except UnicodeEncodeError:
        raise ValueError("not text: half a character (a lone surrogate)") from None


def _prompt(value: Any, name: str) -> str:
    """Return a text as it is, and chat messages as JSON."""
    if isinstance(value, str):
        return _text(value, name)
    if value is None:
        raise ValueError(f"no prompt: column {name!r} is null")
    if not isinstance(value, list):
        raise ValueError(f"no prompt: column {name!r} holds {str(value)[:80]!r}")
    # A struct of Arrow has the fields of all rows, null where a message has none.
    return json.dumps(
        [{k: v for k, v in m.items() if v is not None} if isinstance(m, dict) else m for m in value], default=str
    )


def _documents(value: Any, name: str) -> str:
    """Return documents as JSON of texts by name."""
    if isinstance(value, Mapping):  # a struct of Arrow has the fields of all rows, null where one has none
        value = {key: document for key, document in value.items() if document is not None}
    try:
        return json.dumps(documents_by_name(value))
    except InputError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _conversations(arrow: Any, block: RowBlock, names: Sequence[str], problems: list[str | None]) -> Any:
    """Return conversations as JSON; one that cannot be read is a problem of its row."""
    columns = [block.columns[name] for name in names]
    called = f"column {' and '.join(map(repr, names))}"

    def read(values: Sequence[Any]) -> str:
        if all(value is None for value in values):
            raise ValueError(f"no conversation: {called} is null")
        # A struct of Arrow has the fields of all rows, null where a message has none.
        parts = [
            value if isinstance(column, list) else _without_nulls(value)
            for column, value in zip(columns, values, strict=True)
        ]
        parts = [
            _text(part, name) if isinstance(part, bytes) else part for part, name in zip(parts, names, strict=True)
        ]
        trace = parts[0] if len(parts) == 1 else dict(zip(names, parts, strict=True))
        try:
            read_conversation(trace)
            return json.dumps(to_plain_data(trace))
        except RecursionError:
            raise ValueError(f"{called} is nested too deeply") from None
        except InputError as error:
            raise ValueError(str(error)) from None

    rows: list[str | None] = []
    for row, values in enumerate(zip(*map(_values, columns), strict=True)):
        try:
            rows.append(read(values) if problems[row] is None else None)
        except ValueError as error:  # noqa: PERF203  # of this row alone
            rows.append(None)
            problems[row] = str(error)
    return arrow.array(rows, arrow.string())


def _without_nulls(value: Any) -> Any:
    """Return a value without the fields of mappings that are null."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _array(arrow: Any, column: Any) -> Any:
    """Return a column as an Arrow array; Python values that are bytes, or without a type in common, become strings."""
    if not isinstance(column, list):
        return column
    if not any(isinstance(value, bytes) for value in column):
        with suppress(arrow.ArrowInvalid, arrow.ArrowTypeError, UnicodeError, OverflowError):
            return arrow.array(column)
    texts = (value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in column)
    strings = (text if text is None or isinstance(text, str) else json.dumps(text, default=str) for text in texts)
    return arrow.array([text and text.encode("utf-8", "replace").decode("utf-8") for text in strings], arrow.string())


def _named(arrow: Any, column: Any, name: str) -> Any:
    """Return ids or targets as strings, numbers in digits."""
    values = _array(arrow, column)
    try:
        return values.cast(arrow.string())
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
        raise DataError(f"column {name!r} holds {values.type}; ids and targets are strings or numbers") from None


def _kept(arrow: Any, column: Any, name: str, kept_types: dict[str, Any], problems: list[str | None]) -> Any:
    """Return a kept column in the type that it had first; what does not fit is a problem of its row."""
    array = _array(arrow, column)
    kind = kept_types.setdefault(name, arrow.string() if arrow.types.is_null(array.type) else array.type)
    refused = (arrow.ArrowInvalid, arrow.ArrowNotImplementedError)
    try:
        return array.cast(kind)
    except refused:
        pass
    values: list[Any] = []
    for row, value in enumerate(array):
        try:
            values.append(value.cast(kind).as_py())
        except refused:  # noqa: PERF203  # of this row alone
            values.append(None)
            reason = f"column {name!r} holds {str(value)[:60]!r}, where it held {kind} before"
            problems[row] = problems[row] or reason
    return arrow.array(values, kind)
