import contextlib
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from normxlogit.pipeline import progress
from normxlogit.pipeline.progress import progress_bar


class Shown:
    """What is written to standard error so far."""

    def __init__(self, capsys):
        self.capsys, self.text = capsys, ""

    def getvalue(self):
        self.text += self.capsys.readouterr().err
        return self.text


@pytest.fixture
def log(monkeypatch, capsys):
    """Standard error that is a file, with quick lines."""
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress, "LOG_EVERY", 0.05)
    return Shown(capsys)


def on_a_terminal(program):
    """Return what a program shows on a terminal as its standard error."""
    pty = pytest.importorskip("pty")
    reader, writer = pty.openpty()
    shown = []

    def read():
        with contextlib.suppress(OSError):  # the terminal is gone
            while chunk := os.read(reader, 4096):
                shown.append(chunk)

    thread = threading.Thread(target=read)
    thread.start()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80"}
    subprocess.run([sys.executable, "-c", program], stderr=writer, env=environment, check=True)
    os.close(writer)
    thread.join(10)
    os.close(reader)
    return b"".join(shown).decode()


def test_a_log_has_lines_while_a_single_step_runs(log):
    with progress_bar(1, None, "reading"):
        time.sleep(0.3)
    lines = log.getvalue().splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("reading: ") for line in lines)


def test_a_line_says_how_far_it_is_and_how_long_it_takes(log):
    with progress_bar(4, None) as advance:
        time.sleep(0.3)
        advance(1)
        time.sleep(0.1)
    line = log.getvalue().splitlines()[-1]
    assert line.startswith("explaining: 25%, ")
    assert line.endswith(" s left")


def _seconds_left(log):
    return [int(seconds) for seconds in re.findall(r"25%.* about (\d+) s left", log.getvalue())]


def test_the_time_that_is_left_falls_during_a_long_step(log, monkeypatch):
    monkeypatch.setattr(progress, "monotonic", lambda: 100 * time.monotonic())
    with progress_bar(4, None) as advance:
        time.sleep(0.3)
        advance(1)
        deadline = time.monotonic() + 60  # of a machine that does much else
        while len(left := _seconds_left(log)) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
    assert len(left) > 2
    assert left == sorted(left, reverse=True)
    assert left[-1] < left[0]


def waiting_threads():
    return [thread for thread in threading.enumerate() if thread.name == "normxlogit progress"]


def test_short_calls_say_nothing_and_share_a_thread_that_ends(log, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.3)
    for _ in range(20):
        with progress_bar(3, None) as advance:
            advance(3)
        assert len(waiting_threads()) == 1
    time.sleep(1)
    assert waiting_threads() == []
    assert log.getvalue() == ""


def test_calls_after_a_pause_and_in_a_row_are_shown(log):
    for pause in (0.0, 0.0, 0.3):
        time.sleep(pause)
        with progress_bar(3, None):
            time.sleep(0.2)
        assert log.getvalue().splitlines()[-1].startswith("explaining: ")
        log.text = ""


def test_a_call_of_many_short_ones_has_lines(log):
    with progress_bar(1, None, "outer"):
        for _ in range(100):
            with progress_bar(1, None, "inner"):
                time.sleep(0.003)
    assert len(log.getvalue().splitlines()) >= 2


def test_an_interrupted_call_is_not_shown_any_longer(log):
    with contextlib.suppress(KeyboardInterrupt), progress_bar(3, None):
        raise KeyboardInterrupt
    time.sleep(0.2)
    assert log.getvalue() == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_shows_its_own_progress():
    program = """
import os, time
from normxlogit.pipeline import progress
with progress.progress_bar(3, None):
    pass
progress.PATIENCE = progress.LOG_EVERY = 0.05
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    with progress.progress_bar(3, None, "child"):
        time.sleep(0.3)
"""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stderr.startswith("child: ")


@pytest.mark.parametrize(("steps", "shown"), [(1, "inner"), (4, "outer")])
def test_of_two_calls_the_outermost_with_steps_is_shown(log, steps, shown):
    with progress_bar(steps, None, "outer"), progress_bar(2, None, "inner") as advance:
        advance(1)
        time.sleep(0.2)
    assert {line.split()[0].strip(":") for line in log.getvalue().splitlines()} == {shown}


def test_nothing_is_shown_where_that_is_asked_and_in_other_threads(log):
    with progress_bar(3, False):
        time.sleep(0.15)

    def call():
        with progress_bar(3, None):
            time.sleep(0.15)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert log.getvalue() == ""


PROGRAM = """
import time
from normxlogit.pipeline import progress

progress.PATIENCE = 0.05
with progress.progress_bar(None, None, "answering") as update:
    time.sleep(0.3)
    update(completed=0.5, description="leaving out")
    time.sleep(0.3)
    with progress.progress_bar(4, None, "inner"):
        time.sleep(0.2)
try:
    with progress.progress_bar(3, True, "failing"):
        raise ValueError
except ValueError:
    pass
with progress.progress_bar(1, None, "single"):
    with progress.progress_bar(2, None, "step") as advance:
        advance(1)
        time.sleep(0.3)
"""


def test_a_terminal_has_a_line_that_goes_when_the_call_ends():
    shown = on_a_terminal(PROGRAM)
    for description in ("answering", "leaving out", " 50%", "step"):
        assert description in shown
    assert "inner" not in shown, "the outer one has steps of its own"
    assert shown.endswith(f"\r{' ' * 79}\r"), "the line is cleared"
