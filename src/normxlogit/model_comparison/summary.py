"""What changed between two models over many texts, and which words carry the changes most often."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..render.blocks import Block, Card, Column, Paragraph, Table, cell
from ..render.cards import cards
from ..render.html import page as drawn_page
from ..results.collection import Attributions
from .result import ModelDifference

FIRST = 3
"""How many of a text's words carry its change: those of the highest scores."""

SHOWN, LISTED = 200, 20
"""Most texts on a page, and most words in its table."""


@dataclass
class Summary:
    """Counts over texts, which are added one by one.

    Attributes:
        texts: How many texts.
        changes: How many of them have which two answers, where these differ.
        verified: How many of these were verified.
        agreeing: In how many of those the models agree without the words that were left out.
    """

    texts: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    verified: int = 0
    agreeing: int = 0
    _holding: Counter[str] = field(default_factory=Counter)
    _carried: Counter[tuple[str, str]] = field(default_factory=Counter)
    _scores: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def add(self, differences: Iterable[ModelDifference]) -> "Summary":
        """Add texts, and return the summary."""
        for d in differences:
            self.texts += 1
            scores: dict[str, float] = {}
            for text, score in ((word.text.casefold(), word.score) for word in d.words()):
                if any(map(str.isalnum, text)):
                    scores[text] = scores.get(text, 0.0) + float(score)
            self._holding.update(scores.keys())
            if not d.changed:
                continue
            answers = d.prediction.label
            self.changes[answers] += 1
            if d.verified is not None:
                self.verified += 1
                self.agreeing += d.verified.together.changed
            strongest = sorted(scores, key=lambda word: -scores[word])[:FIRST]
            self._carried.update((word, answers) for word in strongest if scores[word] > 0)
            for word, score in scores.items():
                self._scores.setdefault((word, answers), []).append(score)
        return self

    @property
    def words(self) -> list[dict[str, Any]]:
        """A row for each word that carries a change, those that do so in most texts first."""
        rows = []
        for (word, answers), count in self._carried.items():
            scores = self._scores[word, answers]
            numbers: dict[str, float] = {"carries it in": count, "changed texts with it": len(scores)}
            numbers |= {"texts with it": self._holding[word], "mean score": sum(scores) / len(scores)}
            rows.append({"word": word, "answers": answers, **numbers})
        return sorted(rows, key=lambda row: (-row["carries it in"], -row["mean score"]))

    def blocks(self) -> list[Block]:
        """Return how many answers differ and how, and the words that carry the changes."""
        told = f"The answer differs in {sum(self.changes.values())} of {self.texts} texts"
        tested = f"; the models agree on {self.agreeing} of these without the words that carry the change"
        changes = [[cell(change), cell(str(count), count)] for change, count in self.changes.most_common()]
        words = [
            [cell(value) if isinstance(value, str) else cell(f"{value:.4g}", value) for value in row.values()]
            for row in self.words[:LISTED]
        ]
        columns = [Column(name, numbers=i > 1) for i, name in enumerate(next(iter(self.words), ()))]
        tables: list[Block] = [
            Table([Column("answers"), Column("texts", numbers=True)], changes, "Answers that differ"),
            Table(columns, words, "Words that carry the changes most often", sortable=True),
        ]
        return [Paragraph(told + (tested if self.verified else "") + "."), *(tables if self.changes else [])]

    def page(self, differences: Sequence[ModelDifference]) -> str:
        """Return a page of the summary and some of the texts."""
        summary = Card(self.blocks(), "All texts", result=False)
        shown = Attributions(by_change(differences)[:SHOWN])
        return drawn_page([summary, *cards(shown)], shown[0].title)


def by_change(differences: Iterable[ModelDifference]) -> list[ModelDifference]:
    """Return differences, first those whose answers differ, then by how much the models differ."""
    return sorted(differences, key=lambda d: (not d.changed, -abs(d.measured[1] - d.measured[0])))
