"""What explains shards of either kind, and how it writes them."""

from typing import Any, Protocol

from ..model.task_model import TaskModel
from .folder import Folder
from .prompts import PromptWorker
from .settings import Settings
from .shards import Done, Shard
from .tables import error_table, result_table
from .worker import Explained, ShardWorker


class Worker(Protocol):
    """What explains shards: `explain` takes what `prepare` returned, in another thread."""

    model: TaskModel
    settings: Settings

    def prepare(self, shard: Shard) -> Any:
        """Read and tokenise a shard."""
        ...

    def explain(self, prepared: Any) -> Explained:
        """Run the model and the method over it."""
        ...


def worker_for(model: TaskModel, settings: Settings) -> Worker:
    """Return what explains shards of texts, or of prompts.

    Raises:
        UnsupportedModelError: If the model is not one of texts, or writes none.
    """
    return ShardWorker(model, settings) if settings.sources is None else PromptWorker(model, settings)


def write(worker: Worker, folder: Folder, run: str, explained: Explained) -> Done:
    """Write a shard's results and errors.

    Raises:
        DataError: If they cannot be written.
    """
    shard = explained.shard
    done = Done(shard.index, shard.first, len(shard.table), len(explained.problems), explained.tokens, shard.digest)
    metadata = {"shard": vars(done) | {"run": run}}
    results = result_table(worker.model, worker.settings, explained, metadata)
    folder.write_shard(done, results, error_table(explained))
    return done
