"""Citations whose first sources are taken out, one at a time, until the others can no longer come first."""

import numpy as np
import pytest

from normxlogit import InputError
from normxlogit.grounding import Citations
from tests.contract.compare import refused

DOCUMENTS = {
    "a": "the movie is good . the plot is bad . a cat sat on the mat .",
    "b": "the keys are here . was it great ?",
}


def test_measured_sources_are_ranked_by_what_the_answer_loses(writer):
    answer = writer.cite("is it good ?", DOCUMENTS, verify="auto", max_new_tokens=5)
    assert 2 <= len(answer.losses) <= len(answer.sources)
    ranked = [s.name for s in answer.top(len(answer.sources))]
    measured = sorted(answer.losses, key=lambda name: -answer.losses[name])
    assert ranked[: len(measured)] == measured
    left_out = writer.cite("is it good ?", DOCUMENTS, method="occlusion", max_new_tokens=5)  # all, one at a time
    for name, nats in answer.losses.items():
        assert nats == pytest.approx(left_out.attribution.whole().scores[left_out.names.index(name)], abs=1e-4)
    assert Citations.from_dict(answer.to_dict()) == answer


def test_a_number_measures_as_many(writer):
    answer = writer.cite("is it good ?", DOCUMENTS, verify=3, max_new_tokens=5)
    plain = writer.cite("is it good ?", DOCUMENTS, max_new_tokens=5, verify=0)
    assert set(answer.losses) == {s.name for s in plain.top(3)}
    np.testing.assert_array_equal(answer.attribution.scores, plain.attribution.scores)
    assert str(answer.verified).startswith("Without any of the sources: ")  # not without those three alone
    every = writer.cite("is it good ?", DOCUMENTS, verify=99, max_new_tokens=5)
    assert set(every.losses) == set(every.names)


FILES = {"a": "The movie is good. The plot is bad.", "b": "The cat sat. Was the plot great?"}


def test_sources_and_documents_that_are_named_are_left_out(writer):
    asked = ("is it good ?", FILES)
    every = writer.cite(*asked, verify=99, answer="it is .")
    named = writer.cite(*asked, verify=["a:2", "b"], answer="it is .")
    without_b = writer.without(asked[0], "b", documents=FILES, answer="it is .")
    nats = {"a:2": every.losses["a:2"], "b": without_b.original - without_b.value}
    assert named.losses == pytest.approx(nats, abs=1e-4)
    assert [source.nats is None for source in named.top(9) if source.document == "b"] == [True, True]
    assert type(named).from_dict(named.to_dict()) == named
    assert str(named.verified) in " ".join(str(named).split()) or '"b"' in str(named)
    refused(InputError, "did you mean", lambda: writer.cite(*asked, verify=["a:11"], answer="it is ."))


def test_each_paragraph_or_document_is_left_out(writer):
    files = {"a": "The movie is good.\n\nThe plot is bad. The cat sat.", "b": "Was the plot great?"}
    asked = {"question": "is it good ?", "documents": files, "answer": "it is ."}
    losses = {kind: writer.cite(**asked, verify=kind).losses for kind in ("sentence", "paragraph", "message")}
    for kind, names in {
        "paragraph": [["a:1"], ["a:2", "a:3"], ["b:1"]],
        "message": [["a:1", "a:2", "a:3"], ["b:1"]],
    }.items():
        removals = [writer.without(asked["question"], some, documents=files, answer="it is .") for some in names]
        expected = sorted(removal.original - removal.value for removal in removals)
        assert sorted(losses[kind].values()) == pytest.approx(expected, abs=1e-4)
    assert set(losses["message"]) == {"a", "b"}
    every = writer.cite(**asked, verify=99)
    assert losses["sentence"] == every.losses
    assert set(every.losses) == set(every.names)
    refused(InputError, "there are no words to leave out", lambda: writer.cite(**asked, verify="word"))
