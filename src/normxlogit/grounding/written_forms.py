"""What is written in several ways: numbers, dates, signs and abbreviations.

A text that has one form of a thing has all of its forms: "12", "twelve" and "12th"; "9 May", "2026-05-09" and
"9.5.2026"; "%" and "percent"; "3.5 million" and "3,500,000"; "5:30" and "17:30". Words for numbers are text2num's.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import regex
from text_to_num import Token, find_numbers

from ..text.same import comparable, word_key

NUMBER_PATTERN = (
    r"\d{1,4}/\d{1,2}/\d{1,4}(?!\d)|\d{1,4}-\d{1,2}-\d{1,4}(?!\d)"
    r"|\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?:[.,]\d+)?(?!\d)"
    r"|\d+(?:st|nd|rd|th)\b|\d+(?:(?:[.:h'’٫٬]|(?<![.:]\d{1,2}|\.\d{4,}),(?!(?<!\b0,)\d{4}))\d+)*"
    r"|(?<![\p{L}\p{N}.,])[.,]\d+"
)
"""A date; a number with signs between its groups of digits, such as "1,200", "9:00" or "1 200.50"; or ".5".

A comma behind decimals, or before more than three digits, tells two numbers of a table apart; "0,0001" is one.
"""

LANGUAGES = ("en", "fr", "es", "pt", "de", "it", "nl")
"""The languages whose words for numbers are read. Danish, which text2num has too, calls two "to"."""

LEAST = 2
"""The least number in words that a sentence states: "one of them" and "the first" are turns of speech."""

DECIMAL = ".,٫"
"""Signs before decimals."""

THOUSANDS = 3
"""Digits of the last group of a number whose signs stand for thousands."""

MINUTES = 2
"""Digits of hours, of minutes, and of a year without its century."""

LEAST_GROUPED = 5
"""Digits of the shortest number that may be grouped as one likes."""

MOST_GROUPS = 2
"""Groups of digits of a number with decimals; more are a date or thousands."""

MONTH_NUMBERS = {*map(str, range(1, 13))}
"""The numbers of the months."""

NOON = 12
"""The hour at which clocks with twelve hours begin again."""

OTHER_HOURS = {str(hour): str((hour + NOON) % (2 * NOON)) for hour in range(2 * NOON)}
"""Each hour, and the one that a clock of twelve hours shows alike."""

MONTHS = """
january jan
february feb
march mar
april apr
may
june jun
july jul
august aug
september sep sept
october oct
november nov
december dec
"""
"""The months in their order, a name and its abbreviations on each line. English alone, as `SAME` below."""

SCALES = {"k": 3, "m": 6, "mn": 6, "mio": 6, "bn": 9, "mrd": 9, "tn": 12}
"""Abbreviations after a number, by how many zeros they stand for."""

SAME = """
% percent percentage
€ eur euro euros
$ usd dollar dollars
£ gbp pound pounds
¥ jpy yen
monday mon
tuesday tue
wednesday wed
thursday thu
friday fri
saturday sat
sunday sun
"""
"""Signs, abbreviations and words for the same, a thing on each line."""


DIGITS = regex.compile(r"\d+")
_LAST_SIGN = regex.compile(r"\D(?=\d+\D*$)")  # before the last group of digits
_NUMBER = regex.compile(NUMBER_PATTERN)
# Its groups are what may be a month: of "2026-05-09" the second number, of "9.5.2026" either, of "5/2026" the first.
_DATE = regex.compile(r"(?<!\d)(?:\d{4}-(\d{2})(?:-\d{2})?|(\d{1,2})[./-](\d{1,2})[./-]\d{2,4}|(\d{1,2})/\d{4})(?!\d)")
_YEARS = regex.compile(r"(?<!\d)(\d\d)\d\d[-–/](\d\d)(?!\d)")  # "1998-99": the century, and the second year in it
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}]*")
_INSIDE_NUMBER = regex.compile(r"[\s\-‐‑]*")
_SCALE = regex.compile(r"[\s-]?(\p{L}+)")
_DECIMAL = regex.compile(r"\d+(\.\d+)?")
_POWER = regex.compile(r"100+")  # a hundred, a thousand and more
_DOTTED = regex.compile(r"(?:\b\p{L}\.){2,}")  # "U.S."
_BETWEEN_DIGITS = regex.compile(r"(?<=\d)[ \u00a0\u202f.()/\-‐‑–]{1,2}(?=\d)")
_SIGNS = regex.compile(r"[%\p{Sc}]")
# What two values may differ in that have the same digits, in another unit: the point, and zeros at either end.
_ZEROS = regex.compile(r"^[0.]+|\.|(?<=^[1-9]\d*)0+$")
OTHER_NUMERAL = regex.compile(r"(?<![\d/])\d/\d(?![\d/])|[\p{nt=Numeric}\p{nt=Digit}]|\b[IVX]{2,}(?!\p{Lu})")
"""A number that is not written in digits and signs: a fraction, "½", "Ⅻ" and "三", or "XXI"."""
# Abbreviations such as "kg" and "km", without a vowel, and "µ" as Unicode has it twice.
_CONSONANTS = regex.compile(r"[b-df-hj-np-tv-zµμ]{1,3}", regex.IGNORECASE)
_ACCENTS = regex.compile(r"(?<=[\p{Latin}\p{Greek}\p{Cyrillic}]\p{M}*)[\u0300-\u036f]")


@lru_cache(maxsize=2**16)
def folded(word: str) -> str:
    """Return a word in the form in which words are compared; accents of Latin, Greek and Cyrillic do not count."""
    letters = unicodedata.normalize("NFD", comparable(word).text)
    return unicodedata.normalize("NFC", _ACCENTS.sub("", letters)).replace("œ", "oe")


class WrittenNumber(NamedTuple):
    """A number in a text, in digits or in words.

    Attributes:
        start: Its first character.
        end: One past its last character, that of a word such as "million" behind digits.
        values: What it may be, see `number_values`.
        kind: "numeral" if it is written in words alone.
    """

    start: int
    end: int
    values: frozenset[str]
    kind: Literal["number", "numeral"]


@lru_cache(maxsize=2**12)
def numbers_in(text: str, least: int = 0) -> list[WrittenNumber]:
    """Return the numbers in a text; of overlapping ones the first and longest.

    Args:
        text: A text.
        least: The least number in words that is returned where it stands alone.
    """
    numbers = list[WrittenNumber]()
    for number in sorted([*_in_digits(text), *_in_words(text, least)], key=lambda number: (number.start, -number.end)):
        if not numbers or number.start >= numbers[-1].end:
            numbers.append(number)
    return numbers


def _in_digits(text: str) -> Iterator[WrittenNumber]:
    """Yield the numbers in digits; "3.5 million" is 3,500,000 or, in a table of millions, 3.5."""
    for match in _NUMBER.finditer(text):
        values, end = number_values(match.group()), match.end()
        # Of its values only plain decimals are scaled, and not "9:00".
        scale = _SCALE.match(text, end)
        if scale is not None and (zeros := _zeros(scale[1])):
            values |= {f"{Decimal(value).scaleb(zeros).normalize():f}" for value in values if _DECIMAL.fullmatch(value)}
            end = scale.end()
        yield WrittenNumber(match.start(), end, frozenset(values), "number")


def _zeros(word: str) -> int:
    """Return the zeros of a word or an abbreviation for a hundred, a thousand or more; 0 of another word."""
    # "million" is the number 1000000 in words: the longest power of ten that it is in some language.
    powers = (value for number in _in_words(word) for value in number.values if _POWER.fullmatch(value))
    return SCALES.get(word.lower()) or max((len(power) - 1 for power in powers), default=0)


class _Word(Token):  # type: ignore[misc]
    """A word as text2num reads it."""

    def __init__(self, match: "regex.Match[str]") -> None:
        self.match = match

    def text(self) -> str:
        return self.match.group()

    def nt_separated(self, previous: Any) -> bool:
        """Return whether something stands between two words that does not stand inside a number."""
        return not _INSIDE_NUMBER.fullmatch(self.match.string, previous.match.end(), self.match.start())


def _in_words(text: str, least: int = 0) -> Iterator[WrittenNumber]:
    """Yield the numbers that a text has in words, in any of `LANGUAGES`."""
    words = [_Word(match) for match in _WORD.finditer(text)]
    for language in LANGUAGES:
        for number in find_numbers(words, language, least):
            # The places that text2num returns count words.
            start, end = words[number.start].match.start(), words[number.end - 1].match.end()
            yield WrittenNumber(start, end, frozenset(number_values(number.text)), "numeral")


def forms_in(text: str) -> set[str]:
    """Return further forms of what a text has: values of its numbers, months of its dates, signs as words.

    Args:
        text: A text, as it is written.
    """
    forms = {value for number in numbers_in(text) for value in number.values}
    forms |= {value for number in _NUMBER.findall(text) for value in _values_of_parts(number)}
    forms |= {century + year for century, year in _YEARS.findall(text)} | set(_months_in(text))
    forms |= {folded(letters.replace(".", "")) for letters in _DOTTED.findall(text)}
    return forms | set(_SIGNS.findall(text))


def with_same(forms: set[str]) -> set[str]:
    """Return forms with those that stand for the same.

    Args:
        forms: Words and values, in the form in which they are compared.
    """
    return forms.union(*(_same_forms()[form] for form in forms & _same_forms().keys()))


@lru_cache(maxsize=1)
def _same_forms() -> dict[str, set[str]]:
    """Return for each form all that stand for the same: for "monday" also "mon"."""
    lines: list[set[str]] = [set(line.split()) for line in (SAME + MONTHS).splitlines()]
    return {form: forms for forms in lines for form in forms}


def has_number(forms: set[str], written: str) -> bool:
    """Return whether a text has a number as its value, or a date in its parts.

    The month of a date may be missing there: texts have it in words of any language.

    Args:
        forms: The forms of the text, see `forms_in`.
        written: The number.
    """
    return any(number.values & forms for number in numbers_in(written)) or _has_date(forms, written)


def _has_date(forms: set[str], written: str) -> bool:
    """Return whether a text has the parts of a date, of which a month may be missing; False of another number."""
    groups = [word_key(digits) for digits in DIGITS.findall(written)]  # day, month and year in any order
    missing = [group for group in groups if not _values_in_date(group) & forms]
    return _is_date(written) and (not missing or (len(missing) == 1 and _without_zeros(missing[0]) in MONTH_NUMBERS))


def _is_date(written: str) -> bool:
    """Return whether a number may be a date; with dots it has a year of four digits or three pairs, unlike 3.11.2."""
    lengths = [len(digits) for digits in DIGITS.findall(written)]
    has_year = 2 * MINUTES in lengths or set(lengths) == {MINUTES} or "." not in written
    return len(lengths) > MOST_GROUPS and has_year and THOUSANDS not in lengths[1:]


def _values_in_date(digits: str) -> set[str]:
    """Return what a group of digits of a date may be: "26" also 1926 and 2026."""
    centuries = ("19", "20") if len(digits) == MINUTES else ()
    return {_without_zeros(digits), *(century + digits for century in centuries)}


def may_have_number(text: str, forms: set[str], written: str) -> bool:
    """Return whether a text may have a number in another form.

    It may be in another unit (4 g is 4000 mg), on a clock of twelve hours, or where the text has numerals that are not
    digits; a long one may be grouped.

    Args:
        text: The text.
        forms: The forms of the text, see `forms_in`.
        written: The number.
    """
    values = {value for number in numbers_in(written) for value in number.values}
    hours = {OTHER_HOURS[value] for value in values & OTHER_HOURS.keys()}
    digits = {_ZEROS.sub("", value) for value in values} & {_ZEROS.sub("", form) for form in forms}
    # As those of an account or a telephone number, which are grouped as one likes; few are in a row by chance.
    digits_alone = "".join(DIGITS.findall(written))
    is_grouped = len(digits_alone) >= LEAST_GROUPED and digits_alone in _BETWEEN_DIGITS.sub("", text)
    # Without its zeros 0 has no digits, and says nothing.
    is_other = bool(hours & forms or digits - {""} or OTHER_NUMERAL.search(text))
    if is_grouped or is_other or has_number(forms, written):
        return True
    # In a table without spaces a comma is between two numbers.
    return "," in text and has_number(forms | forms_in(text.replace(",", " , ")), written)


def is_unit(word: str) -> bool:
    """Return whether a word may be a unit behind a number: one that is an abbreviation, or not short and not a name."""
    return bool(_CONSONANTS.fullmatch(word)) or (len(word) >= THOUSANDS and not word[0].isupper())


def number_values(written: str) -> set[str]:
    """Return the values that a number may have as it is written.

    "1,200" is 1200 or 1.2, "1,000" is 1000, "4.90" is 4.9 or the time 4:90, "9:00" is 9, 9:00 or 21:00. Any number
    is what is written, such as the score "3:1".

    Args:
        written: One or more groups of digits with a sign between each two; other signs before and behind.
    """
    # ".5" has a 0 before its sign.
    groups = ["0"] * (written[0] in ".,") + [word_key(digits) for digits in DIGITS.findall(written)]
    *others, last = groups
    if not others:
        return {_without_zeros(last)}
    sign = _LAST_SIGN.findall(written)[-1]
    values = {word_key(written), *_values_of_time(groups, sign)}
    is_grouped = all(len(group) in (2, THOUSANDS) for group in others[1:])
    if is_grouped and len(last) == THOUSANDS:
        values.add(_without_zeros("".join(groups)))
    # Nobody writes three zeros behind a decimal comma: "1,000" is no 1.
    if is_grouped and sign in DECIMAL and (sign, last) != (",", "000"):
        values.add(f"{_without_zeros(''.join(others))}.{last}".rstrip("0").rstrip("."))
    return values


def _values_of_time(groups: Sequence[str], sign: str) -> set[str]:
    """Return the values of a time by groups of digits; with ":" or "h" also those of a clock of twelve hours.

    A full hour is also the hour alone: "17:00" is 17, and 5 as in "5 p.m.", but "9:00" is 9 and not the number 21.
    """
    is_clock, minutes = sign in ":h", groups[1]  # with a dot, "9.30", it may as well be another number
    if len(minutes) != MINUTES or len(groups[0]) > MINUTES or not (is_clock or len(groups) == 2):
        return set()
    hour = int(groups[0])
    if not is_clock:
        return {f"{hour}:{minutes}"}
    other_hour = (hour + NOON) % (2 * NOON)
    # With minutes other than "00" it is no full hour; on a clock of twelve hours, the earlier one.
    full_hours = set() if minutes.strip("0") else {str(hour), str(min(hour, other_hour))}
    return {f"{hour}:{minutes}", f"{other_hour}:{minutes}"} | full_hours


def _values_of_parts(written: str) -> set[str]:
    """Return the values of each group of digits of a date, a time, or a number with spaces; nothing of others."""
    has_parts = _is_date(written) or any(not sign.isdecimal() and sign not in DECIMAL for sign in written)
    return set().union(*map(number_values, DIGITS.findall(written))) if has_parts else set()


def _months_in(text: str) -> Iterator[str]:
    """Yield the names of the months of dates in digits."""
    lines = MONTHS.strip().splitlines()
    for date in _DATE.findall(text):
        # The groups of the pattern that matched; of "9.5.2026" both are there, as either may be the month.
        numbers = {int(number) for number in date if number}
        yield from (name for month, names in enumerate(lines, start=1) if month in numbers for name in names.split())


def _without_zeros(digits: str) -> str:
    return digits.lstrip("0") or "0"
