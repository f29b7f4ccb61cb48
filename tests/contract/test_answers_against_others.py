"""Answers and next words of several tokens, alone and against others, compared with the caller's own model."""

import itertools

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers
from transformers import PreTrainedTokenizerFast

from normxlogit import ALL, Explainer, InputError, MethodError, TargetError
from tests import tiny
from tests.contract.compare import present, refused, same, total

PROMPT = "the movie is not good and"
CHOSEN, REJECTED = " a great film", " very bad"  # three tokens and two
SAME_LENGTH = " not bad"
FAMILIES = ["llama", "qwen2", "gemma2", "gpt2"]


@pytest.fixture(scope="module", params=FAMILIES)
def writer(request) -> Explainer:
    tokenizer = tiny.tokenizer_for(request.param)
    tokenizer.chat_template = tiny.CHAT_TEMPLATE
    return Explainer(tiny.model(request.param, "CausalLM"), tokenizer)


def ids_of(writer, text):
    return writer.tokenizer(text, add_special_tokens=False)["input_ids"]


def logits_before(writer, prompt, answer):
    """The caller's own model's logits at each token of an answer, (G, V), and its ids; a prompt may be token ids."""
    prompt_ids, answer_ids = ids_of(writer, prompt) if isinstance(prompt, str) else list(prompt), ids_of(writer, answer)
    return tiny.logits_of(writer.model, prompt_ids + answer_ids)[len(prompt_ids) - 1 : -1], answer_ids


def explained(writer, prompt, answer):
    """The sum of the logits of an answer's tokens, each less the mean over the vocabulary."""
    logits, ids = logits_before(writer, prompt, answer)
    return sum((row[index] - row.mean()).item() for row, index in zip(logits, ids, strict=True))


def nats(writer, prompt, answer):
    logits, ids = logits_before(writer, prompt, answer)
    return sum(row.log_softmax(-1)[index].item() for row, index in zip(logits, ids, strict=True))


def less(measure, writer, prompt):
    return measure(writer, prompt, CHOSEN) - measure(writer, prompt, REJECTED)


def test_the_prompts_scores_add_up_to_the_difference_of_both_answers(writer) -> None:
    result = writer.explain_completion(PROMPT, CHOSEN, contrast=REJECTED)
    assert list(result.token_ids) == ids_of(writer, PROMPT)
    assert total(result) == pytest.approx(less(nats, writer, PROMPT), abs=1e-3)
    assert (result.target.name, result.target.contrast) == (CHOSEN, REJECTED)
    assert result.quantity == "log-probability less the contrast's"
    alone = writer(PROMPT, target=CHOSEN)
    assert total(alone) == pytest.approx(explained(writer, PROMPT, CHOSEN), abs=1e-3)
    sources = writer.explain_completion(PROMPT, CHOSEN, contrast=REJECTED, sources={"film": (4, 9)})
    assert sources.units.names == ("film", "the rest of the text")
    assert sources.scores[0] == pytest.approx(result.scores[1], abs=1e-5)
    assert total(sources) == pytest.approx(total(result), abs=1e-3)
    assert type(result).from_dict(result.to_dict()) == result
    assert "very bad" in result.to_html()
    assert "very bad" in str(result)


def test_of_several_prompts_some_may_have_no_contrast(writer) -> None:
    for contrasts in ([None, REJECTED], [REJECTED, None]):
        both = writer.explain_completion([PROMPT, PROMPT], [CHOSEN, CHOSEN], contrast=contrasts)
        for result, contrast in zip(both, contrasts, strict=True):
            same(result, writer.explain_completion(PROMPT, CHOSEN, contrast=contrast))


def test_a_random_ranking_is_one_of_any_two_answers(writer) -> None:
    result = writer.explain_completion(PROMPT, CHOSEN, contrast=REJECTED, method="random")
    assert list(result.token_ids) == ids_of(writer, PROMPT)
    assert len(np.unique(result.scores)) == len(result.tokens)


def test_a_token_is_not_compared_with_itself(writer) -> None:
    for options in ({"target": 7}, {"targets": [7]}):
        with pytest.raises(TargetError, match="is also the contrast"):
            writer.explain_completion(PROMPT, [5], contrast=7, **options)


