"""The local engine: reading, tokenising, the model and writing at once, each in a thread of its own."""

import os
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

from ..errors import DataError
from .folder import Folder
from .prompts import ExplainedPrompts
from .shards import Done, Shard
from .worker import Explained
from .workers import Worker, write

__all__ = ["ahead", "bound_kernels", "run_local"]

T = TypeVar("T")
U = TypeVar("U")


def bound_kernels() -> None:
    """Let torch keep few kernels: it has one for every shape of a batch, and a corpus has thousands of shapes.

    It has an effect in a process that has not run a model yet; who set a number already knows better.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8")


def run_local(worker: Worker, folder: Folder, run: str, shards: Iterator[Shard]) -> Iterator[tuple[Done, float]]:
    """Explain shards on this machine.

    While the model reads a shard, the next is tokenised, the one after that is read, and the one before written.

    Args:
        worker: What explains them.
        folder: Where to write.
        run: The manifest's digest.
        shards: What to read.

    Yields:
        Each shard that is written, and the share of the input read with it.

    Raises:
        DataError: If the model was changed meanwhile: the folder is of the model that it was begun with.
    """
    worker.model.refresh()
    begun_with = worker.model.copy
    with ThreadPoolExecutor(1, thread_name_prefix="corpus-writing") as writer:
        last: Future[tuple[Done, float]] | None = None
        with closing(ahead(shards, lambda shard: shard)) as read, closing(ahead(read, worker.prepare)) as prepared:
            for one in prepared:
                explained = worker.explain(one)
                worker.model.refresh()
                if worker.model.copy is not begun_with:
                    raise DataError(
                        "the model's modules, adapters, hooks or settings were changed while the corpus was explained; "
                        "start again with another --output, or with the model as it was"
                    )
                if last is not None:
                    yield last.result()
                last = writer.submit(_write, worker, folder, run, explained)
        if last is not None:
            yield last.result()


def _write(worker: Worker, folder: Folder, run: str, explained: Explained | ExplainedPrompts) -> tuple[Done, float]:
    return write(worker, folder, run, explained), explained.shard.fraction


def ahead(items: Iterable[T], work: Callable[[T], U]) -> Generator[U, None, None]:
    """Work through an iterator in a thread, one item ahead of whoever takes them.

    Args:
        items: What to go through.
        work: What to do with each item.
    """
    waiting: queue.Queue[tuple[str, object]] = queue.Queue(1)
    stopped = threading.Event()

    def put(kind: str, value: object) -> bool:
        while not stopped.is_set():
            try:
                waiting.put((kind, value), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def go() -> None:
        try:
            for item in items:
                if not put("item", work(item)):
                    return
            put("end", None)
        except BaseException as error:  # handed to whoever waits
            put("error", error)

    thread = threading.Thread(target=go, name="corpus-ahead", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                raise value  # type: ignore[misc]
            yield value  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join(timeout=60)
