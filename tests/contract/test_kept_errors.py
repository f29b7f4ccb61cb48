"""Several texts of which one cannot be explained: its error is raised, or stands in its place."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import normxlogit
from normxlogit import DataError, Explainer, InputError, TargetError, UnsupportedModelError, register
from normxlogit.methods import Method, registry
from tests import tiny
from tests.contract.compare import close, refused

GOOD = ["the movie is not good", "a great film with charm", "bad", "the keys"]
WRONG = {"empty": " ", "missing": None, "a number": 3.5, "bytes": b"\xff", "a list of nothing": []}


@pytest.fixture(scope="module")
def explainer():
    return tiny.explainer("bert")


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_all_other_texts_are_explained(explainer, wrong, place):
    texts = [*GOOD[:place], WRONG[wrong], *GOOD[place:]]
    refused(InputError, f"input {place}", lambda: explainer(texts), lambda: explainer(texts, on_error="raise"))
    found = explainer(texts, on_error="keep")
    assert [index for index, result in enumerate(found) if result.error is not None] == [place]
    for result, expected in zip(found.filter(lambda result: result.error is None), explainer(GOOD), strict=True):
        assert (result.text, result.error) == (expected.text, None)
        close(result.scores, expected.scores)
    kept = found[place]
    assert kept.text == (texts[place] if isinstance(texts[place], str) else None)
    with pytest.raises(InputError) as alone:
        explainer([WRONG[wrong]])
    assert kept.error == str(alone.value).replace("input 0", "the input"), "a number would be another's"


def test_every_text_keeps_its_own_target_and_position(explainer):
    texts = [GOOD[0], "", GOOD[1], GOOD[2]]
    found = explainer(texts, targets=[0, 1, 1, 0], on_error="keep")
    assert [result.target.id for result in found if result.error is None] == [0, 1, 0]
    found = explainer(GOOD, targets=[0, 7, 1, "none"], on_error="keep")
    assert [result.error is None for result in found] == [True, False, True, False]
    tagger = tiny.explainer("bert", "TokenClassification")
    found = tagger([GOOD[0], GOOD[2], GOOD[1]], position=[2, 9, 3], on_error="keep")
    assert [getattr(result, "error", None) is None and result.target.position for result in found] == [2, False, 3]


def test_texts_of_any_container_and_pairs(explainer):
    expected = explainer([GOOD[0], "", GOOD[1]], on_error="keep")
    column = [GOOD[0], None, GOOD[1]]
    frames = [
        pd.DataFrame({"text": column}),
        pl.DataFrame({"text": column}),
        pd.Series(column),
        np.array(column, object),
    ]
    for given in (*frames, iter(column), tuple(column[:0]) or column):
        found = explainer(given, on_error="keep")
        assert [result.error is None for result in found] == [True, False, True]
        assert found[0] == expected[0]
    pairs = explainer([tiny.PAIR, ("a", None), ("bad film", "good film")], on_error="keep")
    assert (pairs[1].text, pairs[1].text_pair) == ("a", None)
    assert [result.error is None for result in pairs] == [True, False, True]
    single = explainer(GOOD[0], on_error="keep")
    assert single == explainer(GOOD[0])


def test_what_is_wrong_with_all_is_raised(explainer):
    refused(InputError, "input 0", lambda: explainer(["", ""], on_error="keep"))
    refused(InputError, "the input is empty", lambda: explainer("", on_error="keep"), lambda: explainer(""))
    refused(TargetError, "no label 'x'", lambda: explainer(GOOD, target="x", on_error="keep"))
    refused(TargetError, "3 targets for 4", lambda: explainer(GOOD, targets=[0, 0, 0], on_error="keep"))
    refused(InputError, "on_error must be", lambda: explainer(GOOD, on_error="skip"))
    refused(InputError, "of messages", lambda: explainer([[{"role": "user", "content": "x"}]][0], on_error="keep"))


def test_a_method_that_does_not_work_is_not_of_a_text(explainer):
    @register("never", paper="none")
    class Never(Method):
        def score(self, request):
            raise UnsupportedModelError("no model will do")

    try:
        refused(UnsupportedModelError, "no model", lambda: explainer(GOOD, method="never", on_error="keep"))
    finally:
        del registry._METHODS["never"]


def test_a_long_text_among_short_ones():
    explainer = tiny.explainer("bert", max_position_embeddings=16)
    found = explainer([GOOD[0], "the cat " * 40, GOOD[1]], long_text="error", on_error="keep")
    assert [result.error is None for result in found] == [True, False, True]


def test_it_is_drawn_saved_and_counted(explainer, tmp_path):
    found = explainer([GOOD[0], "\x1b[31m", GOOD[1], None], on_error="keep")
    assert found[1].error is None, "a control character is a text"
    assert "1 of them not explained" in repr(found)
    assert found[3].error in str(found)
    assert found[3].error in found.to_html()
    for suffix in ("json", "csv"):
        found.save(tmp_path / f"all.{suffix}")
    assert normxlogit.load(tmp_path / "all.json") == found
    table = found.to_pandas("text")
    assert list(table["error"].notna()) == [False, False, False, True]
    assert found.to_pandas().groupby("text_index").size().index.tolist() == [0, 1, 2, 3]
    refused(DataError, "error is None", lambda: found.save(tmp_path / "all.parquet"))
    assert found.top(3) == found[:3].top(3)
    refused(DataError, "was not explained", lambda: found[3].scored)


def test_the_default_method_of_a_model_is_found_with_it():
    """Where the default does not work on the model, the next one explains."""
    model = tiny.model("bert")
    explainer = Explainer(model, tiny.tokenizer_for("bert"))
    assert [r.error is None for r in explainer([GOOD[0], None], on_error="keep", layers=[1])] == [True, False]
