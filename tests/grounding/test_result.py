from dataclasses import replace

import numpy as np
import pytest

import normxlogit
from normxlogit import DataError
from normxlogit.grounding.result import Citations
from normxlogit.grounding.verdicts import Clause, Reading, WordEdit, WordReading
from normxlogit.results.storage.schema import plain
from normxlogit.results.units.spans import MessageSpan
from normxlogit.results.verification import Removal, Verification
from tests.factories import make_generation

PIECES = ("", "The", *" cat: sat:.: A: dog: ran:.:\n\n:Who:?: The: cat:.: It: sat:.".split(":"))  # noqa: SIM905
PROMPT = 12


def result(**changes):
    count, written = len(PIECES), len(PIECES) - PROMPT
    scores = np.random.default_rng(0).normal(size=(written, count)).astype(np.float32)
    scores[np.arange(count) >= PROMPT + np.arange(written)[:, None]] = 0
    values = {"scores": scores, "diagnostics": {}, "bias": np.arange(written, dtype=np.float32)}
    return make_generation(PIECES, PROMPT, **(values | changes))


def table(s):
    return s.scores[:, [kind not in ("rest", "answer") for kind in s.units.kind]]


def column(s, kind):
    return s.scores[:, [each == kind for each in s.units.kind]].sum(-1)


def names(s):
    called = zip(s.units.name, s.units.text, s.units.special, strict=True)
    return tuple(name or text for name, text, special in called if not special)


def test_each_source_holds_its_own_tokens_and_each_part_its_own_rows():
    g = result()
    s = g.sources("sentence", parts="sentence")
    assert names(s) == ("The cat sat.", "A dog ran.", "Who?") == tuple(g.text[a:b] for a, b in s.units.spans[:3])
    assert [target.name for target in s.targets] == ["The cat.", "It sat."]
    np.testing.assert_allclose(s.scores[0, 1], g.scores[:3, 5:9].sum(), rtol=1e-5)
    np.testing.assert_allclose(s.scores[1, 2], g.scores[3:, 10:12].sum(), rtol=1e-5)
    np.testing.assert_allclose(column(s, "rest"), [g.scores[:3, [0, 9]].sum(), g.scores[3:, [0, 9]].sum()], rtol=1e-5)
    np.testing.assert_allclose(column(s, "answer"), [g.scores[:3, 12:].sum(), g.scores[3:, 12:].sum()], rtol=1e-5)


def test_words_paragraphs_messages_and_named_spans():
    g = result()
    assert names(g.sources("word")) == ("The", "cat", "sat", ".", "A", "dog", "ran", ".", "Who", "?")
    assert names(g.sources("paragraph")) == ("The cat sat. A dog ran.", "Who?")
    assert names(g.sources("message")) == ("prompt",)
    chat = replace(g, messages=(MessageSpan("system", 0, 12), MessageSpan("user", 25, 29)))
    assert names(chat.sources("message")) == ("system", "user")
    assert names(chat.sources("sentence")) == ("The cat sat.", "Who?")  # the rest is the template's
    named = g.sources({"dog": (13, 23), "cat": (4, 7)})
    np.testing.assert_allclose(table(named)[0], [g.scores[:, 5:9].sum(), g.scores[:, 2].sum()], rtol=1e-5)


def test_shares_are_of_what_speaks_for_the_answer():
    scores = np.zeros((6, 18), np.float32)
    scores[:, 1], scores[:, 5], scores[:, 10] = 3, 1, -2
    s = result(scores=scores).sources("sentence", parts="sentence")
    np.testing.assert_allclose(s.whole().shares[:3], [0.75, 0.25, 0])
    np.testing.assert_allclose(s.shares.sum(1), 1)
    assert [(t.position, t.text, t.share) for t in s.top(2)] == [(0, "The cat sat.", 0.75), (1, "A dog ran.", 0.25)]
    assert s[1].top(1)[0].score == 9
    assert not result(scores=-np.abs(scores)).sources("sentence").shares.any()


def citations():
    scores = np.zeros((6, 18), np.float32)
    scores[:3, 5], scores[3:, 1], scores[3:, 5], scores[3:, 10] = 3, 4, 1.5, 0.1
    s = result(scores=scores).sources({"a.txt:1": (0, 12), "a.txt:2": (13, 23), "b:1": (25, 29)}, parts="sentence")
    return with_test(Citations(attribution=s, question="Who <sat>?"), {1: (4.0, 1.25)})


def with_test(cited, losses, *, without=(5.0, 5.0)):
    """Return citations with what each sentence loses without some of the sources, and without all."""

    def removal(sources, lost):
        values = tuple(-8.0 - nats for nats in lost)
        named = [tuple(each[source] for source in sources) for each in (cited.names, cited.sources)]
        return Removal(*named, None, sum(values), False, "log-probability", -16.0, values)

    original, together = removal([], (0.0, 0.0)), removal(range(len(cited.sources)), without)
    single = tuple(removal([source], lost) for source, lost in losses.items())
    measured = {"original": original, "single": single, "together": together}
    verified = Verification("the answer", "log-probability", unit="source", removed_by="deleted", **measured)
    return replace(cited, attribution=replace(cited.attribution, verified=verified))


