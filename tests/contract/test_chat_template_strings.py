"""A text that a chat template wrote holds the tokenizer's special tokens already: they are read once."""

from functools import partial

import numpy as np
import pandas
import pytest

from normxlogit import Explainer, InputError
from tests import tiny
from tests.contract.compare import refused, total

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


CHAT = [{"role": "user", "content": "is the movie good ?"}, {"role": "assistant", "content": "never , bad plot"}]
SHORT = [{"role": "user", "content": "a cat"}]


@pytest.fixture(scope="module", params=["llama", "qwen2", "bert"])
def reward(request) -> Explainer:
    return Explainer(tiny.model(request.param, num_labels=1, pad_token_id=0), with_template())


def template_ids(explainer, chat):
    return explainer.tokenizer.apply_chat_template(chat, tokenize=True, return_dict=False)


def value(explainer, ids):
    """What the caller's own model answers."""
    return tiny.logits_of(explainer.model, ids)[0].item()


def test_a_chat_is_one_input_and_a_list_of_chats_a_batch(reward) -> None:
    pair = ("user", "is the movie good ?")
    for result in (reward(pair), reward([pair])[0]):
        assert (result.text, result.text_pair) == pair
    alone = reward(CHAT)
    assert list(alone.token_ids) == template_ids(reward, CHAT)
    assert alone.prediction.value == pytest.approx(value(reward, alone.token_ids), abs=1e-4)
    assert total(alone) == pytest.approx(value(reward, alone.token_ids), abs=1e-3)
    framed = reward(pandas.DataFrame({"n": [1, 2], "messages": [CHAT, SHORT]}))
    for results in (reward([CHAT, SHORT]), framed, reward([{"messages": CHAT}, {"messages": SHORT}])):
        for result, chat in zip(results, (CHAT, SHORT), strict=True):
            assert list(result.token_ids) == template_ids(reward, chat)
            np.testing.assert_allclose(result.scores, reward(chat).scores, atol=1e-5)


def test_words_and_messages_are_units_and_what_the_template_wrote_is_not(reward) -> None:
    result = reward(CHAT)
    assert [word.text for word in result.words()] == ["is", "the", "movie", "good", "?", "never", ",", "bad", "plot"]
    grouped = result.group("message")
    assert grouped.units.name[:2] == ("user", "assistant")
    assert grouped.units.text[:2] == tuple(message["content"] for message in CHAT)
    inside = [[i for i, token in enumerate(result.tokens) if token in message["content"].split()] for message in CHAT]
    np.testing.assert_allclose(grouped.scores[:2], [result.scores[tokens].sum() for tokens in inside], atol=1e-5)
    assert total(grouped) == pytest.approx(total(result), abs=1e-4)
    assert "never" in result.to_html()
    assert type(result).from_dict(result.to_dict()) == result


def test_words_of_messages_are_removed_and_the_template_stays(reward) -> None:
    verified = reward(CHAT, verify=2).verified
    words = {word for message in CHAT for word in message["content"].split()}
    ids = template_ids(reward, CHAT)
    assert verified.original.value == pytest.approx(value(reward, ids), abs=1e-4)
    for removal in (*verified.single, verified.together):
        assert set(removal.units) <= words
        removed = [tiny.VOCABULARY[word] for word in removal.units]
        mask = tiny.VOCABULARY["[MASK]"]
        left = [index for index in ids if index not in removed]
        masked = [mask if index in removed else index for index in ids]
        answers = [value(reward, left), value(reward, masked)]
        assert min(abs(removal.value - answer) for answer in answers) < 1e-4


def test_a_long_chat_is_cut_or_read_in_windows_as_texts_are(reward) -> None:
    chat = [{"role": "user", "content": "the movie is not good . " * 12}]
    with pytest.warns(UserWarning, match="truncated"):
        cut = reward(chat)
    assert cut.truncated
    assert len(cut.tokens) == 40
    assert total(cut) == pytest.approx(value(reward, cut.token_ids), abs=1e-3)
    whole = reward(chat, long_text="window")
    assert list(whole.token_ids) == template_ids(reward, chat)
    refused(InputError, "the model reads 40", lambda: reward(chat, long_text="error"))


def test_messages_without_a_template_are_refused_in_a_line() -> None:
    for chats in (CHAT, [CHAT, SHORT]):
        refused(InputError, "no chat template for messages", partial(tiny.explainer("bert"), chats))
