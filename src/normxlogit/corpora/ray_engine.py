"""The Ray engine: the same worker in actors of a cluster, each with a model of its own."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import DataError, NormXLogitError, optional_module, reason_of
from ..explainer import Explainer
from .folder import Folder
from .local import limit_cached_kernels, prefetched
from .rows.shards import Finished, Shard
from .worker import Settings, Worker

WAITING = 2
"""Shards that are sent to each actor ahead of the one that it explains."""


@dataclass(frozen=True)
class Cluster:
    """The resources of the Ray engine.

    Attributes:
        workers: How many actors there are, each with a model of its own.
        gpus: How many GPUs each actor takes, also a fraction of one; 0 for the CPU.
        address: The cluster's address; None takes the current one, or starts one on this machine.
    """

    workers: int = 1
    gpus: float = 0
    address: str | None = None


def run_ray(
    explainer: Explainer, settings: Settings, folder: Folder, run_digest: str, shards: Iterator[Shard], cluster: Cluster
) -> Iterator[Finished]:
    """Explain shards on a Ray cluster.

    This process reads the input and sends each actor shards, which it explains and writes. An actor that dies is
    started again and given its shards again, which it writes under the same names.

    Args:
        explainer: Explains the rows; each actor gets a copy.
        settings: What is explained, and how.
        folder: The folder that is written to.
        run_digest: The digest of the run, which the shards carry.
        shards: The shards that are left.
        cluster: The resources.

    Yields:
        Each written shard, in any order.

    Raises:
        DataError: If Ray does not start, or fails.
    """
    ray = optional_module("ray", "the engine 'ray' needs Ray: pip install 'normxlogit[ray]'")
    started_here = not ray.is_initialized()
    if started_here:
        _start(ray, cluster)
    # An actor with a GPU is placed by its GPU alone.
    resources: dict[str, float | None] = {"num_cpus": 0 if cluster.gpus else 1, "num_gpus": cluster.gpus or None}
    shared_explainer = ray.put(explainer)  # this reference keeps it: an actor may be started again
    actor = ray.remote(max_restarts=-1, max_task_retries=-1, **resources)(Actor)  # -1: without a limit
    arguments = (shared_explainer, settings, folder.location, run_digest, bool(cluster.gpus))
    actors = [actor.remote(*arguments) for _ in range(cluster.workers)]
    # A pool sends each of its actors one shard at a time, so an actor that stands in it three times has three.
    pool = ray.util.ActorPool(actors * (WAITING + 1))
    try:
        yield from _results(pool, prefetched(shards))
    except ray.exceptions.RayError as error:
        raise _wrapped_error(error) from None
    finally:
        for running_actor in actors:
            ray.kill(running_actor)
        if started_here:
            ray.shutdown()


def _results(pool: Any, shards: Iterator[Shard]) -> Iterator[Finished]:
    """Send each shard to an actor of a pool that is free, and yield what they return, in any order."""
    for shard in shards:
        if not pool.has_free():
            yield pool.get_next_unordered()
        pool.submit(lambda actor, sent: actor.explain.remote(sent), shard)
    while pool.has_next():
        yield pool.get_next_unordered()


def _start(ray: Any, cluster: Cluster) -> None:
    """Connect to a cluster, or start one on this machine."""
    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    if cluster.address in (None, "local") and "RAY_ADDRESS" not in os.environ:
        # Ray is started here, which alone takes this option; each worker needs a CPU to be placed.
        options["num_cpus"] = max(cluster.workers, os.cpu_count() or 1)
    try:
        ray.init(address=cluster.address, **options)
    except Exception as error:  # a node that takes too long to start raises nothing more special
        raise DataError(f"Ray did not start: {reason_of(error)}; try again, or take the local engine") from None


class Actor:
    """Explains and writes shards in a process of Ray, with a model of its own.

    Args:
        explainer: Explains the rows.
        settings: What is explained, and how.
        folder: The path or URL of the folder that is written to.
        run_digest: The digest of the run.
        has_gpu: Whether the model runs on a GPU.
    """

    def __init__(self, explainer: Explainer, settings: Settings, folder: str, run_digest: str, has_gpu: bool) -> None:
        limit_cached_kernels()
        if has_gpu:
            arguments = explainer.__getstate__()  # those that the explainer was made with
            model = arguments["model"].to("cuda")
            explainer = Explainer(**arguments | {"model": model})
        self.folder = Folder(folder)
        self.run_digest = run_digest
        self.worker = Worker(explainer.task_model, settings)

    def explain(self, shard: Shard) -> Finished:
        """Explain and write a shard."""
        rows = self.worker.read(shard)
        self.worker.explain(rows)
        return self.worker.write(self.folder, self.run_digest, rows)


def _wrapped_error(error: BaseException) -> Exception:
    """Return the error of this library that an error of Ray wraps; without one, an error with the message of Ray.

    Ray raises an error that has the original one as `cause`, and that is of a class made of both classes. So one of
    this library's classes that has a `cause` is still a wrapper.
    """
    inner: BaseException | None = error
    while inner is not None:
        wrapped = getattr(inner, "cause", None)
        if isinstance(inner, NormXLogitError) and wrapped is None:
            return inner
        inner = wrapped or inner.__cause__ or inner.__context__
    return DataError(f"Ray: {str(error).strip().splitlines()[-1]}")  # a traceback stands before the last line
