"""The rule finds the evidence in parses made by hand, and in most of a hundred sentences labelled by a reader."""

import json
from collections import Counter
from pathlib import Path

import pytest

from paper.blimp import PARADIGMS, expanded
from paper.evidence import PARSERS, evidence_in, parser
from paper.minimal_pairs import difference

spacy = pytest.importorskip("spacy")

SAMPLE = Path(__file__).parents[1] / "data" / "blimp_evidence.jsonl"
"""Twenty rows of each paradigm of BLiMP (Warstadt et al., 2020, CC BY 4.0); the evidence as a reader sees it."""


def found(document, kind, word):
    start = document.text.index(f" {word} ") + 1
    return [document.text[a:b] for a, b in evidence_in(document, kind, (start, start + len(word)))]


@pytest.mark.skipif(not any(map(spacy.util.is_package, PARSERS)), reason="no English pipeline installed")
def test_share_of_right_evidence_in_a_labelled_sample():
    kinds = {paradigm.name: paradigm for paradigm in PARADIGMS.values()}
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 100
    sentences = [expanded(row["sentence_good"]) for row in rows]
    right = Counter()
    for row, good, document in zip(rows, sentences, parser().pipe(sentences), strict=True):
        target, _ = difference(good, expanded(row["sentence_bad"]))
        words = [good[a:b] for a, b in evidence_in(document, kinds[row["paradigm"]].kind, target)]
        right[kinds[row["paradigm"]].short] += words == row["evidence"].split()
        assert not words or words == row["evidence"].split(), f"{good}: {words}"
    # the six that are missed are misparsed, and counted as "no evidence found"
    assert right == {"ana": 20, "dna": 20, "dnaa": 17, "darn": 18, "rpsv": 19}
