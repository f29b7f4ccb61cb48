"""Stopped in every way there is, and started again: exactly one row for every row of the input."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from normxlogit import DataError, attribute
from tests.commands import run
from tests.contract.compare import refused
from tests.corpora.corpora import errors, explainer, jsonl, results, texts

from ..faults import full_disk

COUNT = 200
ROOT = Path(__file__).parents[3]


@pytest.fixture
def corpus(tmp_path):
    rows = [{"text": None if i % 50 == 7 else text} for i, text in enumerate(texts(COUNT))]
    return jsonl(tmp_path / "in.jsonl", rows)


def start(*arguments):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def stop_at_work(process, out, number, delay):
    """Send a signal some time after the run has written something new."""
    before = count(out)
    while count(out) == before and process.poll() is None:
        time.sleep(0.01)
    time.sleep(delay)
    process.send_signal(number)
    return process.communicate(timeout=120)[1]


def count(out):
    return len(list((out / "shards").glob("0*.parquet"))) if out.exists() else 0


def check(out):
    done, wrong = results(out)["row"].to_pylist(), errors(out)
    assert sorted([*done, *wrong]) == list(range(COUNT))
    assert sorted(wrong) == list(range(7, COUNT, 50))
    assert not list(out.rglob(".writing-*"))


MAIN = """import signal; signal.signal(signal.SIGINT, signal.default_int_handler)
from normxlogit.cli import main; main()"""
"""The command; a shell that starts tests in the background has them ignore Ctrl-C."""

MANY = [*[signal.SIGKILL] * 7, signal.SIGTERM, signal.SIGINT]


@pytest.mark.parametrize("stops", [[signal.SIGKILL, signal.SIGINT], pytest.param(MANY, marks=pytest.mark.slow)])
def test_killed_and_asked_to_stop_at_random_moments(corpus, tmp_path, stops, capsys):
    out, chance, killed = tmp_path / "out", random.Random(5), 0
    rows = 16 // len(stops)  # of a shard: enough of them are left for the last stop
    words = ["attribute", corpus, "--output", out, "--shard-rows", rows]
    for number in stops:
        process = start("-c", MAIN, *words)
        said = stop_at_work(process, out, number, chance.random() * 0.3)
        killed += process.returncode == -signal.SIGKILL
    assert killed >= len(stops) / 3
    assert process.returncode == 128 + number
    assert said.splitlines()[-1] == f"stopped; the same command resumes {out}"
    assert 0 < count(out) < COUNT / rows
    assert run(capsys, *words)[0] == 0
    check(out)


def test_a_full_disk_leaves_whole_shards(corpus, tmp_path):
    out, whole = tmp_path / "out", tmp_path / "whole"
    attribute(explainer(), corpus, whole, shard_rows=8, method="normxlogit", keep_text=False)
    largest = max(file.stat().st_size for file in whole.rglob("*.parquet"))
    with full_disk(largest - 1), pytest.raises(DataError, match="cannot write"):  # one shard is larger, most are not
        attribute(explainer(), corpus, out, shard_rows=8, method="normxlogit", keep_text=False)
    assert 0 < results(out).num_rows < COUNT
    attribute(explainer(), corpus, out, shard_rows=8, method="normxlogit", keep_text=False)
    check(out)


def test_a_folder_that_cannot_be_written(corpus, tmp_path):
    (tmp_path / "file").write_text("")
    refused(DataError, "cannot write", lambda: attribute(explainer(), corpus, tmp_path / "file" / "out"))
