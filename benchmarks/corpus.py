"""A corpus run against bare forward passes: throughput, memory, kills and the summary."""

import argparse
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch

from normxlogit import Explainer, attribute, summarize
from normxlogit.corpus.local import bound_kernels
from normxlogit.errors import DataError
from normxlogit.inputs.batching import batches
from normxlogit.results.tables import optional_module

__all__ = ["corpus"]


def corpus(arguments: list[str] | None = None) -> dict[str, Any]:
    """Measure what the command line asks for, and print it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks corpus", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with train.jsonl: sentence, label")
    parser.add_argument("--model", help="name or folder; the packaged model by default")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ray-workers", type=int, default=0, help="also measure the Ray engine")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--once", help=argparse.SUPPRESS)  # a run in a process of its own
    given = parser.parse_args(arguments)
    if given.once:
        return _once(given)
    with tempfile.TemporaryDirectory() as folder:
        given.folder = Path(folder)
        found = {"rows": given.rows, "model": given.model or "packaged", "threads": torch.get_num_threads()}
        for part in given.parts:
            found[part] = PARTS[part](given)
            sys.stderr.write(f"{part}: {json.dumps(found[part])}\n")
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return found


def _sentences(given: argparse.Namespace, rows: int) -> Iterator[str]:
    with (given.data_dir / "train.jsonl").open(encoding="utf-8") as file:
        yield from islice(cycle(file.readlines()), rows)


def _written(given: argparse.Namespace, rows: int) -> Path:
    path: Path = given.folder / f"{rows}.jsonl"
    if not path.exists():
        path.write_text("".join(_sentences(given, rows)), encoding="utf-8")
    return path


def _throughput(given: argparse.Namespace) -> dict[str, Any]:
    """Return the texts per second of a run and of bare forward passes; they take turns, so that a load hits both."""
    explainer = Explainer.from_pretrained(given.model)
    texts = [json.loads(line)["sentence"] for line in _sentences(given, given.rows)]
    model = explainer._model
    encodings = model.encoder.columns(texts)[0]
    groups = list(batches(encodings, model.batch_tokens))
    random.Random(0).shuffle(groups)  # noqa: S311  # no secret
    path, out = _written(given, given.rows), given.folder / "run"
    bare = [(0.0, 0.0)] * TURNS  # seconds, and processor seconds
    marks: list[tuple[float, float]] = []
    attribute(explainer, [{"sentence": text} for text in texts[:64]], given.folder / "warm", text_column="sentence")

    def forward(turn: int, half: int) -> None:
        part = groups[turn::TURNS][half::2]
        inputs = [model.batch(encodings.take(places), places).inputs for places in part]
        begin = time.perf_counter(), time.process_time()
        with torch.inference_mode():
            for one in inputs:
                model.module(**one)
        seconds, spent = bare[turn]
        bare[turn] = seconds + time.perf_counter() - begin[0], spent + time.process_time() - begin[1]

    for turn in range(TURNS):
        first, last = given.rows * turn // TURNS, given.rows * (turn + 1) // TURNS
        part = given.folder / f"part-{turn}.jsonl"
        with path.open(encoding="utf-8") as file:
            part.write_text("".join(islice(file, first, last)), encoding="utf-8")
        forward(turn, 0)  # half before and half after, so that a machine that speeds up or slows down hits both alike
        begin = time.perf_counter(), time.process_time()
        attribute(explainer, part, out / str(turn), text_column="sentence")
        marks.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
        forward(turn, 1)
    ratios = sorted(one[0] / other[0] for one, other in zip(bare, marks, strict=True))
    return {
        "forward texts/s": round(given.rows / sum(seconds for seconds, _ in bare), 1),
        "run texts/s": round(given.rows / sum(seconds for seconds, _ in marks), 1),
        "ratio": round(statistics.median(ratios), 3),
        "lowest and highest ratio": [round(ratios[0], 3), round(ratios[-1], 3)],
        "ratio of processor time": round(sum(cpu for _, cpu in bare) / sum(cpu for _, cpu in marks), 3),
    }


TURNS = 5


def _once(given: argparse.Namespace) -> dict[str, Any]:
    """Run once; print the peak memory and the rates."""
    path, out = given.once.split("|")
    bound_kernels()
    explainer = Explainer.from_pretrained(given.model)
    cluster: dict[str, Any] = {}
    if given.ray_workers:
        from normxlogit.corpus.ray_engine import Cluster

        cluster = {"engine": "ray", "cluster": Cluster(given.ray_workers)}
    begin = time.perf_counter()
    done = attribute(explainer, path, out, text_column="sentence", keep=["label"], **cluster)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {
        "peak MiB": round(peak),
        "texts/s": round(done.fresh / seconds, 1),
        "in shards": round(done.texts_per_second, 1),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    return found


def _process(given: argparse.Namespace, path: Path, out: Path, workers: int = 0) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks", "corpus", "--data-dir", str(given.data_dir)]
    command += ["--once", f"{path}|{out}", "--ray-workers", str(workers)] + (
        ["--model", given.model] if given.model else []
    )
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603  # ours


def _memory(given: argparse.Namespace) -> dict[str, Any]:
    """Return the peak memory of a run, and of one of a tenth of the rows."""
    found = {}
    for rows in (given.rows // 10, given.rows):
        said = _process(given, _written(given, rows), given.folder / f"memory-{rows}").communicate()[0]
        found[str(rows)] = json.loads(said.splitlines()[-1])
    small, large = (found[str(rows)]["peak MiB"] for rows in (given.rows // 10, given.rows))
    return found | {"growth": round(large / small - 1, 3)}


def _ray(given: argparse.Namespace) -> dict[str, Any]:
    """Return the throughput of Ray workers beside the local engine's."""
    if not given.ray_workers:
        return {"skipped": "give --ray-workers"}
    path, found = _written(given, given.rows), {}
    for name, workers in (("local", 0), ("ray", given.ray_workers)):
        said = _process(given, path, given.folder / name, workers).communicate()[0]
        found[name] = json.loads(said.splitlines()[-1]) | {"started, texts/s": _once_started(given.folder / name)}
    rates = ("texts/s", "started, texts/s")
    whole, started = (round(found["ray"][rate] / found["local"][rate], 3) for rate in rates)
    return found | {"ratio": whole, "ratio once started": started}


