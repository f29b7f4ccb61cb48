"""The Ray engine: the same shard function under Ray Data, by an actor pool with one model an actor."""

import json
import logging
import os
import pickle
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import DataError, NormXLogitError, reason_of
from ..explainer import Explainer
from ..inputs.row_sources import RowSource
from ..inputs.table_files import arrow_module
from ..results.storage.tables import optional_module
from .folder import Folder, Manifest
from .local import limit_cached_kernels
from .rows.shards import WrittenShard, left_shards
from .worker import Settings, Worker

RESULT = "result"


@dataclass(frozen=True)
class Cluster:
    """The resources of the Ray engine.

    Attributes:
        workers: Actors, each with a model of its own.
        address: The cluster's address; None takes the current one, or starts one on this machine.
    """

    workers: int = 1
    gpus: float = 0
    address: str | None = None


def run_ray(
    explainer: Explainer, settings: Settings, folder: Folder, manifest: Manifest, source: RowSource, cluster: Cluster
) -> Iterator[tuple[WrittenShard, float]]:
    """Explain shards on a Ray cluster.

    One task reads the input and hands out shards as fast as they are taken; actors explain and write them. An actor
    that dies is started again and given its shard again, which it writes under the same name.

    Yields:
        Each shard that is written, in the order in which they are done, and the share of the input read with it.
    """
    ray = optional_module("ray", "the engine 'ray' needs Ray: pip install 'normxlogit[scale]'")
    optional_module("ray.data", "the engine 'ray' needs Ray Data: pip install 'normxlogit[scale]'")
    try:
        pickle.dumps(source)
    except (TypeError, AttributeError, pickle.PicklingError):
        raise DataError(
            "a stream can be read on this machine only: save it to a file, or use the local engine"
        ) from None
    started_here = not ray.is_initialized()
    if started_here:
        own_resources = {"num_cpus": max(cluster.workers, os.cpu_count() or 1)} if _alone(cluster) else {}
        options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR", **own_resources}
        try:
            ray.init(address=cluster.address, **options)
        except Exception as error:  # a node that takes too long to start raises nothing more special
            reason = reason_of(error)
            raise DataError(f"Ray did not start: {reason}; try again, or take the local engine") from None
    context = ray.data.DataContext.get_current()
    shared_explainer = ray.put(explainer)  # as long as an actor may be started anew
    settings_before = (context.target_max_block_size, context.enable_progress_bars)
    ray_log = logging.getLogger("ray.data")
    log_level = ray_log.level
    try:
        context.target_max_block_size = 1  # a block a shard: Ray would join them and keep one actor busy
        context.enable_progress_bars = False
        shards = ray.data.read_datasource(
            _datasource(ray, source, settings, manifest), override_num_blocks=1, num_cpus=0
        )
        results = shards.map_batches(
            _Actor,
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=cluster.workers),
            num_cpus=0 if cluster.gpus else 1,
            num_gpus=cluster.gpus or None,
            fn_constructor_args=(shared_explainer, settings, folder.location, manifest.digest, bool(cluster.gpus)),
        )
        ray_log.setLevel(logging.ERROR)  # now: making a data set sets it
        for row in results.iter_rows():
            state = json.loads(row[RESULT])
            yield WrittenShard(**state["done"]), state["fraction"]
    except ray.exceptions.RayError as error:
        raise _our_own(error) from None
    finally:
        context.target_max_block_size, context.enable_progress_bars = settings_before
        ray_log.setLevel(log_level)
        if started_here:
            ray.shutdown()


def _alone(cluster: Cluster) -> bool:
    """Return whether a Ray cluster must be started on this machine."""
    return cluster.address in (None, "local") and "RAY_ADDRESS" not in os.environ


def _datasource(ray: Any, source: RowSource, settings: Settings, manifest: Manifest) -> Any:
    """Return a Ray Data source with a row for each remaining shard."""

    def read() -> Iterator[Any]:
        arrow = arrow_module()
        for shard in left_shards(source, settings.columns, settings.shard_rows, manifest.written):
            yield arrow.table({"shard": arrow.array([pickle.dumps(shard)], arrow.large_binary())})

    class Shards(ray.data.Datasource):  # type: ignore[misc]
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *args: Any, **kwargs: Any) -> list[Any]:
            metadata = ray.data.block.BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
            return [ray.data.ReadTask(read, metadata)]

    return Shards()


class _Actor:
    """Explains and writes shards; Ray keeps a pool of them."""

    def __init__(self, explainer: Any, settings: Settings, folder: str, run: str, gpu: bool) -> None:
        import ray

        limit_cached_kernels()
        explainer = ray.get(explainer) if isinstance(explainer, ray.ObjectRef) else explainer
        if gpu:
            state = explainer.__getstate__()
            explainer = Explainer(**state | {"model": state["model"].to("cuda")})
        self.folder, self.run = Folder(folder), run
        self.worker = Worker(explainer.task_model, settings)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Explain and write the shards of a batch, and return what was written."""
        written = []
        for content in batch["shard"]:
            shard = pickle.loads(content)  # noqa: S301  # written by the read task above
            explained = self.worker.explain(self.worker.prepare(shard))
            shard_written = self.worker.write(self.folder, self.run, explained)
            written.append(json.dumps({"done": asdict(shard_written), "fraction": shard.fraction}))
        return {RESULT: written}


def _our_own(error: BaseException) -> Exception:
    """Return the error of this library that an error of Ray wraps."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NormXLogitError):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__ or cause.__context__
    return DataError(f"Ray: {str(error).strip().splitlines()[-1]}")
