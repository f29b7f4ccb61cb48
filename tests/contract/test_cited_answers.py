"""Citations of answers that were written elsewhere, and of prompts of one's own."""

import numpy as np
import pytest

from normxlogit import Citations, Explainer, InputError
from tests import tiny

DOCUMENTS = {"a": "The movie is good. The plot is bad.", "b": "The keys are here."}
QUESTION, ANSWER = "Is it good?", "The movie was great. The keys are here."
TEMPLATE = "{% for m in messages %}<s>{{ m['role'] }} : {{ m['content'] }} </s>{% endfor %}<s>assistant :"


def made(template=None):
    tokenizer = tiny.tokenizer_for("llama")
    tokenizer.chat_template = template
    return Explainer(tiny.model("llama", "CausalLM"), tokenizer)


def test_an_answer_is_what_explain_sources_explains():
    explainer = made()
    answer = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER)
    assert answer.completion.strip() == ANSWER
    assert [part.name.strip() for part in answer.parts] == ["The movie was great.", "The keys are here."]
    assert answer.question == QUESTION
    prompt = answer.text[: -len(answer.completion)]
    spans = dict(zip(answer.names, answer.spans, strict=True))
    plain = explainer.explain_sources(prompt, answer.completion, sources=spans, parts="sentence")
    np.testing.assert_allclose(answer.table, plain.table, rtol=1e-4, atol=1e-5)
    assert Citations.from_dict(answer.to_dict()) == answer


@pytest.mark.parametrize("template", [None, TEMPLATE], ids=["text", "chat"])
def test_a_prompt_of_ones_own(template):
    explainer = made(template)
    content = "The movie is good. The plot is bad. Is it good?"
    prompt, message = (content, ()) if template is None else ([{"role": "user", "content": content}], (0,))
    spans = {"review": (*message, 0, 35)}
    answer = explainer.cite(messages=prompt, documents=spans, answer=ANSWER)
    assert answer.names == ("review:1", "review:2")
    assert [answer.text[slice(*span)] for span in answer.spans] == ["The movie is good.", "The plot is bad."]
    assert answer.question == ""
    measured = explainer.cite(messages=prompt, documents=spans, answer=ANSWER, verify=2)
    assert set(measured.verified) == set(answer.names)


def test_what_is_missing_is_named():
    explainer = made()
    for answer in ("", "  ", 3, ["a"], "</s>", "\u00e9"):
        with pytest.raises(InputError, match="answer"):
            explainer.cite(QUESTION, DOCUMENTS, answer=answer)
    with pytest.raises(InputError, match="question"):
        explainer.cite(documents=DOCUMENTS, answer=ANSWER)
    with pytest.raises(InputError, match="documents"):
        explainer.cite(QUESTION, answer=ANSWER)
    with pytest.raises(InputError, match="messages hold the question"):
        explainer.cite(QUESTION, {"a": (0, 5)}, messages="the movie", answer=ANSWER)
    for documents in (None, {}, ["the movie"], {"a": (0, 0, 9)}, {"a": "xy"}, {"a": None}, {"a": (5, 5)}):
        with pytest.raises(InputError, match=r"span|hold no sentence"):
            explainer.cite(messages="the movie is good .", documents=documents, answer=ANSWER)


def test_support_adds_up_and_says_which_sentences_rest_on_the_documents():
    explainer = made()
    answer = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER)
    sources = explainer.explain_sources(
        answer.text[: -len(answer.completion)],
        answer.completion,
        sources=dict(zip(answer.names, answer.spans, strict=True)),
        parts="sentence",
    )
    sink = np.zeros(len(answer.parts)) if sources.sink is None else sources.sink
    wholes = sources.table.sum(1) + sources.rest + sources.written + sources.bias + sink
    for support, whole in zip(answer.support, wholes, strict=True):
        parts = (support.documents, support.prompt, support.answer)
        assert sum(parts) + support.sink + support.bias == pytest.approx(whole, abs=1e-3)
        assert support.share == pytest.approx(support.documents / np.abs(parts).sum(), abs=1e-5)
    assert [s.text.strip() for s in answer.support] == ["The movie was great.", "The keys are here."]
    shares = sorted(s.share for s in answer.support)
    between = answer.supported_from(sum(shares) / 2)
    assert sorted(s.supported for s in between) == [False, True]
    for support in between:
        rests = "rests on [" if support.supported else "not supported by the documents"
        assert support.verdict.startswith(rests)
        assert bool(support.citations) == support.supported
    assert all(s.supported for s in answer.supported_from(-1))
    assert [row["supported"] for row in answer.to_dict()["answer"]] == [s.supported for s in answer.support]
    with pytest.raises(InputError, match="add up"):
        _ = explainer.cite(QUESTION, DOCUMENTS, answer=ANSWER, method="occlusion").support


def test_marks_and_footnotes_stand_behind_supported_sentences():
    answer = made().cite(QUESTION, DOCUMENTS, answer=ANSWER)
    marks = ["".join(f"[{n}]" for n in s.citations) for s in answer.support]
    assert answer.marked().strip() == f"The movie was great.{marks[0]} The keys are here.{marks[1]}"
    page = answer.to_markdown()
    assert page.startswith(f"The movie was great.{marks[0].replace('[', '[^')}")
    used = {number for support in answer.support for number in support.citations}
    for citation in (c for c in answer.citations() if c.number in used):
        assert f"[^{citation.number}]: {citation.name}: {citation.text}\n" in page