def _once_started(out: Path) -> float:
    """Return the texts per second from the first written shard to the last, by the times of the files."""
    parquet = optional_module("pyarrow.parquet", "")
    shards = sorted(out.glob("shards/0*"), key=lambda file: file.stat().st_mtime)
    if len(shards) < 3:
        raise DataError(f"--rows: {len(shards)} shards are too few to tell a rate from")
    seconds = shards[-1].stat().st_mtime - shards[0].stat().st_mtime
    rows = sum(int(parquet.read_metadata(file).num_rows) for file in shards[1:])
    return round(rows / seconds, 1)


def _kills(given: argparse.Namespace) -> dict[str, Any]:
    """Kill a run at random moments, and count the rows at the end."""
    path, out = _written(given, given.rows), given.folder / "killed"
    chance, killed = random.Random(0), 0  # noqa: S311  # no secret
    for _ in range(given.kills):
        process = _process(given, path, out)
        before = len(list(out.glob("shards/0*")))
        while process.poll() is None and len(list(out.glob("shards/0*"))) == before:
            time.sleep(0.02)
        time.sleep(chance.random() * 2)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    _process(given, path, out).communicate()
    parquet = optional_module("pyarrow.parquet", "")
    rows = [row for file in sorted(out.glob("shards/0*")) for row in parquet.read_table(file)["row"].to_pylist()]
    return {"kills": killed, "rows": len(rows), "each once": sorted(rows) == list(range(given.rows))}


def _summary(given: argparse.Namespace) -> dict[str, Any]:
    """Return the seconds that a summary takes."""
    out = given.folder / "memory-summary"
    if not (given.folder / f"memory-{given.rows}").exists():
        _process(given, _written(given, given.rows), out).communicate()
    else:
        out = given.folder / f"memory-{given.rows}"
    begin = time.perf_counter()
    found = summarize(out, gold="label")
    return {"seconds": round(time.perf_counter() - begin, 2), "rows": found.rows, "cores": os.cpu_count()}


PARTS = {"throughput": _throughput, "memory": _memory, "summary": _summary, "kills": _kills, "ray": _ray}
