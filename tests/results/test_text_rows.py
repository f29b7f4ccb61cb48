import warnings

from normxlogit import Explainer
from normxlogit.results.collection import Attributions
from tests import tiny
from tests.factories import make_attribution

GOOD = make_attribution(("good", "bad", "!"), (3.0, -2.0, 5.0), text="good bad!", notes=("one", "two"))


def test_a_row_has_the_text_the_answer_and_its_words():
    many = Attributions([GOOD, make_attribution()])
    table = many.to_pandas(level="text")
    assert list(table["text"]) == [a.text for a in many]
    assert list(table["prediction"]) == [a.prediction.label for a in many]
    assert list(table["probability"]) == [a.prediction.probability for a in many]
    assert table["top_for"][0] == "good +3", "punctuation is not a word"
    assert table["top_against"][0] == "bad -2"
    assert table["top_for"][1] == "bad +3, mediocre +2.2, maybe +0.4", "three words, merged, the highest first"
    assert table["notes"][0] == "one; two"
    assert "method" not in table


def test_words_are_rows_with_their_text_and_prediction():
    table = Attributions(a.group("word") for a in (GOOD, make_attribution())).to_pandas()
    first = table[(table["text_index"] == 0) & ~table["special"]]
    assert list(zip(first["unit"], first["score"], strict=True)) == [("good", 3.0), ("bad", -2.0), ("!", 5.0)]
    assert set(first["text"]) == {"good bad!"}
    assert set(first["prediction"]) == {"negative"}


def test_truncation_is_a_column_and_a_warning_that_is_shown_once():
    tokenizer = tiny.tokenizer_for("bert")
    tokenizer.model_max_length = 8
    explainer = Explainer(tiny.model("bert"), tokenizer)
    texts = ["the movie is not good " * 4, "good"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")  # Python's own for user warnings
        for _ in range(3):
            many = explainer(texts)
    assert ["truncated" in str(one.message) for one in caught] == [True]
    assert list(many.to_pandas(level="text")["truncated"]) == [True, False]
    for way in ("truncate", "window"):  # asked for: no warning, which is an error here
        assert explainer(texts, long_text=way)[0].truncated is (way == "truncate")
