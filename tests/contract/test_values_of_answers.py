"""Values of an answer rank its sources with its other words, and are tested against the documents' other values."""

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import normxlogit
from normxlogit import Attributions, Citations, Explainer
from tests import tiny

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


def log_probability(explainer: Explainer, before: str, ending: str) -> float:
    """Of the caller's own model, in one pass."""
    first, ids = (
        explainer.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (before, before + ending)
    )
    logits = tiny.logits_of(explainer.model, ids).log_softmax(-1)
    return float(sum(logits[place - 1, ids[place]] for place in range(len(first), len(ids))))


@pytest.mark.parametrize("family", ["llama", "gpt2", "mamba"])
def test_margins_are_those_of_the_callers_own_model(family: str) -> None:
    explainer = made(family)
    answer = explainer.cite("When?", DOCUMENTS, answer="Refunds are possible within 5 days. Anna Berg built it.")
    prompt = answer.text[: -len(answer.answer)]
    swaps = answer.verified.swaps
    assert [(swap.sentence, swap.value) for swap in swaps] == [(0, "5"), (1, "Anna Berg")]
    sentences = list(answer.sentences)
    for swap in swaps:
        start = answer.attribution.targets[swap.sentence].span[0]
        before, sentence = answer.text[:start], sentences[swap.sentence]
        assert before.startswith(prompt)
        others = ["30", "1974"] if swap.value == "5" else ["Jonas Holm"]
        each = [log_probability(explainer, before, sentence.replace(swap.value, other)) for other in others]
        assert swap.other == others[int(np.argmax(each))]
        assert swap.margin == pytest.approx(log_probability(explainer, before, sentence) - max(each), abs=0.05)
        assert answer.text[swap.start : swap.end] == swap.value
    assert Citations.from_dict(answer.to_dict()) == answer


def test_a_value_without_another_of_its_kind_is_not_tested() -> None:
    answer = made().cite("When?", {"a": "Refunds are possible within 30 days."}, answer="Within 30 days.")
    assert answer.verified.swaps == ()


