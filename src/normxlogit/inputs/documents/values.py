"""Values in a text: numbers, names, units, number words and words with an opposite.

Numbers, names and units are told by digits, capitals and what follows a number, in any language that writes them so.
Where every sentence begins with a capital, the vocabulary of a tokenizer tells a name: a common word is in it with a
small letter, too, and before the same word with a capital. Cardinal numbers are read in words in the languages of
`number_words.py`; other number words and opposites are English.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from transformers import PreTrainedTokenizerBase

from .number_words import NUMBERS

ValueKind = Literal["number", "name", "unit", "number word", "opposite"]
"""The kind of a value; a value is only replaced by others of its kind."""


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

    @property
    def key(self) -> str:
        """The value without its spelling: "1,000" is 1000, "09:00" is 9:00, and "thirty" is 30."""
        if self.kind != "number":
            return self.text.lower()
        number = NUMBERS.get(self.text.lower().replace(" ", "-"))
        return _plain_number(self.text) if number is None else str(number)


def values_in(text: str, known_names: frozenset[str] = frozenset()) -> list[Value]:
    """Return the values of a text in their order.

    Args:
        text: A sentence.
        known_names: Words that are known to be names, see `names_in`: at the beginning of a sentence others are none.
    """
    values = [Value("number", match.group(), *match.span()) for match in _NUMBER.finditer(text)]
    values += [Value("number", match.group(), *match.span()) for match in _NUMBER_IN_WORDS.finditer(text)]
    values += [
        Value("unit", match.group(1), *match.span(1))
        for match in _UNIT.finditer(text)
        if match.group(1).lower() not in _NO_UNITS
    ]
    values += list(_names(text, known_names))
    for match in _WORD.finditer(text):
        word = match.group().lower()
        kinds: list[ValueKind] = ["number word"] if word in NUMBER_WORDS else ["opposite"] if word in OPPOSITES else []
        values += [Value(kind, match.group(), *match.span()) for kind in kinds]
    return sorted(values, key=lambda value: (value.start, value.end))


def names_in(text: str, tokenizer: PreTrainedTokenizerBase) -> frozenset[str]:
    """Return the words of a text that are names.

    Words with a capital inside a sentence are; those that begin one where the vocabulary of a tokenizer says so.

    Args:
        text: A text of several sentences.
        tokenizer: The tokenizer, a private one.
    """
    inside_sentences: set[str] = set()
    sentence_starts: set[str] = set()
    for match in _WORD.finditer(text):
        if match.group()[0].isupper():
            (sentence_starts if _begins_sentence(text, match.start()) else inside_sentences).add(match.group())
    return frozenset(
        inside_sentences | {word for word in sentence_starts - inside_sentences if _is_name(word, tokenizer)}
    )


def _is_name(word: str, tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether a tokenizer's vocabulary suggests that a word is a name, by its tokens inside a sentence.

    Tokenizers learn frequent strings first: of a common word the form with a small letter is one token, and comes
    before the one with a capital. Rare words, in several tokens either way, count as names; letter by letter, none do.
    """
    prefix, capital_ids, small_ids = (
        tokenizer.encode(text, add_special_tokens=False, verbose=False)
        for text in ("a", f"a {word}", f"a {word[0].lower()}{word[1:]}")
    )
    if capital_ids == small_ids or capital_ids[: len(prefix)] != prefix or small_ids[: len(prefix)] != prefix:
        return False
    capital_ids, small_ids = capital_ids[len(prefix) :], small_ids[len(prefix) :]
    if len(capital_ids) == len(small_ids) == 1:
        return bool(capital_ids[0] < small_ids[0])
    return len(small_ids) > len(capital_ids) or 1 < len(small_ids) < len(word)


def other_values(value: Value, values: Iterable[Value], sentence: str) -> list[Value]:
    """Return the other values that could stand in a value's place, each once, in their order.

    Of a number that the documents write in digits and in words, it is the one that is written as the value is.

    Args:
        value: A value of a sentence.
        values: The values of the documents.
        sentence: The sentence: what stands elsewhere in it is left out.
    """
    opposite = OPPOSITES.get(value.text.lower())
    by_key: dict[str, Value] = {}
    for other in values:
        if other.kind != value.kind or is_same(other, value) or (value.kind == "opposite" and other.key != opposite):
            continue
        if not (_is_form(other.text.lower(), value.text.lower()) or occurs_in(other.text, sentence)):
            known = by_key.setdefault(other.key, other)
            if _in_digits(known) != _in_digits(value) == _in_digits(other):
                by_key[other.key] = other
    return list(by_key.values())


def spellings(value: Value, values: Iterable[Value]) -> list[str]:
    """Return a value as it is written, as the documents write it, and a number in words in digits, too.

    Args:
        value: A value of a sentence.
        values: The values of the documents.
    """
    in_digits = [value.key] if value.kind == "number" and not _in_digits(value) else []
    in_documents = [other.text for other in values if other.kind == value.kind and is_same(other, value)]
    return list(dict.fromkeys([value.text, *in_digits, *in_documents]))


