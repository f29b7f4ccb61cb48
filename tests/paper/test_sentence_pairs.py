import re
from collections import Counter

import pytest
from transformers import AutoConfig

from normxlogit.inputs.encoder import Encoder
from paper import sentence_pairs as module
from paper.blimp import PARADIGMS
from paper.minimal_pairs import Pair, encode_pairs
from paper.sentence_pairs import load_items
from tests import blimp, tiny

PLURAL = {tiny.VOCABULARY[word] for word in ("are", "were", "have")}


@pytest.fixture
def data(tmp_path):
    return blimp.write(tmp_path / "data")


@pytest.fixture
def labelled(monkeypatch):
    """Evidence without a parser: the word before the target, for determiners the one behind it."""

    def evidence_of(pairs):
        for pair in pairs:
            words = [m.span() for m in re.finditer(r"\w+", pair.good)]
            step = 1 if PARADIGMS[pair.group].kind == "determiner" else -1
            yield (words[words.index(pair.target) + step],)

    monkeypatch.setattr(module, "evidence_of", evidence_of)


def encoder():
    return Encoder(tiny.tokenizer_for("bert"), AutoConfig.for_model("bert"), 40)


def test_the_target_is_masked_in_place_and_evidence_is_all_pieces(data, labelled):
    items, counts = load_items("test", encoder(), "masked-lm", evidence=True, data_dir=data)
    assert sum(counts.kept(short) for short in counts.rows) == len(items)
    for item in items:
        tokens = item.encoding.tokens
        assert tokens[item.position] == "[MASK]"
        assert item.encoding.ids.count(tiny.VOCABULARY["[MASK]"]) == 1
        ((first, *rest),) = item.evidence
        assert all(tokens[i].startswith("##") for i in rest)
        text = item.encoding.text
        start, end = item.encoding.offsets[first][0], item.encoding.offsets[[first, *rest][-1]][1]
        assert text[start:end].isalpha()
        assert tokens[first] == text[start : item.encoding.offsets[first][1]].lower()
    assert {len(item.evidence[0]) for item in items} == {1, 2}, "actors is actor and ##s"
    numbers = Counter(item.target in PLURAL for item in items if item.group == "rpsv")
    assert numbers[True] == numbers[False] > 0
    assert any(reason.startswith("surplus of ") for reason in counts.dropped["rpsv"])


def test_a_pair_that_differs_beside_its_target_is_left_out():
    for bad, foil, kept in (("the cat are here", (8, 11), True), ("a cat are here", (6, 9), False)):
        (item,) = encode_pairs([Pair("any", "the cat is here", bad, (8, 10), foil)], encoder(), "masked-lm")
        assert (item == "target or foil of several tokens") is not kept
