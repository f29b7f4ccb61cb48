import pytest

from normxlogit import Predictions
from normxlogit.corpora import folder as folders
from normxlogit.errors import DataError

from .corpora import errors, explainer, jsonl, results, rows_of, run, texts


def test_a_run_that_is_turned_away_leaves_the_other_ones_files(tmp_path, bert):
    folder = folders.Folder(tmp_path)
    folder.create()
    half = tmp_path / "shards/.writing-abc.parquet"
    with folder.locked():
        half.write_bytes(b"half of it")
        with pytest.raises(DataError, match="another run is writing"):
            run(bert, rows_of(texts(4)), tmp_path)
        assert half.exists()
    run(bert, rows_of(texts(4)), tmp_path)
    assert not half.exists()


def test_what_changed_is_refused_by_name(tmp_path, bert):
    path = jsonl(tmp_path / "in.jsonl", rows_of(texts(40)))
    out = tmp_path / "out"
    run(bert, path, out)
    for options, name in [
        ({"method": "logat"}, "method"),
        ({"job": Predictions(target=1)}, "target"),
        ({"keep_text": False}, "keep_text"),
    ]:
        with pytest.raises(DataError, match=f"was made with {name}"):
            run(bert, path, out, **options)
    with pytest.raises(DataError, match="model 'tiny-bert' with other weights"):
        run(explainer(seed=1), path, out)
    with pytest.raises(DataError, match="model 'tiny-bert', not 'tiny-electra'"):
        run(explainer("electra"), path, out)
    other = jsonl(tmp_path / "other.jsonl", rows_of(texts(40)))
    with pytest.raises(DataError, match=r"in\.jsonl, not .*other\.jsonl"):
        run(bert, other, out)
    jsonl(path, rows_of(texts(41)))
    with pytest.raises(DataError, match="rows 32 to 39 of the input have changed"):
        run(bert, path, out)


def test_a_run_without_any_result_says_why_and_is_no_bar_to_the_next(tmp_path, bert):
    wrong = [{"text": i, "body": text} for i, text in enumerate(texts(40))]
    for _ in range(2):  # when it is done already, too
        with pytest.raises(DataError, match=r"none of 40 rows has a result, see .*; row 0: not text: column 'text'"):
            run(bert, wrong, tmp_path)
    assert len(errors(tmp_path)) == 40
    assert run(bert, wrong[:20], tmp_path, Predictions("body")).errors == 0
    assert results(tmp_path)["row"].to_pylist() == list(range(20))
    assert errors(tmp_path) == {}


def test_the_output_may_not_lie_in_the_folder_that_is_read(tmp_path, bert):
    jsonl(tmp_path / "in.jsonl", rows_of(texts(4)))
    for output in (tmp_path, tmp_path / "out"):
        with pytest.raises(DataError, match="which is read as a whole; give another --output"):
            run(bert, tmp_path, output)
    assert not (tmp_path / "shards").exists()
    assert run(bert, tmp_path / "in.jsonl", tmp_path / "out").rows == 4


def test_a_finished_run_is_not_taken_for_one_of_other_rows(tmp_path, bert):
    run(bert, rows_of(texts(32)), tmp_path)
    for changed, says in [
        ([*texts(31), "another text"], "rows 16 to 31 of the input have changed"),
        (texts(16), "the input has 16 rows, and 32 were explained before"),
        (texts(40), "was made of fewer rows than the input has"),
    ]:
        with pytest.raises(DataError, match=says):
            run(bert, rows_of(changed), tmp_path)
    assert run(bert, rows_of(texts(32)), tmp_path).fresh == 0
