"""What people hand over every day is read: columns, rows, token ids, large values."""

import numpy as np
import pandas as pd
import pytest
import torch

from normxlogit import ALL, Explainer, InputError
from normxlogit.methods.registry import method_named
from tests import tiny

TEXTS = ["the cat is on the mat", "a dog"]


@pytest.fixture(scope="module")
def bert():
    return tiny.model("bert"), tiny.tokenizer_for("bert")


@pytest.fixture(scope="module")
def explainer(bert):
    return Explainer(*bert)


@pytest.mark.parametrize(
    "make",
    [
        lambda arrow: pd.DataFrame({"text": TEXTS, "label": ["good", "bad"]}),
        lambda arrow: np.array(TEXTS)[:, None],
        lambda arrow: arrow.chunked_array([TEXTS[:1], TEXTS[1:]]),
        lambda arrow: arrow.array(TEXTS).dictionary_encode(),
    ],
    ids=["other texts beside", "one column", "Arrow in chunks", "Arrow dictionary"],
)
def test_columns_of_texts_as_other_packages_hold_them(explainer, make):
    assert [result.text for result in explainer(make(pytest.importorskip("pyarrow")))] == TEXTS


def test_one_text_in_other_clothes(explainer):
    arrow = pytest.importorskip("pyarrow")
    wanted = explainer(TEXTS[0])
    for given in ({"text": TEXTS[0], "label": 1}, arrow.scalar(TEXTS[0])):
        result = explainer(given)
        assert result.text == TEXTS[0]
        np.testing.assert_array_equal(result.scores, wanted.scores)
    pair = explainer((arrow.scalar("a cat"), "a dog"))
    assert (pair.text, pair.text_pair) == ("a cat", "a dog")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (pd.DataFrame({"a": TEXTS, "b": TEXTS}), r"or pairs, as list\(zip\(data\['a'\], data\['b'\]\)\)"),
        ({"a": "one", "b": "two"}, r"or pairs, as \(data\['a'\], data\['b'\]\)"),
        (pd.DataFrame({"label": [0, 1]}), "and none of texts"),
        ([0, 1], "token ids are passed as"),
    ],
)
def test_what_could_mean_several_things_is_refused_with_the_line_to_write(explainer, given, says):
    with pytest.raises(InputError, match=says):
        explainer(given)


def test_splits_of_a_data_set_are_refused(explainer):
    datasets = pytest.importorskip("datasets")
    part = datasets.Dataset.from_dict({"text": TEXTS})
    with pytest.raises(InputError, match="splits train, test"):
        explainer(datasets.DatasetDict({"train": part, "test": part}))
    for only, text in zip(explainer(datasets.DatasetDict({"train": part})), TEXTS, strict=True):
        np.testing.assert_allclose(only.scores, explainer(text).scores, atol=1e-5)


@pytest.mark.parametrize("kind", ["row", "batch", "tensors", "a row of tensors", "data set", "list", "loader", "frame"])
def test_token_ids_with_what_a_data_set_has_beside_them(bert, explainer, kind):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"id": ["bad", "good"], "label": [0, 1], "text": TEXTS})
    made = rows.map(lambda batch: dict(bert[1](batch["text"])), batched=True)
    cut = rows.map(lambda batch: dict(bert[1](batch["text"], truncation=True, max_length=4)), batched=True)

    def forms(data):
        ids = data.with_format("torch").remove_columns(["id", "text"])
        return {
            "row": data[0],
            "batch": data[:2],
            "tensors": data.with_format("torch")[:1],
            "a row of tensors": data.with_format("torch")[0],
            "data set": data,
            "list": list(data),
            "loader": torch.utils.data.DataLoader(ids, batch_size=1),
            "frame": data.to_pandas(),
        }[kind]

    whole = explainer(forms(made))
    for a, text in zip(whole, TEXTS, strict=False):
        np.testing.assert_allclose(a.scores, explainer(text).scores, atol=1e-5)
    assert whole[0].text is None  # which may have been cut, or another
    for a, ids in zip(explainer(forms(cut)), cut["input_ids"], strict=False):
        assert a.token_ids == tuple(ids)
        np.testing.assert_allclose(a.scores, explainer(torch.tensor(ids)).scores, atol=1e-5)


def test_lists_of_token_ids_are_several_texts(bert, explainer):
    ids = bert[1](TEXTS)["input_ids"]
    for a, text in zip(explainer(ids), TEXTS, strict=True):
        np.testing.assert_allclose(a.scores, explainer(text).scores, atol=1e-5)
    with pytest.raises(InputError, match="token ids are passed as"):
        explainer(ids[0])  # which could be labels


def test_a_row_of_a_frame_is_a_row(explainer):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"text": TEXTS, "stars": range(len(TEXTS))})
    expected = explainer(TEXTS[0]).scores
    for row in (frame.iloc[0], next(frame.itertuples()), next(frame.itertuples(index=False))):
        np.testing.assert_allclose(explainer(row).scores, expected, atol=1e-6)
    indexed = frame.assign(key=[f"k{i}" for i in range(len(TEXTS))]).set_index("key")["text"]
    assert len(explainer(indexed)) == len(TEXTS)