def test_answers_of_different_lengths_are_compared_by_their_log_probabilities(writer) -> None:
    token, *_ = ids_of(writer, " bad")
    result = writer.explain_completion(PROMPT, [token], contrast=REJECTED)
    # A log-probability is the token's logit less the mean of all logits by their probabilities, and a constant.
    entries = [writer.explain_completion(PROMPT, REJECTED, target=i).scores for i in range(tiny.SIZE)]
    of_entries = np.stack(entries)[..., : len(result.tokens)]  # (V, G, T): each entry, where each token is predicted
    expected = np.zeros(len(result.tokens))
    for sign, answer in ((1, [token]), (-1, ids_of(writer, REJECTED))):
        before = ids_of(writer, PROMPT)
        logits = tiny.logits_of(writer.model, before + answer)[len(before) - 1 : -1]
        for place, (row, index) in enumerate(zip(logits, answer, strict=True)):
            probabilities = row.softmax(-1).numpy()
            expected += sign * (of_entries[index, place] - probabilities @ of_entries[:, place])
    np.testing.assert_allclose(result.scores, expected, atol=1e-4)


def test_several_targets_of_different_lengths_have_their_log_probabilities_in_rows(writer) -> None:
    rows = writer(PROMPT, target=[" bad", CHOSEN, REJECTED])
    expected = [nats(writer, PROMPT, answer) for answer in (" bad", CHOSEN, REJECTED)]
    np.testing.assert_allclose(total(rows), expected, atol=1e-3)
    assert rows.quantity == "log-probability"
    assert f"log-probability of {CHOSEN!r}: {expected[1]:.2f}" in str(rows)
    against = writer(PROMPT, target=[REJECTED, SAME_LENGTH], contrast=CHOSEN)
    np.testing.assert_allclose(total(against)[0], -less(nats, writer, PROMPT), atol=1e-3)
    each = writer([PROMPT, "a cat"], targets=[CHOSEN, "bad"])
    quantities = {a.quantity for a in each}
    assert quantities == {"logit less the vocabulary's mean"}, "no text is compared with another"


ANSWERS = (" bad", " good", " very bad", " not good", " a great film", " not good and the movie is")


@pytest.mark.parametrize("method", present("frozen-gradient", "gradient-x-input", "occlusion"))
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_printed_for_an_answer_is_likelier_or_the_result_says_why_not(family, method) -> None:
    torch.manual_seed(FAMILIES.index(family))
    explainer = Explainer(tiny.model(family, "CausalLM"), tiny.tokenizer_for(family))
    for pair in itertools.combinations(ANSWERS, 2):  # also of the same length
        result = explainer.explain_completion("the cat is", pair[0], contrast=pair[1], method=method)
        first, second = (nats(explainer, "the cat is", answer) for answer in pair)
        name, other, printed = result.target.name, result.target.contrast, str(result)
        assert f"log-probability of {name!r}: {first:.2f}, of {other!r}: {second:.2f}" in printed
        assert ("times less likely" in printed) is (first < second)
        if result.bias is not None and result.quantity.endswith("less the contrast's"):
            assert total(result) == pytest.approx(first - second, abs=1e-3)
        assert result.quantity.startswith("log-probability") is (len(set(map(len, map(str.split, pair)))) == 2)
        is_for_the_likelier = bool(result.scores.sum() * (first - second) > 0)
        assert is_for_the_likelier is ("the less likely answer" not in printed)


@pytest.mark.parametrize("method", present("normxlogit", "logat", "input-norm", "gradient-norm"))
def test_methods_that_know_no_log_probability_refuse_answers_of_different_lengths(writer, method) -> None:
    def explain(answer):
        return writer.explain_completion(PROMPT, answer, contrast=REJECTED, method=method)

    refused(MethodError, f"which {method} does not explain", lambda: explain(CHOSEN))
    refused(MethodError, "frozen-gradient does", lambda: writer(PROMPT, target=[CHOSEN, REJECTED], method=method))
    assert explain(SAME_LENGTH).quantity != "log-probability less the contrast's"


