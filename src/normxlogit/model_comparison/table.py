"""Two models compared over a table of texts: rows of Parquet, a page, and what carries the changes most often."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError
from ..explainer import Explainer
from ..long_runs.table_files import SUFFIXES, source_of_file
from ..long_runs.tables import check_columns, rows_of
from ..pipeline.progress import progress_bar
from ..render.blocks import Block, Card, Column, Paragraph, Table, cell
from ..render.cards import cards
from ..render.html import page as drawn_page
from ..results.collection import Attributions, words_by_key
from ..results.storage.files import write_text
from ..text.same import common_spelling
from .compare import compare
from .result import AFTER, BEFORE, ModelDifference
from .sides import explainer_or_context

AT_ONCE = 1024
"""Texts that are compared and written at once."""

FIRST = 3
"""How many of a text's words carry its change: those of the highest scores."""

MOST_TEXTS = 200
"""Most texts on a page."""

MOST_WORDS = 20
"""Most words in the table of a page."""


class _CarryingWord(NamedTuple):
    """A word that carries the change between two answers."""

    text: str
    answers: str  # "before → after"
    texts_carried: int  # in how many changed texts it carries the change
    texts: int  # how many changed texts hold it
    mean_score: float  # over the latter


@dataclass
class Summary:
    """Counts over texts, which are added one by one.

    A word is known by its key, the form in which words are compared, and both answers by their text, "before → after".

    Attributes:
        texts: How many texts there are.
        changes: How many texts have which two answers, of those whose answers differ: the changed texts.
        verified: How many of the changed texts were read again without the words that carry the change.
        agreeing: To how many of these the models then give the same answer.
        carried: In how many changed texts a word carries the change, by the word and the answers.
        scores: The scores of the word in all changed texts that hold it, by the word and the answers.
        spellings: How texts write a word, by the word.
    """

    texts: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    verified: int = 0
    agreeing: int = 0
    carried: Counter[tuple[str, str]] = field(default_factory=Counter)
    scores: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    spellings: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, differences: Sequence[ModelDifference]) -> None:
        """Add texts."""
        self.texts += len(differences)
        for d in differences:
            if d.changed:
                self._add_changed(d)

    def _add_changed(self, d: ModelDifference) -> None:
        """Add a text whose answers differ."""
        answers = d.prediction.label
        self.changes[answers] += 1
        if d.verified is not None:
            self.verified += 1
            self.agreeing += d.verified.together.changed  # their answers differ on the whole text, and no longer do
        scores: dict[str, float] = {}
        for key, words in words_by_key(d).items():
            # A word that stands several times in the text counts once, with the sum.
            scores[key] = sum(float(word.score) for word in words)
            self.scores.setdefault((key, answers), []).append(scores[key])
            self.spellings.setdefault(key, Counter()).update(word.text for word in words)
        # A word with a score below 0 speaks against the change.
        strongest = sorted(scores, key=lambda key: -scores[key])[:FIRST]
        self.carried.update((key, answers) for key in strongest if scores[key] > 0)

    def blocks(self) -> list[Block]:
        """Return how many answers differ and how, and the words that carry the changes."""
        sentence = f"The answer differs in {sum(self.changes.values())} of {self.texts} texts"
        if self.verified:
            sentence += f"; the models agree on {self.agreeing} of these without the words that carry the change"
        if not self.changes:
            return [Paragraph(f"{sentence}.")]
        changes = [[cell(answers), cell(str(count), count)] for answers, count in self.changes.most_common()]
        return [
            Paragraph(f"{sentence}."),
            Table([Column("answers"), Column("texts", numbers=True)], changes, "Answers that differ"),
            self._table_of_words(),
        ]

    def _table_of_words(self) -> Table:
        """Return the table of the words that carry the changes of most texts."""
        words = []
        for (key, answers), count in self.carried.items():
            scores = self.scores[key, answers]
            words.append(
                _CarryingWord(
                    common_spelling(self.spellings[key]),
                    answers,
                    texts_carried=count,
                    texts=len(scores),
                    mean_score=sum(scores) / len(scores),
                )
            )
        words.sort(key=lambda word: (-word.texts_carried, -word.mean_score))
        rows = []
        for word in words[:MOST_WORDS]:
            numbers = (word.texts_carried, word.texts, word.mean_score)
            rows.append([cell(word.text), cell(word.answers), *(cell(f"{number:.4g}", number) for number in numbers)])
        names_of_numbers = ("carries it in", "changed texts with it", "mean score")
        columns = [Column("word"), Column("answers"), *(Column(name, numbers=True) for name in names_of_numbers)]
        return Table(columns, rows, "Words that carry the changes most often", sortable=True)


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
    before = explainer_or_context(before)  # the model is loaded once, not for each part of the table
    texts = _texts(table, columns)
    output.mkdir(parents=True, exist_ok=True)
    summary = Summary()
    shown: list[ModelDifference] = []
    with progress_bar(len(texts), None, "comparing") as update:
        for start in range(0, len(texts), AT_ONCE):
            texts_at_once = texts[start : start + AT_ONCE]
            differences = list(compare(before, after, texts_at_once, **options))
            changed_texts = {index: texts_at_once[index] for index, d in enumerate(differences) if d.changed}
            if verify and changed_texts:
                # Texts without a change have none that words could carry, and are not read again.
                verified = compare(before, after, list(changed_texts.values()), verify=verify, **options)
                for index, d in zip(changed_texts, verified, strict=True):
                    differences[index] = d
            Attributions(differences).save(output / f"rows-{start:08}.parquet")
            summary.add(differences)
            shown = _by_change([*shown, *differences])[:MOST_TEXTS]
            update(len(texts_at_once))
    # A table without rows was refused, so that there is a first result.
    all_cards = [Card(summary.blocks(), "All texts", result=False), *cards(Attributions(shown))]
    write_text(drawn_page(all_cards, shown[0].title), output / "page.html")
    return summary


def _by_change(differences: Iterable[ModelDifference]) -> list[ModelDifference]:
    """Return differences, first those whose answers differ, then by how much the models differ."""
    return sorted(differences, key=lambda d: (not d.changed, -abs(d.measured[AFTER] - d.measured[BEFORE])))


def _texts(table: Path, columns: Sequence[str]) -> list[Any]:
    """Return the texts of a table, or pairs of them where two columns are named."""
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
