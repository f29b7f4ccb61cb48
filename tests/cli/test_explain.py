"""`explain`: where its texts come from, what is typed, and what it writes."""

import io
import json
import re

import numpy as np
import pytest

from normxlogit.methods import NormXLogit
from normxlogit.results.attribution import Attribution
from tests import tiny

from .conftest import loaded

TEXT = "The movie is mediocre, maybe even bad."
LABELS = {0: "bad", 1: "good", 2: "0"}


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A classifier of three labels, one of which is called "0"."""
    return str(tiny.save(tmp_path_factory.mktemp("three"), "bert", num_labels=3, id2label=LABELS))


def explained(run, *arguments):
    code, out, err = run("explain", *arguments, "--format", "json")
    assert (code, err) == (0, "")
    return [Attribution.from_dict(state) for state in json.loads(out)["attributions"]]


def test_explain_draws_the_sentence_with_its_test(run):
    code, out, err = run("explain", TEXT)
    assert (code, err) == (0, "")
    assert re.search(r"maybe(\([-+]+\))?.* bad\(\++\)", out)
    assert "\x1b" not in out
    assert out == str(loaded(None)(TEXT, verify=5)) + "\n"
    assert 'Without "mediocre" and "bad": positive' in " ".join(out.split())


def test_options_reach_the_explainer(run, three):
    found = explained(
        run,
        *("a", "b", "--pair", "cat", "--model", three, "--target", "good", "--contrast", "bad", "--layers", "1,3"),
        *("--method", "normxlogit:norm_of=word_embedding"),
    )
    options = {"method": NormXLogit("word_embedding"), "target": "good", "contrast": "bad", "layers": [1, 3]}
    assert found == loaded(three)([("a", "cat"), ("b", "cat")], **options)
    code, _, err = run("explain", "cat " * 100, "--model", three, "--long-text", "error")
    assert code == 2
    assert "the model reads 40" in err


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (["--target", "good"], (1,)),
        (["--target", "1"], (1,)),
        (["--target", "0"], (2,)),  # there is a label of this name
        (["--target", "bad", "--target", "2"], (0, 2)),
        (["--all-labels"], (0, 1, 2)),
    ],
)
def test_targets(run, three, arguments, ids):
    (found,) = explained(run, "a cat", "--model", three, *arguments)
    assert tuple(target.id for target in found.targets) == ids
    expected = loaded(three)("a cat", target=list(ids) if len(ids) > 1 else ids[0])
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_digits_are_an_entry_of_a_vocabulary_only_where_no_token_is_called_so(run, tmp_path):
    masked, good = tiny.save(tmp_path, "bert", "MaskedLM"), tiny.VOCABULARY["good"]
    (found,) = explained(run, tiny.MASKED, "--model", str(masked), "--target", str(good), "--contrast", "is")
    assert (found.target.name, found.target.contrast) == ("good", "is")


def test_the_name_of_a_file_is_not_explained_as_a_text(run, tmp_path, monkeypatch):
    (tmp_path / "reviews.csv").write_text("a fine film\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code, _, err = run("explain", "reviews.csv")
    assert code == 2
    assert "--file reviews.csv" in err
    assert [a.text for a in explained(run, "--file", "reviews.csv")] == ["a fine film"]


def test_texts_from_a_file_or_from_standard_input(run, tmp_path, monkeypatch):
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufefffirst\r\n\nsecond \u2028 line\n".encode())
    assert [a.text for a in explained(run, "zeroth", "--file", str(path))] == ["zeroth", "first", "second \u2028 line"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("eins\nzwölf".encode()), encoding="utf-8"))
    assert [a.text for a in explained(run)] == ["eins", "zwölf"]
