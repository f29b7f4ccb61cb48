"""Two models compared over a table of texts: rows of Parquet, a summary and a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..long_runs.tables import SUFFIXES, check_columns, source_of_file
from ..pipeline.progress import progress_bar
from ..results.collection import Attributions
from ..results.storage.files import write_text
from .compare import compare_models
from .result import ModelDifference
from .sides import opened
from .summary import SHOWN, Summary, by_change

AT_ONCE = 1024
"""Texts that are compared and written at once."""


def compare_table(
    before: Any,
    after: Any,
    table: Path,
    output: Path,
    columns: Sequence[str] = ("text",),
    *,
    verify: Any = 3,
    **options: Any,
) -> Summary:
    """Compare two models on a table of texts, and write what was found.

    Args:
        before: As in `compare_models`.
        after: As in `compare_models`.
        table: A Parquet, CSV, TSV, JSONL, Arrow or text file.
        output: A new folder, for `page.html` and `rows-00000000.parquet` and so on, named by their first rows, which
            `normxlogit.load` reads.
        columns: The column of texts, or the two of pairs.
        verify: As in `compare_models`, of the texts whose answers differ.
        **options: Others of `compare_models`.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise DataError(f"{output} is not an empty folder; give another")
    models, texts = (opened(before), opened(after)), _texts(table, columns)
    output.mkdir(parents=True, exist_ok=True)
    summary, shown = Summary(), list[ModelDifference]()
    with progress_bar(len(texts), None, "comparing") as update:
        for start in range(0, len(texts), AT_ONCE):
            some = texts[start : start + AT_ONCE]
            found: list[ModelDifference] = list(compare_models(*models, some, **options))
            changed = [place for place, d in enumerate(found) if d.changed]
            if verify and changed:
                verified = compare_models(*models, [some[place] for place in changed], verify=verify, **options)
                for place, d in zip(changed, verified, strict=True):
                    found[place] = d
            Attributions(found).save(output / f"rows-{start:08}.parquet")
            summary.add(found)
            shown = by_change([*shown, *found])[:SHOWN]
            update(len(some))
    write_text(summary.page(shown), output / "page.html")
    return summary


def _texts(table: Path, columns: Sequence[str]) -> list[Any]:
    """Return the texts of a table, or pairs of them."""
    if table.suffix not in SUFFIXES:
        raise DataError(f"{table}: the name of a table ends in {', '.join(SUFFIXES)}")
    source = source_of_file(lambda: table.open("rb"), str(table), SUFFIXES[table.suffix])
    check_columns(source.names(), columns)
    texts: list[Any] = []
    for block in source.blocks(columns):
        for problem, *cells in zip(block.problems, *map(block.cells, columns), strict=True):
            if problem is not None or not all(isinstance(cell, str) and cell.strip() for cell in cells):
                raise DataError(f"{table}, row {len(texts)}: {problem or 'no text'}")
            texts.append(tuple(cells) if len(cells) > 1 else cells[0])
    if not texts:
        raise DataError(f"{table}: no rows")
    return texts
