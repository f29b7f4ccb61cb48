"""Sentences of an answer that comes in pieces are cited as they are finished, with the scores of the whole answer."""

from itertools import islice

import numpy as np
import pytest

from normxlogit import InputError
from tests import tiny

MESSAGES = [
    {"role": "system", "content": "The cat is here. The keys are there."},
    {"role": "user", "content": "Was the movie good?"},
    {"role": "tool", "name": "search", "content": '{"plot": "very good", "actor": "great"}'},
]
ANSWER = "The movie was good. The plot is great! The cat is here."
DOCUMENTS = {"a": "The movie was good. The plot is bad.", "b": "The cat is here."}


@pytest.fixture(scope="module", params=[None, tiny.CHAT_TEMPLATE], ids=["text", "chat"])
def reader(request):
    return tiny.writer(template=request.param)


def cut(text, length):
    return [text[start : start + length] for start in range(0, len(text), length)]


@pytest.mark.parametrize("given", [{"messages": MESSAGES}, {"question": "Was it good?", "documents": DOCUMENTS}])
@pytest.mark.parametrize("length", [1, 5, 100])
def test_each_sentence_has_the_scores_of_the_whole_answer(reader, given, length):
    whole = reader.cite(**given, answer=ANSWER, verify=0)
    streamed = list(reader.cite_stream(cut(f"  {ANSWER} ", length), **given))
    assert [cited.answer.strip() for cited in streamed] == [ANSWER[:19], ANSWER[:38], ANSWER]
    assert [cited.sentences for cited in streamed] == [(sentence,) for sentence in whole.sentences]
    for k, cited in enumerate(streamed):
        assert (cited.names, cited.messages, cited.question) == (whole.names, whole.messages, whole.question)
        np.testing.assert_allclose(cited.attribution.scores[0], whole.attribution.scores[k], rtol=1e-3, atol=1e-5)
        assert cited.support[0].rests == whole.support[k].rests
        assert cited.support[0].share == pytest.approx(whole.support[k].share, abs=1e-4)
        assert cited.cited[0] == whole.cited[k]


def test_a_sentence_is_cited_before_the_answer_goes_on(reader):
    taken = []

    def pieces():
        for piece in ("The movie was", " good. The", " plot", " is great."):
            taken.append(piece)
            yield piece

    stream = reader.cite_stream(pieces(), messages=MESSAGES)
    assert taken == []
    assert next(stream).sentences == ("The movie was good.",)
    assert len(taken) == 2
    assert next(stream).sentences == ("The plot is great.",)
    assert list(stream) == []


def test_a_sentence_can_be_verified(reader):
    whole = reader.cite(messages=MESSAGES, answer=ANSWER, verify=99)
    for k, cited in enumerate(reader.cite_stream(cut(ANSWER, 7), messages=MESSAGES, verify=99)):
        np.testing.assert_allclose(cited.source_losses[0], whole.source_losses[k], rtol=1e-3, atol=1e-4)


def test_what_is_not_a_stream_is_refused(reader):
    for wrong in ("The cat.", None, 3):
        with pytest.raises(InputError, match="iterable of texts"):
            reader.cite_stream(wrong, messages=MESSAGES)
    with pytest.raises(InputError, match="a piece of an answer is a text, not int"):
        list(reader.cite_stream([1], messages=MESSAGES))
    with pytest.raises(InputError, match="the question is empty"):
        reader.cite_stream(["a"], "", DOCUMENTS)
    with pytest.raises(InputError, match="messages hold the question"):
        reader.cite_stream(["a"], "Is it?", messages=MESSAGES)
    with pytest.raises(InputError, match="expected a list of messages"):
        reader.cite_stream(["a"], messages={"a": 1})
    assert list(reader.cite_stream([" ", ""], messages=MESSAGES)) == []
    assert len(list(islice(reader.cite_stream(["The cat. " * 3], messages=MESSAGES), 2))) == 2
