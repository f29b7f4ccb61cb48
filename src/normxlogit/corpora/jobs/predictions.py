"""Predictions of each row: of texts, pairs, pictures and sounds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import InputError, TargetError, UnsupportedModelError
from ...inputs.encoder import LongText
from ...inputs.texts import WORDS, SplitText
from ...model.task_model import TaskModel
from ...pipeline.arguments import checked_methods
from ...pipeline.options import Options
from ...pipeline.texts import explain_encodings
from ...results.units.kinds import MERGES, Merge
from ...tasks.targets import Choice, Layers, TargetSpec, check_target, choice_from_text, index_of
from ..rows.shards import cell_text
from .base import Column, Job, ShardRows, TextColumns, Together, check_choice, text_of

if TYPE_CHECKING:
    from typing_extensions import Self

EXPLAINED_AT_ONCE = 512
"""Encodings that are explained in one call, which batches them; where one fails, again by halves."""

MEDIA_COLUMNS = ("path", "image", "audio", "file", "text")
"""The usual names of the column of pictures or sounds."""


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
        merge: How a word's score comes from its tokens'; by default as fits the method.

    Raises:
        InputError: If an argument has an invalid value.
    """

    shard_rows: ClassVar[int] = 4096

    text_column: str | None = None
    _: KW_ONLY
    pair_column: str | None = None
    target_column: str | None = None
    target: TargetSpec = None
    contrast: Choice | None = None
    layers: Layers = None
    long_text: LongText = "truncate"
    words: bool | None = None
    merge: Merge | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        check_choice("merge", self.merge, MERGES)
        if self.merge is not None and self.words is False:
            raise InputError("merge says how tokens make words, and there are none without words: give words too")
        if self.target_column is not None and self.target is not None:
            raise InputError("give a target for all rows or a column with one for each, not both")

    def reads(self, *, media: bool) -> dict[str, Column]:
        """Return the texts, pictures or sounds, second texts, and targets."""
        if media:
            texts = Column(MEDIA_COLUMNS, "pictures or sounds, or their paths", is_media=True)
            return {"text_column": texts, "target_column": Column()}
        return {"text_column": Column(("text", WORDS), "texts"), "pair_column": Column(), "target_column": Column()}

    def with_columns(self, names: Sequence[str], columns_of_text: TextColumns, *, media: bool) -> "Self":
        """Return the job with a name for its column."""
        if media:
            for name, default in (("pair_column", None), ("words", None), ("long_text", "truncate")):
                if getattr(self, name) != default:
                    raise InputError(f"{name} is for texts, not for pictures and sounds")
        job = super().with_columns(names, columns_of_text, media=media)
        return replace(job, words=not media) if job.words is None else job

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of words and texts that were not asked for."""
        absent = [] if self.words else ["words", "word_scores"]
        absent += [] if keep_text else ["text"]
        return absent if keep_text and self.pair_column is not None else [*absent, "text_pair"]

    def model_of(self, model: TaskModel) -> TaskModel:
        """Return the model, after checks of what would fail in every row."""
        model.task.check_explains_inputs(model)
        model.refresh()
        if model.task.reads == "texts":
            raise UnsupportedModelError(
                f"a corpus is not explained by models that compare several texts, as {model.name} does"
            )
        check_target(model.task, model.output_count, self.target, self.contrast)
        if self.layers is not None:
            try:
                model.prepare(model.batch(model.task.encode(model, [model.task.example_input(model)])[0], [0]))
            except InputError:  # the tokenizer knows nothing of it: the rows will show
                return model
            model.layer_numbers(self.layers)
        return model

    def read(
        self, model: TaskModel, cells: Mapping[int, Mapping[str, Any]], rows: ShardRows, together: Together
    ) -> None:
        """Encode texts, pictures or sounds, and look up their targets."""
        media, target_of = model.task.reads == "signal", cache(partial(self._target, model))

        def read(some: list[int]) -> None:
            inputs = [cells[row]["text"] if media else self._text(cells[row]) for row in some]
            if self.target_column is not None:
                rows.targets.update(
                    (row, target_of(cell_text(cells[row]["target"], self.target_column))) for row in some
                )
            encodings = (
                model.task.encode(model, inputs)[0] if media else model.encoder(inputs, long_text=self.long_text)
            )
            if not media and any(encoding.offsets is None for encoding in encodings):
                raise InputError("the text's tokens cannot be found in it: it is not known where")
            rows.inputs.update(zip(some, encodings, strict=True))

        together(read, [*cells], rows.problems, at_once=int(media), own=(InputError, TargetError))
        for row, problem in rows.problems.items():  # each is the first input where it is read alone
            without_place = re.sub(r"^input 0(,[^:]*)?: ", "", problem)
            rows.problems[row] = without_place.replace("input 0 ", "the input " if media else "the text ")

    def _text(self, cells: Mapping[str, Any]) -> Any:
        """Return the text of a row, or the pair.

        Raises:
            InputError: If it is none.
        """
        text = _split_or_whole(cells["text"], self.text_column)
        return text if self.pair_column is None else (text, _split_or_whole(cells["pair"], self.pair_column))

    def _target(self, model: TaskModel, name: str | None) -> int:
        """Return the index of a target.

        Raises:
            TargetError: If there is none of this name.
        """
        if name is None:
            raise TargetError("no target")
        index = index_of(model.task, choice_from_text(model.task, name), model.output_count)
        check_target(model.task, model.output_count, index, self.contrast)
        return index

    def explain(self, model: TaskModel, rows: ShardRows, options: Options, together: Together) -> None:
        """Explain encodings, those of similar lengths together."""

        def explain(some: list[int]) -> None:
            targets = [rows.targets[row] for row in some] if rows.targets else None
            encodings = [rows.inputs[row] for row in some]
            explained = explain_encodings(model, encodings, replace(options, targets=targets))
            rows.results.update(zip(some, explained, strict=True))
            rows.tokens += sum(map(len, encodings))

        by_length = sorted(rows.inputs, key=lambda row: len(rows.inputs[row]))
        together(explain, by_length, rows.problems, at_once=EXPLAINED_AT_ONCE)


def _split_or_whole(value: Any, column: str | None) -> str:
    """Return a text; of words that the input has split with the words."""
    is_split = isinstance(value, list) and value and all(isinstance(word, str) for word in value)
    text = text_of(SplitText(value) if is_split else value, column)
    return SplitText(value) if is_split else text
