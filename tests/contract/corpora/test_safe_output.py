"""In a corpus: text."""

from normxlogit import Explainer, attribute
from tests import tiny
from tests.commands import run

from ..test_safe_output import NAME, check_line, check_page


def summarized(name, folder, capsys):
    """Explain a corpus of a model, texts and labels with a name, and return what is printed of it and its page."""
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    model.config.id2label = {0: name, 1: "b"}
    tokenizer.add_tokens([name])
    model.resize_token_embeddings(len(tokenizer) + 8)
    rows = [{"text": f"the cat {name} sat", "label": name}] * 12
    attribute(Explainer(model, tokenizer, name=name), rows, folder, keep_text=True, keep=["label"])
    code, out, err = run(capsys, "summarize", folder, "--gold", "label")
    assert (code, err) == (0, "")
    page = folder.with_suffix(".html")
    code, _, err = run(capsys, "summarize", folder, "--gold", "label", "--output", page)
    assert (code, err) == (0, f"wrote {page}\n")
    return out, page.read_text("utf-8")


def test_the_page_and_the_lists_of_a_corpus(tmp_path, capsys):
    out, page = summarized(NAME, tmp_path / "hostile", capsys)
    check_line(out)
    check_page(page, summarized("word", tmp_path / "harmless", capsys)[1])
