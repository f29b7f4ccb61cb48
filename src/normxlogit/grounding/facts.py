"""What a sentence of an answer has in common with its sources: true by comparison of the texts, without a model.

A word stands in a source if the source has it in any form that a reader takes for the same, see `text.same` and
`written_forms.py`; a number if the source has its value. Both are taken generously: a word that is said to stand in no
source has no form there.
"""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby, pairwise
from typing import Literal, NamedTuple

import regex

from ..results.storage.schema import Index, Indices
from ..results.units.media import overlap
from ..text.boundaries import word_spans
from ..text.characters import UNSPACED, Span, moved
from ..text.same import comparable
from .negation import are_opposed, negations_in
from .written_forms import (
    LEAST,
    OTHER_NUMERAL,
    folded,
    forms_in,
    has_number,
    is_unit,
    may_have_number,
    numbers_in,
    with_same,
)

NUMBERS = ("number", "numeral")
"""Kinds of words that have a value: in digits, and in words."""

WordKind = Literal["number", "numeral", "unit", "name", "word"]
"""A number has digits; a numeral is a number in words; a unit is a sign such as "%", or stands right behind a number; a
name begins with a capital inside a sentence; other words are plain."""

LEAST_QUOTED = 3
"""Words of the shortest quotation."""

NEAR = 1
"""Words by which a word may stand before the one that it follows: those of a name and of a date change places."""

QUESTION_MARKS = "?？؟՞\N{GREEK QUESTION MARK}"
"""Characters at the end of a question."""

CLOSING = "\"'”’»)] \n"
"""Characters that may follow the punctuation at the end of a sentence."""

LONG = 5
"""Letters of a plain word that is worth naming: shorter ones say little by themselves."""

SHORT = 3
"""Letters of the shortest words that a source is asked for: shorter ones are articles and the like."""

STEM = 4
"""Letters with which two long words begin alike that are forms of one, such as "opens" and "opening"."""


# Escapes of JSON, such as "\\u00e9", several of one character together; and words with one in them.
_ESCAPE_PATTERN = r'(?:\\u[0-9a-fA-F]{4})+|\\["\\/bfnrt]'
_ESCAPES = regex.compile(_ESCAPE_PATTERN)
_ESCAPED_WORD = regex.compile(rf'[^\s"]*(?:{_ESCAPE_PATTERN})[^\s"]*')

# Letters with the marks and signs that belong to them; and words, in which a hyphen or an apostrophe may stand.
_LETTERS_PATTERN = r"\p{L}[\p{L}\p{M}\p{Cf}]*"
_LETTERS = regex.compile(_LETTERS_PATTERN)
_STATED = regex.compile(rf"{_LETTERS_PATTERN}(?:[-‐‑'’]{_LETTERS_PATTERN})*|[%\p{{Sc}}]")
# A capital inside a sentence: after a word, and a sign after which it goes on. Another may begin a title or an entry.
_NAME = regex.compile(r"(?<=[\p{L}\p{M}\p{N}][,'’-]?\s*)\p{Lu}[\p{L}\p{M}\p{Cf}‐‑'’-]")
_SPACES = " \u00a0\u202f°-"  # what may stand between a number and its unit
_CAPITALS = regex.compile(r"\b\p{Lu}\p{L}{2,}")  # what may be an abbreviation, of three letters and more

_ENDING = ".!?…。！？:;,"  # punctuation that a quotation may end without
_UNSPACED = regex.compile(f"[{UNSPACED}]")


class SentenceWord(NamedTuple):
    """A word of a sentence, or a number in several words: its characters there, and its kind."""

    start: int
    end: int
    text: str
    kind: WordKind


class StatedWord(NamedTuple):
    """A number, a name or another word of a sentence, and where it stands."""

    start: Index  # its first character in the text of prompt and answer
    end: Index  # one past its last
    text: str
    kind: WordKind
    sources: Indices  # the places of the sources in which it stands
    elsewhere: bool  # whether it stands in another part of the prompt, such as the question
    missing: bool  # whether no part of the prompt may have it, in whatever form


