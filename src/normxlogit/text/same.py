"""When two texts are the same, and where in a text another one stands.

Texts are the same to a reader where they differ in nothing but

- Unicode's forms: composed or decomposed letters, full width, ligatures, digits of other scripts (NFKC and decimal
  values; a raised digit after a digit is an exponent, "10²" is "10^2", and a fraction stays one, "2½" is "2 1/2");
- case, by full folding ("STRASSE" is "Straße"), the four i's of Turkish being one;
- typography: kinds of apostrophes, single and double quotation marks and dashes, hyphens inside words, which a line's
  end may have put there ("exam-ple"), and the length of white space, or any next to scripts written without spaces;
- what is not seen: soft hyphens, joiners, marks of direction, variants of a sign;
- what may be left out in Arabic and Hebrew: vowel signs, accents of recitation and the tatweel, and the Arabic and the
  Persian form of kaf and yeh;
- Markdown: emphasis, code, headings, entries of lists (numbers are compared: a line may begin with a date), quoted
  lines, rules, rows of tables, and the addresses of links.

Every other comparison of texts in this package goes through here. Letters with other accents, other spellings and
other words are other texts.
"""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import regex

from .boundaries import word_spans
from .characters import UNSPACED, Span
from .markdown import INLINE_MARKS, LINE_MARKS, link_marks

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Comparable:
    """A text in the form in which texts are compared, with the way back.

    Attributes:
        text: The form to compare: the same string for texts that are the same.
        original: The text that it was made of.
        starts: For each character of `text` the first character of the original that it stands for.
        ends: One past the last one.
    """

    text: str
    original: str = field(repr=False)
    starts: Indices = field(repr=False)
    ends: Indices = field(repr=False)

    def original_span(self, start: int, end: int) -> Span:
        """Return the characters of the original that a part of the compared form stands for.

        Args:
            start: First character in `text`.
            end: One past the last character.
        """
        if start >= end:
            place = int(self.starts[start]) if start < len(self.starts) else len(self.original)
            return place, place  # an empty span
        return int(self.starts[start]), int(self.ends[end - 1])

    def find(self, part: "str | Comparable", *, at_words: bool = True) -> list[Span]:
        """Return where another text stands in this one, see `find_text`.

        Args:
            part: The text to look for.
            at_words: Whether a place begins and ends where words do; otherwise where characters do, and places may
                overlap.
        """
        sought = part if isinstance(part, Comparable) else comparable(part)
        places = self.find_compared(sought.text, at_words=at_words)
        if places or self.text == self.original:  # without marks, the second search would be the first one again
            return places
        # Marks of Markdown, which the compared form does not have, are found letter by letter.
        return _unfolded(self.original).find_compared(sought.original, at_words=at_words)

    def find_compared(self, sought_text: str, *, at_words: bool) -> list[Span]:
        """Return where a string stands in the compared form, in characters of the original.

        Args:
            sought_text: The string, as it stands in compared forms.
            at_words: As in `find`.
        """
        places: list[Span] = []
        start = self.text.find(sought_text) if sought_text else -1  # an empty text stands nowhere
        while start >= 0:
            end = start + len(sought_text)
            is_place = self._is_edge(start, at_words, starts=True) and self._is_edge(end, at_words)
            if is_place:
                places.append(self.original_span(start, end))
            # Places of words do not overlap: the next one begins behind this one.
            start = self.text.find(sought_text, end if is_place and at_words else start + 1)
        return places

    def _is_edge(self, index: int, at_words: bool, *, starts: bool = False) -> bool:
        """Return whether a part may begin or end at a place in the compared form.

        It may where the original has an edge between two characters, or between two words.

        Args:
            index: The place: before the character of this index of the compared form.
            at_words: Whether the edge must be one of words.
            starts: Whether a part begins there; otherwise it ends.
        """
        if not 0 < index < len(self.text):
            return True
        # Where in the original the character before the place ends, and that after it begins.
        end_before = int(self.ends[index - 1])
        start_after = int(self.starts[index])
        if end_before > start_after:  # one character of the original is before and after, such as the "½" of "1/2"
            return False
        is_minus = self.text[index] == "-" and self.text[index - 1].isalnum()
        if starts and is_minus:  # "-5" is not in "3-5"
            return False
        # What lies between the characters in the original was left out, and a word may end anywhere there.
        return not at_words or 0 in self._inside_word[end_before : start_after + 1]

    @cached_property
    def _inside_word(self) -> bytes:
        """For each place in the original, before a character or at the end, 1 if it is inside a word, otherwise 0.

        Both sides of a hyphen or an apostrophe are edges of words.
        """
        inside = bytearray(len(self.original) + 1)
        for start, end in word_spans(self.original):
            inside[start + 1 : end] = bytes([1]) * (end - start - 1)
        for sign in _HYPHEN_OR_APOSTROPHE.finditer(self.original):
            inside[sign.start()] = inside[sign.end()] = 0
        return bytes(inside)

    def without(self, spans: Sequence[Span]) -> "Comparable":
        """Return the form without some of its characters.

        Args:
            spans: Their places, in order.
        """
        if not spans:
            return self
        keep = np.ones(len(self.text), dtype=bool)  # of each character
        kept_texts = []
        previous_end = 0
        for start, end in spans:
            keep[start:end] = False
            kept_texts.append(self.text[previous_end:start])
            previous_end = end
        text = "".join([*kept_texts, self.text[previous_end:]])
        return Comparable(text, self.original, self.starts[keep], self.ends[keep])


