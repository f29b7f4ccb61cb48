from itertools import pairwise

import pytest

from normxlogit.text.boundaries import paragraph_spans, sentence_spans


def sentences(text):
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Smith paid 3.5 dollars. He left.", ["Dr. Smith paid 3.5 dollars.", "He left."]),
        ("He went to the U.S. in May. The U.S. The end.", ["He went to the U.S. in May.", "The U.S.", "The end."]),
        ("J. K. Rowling wrote it. It was I. You know.", ["J. K. Rowling wrote it.", "It was I.", "You know."]),
        ("See e.g. Paris, Fig. 3 and No. 5. It grew.", ["See e.g. Paris, Fig. 3 and No. 5.", "It grew."]),
        ('"Was it?" he asked. (Yes.) "No." Then', ['"Was it?" he asked.', "(Yes.)", '"No."', "Then"]),
        ("It is so ... and then it is. So", ["It is so ... and then it is.", "So"]),
        ("a line that\nwraps here. Next", ["a line that\nwraps here.", "Next"]),
        ("no mark here\n\nand a new paragraph", ["no mark here", "and a new paragraph"]),
        ("# Title\nText here.\n- one\n- two\n1. three", ["# Title", "Text here.", "- one", "- two", "1. three"]),
        ("你好。世界！吗", ["你好。", "世界！", "吗"]),
        ("see example.com/a.b and v1.2.3 now", ["see example.com/a.b and v1.2.3 now"]),
        (" \n\n ", []),
    ],
)
def test_sentences(text, wanted):
    assert sentences(text) == wanted


def test_every_character_but_white_space_is_in_one_sentence():
    text = " Mr. A. went (at 5 p.m.). \n\n\n- He said: “No!” …\n# H\nx | y\n```\ncode.\n``` \t End"
    spans = sentence_spans(text)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    left = "".join(text[a:b] for (_, a), (b, _) in zip([(0, 0), *spans], [*spans, (len(text),) * 2], strict=True))
    assert left.strip() == ""


def test_paragraphs_stand_between_empty_lines():
    text = "one\nstill one\n  \n\ntwo \n"
    assert [text[a:b] for a, b in paragraph_spans(text)] == ["one\nstill one", "two"]
