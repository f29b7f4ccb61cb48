import time
from itertools import pairwise

import pytest

from normxlogit.text.boundaries import paragraph_spans, sentence_spans, word_spans
from tests.text.languages import SENTENCES, UNSPACED


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


@pytest.mark.parametrize("spaces", [1, 20, 63, 64, 65, 200])
def test_a_number_far_behind_the_word_before_it_begins_no_entry(spaces):
    first = f"He got{' ' * spaces}5."
    assert sentences(f"{first} They left.") == [first, "They left."]
    assert sentences("5. They left.") == ["5. They left."]
    for entry in (f"{' ' * spaces}5. They left.", f"{' ' * spaces}5.{' ' * spaces}They left."):
        assert sentences(entry) == [entry.strip()], "however far it is indented"
        assert sentences(f"Here.\n\n{entry}") == ["Here.", entry.strip()]


@pytest.mark.parametrize("spaces", [1, 63, 64, 65, 200])
def test_what_follows_is_seen_behind_white_space_of_any_length(spaces):
    for text in (
        f"Am 5.{' ' * spaces}Mai war es so.",
        f"He met Dr.{' ' * spaces}Who today.",
        f"so.{' ' * spaces}and on",
    ):
        assert sentences(text) == [text]


def test_every_letter_is_in_one_sentence():
    text = " Mr. A. went (at 5 p.m.). \n\n\n- He said: “No!” …\n# H\nx | y\n```\ncode.\n``` \t End"
    spans = sentence_spans(text)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    left = "".join(text[a:b] for (_, a), (b, _) in zip([(0, 0), *spans], [*spans, (len(text),) * 2], strict=True))
    assert not any(map(str.isalnum, left))


@pytest.mark.parametrize(
    ("language", "wanted"), [(language, text) for language, texts in SENTENCES.items() for text in texts]
)
def test_sentences_of_many_languages(language, wanted):
    assert sentences(("" if language in UNSPACED else " ").join(wanted)) == [sentence.strip() for sentence in wanted]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Paris.\n\n---\n\nIt is big.", ["Paris.", "It is big."]),
        ("| a | b |\n|---|:-:|\n| Yes. No. | 1 |", ["| a | b |", "| Yes. No. | 1 |"]),
        ("Good! 😀\n\n👍🏽", ["Good!"]),
        ("Title\n=====\nText.", ["Title", "Text."]),
        (
            "Use it:\n```python\nx = items[1]. Y\n\nprint()\n```\nDone.",
            ["Use it:", "x = items[1]. Y\n\nprint()", "Done."],
        ),
        ("Call `a. B` first. Then go.", ["Call `a. B` first.", "Then go."]),
        ("It is big.[1][2] It grew.³ So.", ["It is big.[1][2]", "It grew.³ So."]),
        ("…", []),
    ],
)
def test_what_is_no_sentence_is_none_and_code_is_not_divided(text, wanted):
    assert sentences(text) == wanted


@pytest.mark.parametrize("piece", ["a. ", "`a ", "```\n", "1. ", "... ", "г. ", "!", "~~~\n", "``````\n```a\n"])
def test_the_time_is_linear(piece):
    text = piece * (100_000 // len(piece))
    start = time.process_time()
    sentence_spans(text)
    word_spans(text)
    assert time.process_time() - start < 2  # seconds; a tenth as a rule


@pytest.mark.parametrize(
    "text",
    [
        *("می\u200cخواهم بروم", "क्षत्\u200dरिय", "👩\u200d💻 👍🏽 ❤\ufe0f 🇩🇪 1\ufe0f\u20e3", "don’t l'été", 'צה״ל צה"ל'),
        *("col·lecció", "ab\u00adc", "10² CO₂", "state-of-the-art", "3.14 1,000", "snake_case", "ክርስቶስ", "한국어 단어"),
    ],
)
def test_words_are_what_stands_between_spaces_in_these(text):
    assert [text[start:end] for start, end in word_spans(text)] == text.split()


def test_two_flags_are_two_words_and_scripts_without_spaces_have_a_word_for_each_character():
    assert [("🇩🇪🇫🇷"[a:b]) for a, b in word_spans("🇩🇪🇫🇷")] == ["🇩🇪", "🇫🇷"]
    assert len(word_spans("巴黎是首都。")) == 6
    assert [("กำลัง"[a:b]) for a, b in word_spans("กำลัง")] == ["กำ", "ลั", "ง"]


def test_paragraphs_stand_between_empty_lines():
    text = "one\nstill one\n  \n\ntwo \n"
    assert [text[a:b] for a, b in paragraph_spans(text)] == ["one\nstill one", "two"]
