"""Which columns of a corpus hold texts, where nobody names the column."""

import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, cast

from ...long_runs.tables import RowSource

SEVERAL_WORDS = re.compile(
    r"[^\W\d_]\W*\s\W*[^\W\d_]|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
)
"""Two words, or a letter of Thai, Lao, Burmese, Khmer, Japanese or Chinese."""


def columns_of_text(source: RowSource, names: Sequence[str], id_column: str | None) -> list[str]:
    """Return the columns whose cells are mostly texts: several words, or writing that has no spaces between words.

    Args:
        source: The rows, of which the first block is read.
        names: The columns.
        id_column: The column of ids, which is not a text.
    """
    if not names or len(set(names)) < len(names):  # columns of one name cannot be read, which others refuse
        return []
    with closing(cast(Any, source.blocks(names))) as blocks:  # a generator, which may hold a file open
        block = next(blocks, None)
    if block is None:
        return []
    return [name for name in names if name != id_column and _are_mostly_texts(block.cells(name))]


def _are_mostly_texts(cells: Iterable[Any]) -> bool:
    """Return whether at least half of some cells are texts of several words; empty ones do not count."""
    filled = [cell for cell in cells if cell is not None and cell != ""]
    texts = [cell for cell in filled if isinstance(cell, str) and SEVERAL_WORDS.search(cell)]
    return bool(filled) and 2 * len(texts) >= len(filled)