class Facts(NamedTuple):
    """What a sentence has in common with its sources."""

    quoted: Indices  # the places of the sources that have it word for word
    words: tuple[StatedWord, ...]  # its numbers, its names, and its words of three letters and more
    nearest: Index | None  # the place of the source that has most of its words; None if none has any
    opposed: Indices = ()  # the sources that say "not" where it does not, or the other way round
    doubtful: Indices = ()  # that ask, have its numbers and names in another order, or another number for one of them

    @property
    def stated(self) -> tuple[StatedWord, ...]:
        """Its numbers, names and long words."""
        return tuple(filter(is_stated, self.words))

    @property
    def missing(self) -> tuple[StatedWord, ...]:
        """Those of them that stand nowhere in the prompt."""
        return tuple(word for word in self.stated if word.missing)

    @property
    def is_of_another_language(self) -> bool:
        """Whether it has short words, and none stands in a source: every text of a language has such words."""
        # Without capitals, as names and abbreviations are the same in many languages.
        short = [bool(word.sources) for word in self.words if len(word.text) < LONG and word.text.islower()]
        return bool(short) and not any(short)


class ComparedText:
    """A text in the forms in which words and numbers are looked for in it.

    Attributes:
        form: The text in the form in which texts are compared.
        negations: The words by which it says "not".
        stems: The first letters of its longer words.
        forms: Its words and the values of its numbers, with all forms that stand for the same.
    """

    def __init__(self, text: str) -> None:
        text = _with_unescaped(text)
        self.form = comparable(text)
        self.negations = negations_in(self.form.text)
        # As they are written and as they are compared: "twelve" and "year", and "twelveyear" of "twelve-year".
        self._words = set(map(folded, [*_LETTERS.findall(text), *_LETTERS.findall(self.form.text)]))
        self.stems = {word[:STEM] for word in self._words if len(word) >= STEM}
        self.forms = with_same(self._words | forms_in(text) | forms_in(self.form.text))

    def has(self, word: str, kind: WordKind) -> bool:
        """Return whether a word, or each part of it, stands in the text."""
        has_value = has_number(self.forms, word)
        if has_value or kind == "number":  # digits have no letters to look for; a numeral, "twelve", is a word too
            return has_value
        parts = [part for part in _LETTERS.findall(word) if len(part) > 1]  # not the first letter of "o'clock"
        has_parts = bool(parts) and all(self._has_form(folded(part), kind) for part in parts)
        return has_parts or self._has_form(folded(word), kind)

    def _has_form(self, word: str, kind: WordKind) -> bool:
        """Return whether a word stands in the text in the same form, inside a longer word, or in one that begins alike.

        A name is not looked for inside words.
        """
        if word in self.forms:
            return True
        # Of scripts without spaces it is not known where words end; a short word stands in longer ones by chance.
        is_unspaced = bool(_UNSPACED.search(word))
        if (is_unspaced or (kind == "word" and len(word) >= LONG)) and word in self.form.text:
            return True
        begins_alike = len(word) >= STEM and word[:STEM] in self.stems
        return begins_alike and (kind != "name" or self._has_longer(word))

    def may_have(self, word: str, kind: WordKind) -> bool:
        """Return whether a word may stand in the text in another form: no such word is called missing.

        A numeral or a unit may be written in many ways. A number may be in another unit, see `may_have_number`, an
        abbreviation with a capital may be of any word that begins with it ("Sat" of "Saturdays"), and a name may be a
        part of a compound, or have another ending.
        """
        if kind == "number":
            return may_have_number(self.form.original, self.forms, word)
        is_abbreviation = any(folded(word).startswith(folded(short)) for short in _CAPITALS.findall(self.form.original))
        may_differ = kind in ("numeral", "unit") or is_abbreviation or bool(OTHER_NUMERAL.search(word))
        return may_differ or self.has(word, "word")

    @cached_property
    def _in_order(self) -> list[SentenceWord]:
        """Its words and numbers, in their order."""
        return all_words(self.form.original)

    @property
    def numbers(self) -> list[SentenceWord]:
        """Its numbers, in digits or in words."""
        return [word for word in self._in_order if word.kind in NUMBERS]

    @cached_property
    def _parts(self) -> "list[ComparedText]":
        """Its words and numbers, in their order, each as a text of its own."""
        return [ComparedText(word.text) for word in self._in_order]

    def place_of(self, word: StatedWord) -> int:
        """Return at which of its words another text's word stands first; its end if it stands at none of them alone."""
        places = (place for place, part in enumerate(self._parts) if part.has(word.text, word.kind))
        return next(places, len(self._parts))

    def _has_longer(self, word: str) -> bool:
        """Return whether a word of the text begins with another word, or is its beginning."""
        longer = (form for form in self._words if len(form) >= STEM)
        return any(form.startswith(word) or word.startswith(form) for form in longer)