@pytest.mark.parametrize("method", present("frozen-gradient", "gradient-x-input", "occlusion"))
def test_next_words_are_explained_as_the_answer_and_the_other_way_round_negated(writer, method) -> None:
    answer = writer.explain_completion(PROMPT, CHOSEN, contrast=REJECTED, method=method)
    words = writer(PROMPT, target="a great film", contrast="very bad", method=method)
    swapped = writer(PROMPT, target=REJECTED, contrast=CHOSEN, method=method)
    for result, sign in ((words, 1), (swapped, -1)):
        np.testing.assert_allclose(result.scores * sign, answer.scores, atol=1e-5)
    assert words.prediction == writer(PROMPT, method="normxlogit").prediction
    assert words.target.position == len(words.tokens) - 1


def test_occlusion_of_sources_is_what_the_difference_loses_without_each(writer) -> None:
    words = PROMPT.split()
    result = writer.explain_completion(PROMPT, CHOSEN, contrast=REJECTED, sources="word", method="occlusion")
    without = [" ".join(words[:i] + words[i + 1 :]) for i in range(len(words))]
    expected = [less(nats, writer, PROMPT) - less(nats, writer, prompt) for prompt in without]
    assert list(result.units.text) == words
    np.testing.assert_allclose(result.scores, expected, atol=1e-3)


@pytest.mark.parametrize("sources", [None, "word", {"film": (4, 9), "rating": (13, 21)}])
def test_it_is_verified_by_the_log_probability_of_both_without_parts_of_the_prompt(writer, sources) -> None:
    options = {} if sources is None else {"sources": sources}
    verified = writer.explain_completion(PROMPT, CHOSEN, contrast=REJECTED, verify=1, **options).verified
    assert verified.original.value == pytest.approx(less(nats, writer, PROMPT), abs=1e-3)
    (removal,) = verified.single
    text = {"film": "movie", "rating": "not good"}.get(removal.units[0], removal.units[0])
    left = " ".join(PROMPT.replace(text, "").split())
    assert removal.value == pytest.approx(less(nats, writer, left), abs=1e-3)
    if sources is None:
        words = writer(PROMPT, target=CHOSEN, contrast=REJECTED, verify=1)
        assert words.verified.single[0].value == pytest.approx(removal.value, abs=1e-4)


def test_of_single_tokens_a_sequence_is_the_token(writer) -> None:
    token = writer(PROMPT, target="bad", contrast="good")
    rows = writer(PROMPT, target=["bad", CHOSEN], contrast="good")
    np.testing.assert_allclose(rows[0].scores, token.scores, atol=1e-5)
    assert total(rows[0]) == pytest.approx(total(token), abs=1e-4)
    assert [target.name for target in rows.targets] == ["bad", CHOSEN]
    assert rows.targets[0] == token.target
    each = writer([PROMPT, "a cat"], targets=[CHOSEN, "bad"])
    np.testing.assert_allclose(each[1].scores, writer("a cat", target="bad").scores, atol=1e-5)
    layers = writer(PROMPT, target=CHOSEN, layers=ALL)
    assert layers.scores.shape == (3, len(ids_of(writer, PROMPT)))
    predicted = writer(PROMPT, contrast=REJECTED)
    assert predicted.target.name == predicted.prediction.label


def test_what_both_answers_begin_with_cancels(writer) -> None:
    longer = writer.explain_completion(PROMPT, " a cat", contrast=" a film")
    logits, ids = logits_before(writer, PROMPT, " a cat")
    assert total(longer) == pytest.approx((logits[1][ids[1]] - logits[1][tiny.VOCABULARY["film"]]).item(), abs=1e-3)
    same = writer.explain_completion(PROMPT, CHOSEN, contrast=CHOSEN)
    assert not same.scores.any()
    assert "both answers" in same.notes[-1]


def test_prompts_of_messages_and_several_prompts_and_generated_answers(writer) -> None:
    chat = [{"role": "user", "content": PROMPT}]
    result = writer.explain_completion(chat, CHOSEN, contrast=REJECTED)
    assert total(result) == pytest.approx(less(nats, writer, result.token_ids), abs=1e-3)
    assert result.group("message").units.name[0] == "user"
    np.testing.assert_allclose(writer(chat, target=CHOSEN, contrast=REJECTED).scores, result.scores, atol=1e-5)
    cases = [(PROMPT, CHOSEN, REJECTED), ("a cat", " sat on", " is")]
    prompts, answers, others = map(list, zip(*cases, strict=True))
    many = writer.explain_completion(prompts, answers, contrast=others)
    same(many, [writer.explain_completion(prompt, answer, contrast=other) for prompt, answer, other in cases])
    written = writer.generate(PROMPT, max_new_tokens=3)
    own = writer.generate(PROMPT, max_new_tokens=3, contrast=REJECTED)
    ids = list(written.token_ids[written.prompt_tokens :])
    by_ids = writer.explain_completion(PROMPT, ids, contrast=ids_of(writer, REJECTED))
    np.testing.assert_allclose(own.scores, by_ids.scores, atol=1e-5)


