"""Documents of an answer, and their sentences, as units."""

import pytest

pytest.importorskip("normxlogit.interactions", reason="the wing is not there")
pytest.importorskip("normxlogit.grounding", reason="the wing that reads documents is not there")

from normxlogit import InputError
from tests import tiny

DOCUMENTS = {"one": "The movie is good. The cat sat.", "two": "a bad plot .", "three": "The film. The plot."}


@pytest.fixture(scope="module")
def writer():
    return tiny.writer()


def test_an_answer_loses_what_it_loses_without_the_documents_in_a_citation(writer) -> None:
    two = {name: DOCUMENTS[name] for name in ("one", "two")}
    result = writer.pairs("is it good", " the cat sat", documents=two)
    assert (result.units, result.quantity) == (("one", "two"), "log-probability")
    cited = writer.cite("is it good", two, answer=" the cat sat", verify=["one", "two"])
    lost = [removal.original - removal.value for removal in cited.scored.verified.single]
    # Of two units the Shapley value and half of the joint effect are what is lost without the one.
    assert (result.single + result.joint[0, 1] / 2).tolist() == pytest.approx(lost, abs=1e-3)


def test_sentences_of_documents(writer) -> None:
    result = writer.pairs("is it good", " the cat sat", documents=DOCUMENTS, units="sentence")
    assert result.units == ("one:1", "one:2", "two:1", "three:1", "three:2")


def test_an_answer_that_is_not_given_is_written(writer) -> None:
    result = writer.pairs("is it good", documents=DOCUMENTS)
    assert result.attribution.completion


@pytest.mark.parametrize(("options", "words"), [({"units": "word"}, "document"), ({"target": 1}, "target=")])
def test_refusals(writer, options, words) -> None:
    with pytest.raises(InputError, match=words):
        writer.pairs("is it good", " the cat sat", documents=DOCUMENTS, **options)
