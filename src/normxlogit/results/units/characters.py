"""Text that is safe to show: control characters and marks of writing direction are replaced."""

import re
import unicodedata
from typing import Literal

LENGTH = 160
"""Most characters of a text in a table or heading."""

# What replaces a control character, or a mark of writing direction: by the number of the character.
_CONTROLS: dict[int, str] = {c: chr(0x2400 + c) for c in range(32) if chr(c) not in "\n\t"} | {0x7F: "␡"}
_CONTROLS |= dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "�")
_CONTROLS |= dict.fromkeys(range(0xD800, 0xE000), "�")  # half a surrogate pair cannot be written at all
_CONTROLS |= {0x85: "↵", 0x2028: "↵", 0x2029: "↵"}
_CONTROLS |= dict.fromkeys([0x061C, 0x200E, 0x200F], "")
# What stands for white space that is shown; for a space it is "␣".
_SIGNS = {"\n": "↵", "\r": "↵", "\t": "⇥"}
# Unicode's classes of letters, by which way these are written.
_DIRECTIONS: dict[str, Literal["ltr", "rtl"]] = {"L": "ltr", "R": "rtl", "AL": "rtl"}
# Unicode's categories of punctuation marks and symbols.
_PUNCTUATION = frozenset({"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk"})
# A terminal's sequence that sets a colour.
_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")


def safe(text: str) -> str:
    """Return the text with signs for control characters and for marks of writing direction; line ends and tabs stay."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """Return the text on one line, safe to print: for errors, names and titles."""
    return safe(" ".join(text.split()))


def shortened(text: str, length: int = LENGTH) -> str:
    """Return the beginning of a text on one line."""
    text = one_line(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def safe_output(text: str) -> str:
    """Return the text with control sequences made visible, except those that set colours."""
    parts = _COLOR.split(text)  # text and colour sequences in turns, beginning with text
    parts[::2] = map(safe, parts[::2])
    return "".join(parts)


def visible(text: str) -> str:
    """Return the text on one line without outer white space; visible signs if it is only white space, or empty."""
    return " ".join(text.split()) or "".join(_SIGNS.get(c, "␣") for c in text) or "∅"


def quoted(name: str) -> str:
    """Return a name, in quotes if it is only punctuation."""
    if not name or not all(unicodedata.category(c) in _PUNCTUATION for c in name):
        return name
    return f"'{name}'" if '"' in name else f'"{name}"'


def direction(text: str) -> Literal["ltr", "rtl", "auto"]:
    """Return the writing direction of a text, that of its first letter with a direction."""
    for character in text:
        bidirectional_class = unicodedata.bidirectional(character)
        if bidirectional_class in _DIRECTIONS:
            return _DIRECTIONS[bidirectional_class]
    return "auto"
