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
from typing import Any, NamedTuple

import torch

from normxlogit import Explainer, Predictions, attribute, summarize
from normxlogit.corpora.local import limit_cached_kernels
from normxlogit.errors import DataError, optional_module
from normxlogit.inputs.batches import batches

__all__ = ["corpus"]

TURNS = 5
"""Parts of the rows, each of which is run and passed through the bare model in turn."""


class Seconds(NamedTuple):
    """How long something took."""

    wall: float
    processor: float

    @classmethod
    def now(cls) -> "Seconds":
        """Return the clocks."""
        return cls(time.perf_counter(), time.process_time())

    def since(self) -> "Seconds":
        """Return what has passed since these clocks were read."""
        now = Seconds.now()
        return Seconds(now.wall - self.wall, now.processor - self.processor)


def corpus(arguments: list[str] | None = None) -> dict[str, Any]:
    """Measure what the command line asks for, and print it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks corpus", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with train.jsonl: sentence, label")
    parser.add_argument("--model", help="name or folder; the packaged model by default")
    parser.add_argument("--method", help="of the throughput; the default one by default")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ray-workers", type=int, default=0, help="also measure the Ray engine")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--once", help=argparse.SUPPRESS)  # a run in a process of its own
    options = parser.parse_args(arguments)
    if options.once:
        return _once(options)
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        results = {"rows": options.rows, "model": options.model or "packaged", "threads": torch.get_num_threads()}
        for part in options.parts:
            results[part] = PARTS[part](options)
            sys.stderr.write(f"{part}: {json.dumps(results[part])}\n")
    sys.stdout.write(json.dumps(results, indent=1) + "\n")
    return results


def _sentences(options: argparse.Namespace, rows: int) -> Iterator[str]:
    """Yield lines of the data, again from the first one on where there are fewer."""
    with (options.data_dir / "train.jsonl").open(encoding="utf-8") as file:
        yield from islice(cycle(file.readlines()), rows)


def _written(options: argparse.Namespace, rows: int) -> Path:
    """Return a file of so many rows, written if it is not there."""
    path: Path = options.folder / f"{rows}.jsonl"
    if not path.exists():
        path.write_text("".join(_sentences(options, rows)), encoding="utf-8")
    return path


def _throughput(options: argparse.Namespace) -> dict[str, Any]:
    """Return the texts per second of a run and of bare forward passes; they take turns, so that a load hits both."""
    explainer = Explainer.from_pretrained(options.model)
    texts = [json.loads(line)["sentence"] for line in _sentences(options, options.rows)]
    model = explainer.task_model
    encodings = model.encoder(texts, long_text="truncate")
    groups = list(batches(encodings, model.batch_tokens))
    random.Random(0).shuffle(groups)  # noqa: S311  # no secret
    path, out = _written(options, options.rows), options.folder / "run"
    first_rows = [{"sentence": text} for text in texts[:64]]
    attribute(explainer, first_rows, options.folder / "warm", Predictions("sentence"), method=options.method)

    def forward(turn: int, half: int) -> Seconds:
        """Pass one half, 0 or 1, of a turn's batches through the bare model."""
        part = groups[turn::TURNS][half::2]
        inputs = [model.batch([encodings[place] for place in places], places).inputs for places in part]
        start = Seconds.now()
        with torch.inference_mode():
            for batch_inputs in inputs:
                model.module(**batch_inputs)
        return start.since()

    bare: list[Seconds] = []
    runs: list[Seconds] = []
    for turn in range(TURNS):
        first, last = options.rows * turn // TURNS, options.rows * (turn + 1) // TURNS
        part = options.folder / f"part-{turn}.jsonl"
        with path.open(encoding="utf-8") as file:
            part.write_text("".join(islice(file, first, last)), encoding="utf-8")
        before = forward(turn, 0)  # half before and half after: a machine that speeds up or slows down hits both alike
        start = Seconds.now()
        attribute(explainer, part, out / str(turn), Predictions("sentence"), method=options.method)
        runs.append(start.since())
        after = forward(turn, 1)
        bare.append(Seconds(before.wall + after.wall, before.processor + after.processor))
    ratios = sorted(passes.wall / run.wall for passes, run in zip(bare, runs, strict=True))
    processor_ratio = sum(passes.processor for passes in bare) / sum(run.processor for run in runs)
    return {
        "forward texts/s": round(options.rows / sum(passes.wall for passes in bare), 1),
        "run texts/s": round(options.rows / sum(run.wall for run in runs), 1),
        "ratio": round(statistics.median(ratios), 3),
        "lowest and highest ratio": [round(ratios[0], 3), round(ratios[-1], 3)],
        "ratio of processor time": round(processor_ratio, 3),
    }


