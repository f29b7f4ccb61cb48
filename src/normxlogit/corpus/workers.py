"""The worker of a run, and how it writes shards."""

from typing import Any, Protocol

from ..errors import InputError
from ..model.task_model import TaskModel
from .folder import Folder
from .jobs import JOBS, CompletionJob, Predictions
from .prompt_worker import PromptWorker
from .rows.shards import Shard, WrittenShard
from .settings import Settings
from .shard_worker import ExplainedShard, ShardWorker
from .tables import error_table, shard_table


class Worker(Protocol):
    """A worker for shards: `explain` takes the result of `prepare`, in another thread."""

    model: TaskModel
    settings: Settings

    def prepare(self, shard: Shard) -> Any:
        """Read and tokenise a shard."""
        ...

    def explain(self, prepared: Any) -> ExplainedShard:
        """Run the model and the method over it."""
        ...


def worker_for(model: TaskModel, settings: Settings) -> Worker:
    """Return the worker for a job.

    Raises:
        UnsupportedModelError: If the model is not one for the job.
        InputError: If there is no such job.
    """
    job = settings.job
    if isinstance(job, Predictions):
        return ShardWorker(model, settings, job)
    if isinstance(job, CompletionJob):
        return PromptWorker(model, settings, job)
    raise InputError(f"a job is {', '.join(kind.__name__ for kind in JOBS)}, not {type(job).__name__}")


def write_shard(worker: Worker, folder: Folder, run: str, explained: ExplainedShard) -> WrittenShard:
    """Write a shard's results and errors.

    Raises:
        DataError: If they cannot be written.
    """
    shard = explained.shard
    written = WrittenShard(
        shard.index, shard.first, len(shard.table), len(explained.problems), explained.tokens, shard.digest
    )
    metadata = {"shard": vars(written) | {"run": run}}
    results = shard_table(worker.model, worker.settings, explained, metadata)
    folder.write_shard(written, results, error_table(explained))
    return written
