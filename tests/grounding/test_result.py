from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import normxlogit
from normxlogit import DataError
from normxlogit.grounding import Citations, Facts, Support
from normxlogit.grounding.citations.resting import cited_sources
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


def citations() -> Citations:
    scores = np.zeros((6, 18), np.float32)
    scores[:3, 5], scores[3:, 1], scores[3:, 5], scores[3:, 10] = 3, 4, 1.5, 0.1
    s = result(scores=scores).sources({"a.txt:1": (0, 12), "a.txt:2": (13, 23), "b:1": (25, 29)}, parts="sentence")
    facts = (Facts((), (), None),) * 2
    first, second = (
        Support(target.name, "supported", "documents", sources, tuple(1 + source for source in sources))
        for target, sources in zip(s.targets, [(1,), (1, 0)], strict=True)
    )
    cited = Citations(attribution=s, question="Who <sat>?", facts=facts, support=(first, second))
    return with_test(cited, {1: (4.0, 1.25)})


def with_test(cited: Citations, losses: dict[int, tuple[float, float]]) -> Citations:
    """Return citations with what each sentence loses without some of the sources, and without all."""

    def removal(sources: Sequence[int], lost: tuple[float, float]) -> Removal:
        values = tuple(-8.0 - nats for nats in lost)
        named = [tuple(each[source] for source in sources) for each in (cited.names, cited.sources)]
        return Removal(*named, None, sum(values), False, "log-probability", -16.0, values)

    original, together = removal([], (0.0, 0.0)), removal(range(len(cited.sources)), (5.0, 5.0))
    single = tuple(removal([source], lost) for source, lost in losses.items())
    measured = {"original": original, "single": single, "together": together}
    verified = Verification("the answer", "log-probability", unit="source", removed_by="deleted", **measured)
    return replace(cited, attribution=replace(cited.attribution, verified=verified))


def test_sources_are_listed_with_what_the_answer_loses(tmp_path):
    c, expected = citations(), [(1, "a.txt:1", "The cat sat.", None), (2, "a.txt:2", "A dog ran.", 5.25)]
    assert c.cited == ((1,), (1, 0))
    assert [(x.number, x.name, x.text, x.nats) for x in c.citations()] == expected
    assert c.marked().strip() == "The cat.[2] It sat.[2][1]"
    c.save(tmp_path / "c.json")
    assert normxlogit.load(tmp_path / "c.json") == c
    sentence = c.to_dict()["sentences"][1]
    assert (sentence["text"], sentence["citations"]) == ("It sat.", [2, 1])
    broken = replace(c.verified, together=c.verified.together._replace(values=(1.0,)))
    for verified in ({"z": 1.0}, plain(broken)):
        state = c.to_dict()
        state["attribution"]["verified"] = verified
        with pytest.raises(DataError, match="verified"):
            Citations.from_dict(state)


@pytest.mark.parametrize(
    ("shares", "losses", "cited"),
    [
        ((0.9, 0.1, 0.0), (np.nan, 4.0, np.nan), (1, 0)),  # measured ones first
        ((0.9, 0.1, 0.0), (0.5, 4.0, 1.25), (1, 2)),  # a source without which nothing is lost is not cited
        ((0.9, 0.1, 0.0), (0.5, 40.0, 1.25), (1,)),  # nor one that is worth less than a fifth of the first
        ((0.1, 0.05, 0.0), (np.nan,) * 3, (0,)),  # the strongest share, however small
        ((0.4, 0.35, 0.25), (-1.0, -2.0, 0.0), ()),
        ((0.0, 0.0, 0.0), (np.nan,) * 3, ()),
    ],
)
def test_sources_are_cited_by_losses_and_then_by_shares(shares, losses, cited):
    values = (np.array(row, np.float32) for row in (shares, losses))
    assert cited_sources(*values) == cited
