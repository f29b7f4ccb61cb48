"""Two models: the difference of their answers, and the words that carry it."""

import copy
import json
from functools import partial

import numpy as np
import pytest
import torch
import transformers

import normxlogit
from normxlogit import Explainer, InputError, MethodError, TargetError, UnsupportedModelError
from tests import tiny
from tests.adapters import adapted
from tests.commands import run
from tests.contract.compare import comes_back, nats_of, refused, total
from tests.contract.test_quantised_models import Linear4bit, with_maps

TEXT = "the movie is not good"
LONG = "a great film with charm and wit , but maybe mediocre plot !"
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
MODEL = tiny.model("bert")
TOKENIZER = tiny.tokenizer_for("bert")


def changed_word(word: str, seed: int = 1):
    """A copy of the model with another embedding of one word."""
    torch.manual_seed(seed)
    model = copy.deepcopy(MODEL)
    model.get_input_embeddings().weight.data[tiny.VOCABULARY[word]].normal_(std=2)
    return model


def logits(model, text: str) -> torch.Tensor:
    return tiny.logits_of(model, TOKENIZER(text)["input_ids"])


def chances(text: str, *models) -> list[float]:
    """The probabilities of the second label."""
    return [float(logits(model, text).softmax(-1)[1]) for model in models]


def odds(text: str, *models) -> list[float]:
    return [float(np.subtract(*logits(model, text)[[1, 0]].tolist())) for model in models]


def compared(after, text=TEXT, before=MODEL, **options):
    """Compare the model with another that has the same tokenizer."""
    return Explainer(after, TOKENIZER).compare_models((before, TOKENIZER), text, **options)


def test_scores_are_those_after_less_those_before_and_add_up_to_the_models_own_logits() -> None:
    after = changed_word("good")
    models = (MODEL, after)
    d = compared(after, target=1, contrast=0)
    by_hand = [Explainer(model, TOKENIZER)(TEXT, target=1, contrast=0) for model in models]
    scores = [np.array([word.score for word in a.words()]) for a in by_hand]
    np.testing.assert_allclose(d.scores[: len(scores[0])], scores[1] - scores[0], **CLOSE)
    for side, a in enumerate((d.before, d.after)):
        np.testing.assert_allclose(total(a), total(by_hand[side]), **CLOSE)
    np.testing.assert_allclose(total(d), np.subtract(*odds(TEXT, after, MODEL)), **CLOSE)
    np.testing.assert_allclose(d.measured, chances(TEXT, *models), **CLOSE)
    assert [word.text for word in d.words()] == TEXT.split()


def test_models_that_differ_in_one_word_differ_where_it_stands_and_agree_without_it() -> None:
    d = compared(changed_word("good"), verify=["good"])
    assert d.measured[0] != d.measured[1]
    assert max(d.words(), key=lambda word: abs(word.score)).text == "good"
    assert d.verified.together.value == 0
    without = compared(changed_word("good"), LONG)
    assert not without.scores.any()
    assert not without.bias.any()
    assert not without.changed


def test_the_words_that_carry_a_difference_are_left_out_and_both_models_are_asked_again() -> None:
    after, rises = changed_word("good", seed=2), set()
    for target in range(MODEL.config.num_labels):
        d = compared(after, target=target, verify=2)
        sign = 1 if d.measured[1] > d.measured[0] else -1
        rises.add(sign)
        assert d.verified.single[0].units == (max(d.words(), key=partial(signed_score, sign)).text,)
        for removal in (*d.verified.single, d.verified.together):
            left = " ".join(word for word in TEXT.split() if word not in removal.units)
            one, other = (logits(model, left).softmax(-1) for model in (MODEL, after))
            assert removal.value == pytest.approx(float(other[target] - one[target]), abs=1e-5)
            assert removal.changed is bool((one.argmax() != other.argmax()) != d.changed)
    assert rises == {-1, 1}


def signed_score(sign, word) -> float:
    return sign * word.score


