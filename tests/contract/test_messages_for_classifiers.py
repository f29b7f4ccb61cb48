"""Messages given to a reward model or a classifier are read as its chat template writes them."""

import numpy as np
import pandas
import pytest

from normxlogit import Explainer, InputError
from tests import tiny
from tests.contract.compare import total
from tests.contract.test_chat_template_strings import with_template

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
    with pytest.raises(InputError, match="the model reads 40"):
        reward(chat, long_text="error")


def test_a_pair_of_texts_stays_a_pair(reward) -> None:
    pair = ("user", "is the movie good ?")
    for result in (reward(pair), reward([pair])[0]):
        assert (result.text, result.text_pair) == pair


def test_what_a_template_is_given_beside_messages_is_read() -> None:
    tokenizer = with_template()
    tokenizer.chat_template = "{% if thinking %}never {% endif %}" + tokenizer.chat_template
    explainer = Explainer(tiny.model("llama", num_labels=3, pad_token_id=0), tokenizer)
    result = explainer({"messages": CHAT, "chat_template_kwargs": {"thinking": True}})
    assert list(result.token_ids) == tokenizer.apply_chat_template(CHAT, thinking=True, return_dict=False)
    assert result.text == tokenizer.apply_chat_template(CHAT, thinking=True, tokenize=False)


def test_messages_without_a_template_are_refused_in_a_line() -> None:
    for chats in (CHAT, [CHAT, SHORT]):
        with pytest.raises(InputError, match="the tokenizer has no chat template for messages"):
            tiny.explainer("bert")(chats)
