"""How much likelier an answer is after one of its documents alone, measured with the caller's own model."""

import math
import re

import numpy as np
import pytest

from normxlogit import Explainer
from tests import tiny
from tests.contract.compare import comes_back, nats
from tests.contract.grounding.test_verdicts_of_answers import DOCUMENTS, made, without_sources
from tests.contract.texts import chat

ANSWER = "Refunds are possible within 30 days. Anna built it."


def blocks(documents: dict[str, str]) -> dict[str, str]:
    """Return each document as it stands in the prompt, with its name above it."""
    return {name: f"{name}:\n{text}\n\n" for name, text in documents.items()}


def own_gains(explainer: Explainer, cited, documents: dict[str, str], name: str) -> list[float]:
    """Return what each sentence gains from a document alone, by the caller's own model."""
    gains = []
    for (start, end), sentence in zip(cited.sentence_spans, cited.sentences, strict=True):
        before, without = cited.text[:start], cited.text[:start]
        for other, block in blocks(documents).items():
            assert block in before
            before = before if other == name else before.replace(block, "")
            without = without.replace(block, "")
        gains.append(nats(explainer, before, sentence) - nats(explainer, without, cited.text[start:end]))
    return gains


@pytest.mark.parametrize("family", ["llama", "gpt2", "mamba", "bloom"])
def test_gains_alone_are_those_of_the_callers_own_model(family, tmp_path):
    explainer = made(family)
    documents = DOCUMENTS | {"a:b.txt": "The library was built by Jonas Holm.", "100% {x}": "A cat sat. It ran."}
    cited = explainer.cite("When?", documents, answer=ANSWER, verify=1)
    assert [gain.name for gain in cited.alone] == list(documents)
    for gain in cited.alone:
        assert gain.nats == pytest.approx(own_gains(explainer, cited, documents, gain.name), abs=1e-3)
    comes_back(cited, tmp_path)


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return made()


def information_of_shared_words(asked: str, documents: dict[str, str]) -> dict[str, float]:
    """Return the inverse document frequencies of the words that each document shares with a text, in sum."""
    words_of = {name: set(re.findall(r"\w+", f"{name} {text}".lower())) for name, text in documents.items()}
    counts = {w: sum(w in words for words in words_of.values()) for w in set(re.findall(r"\w+", asked.lower()))}
    return {
        name: sum(math.log(len(documents) / counts[word]) for word in counts if word in words)
        for name, words in words_of.items()
    }


def test_documents_are_ranked_by_what_the_answer_gains_from_each_alone_and_by_its_words(explainer):
    question = "When may one bring a dog?"
    documents = DOCUMENTS | {"cat": "The cat may bring a mouse.", "sun": "It is hot.", "key": "Anna had it."}
    cited = explainer.cite(question, documents, answer=ANSWER)
    information = information_of_shared_words(f"{question} {ANSWER}", documents)
    assert {gain.name: gain.information for gain in cited.alone} == pytest.approx(information)
    alone = {gain.name: sum(gain.nats) for gain in cited.alone}
    evidence = {name: alone[name] + information[name] for name in documents}
    first = cited.top_documents()[0]
    assert first.name == max(evidence, key=evidence.get) != max(alone, key=alone.get)
    assert first.nats == alone[first.name]


def test_of_two_documents_the_second_is_the_other_one(explainer):
    cited = explainer.cite("When?", DOCUMENTS, answer=ANSWER)
    evidence = {gain.name: sum(gain.nats) + gain.information for gain in cited.alone}
    assert [document.name for document in cited.top_documents()] == sorted(evidence, key=lambda name: -evidence[name])


def test_shared_words_are_those_that_not_all_documents_have_in_any_script(explainer):
    documents = {"eins": "Die Öffnungszeiten: 9 Uhr.", "zwei": "Die Preise: 9 Euro.", "три": "Музей открыт в Москве."}
    cited = explainer.cite("Wann sind die OFFNUNGSZEITEN, und где музей?", documents, answer="Um 9 Uhr.", verify=1)
    words = {gain.name: gain.words for gain in cited.alone}
    assert words == {"eins": ("OFFNUNGSZEITEN", "Uhr", "9", "die"), "zwei": ("9", "die"), "три": ("музей",)}


def test_a_sentence_names_the_document_after_which_it_is_likeliest(explainer):
    cited = explainer.cite("When?", DOCUMENTS, answer=ANSWER)
    for k, support in enumerate(cited.support):
        of_sentence = {gain.name: gain.nats[k] for gain in cited.alone}
        assert support.best_alone.name == max(of_sentence, key=of_sentence.get)
        assert support.best_alone.name == cited.top_documents(1, sentence=k)[0].name
        assert f"with {support.best_alone.name} alone" in support.reason
    turned = explainer.cite("When?", dict(reversed(DOCUMENTS.items())), answer=ANSWER)
    assert [gain.name for gain in turned.alone] == list(reversed(DOCUMENTS))


