"""Where `explain` takes its texts from, what it writes, and how it fails."""

import io
import json

import pytest

from normxlogit.results.attribution import Attribution

from .conftest import loaded
from .test_explain import explained


def piped(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")


def test_texts_from_a_file(run, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufefffirst\r\n\nsecond \u2028 line\n".encode())
    assert [a.text for a in explained(run, "zeroth", "--file", str(path))] == ["zeroth", "first", "second \u2028 line"]


def test_texts_from_standard_input(run, monkeypatch):
    monkeypatch.setattr("sys.stdin", piped("eins\nzwölf".encode()))
    assert [a.text for a in explained(run)] == ["eins", "zwölf"]


@pytest.mark.parametrize("merge", ["sum", "max", "mean", "first"])
def test_json_with_words(run, merge):
    text = "an unremittingly mediocre film"
    state = json.loads(run("explain", text, "--format", "json", "--words", "--merge", merge)[1])["attributions"][0]
    result = Attribution.from_dict(state)
    assert [(w["text"], w["start"], w["end"], w["tokens"], w["score"]) for w in state["words"]] == [
        (w.text, w.start, w.end, list(w.tokens), pytest.approx(float(w.score))) for w in result.words(merge)
    ]
    assert any(len(word["tokens"]) > 1 for word in state["words"]), "else the ways to merge are one"
    layered = json.loads(run("explain", text, "--format", "json", "--words", "--layers", "all")[1])
    count = loaded(None)._model.layer_count()
    assert [len(word["score"]) for word in layered["attributions"][0]["words"]] == [count] * 4


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.json", "{"), ("a.csv", "text_index,"), ("a.html", "<!DOCTYPE"), ("a.txt", "prediction"), ("a", "prediction")],
)
def test_output_goes_to_a_file_of_the_format_in_its_name(run, tmp_path, name, start, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    code, out, err = run("explain", "a", "--output", str(tmp_path / name))
    assert (code, out, err) == (0, "", "")
    content = (tmp_path / name).read_text(encoding="utf-8")
    assert content.lstrip().startswith(start)
    assert "\x1b" not in content


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.pdf", b"%PDF")])
@pytest.mark.parametrize("methods", [[], ["--method", "normxlogit", "--method", "logat"]])
def test_a_figure_is_written_where_the_name_asks_for_one(run, tmp_path, name, start, methods):
    code, out, err = run("explain", "a fine film", *methods, "--output", str(tmp_path / name))
    assert (code, out, err) == (0, "", "")
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_latex_is_written_of_one_text(run, tmp_path):
    assert run("explain", "a fine film", "--output", str(tmp_path / "a.tex"))[0] == 0
    assert "film" in (tmp_path / "a.tex").read_text(encoding="utf-8")
    code, _, err = run("explain", "a fine film", "a dull one", "--output", str(tmp_path / "b.tex"))
    assert code == 2
    assert "no .tex of it" in err