def test_an_adapter_that_is_off_is_compared_with_the_same_model() -> None:
    model = adapted("bert")
    base = copy.deepcopy(model).unload()
    d = Explainer(model, TOKENIZER).compare_models(model.disable_adapter, TEXT, verify=2)
    by_copy = compared(model, before=base, verify=2)
    np.testing.assert_allclose(d.scores, by_copy.scores, **CLOSE)
    assert d.scores.any()
    assert "disable_adapter" in d.models[0]
    np.testing.assert_allclose(d.verified.together.value, by_copy.verified.together.value, atol=1e-6)


@pytest.mark.parametrize("lossless", [False, True])
def test_a_quantised_model_is_compared_with_the_full_one(lossless: bool) -> None:
    few_bits = with_maps(copy.deepcopy(MODEL), Linear4bit)
    full = with_maps(copy.deepcopy(few_bits), lambda m: m.in_full() if isinstance(m, Linear4bit) else m)
    full = full if lossless else MODEL
    d = compared(few_bits, before=full, target=1, contrast=0, verify=["good"])
    np.testing.assert_allclose(total(d), np.subtract(*odds(TEXT, few_bits, full)), **CLOSE)
    np.testing.assert_allclose(d.measured, chances(TEXT, full, few_bits), **CLOSE)
    assert np.allclose(d.scores, 0, atol=1e-5) == lossless
    left = chances(TEXT.replace(" good", ""), few_bits, full)
    np.testing.assert_allclose(d.verified.together.value, np.subtract(*left), **CLOSE)


def test_labels_in_another_order_are_the_same_labels() -> None:
    after = copy.deepcopy(MODEL)
    for weight in (after.classifier.weight, after.classifier.bias):
        weight.data = weight.data.flip(0)
    names = [f"l{i}" for i in range(MODEL.config.num_labels)]
    swapped = Explainer(after, TOKENIZER, labels=[name.upper() for name in reversed(names)])
    for target in (None, names[0].upper()):
        d = swapped.compare_models(Explainer(MODEL, TOKENIZER, labels=names), TEXT, target=target, verify=2)
        np.testing.assert_allclose(d.scores, 0, atol=1e-5)
        assert not d.changed
        assert d.measured[0] == pytest.approx(d.measured[1])
        assert not any(removal.changed for removal in d.verified.single)


def test_a_changed_answer_is_explained_against_the_earlier_one() -> None:
    after = copy.deepcopy(MODEL)
    after.classifier.bias.data[int(logits(MODEL, TEXT).argmin())] += 100
    d = compared(after)
    assert d.changed
    assert d.target.id == int(logits(after, TEXT).argmax())
    assert d.target.contrast_id == int(logits(MODEL, TEXT).argmax())
    assert d.bias == pytest.approx(100, abs=1e-3)
    assert np.abs(d.scores).max() < 1e-4
    assert d.prediction.label == f"{d.answers[0].label} → {d.answers[1].label}"


def test_models_with_other_tokenizers_are_compared_by_words() -> None:
    letters = tiny.letters()
    config = transformers.BertConfig(**tiny.CONFIGS["bert"] | {"vocab_size": len(letters)})
    other = tiny.random_model(transformers.BertForSequenceClassification, config)
    text = "the movie is bad"
    d = Explainer(other, letters).compare_models((MODEL, TOKENIZER), text, target=1, contrast=0, verify=["bad"])
    assert [word.text for word in d.words()] == text.split()
    own = tiny.logits_of(other, letters(text)["input_ids"])
    by_hand = float(own[1] - own[0]) - odds(text, MODEL)[0]
    np.testing.assert_allclose(total(d), by_hand, rtol=1e-3, atol=1e-4)
    by_letters = Explainer(other, letters)(text, target=1, contrast=0)
    np.testing.assert_allclose(d.after.scores[:4], [word.score for word in by_letters.words()], rtol=1e-3, atol=1e-4)
    left = Explainer(other, letters).without(text, ["bad"], target=1).value
    assert d.verified.together.value == pytest.approx(left - chances("the movie is", MODEL)[0], abs=1e-5)