def whole_words(*words: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole words and of letters, in this order: what it has no word for is spelt."""
    letters = [chr(code) for code in range(33, 127)]
    vocabulary = {
        token: i
        for i, token in enumerate(["<unk>", "</s>", "\n", "\u2581", *words, *letters, *(f"##{x}" for x in letters)])
    }
    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>")


def test_a_name_at_the_beginning_of_a_sentence_is_told_by_the_vocabulary() -> None:
    known = ["score", "the", "goals", "Sweden", "Haal", "haal", "##and", "refunds", "Refunds", "Norway", "norw", "##ay"]
    tokenizer = whole_words(*known)
    model = tiny.model("llama", "CausalLM", vocab_size=len(tokenizer), max_position_embeddings=600)
    documents = {"a": "Norway beat Sweden. Refunds are free. Haaland shot the goals."}

    def values(answer: str) -> list[tuple[str, str]]:
        cited = Explainer(model, tokenizer).cite("Who?", documents, answer=answer)
        return [(swap.value, swap.other) for swap in cited.verified.swaps]

    assert values("Refunds score.") == []  # a common word
    ((value, other),) = values("Haaland score.")
    assert value == "Haaland"
    assert other in ("Norway", "Sweden")


def test_a_number_is_no_candidate_where_it_stands_in_the_sentence_already_but_one_that_ends_like_it_is() -> None:
    documents = {"a": "The dose is 200 units. The most is 1200 units. The least is 5 units."}
    cited = made().cite("What?", documents, answer="The dose of 5 is 1200 units.")
    assert {swap.value: swap.other for swap in cited.verified.swaps} == {"5": "200", "1200": "200"}


def test_what_follows_a_year_is_no_unit_but_what_follows_another_number_is() -> None:
    documents = {"a": "The pool was built in 1974 by the town. It is 1200 meters long and 5 wide."}

    def tested(answer: str) -> set[str]:
        return {swap.value for swap in made().cite("When?", documents, answer=answer).verified.swaps}

    assert tested("It was in 1974 built.") == {"1974"}
    assert tested("It was in 2010 built.") == {"2010"}
    assert tested("It is 1200 yards.") == {"1200", "yards"}


def test_each_sentence_loses_what_the_model_says_it_loses_without_the_documents() -> None:
    explainer = made()
    answer = explainer.cite("When?", DOCUMENTS, answer="Refunds take 5 days. It is old.", verify=1)
    spans = sorted(answer.spans)
    for part, loss in zip(answer.attribution.targets, answer.sentence_losses, strict=True):
        before = answer.text[: part.span[0]]
        without, end = "", 0
        for first, last in spans:
            without += before[end:first]
            end = last
        without += before[end:]
        ending = answer.text[slice(*part.span)]
        expected = log_probability(explainer, before, ending) - log_probability(explainer, without, ending)
        assert loss == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("document", "answer", "spellings", "others"),
    [
        ("The fee is 1,000 euros. The deposit is 2,500 euros.", "It is {} euros.", ["1000", "1,000"], ["2,500"]),
        ("The fee is 30 euros. The deposit is 5 euros.", "It is {} euros.", ["thirty", "30"], ["5"]),
        (
            "It was built by Anna Berg. The bank was built by Jo Holm.",
            "It was {} too.",
            ["Berg", "Anna Berg"],
            ["Jo Holm"],
        ),
        ("It is in the United Kingdom. He was in Norway then.", "In the {} too.", ["UK", "United Kingdom"], ["Norway"]),
    ],
)
def test_a_value_that_the_documents_write_in_another_way_counts_in_its_likeliest_spelling(
    explainer, document, answer, spellings, others
) -> None:
    cited = explainer.cite("What?", {"a": document}, answer=answer.format(spellings[0]), verify=1)
    (swap,) = [swap for swap in cited.verified.swaps if swap.value == spellings[0]]
    before = cited.text[: cited.attribution.targets[0].span[0]]
    own, other = (
        max(log_probability(explainer, before, answer.format(text)) for text in texts) for texts in (spellings, others)
    )
    assert swap.other in others
    assert swap.margin == pytest.approx(own - other, abs=0.05)
    literal = log_probability(explainer, before, answer.format(spellings[0])) - other
    assert swap.margin >= literal - 0.05


def test_of_many_other_values_those_of_the_sources_that_a_sentence_rests_on_most_are_tested(explainer) -> None:
    sentences = [
        f"Room {letter} has {number} seats." for letter, number in zip("abcdefghijklmn", range(21, 35), strict=True)
    ]
    cited = explainer.cite("What?", {"rooms": " ".join(sentences)}, answer="It has 50 seats.", verify=1)
    scores = cited.evidence.scores[0, cited.sources]
    strongest = {str(21 + place) for place in np.argsort(-scores)[:8]}
    before = cited.text[: cited.attribution.targets[0].span[0]]
    values = {number: log_probability(explainer, before, f"It has {number} seats.") for number in strongest}
    (swap,) = cited.verified.swaps
    assert swap.other == max(values, key=values.__getitem__)
    assert swap.source == f"rooms:{int(swap.other) - 20}"
    own = log_probability(explainer, before, "It has 50 seats.")
    assert swap.margin == pytest.approx(own - values[swap.other], abs=0.05)
    assert strongest != {str(number) for number in range(21, 29)}, "the first ones would be the same"


@pytest.mark.parametrize("verify", ["auto", 1])
def test_sources_that_are_the_same_word_for_word_are_left_out_together(explainer, verify) -> None:
    said = "Refunds are possible within 30 days."
    documents = {"a": f"{said} Shipping takes 5 days.", "b": said, "c": f"Hello.\n\n{said.replace(' are', '  are')}"}
    cited = explainer.cite("When?", documents, answer="Within 30 days.", verify=verify)
    copies = ("a:1", "b:1", "c:2")
    assert {name: cited.losses[name] for name in copies} == dict.fromkeys(copies, cited.losses["a:1"])
    spans = sorted(cited.spans[cited.names.index(name)] for name in copies)
    before, (answer,) = cited.text[: cited.attribution.targets[0].span[0]], cited.sentences
    without, end = "", 0
    for start, stop in spans:
        without += before[end:start]
        end = stop
    without += before[end:]
    loss = log_probability(explainer, before, answer) - log_probability(explainer, without, answer)
    assert cited.losses["a:1"] == pytest.approx(loss, abs=1e-3)
    assert Citations.from_dict(cited.to_dict()) == cited
