"""The local engine: reading, tokenising, running the model and writing at the same time, in threads."""

import os
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from queue import SimpleQueue
from typing import TypeVar

from ..errors import DataError
from .folder import Folder
from .rows.shards import Finished, Shard
from .worker import Worker

T = TypeVar("T")

THREAD_TIMEOUT = 10
"""Seconds that a stopped run waits for what is being read."""


def limit_cached_kernels() -> None:
    """Limit how many kernels torch caches on a CPU, one for each shape of a batch; call this before a model is run."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8")


def run_local(worker: Worker, folder: Folder, run_digest: str, shards: Iterator[Shard]) -> Iterator[Finished]:
    """Explain shards on this machine.

    While the model reads a shard, the next is tokenised, the one after that is read, and the one before written.

    Args:
        worker: Explains the rows.
        folder: Where shards are written.
        run_digest: The digest of the run, which the shards carry.
        shards: The shards that are left.

    Yields:
        Each written shard, in their order.

    Raises:
        DataError: If the caller's model was changed, or a shard cannot be written.
    """
    worker.model.refresh()
    first_copy = worker.model.copy
    with (
        ThreadPoolExecutor(1, thread_name_prefix="corpus-writing") as writer,
        closing(prefetched(map(worker.read, prefetched(shards)))) as rows_of_shards,
    ):
        being_written: Future[Finished] | None = None
        for rows in rows_of_shards:
            worker.explain(rows)
            worker.model.refresh()  # makes a new copy if the caller's model has changed
            if worker.model.copy is not first_copy:
                changed = "the model's modules, adapters, hooks or settings were changed while the corpus was explained"
                raise DataError(f"{changed}; start again with another --output, or with the model as it was")
            if being_written is not None:  # one is written at a time, so that no more are held in memory
                yield being_written.result()
            being_written = writer.submit(worker.write, folder, run_digest, rows)
            del rows  # freed once they are written, and not after the next shard
        if being_written is not None:
            yield being_written.result()


def prefetched(items: Iterable[T]) -> Generator[T, None, None]:
    """Iterate, computing the next item in a thread while the current one is used.

    The threads are daemons: a process that is stopped does not wait for a read of standard input.
    """
    iterator = iter(items)
    end_of_items = object()
    items_and_errors: SimpleQueue[tuple[T | object, BaseException | None]] = SimpleQueue()  # an item or an error

    def compute_next() -> None:
        """Put the next item, or the error of computing it, into the queue."""
        try:
            items_and_errors.put((next(iterator, end_of_items), None))
        except BaseException as error:  # raised again where the item is taken
            items_and_errors.put((end_of_items, error))

    def started_thread() -> threading.Thread:
        """Return a thread that computes the next item."""
        thread = threading.Thread(target=compute_next, name="corpus-prefetch", daemon=True)
        thread.start()
        return thread

    thread = started_thread()
    try:
        while True:
            item, error = items_and_errors.get()
            if error is not None:
                raise error
            if item is end_of_items:
                return
            thread = started_thread()
            yield item  # type: ignore[misc]
    finally:
        thread.join(timeout=THREAD_TIMEOUT)
