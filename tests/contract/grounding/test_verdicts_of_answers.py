"""Verdicts on the sentences of an answer: what the reader makes of them with the documents and without them."""

import numpy as np
import pytest

import normxlogit
from normxlogit import Attributions, Explainer
from normxlogit.grounding import Citations
from tests import tiny
from tests.contract.compare import comes_back, nats
from tests.contract.texts import chat

DOCUMENTS = {
    "refunds.txt": "Refunds are possible within 30 days. Shipping takes 5 days.",
    "pool.txt": "The pool was built by Anna Berg in 1974. The library was built by Jonas Holm.",
}
ANSWER = "Refunds are possible within 5 days. This is all."


def made(family: str = "llama") -> Explainer:
    return Explainer(tiny.model(family, "CausalLM", vocab_size=100, max_position_embeddings=600), tiny.letters())


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return made()


def test_the_question_is_no_source_but_alone(explainer):
    for said, sources in (
        ("When does it ship?", ()),
        ("Tell me when it ships", ()),
        ("It ships on 5 May. Doesn't it?", ("user:1",)),
        ("It ships on 5 May. Is that right? And “when” (exactly?)", ("user:1",)),
        ("它什么时候发货？", ()),
        ("It ships on 5 May. Say it again.", ("user:1", "user:2")),
    ):
        messages = chat(("tool", "It ships on 30 May."), ("user", said), ("assistant", "On 5 May."))
        messages[0]["name"] = "search"
        cited = explainer.cite(messages=messages, verify=0)
        assert cited.names == ("tool result search:1", *sources)
        assert [message.name for message in cited.messages] == ["tool result search", "user"]
        assert cited.question == said
    alone = explainer.cite(messages=chat(("user", "When?"), ("assistant", "On 5 May.")), verify=0)
    assert alone.names == ("user:1",)


def without_sources(cited: Citations, end: int, names: tuple[str, ...] | None = None) -> str:
    """Return the text before a character without the sources, or without those of some names."""
    rest, start = "", 0
    for (first, last), name in sorted(zip(cited.spans, cited.names, strict=True)):
        if names is None or name in names:
            rest, start = rest + cited.text[start:first], last
    return rest + cited.text[start:end]


@pytest.mark.parametrize("verify", ["auto", 1])
def test_sources_that_are_the_same_word_for_word_are_left_out_together(explainer, verify) -> None:
    said = "Refunds are possible within 30 days."
    documents = {"a": f"{said} Shipping takes 5 days.", "b": said, "c": f"Hello.\n\n{said.replace(' are', '  are')}"}
    cited = explainer.cite("When?", documents, answer="Within 30 days.", verify=verify)
    copies = ("a:1", "b:1", "c:2")
    assert {name: cited.losses[name] for name in copies} == dict.fromkeys(copies, cited.losses["a:1"])
    first, (answer,) = cited.attribution.targets[0].span[0], cited.sentences
    contexts = cited.text[:first], without_sources(cited, first, copies)
    whole, without = (nats(explainer, text, answer) for text in contexts)
    assert cited.losses["a:1"] == pytest.approx(whole - without, abs=1e-3)
    assert Citations.from_dict(cited.to_dict()) == cited


@pytest.mark.parametrize("family", ["llama", "gpt2", "mamba"])
def test_readings_are_those_of_the_callers_own_model(family: str) -> None:
    explainer = made(family)
    answer = explainer.cite("When?", DOCUMENTS, answer="Refunds are possible within 5 days. Anna built it.", verify=1)
    assert len(answer.readings) == len(answer.sentences)
    of_sentences = zip(answer.attribution.targets, answer.readings, answer.sentence_losses, strict=True)
    for target, reading, loss in of_sentences:
        start, end = target.span
        contexts = answer.text[:start], without_sources(answer, start)
        own = [nats(explainer, before, answer.text[start:end]) for before in contexts]
        assert (reading.nats, reading.nats_without) == pytest.approx(tuple(own), abs=1e-3)
        assert loss == pytest.approx(own[0] - own[1], abs=1e-3)
        assert reading.edits
        for edit in reading.edits[:3]:
            if edit.kind in ("replaced", "exchanged"):
                edited = answer.text[start : edit.start] + edit.text + answer.text[edit.end : end]
                gains = [nats(explainer, before, edited) for before in contexts]
                assert edit.gain == pytest.approx(gains[0] - own[0], abs=0.05)
                assert edit.gain_without == pytest.approx(gains[1] - own[1], abs=0.05)
    assert any(edit.kind == "replaced" for reading in answer.readings for edit in reading.edits)


