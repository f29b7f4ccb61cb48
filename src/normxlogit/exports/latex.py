"""Results as tables of LaTeX."""

from typing import Any

from ..render.text import comparison_grid
from ..results.attribution import Attribution
from ..results.base import Record
from ..results.collection import Attributions
from ..results.storage.tables import Columns, named_scores, to_pandas
from ..results.units.characters import one_line

OF_TEXTS = ("text", "text_pair", "method", "prediction", "probability", "value", "top_for", "top_against", "error")
"""The columns of a table of several texts, of those that there are."""


def to_latex(results: Record | Attributions[Any]) -> str:
    """Return a table with the rules of booktabs, see `Exports.to_latex`."""
    columns = {
        name: [one_line(value) if isinstance(value, str) else value for value in values]
        for name, values in _columns(results).items()
    }
    return to_pandas(columns).to_latex(index=False, escape=True, float_format="%.3f", na_rep="")


def _columns(results: Record | Attributions[Any]) -> Columns:
    """Return the columns of the table: of units, of methods, or of texts."""
    if isinstance(results, Record):
        return _unit_scores(results.scored)
    if len(results) == 1 and results[0].error is None:
        return _unit_scores(results[0].scored)
    if results.comparable:
        grid = comparison_grid(results.compared())
        scores = grid.scores[:, grid.plain].tolist()  # (M, words)
        return {"unit": [grid.columns[index] for index in grid.plain], **dict(zip(grid.rows, scores, strict=True))}
    table = results.to_pandas(level="text")
    return {name: table[name].tolist() for name in OF_TEXTS if name in table}


def _unit_scores(a: Attribution) -> Columns:
    """Return the names and scores of the units of a result."""
    names, scores = zip(*named_scores(a, "to_latex()"), strict=True)
    return {"unit": list(names), "score": list(scores)}
