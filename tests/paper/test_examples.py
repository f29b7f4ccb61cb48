"""Examples of the paper: sentences with their evidence, and an explanation taken apart."""

import re

import pytest

from tests import blimp
from tests.commands import run_paper

pytest.importorskip("spacy")


def test_every_paradigm_is_shown_with_target_and_evidence(tmp_path, capsys):
    code, text, err = run_paper(capsys, "table2", "--data-dir", blimp.write(tmp_path), "--limit", 6)
    assert code == 0, err
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[0] for row in rows] == ["| ana", "| dna", "| dnaa", "| darn", "| rpsv"]
    for row in rows:
        example = row.split(" | ")[2]
        assert re.search(r"\*\*[^*]+\*\*", example), row
        assert re.search(r"(?<!\*)\*[^*]+\*(?!\*)", example), row
        assert row.split(" | ")[4] == "6"


def test_norm_times_logit_is_the_score_and_signs_are_counted(tmp_path, capsys):
    code, text, _ = run_paper(capsys, "figure1", "--text", "A warm film.", "--output", tmp_path)
    assert code == 0
    rows = re.findall(r"^\| (\S+) \| ([\d.]+) \| ([-\d.]+) \| ([-\d.]+) \|$", text, re.MULTILINE)
    assert [row[0] for row in rows] == ["[CLS]", "a", "warm", "film", ".", "[SEP]"]
    for _, norm, logit, score in rows:
        assert float(norm) * float(logit) == pytest.approx(float(score), abs=0.01)
    above = sum(float(row[3]) > 0 for row in rows)
    assert f"Scores above zero: {above} of 6 tokens here, 0." in text
    assert "film" in (tmp_path / "figure1.html").read_text()
