"""A text that a chat template wrote holds the tokenizer's special tokens already: they are read once."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer
from tests import tiny
from tests.contract.compare import total

TEMPLATE = (
    "[CLS] {% for m in messages %}! {{ m['content'] }} . {% endfor %}"
    "{% if add_generation_prompt %}a cat is {% else %}[SEP]{% endif %}"
)
MESSAGES = [{"role": "user", "content": "the movie is not good"}]
ANSWER = "never bad ."


def with_template():
    """A tokenizer that puts [CLS] and [SEP] around texts, and whose template writes them."""
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = TEMPLATE
    return tokenizer


@pytest.fixture(scope="module", params=["llama", "qwen2", "gemma2"])
def writer(request):
    return Explainer(tiny.model(request.param, "CausalLM"), with_template())


def rendered(explainer, *, answer_follows=True):
    return explainer.tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=answer_follows)


@pytest.mark.parametrize("method", ["frozen-gradient", "normxlogit"])
def test_a_prompt_is_explained_as_the_messages_that_it_was_written_from(writer, method) -> None:
    text = rendered(writer)
    for explain in (
        lambda prompt: writer.generate(prompt, max_new_tokens=2, method=method),
        lambda prompt: writer.explain_completion(prompt, ANSWER, method=method),
        lambda prompt: writer.explain_completion(prompt, ANSWER + " [SEP]", method=method),
        lambda prompt: writer.explain_completion([prompt], [ANSWER], method=method)[0],
    ):
        of_text, of_messages = explain(text), explain(MESSAGES)
        assert of_text.token_ids == of_messages.token_ids
        assert of_text.offsets == of_messages.offsets
        np.testing.assert_array_equal(of_text.scores, of_messages.scores)


def test_no_sentence_of_a_chat_that_is_one_text_reaches_over_its_special_tokens() -> None:
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = "[CLS]{% for m in messages %}{{ m['content'] }}[SEP]{% endfor %}"
    explainer = Explainer(tiny.model("llama", "CausalLM"), tokenizer)
    chat = [{"role": "system", "content": "the movie is bad"}, {"role": "user", "content": "is a cat here"}]
    text = tokenizer.apply_chat_template(chat, tokenize=False)
    of_text, of_messages = (explainer.explain_completion(prompt, "never") for prompt in (text, chat))
    for kind in ("sentence", "paragraph"):
        sources = of_text.sources(kind)
        assert sources.units.text[:2] == tuple(message["content"] for message in chat)
        np.testing.assert_array_equal(sources.scores, of_messages.sources(kind).scores)
    pair = tiny.explainer("bert", num_labels=2)(("a cat sat here . The mat", "the plot is good"), method="normxlogit")
    assert pair.group("sentence").units.text[:3] == ("a cat sat here .", "The mat", "the plot is good")


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_a_rendered_text_is_classified_by_the_tokens_of_the_template_alone(family) -> None:
    explainer = Explainer(tiny.model(family, num_labels=3, pad_token_id=0), with_template())
    text = rendered(explainer, answer_follows=False)
    ids = explainer.tokenizer.apply_chat_template(MESSAGES, tokenize=True, return_dict=False)
    assert ids == explainer.tokenizer(text, add_special_tokens=False)["input_ids"]
    result, by_ids = explainer([text])[0], explainer({"input_ids": [ids]})[0]
    assert list(result.token_ids) == ids
    assert result.special_tokens_mask == by_ids.special_tokens_mask
    assert total(result) == pytest.approx(tiny.logits_of(explainer.model, ids)[result.target.id].item(), abs=1e-3)
    assert [word.text for word in result.words()] == ["!", *MESSAGES[0]["content"].split(), "."]


def test_of_a_pair_the_special_tokens_between_and_around_are_read_once() -> None:
    explainer = Explainer(tiny.model("bert", num_labels=3), tiny.tokenizer_for("bert"))
    expected = explainer(tiny.PAIR)
    first, second = tiny.PAIR
    for pair in ((f"[CLS] {first} [SEP]", f"{second} [SEP]"), (f"[CLS] {first}", f"[SEP] {second}")):
        result = explainer(pair)
        assert result.token_ids == expected.token_ids
        np.testing.assert_array_equal(result.scores, expected.scores)
        assert (result.text, result.text_pair) == pair
        for (start, end), token, sequence in zip(result.offsets, result.tokens, result.units.sequence, strict=True):
            assert sequence is None or pair[sequence][start:end] == token


def test_a_special_token_inside_a_text_is_a_token_of_the_text() -> None:
    explainer = Explainer(tiny.model("bert", num_labels=3), tiny.tokenizer_for("bert"))
    text = "the cat [SEP] a movie"
    assert list(explainer(text).token_ids) == explainer.tokenizer(text)["input_ids"]
    assert not explainer(text).notes
    masked = Explainer(tiny.model("bert", "MaskedLM"), tiny.tokenizer_for("bert"))
    assert masked("[MASK] is good").token_ids == tuple(masked.tokenizer("[MASK] is good")["input_ids"])


def test_a_written_answer_of_an_encoder_decoder_model_ends_once() -> None:
    tokenizer = tiny.tokenizer()
    explainer = Explainer(tiny.model("bart", "Seq2SeqLM"), tokenizer)
    expected = explainer.explain_completion("the movie is good", "a cat")
    result = explainer.explain_completion("[CLS] the movie is good [SEP]", "a cat [SEP]")
    assert result.token_ids == expected.token_ids
    np.testing.assert_array_equal(result.scores, expected.scores)
    with torch.no_grad():
        source = tokenizer("the movie is good", return_tensors="pt")
        before = torch.tensor([expected.token_ids[expected.prompt_tokens - 1 : -1]])
        logits = explainer.model(**source, decoder_input_ids=before).logits[0]
    assert expected.generated[-1].value == pytest.approx(logits[-1, expected.token_ids[-1]].item(), abs=1e-3)
