"""The worker for shards of completions and of cited answers."""

from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..inputs.chat import ChatTemplateError, Prompt
from ..model.task_model import TaskModel
from ..pipeline.completions.completed_prompts import generate_each
from ..pipeline.completions.sources import sources_and_parts
from ..results.attribution import Attribution
from ..results.citations import Citations
from .jobs import CompletionJob
from .rows.media import BESIDE, media_of
from .rows.shards import Shard
from .settings import Settings
from .shard_worker import ExplainedShard, Halving

WRITTEN_AT_ONCE = 8
"""Prompts that are completed in one batch."""


@dataclass(frozen=True)
class PreparedPrompts:
    """A shard of prompts.

    Attributes:
        rows: Those that can be read, by number, as `CompletionJob.read` returns them.
        problems: Why the others have no result, by number.
    """

    shard: Shard
    rows: dict[int, Any]
    problems: dict[int, str]


class PromptWorker:
    """Explains shards of prompts with one language model.

    Raises:
        UnsupportedModelError: If the model is not a language model.
    """

    def __init__(self, model: TaskModel, settings: Settings, job: CompletionJob[Any]) -> None:
        self.model = model.generating()
        self.model.task.check_generates(self.model)
        self.settings = settings
        self.job = job
        # Each gives up where the first rows all fail; they count apart, as they run in different threads.
        self._reading, self._explaining = Halving(), Halving()

    def prepare(self, shard: Shard) -> PreparedPrompts:
        """Tokenise the prompts with the completions of the input.

        Raises:
            InputError: If the tokenizer has no chat template and the first rows all need one.
        """
        table = shard.table.to_pylist()
        for kind, prefix in BESIDE.items():
            if prefix in self.settings.columns.media:
                media = media_of(shard.table, prefix)
                table = [cells | {kind: medium} for cells, medium in zip(table, media, strict=True)]
        problems = {row: cells["problem"] for row, cells in enumerate(table) if cells["problem"] is not None}
        readable: dict[int, Any] = {}

        def read(rows: list[int]) -> list[Any]:
            """Read one row, and note the problem if it cannot be read."""
            (row,) = rows
            try:
                readable[row] = self.job.read(self.model, table[row])
            except ChatTemplateError:
                raise  # the model's fault and not the row's
            except InputError as error:
                problems[row] = str(error)
            return []

        for row in [row for row in range(len(table)) if row not in problems]:
            self._reading(read, [row], problems.__setitem__)
        return PreparedPrompts(shard, readable, problems)

    def explain(self, prepared: PreparedPrompts) -> ExplainedShard:
        """Generate the completions that the input lacks, and explain the sources of each.

        Raises:
            NormXLogitError: If the model or the settings are at fault, not single rows.
        """
        options, problems = self.settings.options(), dict(prepared.problems)
        completed = dict(prepared.rows)
        results: dict[int, Attribution | Citations] = {}

        def generate(rows: list[int]) -> list[Any]:
            """Complete some prompts in one batch."""
            prompts: list[Prompt] = [prepared.rows[row] for row in rows]
            generated = generate_each(self.model, prompts, {"max_new_tokens": self.job.max_new_tokens})
            completed.update(zip(rows, generated, strict=True))
            return []

        def explain(rows: list[int]) -> list[Any]:
            """Explain one completion, and note the problem if its sources cannot be found."""
            (row,) = rows
            try:
                sources_and_parts(self.job.completed(completed[row]), *self.job.division(completed[row]))
            except InputError as error:  # the row's fault, however many there are
                problems[row] = str(error)
                return []
            results[row] = self.job.explain(self.model, completed[row], options)
            return []

        if self.job.max_new_tokens is not None:
            rows = list(prepared.rows)
            for start in range(0, len(rows), WRITTEN_AT_ONCE):
                self._explaining(generate, rows[start : start + WRITTEN_AT_ONCE], problems.__setitem__)
        for row in [row for row in prepared.rows if row not in problems]:
            self._explaining(explain, [row], problems.__setitem__)
        explained_rows = sorted(results)
        encodings = [self.job.completed(completed[row]).encoding for row in explained_rows]
        results_by_index = {index: results[row] for index, row in enumerate(explained_rows)}
        return ExplainedShard(prepared.shard, explained_rows, encodings, [], results_by_index, problems)
