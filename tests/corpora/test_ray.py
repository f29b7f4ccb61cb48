import os
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest

from normxlogit import attribute
from normxlogit.corpora.ray_engine import Cluster

from .corpora import errors, explainer, jsonl, results, texts

pytest.importorskip("ray")
# Each actor imports torch anew. Where that takes longer than the limit of other tests, a wait inside Ray ends without a
# reason that is told.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow, pytest.mark.timeout(1200)]
COUNT = 160


@pytest.fixture(scope="module", autouse=True)
def cluster():
    import ray

    root = str(Path(__file__).parents[2])
    os.environ.setdefault("RAY_worker_niceness", "0")  # by default 15: any other process comes first
    environment = {"env_vars": {"PYTHONPATH": f"{root}/src:{root}"}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    yield
    ray.shutdown()


def workers():
    """Our own actors: descendants of this process that Ray calls so."""
    children = psutil.Process().children(recursive=True)
    return [process.pid for process in children if "Actor" in " ".join(process.cmdline())]


def test_a_killed_worker_loses_nothing(tmp_path):
    path = jsonl(tmp_path / "in.jsonl", [{"text": None if i == 9 else t} for i, t in enumerate(texts(COUNT))])
    model, killed = explainer(), []

    def kill(progress):
        if not killed:
            killed.extend(workers()[:1])
            os.kill(killed[0], signal.SIGKILL)

    attribute(model, path, tmp_path / "ray", shard_rows=8, engine="ray", cluster=Cluster(2), watch=kill)
    assert killed
    attribute(model, path, tmp_path / "local", shard_rows=8)
    one, two = results(tmp_path / "ray"), results(tmp_path / "local")
    floats = ["scores", "bias", "value", "probability"]  # a worker computes with as many threads as it has cores
    assert one.drop_columns(floats).equals(two.drop_columns(floats))
    for name in floats:
        for row, other in zip(one[name].to_pylist(), two[name].to_pylist(), strict=True):
            np.testing.assert_allclose(row, other, atol=1e-5)
    assert errors(tmp_path / "ray") == errors(tmp_path / "local") == {9: "no text: column 'text' is null"}
    (tmp_path / "ray/shards/00000003.parquet").unlink()
    again = attribute(model, path, tmp_path / "ray", shard_rows=8, engine="ray", cluster=Cluster(1))
    assert (again.fresh, results(tmp_path / "ray").num_rows) == (8, COUNT - 1)
