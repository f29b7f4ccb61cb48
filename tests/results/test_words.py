import pytest

from normxlogit.results.units.units import word_groups
from tests.factories import make_attribution


def groups_of(text: str, spans: list[tuple[int, int]], boundary: int = 0):
    return word_groups(text, [(i, *span) for i, span in enumerate(spans)], boundary)


def words_of(text: str, spans: list[tuple[int, int]]):
    return [text[start:end] for start, end, _ in groups_of(text, spans)]


def tokens_of(text: str, spans: list[tuple[int, int]]):
    return [tokens for *_, tokens in groups_of(text, spans)]


def characters(text: str) -> list[tuple[int, int]]:
    return [(i, i + 1) for i, c in enumerate(text) if not c.isspace()]


def test_a_word_ends_where_a_completion_begins():
    text, spans = "France isBerlin now", [(0, 6), (6, 9), (9, 12), (12, 15), (15, 19)]
    assert groups_of(text, spans, 9) == [(0, 6, [0]), (7, 9, [1]), (9, 15, [2, 3]), (16, 19, [4])]
    assert words_of(text, spans) == ["France", "isBerlin", "now"]


@pytest.mark.parametrize(
    "text",
    [
        *("I don't", "I don’t", "a state-of-the-art film", "it costs $ 3.14 , or 1,000,000", "at 10:30 sharp"),
        *("the end . Really ? !", "snake_case names", "- dash - here"),
        *("नमस्ते हिन्दी", "cafe\u0301 noir", "👩\u200d💻 👍🏽 ❤\ufe0f", "1\ufe0f\u20e3 x", "שלום עולם"),
    ],
)
def test_words_are_what_stands_between_spaces_in_these(text):
    assert words_of(text, characters(text)) == text.split()


@pytest.mark.parametrize(
    ("text", "spans", "words"),
    [
        ("(bad), or\n“dull”.. a/b", None, ["(", "bad", ")", ",", "or", "“", "dull", "”", ".", ".", "a", "/", "b"]),
        ("我爱你。", None, [*"我爱你。"]),  # scripts without spaces: a word for each character, or token
        ("我喜欢 ABC猫", [(0, 1), (1, 3), (4, 7), (7, 8)], ["我", "喜欢", "ABC", "猫"]),
        ("so... bad", [(0, 2), (2, 5), (5, 9)], ["so", "...", "bad"]),  # a token of several words makes one
        ("New York is", [(0, 8), (8, 11)], ["New York", "is"]),
        ("ab cd", [(0, 0), (0, 2), (3, 3), (3, 5), (5, 5)], ["ab", "cd"]),  # no characters: with a neighbour
        ("a\n\nb", [(0, 1), (1, 3), (3, 4)], ["a", "\n\n", "b"]),  # white space that has a token
    ],
)
def test_punctuation_scripts_and_tokens_across_words(text, spans, words):
    assert words_of(text, spans or characters(text)) == words


def test_tokens_without_characters_go_with_their_neighbours():
    assert tokens_of("ab cd", [(0, 0), (0, 2), (3, 3), (3, 5), (5, 5)]) == [[0, 1], [2, 3, 4]]
    assert tokens_of("so... bad", [(0, 2), (2, 5), (5, 9)]) == [[0], [1], [2]]


def test_a_space_of_its_own_before_a_number_goes_with_the_number():
    """As tokenizers that split digits write it; at the end of a prompt it is the prompt's."""
    spans = [(0, 2), (2, 3), (3, 4), (4, 5)]
    assert groups_of("at 90", spans) == [(0, 2, [0]), (3, 5, [1, 2, 3])]
    assert groups_of("at 90", spans, 3) == [(0, 2, [0]), (2, 3, [1]), (3, 5, [2, 3])]


def test_the_way_to_merge_is_named_or_comes_first():
    a = make_attribution()
    assert a.words(merge="sum", sequence=0) == a.words("sum")
    assert a.words(merge="max") != a.words(merge="sum")
