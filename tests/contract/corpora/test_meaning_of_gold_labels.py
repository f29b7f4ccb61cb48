"""What a label in a table means: its name, or the number that a data set or the caller gives it; never a guess."""
# ruff: noqa: F811  # fixtures

import datasets
import numpy as np
import pandas as pd
import pytest

from normxlogit import Attributions, DataError, Explainer, InputError, Predictions, attribute, summarize
from tests.commands import run
from tests.contract.compare import refused
from tests.gold import FEELINGS, TEXTS, UNNAMED, YES, explainer, feelings, results  # noqa: F401  # fixtures

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

MODEL = ("contradiction", "entailment", "neutral")
DATA = ("entailment", "neutral", "contradiction")
"""The order of labels of MNLI's data, and another."""


@pytest.fixture(scope="module")
def inference(results):
    """A model, its answers, and a data set in which each answer is the gold label, by the data's numbers."""
    model, found = results(*MODEL)
    names = [result.prediction.label for result in found]
    assert set(names) == set(MODEL)
    label = datasets.ClassLabel(names=list(DATA))
    features = {"text": datasets.Value("string"), "label": label, "several": datasets.Sequence(label)}
    numbers = [DATA.index(name) for name in names]
    columns = {"text": TEXTS, "label": numbers, "several": [[number] for number in numbers]}
    return model, found, datasets.Dataset.from_dict(columns, datasets.Features(features))


@pytest.mark.parametrize("column", ["label", "several"])
@pytest.mark.parametrize("kind", ["data set", "stream", "file", "table"])
def test_the_names_of_a_data_set_are_read_in_a_corpus(inference, tmp_path, kind, column):
    model, _, data = inference
    data.to_parquet(tmp_path / "data.parquet")
    inputs = {
        "data set": data,
        "stream": data.to_iterable_dataset(),
        "file": tmp_path / "data.parquet",
        "table": pa.parquet.read_table(tmp_path / "data.parquet"),
    }
    attribute(model, inputs[kind], tmp_path / "out", keep=[column])
    summary = summarize(tmp_path / "out", gold=column)
    assert (summary.accuracy, summary.unlabelled, summary.unknown) == (1.0, 0, {})


def test_a_text_that_was_not_explained_is_of_no_gold_label(inference):
    model, _, _ = inference
    explained = model([*TEXTS[:2], None], on_error="keep")
    labels = [result.prediction.label for result in explained[:2]]
    assert explained.filter(gold=[*labels, labels[0]]) == explained[:2]


def test_the_names_of_a_data_set_are_read_in_python(inference):
    _, found, data = inference
    assert found.filter(gold=data["label"]) == found
    assert found.filter(gold=data["several"]) == found
    assert found[:5].filter(gold=data["label"][:5], gold_labels=data.features["label"]) == found[:5]


def test_the_names_of_a_data_set_are_read_in_evaluations(inference, tmp_path):
    datasets_of_evaluation = pytest.importorskip("normxlogit.evaluation.datasets")
    evaluate = pytest.importorskip("normxlogit.evaluation.faithfulness").evaluate
    model, _, data = inference
    data.to_parquet(tmp_path / "data.parquet")
    for source in (data, tmp_path / "data.parquet"):
        (result,) = evaluate(model, datasets_of_evaluation.load_examples(source), "random")
        assert result.whole_quality == 1


def test_the_target_of_each_row_is_read_by_the_names_of_a_data_set(inference, tmp_path):
    model, _, data = inference
    attribute(model, data, tmp_path, Predictions(target_column="label"))
    table = pa.parquet.read_table(tmp_path / "shards" / "00000000.parquet")
    assert [DATA[number] for number in data["label"]] == [target for (target,) in table["target"].to_pylist()]


