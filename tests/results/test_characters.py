import pytest

from normxlogit.results.units.characters import direction, one_line, quoted, safe, safe_output, visible

HIDDEN = "\x1b\x07\x00\r\x7f\x85\x9b\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ud800"


@pytest.mark.parametrize("character", HIDDEN)
def test_no_control_character_passes(character):
    for clean in (safe, one_line, safe_output):
        assert clean(f"a{character}b") != f"a{character}b"
        assert character not in clean(f"a{character}b")


def test_other_characters_stay():
    text = "Früh ☕\n\tשלום 👩\u200d💻 हिन्दी"
    assert safe(text) == text


def test_output_keeps_colours_only():
    assert safe_output("\x1b[1;31mred\x1b[0m") == "\x1b[1;31mred\x1b[0m"
    for sequence in ("\x1b]0;title\x07", "\x1b[2J", "\x1b[31", "\x1bc"):
        assert "\x1b" not in safe_output(sequence)


def test_white_space_is_made_visible():
    assert [visible(t) for t in (" a ", " ", "\n\t", "")] == ["a", "␣", "↵⇥", "∅"]


def test_punctuation_is_quoted():
    names = (".", '"', "...", "$", "a.", "☕", "↵", "[CLS]", "")
    assert [quoted(t) for t in names] == ['"."', "'\"'", '"..."', '"$"', "a.", "☕", "↵", "[CLS]", ""]


def test_direction_comes_from_the_first_letter():
    assert [direction(t) for t in ('"42 שלום', "abc שלום", "مرحبا abc", "123 ?", "")] == [
        "rtl",
        "ltr",
        "rtl",
        "auto",
        "auto",
    ]
