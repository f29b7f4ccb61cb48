import random
import re
from itertools import pairwise

import numpy as np
import pytest

from normxlogit import Explainer
from normxlogit.results.units.words import merge_words
from tests.factories import make_attribution


def words_of(text: str, spans: list[tuple[int, int]], scores=None):
    values = np.ones(len(spans), np.float32) if scores is None else np.asarray(scores, np.float32)
    return merge_words(values, [text], spans, [0] * len(spans), "sum")


def characters(text: str) -> list[tuple[int, int]]:
    return [(i, i + 1) for i, c in enumerate(text) if not c.isspace()]


@pytest.mark.parametrize(
    "text",
    [
        "I don't",
        "I don’t",
        "a state-of-the-art film",
        "it costs $ 3.14 , or 1,000,000",
        "at 10:30 sharp",
        "the end . Really ? !",
        "snake_case names",
        "नमस्ते हिन्दी",
        "cafe\u0301 noir",
        "👩\u200d💻 👍🏽 ❤\ufe0f",
        "1\ufe0f\u20e3 x",
        "- dash - here",
        "שלום עולם",
    ],
)
def test_words_are_what_stands_between_spaces_in_these(text):
    assert [w.text for w in words_of(text, characters(text))] == text.split()


def test_punctuation_stands_for_itself():
    text = "(bad), or\n“worse”... and/or"
    found = [w.text for w in words_of(text, characters(text))]
    assert found == ["(", "bad", ")", ",", "or", "“", "worse", "”", ".", ".", ".", "and", "/", "or"]


def test_scripts_without_spaces_have_a_word_for_each_character_or_token():
    assert [w.text for w in words_of("我爱你。", characters("我爱你。"))] == ["我", "爱", "你", "。"]
    assert [w.text for w in words_of("我喜欢 ABC猫", [(0, 1), (1, 3), (4, 7), (7, 8)])] == ["我", "喜欢", "ABC", "猫"]


def test_a_token_over_several_words_makes_one_of_them():
    found = words_of("so... bad", [(0, 2), (2, 5), (5, 9)])
    assert [(w.text, w.tokens) for w in found] == [("so", (0,)), ("...", (1,)), ("bad", (2,))]
    assert [w.text for w in words_of("New York is", [(0, 8), (8, 11)])] == ["New York", "is"]


def test_tokens_without_characters_go_with_their_neighbours():
    found = words_of("ab cd", [(0, 0), (0, 2), (3, 3), (3, 5), (5, 5)])
    assert [(w.text, w.tokens) for w in found] == [("ab", (0, 1)), ("cd", (2, 3, 4))]


def test_white_space_that_has_a_token_is_kept():
    assert [w.text for w in words_of("a\n\nb", [(0, 1), (1, 3), (3, 4)])] == ["a", "\n\n", "b"]


def test_every_token_is_in_one_word_and_words_do_not_overlap():
    """Random texts cut into random tokens, some of which share a character or have none."""
    rng = random.Random(0)
    alphabet = "ab'-. \n3é\u0301我猫שא👩\u200d💻\ufe0f,ªก้"
    for _ in range(500):
        text = "".join(rng.choices(alphabet, k=rng.randint(1, 12)))
        cuts = sorted(rng.choices(range(len(text) + 1), k=rng.randint(0, 8)))
        spans = list(zip([0, *cuts], [*cuts, len(text)], strict=True))
        spans = [s for span in spans for s in [span] * rng.choice([1, 1, 1, 2])]
        scores = [rng.random() for _ in spans]
        found = words_of(text, spans, scores)
        assert sorted(i for w in found for i in w.tokens) == list(range(len(spans)))
        assert sum(w.score for w in found) == pytest.approx(sum(scores), rel=1e-4)
        assert all(w.text == text[w.start : w.end] != "" for w in found)
        assert all(a.end <= b.start for a, b in pairwise(found))


def test_long_texts_take_no_time_to_speak_of():
    text = "don't " * 20_000
    spans = [m.span() for m in re.finditer(r"[a-z]+|'", text)]
    assert len(words_of(text, spans)) == 20_000


def test_a_contraction_is_one_word_of_a_result():
    a = make_attribution(("don", "'", "t", "be"), (1.0, 2.0, 3.0, 4.0), text="don't be")
    assert [(w.text, w.score) for w in a.words()] == [("don't", 6.0), ("be", 4.0)]


@pytest.fixture(scope="module")
def review():
    explainer = Explainer.from_pretrained()
    return explainer("Antidisestablishmentarianism aside, an excellent film.", method="normxlogit")


def ranks(review, merge):
    return [w.text for w in sorted(review.words(merge), key=lambda w: -w.score) if w.text.isalpha()]


def test_the_sum_of_scores_that_do_not_add_up_puts_the_longest_word_first(review):
    assert ranks(review, "sum")[0] == "Antidisestablishmentarianism"
    assert ranks(review, "max")[0] == "excellent"
    assert ranks(review, "mean")[0] == "excellent"
