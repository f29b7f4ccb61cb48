import csv
import dataclasses
import io

import numpy as np
import pytest

from normxlogit import Attributions
from normxlogit.errors import DataError
from normxlogit.results import Prediction
from tests.factories import all_labels, labels_and_layers, make_attribution
from tests.makers import MAKERS


def test_results_are_chosen_by_what_the_model_said():
    said = [Prediction("negative", 0, 1.0, 0.7), *[Prediction("positive", 1, 1.0, 0.7)] * 2]
    a = Attributions(make_attribution(prediction=one) for one in said)
    assert a.filter(label="positive") == a[1:]
    assert a.filter(lambda r: r.prediction.id == 0, label="negative") == [a[0]]
    assert a.filter(lambda r: r.prediction.id == 0, label="positive") == []


def test_the_strongest_words_over_all_texts():
    one = make_attribution(("Bad", "film"), (4.0, 1.0), text="Bad film")
    two = make_attribution(("bad", "bad", "!"), (2.0, 0.0, 9.0), text="bad bad !")
    totals = Attributions([one, two]).top()
    assert [(t.text, t.score, t.texts) for t in totals] == [("bad", 2.5, 2), ("film", 1.0, 1)]  # (4 + (2 + 0) / 2) / 2
    assert [t.text for t in Attributions([one, two]).top(min_texts=2)] == ["bad"]
    assert len(Attributions([one, two]).top(1)) == 1
    with pytest.raises(DataError, match="choose"):
        Attributions([all_labels()]).top()


def test_a_table_of_several_methods_says_which_and_counts_texts():
    one, two = make_attribution(), make_attribution(("Bad", "film"), (2.0, 1.0), text="Bad film")
    steps = [{"settings": {"steps": n}, "method": "integrated-gradients"} for n in (10, 20)]
    both = [dataclasses.replace(a, **changes) for a in (one, two, two) for changes in steps]
    rows = list(csv.DictReader(io.StringIO(Attributions(both).to_csv())))
    told = list(dict.fromkeys((row["text_index"], row["method"]) for row in rows))
    assert told == [(str(i), f"integrated-gradients:steps={n}") for i in range(3) for n in (10, 20)]
    alone = csv.DictReader(io.StringIO(Attributions([one, one]).to_csv()))
    assert "method" not in alone.fieldnames
    assert {row["text_index"] for row in alone} == {"0", "1"}


def test_every_label_and_layer_has_its_rows():
    a = labels_and_layers()
    table = a.to_pandas().set_index(["label", "layer", "position"])["score"]
    for c, label in enumerate(target.name for target in a.targets):
        for row, layer in enumerate(a.layers):
            np.testing.assert_array_equal(table.loc[label, layer], a.scores[c, row])
    assert len(all_labels().to_pandas()) == 24


def test_csv_is_the_same_table(tmp_path):
    several = Attributions(make() for make in MAKERS)
    several.save(tmp_path / "a.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text("utf-8"))))
    table = several.to_pandas()
    assert list(rows[0]) == list(table.columns)
    assert [np.float32(r["score"]) for r in rows] == table["score"].tolist()
    assert [r["unit"] for r in rows] == table["unit"].tolist()
    text = make_attribution(("a\x1b[31m\u202e", 'b,"\n'), (1, 2), text='a\x1b[31m\u202e b,"\n').to_csv()
    assert [row["unit"] for row in csv.DictReader(io.StringIO(text))] == ["[CLS]", "a␛[31m�", 'b,"\n', "[SEP]"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 1.0, 2.0]),
        ([1.0, 1.0, 1.0, 4.0, 4.0, 0.0], [2.0, 3.0, 3.0, 1.0, 5.0, 5.0]),
        ([0.5, 0.5, 0.0, 0.0], [1.0, 2.0, 2.0, 1.0]),
    ],
)
def test_agreement_is_the_correlation_of_ranks_of_which_equal_ones_share_their_mean(first, second):
    def ranks(scores):
        return [sum(o < s for o in scores) + (sum(o == s for o in scores) + 1) / 2 for s in scores]

    pieces = ("The", "movie", "is", "medi", "ocre", ",")[: len(first)]
    results = [make_attribution(pieces, scores, method=name) for scores, name in ((first, "a"), (second, "b"))]
    expected = np.corrcoef(ranks(first), ranks(second))[0, 1]
    assert Attributions(results).agreement["a", "b"] == pytest.approx(expected)
