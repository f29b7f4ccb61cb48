"""Whether a sentence ends at a mark: abbreviations, initials, ordinals and dates have dots as well.

The language of a text is not known, and a text may have several. What is asked here is therefore asked of the words
around a mark: abbreviations that stand before names or numbers, words that begin sentences, and the words before an
ordinal in German, the one language of many that write "5." for "fifth" in which a capital follows.
"""

import unicodedata
from typing import NamedTuple

import regex

from .abbreviations import (
    ABBREVIATED,
    ABBREVIATED_NAMES,
    BEFORE_NAMES,
    BEFORE_NUMBERS,
    BEFORE_ORDINALS,
    MONTHS,
    PARTICLES,
    STARTERS,
)
from .characters import UNSPACED

WINDOW = 64
"""How many characters before and after a mark are looked at."""


class Mark(NamedTuple):
    """A mark that may end a sentence, with the words around it.

    Attributes:
        sign: The mark, with the quotation marks and brackets that close after it.
        words_before: The last words before it, in the same sentence.
        is_first_word: Whether there is only one word before it.
        after: What follows it.
    """

    sign: str
    words_before: list[str]
    is_first_word: bool
    after: str

    @property
    def word(self) -> str:
        """The word that it stands behind."""
        return self.words_before[-1].lstrip(OPENING) if self.words_before else ""

    @property
    def following(self) -> str:
        """The words that follow, without what opens them."""
        return self.after.lstrip().lstrip(OPENING)


def mark_at(text: str, match: "regex.Match[str]", start: int, limit: int) -> Mark:
    """Return a mark with the words around it.

    Args:
        text: The text.
        match: Where `MARK` was found.
        start: Where the sentence began, without the white space before it.
        limit: Where the paragraph ends.
    """
    first = max(start, match.start() - WINDOW)
    words = text[first : match.start()].split()
    is_first_word = first == start and len(words) == 1  # where the window reaches back to the start of the sentence
    end = after_space(text, match.end(), limit)  # white space does not count in the window after the mark
    return Mark(match.group(), words, is_first_word, text[match.end() : min(end + WINDOW, limit)])


def after_space(text: str, start: int, limit: int) -> int:
    """Return where the white space that begins at a place of a text ends.

    Args:
        text: The text.
        start: The place.
        limit: The end at the latest.
    """
    while start < limit and text[start].isspace():
        start += 1
    return start


def ends_sentence(mark: Mark) -> bool:
    """Return whether a sentence ends at a mark.

    Args:
        mark: The mark with the words around it.
    """
    if _ALWAYS.match(mark.sign):
        # Behind a closing quotation mark the sentence that quotes may go on; without one, only a number does.
        closes_quotation = len(mark.sign.rstrip(CLOSING)) < len(mark.sign)
        continuation = _AFTER_QUOTATION if closes_quotation else _DECIMAL_PLACE
        return not continuation.match(mark.after)
    if mark.after and not mark.after[0].isspace():  # only "!" and "?" end a sentence there, as in "好!我"
        return mark.sign[0] in "!?" and bool(_UNSPACED.match(mark.after))
    if _SMALL_LETTER.match(mark.following):
        return False
    is_single_dot = mark.sign.rstrip(CLOSING) == "."  # "!", "?" and "..." belong to no word
    return not is_single_dot or not _belongs_to_word(mark)


def _belongs_to_word(mark: Mark) -> bool:
    """Return whether a dot belongs to the word before it, as that of an abbreviation, and no sentence ends there."""
    word = mark.word
    if mark.is_first_word and _ENTRY.fullmatch(word):
        return True  # "1." or "a." begins an entry
    if _NUMBER.fullmatch(word):
        return _is_ordinal(mark)
    if word == "I":  # an initial before another one; otherwise the pronoun
        return bool(_INITIAL_OF_NAME.match(mark.following))
    return _is_abbreviation_inside(mark)


def _is_abbreviation_inside(mark: Mark) -> bool:
    """Return whether a word is an abbreviation, and the sentence goes on after it."""
    word = mark.word
    following = mark.following
    if BEFORE_NAMES.fullmatch(word):  # what it introduces follows, whatever it is
        return True
    if BEFORE_NUMBERS.fullmatch(word) or _STREET.fullmatch(word):  # "No. 5", "Hauptstr. 5"
        return bool(_FIRST_NUMBER.match(following))
    if _ET_CETERA.fullmatch(" ".join(mark.words_before[-2:])):  # ends its sentence
        return False
    if word.isupper() and _INITIAL.fullmatch(word) and PARTICLES.match(following):  # "J. De Vries"
        return True
    return _is_abbreviation(mark) and not STARTERS.match(following)  # before a word that begins sentences it ends one


