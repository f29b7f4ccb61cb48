"""Citations of answers that were written elsewhere, and of prompts of one's own."""

import json
from functools import partial

import numpy as np
import pytest

from normxlogit import InputError, UnsupportedModelError
from normxlogit.grounding import Citations
from tests import tiny
from tests.contract.compare import refused

DOCUMENTS = {"a": "The movie is good. The plot is bad.", "b": "The keys are here."}
QUESTION, ANSWER = "Is it good?", "The movie was great. The keys are here."
TEMPLATE = "{% for m in messages %}<s>{{ m['role'] }} : {{ m['content'] }} </s>{% endfor %}<s>assistant :"


def made(template=None, length=40):
    return tiny.writer(template=template, length=length)


def test_an_answer_is_a_completion_explained_by_sources_with_marks():
    explainer = made()
    answer = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER)
    assert answer.answer.strip() == ANSWER
    assert [sentence.strip() for sentence in answer.sentences] == ["The movie was great.", "The keys are here."]
    assert answer.question == QUESTION
    prompt = answer.text[: -len(answer.answer)]
    spans = dict(zip(answer.names, answer.spans, strict=True))
    plain = explainer.explain_completion(prompt, answer.answer, sources=spans, parts="sentence")
    np.testing.assert_allclose(answer.attribution.scores, plain.scores, rtol=1e-4, atol=1e-5)
    assert Citations.from_dict(answer.to_dict()) == answer
    marks = ["".join(f"[{n}]" for n in s.citations if s.supported) for s in answer.support]
    assert answer.marked().strip() == f"The movie was great.{marks[0]} The keys are here.{marks[1]}"
    assert [citation.number for citation in answer.citations()] == list(range(1, len(answer.citations()) + 1))


def test_the_marks_of_an_answer_that_cites_by_itself_are_no_words_of_it():
    explainer = made()
    plain = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER)
    for given in (
        "The movie was great [1]. The keys are here.[2][3]",
        "The movie was great.[1, 2] The keys are here [doc2].",
        "The movie was great[^1]. The keys are here.【1†source】",
    ):
        cited = explainer.cite(QUESTION, DOCUMENTS, answer=given)
        assert cited.answer.strip() == ANSWER
        np.testing.assert_array_equal(cited.attribution.scores, plain.attribution.scores)
        assert [s.judgement for s in cited.support] == [s.judgement for s in plain.support]
        assert any("[" in note or "【" in note for note in cited.attribution.notes)
    reasoned = explainer.cite(QUESTION, DOCUMENTS, answer="It is good [1]. The keys are here.", reasoning=[(0, 15)])
    assert [sentence.strip() for sentence in reasoned.sentences] == ["The keys are here."]
    year = "The movie [2024] was great. The keys are here."
    assert explainer.cite(QUESTION, DOCUMENTS, answer=year).answer.strip() == year


def test_code_in_an_answer_holds_no_citation_marks():
    explainer = made(length=200)
    for code in ("`items[1]`", "``the [2] `keys` ``", "\n```python\nitems[1] = rows [2]\n```\n", "\n~~~\nmovie[1]"):
        answer = f"The movie was great. {code} The keys are here."
        cited = explainer.cite(QUESTION, DOCUMENTS, answer=answer.replace("great.", "great.[1]"))
        assert cited.answer.strip() == answer.strip()
        assert [note for note in cited.attribution.notes if "[1]" in note and "[2]" not in note]


def test_what_is_missing_is_named():
    cite = made().cite
    for answer in ("", "  ", 3, ["a"], "</s>", "\u00e9"):
        refused(InputError, "answer", partial(cite, QUESTION, DOCUMENTS, answer=answer))
    refused(InputError, "question", lambda: cite(documents=DOCUMENTS, answer=ANSWER))
    refused(InputError, "documents", lambda: cite(QUESTION, answer=ANSWER))
    refused(InputError, "call cite for each", lambda: cite([QUESTION, QUESTION], DOCUMENTS, answer=ANSWER))
    messages = [{"role": "user", "content": "the movie"}]
    for given in ({"question": QUESTION}, {"documents": DOCUMENTS}, {"system": "Be brief."}):
        refused(InputError, "messages hold the question", partial(cite, **given, messages=messages, answer=ANSWER))


def test_support_has_the_share_of_the_sources_and_a_verdict_on_each_sentence():
    explainer = made()
    answer = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER, verify=0)
    prompt, spans = answer.text[: -len(answer.answer)], dict(zip(answer.names, answer.spans, strict=True))
    sources = explainer.explain_completion(prompt, answer.answer, sources=spans, parts="sentence")
    for support, scores in zip(answer.support, sources.scores, strict=True):
        parts = [scores[: len(answer.names)].sum(), *scores[len(answer.names) :]]  # sources, prompt, answer
        assert support.share == pytest.approx(parts[0] / np.abs(parts).sum(), abs=1e-4)
    assert [s.text.strip() for s in answer.support] == ["The movie was great.", "The keys are here."]
    assert [s.judgement == "quoted" for s in answer.support] == [False, True]
    state = json.loads(json.dumps(answer.to_dict()))
    assert state["answer"] == ANSWER
    for row, sentence in zip(state["sentences"], answer.support, strict=True):
        assert state["text"][slice(*row["span"])].strip() == row["text"].strip() == sentence.text.strip()
        assert row["citations"] == (list(sentence.citations) if sentence.supported else [])
        assert row["verdict"] == sentence.verdict
    assert state["summary"] == answer.summary
    for row in state["citations"]:
        assert row["text"] == state["text"][slice(*row["span"])]
        assert row["text"] in DOCUMENTS[row["document"]]
    tested = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER, method="occlusion", verify=1)
    assert all(s.judgement != "not tested" for s in tested.support)


@pytest.mark.parametrize("template", [None, TEMPLATE], ids=["text", "chat"])
def test_special_tokens_in_an_answer_are_read_as_their_text(template):
    explainer = made(template, length=400)
    plain = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER)
    ended = explainer.cite(QUESTION, DOCUMENTS, answer=f"{ANSWER} [SEP][SEP]")
    np.testing.assert_allclose(ended.attribution.scores, plain.attribution.scores, atol=1e-5)
    assert ended.answer.strip() == ANSWER
    held = explainer.cite(QUESTION, DOCUMENTS, answer="The movie[SEP] was great.")
    tokenizer = explainer._model.tokenizer
    ids = tokenizer("The movie[SEP] was great.", add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert tokenizer.sep_token_id not in ids
    prompt = plain.text[: -len(plain.answer)]
    if template is None:
        spans = dict(zip(held.names, held.spans, strict=True))
        expected = explainer.explain_completion(prompt, ids, sources=spans, parts="sentence")
        np.testing.assert_allclose(held.attribution.scores, expected.scores, rtol=1e-4, atol=1e-5)
    assert held.text[: len(prompt)] == prompt


def test_an_answer_that_a_pass_over_the_whole_text_would_not_write_is_refused():
    reads_both_ways = tiny.explainer("bert", "CausalLM")  # its cache keeps what it read before the answer was there
    with pytest.raises(UnsupportedModelError, match="generate"):
        reads_both_ways.cite("the cat", ["a cat .", "a film ."], verify=0, max_new_tokens=4)