def test_a_class_of_minus_one_is_missing(inference, tmp_path):
    """As in the test data of GLUE."""
    model, _, data = inference
    hidden = data.map(lambda row, index: {"label": row["label"] if index < 5 else -1}, with_indices=True)
    attribute(model, hidden, tmp_path, keep=["label"])
    summary = summarize(tmp_path, gold="label")
    assert (summary.accuracy, summary.unlabelled) == (1.0, len(TEXTS) - 5)


def test_numbers_beside_names_are_refused_until_it_is_said_what_they_mean(inference, tmp_path):
    model, found, data = inference
    numbers = list(data["label"])
    attribute(model, pd.DataFrame({"text": TEXTS, "label": numbers}), tmp_path, keep=["label"])
    refused(
        DataError, r"column 'label': cannot tell .*--gold-labels.*id2label", lambda: summarize(tmp_path, gold="label")
    )
    refused(InputError, r"cannot tell .*--gold-labels.*id2label", lambda: found.filter(gold=numbers))
    pairs = " ".join(f"{number}={name}" for number, name in enumerate(DATA))
    for meaning in (DATA, dict(enumerate(DATA)), {str(n): MODEL.index(name) for n, name in enumerate(DATA)}, pairs):
        assert summarize(tmp_path, gold="label", gold_labels=meaning).accuracy == 1
        assert found.filter(gold=numbers, gold_labels=meaning) == found
    by_index = [MODEL[number] == result.prediction.label for number, result in zip(numbers, found, strict=True)]
    assert summarize(tmp_path, gold="label", gold_labels="id2label").accuracy == pytest.approx(np.mean(by_index))


def test_classes_are_counted_where_the_model_has_no_names(results, tmp_path):
    model, found = results(*UNNAMED)
    label = datasets.ClassLabel(names=["neg", "pos"])
    features = datasets.Features({"text": datasets.Value("string"), "label": label})
    data = datasets.Dataset.from_dict({"text": TEXTS, "label": [a.prediction.id for a in found]}, features)
    attribute(model, data, tmp_path, keep=["label"])
    assert summarize(tmp_path, gold="label").accuracy == 1
    assert found.filter(gold=data["label"]) == found
    three = data.cast_column("label", datasets.ClassLabel(names=["neg", "pos", "mixed"]))
    attribute(model, three, tmp_path / "three", keep=["label"])
    refused(DataError, "'pos'", lambda: summarize(tmp_path / "three", gold="label"))


def test_names_that_the_model_does_not_have_are_refused(results, tmp_path):
    """The data say "neg" and the model "no"."""
    model, found = results(*YES)
    label = datasets.ClassLabel(names=["neg", "pos"])
    features = datasets.Features({"text": datasets.Value("string"), "label": label})
    data = datasets.Dataset.from_dict({"text": TEXTS, "label": [a.prediction.id for a in found]}, features)
    attribute(model, data, tmp_path, keep=["label"])
    refused(DataError, r"\(no, yes\).*'neg' .*'pos' ", lambda: summarize(tmp_path, gold="label"))
    refused(InputError, "'pos' ", lambda: found[:1].filter(gold=data["label"][:1], gold_labels=label))
    refused(InputError, "'pos' ", lambda: found.filter(gold=["neg", *["pos"] * (len(found) - 1)]))
    for meaning in ({"neg": "no", "pos": "yes"}, "neg=no pos=yes", '{"neg": "no", "pos": "yes"}', "0=no 1=yes"):
        assert summarize(tmp_path, gold="label", gold_labels=meaning).accuracy == 1
        assert found.filter(gold=data["label"], gold_labels=meaning) == found


def test_files_that_number_their_classes_differently_are_refused(inference, tmp_path):
    model, _, data = inference
    data.to_parquet(tmp_path / "a.parquet")
    turned = datasets.ClassLabel(names=list(DATA)[::-1])
    data.cast(datasets.Features({**data.features, "label": turned})).to_parquet(tmp_path / "b.parquet")
    folder = tmp_path / "out"
    refused(
        DataError,
        r"b.parquet: .*'label'",
        lambda: attribute(model, str(tmp_path / "?.parquet"), folder, keep=["label"]),
    )


