"""Where the words, sentences and paragraphs of a text end."""

import re
from collections.abc import Iterable

import regex

Span = tuple[int, int]
"""The first character of a part of a text, and one past its last."""

UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    r"\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # kana
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Characters of scripts that are written without spaces between words, inside the brackets of a pattern."""


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space at its ends, or unchanged if it holds nothing else."""
    body = text[start:end]
    if not body.strip():
        return start, end
    start += len(body) - len(body.lstrip())
    return start, start + len(body.strip())


def word_spans(text: str, start: int = 0, end: int | None = None) -> list[Span]:
    """Return the character spans of a text's words and signs; what is in none of them is white space.

    A word is made of letters and digits, with the apostrophes, hyphens, half spaces and decimal points inside ("don't",
    "state-of-the-art", "3.14"); any other character that a reader sees is a word, such as a flag. Scripts written
    without spaces have a word for each character.

    Args:
        text: Any text.
        start: Where the first word begins at the earliest.
        end: Where the last word ends at the latest; None for the end of the text.
    """
    return [match.span() for match in _WORD.finditer(text, start, len(text) if end is None else end)]


def paragraph_spans(text: str) -> list[Span]:
    """Return the character spans of a text's paragraphs, which empty lines separate; without outer white space."""
    edges = [0, *(edge for gap in _EMPTY_LINE.finditer(text) for edge in gap.span()), len(text)]
    return _trimmed(text, zip(edges[::2], edges[1::2], strict=True))


def sentence_spans(text: str) -> list[Span]:
    """Return the character spans of a text's sentences, without the white space around them.

    A sentence ends at ".", "!", "?" or "…" (with closing quotes and brackets) before white space, unless the next word
    goes on in small letters or the dot belongs to an abbreviation, an initial or the number of a list's entry; at
    the full-width marks of Chinese and Japanese always; at an empty line; and around headings, table rows and entries
    of lists, which have lines of their own. Other line ends are white space: text may be wrapped.
    """
    spans: list[Span] = []
    for block_start, block_end in _blocks(text):
        start = block_start
        for mark in _END.finditer(text, block_start, block_end):
            if _ends(text, start, mark, block_end):
                spans.append((start, mark.end()))
                start = mark.end()
        spans.append((start, block_end))
    return _trimmed(text, spans)


def _blocks(text: str) -> list[Span]:
    """Return the spans that no sentence crosses: paragraphs, and in these headings, table rows and entries of lists."""
    blocks = []
    for first, end in paragraph_spans(text):
        start, ends_block = first, False
        for line in _LINE.finditer(text, first, end):
            if (ends_block or _OWN_LINE.match(line.group())) and line.start() > start:
                blocks.append((start, line.start()))
                start = line.start()
            ends_block = bool(_ONE_LINE.match(line.group()))
        blocks.append((start, end))
    return blocks


def _ends(text: str, start: int, match: "re.Match[str]", limit: int) -> bool:
    """Return whether a sentence that began at `start` ends at a punctuation mark."""
    mark = match.group()
    if mark[0] in "。！？":
        return True
    after = text[match.end() : limit]
    if after and not after[0].isspace():
        return False
    following = after.lstrip()
    first = next((c for c in following if c not in _OPENING), "")
    if first.islower():
        return False
    if mark[0] != "." or len(mark.rstrip(_CLOSING)) > 1:
        return True
    words_before = text[start : match.start()].split()
    word = words_before[-1].lstrip(_OPENING) if words_before else ""
    if len(words_before) == 1 and (word.isdigit() or (len(word) == 1 and word.isalpha())):
        return False  # "1." or "a." begins an entry
    if len(word) == 1 and word.isupper():
        return (bool(_STARTERS.match(following)) and word != "I") or (word == "I" and not _NAME.match(following))
    if _NEVER_LAST.fullmatch(word.lower()):
        return False
    if _BEFORE_NUMBERS.fullmatch(word.lower()):
        return not first.isdigit()
    if _SOMETIMES_LAST.fullmatch(word.lower()) or _ACRONYM.fullmatch(word):
        return bool(_STARTERS.match(following))
    return True


def _trimmed(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return the spans without the white space at their ends; empty ones are left out."""
    return [trimmed(text, start, end) for start, end in spans if text[start:end].strip()]


_CLOSING = "\"'”’»)]}*_"
_OPENING = "\"'“‘«([{*_"
_LINE = re.compile(r"[^\n]+")
_EMPTY_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_OWN_LINE = re.compile(r"\s*(?:[-*•+]\s|\(?\w{1,3}[.)]\s|#{1,6}\s|\||>|```|={3,}|-{3,})")
_ONE_LINE = re.compile(r"\s*(?:#{1,6}\s|\||```|={3,}|-{3,})")
_END = re.compile(rf"[。！？]+[」』”’）]*|[.!?…]+[{re.escape(_CLOSING)}]*")
_ACRONYM = re.compile(r"(?:\w\.)+\w")
_NAME = re.compile(r"[A-Z]\w*\.")
_NEVER_LAST = re.compile(
    r"mrs?|ms|dr|prof|st|sr|rev|gen|col|lt|sgt|capt|gov|sen|rep|hon|mt|messrs|e\.g|i\.e|cf|vs|viz|al|dept|approx|"
    r"jan|feb|mar|apr|jun|jul|aug|sept|oct|nov|dec|z\.b|d\.h|bzw"
)
_BEFORE_NUMBERS = re.compile(r"nos?|figs?|eqs?|pp?|vol|ch|sec|art|nr|ca|c")
_SOMETIMES_LAST = re.compile(r"etc|inc|ltd|co|corp|jr|bros|a\.m|p\.m|ph\.d")
_STARTERS = re.compile(
    r"[\"'“‘(\[]*(?:The|A|An|It|Its|In|On|At|He|She|They|We|You|This|That|These|Those|There|His|Her|Their|Our|But|And|"
    r"However|As|After|Before|When|While|If|For|From|By|To|With|Since|Then|Also|Although|Another|Some|Most|Many|One|"
    r"What|Who|Where|Why|How|I)\b"
)

_ALONE = rf"[[{UNSPACED}]&&[\p{{L}}\p{{Nl}}\p{{No}}]]"
_LETTERS = rf"[[\w\p{{N}}\u00ad]--{_ALONE}]+"  # with the marks and joiners that `\w` has
_INSIDE = r"['’\-‐‑·\u05f3\u05f4]|(?<=\p{Hebrew})\"(?=\p{Hebrew})|(?<=\d)[.,:٫٬](?=\d)"
_WORD = regex.compile(
    rf"(?={_ALONE})\X\p{{M}}*|{_LETTERS}(?:(?:{_INSIDE}){_LETTERS})*|(?!\s)\X",
    regex.V1,
)
