from concurrent.futures import ThreadPoolExecutor

import pytest

from normxlogit.pipeline import progress
from tests import tiny

TEXTS = [*tiny.TEXTS, *tiny.TEXTS]


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


def test_other_threads_and_commands_show_none(explainer, shown):
    with ThreadPoolExecutor(1) as worker:
        assert shown(lambda: worker.submit(explainer, TEXTS).result()) == ""
    with progress.no_bars():
        assert shown(explainer, TEXTS) == ""