def test_zeros_and_ones_are_in_an_order_that_somebody_said(feelings):
    asked, gold = feelings
    marks = [[int(name in names) for name in FEELINGS] for names in gold]
    found = asked(TEXTS)
    right = found.filter(gold=gold)
    refused(InputError, "nothing says which labels", lambda: found.filter(gold=marks))
    assert found.filter(gold=[row[::-1] for row in marks], gold_labels=FEELINGS[::-1]) == right
    refused(InputError, "2 names", lambda: found.filter(gold=marks, gold_labels=FEELINGS[:2]))


STARS = "1=negative 2=negative 3= 4=positive 5=positive"


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """The results of a table of reviews with one to five stars, as the commands of the README make them."""
    folder = tmp_path_factory.mktemp("reviews")
    texts = ["A dreadful, dull film.", "A bad film.", "A film.", "A fine film.", "A warm, wise, moving film."]
    rows = {"key": range(10), "body": texts * 2, "stars": [1, 2, 3, 4, 5] * 2}
    pd.DataFrame(rows).to_csv(folder / "reviews.csv", index=False)
    return folder


def test_stars_are_mapped_to_labels(rated, capsys):
    table, out, page = (rated / name for name in ("reviews.csv", "out", "summary.html"))
    assert run(capsys, "attribute", table, "--keep", "stars", "--output", out)[0] == 0
    code, _, error = run(capsys, "summarize", out, "--gold", "stars")
    assert code == 2
    assert error.count("\n") == 1
    assert all(part in error for part in ("'1' (2)", "'5' (2)", "--gold-labels", "negative, positive"))
    line = ("summarize", out, "--gold", "stars", "--gold-labels", STARS, "--verify", "20", "--output", page)
    assert run(capsys, *line)[0] == 0
    assert "are right (100%;" in page.read_text(encoding="utf-8")
    summary = summarize(out, gold="stars", gold_labels={1: "negative", 2: "negative", 3: None, "4": "positive", 5.0: 1})
    assert (summary.accuracy, summary.unlabelled) == (1.0, 2)
    counted = summarize(out, gold="stars", gold_labels=STARS.replace("3=", "3=3"))
    assert (counted.accuracy, counted.unlabelled, counted.unknown) == (0.8, 0, {"3": 2})


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("1=negative 2=negative 4=positive 5=positive", r"'3' \(2\)"),
        ("1=negative 2=negativ 3= 4=positive 5=positive", "no label 'negativ'"),
        ("negative positive", "pairs such as"),
        ("1=negative 1=positive", "twice what '1' means"),
        ({1: "negative", "1": None}, "twice what '1' means"),
        ("", "pairs such as"),
        ("1='negative", "cannot be read"),
        ("id2label", r"'2' \(2\), '3' \(2\)"),
        ({1: True}, "the name of a label, its index or None"),
        ({1: 7}, "no label '7'"),
        (["negative"], "'1' "),
        (7, "labels are a list of names"),
    ],
)
def test_what_a_mapping_does_not_say_is_refused(rated, pairs, message):
    if not (rated / "out").exists():
        attribute(Explainer.from_pretrained(), str(rated / "reviews.csv"), rated / "out", keep=["stars"])
    refused((DataError, InputError), message, lambda: summarize(rated / "out", gold="stars", gold_labels=pairs))


def test_one_star_everywhere_is_not_the_second_label():
    found = Explainer.from_pretrained()(["A fine film.", "A moving film."], progress=False)
    refused(InputError, r"'1' \(2\)", lambda: found.filter(gold=[1, 1]))
    refused(InputError, r"'1' \(2\)", lambda: found.filter(gold=["1", "1"]))
    assert found.filter(gold=[5, 1], gold_labels={5: "positive", 1: "negative"}) == found[:1]
    refused(InputError, "give both", lambda: found.filter(gold_labels="id2label"))
    assert isinstance(found.filter(gold=[None, None]), Attributions)
