"""Documents as people and retrievers have them: texts, rows, objects with metadata, files."""

from types import SimpleNamespace

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset

from normxlogit import Answers, DataError, InputError, attribute
from tests import tiny
from tests.commands import run

ONE, TWO = "the movie is good .", "the plot is bad ."


@pytest.fixture(scope="module")
def names():
    explainer = tiny.explainer("llama", "CausalLM")

    def of(documents):
        answer = explainer.cite("is it good ?", documents, answer="the movie was great")
        return dict(zip(answer.names, (answer.text[slice(*span)] for span in answer.spans), strict=True))

    return of


def langchain(text, metadata=()):
    return SimpleNamespace(page_content=text, metadata=dict(metadata))


def haystack(text, meta):
    return SimpleNamespace(content=text, meta=meta)


def llama_index(text, metadata):
    return SimpleNamespace(node=SimpleNamespace(text=text, metadata=metadata), score=0.5, get_content=lambda: text)


def test_texts_files_and_retrievers_documents(names, tmp_path):
    both = {"a.md:1": ONE, "b.pdf, page 2:1": TWO}
    sources = [{"source": "a.md"}, {"source": "b.pdf", "page": 2}]
    texts = list(zip((ONE, TWO), sources, strict=True))
    assert names([langchain(text, meta) for text, meta in texts]) == both
    assert names([(langchain(text, meta), 0.7) for text, meta in texts]) == both  # similarity_search_with_score
    assert names([haystack(text, meta) for text, meta in texts]) == both
    assert names([llama_index(text, meta) for text, meta in texts]) == both
    assert names([{"page_content": text, "metadata": meta} for text, meta in texts]) == both
    assert names(langchain(ONE, sources[0])) == {"a.md:1": ONE}
    assert names({"page_content": ONE, "metadata": {}}) == {"document 1:1": ONE}
    assert names({"x": langchain(ONE), "y": TWO}) == {"x:1": ONE, "y:1": TWO}
    (tmp_path / "a.md").write_text(ONE)
    assert names([tmp_path / "a.md", TWO]) == {"a.md:1": ONE, "document 2:1": TWO}
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.md").write_text(TWO)
    assert names([tmp_path / "b" / "a.md", (tmp_path / "a.md", 0.5)]) == {"b/a.md:1": TWO, "a.md:1": ONE}


def test_answers_of_searches(names):
    text, named = {"text": ONE, "source": "a.md"}, {"a.md:1": ONE}
    assert names({"ids": [["1"]], "documents": [[ONE]], "metadatas": [[{}]]}) == {"document 1:1": ONE}  # Chroma
    assert names({"documents": [haystack(ONE, {"source": "a.md"})]}) == named
    assert names({"retriever": {"documents": [haystack(ONE, {"source": "a.md"})]}}) == named  # Haystack's Pipeline.run
    assert names({"matches": [{"id": "1", "score": 0.3, "metadata": text}]}) == named  # Pinecone
    assert names(SimpleNamespace(points=[SimpleNamespace(id=1, score=0.5, payload=text)])) == named  # Qdrant
    assert names({"hits": {"hits": [{"_index": "i", "_id": "1", "_source": text}]}}) == named  # Elasticsearch
    answer = SimpleNamespace(response="an answer", source_nodes=[llama_index(ONE, {"source": "a.md"})])
    assert names(answer) == named


def test_the_name_of_a_file_is_not_its_text(names, tmp_path, monkeypatch):
    (tmp_path / "a.md").write_text(ONE)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="document 1 is the name of a file"):
        names(["a.md"])
    assert names(["b.md"]) == {"document 1:1": "b.md"}


def test_chunks_of_one_file_are_told_apart(names):
    chunks = [langchain(text, {"source": "a.md"}) for text in (ONE, TWO)]
    assert names(chunks) == {"a.md:1": ONE, "a.md (2):1": TWO}


@pytest.mark.parametrize(
    "table", [pd.DataFrame, pl.DataFrame, pa.table, Dataset.from_dict], ids=["pandas", "polars", "arrow", "datasets"]
)
def test_rows_of_tables(names, table):
    columns = {"text": [ONE, TWO], "title": ["a", "b"], "year": [1, 2]}
    assert names(table(columns)) == {"a:1": ONE, "b:1": TWO}
    assert names(table({"passages": [ONE, TWO]})) == {"document 1:1": ONE, "document 2:1": TWO}


