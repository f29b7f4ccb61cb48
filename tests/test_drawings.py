"""The pictures of the docs show what is drawn today: their texts are compared, not their bytes."""

import pytest

pytest.importorskip("playwright")
from scripts import drawings
from tests.same_text import same

AGAIN = "is out of date: python scripts/drawings.py"


def test_the_figure_of_the_frontier_is_that_of_its_tables(tmp_path):
    drawings.frontier(tmp_path)
    shown = drawings.shown_by_picture(drawings.IMAGES / "frontier.svg")
    assert "frozen-gradient" in shown
    assert same(shown, drawings.shown_by_picture(tmp_path / "frontier.svg")), f"frontier.svg {AGAIN}"


def test_screenshots_show_the_pages_of_today():
    for name, content in drawings.drawn_pages().items():
        shown = drawings.shown_by_picture(drawings.IMAGES / f"{name}.png")
        assert len(shown) > 50
        assert same(shown, drawings.shown_by_page(content)), f"{name}.png {AGAIN}"


def test_the_pictures_of_the_app_show_its_fields_and_its_result_of_today():
    pytest.importorskip("gradio")
    today = drawings.shown_by_app()
    assert "Rather than" in today
    assert "frozen-gradient" in today
    for name in ("app", "app-phone"):
        assert same(drawings.shown_by_picture(drawings.IMAGES / f"{name}.png"), today), f"{name}.png {AGAIN}"


def test_the_gallery_shows_the_figures_of_today(tmp_path, monkeypatch):
    monkeypatch.setattr(drawings, "find_spec", lambda name: None)  # loading the small language model takes a minute
    drawings.gallery(tmp_path)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) >= 5
    for path in drawn:
        shown = drawings.shown_by_picture(drawings.IMAGES / path.name)
        assert same(shown, drawings.shown_by_picture(path)), f"{path.name} {AGAIN}"
