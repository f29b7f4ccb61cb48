"""The worker for shards of predictions, which local and Ray engines share."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import HeadMismatchError, InputError, NormXLogitError, TargetError, UnsupportedModelError
from ..inputs.batching import lengths_of
from ..inputs.columns import EncodingColumns
from ..inputs.encoding import Encoding
from ..inputs.texts import SplitText
from ..model.batch_attempts import batch_attempts
from ..model.task_model import TaskModel
from ..pipeline.options import Options
from ..pipeline.texts import ScoreColumns, explain_encodings, score_batch
from ..results.attribution import Attribution
from ..results.base import Record
from ..tasks.targets import Choice, check_target, choice_from_text, index_of
from .jobs import Predictions
from .rows.media import media_of
from .rows.shards import Shard
from .settings import Settings

Report = Callable[[int, str], None]
"""Called with the index of an input that has no result, and the reason."""


@dataclass(frozen=True)
class Prepared:
    """An encoded shard.

    Attributes:
        rows: Which of its rows were encoded.
        encodings: Texts in columns; pictures and sounds one by one.
        targets: The target of each, if there is a column of targets.
        problems: Why the other rows were not, by row.
    """

    shard: Shard
    rows: list[int]
    encodings: Sequence[Encoding]
    targets: list[Choice] | None
    problems: dict[int, str]


@dataclass(frozen=True)
class ExplainedShard:
    """An explained shard.

    Attributes:
        rows: Which of its rows were encoded.
        batches: The scores of batches, each with the places of its texts among the encodings.
        results: The results of what is not explained in columns, by place: pictures, sounds, texts beyond the model's
            length, and the sources of completions.
        problems: Why the other rows have no result, by row.
    """

    shard: Shard
    rows: list[int]
    encodings: Sequence[Encoding]
    batches: list[tuple[list[int], ScoreColumns]]
    results: Mapping[int, Record]
    problems: dict[int, str]

    @property
    def places(self) -> list[int]:
        """The places of the rows with results: those of the batches, then the others."""
        return [*(index for places, _ in self.batches for index in places), *self.results]

    @property
    def tokens(self) -> int:
        """The number of explained tokens."""
        lengths = lengths_of(self.encodings)
        return sum(lengths[place] for place in self.places)


class ShardWorker:
    """Explains shards with one model.

    Raises:
        UnsupportedModelError: If the model's answer to a single input cannot be explained.
        TargetError: If the model has no such target or contrast.
        MethodError: If the model has no such layer.
    """

    def __init__(self, model: TaskModel, settings: Settings, job: Predictions) -> None:
        _check_job(model, job)
        self.model = model
        self.settings = settings
        self.job = job
        self._halving = Halving()

    def prepare(self, shard: Shard) -> Prepared:
        """Encode a shard's texts, pictures or sounds, and look up its targets."""
        table = shard.table
        problems = {i: reason for i, reason in enumerate(table["problem"].to_pylist()) if reason is not None}
        targets = None
        if self.job.target_column is not None:
            targets, target_problems = self._targets(table["target"])
            problems = target_problems | problems
        rows = [i for i in range(len(table)) if i not in problems]
        readable = table.take(np.array(rows, np.int64)) if problems else table
        inputs: list[Any] = media_of(readable) if self.settings.columns.media else _texts(readable, "text")
        if self.job.pair_column is not None:
            inputs = list(zip(inputs, _texts(readable, "text_pair"), strict=True))
        encodings, unread = self.model.task.encode_rows(self.model, inputs, long_text=self.job.long_text)
        problems |= {rows[index]: reason for index, reason in unread.items()}
        rows = [row for index, row in enumerate(rows) if index not in unread]
        return Prepared(shard, rows, encodings, None if targets is None else [targets[i] for i in rows], problems)

    def _targets(self, column: Any) -> tuple[list[Any], dict[int, str]]:
        """Return each row's target, and the problems of rows without one."""
        names: list[str | None] = column.to_pylist()
        indices: dict[str | None, int | None] = {None: None}
        problems: dict[str | None, str] = {None: "no target"}
        for name in set(names) - {None}:
            try:
                indices[name] = self._target_index(str(name))
            except TargetError as error:  # noqa: PERF203  # of the rows with this target alone
                indices[name], problems[name] = None, str(error)
        return [indices[name] for name in names], {
            i: problems[name] for i, name in enumerate(names) if name in problems
        }

    def _target_index(self, name: str) -> int:
        index = index_of(self.model.task, choice_from_text(self.model.task, name), self.model.output_count)
        check_target(self.model.task, self.model.output_count, index, self.job.contrast)
        return index

    def explain(self, prepared: Prepared) -> ExplainedShard:
        """Run the model and the method over a shard.

        Raises:
            NormXLogitError: If the model or the settings are at fault, not single rows.
        """
        encodings, options = prepared.encodings, self.settings.options(prepared.targets)
        problems = dict(prepared.problems)

        def report(index: int, reason: str) -> None:
            problems[prepared.rows[index]] = reason

        # Long texts and media are explained as `Attribution` objects, all others in columns.
        limit = self.model.encoder.limit if isinstance(encodings, EncodingColumns) else 0
        lengths = lengths_of(encodings)
        as_objects = [index for index, length in enumerate(lengths) if limit is not None and length > limit]
        batches: list[tuple[list[int], ScoreColumns]] = []
        if isinstance(encodings, EncodingColumns):
            in_columns = sorted(set(range(len(encodings))) - set(as_objects))
            batches = self._score_in_columns(encodings, in_columns, options, report)
        results = self._explain_as_objects(encodings, as_objects, options, report)
        return ExplainedShard(prepared.shard, prepared.rows, encodings, batches, results, problems)

    def _score_in_columns(
        self, encodings: EncodingColumns, indices: list[int], options: Options, report: Report
    ) -> list[tuple[list[int], ScoreColumns]]:
        """Return the scores of some of the texts: of each batch, the indices of its texts and their scores."""
        if not indices:
            return []
        model = self.model
        selected = encodings if len(indices) == len(encodings) else encodings.take(indices)

        def score(places: list[int]) -> list[tuple[list[int], ScoreColumns]]:
            texts = [indices[place] for place in places]
            batch = model.batch(selected.take(places), texts)
            run = options.method.forward(model, batch, options.layers)
            return [(texts, score_batch(model, run, options))]

        batches: list[tuple[list[int], ScoreColumns]] = []
        for attempt in batch_attempts(model, selected, options.method.memory):
            with attempt as places:
                batches += self._halving(score, places, lambda place, reason: report(indices[place], reason))
        return batches

    def _explain_as_objects(
        self, encodings: Sequence[Encoding], indices: list[int], options: Options, report: Report
    ) -> dict[int, Attribution]:
        """Return the results of some of the inputs, by their index."""
        results: dict[int, Attribution] = {}

        def explain(indices: list[int]) -> list[Any]:
            explained = explain_encodings(self.model, [encodings[i] for i in indices], options.some(indices))
            results.update(zip(indices, explained, strict=True))
            return explained

        if indices:
            self._halving(explain, indices, report)
        return results


