"""What a long conversation takes, with and without a test of its citations."""

import re

import pytest

from benchmarks import long_conversations
from benchmarks.commands import main
from benchmarks.long_conversations import Taken
from normxlogit import DataError
from tests.benchmarks.sizes import LLAMA, written

SHAPE = LLAMA | {"vocab_size": 31000, "max_position_embeddings": 4000}


def test_a_conversation_is_measured_twice():
    plain, tested = long_conversations.compare([700], 2, shape=SHAPE)
    assert (plain.verify, plain.left_out, tested.verify, tested.left_out) == (0, 0, 2, 2)
    assert 500 < plain.tokens == tested.tokens <= 700
    assert plain.sources == tested.sources > 30
    assert 0 < plain.seconds < tested.seconds


def test_a_process_that_fails_is_an_error(monkeypatch, tmp_path):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    with pytest.raises(DataError, match="measuring 50 tokens failed: no such thing"):
        list(long_conversations.compare([50], shape=SHAPE))


def test_the_command_prints_a_row_for_each_length(monkeypatch, capsys):
    asked = {}

    def compare(lengths, verify, **options):
        asked.update(options, verify=verify)
        return [taken for n in lengths for taken in (Taken(n, 9, 0, 0, n / 1000, 2.4), Taken(n, 9, verify, 3, 1, 4.6))]

    monkeypatch.setattr(long_conversations, "compare", compare)
    out = written(capsys, "long-prompts", "--conversations", "--tokens", "1000 4000", "--verify", "3")
    assert (asked["verify"], asked["model"], asked["gguf_file"]) == (3, None, None)
    assert re.findall(r"^\| \d.*", out, re.MULTILINE) == [
        "| 1000 | 9 | `verify=0` | 0 | 1.00 GiB | 2 s |",
        "| 1000 | 9 | `verify=3` | 3 | 1.00 GiB | 5 s |",
        "| 4000 | 9 | `verify=0` | 0 | 4.00 GiB | 2 s |",
        "| 4000 | 9 | `verify=3` | 3 | 1.00 GiB | 5 s |",
    ]


def test_options_of_conversations_are_refused_without_them(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["long-prompts", "--verify", "3"])
    assert (stop.value.code, "--conversations" in capsys.readouterr().err) == (2, True)