def test_a_text_that_one_model_reads_in_part_keeps_the_words_of_the_other() -> None:
    short = copy.deepcopy(TOKENIZER)
    short.model_max_length = 8
    after = changed_word("charm")
    d = Explainer(after, short).compare_models((MODEL, TOKENIZER), LONG, target=1, contrast=0, verify=["mediocre"])
    assert [word.text for word in d.words()] == LONG.split()
    own = Explainer(after, short)(LONG, target=1, contrast=0, long_text="truncate")
    np.testing.assert_allclose(total(d.after), total(own), **CLOSE)
    expected = chances(" ".join(LONG.split()[:6]), after)[0]  # it does not read the word
    before = Explainer(MODEL, TOKENIZER).without(LONG, ["mediocre"], target=1).value
    assert d.verified.together.value == pytest.approx(expected - before, abs=1e-5)
    unread = next(word for word in d.words() if word.text == "mediocre")
    assert d.after.scores[unread.tokens[0]] == 0
    assert d.before.scores[unread.tokens[0]] != 0
    assert any(note.startswith("after: ") for note in d.notes)
    assert d.truncated


def test_pairs_of_texts_have_the_words_of_both() -> None:
    d = compared(changed_word("here"), tiny.PAIR, verify=["here"])
    assert [word.text for word in d.words(sequence=1)] == tiny.PAIR[1].split()
    assert d.measured[0] != d.measured[1]
    assert d.verified.together.value == 0


def test_the_log_probability_of_a_completion_is_compared() -> None:
    before, after = adapted("llama").unload(), adapted("llama")
    tokenizer = tiny.tokenizer_for("llama")
    prompt, completion = "once upon a time the cat", " sat on the mat"
    d = Explainer(after, tokenizer).compare_models((before, tokenizer), prompt, completion, verify=2)
    ids, nats = tokenizer(prompt + completion)["input_ids"], partial(nats_of, count=4)
    np.testing.assert_allclose(d.measured, [nats(before, ids), nats(after, ids)], rtol=1e-4)
    for removal in (*d.verified.single, d.verified.together):
        left = [i for i, word in zip(ids, (prompt + completion).split(), strict=True) if word not in removal.units]
        assert removal.value == pytest.approx(nats(after, left) - nats(before, left), abs=1e-4)
    by_hand = [Explainer(model, tokenizer).explain_completion(prompt, completion).whole() for model in (before, after)]
    np.testing.assert_allclose(total(d), total(by_hand[1]) - total(by_hand[0]), **CLOSE)
    assert [word.text for word in d.words()] == prompt.split()
    assert "nats" in str(d)
    many = Explainer(after, tokenizer).compare_models(
        (before, tokenizer), [prompt, "a"], [completion, " cat"], verify=5
    )
    assert many[0].measured == pytest.approx(d.measured)


@pytest.mark.parametrize("verify", ["auto", "word", 2, ["the", "cat"]])
def test_of_a_short_prompt_each_word_is_left_out_and_one_stays_when_several_are(verify) -> None:
    tokenizer = tiny.tokenizer_for("llama")
    after = Explainer(adapted("llama"), tokenizer)
    d = after.compare_models((adapted("llama").unload(), tokenizer), "the cat", " sat", verify=verify)
    assert {removal.units for removal in d.verified.single} == {("the",), ("cat",)}
    assert len(d.verified.together.units) == 1


def test_a_completion_of_different_numbers_of_tokens_is_compared_by_its_log_probability() -> None:
    letters, words = tiny.letters(), tiny.tokenizer_for("llama")
    config = transformers.LlamaConfig(**tiny.CONFIGS["llama"] | {"vocab_size": len(letters)})
    models = tiny.model("llama", "CausalLM"), tiny.random_model(transformers.LlamaForCausalLM, config)
    prompt, completion = "the movie is", " very bad"
    d = Explainer(models[1], letters).compare_models((models[0], words), prompt, completion)
    expected = [
        nats_of(model, tokenizer(prompt + completion)["input_ids"], count)
        for model, tokenizer, count in zip(models, (words, letters), (2, len(completion)), strict=True)
    ]
    np.testing.assert_allclose(d.measured, expected, rtol=1e-4)
    assert d.quantity == "log-probability"
    assert total(d) == pytest.approx(expected[1] - expected[0], abs=1e-3)


