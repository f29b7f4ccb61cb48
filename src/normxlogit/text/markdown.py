"""Markdown's marks: what of a text is formatting, and not the text itself."""

import regex

from .characters import Span


def link_marks(text: str) -> list[Span]:
    """Return the spans of what of links and pictures is not their text: the brackets, and the address.

    Args:
        text: A text, with or without Markdown.
    """
    spans: list[Span] = []
    for link in _LINK.finditer(text):
        spans += [(link.start(), link.start("text")), (link.end("text"), link.end())]
    return spans


def fenced_blocks(text: str) -> list[tuple[Span, Span]]:
    """Return the blocks of code between fences, each as two spans: with its fences, and what is between them.

    Args:
        text: A text, with or without Markdown. The last block may be open.
    """
    return [(match.span(), match.span("code")) for match in _FENCED.finditer(text)]


def code_spans(text: str, start: int, end: int) -> list[Span]:
    """Return the spans of code inside lines, with its backticks.

    Args:
        text: A text, with or without Markdown.
        start: Where to begin.
        end: Where to end.
    """
    return [match.span() for match in _CODE.finditer(text, start, end)]


_FENCED = regex.compile(
    r"^[ \t]*(?P<fence>```+|~~~+)[^`\n]*(?:\n|\Z)"
    r"(?P<code>(?s:.*?))(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)",
    regex.MULTILINE,
)
_CODE = regex.compile(r"(?<!`)(`++)[^`\n]++(?:(?!\1(?!`))`++[^`\n]++)*+\1(?!`)")
LINE_MARKS = regex.compile(
    r"""
    ^[^\S\n]*+(?:
        (?:```|~~~)[^`\n]*$                               # a fence of code, with its language
      | ([-*_=])(?:[^\S\n]*\1){2,}[^\S\n]*$               # a rule, or the line under a heading
      | (?=[-:|\ \t]*-[:|\ \t]*[-|])[-:|\ \t]*$           # the rule of a table
      | (?:>[ \t]?)++[ \t]*+(?:[\#•‣◦*+-]{1,6}[^\S\n]++)?     # a quoted line, and what is quoted
      | (?:\#{1,6}|[-*+•‣◦])[^\S\n]++(?:\[[ xX]\][ \t]+)?     # a heading, or an entry of a list
    )
    """,
    regex.VERBOSE | regex.MULTILINE,
)
"""Marks at the beginning of lines, and lines that are nothing but marks. The numbers of entries of lists are not among
them: "5. Mai" may begin a line."""

_LINK = regex.compile(
    r"!?\[(?P<text>(?:[^\[\]\n]|\[[^\[\]\n]{0,99}\]){1,500})\]"
    r"\((?=[^\s()]*[./\#:])[^\s()]*(?:\([^\s()]*\)[^\s()]*)?(?:[ \t]+\"[^\"\n]*\")?\)"
)
INLINE_MARKS = regex.compile(
    r"""
      (?<![\s*a-zA-Z0-9])\*+ | \*+(?![\s*a-zA-Z0-9])   # at the edges of words: not in "2*3" and "a ** b",
    | (?<=^|\s)\*+(?=\S)     | (?<=\S)\*+(?=\s|$)
    | (?<!\w)_+(?=\S)        | (?<=\S)_+(?!\w)         # "snake_case",
    | ~~(?=\S)               | (?<=\S)~~
    | (?<!\p{L})`+           | `+(?!\p{L})             # "don`t"
    | \\(?=[!-/:-@\[-`{-~])
    """,
    regex.VERBOSE | regex.MULTILINE,
)
"""The marks of emphasis and code inside lines, and backslashes before marks."""
