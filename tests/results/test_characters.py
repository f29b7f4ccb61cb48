import pytest

from normxlogit.results.units.characters import direction, quoted, visible


@pytest.mark.parametrize(
    ("shown", "texts", "expected"),
    [
        (visible, [" a ", " ", "\n\t", ""], ["a", "␣", "↵⇥", "∅"]),
        (quoted, [".", '"', "...", "$", "a.", "☕", "↵", "[CLS]", ""],
         ['"."', "'\"'", '"..."', '"$"', "a.", "☕", "↵", "[CLS]", ""]),
        (direction, ['"42 שלום', "abc שלום", "مرحبا abc", "123 ?", ""], ["rtl", "ltr", "rtl", "auto", "auto"]),
    ],
)  # fmt: skip
def test_characters_are_made_visible_quoted_and_give_the_direction(shown, texts, expected):
    assert [shown(text) for text in texts] == expected
