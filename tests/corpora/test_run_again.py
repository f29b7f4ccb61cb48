"""A corpus run that goes on, is started again, or finds its folder changed."""

from contextlib import nullcontext

import pytest

from normxlogit import ALL, Predictions
from normxlogit.corpora import folder as folders
from normxlogit.errors import DataError

from .corpora import errors, explainer, jsonl, results, rows_of, run, texts


def interrupt():
    raise KeyboardInterrupt


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
        ({"job": Predictions(layers=ALL)}, "layers"),
        ({"keep_text": False}, "keep_text"),
        ({"shard_rows": 8}, "shard_rows"),
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


def test_rows_that_changed_under_the_same_name_are_refused(tmp_path, bert):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run(bert, rows_of(texts(80)), out, watch=lambda now: now.rows > 16 and interrupt())
    changed = rows_of(texts(80))
    changed[3]["text"] = "another text"
    with pytest.raises(DataError, match="rows 0 to 15 of the input have changed"):
        run(bert, changed, out)


def test_a_run_without_any_result_says_why_and_is_no_bar_to_the_next(tmp_path, bert):
    wrong = [{"text": i, "body": text} for i, text in enumerate(texts(40))]
    for _ in range(2):  # when it is done already, too
        with pytest.raises(DataError, match=r"none of 40 rows has a result, see .*; row 0: not text: column 'text'"):
            run(bert, wrong, tmp_path)
    assert len(errors(tmp_path)) == 40
    assert run(bert, wrong[:20], tmp_path, Predictions("body")).errors == 0
    assert results(tmp_path)["row"].to_pylist() == list(range(20))
    assert errors(tmp_path) == {}
    for rows in ([], [{"text": None}]):  # what is in memory has no name by which its change would be seen
        with pytest.raises(DataError, match="none of 1 rows") if rows else nullcontext():
            run(bert, rows, tmp_path / "memory")
    assert run(bert, rows_of(texts(2)), tmp_path / "memory").errors == 0


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
        (texts(40), "was made of fewer rows than the input has now"),
    ]:
        with pytest.raises(DataError, match=says):
            run(bert, rows_of(changed), tmp_path)
    assert run(bert, rows_of(texts(32)), tmp_path).fresh == 0
    large = jsonl(tmp_path / "in.jsonl", [{"text": "x" * 40_000} for _ in range(64)])  # 2.5 MB
    run(bert, large, tmp_path / "files")
    content = bytearray(large.read_bytes())
    content[len(content) // 2] = ord("y")  # beyond what a digest of both ends sees
    large.write_bytes(content)
    with pytest.raises(DataError, match="rows 32 to 47 of the input have changed"):
        run(bert, large, tmp_path / "files")