def test_names_of_labels_methods_and_layers_as_people_have_them(bert, explainer):
    datasets = pytest.importorskip("datasets")
    names = [f"name {i}" for i in range(bert[0].config.num_labels)]
    id2label = dict(enumerate(names))
    backwards = dict(reversed(id2label.items()))
    as_text, label2id = {str(i): name for i, name in id2label.items()}, {name: i for i, name in backwards.items()}
    for labels in (
        tuple(names),
        np.array(names),
        id2label,
        backwards,
        as_text,
        label2id,
        datasets.ClassLabel(names=names),
    ):
        targets = Explainer(*bert, labels=labels)(TEXTS[0], target=ALL).targets
        assert [target.name for target in targets] == names
    for labels in ({1: "a", 2: "b"}, {"a": "b"}, {}, set(names), "name"):
        with pytest.raises(InputError, match="labels are a list of names"):
            Explainer(*bert, labels=labels)
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


def test_token_ids_in_a_tensor(bert, explainer):
    ids = bert[1](TEXTS[0], return_tensors="pt").input_ids
    wanted = explainer(TEXTS[0]).scores
    np.testing.assert_allclose(explainer(ids)[0].scores, wanted, atol=1e-6)
    np.testing.assert_allclose(explainer(ids.numpy())[0].scores, wanted, atol=1e-6)
    np.testing.assert_allclose(explainer(ids[0]).scores, wanted, atol=1e-6)
    several = explainer([ids[0], ids[0, :3]])
    np.testing.assert_allclose(several[0].scores, wanted, atol=1e-5)
    assert several[1].token_ids == tuple(ids[0, :3].tolist())
    with pytest.raises(InputError, match="whole numbers"):
        explainer(torch.zeros(1, 3))


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient", "occlusion"])
@pytest.mark.parametrize("size", [1e5, 1e7])
def test_large_values_of_a_regression(size, method):
    model = tiny.model("bert", num_labels=1, problem_type="regression")
    tokenizer = tiny.tokenizer_for("bert")
    with torch.no_grad():
        model.classifier.weight.mul_(size)
        model.classifier.bias.fill_(size)
    results = Explainer(model, tokenizer)(TEXTS, method=method)
    for text, result in zip(TEXTS, results, strict=True):
        with torch.no_grad():
            value = float(model(**tokenizer(text, return_tensors="pt")).logits)
        assert result.prediction.value == pytest.approx(value, rel=1e-5)
        if method == "frozen-gradient":
            assert result.scores.sum() + result.bias == pytest.approx(value, rel=1e-4)


def test_large_values_are_still_compared():
    model = tiny.model("bert", num_labels=1, problem_type="regression")
    with torch.no_grad():
        model.classifier.bias.fill_(1e5)
    model.classifier.register_forward_hook(lambda _, __, output: output + 100 * torch.rand(()))
    with pytest.raises(Exception, match="differently each time"):
        Explainer(model, tiny.tokenizer_for("bert"))(TEXTS[0])


def test_a_first_text_of_one_token_where_the_end_is_no_token():
    tokenizer = tiny.tokenizer(specials=False)
    model = tiny.model("llama", eos_token_id=tiny.SIZE + 7)  # as of a checkpoint whose table was cut
    with torch.no_grad():
        wanted = float(model(**tokenizer("a", return_tensors="pt")).logits.max())
    assert Explainer(model, tokenizer)("a").prediction.value == pytest.approx(wanted, abs=1e-5)


def tokenized(tokenizer, form):
    """Texts of two lengths as a tokenizer returns them, and as a data set for training holds them."""
    rows = [tokenizer(text) for text in TEXTS]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    if form == "a batch without padding":
        return tokenizer(TEXTS)
    if form == "with offsets":
        return tokenizer(TEXTS, return_offsets_mapping=True)
    if form == "a list of rows":
        return rows
    if form == "a list of batches":
        return [tokenizer(text, return_tensors="pt") for text in TEXTS]
    if form == "lists of tensors":
        return {name: [torch.tensor(row) for row in values] for name, values in columns.items()}
    if form == "a frame":
        return pd.DataFrame(columns | {"label": [1, 0], "idx": [7, 8]})
    if form == "an Arrow table":
        return pytest.importorskip("pyarrow").table(columns | {"label": [1, 0]})
    if form == "polars":
        return pytest.importorskip("polars").DataFrame(columns | {"label": [1, 0]})
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict(columns | {"label": [1, 0]})
    if form == "a data set, padded":
        padded = tokenizer(TEXTS, padding=True)
        return datasets.Dataset.from_dict({**padded, "label": [1, 0]}).with_format("torch")
    return data.with_format("torch") if form == "a data set of tensors" else data


@pytest.mark.parametrize(
    "form",
    [
        *("a batch without padding", "with offsets", "a list of rows", "a list of batches", "lists of tensors"),
        *("a frame", "an Arrow table", "polars", "a data set", "a data set of tensors", "a data set, padded"),
    ],
)
def test_tokenized_texts_need_no_padding_and_no_unpacking(bert, explainer, form):
    expected = explainer(TEXTS)
    results = explainer(tokenized(bert[1], form))
    assert len(results) == len(expected)
    for result, by_text in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.scores, by_text.scores, atol=1e-6)
        assert result.token_ids == by_text.token_ids


def test_rows_that_do_not_belong_together_are_refused_by_their_number(bert, explainer):
    encoded = dict(bert[1](TEXTS))
    with pytest.raises(InputError, match="'attention_mask' must hold a row for each of the 2 rows"):
        explainer(encoded | {"attention_mask": [[1]]})
    with pytest.raises(InputError, match="row 1 of the encoded input holds token id 9999"):
        explainer({"input_ids": [encoded["input_ids"][0], [9999]]})
