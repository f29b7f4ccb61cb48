"""What may decide answers: words, groups of words, the length of a text, the overlap of a pair.

Each can be put into a text that lacks it, and words can be taken out, so that the model can be asked about the change.
"""

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
        gap = " " if any(word[:1].isspace() for word in written[1:]) else ""
        added = [word.strip() for word in written[index : index + self.words]]
        new = gap.join(added)
        inserted: Words = (new + gap,) if at == 0 else (gap + new,)
        if not gap:
            inserted = tuple(added)
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


@dataclass(frozen=True)
class Length:
    """A long or a short text: of the longest, or shortest, fifth.

    Attributes:
        name: "long text", or "short second text".
        sequence: Which text of a pair.
        bound: The words of the shortest long text, or of the longest short one.
        is_long: Whether it is long.
    """

    words = 0

    name: str
    sequence: int
    bound: int
    is_long: bool

    def holds(self, parts: Parts) -> bool:
        """Return whether a text is so long, or so short."""
        length = len(parts[self.sequence])
        return length >= self.bound if self.is_long else length <= self.bound

    def put(self, parts: Parts, _: Parts) -> Parts | None:
        """Return a text that says itself again until it is long, or that is cut."""
        words = parts[self.sequence]
        if not words:
            return None
        again = (" " + words[0].lstrip(), *words[1:])
        longer = words + again * (self.bound // len(words))
        changed = longer[: max(self.bound, 1)]
        return (*parts[: self.sequence], changed, *parts[self.sequence + 1 :])

    def without(self, _: Parts) -> Parts | None:
        """Return None: what a text would say at another length is not known."""
        return None


@dataclass(frozen=True)
class Overlap:
    """A second text that repeats the first one's words, or has few of them.

    Attributes:
        name: "second text repeats the first".
        bound: The least share of the second text's words that the first has, or the highest.
        is_high: Whether it repeats them.
    """

    words = 0

    name: str
    bound: float
    is_high: bool

    def holds(self, parts: Parts) -> bool:
        """Return whether a pair overlaps so much, or so little."""
        share = overlap(parts)
        return share >= self.bound if self.is_high else share <= self.bound

    def put(self, parts: Parts, example: Parts) -> Parts | None:
        """Return a pair whose second text goes on with the words of the first, or with those of another text."""
        first, second = parts[0], parts[1]
        known = set(names_of(first))
        added = first if self.is_high else tuple(word for word in example[1] if word.strip().lower() not in known)
        if not added:
            return None
        return (first, (*second, " " + added[0].lstrip(), *added[1:]))

    def without(self, _: Parts) -> Parts | None:
        """Return None: what a pair would say with other words is not known."""
        return None


Feature = Phrase | Length | Overlap


def overlap(parts: Parts) -> float:
    """Return the share of the words of the second text that the first has."""
    known, names = set(names_of(parts[0])), names_of(parts[1])
    return sum(name in known for name in names) / max(len(names), 1)


def properties(sample: Sequence[Parts]) -> list[Feature]:
    """Return the lengths and overlaps to test: the outer fifths of a sample of texts."""
    found: list[Feature] = []
    if not sample:
        return found
    pairs = len(sample[0]) == 2
    names = ("first text", "second text") if pairs else ("text",)
    for sequence, name in enumerate(names):
        lengths = sorted(len(parts[sequence]) for parts in sample)
        short, long = lengths[len(lengths) // 5], lengths[-1 - len(lengths) // 5]
        if short < long:
            found.append(Length(f"long {name}: {long} words or more", sequence, long, is_long=True))
            found.append(Length(f"short {name}: {short} words or fewer", sequence, short, is_long=False))
    if pairs:
        shares = sorted(map(overlap, sample))
        low, high = shares[len(shares) // 5], shares[-1 - len(shares) // 5]
        if low < high:
            found.append(Overlap(f"second text repeats the first: {high:.0%} of its words", high, is_high=True))
            found.append(Overlap(f"second text has few words of the first: {low:.0%} or less", low, is_high=False))
    return found
