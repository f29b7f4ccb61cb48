"""Values in a text: numbers, names, units, number words and words with an opposite.

Numbers, names and units are told by digits, capitals and what follows a number, in any language that writes them so.
Number words and opposites are English.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

ValueKind = Literal["number", "name", "unit", "number word", "opposite"]
"""What a value is: only values of one kind take each other's place."""


class Value(NamedTuple):
    """A value in a text.

    Attributes:
        start: Its first character.
        end: One past its last.
    """

    kind: ValueKind
    text: str
    start: int
    end: int


def values_in(text: str, named: frozenset[str] = frozenset()) -> list[Value]:
    """Return the values of a text in their order.

    Args:
        text: A sentence.
        named: Words that are known to be names, see `names_inside`: at the beginning of a sentence others are none,
            unless another capital follows.
    """
    values = [Value("number", m.group(), *m.span()) for m in _NUMBER.finditer(text)]
    values += [Value("unit", m.group(1), *m.span(1)) for m in _UNIT.finditer(text)]
    values += list(_names(text, named))
    for match in _WORD.finditer(text):
        word = match.group().lower()
        kinds: list[ValueKind] = ["number word"] if word in NUMBER_WORDS else ["opposite"] if word in OPPOSITES else []
        values += [Value(kind, match.group(), *match.span()) for kind in kinds]
    return sorted(values, key=lambda value: (value.start, value.end))


def names_inside(text: str) -> frozenset[str]:
    """Return the words that begin with a capital inside a sentence of a text."""
    words, begins = set(), True
    for match in _TOKEN.finditer(text):
        word = match.group()
        if word[0].isupper() and not begins:
            words.add(word)
        begins = word[-1] in _ENDS or "\n" in text[match.end() : match.end() + 1]
    return frozenset(words)


def candidates(value: Value, values: Iterable[Value]) -> list[str]:
    """Return the other values that could stand in a value's place, each once, in their order.

    Args:
        value: A value of a sentence.
        values: The values of the documents.
    """
    word = value.text.lower()
    opposite = OPPOSITES.get(word)
    texts: dict[str, str] = {}
    for other in values:
        if other.kind != value.kind or other.text.lower() == word:
            continue
        if value.kind == "opposite" and other.text.lower() != opposite:
            continue
        texts.setdefault(other.text.lower(), other.text)
    return list(texts.values())


def _names(text: str, named: frozenset[str]) -> Iterator[Value]:
    """Yield words that begin with a capital, those that follow each other as one name."""
    spans: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        if not match.group()[0].isupper() or match.group() == "I":
            continue
        start, end = match.span()
        if spans and text[spans[-1][1] : start] in _JOINTS:
            start = spans.pop()[0]
        spans.append((start, end))
    for start, end in spans:
        name, before = text[start:end], text[:start].rstrip()
        begins = not before or before[-1] in _ENDS
        if not begins or name in named or not _WORD.fullmatch(name):
            yield Value("name", name, start, end)


_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_UNIT = re.compile(r"\d[\s\N{NO-BREAK SPACE}-]?([^\W\d_]+|[%°€$£])")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_JOINTS = (" ", "-", "\N{NO-BREAK SPACE}")
_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|[.!?:\"“(]|\d+")
_ENDS = '.!?:"“('

_NUMBER_WORDS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion once twice half "
    "second third fourth fifth sixth seventh eighth ninth tenth"
)
NUMBER_WORDS = frozenset(_NUMBER_WORDS.split())

_PAIRS = (
    "before after, open closed, opens closes, opened closed, more less, most least, first last, always never, "
    "with without, above below, left right, increase decrease, increased decreased, rise fall, rose fell, "
    "allowed forbidden, free paid, high low, higher lower, large small, larger smaller, long short, longer shorter, "
    "old new, older newer, older younger, early late, earlier later, north south, east west, northern southern, "
    "eastern western, up down, inside outside, indoor outdoor, public private, hot cold, warm cold, dry wet, "
    "daily weekly, weekly monthly, monthly yearly, annual monthly, maximum minimum, male female, men women, "
    "day night, morning evening, summer winter, black white, odd even, positive negative, mandatory optional, "
    "required optional, won lost, win lose, bought sold, buy sell, safe dangerous, cheap expensive, same different, "
    "all none, all some, include exclude, includes excludes, included excluded, accept reject, accepted rejected"
)
OPPOSITES: dict[str, str] = {}
for _word, _opposite in (pair.split() for pair in _PAIRS.split(", ")):
    OPPOSITES.setdefault(_word, _opposite)
    OPPOSITES.setdefault(_opposite, _word)
