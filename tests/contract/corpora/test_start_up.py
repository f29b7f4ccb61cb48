"""In a corpus: what needs no model does not wait for torch."""

from normxlogit import attribute
from tests.tiny import explainer

from ..test_start_up import command


def test_a_corpus_is_summarised(tmp_path):
    attribute(explainer("bert"), [{"text": "the cat sat"}, {"text": "a dog"}], tmp_path / "run")
    code, out, err = command("summarize", tmp_path / "run", "--min-count", "1")
    assert (code, err) == (0, "")
    assert "cat" in out


def test_a_misspelt_method_is_refused_at_once():
    code, out, err = command("attribute", "texts.csv", "--output", "out", "--method", "normxlogt")
    assert (code, out) == (2, "")
    assert err.startswith("error: no method named 'normxlogt'; did you mean normxlogit")
