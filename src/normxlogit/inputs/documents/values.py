"""Values in a text: numbers, names, units, number words and words with an opposite.

Numbers, names and units are told by digits, capitals and what follows a number, in any language that writes them so.
Where every sentence begins with a capital, the vocabulary of a tokenizer tells a name: a common word is in it with a
small letter, too, and before the same word with a capital. Number words and opposites are English.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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
        named: Words that are known to be names, see `names_of`: at the beginning of a sentence others are none.
    """
    values = [Value("number", m.group(), *m.span()) for m in _NUMBER.finditer(text)]
    values += [Value("unit", m.group(1), *m.span(1)) for m in _UNIT.finditer(text)]
    values += list(_names(text, named))
    for match in _WORD.finditer(text):
        word = match.group().lower()
        kinds: list[ValueKind] = ["number word"] if word in NUMBER_WORDS else ["opposite"] if word in OPPOSITES else []
        values += [Value(kind, match.group(), *match.span()) for kind in kinds]
    return sorted(values, key=lambda value: (value.start, value.end))


def names_of(text: str, token_ids: Callable[[str], Sequence[int]]) -> frozenset[str]:
    """Return the words of a text that are names.

    Words with a capital inside a sentence are; those that begin one where the vocabulary of a tokenizer says so.

    Args:
        text: A text of several sentences.
        token_ids: Returns the tokens of a text, without special ones.
    """
    words: set[str] = set()
    first: set[str] = set()  # of sentences
    begins = True
    for match in _TOKEN.finditer(text):
        word = match.group()
        if word[0].isupper():
            (first if begins else words).add(word)
        begins = word[-1] in _ENDS or "\n" in text[match.end() : match.end() + 1]
    return frozenset(words | {word for word in first - words if _is_name(word, token_ids)})


def _is_name(word: str, token_ids: Callable[[str], Sequence[int]]) -> bool:
    """Return whether the vocabulary of a tokenizer has a word as a name, by how it reads it inside a sentence.

    Tokenizers learn frequent strings first: of a common word the form with a small letter is one token, and comes
    before the one with a capital. Rare words, in several tokens either way, count as names; letter by letter, none do.
    """
    before = list(token_ids("a"))
    capital, small = (list(token_ids(f"a {form}")) for form in (word, word[0].lower() + word[1:]))
    if capital == small or capital[: len(before)] != before or small[: len(before)] != before:
        return False
    capital, small = capital[len(before) :], small[len(before) :]
    if len(capital) == len(small) == 1:
        return capital[0] < small[0]
    return len(small) > len(capital) or 1 < len(small) < len(word)


def candidates(value: Value, values: Iterable[Value], sentence: str) -> list[str]:
    """Return the other values that could stand in a value's place, each once, in their order.

    Args:
        value: A value of a sentence.
        values: The values of the documents.
        sentence: The sentence: what stands elsewhere in it is left out.
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
    return [text for text in texts.values() if not (_stands_in(text, sentence) or _is_form(text.lower(), word))]


def _is_form(text: str, word: str) -> bool:
    """Return whether one word begins as the other, as "days" and "day" do; numbers are different."""
    return not word[0].isdigit() and (text.startswith(word) or word.startswith(text))


def _stands_in(text: str, sentence: str) -> bool:
    """Return whether a value stands in a sentence, not as a piece of a longer word or number."""
    whole = rf"(?<!\w)(?<!\d[.,:/]){re.escape(text)}(?!\w|[.,:/]\d)"
    return re.search(whole, sentence, re.IGNORECASE) is not None


def _names(text: str, named: frozenset[str]) -> Iterator[Value]:
    """Yield words that begin with a capital, those that follow each other as one name."""
    spans: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        word, (start, end) = match.group(), match.span()
        before = text[:start].rstrip()
        begins = not before or before[-1] in _ENDS
        if not word[0].isupper() or word == "I" or (begins and word not in named):
            continue
        if spans and text[spans[-1][1] : start] in _JOINTS:
            start = spans.pop()[0]
        spans.append((start, end))
    for start, end in spans:
        yield Value("name", text[start:end], start, end)


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