def test_a_sentence_cites_the_document_after_which_alone_it_is_likeliest():
    model = tiny.model("llama", "CausalLM", vocab_size=100, max_position_embeddings=600, initializer_range=0.5)
    explainer = Explainer(model, tiny.letters())
    documents = {f"{number}.txt": f"The {word} is here." for number, word in enumerate(["movie", "plot", "cat", "key"])}
    cited = explainer.cite("Where?", documents, answer="It is there. So it goes. No.", verify="auto")
    gaining = []
    for k, support in enumerate(cited.support):
        best = cited.top_documents(1, sentence=k)[0]
        if best.nats >= 1:
            gaining.append(support)
            assert support.judgement == "cannot tell"
            assert cited.documents[support.sources[0]] == best.name
    assert gaining


def test_leads_are_what_the_callers_own_model_finds_likelier_in_the_first_document(explainer, tmp_path):
    added = {"cat.txt": "A cat sat on the mat.", "key.txt": "The key was here. Anna had it.", "sun.txt": "It is hot."}
    documents = DOCUMENTS | added
    cited = explainer.cite("When?", documents, answer=ANSWER, verify=1)
    first, *others = [document.name for document in cited.top_documents()]
    assert {lead.name for lead in cited.leads} == set(others)
    leads = {lead.name: lead for lead in cited.leads}
    assert [leads[name].nats for name in others] == sorted((lead.nats for lead in cited.leads), reverse=True)
    alone = {gain.name: sum(gain.nats) for gain in cited.alone}
    assert others != sorted(others, key=lambda name: -alone[name])  # the two orders differ here
    parts = blocks(documents)
    opening = cited.text[: cited.text.index(next(iter(parts.values())))]
    after = {name: token_nats(explainer, opening + parts[name], parts[first]) for name in others}
    for name, lead in leads.items():
        rest = np.mean([after[other] for other in others if other != name], axis=0)
        gains = np.maximum(after[name] - rest, 0)
        sums = [gains[start : start + 5].sum() for start in range(len(gains) - 4)]
        assert lead.nats == pytest.approx(max(sums), abs=1e-3)
        assert lead.words in documents[first] or lead.words in parts[first]
    comes_back(cited, tmp_path)
    ranked = [document.name for document in cited.top_documents(9, sentence=0)]
    gains = {gain.name: gain.nats[0] for gain in cited.alone}
    assert ranked == sorted(gains, key=lambda name: -gains[name])


def token_nats(explainer: Explainer, before: str, text: str) -> np.ndarray:
    """Return the log-probability of each token of a text but the first, by the caller's own model."""
    ids, start = (explainer.tokenizer(t, add_special_tokens=False)["input_ids"] for t in (before + text, before))
    logs = tiny.logits_of(explainer.model, ids).log_softmax(-1)
    return np.array([float(logs[place - 1, ids[place]]) for place in range(len(start) + 1, len(ids))])


def test_two_documents_need_no_lead_and_messages_have_none(explainer):
    assert explainer.cite("When?", DOCUMENTS, answer=ANSWER, verify=1).leads == ()
    said = chat(("user", "It is."), ("assistant", "Good."), ("user", "So."), ("assistant", "No."), ("user", "When?"))
    cited = explainer.cite(messages=[*said, {"role": "assistant", "content": "On 5 May."}], verify=1)
    assert len(cited.alone) > 2
    assert cited.leads == ()


def test_nothing_is_read_alone_where_it_says_nothing_new(explainer):
    single = {"pool.txt": DOCUMENTS["pool.txt"]}
    assert explainer.cite("When?", single, answer=ANSWER).alone == ()
    untested = explainer.cite("When?", DOCUMENTS, answer=ANSWER, verify=0)
    assert untested.alone == ()
    by_share = sorted(untested.top_documents(), key=lambda document: -document.share)
    assert by_share == untested.top_documents()
    assert {document.nats for document in by_share} == {None}


def test_of_many_documents_those_with_the_best_sources_are_read_alone(explainer):
    documents = {f"{number}": f"Order {number} is here." for number in range(20)}
    cited = explainer.cite("When?", documents, answer="Order 3.", verify=1)
    untested = explainer.cite("When?", documents, answer="Order 3.", verify=0)
    assert {gain.name for gain in cited.alone} == {document.name for document in untested.top_documents(16)}
    assert {document.name for document in cited.top_documents(20)} == set(documents)


def test_messages_are_read_alone():
    explainer = Explainer(tiny.model("llama", "CausalLM", vocab_size=100, max_position_embeddings=600), tiny.letters())
    said = chat(("user", "It ships on 5 May."), ("assistant", "Good."), ("user", "When?"), ("assistant", "On 5 May."))
    cited = explainer.cite(messages=said)
    names = [gain.name for gain in cited.alone]
    assert names == list(dict.fromkeys(cited.documents))
    start, end = cited.sentence_spans[0]
    for gain in cited.alone:
        others = tuple(n for n, d in zip(cited.names, cited.documents, strict=True) if d != gain.name)
        contexts = without_sources(cited, start, others), without_sources(cited, start)
        alone, without = (nats(explainer, before, cited.text[start:end]) for before in contexts)
        assert gain.nats[0] == pytest.approx(alone - without, abs=1e-3)
