"""Values of sentences in many spellings, languages and scripts."""

import pytest

from normxlogit.inputs.documents.values import is_same, names_in, occurs_in, other_values, spellings, values_in
from tests import tiny


def texts(kind: str, text: str) -> list[str]:
    return [value.text for value in values_in(text) if value.kind == kind]


def first(kind: str, text: str):
    return next(value for value in values_in(text) if value.kind == kind)


@pytest.mark.parametrize(
    ("spelt", "key"),
    [
        ("1000", "1000"),
        ("1,000", "1000"),
        ("1.000", "1000"),
        ("1,000.50", "1000.50"),
        ("1.000,5", "1000.5"),
        ("12,345,678", "12345678"),
        ("3.5", "3.5"),
        ("3,50", "3.50"),
        ("30.00", "30"),
        ("30,0", "30"),
        ("0.125", "0.125"),
        ("1234.567", "1234.567"),
        ("3.10", "3.10"),
        ("1.2.3", "1.2.3"),
        ("9.05.2024", "9.05.2024"),
        ("0.25", "0.25"),
        ("007", "7"),
        ("0", "0"),
        ("09:05", "9:5"),
        ("9:05", "9:5"),
        ("2024-05-09", "2024-5-9"),
        ("05/09/24", "5/9/24"),
        ("٣٠", "30"),
        ("3０", "30"),
        ("Thirty", "30"),
        ("twenty-one", "21"),
        ("twenty one", "21"),
        ("hundred", "100"),
        ("einundzwanzig", "21"),
        ("neunundneunzig", "99"),
        ("vingt et un", "21"),
        ("vingt-et-un", "21"),
        ("soixante et onze", "71"),
        ("quatre-vingt-dix-sept", "97"),
        ("quatre-vingts", "80"),
        ("veintidós", "22"),
        ("treinta y dos", "32"),
        ("ventotto", "28"),
        ("trentatré", "33"),
    ],
)
def test_a_number_is_one_value_however_it_is_written(spelt, key):
    value = first("number", f"it took {spelt}")
    assert (value.text, value.key) == (spelt, key)


@pytest.mark.parametrize("word", ["one", "un", "eine", "payment is due", "it was once", "an elf", "Otto", "a cent"])
def test_words_that_are_more_often_other_words_are_no_numbers(word):
    assert texts("number", word) == []


def test_an_iso_date_is_one_value_and_a_range_is_two():
    assert texts("number", "from 2024-05-09 to 2024-06-10, 10-12 people") == ["2024-05-09", "2024-06-10", "10", "12"]


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("5 days, 3 km/h and 10% of 7-year plans", ["days", "km", "%", "year"]),
        ("9 a.m. to 5 p.m.", ["a.m", "p.m"]),
        ("9 am to 5 pm", ["am", "pm"]),
        ("between 5 and 7 to 8 bis 9 et 10 y 11 e 12", []),
        ("on May 9th, the 1st", []),
        ("30天内可以退款。运费为5km", ["km"]),
        ("返金は30日以内に可能です", []),
        ("ภายใน30วัน", []),
    ],
)
def test_units_are_words_after_numbers_of_scripts_with_spaces_that_are_more_than_a_link(text, units):
    assert texts("unit", text) == units


@pytest.mark.parametrize(
    "text",
    [
        "- The pool",
        "1. The pool",
        "b) The pool",
        "## The pool",
        "> The pool",
        "**The** pool",
        "| The pool |",
        "¿Dónde está? ¡La piscina!",
        "Il dit : « Le musée »",
        "wer sagt: „Die da“",
        "title\nThe pool",
        "end。The pool",
        "so… The pool",
        "so (it was.) The pool",
        "it was. - The pool",
        "he said 'The pool'",
    ],
)
def test_what_begins_a_sentence_a_line_or_a_quotation_is_no_name_for_its_capital(text):
    said = text.removeprefix("Il dit")
    assert texts("name", said) == []
    assert not {"The", "Dónde", "La", "Le", "Die"} & names_in(said, tiny.letters())


def test_a_name_is_found_between_characters_that_need_no_spaces():
    assert texts("name", "由Anna Berg建造") == ["Anna Berg"]
    assert occurs_in("Anna Berg", "由Anna Berg建造")
    assert occurs_in("30", "在30天内")
    assert not occurs_in("30", "在130天内")
    assert not occurs_in("30", "30.5 km")
    assert not occurs_in("day", "days")
    assert occurs_in("days", "5days")


@pytest.mark.parametrize(
    ("one", "another", "same"),
    [
        ("by Anna Berg", "by Berg", True),
        ("by Anna Berg", "by Anna", True),
        ("by Anna Berg's", "by Berg", True),
        ("the United Kingdom", "the UK", True),
        ("by Anna Berg", "by Anna Holm", False),
        ("by Anna Berg", "by Bergmann", False),
        ("the United Kingdom", "the US", False),
        ("by Brown", "by B", False),
    ],
)
def test_a_name_is_the_same_as_a_part_of_it_and_as_its_initials(one, another, same):
    assert is_same(first("name", one), first("name", another)) == same
    assert is_same(first("name", another), first("name", one)) == same


def test_another_spelling_of_a_value_is_a_spelling_of_it_and_no_other_value():
    documents = "It costs 1,000 euros or 2,500. It takes 30 days or five. It was built by Anna Berg, by Jonas Holm."
    values = values_in(documents)
    for sentence, kind, spelt, others in (
        ("It costs 1000 euros.", "number", ["1000", "1,000"], ["2,500", "30", "five"]),
        ("It takes thirty days.", "number", ["thirty", "30"], ["1,000", "2,500", "five"]),
        ("It takes 5 days.", "number", ["5", "five"], ["1,000", "2,500", "30"]),
        ("It is of Berg.", "name", ["Berg", "Anna Berg"], ["Jonas Holm"]),
    ):
        value = first(kind, sentence)
        assert spellings(value, values) == spelt
        assert [other.text for other in other_values(value, values, sentence)] == others


def test_of_a_number_in_digits_and_in_words_the_one_is_tested_that_is_written_like_the_value():
    values = values_in("It takes ten days or 10 days, or 90 or ninety days.")
    for sentence, others in (("It takes 60 days.", ["10", "90"]), ("It takes sixty days.", ["ten", "ninety"])):
        value = first("number", sentence)
        assert [other.text for other in other_values(value, values, sentence)] == others