def comparable(text: str) -> Comparable:
    """Return the form in which a text is compared.

    A text that is nothing but marks of Markdown, or signs that are left out, is compared as it is.

    Args:
        text: Any text.
    """
    whole = _unfolded(text)
    visible = whole.without(_spans(_UNSEEN, text))
    unmarked = visible.without(_spans(LINE_MARKS, visible.text))
    unmarked = unmarked.without(link_marks(unmarked.text))
    unmarked = unmarked.without(_spans(INLINE_MARKS, unmarked.text))
    folded = _folded(unmarked.without(_spans(_LEFT_OUT, unmarked.text)))
    if folded.text or not text.strip():
        return folded
    # All of it was left out: it consists of marks, or of signs that are not seen.
    marks = _folded(visible)
    return marks if marks.text else whole


def _unfolded(text: str) -> Comparable:
    """Return a text as its own compared form: each character stands for itself."""
    indices = np.arange(len(text), dtype=np.int64)
    return Comparable(text, text, indices, indices + 1)


def same_text(first: str, second: str) -> bool:
    """Return whether two texts are the same to a reader, see the module.

    Args:
        first: A text.
        second: Another text.
    """
    return first == second or comparable(first).text == comparable(second).text


@lru_cache(maxsize=2**16)
def word_key(word: str) -> str:
    """Return the compared form of a word or a name, which is remembered: words come again.

    Args:
        word: A short text.
    """
    # Most words are letters whose compared form is their case fold: a short way for them.
    # Letters alone hold no marks of Markdown, dashes or spaces, which the long way looks for.
    is_plain = word.isalpha() and unicodedata.is_normalized("NFKC", word) and not _FOLDED_LETTER.search(word)
    # Case folding may decompose a letter that was composed, so the form is normalised behind it.
    return unicodedata.normalize("NFKC", word.casefold()) if is_plain else comparable(word).text


def matching_names(name: str, names: Sequence[str]) -> list[int]:
    """Return the indices of a name in a list: where it stands letter by letter, otherwise where the same text does.

    Args:
        name: What a caller calls it.
        names: The names that there are.
    """
    exact = [index for index, candidate in enumerate(names) if candidate == name]
    key = word_key(name)  # several names may have it, which the caller tells apart by their letters
    return exact or [index for index, candidate in enumerate(names) if word_key(candidate) == key]


def unicode_forms(text: str) -> list[str]:
    """Return a text as it is, composed and decomposed, for lookups where no other difference may be.

    Args:
        text: Any text.
    """
    return list(dict.fromkeys([text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)]))


def common_spelling(spellings: Mapping[str, int]) -> str:
    """Return how lists write a word: the most frequent of its spellings, in small letters; of several the first.

    Args:
        spellings: How often the word stands in texts in each way.
    """
    counts = Counter[str]()
    for spelling, count in spellings.items():
        counts[unicodedata.normalize("NFC", spelling.strip()).lower()] += count
    return max(sorted(counts), key=counts.__getitem__)


def find_text(text: str | Comparable, part: str | Comparable) -> list[Span]:
    """Return all places of a part in a text, in characters of the original text.

    A place begins and ends where words do, or at a hyphen or an apostrophe inside one: "été" is in "l'été". In scripts
    that are written without spaces it does anywhere between two letters.

    Args:
        text: The text to look in, or its compared form, where several parts are looked for.
        part: The text to look for.
    """
    return (text if isinstance(text, Comparable) else comparable(text)).find(part)


def _spans(pattern: "regex.Pattern[str]", text: str) -> list[Span]:
    return [match.span() for match in pattern.finditer(text)]