def test_tokens_count_in_the_evidence_by_what_they_gain_from_the_sources(explainer) -> None:
    cited = explainer.cite("When?", DOCUMENTS, answer="In 5 days. So.", verify=0)
    prompt, spans = cited.text[: -len(cited.answer)], dict(zip(cited.names, cited.spans, strict=True))
    count = len(explainer.explain_completion(prompt, cited.answer).targets)

    def token_nats(text: str) -> np.ndarray:
        ids = explainer.tokenizer(text, add_special_tokens=False)["input_ids"]
        logits = tiny.logits_of(explainer.model, ids).log_softmax(-1)
        return np.array([float(logits[place - 1, ids[place]]) for place in range(len(ids) - count, len(ids))])

    gains = np.maximum(token_nats(cited.text) - token_nats(without_sources(cited, len(cited.text))), 0)
    expected = np.zeros_like(cited.weighted_scores[:, cited.sources])
    of_tokens = explainer.explain_completion(prompt, cited.answer, sources=spans, parts="token")
    for target, scores, gain in zip(of_tokens.targets, of_tokens.scores, gains, strict=True):
        for k, part in enumerate(cited.attribution.targets):
            if part.span[0] <= target.span[0] < part.span[1]:  # not of the white space between sentences
                expected[k] += gain * scores[of_tokens.units.sources]
    np.testing.assert_allclose(cited.weighted_scores[:, cited.sources], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(cited.evidence.scores[:, cited.sources], cited.weighted_scores[:, cited.sources])


def test_sentences_rest_on_sources_through_earlier_sentences(explainer):
    cited = explainer.cite("When?", DOCUMENTS, answer="In 5 days. The pool is old. So it was built.", verify=0)
    direct, passed = cited.attribution, cited.through()
    answer = [unit for unit, kind in enumerate(direct.units.kind) if kind == "answer"]
    assert [direct.units.spans[unit] for unit in answer[:3]] == [target.span for target in direct.targets]
    np.testing.assert_allclose(passed.scores.sum(-1), direct.scores.sum(-1), atol=1e-5)
    rests, expected = [], direct.scores.astype(np.float64)
    for k, weighted in enumerate(cited.weighted_scores.astype(np.float64)):
        total = np.zeros(len(direct.units))
        total[cited.sources] = cited.evidence.scores[k, cited.sources]
        for unit, earlier in zip(answer, rests, strict=False):
            total += weighted[unit] * earlier
            expected[k] += direct.scores[k, unit] * earlier
        positive = np.maximum(total, 0)
        rests.append(positive / positive.sum())
        expected[k] += direct.scores[k, answer[k]] * rests[k]
        expected[k, answer[:3]] = 0
    np.testing.assert_allclose(passed.scores, expected, atol=1e-4)


def test_a_quotation_rests_word_for_word_and_costs_nothing(explainer) -> None:
    cited = explainer.cite("When?", DOCUMENTS, answer="Refunds are possible within 30  days. This is all.", verify=1)
    assert cited.support[0].verdict == "rests on [1], word for word"
    assert cited.citations()[0].name == "refunds.txt:1"
    assert cited.readings[0].edits == ()
    assert cited.readings[1].edits
    untested = explainer.cite("When?", DOCUMENTS, answer="Refunds are possible within 30 days. This is all.", verify=0)
    assert [s.judgement for s in untested.support] == ["rests", "not tested"]
    changed = explainer.cite("When?", DOCUMENTS, answer="Refunds are possible within -30 days.", verify=0)
    assert changed.support[0].judgement == "not tested"


def test_words_have_gains_that_sum_to_those_of_their_sentences_and_files_keep_all(explainer, tmp_path) -> None:
    cited = explainer.cite("When?", DOCUMENTS, answer=ANSWER, verify=1)
    comes_back(Attributions([explainer.cite("When?", DOCUMENTS, answer="This is all.", verify=0), cited]), tmp_path)
    comes_back(cited, tmp_path)
    loaded = normxlogit.load(tmp_path / "result.parquet")
    assert (loaded.support, loaded.top(4)) == (cited.support, cited.top(4))
    for k, reading in enumerate(cited.readings):
        words = [word for word in cited.words if word.sentence == k]
        assert all(cited.text[word.start : word.end] == word.text for word in words)
        assert sum(word.gain for word in words) == pytest.approx(reading.nats - reading.nats_without, abs=1e-6)
        assert not any(word.unsaid for word in words if cited.support[k].rests)
    state = cited.to_dict()
    assert [row["support"]["verdict"] for row in state["sentences"]] == [s.verdict for s in cited.support]
    assert all(0 <= row["support"][name] <= 1 for row in state["sentences"] for name in ("covered", "agreed"))
    table = str(cited).partition("Sources")[0]
    assert "nats" not in table
    assert all(sentence.verdict in table for sentence in cited.support)


def test_what_the_nearest_source_has_of_a_sentence_is_counted(explainer):
    (reading,) = explainer.cite("When?", DOCUMENTS, answer="The pool was sold by Anna Berg in 1974.").readings
    (clause,) = reading.clauses
    assert clause.own_words == len(["The", "pool", "was", "sold"])
    assert clause.values_elsewhere == ()
    words = ["the", "pool", "was", "sold", "by", "anna", "berg", "in", "1974"]
    counts = dict(zip(words, (2, 1, 2, 1, 2, 1, 1, 1, 1), strict=True))  # of 4 sources
    weights = {word: np.log((4 + 1) / count) for word, count in counts.items()}
    assert clause.coverage == pytest.approx(1 - weights["sold"] / sum(weights.values()))


def test_numbers_and_names_that_another_source_has_are_counted(explainer):
    for answer, elsewhere in (
        ("The pool was built by Jonas Holm in 1974.", 2),
        ("The pools were built in 1980.", 1),
        ("Refunds within 30 days.", 0),
        ("Shipping takes 30 days.", 1),
    ):
        (reading,) = explainer.cite("When?", DOCUMENTS, answer=answer).readings
        assert sum(len(clause.values_elsewhere) for clause in reading.clauses) == elsewhere
        assert reading.features["values elsewhere"] == float(elsewhere > 0)
    order = ("system", "Order 538 ships on 2 May."), ("tool", '{"order": 538, "ships": "9 May"}'), ("user", "When?")
    messages = chat(*order, ("assistant", "Order 538 ships on 9 May."))
    messages[1]["name"] = "look_up"
    (reading,) = explainer.cite(messages=messages).readings  # the fields of one message are one source
    assert all(clause.values_elsewhere == () for clause in reading.clauses)


def test_a_sentence_is_compared_with_the_sources_clause_by_clause(explainer):
    answer = "The pool was built by Anna Berg in 1974, and refunds are possible within 31 days."
    (reading,) = explainer.cite("When?", DOCUMENTS, answer=answer).readings
    first, second = reading.clauses
    assert first_words(reading) == ["The", "and"]
    assert (first.own_words, first.coverage, first.values_elsewhere) == (0, 1.0, ())
    assert second.own_words == len(["and", "31", "days"])
    assert [reading.words[place].text for place in second.values_elsewhere] == ["31"]
    assert reading.features["own words"] == second.own_words
    assert reading.features["coverage"] == second.coverage < 1
    assert reading.features["values elsewhere"] == 1
    (reading,) = explainer.cite("When?", DOCUMENTS, answer="Yes, refunds, of course, take up to 30 days.").readings
    assert first_words(reading) == ["Yes", "take"]  # a short clause belongs to its neighbour


def first_words(reading):
    return [next(w.text for w in reading.words[c.start : c.end] if w.text.isalnum()) for c in reading.clauses]


def test_the_numbers_of_a_list_are_no_words_that_documents_could_say(explainer):
    answer = "1. The pool was built in 1974.\n2. Shipping takes 5 days."
    listed = explainer.cite("When?", DOCUMENTS, answer=answer, verify=1)
    words = [" ".join(word.text for word in reading.words).split() for reading in listed.readings]
    assert words == [["The", "pool", "was", "built", "in", "1974", "."], ["Shipping", "takes", "5", "days", "."]]
    assert not any(edit.start < reading.words[0].start for reading in listed.readings for edit in reading.edits)
    dated = explainer.cite("When?", DOCUMENTS, answer="12. That was the day.", verify=1)
    assert dated.readings[0].words[0].text == "12"  # no list begins with 12