def test_what_cannot_be_compared_is_refused() -> None:
    after, model = changed_word("bad"), adapted("bert")
    gpt2 = tiny.model("gpt2", "CausalLM"), tiny.tokenizer_for("gpt2")
    for before, same in ((MODEL, MODEL), (model.get_base_model(), model)):
        refused(InputError, "disable_adapter", partial(compared, same, before=before))
    first, second = (Explainer(m, TOKENIZER, labels=labels) for m, labels in ((MODEL, ["a", "b"]), (after, ["c", "d"])))
    refused(TargetError, "labels=", lambda: second.compare_models(first, TEXT))
    refused(MethodError, "add up", lambda: compared(after, method="normxlogit"))
    refused(UnsupportedModelError, "completion", lambda: Explainer(*gpt2).compare_models(copy.deepcopy(gpt2), TEXT))


def test_differences_are_saved_and_loaded(tmp_path) -> None:
    many = compared(changed_word("good"), [TEXT, LONG], verify=1)
    comes_back(many, tmp_path)
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "result.parquet").to_pylist()
    assert [row["changed"] for row in table] == [d.changed for d in many]
    np.testing.assert_allclose(table[0]["scores_after"], many[0].after.scores)
    assert table[0]["prediction_before"] == many[0].answers[0].label
    assert many[0].group("sentence").scores.sum() == pytest.approx(many[0].scores.sum(), abs=1e-5)
    page = many.to_html()
    assert "after minus before" in page
    assert many[0].answers[0].label in page


def test_a_table_of_texts_is_compared_into_a_folder(tmp_path) -> None:
    from normxlogit.model_comparison.table import compare_table

    pytest.importorskip("pyarrow")
    rows = tmp_path / "rows.jsonl"
    texts = [TEXT, LONG, "bad", "the cat is here"]
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    after = copy.deepcopy(MODEL)
    after.classifier.weight.data = after.classifier.weight.data.flip(0)
    summary = compare_table((MODEL, TOKENIZER), Explainer(after, TOKENIZER), rows, tmp_path / "out")
    loaded = normxlogit.load(tmp_path / "out" / "rows-00000000.parquet")
    assert [d.text for d in loaded] == texts
    assert (tmp_path / "out" / "page.html").is_file()
    changed = [d for d in loaded if d.changed]
    assert changed
    assert all((d.verified is not None) is d.changed for d in loaded)
    assert summary.texts == len(texts)
    assert sum(summary.changes.values()) == len(changed) == summary.verified
    assert max(summary.carried.values()) >= 1
    with pytest.raises(normxlogit.DataError, match="not an empty folder"):
        compare_table((MODEL, TOKENIZER), Explainer(after, TOKENIZER), rows, tmp_path / "out")


def test_the_command_compares_texts_and_tables(tmp_path, capsys) -> None:
    for name, seed in (("before", 0), ("after", 1)):
        tiny.save(tmp_path / name, "bert", seed=seed)
    folders = (tmp_path / "before", tmp_path / "after")
    code, out, _ = run(capsys, "compare-models", *folders, TEXT, "--verify", "1")
    assert code == 0
    assert "after minus before" in out
    pytest.importorskip("pyarrow")
    (tmp_path / "rows.csv").write_text(f"sentence\n{TEXT}\nbad\n")
    table = (*folders, tmp_path / "rows.csv", "--column", "sentence")
    code, out, _ = run(capsys, "compare-models", *table, "--output", tmp_path / "out")
    assert code == 0
    assert "of 2 texts" in out
    code, _, err = run(capsys, "compare-models", *table)
    assert code == 2
    assert "--output" in err


def test_labels_and_words_of_two_models_are_the_same_in_whatever_way_they_are_written() -> None:
    named = [tiny.model("bert", id2label=names, label2id={n: i for i, n in names.items()}) for names in LABELS_OF_TWO]
    compare = partial(Explainer(named[1], TOKENIZER).compare_models, (named[0], TOKENIZER), TEXT)
    assert compare(target="non-toxic").target.name in LABELS_OF_TWO[1].values()
    refused(TargetError, "no label", partial(compare, target="toxi"))


LABELS_OF_TWO = {0: "Köln", 1: "Non-toxic"}, {0: "NON‑TOXIC", 1: "Ko\u0308ln"}
"""The same two labels, in another order."""