def _is_abbreviation(mark: Mark) -> bool:
    """Return whether a word is an abbreviation that may be the last word of a sentence."""
    patterns = _INITIAL, _ACRONYM, ABBREVIATED, ABBREVIATED_NAMES
    return any(pattern.fullmatch(mark.word) for pattern in patterns) or _is_of_consonants(mark)


def _is_of_consonants(mark: Mark) -> bool:
    """Return whether a word has no vowel, as abbreviations have none; units and names in capitals are words."""
    if len(mark.words_before) > 1 and mark.words_before[-2].isdecimal():  # "5 km" is a unit
        return False
    is_short = _SHORT_WORD.fullmatch(mark.word) is not None
    # Decomposed, a vowel with an accent begins with the plain vowel.
    return is_short and not _VOWEL.search(unicodedata.normalize("NFD", mark.word))


def _is_ordinal(mark: Mark) -> bool:
    """Return whether a number with a dot is an ordinal: "am 5. Mai", "im 19. Jahrhundert"."""
    before = mark.words_before[-2] if len(mark.words_before) > 1 else ""
    is_date = bool(BEFORE_ORDINALS.fullmatch(before) or MONTHS.match(mark.following))
    return is_date and not STARTERS.match(mark.following)


CLOSING_ALONE = "”’»›)]}*_」』）"  # never before what they open
CLOSING = "\"'“‘«‹" + CLOSING_ALONE
OPENING = "\"'“‘„‚«»‹›([{*_¿¡「『（"

_NOTE = r"\[\d{1,3}\]"
MARK = regex.compile(
    rf"""
      [[\p{{STerm}}།༎…]--[.!?၊]][\p{{STerm}}།༎…]*(?:{_NOTE}|[{regex.escape(CLOSING_ALONE)}])*   # ၊ is a comma
    | [.!?][\p{{STerm}}…]*(?:{_NOTE}|[{regex.escape(CLOSING)}]|[ \u00a0\u202f][»›](?=\s|$))*
    | (?<=\p{{Greek}}\p{{M}}*)[;\u037e]   # the Greek question mark
    | (?<=\p{{Armenian}}):                # the Armenian full stop, as it is typed
    | ፡፡                                  # the Amharic one
    """,
    regex.VERBOSE | regex.V1,
)
"""A mark that may end a sentence."""

_ALWAYS = regex.compile(r"[[\p{STerm}།༎፡]--[.!?۔។]]", regex.V1)
"""Marks that end a sentence without white space after them."""

_DECIMAL_PLACE = regex.compile(r"\d")  # after a full-width dot, for one
_AFTER_QUOTATION = regex.compile(r"と|って|という|は|が|を|の|も|で|に|、|\p{Han}{1,4}[说說道问問答喊]")
"""With what a sentence goes on after a quotation in Japanese, and in Chinese."""

_SMALL_LETTER = regex.compile(r"(?!\p{Georgian})\p{Ll}")  # Georgian has no others in ordinary text
_UNSPACED = regex.compile(rf"[{UNSPACED}]")
_ENTRY = regex.compile(r"\d+|\p{L}|[IVXLC]+")
_NUMBER = regex.compile(r"\p{Nd}{1,3}|[IVXLC]{2,}")
_FIRST_NUMBER = regex.compile(r"\d|(?!I\b)[IVXLC]+\b")
_STREET = regex.compile(r"\p{L}+str")
_SHORT_WORD = regex.compile(r"(?!\p{Lu}{2})[\p{Latin}\p{Cyrillic}\p{Greek}]{1,5}")
_VOWEL = regex.compile("[aeiouyæøœıаеёиоуыэюяєіїαεηιουω]", regex.IGNORECASE)
_INITIAL = regex.compile(r"(?![\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}])\p{L}\p{M}*|(\p{Lu})\1")  # "EE. UU."
_ACRONYM = regex.compile(r"(?:\p{L}\p{M}*\.)+\p{L}+|(?:\p{L}+\.)+\p{L}")
_INITIAL_OF_NAME = regex.compile(r"[A-Z]\w*\.")

_ET_CETERA = regex.compile(r"т\.\s?[дп]")  # "and so on" and "and the like" in Russian, at the end of a list