def _with_unescaped(text: str) -> str:
    """Return a text, and again with the escapes of JSON in it as what they stand for, if it has any."""
    # The text as it is stays: a backslash may be one that is meant.
    unescaped = _ESCAPES.sub(lambda match: str(json.loads(f'"{match.group()}"')), text)
    return text if unescaped == text else f"{text}\n{unescaped}"


def words_not_in(text: str, span: Span, other: Span) -> tuple[Span, ...]:
    """Return where the words of a part of a text stand that another part does not have; neighbours are one place.

    Words with an escape of JSON in them are none: they are read as what it stands for.

    Args:
        text: The prompt with the answer.
        span: The part, in characters of it.
        other: The other part.
    """
    first, end = span
    other_text, own = ComparedText(text[slice(*other)]), text[first:end]
    escaped = [match.span() for match in _ESCAPED_WORD.finditer(own)]

    def is_in_other(word: SentenceWord) -> bool:
        is_escaped = any(overlap((word.start, word.end), span) for span in escaped)
        return is_escaped or other_text.has(word.text, word.kind)

    # Neighbours in the order of the text, so that a run is one place.
    runs = groupby(all_words(own), key=is_in_other)
    differing = [list(words) for is_there, words in runs if not is_there]
    return tuple((first + words[0].start, first + words[-1].end) for words in differing)


def facts_of(text: str, span: Span, sources: Sequence[ComparedText], elsewhere: ComparedText) -> Facts:
    """Return what a sentence has in common with its sources.

    Args:
        text: The prompt with the answer.
        span: The sentence, in characters of it, without the number of a list's entry.
        sources: The sources, in their order.
        elsewhere: All else that the model was given: the question, instructions, names of documents.
    """
    first = span[0]
    sentence = text[slice(*span)]
    own = ComparedText(sentence)
    words = list[StatedWord]()
    for start, end, written, kind in all_words(sentence):
        if kind != "word" or len(written) >= SHORT:
            span_in_text = moved((start, end), first)
            standing = tuple(place for place, source in enumerate(sources) if source.has(written, kind))
            is_elsewhere = elsewhere.has(written, kind)
            is_there = bool(standing) or is_elsewhere
            is_missing = not is_there and not any(other.may_have(written, kind) for other in (*sources, elsewhere))
            words.append(StatedWord(*span_in_text, written, kind, standing, is_elsewhere, is_missing))
    quoted = tuple(place for place, source in enumerate(sources) if is_quotation(sentence, source))
    opposed = tuple(place for place, source in enumerate(sources) if are_opposed(own.negations, source.negations))
    doubtful = tuple(place for place, source in enumerate(sources) if _is_doubtful(own, words, place, source))
    nearest = nearest_source(list(filter(is_stated, words)), len(sources))
    return Facts(quoted, tuple(words), nearest, opposed, doubtful)


