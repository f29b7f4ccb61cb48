"""Of an answer that reasons, verdicts are on what it concludes, and its sources are those that the reasoning read."""

from functools import partial

import numpy as np
import pytest

import normxlogit
from normxlogit import InputError
from tests import tiny
from tests.contract.compare import comes_back, nats, refused

DOCUMENTS = {"film": "The plot was never bad. The charm is great.", "cat": "The cat sat here."}
QUESTION = "Was it good?"
THOUGHTS = ("A good film.", "The plot was never bad.")
ANSWER = "<think> A good film. The plot was never bad. </think> The film was good. The cat is here."
CONCLUSION = ["The film was good.", "The cat is here."]


@pytest.fixture(scope="module", params=[None, tiny.CHAT_TEMPLATE], ids=["text", "chat"])
def explainer(request):
    return tiny.writer(template=request.param)


def prompt_of(cited):
    return cited.text[: -len(cited.answer)]


def test_verdicts_are_on_the_conclusion_directly_behind_the_question(explainer):
    cited = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER, verify="sentence")
    assert list(cited.sentences) == [sentence.text for sentence in cited.support] == CONCLUSION
    read = {word.text for reading in cited.readings for word in reading.words}
    assert read <= set(" ".join(CONCLUSION).replace(".", " .").split())
    assert cited.marked().count("<think>") == 1
    opening = cited.answer[: cited.answer.index("A good")]
    before, sentences = f"{prompt_of(cited)}{opening}</think>", [f" {sentence}" for sentence in CONCLUSION]
    for k, sentence in enumerate(sentences):
        expected = nats(explainer, before + "".join(sentences[:k]), sentence)
        assert cited.readings[k].nats == pytest.approx(expected, abs=1e-3)
        assert cited.verified.original.values[k] == pytest.approx(expected, abs=1e-3)
    without = nats(explainer, before.replace("The cat sat here.", ""), "".join(sentences))
    assert cited.losses["cat:1"] == pytest.approx(cited.verified.original.value - without, abs=1e-3)
    alone = explainer.without(QUESTION, ["cat:1"], documents=DOCUMENTS, answer=ANSWER)
    assert alone.value == pytest.approx(without, abs=1e-3)


def test_sources_are_ranked_by_what_the_reasoning_took_from_them(explainer):
    cited = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER, verify=0)
    passed = cited.through("reasoning")
    assert len(passed.targets) == 4
    np.testing.assert_array_equal(cited.evidence.scores, passed.scores[2:])
    direct = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER, reasoning=[], verify=0)
    np.testing.assert_allclose(cited.attribution.scores[2].sum(), passed.scores[2].sum(), atol=1e-4)
    assert len(direct.sentences) > len(cited.sentences)
    for shares, sources in zip(cited.sentence_shares, cited.cited, strict=True):
        assert sources[0] == int(shares.argmax())


def test_each_thought_is_left_out(explainer):
    cited = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER, verify="reasoning")
    opening, last = cited.answer[: cited.answer.index("A good")].rstrip(), f" {' '.join(CONCLUSION)}"
    before, kept = f"{prompt_of(cited)}{opening} ", (" ".join(THOUGHTS), THOUGHTS[1], THOUGHTS[0], "")
    expected = [nats(explainer, f"{before}{thoughts} </think>".replace("  ", " "), last) for thoughts in kept]
    tested = cited.verified
    measured = [removal.value for removal in (tested.original, *tested.single, tested.together)]
    np.testing.assert_allclose(measured, expected, atol=1e-3)
    assert np.isnan(cited.source_losses).all()
    assert len(cited.readings) == len(CONCLUSION)
    assert "R1" in cited.to_html()
    answered_at_once = explainer.cite(QUESTION, DOCUMENTS, answer="<think> </think> The film was good.")
    assert answered_at_once.sentences == ("The film was good.",)


def test_the_reasoning_of_a_message_is_that_of_its_answer(explainer):
    asked = {"role": "user", "content": f"{' '.join(DOCUMENTS.values())} {QUESTION}"}
    told = {"role": "assistant", "reasoning_content": " ".join(THOUGHTS), "content": " ".join(CONCLUSION)}
    cited = explainer.cite(messages=[asked, told], verify=0)
    assert list(cited.sentences) == CONCLUSION
    assert [cited.answer[start:end] for start, end in cited.attribution.reasoning] == [" ".join(THOUGHTS)]
    assert not any("good film" in cited.text[start:end] for start, end in cited.spans)


def test_the_caller_says_where_it_reasons(explainer):
    answer, cite = "A good film. The film was good.", partial(explainer.cite, QUESTION, DOCUMENTS, verify=0)
    spans = cite(answer=f"  {answer}", reasoning=[(2, 14)])
    marked = cite(answer=f"( {answer}".replace(". T", ". ) T"), reasoning=("(", ")"))
    for cited in (spans, marked):
        assert list(cited.sentences) == ["The film was good."]
        assert [cited.answer[start:end].strip() for start, end in cited.attribution.reasoning] == ["A good film."]
    for wrong in ([(0, 99)], [(0, 5), (3, 9)], "think", [3]):
        refused(InputError, "reasoning", partial(cite, answer=answer, reasoning=wrong))
    refused(InputError, "all reasoning", lambda: cite(answer="<think> A good film. </think>"))


def test_a_prompt_that_opens_the_reasoning_is_closed_before_an_answer_without_one():
    explainer = tiny.writer(template=tiny.CHAT_TEMPLATE + "<think>\n")
    cited = explainer.cite(QUESTION, DOCUMENTS, answer=" ".join(CONCLUSION), verify=0)
    assert prompt_of(cited).rstrip().endswith("</think>")
    reasoned = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER.removeprefix("<think> "), verify=0)
    assert list(reasoned.sentences) == list(cited.sentences) == CONCLUSION


@pytest.mark.parametrize("verify", [0, 1, "reasoning"])
def test_saved_answers_keep_their_reasoning(explainer, tmp_path, verify):
    cited = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER, verify=verify)
    comes_back(cited, tmp_path)
    loaded = normxlogit.load(tmp_path / "result.parquet")
    assert loaded.sentences == cited.sentences
    assert loaded.support == cited.support
    assert loaded.attribution.reasoning == cited.attribution.reasoning