def test_sentences_cite_their_first_source_and_others_of_a_fifth(tmp_path):
    c, expected = citations(), [(1, "a.txt:2", "A dog ran.", 5.25), (2, "a.txt:1", "The cat sat.", None)]
    assert c.cited == ((1,), (1, 0))
    assert [(x.number, x.name, x.text, x.nats) for x in c.citations()] == expected
    c.save(tmp_path / "c.json")
    assert normxlogit.load(tmp_path / "c.json") == c
    sentence = c.to_dict()["sentences"][1]
    assert (sentence["text"], sentence["citations"], sentence["support"]["share"]) == ("It sat.", [1, 2], 1.0)
    broken = replace(c.verified, together=c.verified.together._replace(values=(1.0,)))
    for verified in ({"z": 1.0}, plain(broken)):
        state = c.to_dict()
        state["attribution"]["verified"] = verified
        with pytest.raises(DataError, match="verified"):
            Citations.from_dict(state)


def test_a_source_without_which_a_sentence_loses_nothing_is_not_cited():
    c = with_test(citations(), {1: (-3.8, 2.0), 2: (np.nan, 0.5)})
    assert c.cited == ((), (1, 0))
    assert c.marked().strip() == "The cat. It sat.[1][2]"


def test_a_sentence_that_loses_nothing_without_the_documents_does_not_rest_on_them():
    c = with_test(citations(), {}, without=(-0.5, 2.0))
    assert [s.rests for s in c.support] == [False, True]
    assert [s.loss for s in c.support] == [-0.5, 2.0]
    assert c.support[0].verdict == "not in the documents"
    assert c.cited[0] == ()


def test_a_sentence_of_which_the_reader_would_rather_read_another_word_contradicts_its_source():
    c = citations()
    first, second = (target.span for target in c.attribution.targets)
    place = c.text.index("sat", second[0])
    said = Reading((WordReading(*first, "The cat.", -1.0, -20.0),), ())
    rather = WordEdit("replaced", place, place + 3, "ran", 20.0, 0.0)
    it, sat = WordReading(second[0], place, "It", -1, -20), WordReading(place, place + 3, "sat", -19, -20)
    end = WordReading(place + 3, second[1], ".", -0.1, -40.0)
    c = replace(c, readings=(said, Reading((it, sat, end), (rather,))))
    assert [s.judgement for s in c.support] == ["rests", "contradicts"]
    assert c.support[1].verdict == 'contradicts [1][2]: the documents rather say "ran" than "sat"'
    assert c.marked().strip() == "The cat.[1] It sat."
    assert [(word.text, word.rather) for word in c.words if word.unsaid] == [("sat", '"ran" than "sat"')]
    assert "contradicts [1][2]" in str(c)
    assert "rather say &#34;ran&#34;" in c.to_html()
    assert Citations.from_dict(c.to_dict()) == c


@pytest.mark.parametrize("gains", [(-3.0, -3.0), (0.1, -1.6)])
def test_a_value_that_the_sources_lack_is_named_where_no_edit_gains_much(gains):
    c = citations()
    first, second = (target.span for target in c.attribution.targets)
    said = Reading((WordReading(*first, "The cat.", -1.0, -20.0),), ())
    words = (WordReading(second[0], second[0] + 2, "It", -1, -2), WordReading(second[0] + 3, second[1], "sat", -9, -9))
    worse = WordEdit("replaced", second[0], second[0] + 2, "He", *gains)
    reading = Reading(words, (worse,), (Clause(0, 2, 2, 0.5, (1,)),))
    c = replace(c, readings=(said, reading))
    assert c.support[1].rather == 'something else than "sat."'
    assert [word.text for word in c.words if word.unsaid] == ["sat."]
    assert Citations.from_dict(c.to_dict()) == c


def test_of_a_sentence_in_doubt_the_clause_that_has_least_in_the_sources_is_marked():
    words = tuple(
        WordReading(k, k + 1, text, -2.0, nats) for k, text, nats in [(0, "a", -2.0), (1, "b", -2.0), (2, "c", -9.0)]
    )
    reading = Reading(words, (), (Clause(0, 1, 0, 0.9, ()), Clause(1, 3, 2, 0.1, ())))
    assert [reading.unsaid(word, "cannot tell") for word in words] == [False, True, False]
    assert [reading.unsaid(word, "not in the sources") for word in words] == [True, True, False]
    assert not any(reading.unsaid(word, judgement) for word in words for judgement in ("rests", "contradicts"))
    assert not any(reading._replace(clauses=(Clause(0, 3, 2, 0.1, ()),)).unsaid(word, "cannot tell") for word in words)
