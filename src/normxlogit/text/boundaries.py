"""Where the words, sentences and paragraphs of a text end."""

import regex

from .characters import UNSPACED, Span, trimmed
from .markdown import code_spans, fenced_blocks
from .sentence_ends import MARK, after_space, ends_sentence, mark_at


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


def sentence_spans(text: str) -> list[Span]:
    """Return the character spans of a text's sentences, without the white space around them.

    A sentence ends at Unicode's marks (STerm) and at an ellipsis, with closing quotation marks, brackets and notes: at
    ".", "!", "?" before white space, unless the next word goes on in small letters or the dot belongs to an
    abbreviation, an initial, an ordinal or the number of a list's entry; at those of other scripts always; at an empty
    line; and around headings, table rows and entries of lists, which have lines of their own. Other line ends are white
    space: text may be wrapped. Nothing ends inside a table row or code; what is fenced is one part. What has neither a
    letter nor a number is not a sentence: the rule of a table, "---", an emoji alone.

    Args:
        text: Any text, with or without Markdown.
    """
    spans: list[Span] = []
    start = 0
    for (fence_start, fence_end), code in fenced_blocks(text):
        spans += [*_sentences_between(text, start, fence_start), code]
        start = fence_end
    spans += _sentences_between(text, start, len(text))
    return [trimmed(text, *span) for span in spans if _LETTER_OR_NUMBER.search(text, *span)]


def _sentences_between(text: str, start: int, end: int) -> list[Span]:
    """Return the sentences of a part of a text without fenced code.

    Args:
        text: The text.
        start: Where the part begins.
        end: Where it ends.
    """
    in_code = [False] * (end - start + 1)  # of each character of the part, whether it is in code inside a line
    for code_start, code_end in code_spans(text, start, end):
        in_code[code_start - start : code_end - start] = [True] * (code_end - code_start)
    spans: list[Span] = []
    for block_start, block_end in _blocks(text, start, end):
        marks = () if _TABLE_ROW.match(text, block_start) else MARK.finditer(text, block_start, block_end)
        sentence_start = after_space(text, block_start, block_end)
        for match in marks:
            if not in_code[match.start() - start] and ends_sentence(mark_at(text, match, sentence_start, block_end)):
                spans.append((sentence_start, match.end()))
                sentence_start = after_space(text, match.end(), block_end)
        spans.append((sentence_start, block_end))  # what follows the last mark, even if it is empty
    return spans


def _blocks(text: str, start: int, end: int) -> list[Span]:
    """Return the spans that no sentence crosses: paragraphs, and in these headings, table rows and entries of lists."""
    blocks: list[Span] = []
    for paragraph_start, paragraph_end in _paragraphs(text, start, end):
        block_start = paragraph_start
        follows_whole_block = False  # whether the line before is a block by itself, such as a heading
        for line in _LINE.finditer(text, paragraph_start, paragraph_end):
            # At the start of the paragraph there is nothing before the line that could be a block.
            if (follows_whole_block or _FIRST_LINE.match(line.group())) and line.start() > block_start:
                blocks.append((block_start, line.start()))
                block_start = line.start()
            follows_whole_block = bool(_ONLY_LINE.match(line.group()))
        blocks.append((block_start, paragraph_end))
    return blocks


def paragraph_spans(text: str) -> list[Span]:
    """Return the character spans of a text's paragraphs, which empty lines separate; without outer white space.

    Args:
        text: Any text.
    """
    return [trimmed(text, *span) for span in _paragraphs(text, 0, len(text)) if text[slice(*span)].strip()]


def _paragraphs(text: str, start: int, end: int) -> list[Span]:
    """Return what stands between empty lines, with its outer white space."""
    # Where the first paragraph begins, where each gap begins and ends, and where the last paragraph ends.
    edges = [start, *(edge for gap in _EMPTY_LINE.finditer(text, start, end) for edge in gap.span()), end]
    return list(zip(edges[::2], edges[1::2], strict=True))


_LETTER_OR_NUMBER = regex.compile(r"[\p{L}\p{N}]")
_TABLE_ROW = regex.compile(r"\s*\|")
_LINE = regex.compile(r"[^\n]+")
_EMPTY_LINE = regex.compile(r"\n[^\S\n]*\n\s*")

# A line with which a block begins: an entry of a list, a heading, a row of a table, a quoted line, a rule.
_FIRST_LINE = regex.compile(r"\s*(?:[-*•+]\s|\(?\w{1,3}[.)]\s|#{1,6}\s|\||>|={3,}|-{3,})")
# One with which it ends, too: a heading, a row of a table, a rule.
_ONLY_LINE = regex.compile(r"\s*(?:#{1,6}\s|\||={3,}|-{3,})")

# A character that is a word by itself, as in Chinese.
_ALONE = rf"[[{UNSPACED}]&&[\p{{L}}\p{{Nl}}\p{{No}}]]"
_LETTERS = rf"[[\w\p{{N}}\u00ad]--{_ALONE}]+"  # with the marks and joiners that `\w` has
# What stands inside a word: apostrophes and hyphens; in Hebrew a quotation mark; between digits a decimal point.
_INSIDE = r"['’\-‐‑·\u05f3\u05f4]|(?<=\p{Hebrew})\"(?=\p{Hebrew})|(?<=\d)[.,:٫٬](?=\d)"
_WORD = regex.compile(
    rf"(?={_ALONE})\X\p{{M}}*|{_LETTERS}(?:(?:{_INSIDE}){_LETTERS})*|(?!\s)\X",
    regex.V1,
)
