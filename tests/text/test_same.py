import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normxlogit.text.same import comparable, find_text, same_text, word_key


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


SAME = [
    *(("Köln", decomposed("Köln")), ("각", decomposed("각")), ("한국어", decomposed("한국어")), ("ガ", "ｶﾞ")),  # forms
    *(
        ("Ｋöln ２０２４", "köln 2024"),
        ("ﬁnal", "final"),
        ("٢٠٢٤", "2024"),
        ("१२", "12"),
        ("10%", "١٠٪"),
        ("3.14", "٣٫١٤"),
    ),
    *(("CO₂", "CO2"), ("10⁶", "10^6"), ("2½", "2 1/2"), ("❤\ufe0f", "❤"), ("Wait…", "wait...")),
    *(("STRASSE", "Straße"), ("ΟΔΟΣ", "οδος"), ("İSTANBUL", "istanbul"), ("KIZGIN", "kızgın")),  # case
    *(("“Paris”", '"Paris"'), ("«Paris»", '"Paris"'), ("「パリ」", '"パリ"'), ("don’t", "don't"), ("don`t", "don't")),
    *(("8–12", "8-12"), ("8—12", "8-12"), ("8--12", "8-12"), ("−5", "-5"), ("word—word", "word -- word")),  # dashes
    *(
        ("« Paris »", "“Paris”"),
        ("C'est fini !", "C’est fini!"),
        ("50 %", "50%"),
        ("er: »Was?« fragt", 'er: "Was?" fragt'),
    ),
    *(("Paris–Roubaix", "Paris-Roubaix"), ("Hawaiʻi", "Hawai'i"), ("צה״ל", 'צה"ל')),
    *(
        ("exam\u00adple", "example"),
        ("می\u200cخواهم", "میخواهم"),
        ("a\u200bb", "ab"),
        ("\ufeffParis", "Paris"),
    ),  # unseen
    *(
        ("exam-\nple", "example"),
        ("well-\nknown", "well-known"),
        ("COVID-\n19", "COVID-19"),
        ("a\n  b", "a b"),
    ),  # lines
    *(("中文\n文字", "中文文字"), ("使用 Python 编程", "使用Python编程"), ("１，２", "1,2"), ("สวัสดี ครับ", "สวัสดีครับ")),
    *(("كِتَاب", "كتاب"), ("كتـــاب", "كتاب"), ("שָׁלוֹם", "שלום"), ("کتاب", "كتاب")),  # Arabic, Hebrew
    *(("**Paris**", "Paris"), ("_Paris_", "Paris"), ("`Paris`", "Paris"), ("這是**重要**的", "這是重要的")),  # Markdown
    *(("# Paris", "Paris"), ("- Paris", "Paris"), ("> Paris\n> is", "Paris is"), ("***Paris***!", "Paris!")),
    *(("[Paris](https://x.y/z)", "Paris"), ("![a cat](cat.png)", "a cat"), ("**well**-known", "well-known")),
    *(("a\n\n---\n\nb", "a b"), ("```python\nx = 1\n```", "x = 1"), ("| a | b |\n|---|:-:|\n| c | d |", "a b c d")),
]
OTHER = [
    *(("102", "10²"), ("21/2", "2½"), ("12", "1-2"), ("-5", "5"), ("2*3", "23"), ("x**2", "x2"), ("5′", "5″")),
    *(("Köln", "Koln"), ("각", "가"), ("が", "か"), ("कि", "क"), ("12. Mai", "13. Mai"), ("5. Mai", "Mai")),
    *(("C++", "C"), ("C#", "C"), ("*", "_"), ("---", ""), ("|", ""), ("\u00ad", ""), ("items[1]", "items1")),
    *(("snake_case", "snakecase"), ("😀", "😁"), ("🇩🇪", "🇫🇷"), ("pas bon", "passbon"), ("a b", "ab")),
    ("🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "🏴"),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_same(first, second):
    assert comparable(first).text == comparable(second).text
    assert same_text(first, second)


@pytest.mark.parametrize(("first", "second"), OTHER)
def test_other(first, second):
    assert not same_text(first, second)


@pytest.mark.parametrize(
    ("text", "part", "found"),
    [
        (f"Der Dom in {decomposed('Köln')} ist alt", "KÖLN", [decomposed("Köln")]),
        ("see **exam-\nple** here", "example", ["exam-\nple"]),
        ("a “**word**” and a WORD", "word", ["word", "WORD"]),
        ("10² and 10", "10", ["10"]),
        ("the unknown known, well-known", "known", ["known", "known"]),
        ("l'été 3.14", "été", ["été"]),
        ("3.14", "3", []),
        ("ﬁne fi", "f", []),
        ("巴黎是首都。巴黎", "巴黎", ["巴黎", "巴黎"]),
        ("ปารีสเป็นเมือง", "เมือง", ["เมือง"]),
        ("कि क", "क", ["क"]),
        ("각 가", "가", ["가"]),
        ("8—12", "8", ["8"]),
        ("a [link](http://x.y) here", "link here", ["link](http://x.y) here"]),
        ("anything", "", []),
        ("a ** b | c", "**", ["**"]),
        ("a ** b | c", "|", ["|"]),
        ("3-5 and -5", "-5", ["-5"]),
        ("il dit « oui » et", "“oui” et", ["« oui » et"]),
        ("", "x", []),
    ],
)
def test_places_are_characters_of_the_original(text, part, found):
    assert [text[start:end] for start, end in find_text(text, part)] == found


PIECES = [*"abİßé*_`-–—\n>#|[](). 1²½中ก가", "e\u0301", "\u00ad", "\u200d", "ﬁ", "👩", "\ud800"]
TEXTS = st.lists(st.sampled_from(PIECES)).map("".join)
WORDS = ["Köln", "8–12", "**bold**", "don’t", "state-of-the-art", "中文", "2½", "कि"]


@settings(deadline=None)
@given(TEXTS)
def test_the_way_back_is_in_order_and_inside_the_text(text):
    form = comparable(text)
    assert len(form.text) == len(form.starts) == len(form.ends)
    assert all(0 <= start < end <= len(text) for start, end in zip(form.starts, form.ends, strict=True))
    assert sorted(form.starts) == list(form.starts)
    assert form.original_span(0, 0) <= form.original_span(0, len(form.text))


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6))
def test_a_word_is_found_in_every_text_that_has_it(words):
    text = ", ".join(words)
    for word in words:
        for same in (word, decomposed(word), word.upper(), f"_{word}_"):
            assert len(find_text(text, same)) >= words.count(word)


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=4))
def test_a_word_has_the_form_in_which_all_texts_are_compared(word):
    assert word_key(word) == comparable(word).text


@pytest.mark.parametrize("text", [text for pair in [*SAME, *OTHER] for text in pair])
def test_the_key_of_a_word_is_its_compared_form(text):
    assert word_key(text) == comparable(text).text


PLAIN, CHINESE = "Plain, “quoted” – and **bold**. ", "巴黎是首都。"


@pytest.mark.parametrize("piece", [PLAIN, CHINESE, "> > ", "[", "*_`", "-\n", "a-\n", "\\"])
def test_the_time_is_linear(piece):
    text = piece * (100_000 // len(piece))
    start = time.process_time()
    comparable(text)
    assert time.process_time() - start < 2  # seconds; a tenth as a rule
