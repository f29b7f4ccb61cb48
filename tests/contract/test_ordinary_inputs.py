"""What people hand over every day is read: columns, rows, token ids, large values."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import BatchEncoding

from normxlogit import Explainer, InputError, TargetError
from normxlogit.methods.registry import method_named
from tests import tiny
from tests.contract.compare import refused, same

TEXTS = ["the cat is on the mat", "a dog"]


def test_one_text_and_a_column_of_them_in_other_clothes(explainer):
    arrow, frame = pytest.importorskip("pyarrow"), pd.DataFrame({"text": TEXTS, "stars": range(len(TEXTS))})
    rows = frame.iloc[0], next(frame.itertuples()), next(frame.itertuples(index=False))
    wanted = explainer(TEXTS[0])
    for given in ({"text": TEXTS[0], "label": 1}, arrow.scalar(TEXTS[0]), *rows):
        result = explainer(given)
        assert result.text == TEXTS[0]
        np.testing.assert_array_equal(result.scores, wanted.scores)
    for given in (pd.DataFrame({"text": TEXTS, "label": ["good", "bad"]}), np.array(TEXTS)[:, None]):
        assert [result.text for result in explainer(given)] == TEXTS  # a column beside others, an array of one column
    indexed = frame.assign(key=[f"k{i}" for i in range(len(TEXTS))]).set_index("key")["text"]
    assert len(explainer(indexed)) == len(TEXTS)
    pair = explainer((arrow.scalar("a cat"), "a dog"))
    assert (pair.text, pair.text_pair) == ("a cat", "a dog")


def test_a_row_of_texts_is_neither_a_pair_nor_several_texts(explainer):
    frame = pd.DataFrame({"text": TEXTS, "label": ["good", "bad"]})
    wanted, named = explainer(TEXTS), list(frame.itertuples(index=False))
    for row in (named[0], frame.iloc[0]):
        same(explainer(row), wanted[0])
    for rows in (named, list(frame.itertuples()), [frame.iloc[0], frame.iloc[1]]):
        same(explainer(rows), wanted)
    reviews = frame.rename(columns={"text": "review"})
    refused(InputError, "several of texts", partial(explainer, next(reviews.itertuples(index=False))))
    questions = frame.set_axis(["question", "context"], axis=1)
    assert explainer(next(questions.itertuples(index=False))).text_pair == "good"


def test_targets_in_a_column_of_a_data_set_are_its_classes_and_not_indices_of_the_model():
    datasets = pytest.importorskip("datasets")
    explainer = Explainer(tiny.model("bert", id2label={0: "no", 1: "yes"}), tiny.tokenizer_for("bert"))
    feature = datasets.ClassLabel(names=["yes", "no"])
    data = datasets.Dataset.from_dict({"text": TEXTS, "label": [0, 1]}).cast_column("label", feature)
    results = explainer(data["text"], targets=data["label"])
    assert [result.target.name for result in results] == ["yes", "no"]
    assert [result.target.name for result in explainer(TEXTS, targets=[0, 1])] == ["no", "yes"]
    foreign = data.cast_column("label", datasets.ClassLabel(names=["good", "no"]))
    refused(TargetError, "no label 'good'", partial(explainer, TEXTS, targets=foreign["label"]))


def test_what_could_mean_several_things_is_refused_with_the_line_to_write(explainer):
    datasets = pytest.importorskip("datasets")
    part = datasets.Dataset.from_dict({"text": TEXTS})
    for given, says in (
        (pd.DataFrame({"a": TEXTS, "b": TEXTS}), r"or pairs, as list\(zip\(data\['a'\], data\['b'\]\)\)"),
        ({"a": "one", "b": "two"}, r"or pairs, as \(data\['a'\], data\['b'\]\)"),
        (pd.DataFrame({"label": [0, 1]}), "and none of texts"),
        ([0, 1], "token ids are passed as"),
        (datasets.DatasetDict({"train": part, "test": part}), "splits train, test"),
    ):
        refused(InputError, says, partial(explainer, given))
    same(explainer(datasets.DatasetDict({"train": part})), explainer(TEXTS))


def test_names_of_methods_and_layers_as_people_have_them(explainer):
    expected = explainer(TEXTS[0], method="frozen-gradient")
    for method in ("Frozen_Gradient", "frozen gradient", type(method_named("frozen-gradient"))):
        a = explainer(TEXTS[0], method=method)
        assert (a.method, a.scores.tolist()) == (expected.method, expected.scores.tolist())
    assert [a.method for a in explainer.compare(TEXTS[0], "occlusion")] == ["occlusion"]
    last = explainer(TEXTS[0], layers=[-1, -3], method="normxlogit")
    assert last.layers == (3, 1)
    np.testing.assert_array_equal(last.scores, explainer(TEXTS[0], layers=[3, 1], method="normxlogit").scores)


def test_prompts_and_completions_as_rows():
    writer = tiny.explainer("llama", "CausalLM")
    expected = writer.explain_completion(TEXTS[0], [5, 6])
    rows = writer.generate([{"prompt": TEXTS[0], "n": 1}], max_new_tokens=2)
    single = writer.generate({"prompt": TEXTS[0], "url": None}, max_new_tokens=2)
    assert single.completion == rows[0].completion == writer.generate(TEXTS[0], max_new_tokens=2).completion
    a = writer.explain_completion(TEXTS[0], torch.tensor([[5, 6]]))
    np.testing.assert_array_equal(a.scores, expected.scores)


def test_token_ids_in_a_tensor(explainer):
    ids = explainer.tokenizer(TEXTS[0], return_tensors="pt").input_ids
    wanted = explainer(TEXTS[0]).scores
    for result in (explainer(ids)[0], explainer(ids.numpy())[0], explainer(ids[0])):
        np.testing.assert_allclose(result.scores, wanted, atol=1e-6)
    several = explainer([ids[0], ids[0, :3]])
    np.testing.assert_allclose(several[0].scores, wanted, atol=1e-5)
    assert several[1].token_ids == tuple(ids[0, :3].tolist())
    refused(InputError, "whole numbers", lambda: explainer(torch.zeros(1, 3)))
    refused(InputError, "token ids are passed as", lambda: explainer(ids[0].tolist()))  # which could be labels


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient", "occlusion"])
@pytest.mark.parametrize("size", [1e5, 1e7])
def test_large_values_of_a_regression(size, method):
    model = tiny.model("bert", num_labels=1, problem_type="regression")
    model.classifier.weight.data.mul_(size)
    model.classifier.bias.data.fill_(size)
    results = Explainer(model, tiny.tokenizer_for("bert"))(TEXTS, method=method)
    for result in results:
        value = tiny.logits_of(model, result.token_ids).item()
        assert result.prediction.value == pytest.approx(value, rel=1e-5)
        if method == "frozen-gradient":
            assert result.scores.sum() + result.bias == pytest.approx(value, rel=1e-4)


def data_set(columns):
    return pytest.importorskip("datasets").Dataset.from_dict(columns)


def loader(columns):
    ids = data_set(columns).with_format("torch").remove_columns(["id", "text"])
    return torch.utils.data.DataLoader(ids, batch_size=1)


def rows_of(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


TOKENIZED = {
    "a batch without padding": BatchEncoding,
    "a list of rows": rows_of,
    "a list of batches": lambda c: [BatchEncoding({"input_ids": [ids]}, tensor_type="pt") for ids in c["input_ids"]],
    "lists of ids": lambda columns: columns["input_ids"],
    "lists of tensors": lambda columns: {"input_ids": [torch.tensor(row) for row in columns["input_ids"]]},
    "a frame": pd.DataFrame,
    "an Arrow table": lambda columns: pytest.importorskip("pyarrow").table(columns),
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns),
    "a data set": data_set,
    "rows of a data set": lambda columns: list(data_set(columns)),
    "a row": lambda columns: data_set(columns)[0],
    "a batch": lambda columns: data_set(columns)[:2],
    "tensors": lambda columns: data_set(columns).with_format("torch")[:1],
    "a row of tensors": lambda columns: data_set(columns).with_format("torch")[0],
    "a data set of tensors": lambda columns: data_set(columns).with_format("torch"),
    "a loader": loader,
}
"""Texts of two lengths as a tokenizer returns them, and as a data set for training holds them."""


@pytest.mark.parametrize("longest", [None, 4])
@pytest.mark.parametrize("form", TOKENIZED)
def test_tokenized_texts_need_no_padding_and_no_unpacking(explainer, form, longest):
    tokens = explainer.tokenizer(TEXTS, truncation=longest is not None, max_length=longest)
    results = explainer(TOKENIZED[form]({**tokens, "id": ["bad", "good"], "label": [0, 1], "text": TEXTS}))
    assert len(results) in (1, len(TEXTS))
    for a, text, ids in zip(results, TEXTS, tokens["input_ids"], strict=False):
        assert a.token_ids == tuple(ids)
        assert a.text is None  # which may have been cut, or another
        expected = explainer(text if longest is None else torch.tensor(ids))
        np.testing.assert_allclose(a.scores, expected.scores, atol=1e-5)


def test_tokenized_texts_with_offsets_or_padding(explainer):
    padded = data_set({**explainer.tokenizer(TEXTS, padding=True), "label": [1, 0]}).with_format("torch")
    for given in (explainer.tokenizer(TEXTS, return_offsets_mapping=True), padded):
        for a, text in zip(explainer(given), TEXTS, strict=True):
            np.testing.assert_allclose(a.scores, explainer(text).scores, atol=1e-5)


def test_rows_that_do_not_belong_together_are_refused_by_their_number(explainer):
    encoded = dict(explainer.tokenizer(TEXTS))
    rows, mask = "'attention_mask' must hold a row for each of the 2 rows", encoded | {"attention_mask": [[1]]}
    beyond = {"input_ids": [encoded["input_ids"][0], [9999]]}
    refused(InputError, rows, lambda: explainer(mask))
    refused(InputError, "row 1 of the encoded input holds token id 9999", lambda: explainer(beyond))


def test_encodings_of_another_tokenizer_are_refused(explainer):
    """Its ids are rows of the model's table of embeddings as well: those of other words."""
    words = dict(zip(tiny.VOCABULARY, reversed(tiny.VOCABULARY.values()), strict=True))
    another = tiny.as_fast(Tokenizer(WordLevel(words, unk_token="[UNK]")))
    encoded, writer = another(TEXTS, padding=True), tiny.explainer("llama", "CausalLM")
    message = "row 0 of the encoded input is of another tokenizer: id .* is .* in the model's"
    refused(
        InputError,
        message,
        lambda: explainer(encoded),
        lambda: writer.generate(encoded),
        lambda: writer.explain_completion(another(TEXTS[:1]), " bad"),
    )
    added = tiny.tokenizer_for("bert")
    added.add_tokens(["movie is"])
    refused(InputError, "another tokenizer", lambda: explainer(added(["the movie is good"])))


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(
    "form", [dict, lambda inputs: inputs["input_ids"], lambda inputs: inputs["input_ids"].tolist()]
)
def test_padding_without_a_mask_is_left_out_with_a_note(explainer, form, side):
    tokenizer = tiny.tokenizer_for("bert")
    encoded = tokenizer(tiny.TEXTS, padding=True, return_tensors="pt", padding_side=side)
    found = explainer(form({"input_ids": encoded.input_ids}))
    for a, text, mask in zip(found, tiny.TEXTS, encoded.attention_mask, strict=True):
        alone = explainer(text)
        np.testing.assert_allclose(a.scores, alone.scores, rtol=1e-4, atol=1e-5)
        assert any("without an attention_mask" in note for note in a.notes) == bool((mask == 0).any())


