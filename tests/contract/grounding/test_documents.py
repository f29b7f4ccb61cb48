"""Documents as people and retrievers have them: texts, rows, objects with metadata, files."""

import io
from functools import partial
from types import SimpleNamespace

import matplotlib
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from datasets import Dataset
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from normxlogit import DataError, InputError
from tests import tiny
from tests.commands import run
from tests.contract.compare import refused

ONE, TWO = "the movie is good .", "the plot is bad ."


@pytest.fixture(scope="module")
def names():
    explainer = tiny.explainer("llama", "CausalLM")

    def of(documents):
        answer = explainer.cite("is it good ?", documents, answer="the movie was great")
        return dict(zip(answer.names, (answer.text[slice(*span)] for span in answer.spans), strict=True))

    return of


def document(text, metadata=()):
    return SimpleNamespace(text=text, metadata=dict(metadata))


def test_texts_files_and_objects_with_a_text(names, tmp_path):
    both = {"a.md:1": ONE, "b.pdf, page 2:1": TWO}
    sources = [{"source": "a.md"}, {"source": "b.pdf", "page": 2}]
    texts = list(zip((ONE, TWO), sources, strict=True))
    for name in ("page_content", "text", "content"):
        for about in ("metadata", "meta"):
            assert names([SimpleNamespace(**{name: text, about: meta}) for text, meta in texts]) == both
            assert names([{name: text, about: meta} for text, meta in texts]) == both
    assert names([{"text": text, **meta} for text, meta in texts]) == both  # rows
    assert names(document(ONE, sources[0])) == {"a.md:1": ONE}
    assert names({"text": ONE, "metadata": {}}) == {"document 1:1": ONE}
    assert names({"x": document(ONE), "y": TWO}) == {"x:1": ONE, "y:1": TWO}
    (tmp_path / "a.md").write_text(ONE)
    assert names([tmp_path / "a.md", TWO]) == {"a.md:1": ONE, "document 2:1": TWO}
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.md").write_text(TWO)
    assert names([tmp_path / "b" / "a.md", tmp_path / "a.md"]) == {"b/a.md:1": TWO, "a.md:1": ONE}


def test_the_name_of_a_file_is_not_its_text(names, tmp_path, monkeypatch):
    (tmp_path / "a.md").write_text(ONE)
    monkeypatch.chdir(tmp_path)
    refused(InputError, "document 1 is the name of a file", partial(names, ["a.md"]))
    assert names(["b.md"]) == {"document 1:1": "b.md"}


def test_chunks_of_one_file_are_told_apart(names):
    chunks = [document(text, {"source": "a.md"}) for text in (ONE, TWO)]
    assert names(chunks) == {"a.md:1": ONE, "a.md (2):1": TWO}


@pytest.mark.parametrize(
    "table", [pd.DataFrame, pl.DataFrame, pa.table, Dataset.from_dict], ids=["pandas", "polars", "arrow", "datasets"]
)
def test_rows_of_tables(names, table):
    columns = {"text": [ONE, TWO], "title": ["a", "b"], "year": [1, 2]}
    assert names(table(columns)) == {"a:1": ONE, "b:1": TWO}


def test_documents_without_a_text_are_refused_by_name(names):
    refused(
        InputError, "document 2 has no text: expected a string or page", partial(names, [ONE, {"a": "x", "b": "y"}])
    )
    for missing in (None, 3, object()):
        refused(InputError, "document 2 has no text", partial(names, [ONE, missing]))
    for documents in (None, 3, {ONE, TWO}, b"bytes"):
        refused(InputError, "expected documents", partial(names, documents))


def test_the_visible_text_of_a_page_is_read(names, tmp_path):
    page = tmp_path / "a.html"
    page.write_text(
        "<html><head><title>no</title><style>p { no }</style></head><body><nav hidden>no</nav>"
        "<p>the <b>movie</b> is\n good .</p><script>no</script><p>the plot is bad .</body>"
    )
    assert names([page]) == {"a.html:1": ONE, "a.html:2": TWO}
    page.write_bytes(b'<meta charset="latin-1"><p>caf\xe9 is good .')
    assert names([page]) == {"a.html:1": "caf\xe9 is good ."}
    page.write_text("<ul><li>the cat<li>the mat</ul><table><tr><td>a<td>b</table>it is", encoding="utf-16")
    assert names([page]) == {"a.html:1": "the cat\nthe mat", "a.html:2": "a\nb", "a.html:3": "it is"}
    page.write_bytes(b"<p>caf\xe9")
    refused(DataError, r"a\.html is not text", partial(names, [page]))


def pdf(*texts):
    """Return a PDF file with a page for each text."""
    content = io.BytesIO()
    with matplotlib.rc_context({"pdf.fonttype": 42}), PdfPages(content) as pages:
        for text in texts:
            figure = Figure()
            figure.text(0.1, 0.5, text)
            pages.savefig(figure)
    return content.getvalue()


def test_the_pages_of_a_pdf_are_documents(names, tmp_path):
    file = tmp_path / "report.pdf"
    file.write_bytes(pdf(ONE, TWO))
    assert names([file]) == {"report.pdf, page 1:1": ONE, "report.pdf, page 2:1": TWO}
    file.write_bytes(pdf(""))
    refused(DataError, "has no text", partial(names, [file]))
    for damaged in (b"", b"%PDF-1.4", pdf(ONE)[:300], b"\xff" * 500):
        file.write_bytes(damaged)
        refused(DataError, r"report\.pdf", partial(names, [file]))
    refused(DataError, "cannot read", partial(names, [tmp_path / "no.txt"]))


def test_the_command_reads_a_folder_of_all_kinds(tmp_path, capsys):
    model = tmp_path / "model"
    tiny.save(model, "llama", "CausalLM")
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.html").write_text(f"<p>{ONE}")
    (folder / "b.pdf").write_bytes(pdf(TWO))
    asked = ["cite", folder, "--question", "is it good ?", "--model", model]
    code, out, err = run(capsys, *asked, "--max-new-tokens", 2, "--format", "json")
    assert code == 0, err
    for part in ("a.html:1", "b.pdf, page 1:1"):
        assert part in out


@pytest.mark.parametrize("empty", ["", "  ", None, float("nan")])
def test_a_document_without_a_text_is_left_out_and_its_title_is_not_the_text(empty) -> None:
    asked = {"question": "is it good ?", "answer": "it is .", "verify": 0}
    cite = partial(tiny.explainer("llama", "CausalLM").cite, **asked)
    untexted = {"page_content": empty, "source": "pool.pdf", "title": "the movie"}
    both = [untexted, {"page_content": "the movie is good .", "source": "film.txt"}]
    assert cite(documents=both).names == ("film.txt:1",)
    refused(InputError, "no document with a text", partial(cite, documents=[untexted]))
    refused(InputError, "has no text", partial(cite, documents=[{"title": "the movie", "source": "a"}]))
