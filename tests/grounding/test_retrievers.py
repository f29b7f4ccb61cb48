"""Documents of retrievers' own packages, where langchain-core, llama-index-core or haystack-ai is installed."""

import pytest

from normxlogit.grounding.documents.documents import documents_by_name

pytestmark = pytest.mark.slow

TEXTS = ("The pool opened in 1974.", "The library opened in 1980.")


def test_langchain():
    documents = pytest.importorskip("langchain_core.documents")
    retrievers = pytest.importorskip("langchain_core.retrievers")

    class Fixed(retrievers.BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [
                documents.Document(page_content=text, metadata={"source": "report.pdf", "page": page})
                for page, text in enumerate(TEXTS, start=1)
            ]

    retrieved = Fixed().invoke("When did it open?")
    assert documents_by_name(retrieved) == {"report.pdf, page 1": TEXTS[0], "report.pdf, page 2": TEXTS[1]}
    assert list(documents_by_name([(document, 0.5) for document in retrieved]).values()) == list(TEXTS)


def test_llama_index():
    schema = pytest.importorskip("llama_index.core.schema")
    nodes = [schema.TextNode(text=text, metadata={"file_name": f"{i}.txt"}) for i, text in enumerate(TEXTS)]
    scored = [schema.NodeWithScore(node=node, score=0.5) for node in nodes]
    documents = [schema.Document(text=text, metadata={"file_name": f"{i}.txt"}) for i, text in enumerate(TEXTS)]
    for retrieved in (nodes, scored, documents):
        assert documents_by_name(retrieved) == {"0.txt": TEXTS[0], "1.txt": TEXTS[1]}


def test_haystack():
    haystack = pytest.importorskip("haystack")
    memory = pytest.importorskip("haystack.document_stores.in_memory")
    retrievers = pytest.importorskip("haystack.components.retrievers.in_memory")
    store = memory.InMemoryDocumentStore()
    store.write_documents([haystack.Document(content=text, meta={"source": text[4:8]}) for text in TEXTS])
    retrieved = retrievers.InMemoryBM25Retriever(store).run("When did the pool open?")["documents"]
    assert documents_by_name(retrieved) == {"pool": TEXTS[0], "libr": TEXTS[1]}