def test_padding_that_a_mask_calls_real_is_read(explainer):
    ids = torch.tensor([[2, 8, 9, 3, 0, 0]])
    a = explainer({"input_ids": ids, "attention_mask": torch.ones_like(ids)})[0]
    with torch.no_grad():
        own = explainer.model(ids).logits.max().item()
    assert (len(a.tokens), a.prediction.value) == (6, pytest.approx(own, abs=1e-4))


def test_padding_that_may_end_the_text_is_refused():
    tokenizer = tiny.tokenizer_for("gpt2")
    tokenizer.pad_token = tokenizer.eos_token
    e = Explainer(tiny.model("gpt2", "CausalLM"), tokenizer)
    refused(InputError, "attention_mask", lambda: e(torch.tensor([[5, 6, 7, 3, 3]])))
    assert len(e(torch.tensor([[5, 6, 7, 3]]))[0].tokens) == 4


def test_a_row_of_padding_alone_is_refused(explainer):
    refused(InputError, "no real token", lambda: explainer(torch.zeros(1, 4, dtype=torch.long)))


def test_an_answer_is_not_looked_for_in_the_question() -> None:
    explainer = tiny.explainer("bert", "QuestionAnswering")
    for context in ("", " "):
        refused(InputError, "the context of input 0 is empty", lambda context=context: explainer(("a cat", context)))
    assert explainer(("the movie", "a cat")).prediction.label in "a cat"


