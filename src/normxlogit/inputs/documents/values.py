"""Values in a text: numbers, names, units, number words and words with an opposite.

Numbers, names and units are told by digits, capitals and what follows a number, in any language that writes them so.
Where every sentence begins with a capital, the vocabulary of a tokenizer tells a name: a common word is in it with a
small letter, too, and before the same word with a capital. Number words and opposites are English.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from transformers import PreTrainedTokenizerBase

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


def values_in(text: str, known_names: frozenset[str] = frozenset()) -> list[Value]:
    """Return the values of a text in their order.

    Args:
        text: A sentence.
        known_names: Words that are known to be names, see `names_in`: at the beginning of a sentence others are none.
    """
    values = [Value("number", match.group(), *match.span()) for match in _NUMBER.finditer(text)]
    values += [Value("unit", match.group(1), *match.span(1)) for match in _UNIT.finditer(text)]
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
    begins_sentence = True
    for match in _TOKEN.finditer(text):
        word = match.group()
        if word[0].isupper():
            (sentence_starts if begins_sentence else inside_sentences).add(word)
        begins_sentence = word[-1] in _ENDS or "\n" in text[match.end() : match.end() + 1]
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
    for candidate in values:
        if candidate.kind != value.kind or candidate.text.lower() == word:
            continue
        if value.kind == "opposite" and candidate.text.lower() != opposite:
            continue
        texts.setdefault(candidate.text.lower(), candidate.text)
    return [text for text in texts.values() if not (occurs_in(text, sentence) or _is_form(text.lower(), word))]


def _is_form(text: str, word: str) -> bool:
    """Return whether two words share a stem, as "days" and "day" do; numbers never do."""
    return not word[0].isdigit() and (text.startswith(word) or word.startswith(text))


def occurs_in(text: str, sentence: str) -> bool:
    """Return whether a value occurs in a sentence, other than inside a longer word or number."""
    pattern = rf"(?<!\w)(?<!\d[.,:/]){re.escape(text)}(?!\w|[.,:/]\d)"
    return re.search(pattern, sentence, re.IGNORECASE) is not None


def _names(text: str, known_names: frozenset[str]) -> Iterator[Value]:
    """Yield names: words with a capital, consecutive ones as one name."""
    spans: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        word, (start, end) = match.group(), match.span()
        text_before = text[:start].rstrip()
        begins_sentence = not text_before or text_before[-1] in _ENDS
        if not word[0].isupper() or word == "I" or (begins_sentence and word not in known_names):
            continue
        if spans and text[spans[-1][1] : start] in _JOINTS:
            start = spans.pop()[0]
        spans.append((start, end))
    for start, end in spans:
        yield Value("name", text[start:end], start, end)


_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_YEAR = r"(?<![\d.,:/])(?:1[89]|20)\d\d"  # has no unit: "1974 by"
_UNIT = re.compile(rf"(?!{_YEAR}\s)(?<!\d)\d+[\s-]?([^\W\d_]+|[%°€$£])")
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
