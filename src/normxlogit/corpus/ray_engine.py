"""The Ray engine: the same shard function under Ray Data, with an actor pool of one model each."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..explainer import Explainer
from ..results.tables import optional_module
from .folder import Done, Folder
from .formats import arrow_module
from .local import write
from .settings import Settings
from .shards import Shard
from .worker import ShardWorker

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Cluster", "run_ray"]

AHEAD = 3
"""Shards for each worker that are handed to Ray at once."""


@dataclass(frozen=True)
class Cluster:
    """What the Ray engine runs on.

    Attributes:
        workers: Actors, each with a model of its own.
        gpus: GPUs of each.
        address: The cluster's address; None takes the one around, or starts one on this machine.
    """

    workers: int = 1
    gpus: float = 0
    address: str | None = None
