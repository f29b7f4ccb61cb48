"""The progress display of long calls: on a terminal, in the main thread, unless a caller shows its own."""

import threading

import pytest

from normxlogit import Explainer, TargetError
from normxlogit.pipeline import progress
from tests import tiny
from tests.pipeline import test_signals

TEXTS = [*tiny.TEXTS, *tiny.TEXTS]


@pytest.fixture
def explainer():
    return Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))


@pytest.fixture
def shown(monkeypatch, capsys):
    """What a call shows on a terminal, by a clock on which every call is long."""
    monkeypatch.setattr(progress, "PATIENCE", -1.0)

    def call(work, *arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr("sys.stderr.isatty", lambda: True)
            work(*arguments, **options)
        return capsys.readouterr().err

    return call


def test_a_long_call_shows_its_progress_on_a_terminal(explainer, shown):
    assert "100%" in shown(explainer, TEXTS)
    assert shown(explainer, TEXTS, progress=False) == ""
    assert shown(explainer, TEXTS[0]) == "", "one text needs none"


def test_so_do_questions_pictures_and_completions(shown):
    questions = [("the cat", ["was good", "was bad"])] * 3
    chooser = Explainer(tiny.model("bert", "MultipleChoice"), tiny.tokenizer_for("bert"))
    assert "100%" in shown(chooser, questions)
    assert shown(chooser, questions, progress=False) == ""
    seer = Explainer(test_signals.vit(), test_signals.PROCESSOR)
    assert "100%" in shown(seer, [test_signals.picture(), test_signals.picture()])
    writer = Explainer(tiny.model("gpt2", "CausalLM"), tiny.tokenizer_for("gpt2"))
    assert "100%" in shown(writer.explain_completion, ["the cat", "a film"], [" was", " is good"])


def test_no_terminal_no_bar_unless_asked(explainer, capsys):
    explainer(TEXTS)
    assert capsys.readouterr().err == ""
    explainer(TEXTS, progress=True)
    assert capsys.readouterr().out == ""


def test_other_threads_and_commands_show_none(explainer, shown):
    def aside():
        worker = threading.Thread(target=explainer, args=(TEXTS,))
        worker.start()
        worker.join()

    assert shown(aside) == ""
    with progress.no_bars():
        assert shown(explainer, TEXTS) == ""


def test_the_bar_ends_with_an_error(explainer, shown):
    def failing():
        with progress.progress_bar(3, True) as advance:
            advance(1)
            explainer(TEXTS, target="no such label")

    with pytest.raises(TargetError):
        shown(failing)
    assert shown(explainer, TEXTS), "the next call has its own"
