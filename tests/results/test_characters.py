from normxlogit.results.units.characters import direction, quoted, visible


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