def is_same(first: Value, second: Value) -> bool:
    """Return whether two values of a kind are the same, or one name is a part or the initials of the other."""
    if first.key == second.key:
        return True
    if first.kind != "name":
        return False
    shorter, longer = sorted((_name_words(first.text), _name_words(second.text)), key=len)
    return set(shorter) <= set(longer) or (len(longer) > 1 and shorter == ["".join(word[0] for word in longer)])


def _in_digits(value: Value) -> bool:
    return value.text[0].isdigit()


def _is_form(text: str, word: str) -> bool:
    """Return whether two words share a stem, as "days" and "day" do; numbers never do."""
    return not word[0].isdigit() and (text.startswith(word) or word.startswith(text))


def occurs_in(text: str, sentence: str) -> bool:
    """Return whether a value occurs in a sentence, other than inside a longer word or number."""
    before = r"(?<!\d)(?<!\d[.,:/])" if text[0].isdigit() else rf"(?<!{_LETTER})"
    after = r"(?!\d|[.,:/]\d)" if text[-1].isdigit() else rf"(?!{_LETTER})"
    return re.search(before + re.escape(text) + after, sentence, re.IGNORECASE) is not None


def _plain_number(text: str) -> str:
    """Return a number in digits without marks of thousands, leading zeros and a fraction of zeros.

    A mark before three digits marks thousands where it could: "1.125" is 1125, and "0.125" a fraction.
    """
    digits = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)
    if grouped := _THOUSANDS.fullmatch(digits):
        digits = digits.replace(grouped.group(1), "").replace(",", ".")
    elif _FRACTION.fullmatch(digits):
        digits = digits.replace(",", ".")
    return re.sub(r"^(\d+)\.0+$", r"\1", re.sub(r"(?<![\d.])0+(?=\d)", "", digits))


def _name_words(text: str) -> list[str]:
    """Return the words of a name in small letters, without the ending of an English genitive."""
    return [re.sub(r"['’]s$", "", match.group().lower()) for match in _WORD.finditer(text)]


def _begins_sentence(text: str, start: int) -> bool:
    """Return whether a word at a place begins a sentence, a line, a quotation or an entry of a list."""
    return start == 0 or _BEFORE_SENTENCE.search(text, max(0, start - _LOOK_BEHIND), start) is not None


def _names(text: str, known_names: frozenset[str]) -> Iterator[Value]:
    """Yield names: words with a capital, consecutive ones as one name."""
    spans: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        word, (start, end) = match.group(), match.span()
        if not word[0].isupper() or word == "I" or (_begins_sentence(text, start) and word not in known_names):
            continue
        if spans and text[spans[-1][1] : start] in _JOINTS:
            start = spans.pop()[0]
        spans.append((start, end))
    for start, end in spans:
        yield Value("name", text[start:end], start, end)


_WITHOUT_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Japanese and Chinese
)
"""Scripts that write no spaces between words, for classes of regular expressions: nothing tells where a word ends."""

_LETTER = rf"[^\W\d_{_WITHOUT_SPACES}]"
_NUMBER = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)|\d+(?:[.,:/]\d+)*")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}([.,])\d{3}(?:\1\d{3})*(?:(?!\1)[.,]\d+)?")
_FRACTION = re.compile(r"\d+[.,]\d+")
_NUMBER_IN_WORDS = re.compile(
    rf"(?<![\w-])(?:{'|'.join(sorted(NUMBERS, key=len, reverse=True)).replace('-', '[- ]')})(?![\w-])",
    re.IGNORECASE,
)
_YEAR = r"(?<![\d.,:/])(?:1[89]|20)\d\d"  # has no unit: "1974 by"
_UNIT = re.compile(rf"(?!{_YEAR}\s)(?<!\d)\d+[\s-]?({_LETTER}(?:\.{_LETTER})+|{_LETTER}+|[%°€$£])")
_AFTER_NUMBERS = (
    "and or to of in by at on for from is are was were than until till with as that the a an st nd rd th "
    "und oder bis von im um ist sind war der die das als mit zu et ou à de du des en au aux est sont que le la les er "
    "ère e ème y o del al es son el los las ed di da alla il lo gli i che per"
)
_NO_UNITS = frozenset(_AFTER_NUMBERS.split())
_WORD = re.compile(rf"{_LETTER}+(?:['’]{_LETTER}+)*")
_JOINTS = (" ", "-", "\N{NO-BREAK SPACE}")
_BEFORE_SENTENCE = re.compile(
    r"(?:[.!?:…。！？][\"'“”‘’„«»()\[\]{}*_—–\s-]*"  # the end of another one
    r"|[\"'“”‘„«‹(\[¿¡「『（|*_\n]\s*"  # a quotation, a cell of a table, a line
    r"|(?:^|\n)[ \t]*(?:[-–—+•#>]+|\(?\w{1,3}[.)])\s*)$"  # an entry of a list
)
_LOOK_BEHIND = 16

_NUMBER_WORDS = "thousand million billion once twice half second third fourth fifth sixth seventh eighth ninth tenth"
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
