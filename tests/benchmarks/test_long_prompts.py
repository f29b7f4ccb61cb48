"""What a long prompt takes, beside the same with everything kept."""

import re

import pytest

from benchmarks import long_prompts
from benchmarks.long_prompts import Taken
from normxlogit import DataError
from tests.benchmarks.sizes import LLAMA, written

SHAPE = LLAMA | {"vocab_size": 31000, "num_hidden_layers": 16, "intermediate_size": 1024}


def test_running_layers_again_takes_less_memory():
    ((ours, everything),) = long_prompts.compare([1000], SHAPE)
    assert (ours.kept, everything.kept) == (False, True)
    assert 900 < ours.tokens == everything.tokens <= 1020
    assert 0 < ours.gibibytes < 0.8 * everything.gibibytes
    assert ours.seconds > 0


def test_a_process_that_fails_is_an_error(failing_python):
    with pytest.raises(DataError, match="measuring 50 tokens failed: no such thing"):
        list(long_prompts.compare([50], SHAPE))


def test_the_command_prints_a_row_for_each_length(monkeypatch, capsys):
    asked = []

    def compare(lengths, on_progress):
        asked.extend(lengths)
        return [(Taken(n, False, n / 1000, 2.4), Taken(n, True, n / 500, 1.6)) for n in lengths]

    monkeypatch.setattr(long_prompts, "compare", compare)
    out = written(capsys, "long-prompts", "--tokens", "1000 4000")
    assert asked == [1000, 4000]
    assert re.findall(r"^\| \d.*", out, re.MULTILINE) == [
        "| 1000 | 1.00 GiB | 2.00 GiB | 2 s | 2 s |",
        "| 4000 | 4.00 GiB | 8.00 GiB | 2 s | 2 s |",
    ]
