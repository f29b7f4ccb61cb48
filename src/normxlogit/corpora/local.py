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
from .rows.shards import Finished, Shard, WrittenShard
from .worker import Worker

T = TypeVar("T")

THREAD_TIMEOUT = 10
"""Seconds that a stopped run waits for what is being read."""


def limit_cached_kernels() -> None:
    """Limit the kernels that torch caches, one for each shape of a batch, unless that is set; before a model is run."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8")


def run_local(worker: Worker, folder: Folder, run_digest: str, shards: Iterator[Shard]) -> Iterator[Finished]:
    """Explain shards on this machine.

    While the model reads a shard, the next is tokenised, the one after that is read, and the one before written.

    Args:
        worker: Explains the rows.
        folder: Where shards are written.
        run_digest: The digest of the run, which the shards carry.
        shards: The shards that are left.
    """
    worker.model.refresh()
    first_copy = worker.model.copy
    with (
        ThreadPoolExecutor(1, thread_name_prefix="corpus-writing") as writer,
        closing(prefetched(map(worker.read, prefetched(shards)))) as rows_of_shards,
    ):
        being_written: tuple[Future[WrittenShard], float] | None = None  # with the share of the input read with it
        for rows in rows_of_shards:
            worker.explain(rows)
            worker.model.refresh()  # makes a new copy if the caller's model has changed
            if worker.model.copy is not first_copy:
                changed = "the model's modules, adapters, hooks or settings were changed while the corpus was explained"
                raise DataError(f"{changed}; start again with another --output, or with the model as it was")
            if being_written is not None:
                future, fraction = being_written
                yield future.result(), fraction
            being_written = writer.submit(worker.write, folder, run_digest, rows), rows.shard.fraction
            del rows  # freed once they are written, and not after the next shard
        if being_written is not None:
            future, fraction = being_written
            yield future.result(), fraction


def prefetched(items: Iterable[T]) -> Generator[T, None, None]:
    """Iterate, computing the next item in a thread while the current one is used.

    The threads are daemons: a process that is stopped does not wait for a read of standard input.
    """
    iterator = iter(items)
    end_of_items = object()
    items_or_errors: SimpleQueue[tuple[T | object, BaseException | None]] = SimpleQueue()

    def compute_next() -> None:
        try:
            items_or_errors.put((next(iterator, end_of_items), None))
        except BaseException as error:  # raised again where the item is taken
            items_or_errors.put((end_of_items, error))

    def started_thread() -> threading.Thread:
        thread = threading.Thread(target=compute_next, name="corpus-prefetch", daemon=True)
        thread.start()
        return thread

    thread = started_thread()
    try:
        while True:
            item, error = items_or_errors.get()
            if error is not None:
                raise error
            if item is end_of_items:
                return
            thread = started_thread()
            yield item  # type: ignore[misc]
    finally:
        thread.join(timeout=THREAD_TIMEOUT)