def _folded(form: Comparable) -> Comparable:
    """Return a form in which characters that are the same to a reader are one character, such as all kinds of dashes.

    The text is cut into P pieces, a character with its marks each, which may become longer or shorter. Each character
    of a folded piece stands for all of the original that the piece stood for.
    """
    text = form.text.translate(_SIGNS)  # this and the next two keep the length, and so `starts` and `ends`
    text = _DASH_OF_NUMBERS.sub("-", text)
    text = _TYPED_DASH.sub(_typographic_dash, text)
    pieces: list[str] = _CHARACTER.findall(text)
    folded_pieces = [_folded_piece(piece) for piece in pieces]
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))  # (P,)
    folded_lengths = np.fromiter(map(len, folded_pieces), np.int64, len(pieces))  # (P,)
    piece_ends = np.cumsum(lengths)  # (P,)
    starts = form.starts[piece_ends - lengths].repeat(folded_lengths)
    ends = form.ends[piece_ends - 1].repeat(folded_lengths)
    folded = Comparable("".join(folded_pieces), form.original, starts, ends)
    return folded.without(_spans(_NEEDLESS_SPACE, folded.text))


def _typographic_dash(typed: "regex.Match[str]") -> str:
    """Return the dash that two or three hyphens stand for, in as many characters."""
    return "—".ljust(len(typed.group()))


@lru_cache(maxsize=2**16)
def _folded_piece(piece: str) -> str:
    """Fold a character with the marks on it, or a digit with the exponent or fraction after it."""
    if piece in _DASHES_BETWEEN_WORDS:
        return " - "
    text = _EXPONENT.sub("^", _FRACTION.sub(" ", piece))  # "10^²", "2 ½", of which the next step makes digits
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    # Signs are folded once more, as NFKC makes some of Arabic's presentation forms; of Turkish, all four i's are one.
    text = text.translate(_SIGNS).replace("i\u0307", "i").replace("ı", "i")
    text = _OPTIONAL.sub("", text)
    return "".join(_folded_character(character) for character in text)


def _folded_character(character: str) -> str:
    """Return a space for white space, and the decimal digit for a digit of any script."""
    if character.isspace():
        return " "
    return str(unicodedata.decimal(character, character))


_UNSEEN = regex.compile(r"[\p{Default_Ignorable_Code_Point}--[\U000E0020-\U000E007F]]+", regex.V1)
"""Characters that are not seen; the tags that make a flag of a black flag are."""

_LEFT_OUT = regex.compile(
    r"""
      (?<=\p{L}\p{M}*)(?:[-‐‑]\s*|–)(?=\p{L})                    # inside a word, with a line's end after it
    | (?<=[\p{L}\p{N}][-‐‑])[^\S\n]*\n\s*(?=[\p{L}\p{N}])        # of "COVID-", a line's end and "19" the line's end
    | (?<=\d-)-(?=\d)                                            # of "8--12" the second
    | (?<=(?:^|\s)«)\s+ | \s+(?=»(?!\w)) | (?<=\w)\s(?=[!?;:%](?!\w))   # the spaces of French
    """,
    regex.VERBOSE,
)
_HYPHEN_OR_APOSTROPHE = regex.compile(r"[-‐‑'’]")

# A piece for `_folded_piece`: a digit with its exponent or fraction, or a character with its marks.
_CHARACTER = regex.compile(r"\d(?:[⁺⁻]?[⁰¹²³⁴-⁹]+|[¼-¾⅐-⅞↉])|\X")
_EXPONENT = regex.compile(r"(?<=^\d)(?=[⁺⁻⁰¹²³⁴-⁹])")  # the place before it
_FRACTION = regex.compile(r"(?<=^\d)(?=[¼-¾⅐-⅞↉])")  # the place before it
_DASH_OF_NUMBERS = regex.compile(r"(?<=\d)[—―](?=\d)")
_TYPED_DASH = regex.compile(r"(?<!-)-{2,3}(?!-)")
_DASHES_BETWEEN_WORDS = frozenset("—―⸺⸻")
_OPTIONAL = regex.compile(
    r"[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    r"\u0610-\u061a\u0640\u064b-\u0652\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"
)
"""Points of Hebrew; signs of recitation, tatweel and vowels of Arabic."""

_NEEDLESS_SPACE = regex.compile(rf"^[ |]+|[ |]+$|(?<=[ |])[ |]+|(?<=[{UNSPACED}])[ |]+|[ |]+(?=[{UNSPACED}])")

_SAME_SIGNS = {
    "'": "‘’‚‛′ʼʹʻˈ´`‹›׳＇ꞌ",
    '"': "“”„‟«»″〝〞〟״「」『』＂",
    "-": "‐‑‒–−﹣－⁃˗",
    "/": "⁄∕",
    "~": "〜～",
    ".": "٫",
    ",": "٬",
    "%": "٪",
    " ": "|",
    "ک": "ك",
    "ی": "ي",
}
_FOLDED_LETTER = regex.compile(r"[İıꞋꞌكي\u0640\p{Lm}\p{Default_Ignorable_Code_Point}]")
"""Letters that become others, or are left out, beside their case."""

_SIGNS = str.maketrans({sign: plain for plain, signs in _SAME_SIGNS.items() for sign in signs})
