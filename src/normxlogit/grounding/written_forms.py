"""What is written in several ways: numbers, dates, signs and abbreviations.

A text that has one form of a thing has all of its forms: "12", "twelve" and "12th"; "5 March", "Mar 5",
"5.3.2024" and "2024-03-05"; "%" and "percent"; "3.5 million" and "3,500,000".
"""

import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from itertools import chain

import regex

from ..text.same import comparable

NUMBER_PATTERN = (
    r"\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,:'’٫٬]\d+)*|(?<![\p{L}\p{N}.,])[.,]\d+"
)
"""A number with signs between its groups of digits, such as "1,200", "9:00" or "1 200.50"; or ".5"."""

THOUSANDS = 3
"""Digits of a group that a sign for thousands begins."""

MINUTES = 2
"""Digits of minutes."""

MOST_GROUPS = 2
"""Groups of digits of a number with decimals; more are a date or thousands."""

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

SCALES = {3: ("thousand", "k"), 6: ("million", "mn", "m"), 9: ("billion", "bn"), 12: ("trillion", "tn")}
"""Words after a number, by how many zeros they stand for."""

SAME = """
1 one first
2 two second
3 three third
4 four fourth
5 five fifth
6 six sixth
7 seven seventh
8 eight eighth
9 nine ninth
10 ten tenth
11 eleven eleventh
12 twelve twelfth
13 thirteen thirteenth
14 fourteen fourteenth
15 fifteen fifteenth
16 sixteen sixteenth
17 seventeen seventeenth
18 eighteen eighteenth
19 nineteen nineteenth
20 twenty twentieth
30 thirty thirtieth
40 forty fortieth
50 fifty fiftieth
60 sixty sixtieth
70 seventy seventieth
80 eighty eightieth
90 ninety ninetieth
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
"""Numbers, signs, abbreviations and words for the same, a thing on each line.

