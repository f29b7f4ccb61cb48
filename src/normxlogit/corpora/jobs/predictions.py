"""Predictions of each row: of texts, pairs, pictures and sounds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ...errors import InputError, TargetError
from ...inputs.encoder import LongText
from ...inputs.encoding import Encoding
from ...inputs.texts import WORDS, SplitText
from ...long_runs.cells import text_of
from ...methods import Method, method_named
from ...methods.defaults import ANSWER_METHODS
from ...model.task_model import TaskModel
from ...pipeline.arguments import checked_methods
from ...pipeline.options import Options
from ...pipeline.texts import explain_by_default, score_encodings
from ...results.base import Record
from ...tasks.targets import Choice, Layers, TargetSpec, check_target, choice_from_text, index_of
from ..rows.shards import cell_text
from .base import Job, TextColumns, column
from .steps import Step

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...explainer import Explainer

EXPLAINED_AT_ONCE = 512
"""Encodings that are explained in one call, which makes batches of them; if one fails, again by halves."""

MEDIA_COLUMNS = ("path", "image", "audio", "file", "text")
"""The usual names of the column of pictures or sounds."""


class _EncodedRow(NamedTuple):
    """A row as the model reads it."""

    encoding: Encoding
    target: int | None  # the index of the row's own target; None without a column of targets


@checked_methods
@dataclass(frozen=True)
class Predictions(Job):
    """The model's predictions for texts, pairs of texts, pictures or sounds, as `Explainer.__call__` explains them.

    Pictures and sounds are paths of files, which start at the working directory, what such files hold, or what is in
    memory.

    Attributes:
        text_column: The column of the texts, or of lists of their words; by default "text", "tokens", or the only one
            that holds texts; of pictures and sounds "path", "image", "audio" or "file".
        pair_column: The column of second texts, for models of pairs.
        target_column: A column with the label, token or index to explain in each row.
        target: As in `Explainer.__call__`.
        contrast: As in `Explainer.__call__`.
        layers: As in `Explainer.__call__`.
        long_text: As in `Explainer.__call__`; with "error" long texts are rows among the errors.
        words: Whether to write words with their scores beside the tokens; by default of texts.

    Raises:
        InputError: If an argument has an invalid value.
    """

    shard_rows: ClassVar[int] = 4096

    text_column: str | None = column("text", WORDS)
    _: KW_ONLY
    pair_column: str | None = column()
    target_column: str | None = column()
    target: TargetSpec = None
    contrast: Choice | None = None
    layers: Layers = None
    long_text: LongText = "truncate"
    words: bool | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        if self.target_column is not None and self.target is not None:
            raise InputError("give a target for all rows or a column with one for each, not both")

    def roles(self, *, reads_media: bool) -> dict[str, Sequence[str]]:
        """Return the texts and second texts, or pictures or sounds, and the targets."""
        roles = super().roles(reads_media=reads_media)
        return {"text": MEDIA_COLUMNS, "target": ()} if reads_media else roles

    def with_columns(self, names: Sequence[str], columns_of_text: TextColumns, *, reads_media: bool) -> "Self":
        """Return the job with a name for its column, and with `words` true for texts if the caller does not say it."""
        if reads_media:
            defaults_of_texts = {"pair_column": None, "words": None, "long_text": "truncate"}
            for name, default in defaults_of_texts.items():
                if getattr(self, name) != default:  # the caller has set it
                    raise InputError(f"{name} is for texts, not for pictures and sounds")
        job = super().with_columns(names, columns_of_text, reads_media=reads_media)
        return replace(job, words=not reads_media) if job.words is None else job

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of words and texts that were not asked for."""
        absent = [] if self.words else ["words", "word_scores"]
        if not keep_text:
            absent.append("text")
        if not keep_text or self.pair_column is None:
            absent.append("text_pair")
        return absent

    def model_of(self, model: TaskModel) -> TaskModel:
        """Return the caller's model, after checks of what would fail in every row."""
        model.task.check_explains_inputs(model)
        model.refresh()  # the caller may have changed it since the last call
        if model.task.result_kind == "text":
            model.task.check_input(model, "one text")
        check_target(model.task, model.output_count, self.target, self.contrast)
        if self.layers is not None:
            try:
                encodings, _ = model.task.encode(model, [model.task.example_input(model)])
                model.prepare(model.batch(encodings))  # finds the layers
            except InputError:  # the tokenizer does not know the words of the example; it may know those of the rows
                return model
            model.layer_numbers(self.layers)
        return model

    def methods(self, explainer: "Explainer", method: str | Method | None) -> tuple[Method, Method | None]:
        """Return the method, by default the first default that works on the model; None, as it is that of all rows."""
        if method is not None:
            return method_named(method), None
        model = explainer.task_model
        with suppress(InputError):  # the tokenizer does not know the words of the example
            example = model.task.example_input(model)
            working_method = explain_by_default(model, example, {"layers": self.layers, "progress": False}).method
            return working_method, None
        return method_named(ANSWER_METHODS[0]), None  # the default, untried

    def cells(self, result: Record, kind: str) -> dict[str, Any]:
        """Return the cells of a result, and its words with the sums of the scores of their tokens."""
        cells = super().cells(result, kind)
        if not self.words:
            return cells
        a = result.scored
        words = a.words() if a.has_words else []
        scores = np.zeros(0, np.float32)
        if words:
            scores = np.stack([word.score for word in words], -1)  # (K, L, words), or fewer axes, as `a.scores`
        return cells | {"words": [word.text for word in words], "word_scores": scores.ravel()}

    def shared(self, model: TaskModel, results: Sequence[Record]) -> dict[str, Any]:
        """Return the labels, what they are, and the layers."""
        outputs = model.task.outputs
        layers = results[0].scored.layers if results else None  # None is read of no shard, see `RunTables`
        return {"labels": list(outputs.labels), "outputs": outputs.kind, "layers": list(layers) if layers else None}

    def steps(self, model: TaskModel, options: Options) -> Sequence[Step]:
        """Return two steps: texts, pictures or sounds are encoded with their targets, then they are explained."""
        target_of = cache(partial(self._target, model))  # a column has few targets
        read = partial(self._encoded_rows, model, target_of)
        # Texts are tokenised all at once; a picture or sound that cannot be read does not let others be read again.
        read_at_once = 0 if model.task.result_kind == "text" else 1
        explain = partial(self._explained_rows, model, options)
        return [
            Step(read, read_at_once, row_errors=(InputError, TargetError)),
            Step(explain, EXPLAINED_AT_ONCE, size=lambda row: len(row.encoding)),
        ]

    def _encoded_rows(
        self, model: TaskModel, target_of: Callable[[str | None], int], rows: list[Mapping[str, Any]]
    ) -> list[_EncodedRow]:
        """Return rows as the model reads them.

        Args:
            model: The model.
            target_of: Returns the index of the target that a row names.
            rows: The cells of each row, by role.
        """
        encode = self._encode_texts if model.task.result_kind == "text" else self._encode_media
        column = self.target_column
        targets = [None if column is None else target_of(cell_text(cells["target"], column)) for cells in rows]
        return list(map(_EncodedRow, encode(model, rows), targets))

    def _explained_rows(
        self, model: TaskModel, options: Options, rows: list[_EncodedRow]
    ) -> Iterable[tuple[Record, int]]:
        """Yield the result of each row, with the number of its tokens."""
        encodings = [row.encoding for row in rows]
        # The options hold the targets of all rows in the place of a single one.
        targets: Any = None if self.target_column is None else [row.target for row in rows]
        results = score_encodings(model, encodings, replace(options, targets=targets))
        return zip(results, map(len, encodings), strict=True)

    def _encode_texts(self, model: TaskModel, rows: Sequence[Mapping[str, Any]]) -> list[Encoding]:
        """Tokenise the texts or pairs of rows; refuse a tokenizer that does not tell where tokens are."""
        encodings = model.encoder([self._text(cells) for cells in rows], long_text=self.long_text)
        if any(encoding.offsets is None for encoding in encodings):
            raise InputError("the text's tokens cannot be found in it: it is not known where")
        return encodings

    def _encode_media(self, model: TaskModel, rows: Sequence[Mapping[str, Any]]) -> list[Encoding]:
        """Read the pictures or sounds of rows, which have the role "text" as well."""
        encodings, _ = model.task.encode(model, [cells["text"] for cells in rows])
        return encodings

    def _text(self, cells: Mapping[str, Any]) -> Any:
        """Return the text of a row, or the pair."""
        text = _split_or_whole(cells["text"], self.text_column)
        return text if self.pair_column is None else (text, _split_or_whole(cells["pair"], self.pair_column))

    def _target(self, model: TaskModel, name: str | None) -> int:
        """Return the index of the label or token that a row names."""
        if name is None:
            raise TargetError("no target")
        index = index_of(model.task, choice_from_text(model.task, name), model.output_count)
        check_target(model.task, model.output_count, index, self.contrast)  # refuses one that is the contrast, too
        return index


def _split_or_whole(value: Any, column: str | None) -> str:
    """Return a cell as a text; a list of words as a text that stays split so.

    Args:
        value: The value of the cell.
        column: Its column, for errors.
    """
    is_split = isinstance(value, list) and value and all(isinstance(word, str) for word in value)
    if not is_split:
        return text_of(value, column)
    words = SplitText(value)
    text_of(words, column)  # refuses what is not UTF-8
    return words
