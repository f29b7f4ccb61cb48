"""The swap test of citations: the answer's values against the other values of the documents."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from normxlogit import Citations, Explainer
from tests import tiny

DOCUMENTS = {
    "refunds.txt": "Refunds are possible within 30 days. Shipping takes 5 days.",
    "pool.txt": "The pool was built by Anna Berg in 1974. The library was built by Jonas Holm.",
}


def made(family: str = "llama") -> Explainer:
    return Explainer(tiny.model(family, "CausalLM", vocab_size=100, max_position_embeddings=600), tiny.letters())


def log_probability(explainer: Explainer, before: str, ending: str) -> float:
    first, ids = (
        explainer.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (before, before + ending)
    )
    with torch.no_grad():
        logits = explainer.model(torch.tensor([ids])).logits[0].log_softmax(-1)
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