def _texts(table: Any, name: str) -> list[str]:
    """Return a column of texts, those of split words with their words."""
    pairs = zip(table[name].to_pylist(), table[f"{name} words"].to_pylist(), strict=True)
    return [text if words is None else SplitText(json.loads(words)) for text, words in pairs]


def _check_job(model: TaskModel, job: Predictions) -> None:
    """Refuse settings that would fail in every row, before anything is written."""
    model.task.check_explains_inputs(model)
    model.refresh()
    if model.task.compares:
        raise UnsupportedModelError(f"a corpus is not explained by models of {model.task.purpose}")
    check_target(model.task, model.output_count, job.target, job.contrast)
    if job.layers is None:
        return
    try:
        model.prepare(model.batch(model.task.encode(model, [model.task.example_input(model)])[0], [0]))
    except InputError:  # the tokenizer knows nothing of it: the rows will show
        return
    model.layer_numbers(job.layers)


GIVE_UP = 8
"""If so many rows fail before any succeeds, the model is at fault, and the error is raised."""


class Halving:
    """Works on rows together, and on each half where that fails, until the rows that fail stand alone.

    It counts over all shards: when the first rows all fail, the model or the settings are at fault.
    """

    def __init__(self) -> None:
        self._explained = 0
        self._failed = 0

    def __call__(
        self, work: Callable[[list[int]], list[Any]], rows: list[int], report: Callable[[int, str], None]
    ) -> list[Any]:
        """Return the results of the rows that succeed, and report the others."""
        try:
            results = work(rows)
        except (HeadMismatchError, UnsupportedModelError):
            raise
        except NormXLogitError as error:
            if len(rows) > 1:
                middle = len(rows) // 2
                return [*self(work, rows[:middle], report), *self(work, rows[middle:], report)]
            self._failed += 1
            if not self._explained and self._failed >= GIVE_UP:
                raise
            report(rows[0], str(error))
            return []
        self._explained += len(rows)
        return results
