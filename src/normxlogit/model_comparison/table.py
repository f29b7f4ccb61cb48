"""Two models compared over a table of texts: rows of Parquet, a page, and what carries the changes most often."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..explainer import Explainer
from ..long_runs.tables import SUFFIXES, check_columns, rows_of, source_of_file
from ..pipeline.progress import progress_bar
from ..render.blocks import Block, Card, Column, Paragraph, Table, cell
from ..render.cards import cards
from ..render.html import page as drawn_page
from ..results.collection import Attributions, words_by_key
from ..results.storage.files import write_text
from ..text.same import common_spelling
from .compare import compare, explainer_or_context
from .result import ModelDifference

AT_ONCE = 1024
"""Texts that are compared and written at once."""

FIRST = 3
"""How many of a text's words carry its change: those of the highest scores."""

MOST_TEXTS = 200
"""Most texts on a page."""

MOST_WORDS = 20
"""Most words in the table of a page."""


@dataclass
class Summary:
    """Counts over texts, which are added one by one."""

    texts: int = 0
    changes: Counter[str] = field(default_factory=Counter)  # texts with which two answers, where these differ
    verified: int = 0  # of the changed texts
    agreeing: int = 0  # verified texts to which the models agree without the words that were left out
    carried: Counter[tuple[str, str]] = field(default_factory=Counter)  # texts by a word that carries it, and answers
    scores: dict[tuple[str, str], list[float]] = field(default_factory=dict)  # of the word in all such texts
    spellings: dict[str, Counter[str]] = field(default_factory=dict)  # how texts write a word

    def add(self, differences: Sequence[ModelDifference]) -> None:
        """Add texts."""
        self.texts += len(differences)
        for d in differences:
            if not d.changed:
                continue
            answers, words = d.prediction.label, words_by_key(d)
            self.changes[answers] += 1
            if d.verified is not None:
                self.verified += 1
                self.agreeing += d.verified.together.changed
            scores = {key: sum(float(word.score) for word in of_key) for key, of_key in words.items()}
            strongest = sorted(scores, key=lambda key: -scores[key])[:FIRST]
            self.carried.update((key, answers) for key in strongest if scores[key] > 0)
            for key, score in scores.items():
                self.scores.setdefault((key, answers), []).append(score)
                self.spellings.setdefault(key, Counter()).update(word.text for word in words[key])

    def blocks(self) -> list[Block]:
        """Return how many answers differ and how, and the words that carry the changes."""
        summary_line = f"The answer differs in {sum(self.changes.values())} of {self.texts} texts"
        tested = f"; the models agree on {self.agreeing} of these without the words that carry the change"
        changes = [[cell(change), cell(str(count), count)] for change, count in self.changes.most_common()]
        words = []
        for (key, answers), count in self.carried.items():
            scores, word = self.scores[key, answers], common_spelling(self.spellings[key])
            words.append((word, answers, count, len(scores), sum(scores) / len(scores)))
        rows = [
            [cell(word), cell(answers), *(cell(f"{number:.4g}", number) for number in numbers)]
            for word, answers, *numbers in sorted(words, key=lambda row: (-row[2], -row[4]))[:MOST_WORDS]
        ]
        names = ("carries it in", "changed texts with it", "mean score")
        columns = [Column("word"), Column("answers"), *(Column(name, numbers=True) for name in names)]
        tables: list[Block] = [
            Table([Column("answers"), Column("texts", numbers=True)], changes, "Answers that differ"),
            Table(columns, rows, "Words that carry the changes most often", sortable=True),
        ]
        return [Paragraph(summary_line + (tested if self.verified else "") + "."), *(tables if self.changes else [])]


def compare_table(
    before: Any,
    after: Explainer,
    table: Path,
    output: Path,
    columns: Sequence[str] = ("text",),
    *,
    verify: Any = 3,
    **options: Any,
) -> Summary:
    """Compare two models on a table of texts, and write what was found.

    Args:
        before: The model before, as in `explainer.compare_models`.
        after: The model after.
        table: A Parquet, CSV, TSV, JSONL, Arrow or text file.
        output: A new folder, for `page.html` and `rows-00000000.parquet` and so on, named by their first rows, which
            `normxlogit.load` reads.
        columns: The column of texts, or the two of pairs.
        verify: As in `explainer.compare_models`, of the texts whose answers differ.
        **options: As in `explainer.compare_models`.

    Raises:
        DataError: If the table cannot be read, or the folder is not empty.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise DataError(f"{output} is not an empty folder; give another")
    first, texts = explainer_or_context(before), _texts(table, columns)
    output.mkdir(parents=True, exist_ok=True)
    summary, shown = Summary(), list[ModelDifference]()
    with progress_bar(len(texts), None, "comparing") as update:
        for start in range(0, len(texts), AT_ONCE):
            some = texts[start : start + AT_ONCE]
            differences = list(compare(first, after, some, **options))
            changed = {place: some[place] for place, d in enumerate(differences) if d.changed}
            if verify and changed:
                verified = compare(first, after, [*changed.values()], verify=verify, **options)
                for place, d in zip(changed, verified, strict=True):
                    differences[place] = d
            Attributions(differences).save(output / f"rows-{start:08}.parquet")
            summary.add(differences)
            shown = _by_change([*shown, *differences])[:MOST_TEXTS]
            update(len(some))
    all_cards = [Card(summary.blocks(), "All texts", result=False), *cards(Attributions(shown))]
    write_text(drawn_page(all_cards, shown[0].title), output / "page.html")
    return summary


def _by_change(differences: Iterable[ModelDifference]) -> list[ModelDifference]:
    """Return differences, first those whose answers differ, then by how much the models differ."""
    return sorted(differences, key=lambda d: (not d.changed, -abs(d.measured[1] - d.measured[0])))


def _texts(table: Path, columns: Sequence[str]) -> list[Any]:
    """Return the texts of a table, or pairs of them."""
    source = source_of_file(lambda: table.open("rb"), str(table), SUFFIXES[table.suffix])
    check_columns(source.names(), columns)
    texts: list[Any] = []
    for number, row in enumerate(rows_of(source, columns)):
        cells = list(row.values())
        if not all(isinstance(cell, str) and cell.strip() for cell in cells):
            raise DataError(f"{table}, row {number}: no text")
        texts.append(tuple(cells) if len(cells) > 1 else cells[0])
    if not texts:
        raise DataError(f"{table}: no rows")
    return texts