def test_a_mask_behind_what_is_read_is_an_error_that_says_how_to_read_it() -> None:
    explainer = tiny.explainer("bert", "MaskedLM")
    explainer.tokenizer.model_max_length = 10
    text = "the movie is good and the cat sat on the mat with the [MASK]"
    refused(TargetError, "behind the 10 tokens.*long_text='window'", lambda: explainer(text))
    assert explainer(text, long_text="window").prediction.label
    refused(TargetError, "nowhere in what is read", lambda: explainer("a cat"))


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_padding_before_a_text_that_the_model_would_count_is_said_to_be_left_out(family) -> None:
    explainer = tiny.explainer(family)
    ids = explainer.tokenizer("the movie is good").input_ids
    padded = {"input_ids": [[0, 0, *ids]], "attention_mask": [[0, 0, *[1] * len(ids)]]}
    (a,) = explainer(padded)
    assert a.notes[0].startswith("2 padding tokens before the text were left out")
    (alone,) = explainer({"input_ids": [ids], "attention_mask": [[1] * len(ids)]})
    assert alone.prediction == a.prediction
    assert alone.notes == ()
    behind = {"input_ids": [[*ids, 0]], "attention_mask": [[*[1] * len(ids), 0]]}
    assert explainer(behind)[0].notes == ()
    if family == "gpt2":  # generate counts from the first real token
        writer = tiny.explainer("gpt2", "CausalLM")
        given = {name: torch.tensor(rows) for name, rows in padded.items()}
        own = writer.model.generate(**given, max_new_tokens=3)[0, len(padded["input_ids"][0]) :].tolist()
        (g,) = writer.generate(given, max_new_tokens=3)
        assert [target.id for target in g.targets] == own
        assert g.notes == ()