def test_documents_without_a_text_are_refused_by_name(names):
    with pytest.raises(InputError, match="document 2 has no text: expected one of the keys page_content, text"):
        names([ONE, {"a": "x", "b": "y"}])
    for missing in (None, 3, object()):
        with pytest.raises(InputError, match="document 2 has no text"):
            names([ONE, missing])
    for documents in (None, 3, {ONE, TWO}, b"bytes"):
        with pytest.raises(InputError, match="expected documents"):
            names(documents)


def test_the_visible_text_of_a_page_is_read(names, tmp_path):
    page = tmp_path / "a.html"
    page.write_text(
        "<html><head><title>no</title><style>p { no }</style></head><body><nav hidden>no</nav>"
        "<p>the <b>movie</b> is\n good .</p><script>no</script><p>the plot is bad .</body>"
    )
    assert names([page]) == {"a.html:1": ONE, "a.html:2": TWO}
    page.write_bytes(b'<meta charset="latin-1"><p>caf\xe9 is good .')
    assert names([page]) == {"a.html:1": "caf\xe9 is good ."}
    for unread in ("undefined", "no-such", "utf-16", "hex", "idna"):  # they do not read the declaration itself
        page.write_text(f'<meta charset="{unread}"><p>caf\xe9 is good .', encoding="utf-8")
        assert names([page]) == {"a.html:1": "caf\xe9 is good ."}
    page.write_bytes(b"<p>caf\xe9")
    with pytest.raises(DataError, match=r"a\.html is not text"):
        names([page])


def test_a_map_of_parquet_is_texts_by_name(names, tmp_path):
    """Arrow has pairs for a map, and so has pandas; in a corpus a cell of one is the documents of a row."""
    column = pa.array([[("a", ONE), ("b", TWO)]], pa.map_(pa.string(), pa.string()))
    table = pa.table({"documents": column, "question": ["is it good ?"], "answer": ["the movie was great"]})
    assert names(table.to_pandas()["documents"][0]) == names({"a": ONE, "b": TWO}) == {"a:1": ONE, "b:1": TWO}
    with pytest.raises(InputError, match="same name"):
        names([("a", ONE), ("a", TWO)])
    pq.write_table(table, tmp_path / "in.parquet")
    writer = tiny.explainer("llama", "CausalLM")
    for number, source in enumerate((tmp_path / "in.parquet", table, table.to_pandas())):
        attribute(writer, source, tmp_path / str(number), Answers())
        (row,) = pq.read_table(tmp_path / str(number) / "shards").to_pylist()
        assert row["unit_names"][:2] == ["a:1", "b:1"]


def pdf(*texts):
    """Return a PDF file with a page for each text."""
    streams = [f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" for text in texts]
    pages = range(3, 3 + 2 * len(texts), 2)
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(texts)} /Kids [{' '.join(f'{n} 0 R' for n in pages)}] >>",
    ]
    font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    for n, stream in zip(pages, streams, strict=True):
        box = "/MediaBox [0 0 612 792]"
        objects += [f"<< /Type /Page /Parent 2 0 R {box} /Resources {font} /Contents {n + 1} 0 R >>"]
        objects += [f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream"]
    content, places = "%PDF-1.4\n", []
    for number, entry in enumerate(objects, start=1):
        places.append(len(content))
        content += f"{number} 0 obj\n{entry}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{len(content)}\n%%EOF"
    return f"{content}xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()


def test_the_pages_of_a_pdf_are_documents(names, tmp_path):
    file = tmp_path / "report.pdf"
    file.write_bytes(pdf(ONE, TWO))
    assert names([file]) == {"report.pdf, page 1:1": ONE, "report.pdf, page 2:1": TWO}
    file.write_bytes(pdf(""))
    with pytest.raises(DataError, match="has no text"):
        names([file])
    for damaged in (b"", b"%PDF-1.4", pdf(ONE)[:300], b"\xff" * 500):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match=r"report\.pdf"):
            names([file])
    with pytest.raises(DataError, match="cannot read"):
        names([tmp_path / "no.txt"])


def test_the_command_reads_a_folder_of_all_kinds(tmp_path, capsys):
    model = tmp_path / "model"
    tiny.save(model, "llama", "CausalLM")
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.html").write_text(f"<p>{ONE}")
    (folder / "b.pdf").write_bytes(pdf(TWO))
    (folder / "c.pdf").write_bytes(b"no PDF")
    asked = ["cite", folder, "--question", "is it good ?", "--model", model]
    code, out, err = run(capsys, *asked, "--max-new-tokens", 2, "--format", "json")
    assert code == 0, err
    for part in ("a.html:1", "b.pdf, page 1:1", "c.pdf", "it was left out"):
        assert part in out
