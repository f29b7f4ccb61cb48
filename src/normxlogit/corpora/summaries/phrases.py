"""Words, and groups of words, that can be put into a text that lacks them and taken out of one that has them."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...inputs.encoding import Encoding
from ...inputs.texts import SplitText, Text, pair_of
from ...results.units.words import word_groups

Words = tuple[str, ...]
"""The words of a text, each with the white space before it; of the last one also with what follows."""

Parts = tuple[Words, ...]
"""A text, or a pair of them."""


def parts_of(text: Text, encoding: Encoding) -> Parts:
    """Return the words of a text or a pair."""
    parts: list[Words] = []
    for sequence, part in enumerate(part for part in pair_of(text) if part is not None):
        if isinstance(part, SplitText):
            parts.append(part.words)
            continue
        spans = encoding.offsets or ()
        tokens = [(i, *spans[i]) for i, of in enumerate(encoding.sequence_ids) if of == sequence]
        ends = [end for _, end, _ in word_groups(part, tokens)]
        ends = [*ends[:-1], len(part)] if ends else []
        parts.append(tuple(part[start:end] for start, end in zip([0, *ends], ends, strict=False)))
    return tuple(parts)


def text_of(parts: Parts, *, split: bool) -> Text:
    """Return the text or the pair of some words; `split` says that the caller has split the words."""
    texts = [SplitText(part) if split else "".join(part) for part in parts]
    return (texts[0], texts[1]) if len(texts) == 2 else texts[0]


def names_of(words: Words) -> list[str]:
    """Return words as tables call them."""
    return [word.strip().lower() for word in words]


def joined(texts: Sequence[Parts]) -> Parts:
    """Return texts, or pairs of them, as one: the first texts of pairs behind each other, and so the second ones."""
    together: list[Words] = []
    for written in zip(*texts, strict=True):
        gap = _gap(written)
        later = [word for words in written[1:] for word in (gap + words[0].lstrip(), *words[1:])]
        together.append((*written[0], *later))
    return tuple(together)


def _gap(texts: Sequence[Words]) -> str:
    """Return what stands between the words of texts: a space, or nothing."""
    return " " if any(word[:1].isspace() for words in texts for word in words[1:]) else ""


@dataclass(frozen=True)
class Phrase:
    """One word, or words that follow each other.

    Attributes:
        name: How tables call it: in lower case.
        words: How many words.
    """

    name: str
    words: int = 1

    def holds(self, parts: Parts) -> bool:
        """Return whether a text has it."""
        return self._place(parts) is not None

    def put(self, parts: Parts, example: Parts) -> Parts | None:
        """Return a text with it, about where another text has it."""
        place = self._place(example)
        if place is None:
            return None
        sequence, index = place
        written, words = example[sequence], parts[sequence]
        at = round(index / max(len(written) - self.words, 1) * len(words))
        gap = _gap([written])
        added = [word.strip() for word in written[index : index + self.words]]
        inserted = tuple(word + gap if at == 0 else gap + word for word in added)
        return (*parts[:sequence], (*words[:at], *inserted, *words[at:]), *parts[sequence + 1 :])

    def without(self, parts: Parts) -> Parts | None:
        """Return a text without it, wherever it stands; None if nothing is left."""
        remaining: list[Words] = []
        for words in parts:
            names = names_of(words)
            places = {
                place + offset
                for place in range(len(words) - self.words + 1)
                if " ".join(names[place : place + self.words]) == self.name
                for offset in range(self.words)
            }
            remaining.append(tuple(word for place, word in enumerate(words) if place not in places))
        return tuple(remaining) if all(remaining) else None

    def _place(self, parts: Parts) -> tuple[int, int] | None:
        """Return the text of a pair, and the word in it, at which it begins."""
        for sequence, words in enumerate(parts):
            names = names_of(words)
            for index in range(len(names) - self.words + 1):
                if " ".join(names[index : index + self.words]) == self.name:
                    return sequence, index
        return None
