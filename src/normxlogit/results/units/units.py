"""Units, the parts of an input that have scores, as columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..storage.schema import Index, require

UnitKind = Literal[
    "token", "word", "sentence", "paragraph", "message", "span", "patch", "moment", "region", "medium", "rest", "answer"
]
"""A "span" has a name that the caller gave, a "region" is a box of a picture, a "medium" a whole picture or sound;
"rest" is what of the prompt is in no other unit, "answer" the answer's own earlier tokens."""

APART: tuple[UnitKind, ...] = ("rest", "answer")
"""Kinds of units that are not sources: the rest of a prompt, and the answer's own earlier tokens."""

NOTHING = {"spans": (0, 0), "words": (0, 0), "ids": None, "name": ""}
"""Fill values of the columns that not all units have."""


@dataclass(frozen=True, kw_only=True)
class Units:
    """The units of an input, one entry of each column for each; those of the text come first.

    Attributes:
        kind: Its kind.
        text: Its text; of a token as a readable string, of a patch its row and column.
        special: Whether a person did not write it: special tokens, a chat template's, and what is left of a
            prompt.
        sequence: Which of two texts (or pictures) it is of, 0 or 1; None for special tokens, but of a cosine, to which
            either text adds up.
        spans: Its first character in that text and one past its last, (0, 0) where it has none; None when the tokenizer
            cannot tell.
        words: The characters of the word that each is of, where the caller has split the text; (0, 0) for none. None
            where words are found in the text.
        ids: Vocabulary indices of tokens; empty if there is no vocabulary.
        name: What it is called where that is not its text, such as "returns.txt:1"; empty if nothing has a name.
    """

    kind: tuple[UnitKind, ...]
    text: tuple[str, ...]
    special: tuple[bool, ...]
    sequence: tuple[Index | None, ...]
    spans: tuple[tuple[Index, Index], ...] | None = None
    words: tuple[tuple[Index, Index], ...] | None = None
    ids: tuple[Index | None, ...] = ()
    name: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.text)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each unit; empty strings if no unit has a name other than its text."""
        return self.name or ("",) * len(self)

    @property
    def sources(self) -> list[int]:
        """The indices of the sources of an answer: all units but the rest of a prompt and the answer's own."""
        return [index for index, kind in enumerate(self.kind) if kind not in APART]

    def __add__(self, other: "Units") -> "Units":
        """Concatenate units; a column that only one of them has is filled for the other."""
        columns: dict[str, Any] = {}
        for name, ours in vars(self).items():
            theirs, filling = getattr(other, name), [NOTHING.get(name)]
            if ours or theirs:
                columns[name] = (*(ours or filling * len(self)), *(theirs or filling * len(other)))
        return replace(self, **columns)

    def take(self, indices: Sequence[int]) -> "Units":
        """Return the units at some indices, in their order."""
        columns = {name: values for name, values in vars(self).items() if values}
        return replace(self, **{name: tuple(values[i] for i in indices) for name, values in columns.items()})

    def validate(self) -> None:
        """Raise ValueError if a column does not have an entry for each."""
        for name, values in vars(self).items():
            fits = len(values or ()) == len(self) or (not values and name in NOTHING)
            require(fits, f"units, {name}: not one for each text, of which there are {len(self)}")