def _once(options: argparse.Namespace) -> dict[str, Any]:
    """Run once; print the peak memory and the rates."""
    path, out = options.once.split("|")  # see `_process`
    limit_cached_kernels()
    explainer = Explainer.from_pretrained(options.model)
    cluster: dict[str, Any] = {}
    if options.ray_workers:
        from normxlogit.corpora.ray_engine import Cluster

        cluster = {"engine": "ray", "cluster": Cluster(options.ray_workers)}
    start = time.perf_counter()
    run = attribute(explainer, path, out, Predictions("sentence"), keep=["label"], **cluster)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {
        "peak MiB": round(peak),
        "texts/s": round(run.fresh / seconds, 1),
        "in shards": round(run.texts_per_second, 1),
    }
    sys.stdout.write(json.dumps(result) + "\n")
    return result


def _process(options: argparse.Namespace, path: Path, out: Path, workers: int = 0) -> "subprocess.Popen[str]":
    """Start `_once` in a process of its own.

    Args:
        options: What the command line asks for.
        path: The rows.
        out: The folder of the run.
        workers: Ray workers; 0 for the local engine.
    """
    command = [sys.executable, "-m", "benchmarks", "corpus", "--data-dir", str(options.data_dir)]
    command += ["--once", f"{path}|{out}", "--ray-workers", str(workers)] + (
        ["--model", options.model] if options.model else []
    )
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603  # ours


def _memory(options: argparse.Namespace) -> dict[str, Any]:
    """Return the peak memory of a run, and of one of a tenth of the rows."""
    results = {}
    for rows in (options.rows // 10, options.rows):
        printed = _process(options, _written(options, rows), options.folder / f"memory-{rows}").communicate()[0]
        results[str(rows)] = json.loads(printed.splitlines()[-1])
    small, large = (results[str(rows)]["peak MiB"] for rows in (options.rows // 10, options.rows))
    return results | {"growth": round(large / small - 1, 3)}


def _ray(options: argparse.Namespace) -> dict[str, Any]:
    """Return the throughput of Ray workers beside the local engine's."""
    if not options.ray_workers:
        return {"skipped": "give --ray-workers"}
    path, results = _written(options, options.rows), {}
    for name, workers in (("local", 0), ("ray", options.ray_workers)):
        printed = _process(options, path, options.folder / name, workers).communicate()[0]
        results[name] = json.loads(printed.splitlines()[-1]) | {
            "started, texts/s": _once_started(options.folder / name)
        }
    rates = ("texts/s", "started, texts/s")
    ratio, started = (round(results["ray"][rate] / results["local"][rate], 3) for rate in rates)
    return results | {"ratio": ratio, "ratio once started": started}


def _once_started(out: Path) -> float:
    """Return the texts per second from the first written shard to the last, by the times of the files."""
    parquet = optional_module("pyarrow.parquet", "")
    shards = sorted(out.glob("shards/0*"), key=lambda file: file.stat().st_mtime)
    if len(shards) < 3:
        raise DataError(f"--rows: {len(shards)} shards are too few to tell a rate from")
    seconds = shards[-1].stat().st_mtime - shards[0].stat().st_mtime
    rows = sum(int(parquet.read_metadata(file).num_rows) for file in shards[1:])
    return round(rows / seconds, 1)


def _kills(options: argparse.Namespace) -> dict[str, Any]:
    """Kill a run at random moments, and count the rows at the end."""
    path, out = _written(options, options.rows), options.folder / "killed"
    draw = random.Random(0)  # noqa: S311  # no secret
    killed = 0
    for _ in range(options.kills):
        process = _process(options, path, out)
        before = len(list(out.glob("shards/0*")))
        while process.poll() is None and len(list(out.glob("shards/0*"))) == before:
            time.sleep(0.02)
        time.sleep(draw.random() * 2)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    _process(options, path, out).communicate()
    parquet = optional_module("pyarrow.parquet", "")
    rows = [row for file in sorted(out.glob("shards/0*")) for row in parquet.read_table(file)["row"].to_pylist()]
    return {"kills": killed, "rows": len(rows), "each once": sorted(rows) == list(range(options.rows))}


def _summary(options: argparse.Namespace) -> dict[str, Any]:
    """Return the seconds that a summary takes."""
    out = options.folder / f"memory-{options.rows}"  # of `_memory`, if that was measured
    if not out.exists():
        out = options.folder / "memory-summary"
        _process(options, _written(options, options.rows), out).communicate()
    start = time.perf_counter()
    summary = summarize(out, gold="label", gold_labels="id2label")
    return {"seconds": round(time.perf_counter() - start, 2), "rows": summary.rows, "cores": os.cpu_count()}


PARTS = {"throughput": _throughput, "memory": _memory, "summary": _summary, "kills": _kills, "ray": _ray}
