"""The README keeps its word."""

import re
from pathlib import Path

import pytest

from normxlogit import Explainer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = README.partition("## In Python")[2].partition("```python\n")[2].partition("```")[0]
    exec(compile(example, "README.md", "exec"), {})
    assert (tmp_path / "why.html").is_file()
    assert (tmp_path / "why.json").is_file()


def test_it_is_short():
    assert len(README.splitlines()) < 200


def test_files_that_it_links_to_are_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize(
    ("text", "label", "words"),
    [
        ("The movie is mediocre, maybe even bad.", "negative", {"mediocre", "bad"}),
        ("A warm, funny and deeply moving film.", "positive", {"warm", "funny", "moving"}),
    ],
)
def test_the_default_model_points_where_a_reader_would(text, label, words):
    result = Explainer.from_pretrained()(text)
    assert result.prediction.label == label
    ranked = sorted(result.words("max"), key=lambda word: -word.score)
    assert words <= {word.text for word in ranked[: len(words) + 1]}