English words alone: words for numbers in one language are ordinary in others ("on" is ten in Turkish, "to" two in
Danish), so that a list of many languages would find numbers that do not stand there. What it costs to have none is in
docs/grounding-measured.md: no verdict there, but a person who reads "twelve" would not say that "12" is missing.
"""


@lru_cache(maxsize=2**16)
def folded(word: str) -> str:
    """Return a word in the form in which words are compared; accents of Latin, Greek and Cyrillic do not count."""
    letters = unicodedata.normalize("NFD", comparable(word).text)
    return unicodedata.normalize("NFC", _ACCENTS.sub("", letters))


def forms_in(text: str) -> set[str]:
    """Return further forms of what a text has: values of its numbers, months of its dates, signs as words.

    Args:
        text: A text, as it is written.
    """
    forms = {value for number in _NUMBER.findall(text) for value in _values_in(number)}
    forms |= set(_of_dates(text)) | set(_of_words_for_numbers(text)) | set(_scaled(text))
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
    """Return for each form all that stand for the same: for "12" also "twelve" and "twelfth"."""
    lines: list[set[str]] = [set(line.split()) for line in (SAME + MONTHS).splitlines()]
    return {form: forms for forms in lines for form in forms}


def number_values(written: str) -> set[str]:
    """Return the values that a number may have as it is written.

    "1,200" is 1200 or 1.2, "4.90" is 4.9 or the time 4:90, and "9:00" is 9:00 or 9.

    Args:
        written: One or more groups of digits with a sign between each two.
    """
    groups = ["0"] * (written[0] in ".,") + [_plain_digits(digits) for digits in DIGITS.findall(written)]
    last = groups[-1]
    if len(groups) == 1:
        return {_without_zeros(last)}
    values, whole = set[str](), _without_zeros("".join(groups[:-1]))
    if all(len(group) == THOUSANDS for group in groups[1:]):
        values.add(_without_zeros("".join(groups)))
    if ":" not in written:
        values.add(f"{whole}.{last}".rstrip("0").rstrip("."))
    if len(groups[1]) == MINUTES and (len(groups) == 2 or ":" in written):
        values.add(f"{_without_zeros(groups[0])}:{groups[1]}")
    if not last.strip("0"):
        values.add(whole)
    return values


def parts_of_date(written: str) -> list[set[str]]:
    """Return the values of each group of digits of a date such as "5.3.2024"; nothing of another number.

    Args:
        written: A number as it is written.
    """
    groups = DIGITS.findall(written)
    is_date = len(groups) > MOST_GROUPS and any(len(group) != THOUSANDS for group in groups[1:])
    return list(map(number_values, groups)) if is_date else []


def _values_in(written: str) -> set[str]:
    """Return the values of a number in a source; dates, times and groups with spaces have those of their parts, too."""
    groups = DIGITS.findall(written)
    has_parts = len(groups) > MOST_GROUPS or any(sign == ":" or sign.isspace() for sign in written)
    parts = groups if has_parts else ()
    return number_values(written).union(*map(number_values, parts))


def _of_dates(text: str) -> Iterator[str]:
    """Yield the names of the months of dates in digits, and the numbers of months that stand beside a day or year."""
    months = _months()
    for date in _DATE.findall(text):
        numbers = {int(number) for number in date if number}
        yield from (name for name, number in months.items() if int(number) in numbers)
    yield from (months[word] for word in map(folded, _BESIDE_NUMBER.findall(text)) if word in months)


@lru_cache(maxsize=1)
def _months() -> dict[str, str]:
    """Return the numbers of the months by their names and abbreviations."""
    lines = enumerate(MONTHS.strip().splitlines(), start=1)
    return {name: str(number) for number, line in lines for name in line.split()}


def _of_words_for_numbers(text: str) -> Iterator[str]:
    """Yield the values of "twenty-one" to "ninety-nine"."""
    for words in _TENS_AND_ONES.findall(text):
        numbers = [form for word in words for form in _same_forms()[word.lower()] if form.isdecimal()]
        yield str(sum(map(int, numbers)))


def _scaled(text: str) -> Iterator[str]:
    """Yield the values of "3.5 million" and of "3,500,000" in each other's form."""
    for number, word in _SCALED.findall(text):
        zeros = next(zeros for zeros, words in SCALES.items() if word.lower() in words)
        yield from (_times(value, zeros) for value in number_values(number) if ":" not in value)
        yield from SCALES[zeros]
    for number in _NUMBER.findall(text):
        for value in filter(str.isdecimal, number_values(number)):
            zeros = (len(value) - 1) // THOUSANDS * THOUSANDS
            if zeros in SCALES and _SHORT.fullmatch(shortened := _times(value, -zeros)):
                yield from (shortened, *SCALES[zeros])


def _times(value: str, zeros: int) -> str:
    """Return a value with so many more zeros."""
    return f"{Decimal(value).scaleb(zeros).normalize():f}"


def _plain_digits(digits: str) -> str:
    """Return digits of any script as those of ASCII."""
    return "".join(str(unicodedata.decimal(digit)) for digit in digits)


def _without_zeros(digits: str) -> str:
    return digits.lstrip("0") or "0"


DIGITS = regex.compile(r"\d+")
_NUMBER = regex.compile(NUMBER_PATTERN)
_DATE = regex.compile(r"(?<!\d)(?:\d{4}-(\d{2})-\d{2}|(\d{1,2})[./-](\d{1,2})[./-]\d{2,4}|(\d{1,2})/\d{4})(?!\d)")
_BESIDE_NUMBER = regex.compile(r"(?<=\d(?:st|nd|rd|th)?\.?(?: of)? )\p{L}+|\p{L}+(?=\.?,? \d)")
_TENS_AND_ONES = regex.compile(
    r"\b(twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)[- ](one|two|three|four|five|six|seven|eight|nine)\b",
    regex.IGNORECASE,
)
_SCALED = regex.compile(rf"({NUMBER_PATTERN})\s?({'|'.join(chain(*SCALES.values()))})\b", regex.IGNORECASE)
_SHORT = regex.compile(r"[1-9]\d{0,2}(\.\d{1,2})?")
_DOTTED = regex.compile(r"(?:\b\p{L}\.){2,}")
_SIGNS = regex.compile(r"[%€$£¥]")
_ACCENTS = regex.compile(r"(?<=[\p{Latin}\p{Greek}\p{Cyrillic}]\p{M}*)[\u0300-\u036f]")
