"""What ranks the sources of an answer: all of its words, and the values that tell one source from another."""

import numpy as np
import pytest

import normxlogit
from normxlogit import Attributions, Citations, Explainer
from tests import tiny

DOCUMENTS = {
    "refunds.txt": "Refunds are possible within 30 days. Shipping takes 5 days.",
    "pool.txt": "The pool was built by Anna Berg in 1974. The library was built by Jonas Holm.",
}
ANSWER = "Refunds are possible within 5 days. This is all."


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer(tiny.model("llama", "CausalLM", vocab_size=100, max_position_embeddings=600), tiny.letters())


def test_a_value_is_scored_by_its_difference_from_the_others(explainer):
    cited = explainer.cite("When?", DOCUMENTS, answer=ANSWER, verify=0)
    prompt, spans = cited.text[: -len(cited.answer)], dict(zip(cited.names, cited.spans, strict=True))

    def last_token(completion):
        scored = explainer.explain_completion(prompt, completion, sources=spans, parts=[-1])
        return scored.scores[0, scored.units.sources]

    before = cited.answer.partition("5")[0]
    others = [last_token(before + first) for first in ("3", "1")]  # 30 and 1974
    expected = last_token(before + "5") - np.mean(others, axis=0)
    np.testing.assert_allclose(cited.value_scores[0], expected, atol=1e-5)
    assert np.isnan(cited.value_scores[1]).all()  # of the sentence without a value


def test_values_count_for_half_of_the_evidence(explainer):
    cited = explainer.cite("When?", DOCUMENTS, answer=ANSWER, verify=0)
    plain = explainer.explain_completion(
        cited.text[: -len(cited.answer)],
        cited.answer,
        sources=dict(zip(cited.names, cited.spans, strict=True)),
        parts="sentence",
    )
    np.testing.assert_allclose(cited.attribution.scores, plain.scores, rtol=1e-4, atol=1e-5)
    scores = plain.scores[:, cited.sources]
    np.testing.assert_allclose(cited.evidence.scores[1, cited.sources], scores[1], rtol=1e-4, atol=1e-5)
    values = np.maximum(cited.value_scores[0], 0) / np.abs(cited.value_scores[0]).sum()
    words = scores[0] / np.maximum(scores[0], 0).sum()
    expected = np.maximum(values + words, 0)
    np.testing.assert_allclose(cited.sentence_shares[0], expected / expected.sum(), atol=1e-4)
    assert cited.top(1, sentence=0)[0].name == cited.names[int(np.argmax(expected))]


@pytest.mark.parametrize("ending", [".json", ".parquet"])
def test_values_are_saved(explainer, tmp_path, ending):
    cited = [explainer.cite("When?", DOCUMENTS, answer=text, verify=0) for text in (ANSWER, "This is all.")]
    Attributions(cited).save(tmp_path / f"cited{ending}")
    loaded = list(normxlogit.load(tmp_path / f"cited{ending}"))
    assert loaded == cited
    assert loaded[0].top(4) == cited[0].top(4)
    assert Citations.from_dict(cited[0].to_dict()) == cited[0]


@pytest.mark.parametrize(
    ("question", "answer", "method"),
    [
        ("When?", "This is all.", None),  # no value
        ("Are they possible within 5 days?", "Yes, within 5 days.", None),  # one that the question holds
        ("When?", ANSWER, "normxlogit"),  # scores of another kind
        ("When?", ANSWER, "occlusion"),
    ],
)
def test_other_answers_are_ranked_by_all_of_their_words(explainer, question, answer, method):
    cited = explainer.cite(question, DOCUMENTS, answer=answer, method=method, verify=0)
    assert cited.value_scores is None
    assert cited.evidence == cited.attribution


@pytest.mark.parametrize(
    ("said", "sources"),
    [
        ("When does it ship?", ()),
        ("Tell me when it ships", ()),
        ("It ships on 5 May. Doesn't it?", ("user:1",)),
        ("It ships on 5 May. Is that right? And “when” (exactly?)", ("user:1",)),
        ("它什么时候发货？", ()),
        ("It ships on 5 May. Say it again.", ("user:1", "user:2")),
    ],
)
def test_the_question_is_no_source(explainer, said, sources):
    messages = [
        {"role": "tool", "name": "search", "content": "It ships on 30 May."},
        {"role": "user", "content": said},
        {"role": "assistant", "content": "On 5 May."},
    ]
    cited = explainer.cite(messages=messages, verify=0)
    assert cited.names == ("tool result search:1", *sources)
    assert [message.name for message in cited.messages] == ["tool result search", "user"]
    assert cited.question == said


def test_a_question_alone_is_a_source(explainer):
    messages = [{"role": "user", "content": "When?"}, {"role": "assistant", "content": "On 5 May."}]
    assert explainer.cite(messages=messages, verify=0).names == ("user:1",)