def test_with_a_target_and_as_an_index_a_contrast_is_a_token_at_every_place(writer) -> None:
    mat = tiny.VOCABULARY["mat"]
    by_index = writer.explain_completion(PROMPT, CHOSEN, contrast=mat)
    logits, ids = logits_before(writer, PROMPT, CHOSEN)
    expected = [(row[index] - row[mat]).item() for row, index in zip(logits, ids, strict=True)]
    np.testing.assert_allclose(total(by_index), expected, atol=1e-3)
    by_name = writer.explain_completion(PROMPT, CHOSEN, target="cat", contrast="mat")
    np.testing.assert_allclose(total(by_name), [(r[tiny.VOCABULARY["cat"]] - r[mat]).item() for r in logits], atol=1e-3)


def test_words_of_a_tokenizer_that_puts_a_space_before_every_text_follow_the_text() -> None:
    pieces = ["<unk>", "▁", "▁the", "▁cat", "▁New", "▁York", "▁Los", "▁Angeles", "a"]
    backend = Tokenizer(models.Unigram([(piece, -float(len(piece) < 2)) for piece in pieces], 0))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="▁")
    explainer = Explainer(tiny.model("llama", "CausalLM"), tokenizer)
    answer = explainer.explain_completion("the cat", " New York", contrast=" Los Angeles")
    for target, contrast in (("New York", "Los Angeles"), (" New York", " Los Angeles")):
        words = explainer("the cat", target=target, contrast=contrast)
        np.testing.assert_allclose(words.scores, answer.scores, atol=1e-6)
    assert len(explainer.explain_completion("the cat", " New York").generated) == 2


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_two_answers_of_an_encoder_decoder_model(family) -> None:
    explainer = tiny.explainer(family, "Seq2SeqLM")
    result = explainer.explain_completion("the movie is not good", "a great film", contrast="very bad")
    source = explainer.tokenizer("the movie is not good", return_tensors="pt")
    expected = 0.0
    for sign, answer in ((1, "a great film"), (-1, "very bad")):
        whole = explainer.explain_completion("the movie is not good", answer)
        ids = whole.token_ids[whole.prompt_tokens - 1 :]  # with the decoder's first token
        with torch.no_grad():
            logits = explainer.model(**source, decoder_input_ids=torch.tensor([ids[:-1]])).logits[0]
        expected += sign * sum(row.log_softmax(-1)[i].item() for row, i in zip(logits, ids[1:], strict=True))
    assert total(result) == pytest.approx(expected, abs=1e-3)


def test_what_cannot_be_explained_as_a_sequence_is_refused_in_a_line(writer) -> None:
    explain, complete = writer, writer.explain_completion
    masked = tiny.explainer("bert", "MaskedLM")
    refused(TargetError, "not one token", lambda: masked("a [MASK]", target="a great film"))
    refused(TargetError, "not one token", lambda: complete(PROMPT, CHOSEN, target="a great film"))
    refused(TargetError, "is also the contrast", lambda: explain(PROMPT, target=CHOSEN, contrast=CHOSEN))
    refused(TargetError, "does not know", lambda: explain(PROMPT, target="zebra crossing"))
    refused(TargetError, "whole vocabulary", lambda: explain(PROMPT, target=ALL, contrast=CHOSEN))
    refused(InputError, "leave out parts=", lambda: complete(PROMPT, CHOSEN, contrast=REJECTED, parts="word"))
    refused(InputError, "one token", lambda: explain(PROMPT, target=CHOSEN, token_predictions=True))
    one_contrast = {"contrast": REJECTED}
    message = "contrast is a list with one for each"
    refused(InputError, message, lambda: complete([PROMPT, "a cat"], [CHOSEN, CHOSEN], **one_contrast))