def _is_doubtful(sentence: ComparedText, words: Sequence[StatedWord], place: int, source: ComparedText) -> bool:
    """Return whether a source with the words of a sentence may say something else.

    It asks what the sentence states, has its numbers and names in another order, or another number where it lacks one.
    """
    if any(place not in word.sources for word in words if word.kind in NUMBERS):
        # A number that the sentence does not have may be meant for the one that the source lacks.
        return not all(sentence.has(number.text, number.kind) for number in source.numbers)
    only_asks = asks(source.form.original) and not asks(sentence.form.original)
    return only_asks or not _is_in_order(words, place, source)


def _is_in_order(words: Sequence[StatedWord], place: int, source: ComparedText) -> bool:
    """Return whether a source has the numbers and names of a sentence in its order; of other words it says little."""
    stated = [word for word in words if is_stated(word) and place in word.sources]
    ordered = [word for word in stated if word.kind in NUMBERS or word.text[0].isupper()]
    return all(second >= first - NEAR for first, second in pairwise(map(source.place_of, ordered)))


def asks(text: str) -> bool:
    """Return whether a text ends with a question mark."""
    return text.rstrip(CLOSING).endswith(tuple(QUESTION_MARKS))


def nearest_source(stated: Sequence[StatedWord], count: int) -> int | None:
    """Return the place of the source that has most of a sentence's words; None if none has any.

    A word counts by how few of the sources have it: log((1 + n) / how many). Numbers count only in a sentence without
    other words: a source that says the same of something else may have the number.

    Args:
        stated: The sentence's numbers, names and long words.
        count: How many sources there are, n.
    """
    words = [word for word in stated if word.kind in ("name", "word") and word.sources] or stated
    weights = defaultdict[int, float](float)
    for word in words:
        for source in word.sources:
            weights[source] += math.log((1 + count) / len(word.sources))
    return min(weights, key=lambda source: (-weights[source], source), default=None)  # of equal ones the earlier


def is_quotation(sentence: str, source: ComparedText) -> bool:
    """Return whether a source has a sentence word for word, as a whole or between signs that are stronger than commas.

    What stands beside a comma may be said on a condition. A question states nothing, only another question quotes it.

    Args:
        sentence: The sentence; the punctuation at its end does not count.
        source: The source.
    """
    body = sentence.strip().rstrip(_ENDING)
    original = source.form.original
    if len(word_spans(body)) < LEAST_QUOTED or (asks(original) and not asks(sentence)):
        return False
    # Slices, as there is no character beside the text: they are empty there.
    return any(
        _is_edge(original[:start].rstrip()[-1:]) and _is_edge(original[end:].lstrip()[:1])
        for start, end in source.form.find(body)
    )


def is_stated(word: SentenceWord | StatedWord) -> bool:
    """Return whether a word of a sentence is a number, a name or long.

    Args:
        word: The word.
    """
    return word.kind in (*NUMBERS, "name") or len(word.text) >= LONG


def all_words(sentence: str) -> list[SentenceWord]:
    """Return the words of a sentence, short ones too.

    A number in several words is one of them, without a word that a hyphen joins to it ("twelve-year").
    """
    numbers = numbers_in(sentence, LEAST)
    number_ends = [number.end for number in numbers]
    words = [
        SentenceWord(match.start(), match.end(), match.group(), _kind(sentence, match, number_ends))
        for match in _STATED.finditer(sentence)
        if not any(overlap(match.span(), (number.start, number.end)) for number in numbers)
    ]
    words += [SentenceWord(start, end, sentence[start:end], kind) for start, end, _, kind in numbers]
    return sorted(words)


def _kind(sentence: str, match: "regex.Match[str]", number_ends: Sequence[int]) -> WordKind:
    """Return the kind of a word of a sentence that is not a number, behind numbers that end at some places."""
    word = match.group()
    if not word[0].isalpha() or (is_unit(word) and len(sentence[: match.start()].rstrip(_SPACES)) in number_ends):
        return "unit"
    return "name" if _NAME.match(sentence, match.start()) else "word"


def _is_edge(character: str) -> bool:
    """Return whether a clause begins or ends beside a character; there is none at the ends of a source."""
    return not character or not (character.isalnum() or character in "'’-−,，、،")
