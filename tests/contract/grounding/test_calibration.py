"""A user's own calibration: fitted to labelled sentences, kept for one model, refused elsewhere."""

import json

import pytest

from normxlogit import Attributions, DataError, Explainer
from normxlogit.grounding import Citations
from tests import tiny
from tests.commands import run
from tests.contract.compare import comes_back, refused

pytest.importorskip("normxlogit.evaluation", reason="what a calibration is worth is measured by the wing `evaluation`")

WORDS = ["cat", "mat", "movie", "film", "plot", "actor", "cabinet", "keys", "charm", "time"]
LENGTH = 300


def labelled_lines(count):
    """Sentences that stand in their document word for word, and sentences about something else."""
    for place in range(count):
        word, other = WORDS[place % 10], WORDS[(place + 3) % 10]
        document = f"the {word} was here and never there ."
        yield {"documents": document, "sentence": f"the {word} was here", "supported": True}
        yield {"documents": document, "sentence": f"{other} {other} maybe awful", "supported": False}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NORMXLOGIT_CACHE", str(tmp_path / "cache"))
    tiny.save(tmp_path / "model", "llama", "CausalLM", length=LENGTH, chats=True)
    return tmp_path


def write_pairs(folder, rows):
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_a_calibration_is_printed_and_kept_beside_the_cache(folder, capsys):
    write_pairs(folder, labelled_lines(20))
    code, out, err = run(capsys, "calibrate", "pairs.jsonl", "--model", "model")
    assert (code, err) == (0, "")
    assert "40 sentences" in out
    assert "AUROC of the support 1.00" in out
    (kept,) = (folder / "cache" / "calibrations").glob("*.json")
    assert str(kept.parent) in out.replace("\n", "")
    calibration = json.loads(kept.read_text(encoding="utf-8"))
    assert calibration["slope"] > 0
    assert calibration["sentences"] == 40


def test_a_second_calibration_of_a_model_takes_the_place_of_the_first(folder, capsys):
    for count in (20, 25):
        write_pairs(folder, labelled_lines(count))
        assert run(capsys, "calibrate", "pairs.jsonl", "--model", "model")[0] == 0
    (kept,) = (folder / "cache" / "calibrations").glob("*.json")
    assert json.loads(kept.read_text(encoding="utf-8"))["sentences"] == 50


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (list(labelled_lines(19)), "found 19 supported and 19 unsupported sentences: a calibration needs 20 of each"),
        ([{"documents": "a cat", "sentence": "a cat", "supported": "yes"}], '"supported" is true or false'),
        ([{"documents": "a cat", "sentence": " ", "supported": True}], '"sentence" is a text'),
        ([{"documents": [], "sentence": "a cat", "supported": True}], "there is no document"),
        ([{"sentence": "a cat", "supported": True}], "documents"),
        ([row | {"supported": not row["supported"]} for row in labelled_lines(20)], "there is no calibration"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(folder, capsys, rows, problem):
    write_pairs(folder, rows)
    code, out, err = run(capsys, "calibrate", "pairs.jsonl", "--model", "model")
    assert (code, out) == (2, "")
    assert problem in err
    assert not (folder / "cache" / "calibrations").exists()


def test_without_a_cache_nothing_is_kept_and_the_variable_is_named(folder, capsys, monkeypatch):
    monkeypatch.setenv("NORMXLOGIT_CACHE", "")
    write_pairs(folder, labelled_lines(20))
    code, _, err = run(capsys, "calibrate", "pairs.jsonl", "--model", "model")
    assert code == 2
    assert "NORMXLOGIT_CACHE" in err


DOCUMENTS = {"cat.txt": "the cat was here and never there .", "mat.txt": "a movie is good ."}
ANSWER = "Mat mat maybe awful. The cat was here."


def cited(folder, answer=ANSWER, **options):
    return Explainer.from_pretrained(str(folder / "model")).cite("who ?", DOCUMENTS, answer=answer, verify=0, **options)


def test_the_most_doubtful_sentence_comes_first_without_a_probability_that_nobody_measured(folder, tmp_path):
    plain, ranked = cited(folder), cited(folder, rank=True)
    assert plain.ranking == ()
    assert plain.most_doubtful == []
    assert ranked.support == plain.support
    assert ranked.most_doubtful == [0, 1]
    assert [sentence.shared for sentence in ranked.ranking] == [0.0, 1.0]
    assert all(sentence.probability is None for sentence in ranked.ranking)
    assert "probability" not in str(ranked)
    for drawn in (str(ranked), ranked.to_html()):
        assert "most doubtful" in drawn
    assert "most doubtful" not in str(plain)
    assert "most doubtful" not in str(cited(folder, "The cat was here.", rank=True))  # one has no order
    assert len(ranked.to_dict()["ranking"]) == 2
    comes_back(Attributions([ranked, ranked]), tmp_path)
    refused(DataError, "ranking", lambda: Citations.from_dict({**ranked.to_dict(), "ranking": [{}]}))


def test_a_calibrated_model_has_probabilities_that_rise_with_the_support(folder, capsys):
    write_pairs(folder, labelled_lines(20))
    assert run(capsys, "calibrate", "pairs.jsonl", "--model", "model")[0] == 0
    doubtful, sure = cited(folder, rank=True).ranking
    assert 0 < doubtful.probability < sure.probability < 1
    (folder / "answer.txt").write_text(ANSWER, encoding="utf-8")
    (folder / "cat.txt").write_text(DOCUMENTS["cat.txt"], encoding="utf-8")
    command = ("cite", "cat.txt", "--question", "who ?", "--answer", "answer.txt", "--model", "model", "--verify", "0")
    code, out, _ = run(capsys, *command, "--rank")
    assert code == 0
    named = "supported among those like it in pairs.jsonl"
    assert named in out
    assert named not in run(capsys, *command)[1]
