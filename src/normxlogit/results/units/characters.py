"""Text that is safe to show: control characters and marks of writing direction are replaced."""

import re
import unicodedata
from typing import Literal


def safe(text: str) -> str:
    """Return the text without control characters; line ends and tabs stay.

    Control characters become signs for them, marks that embed or override the writing direction become "�", line and
    paragraph separators "↵". Marks without width that only hint at the direction are left out.
    """
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """Return the text on one line, safe to print: for errors, names and titles."""
    return safe(" ".join(text.split()))


def escaped(text: str) -> str:
    """Return the text with unprintable characters as escapes, as in `repr` of strings."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def safe_output(text: str) -> str:
    """Return the text with control sequences made visible, except those that set colours."""
    substrings = _COLOR.split(text)
    return "".join(substring if index % 2 else safe(substring) for index, substring in enumerate(substrings))


def visible(text: str) -> str:
    """Return the text without outer white space, or a visible sign if it is only white space."""
    if text.strip():
        return text.strip()
    return "".join(_SIGNS.get(c, "␣") for c in text) or "∅"


def quoted(name: str) -> str:
    """Return a name, in quotes if it is only punctuation."""
    if not name or not all(unicodedata.category(c) in _PUNCTUATION for c in name):
        return name
    return f"'{name}'" if '"' in name else f'"{name}"'


def direction(text: str) -> Literal["ltr", "rtl", "auto"]:
    """Return the writing direction of a text, that of its first letter with a direction."""
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in ("R", "AL"):
            return "rtl"
        if kind == "L":
            return "ltr"
    return "auto"


_CONTROLS: dict[int, str] = {c: chr(0x2400 + c) for c in range(32) if chr(c) not in "\n\t"} | {0x7F: "␡"}
_CONTROLS |= dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "�")
_CONTROLS |= dict.fromkeys(range(0xD800, 0xE000), "�")  # half a surrogate pair cannot be written at all
_CONTROLS |= {0x85: "↵", 0x2028: "↵", 0x2029: "↵"}
_CONTROLS |= dict.fromkeys([0x061C, 0x200E, 0x200F], "")
_SIGNS = {"\n": "↵", "\r": "↵", "\t": "⇥"}
_PUNCTUATION = frozenset({"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk"})
_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")
