"""Results as tables of LaTeX."""

from typing import Any

from ..render.text import comparison_grid
from ..results.attribution import Attribution
from ..results.base import Record
from ..results.collection import Attributions
from ..results.storage.tables import Columns, named_scores, to_pandas
from ..results.units.characters import one_line

TEXT_COLUMNS = ("text", "text_pair", "method", "prediction", "probability", "value", "top_for", "top_against", "error")
"""The columns of a table of several texts, as far as the results have them."""


def to_latex(results: Record | Attributions[Any]) -> str:
    """Return a table with the rules of booktabs, see `Exports.to_latex`."""
    columns = {
        name: [one_line(value) if isinstance(value, str) else value for value in values]
        for name, values in _columns(results).items()
    }
    return to_pandas(columns).to_latex(index=False, escape=True, float_format="%.3f", na_rep="")


def _columns(results: Record | Attributions[Any]) -> Columns:
    """Return the columns of the table: a row for each unit of one text, or for each of several texts."""
    if isinstance(results, Record):
        return _unit_scores(results.scored)
    if len(results) == 1 and results[0].error is None:
        return _unit_scores(results[0].scored)
    if results.comparable:  # the same text, explained by several methods
        return _scores_by_method(results)
    table = results.to_pandas(level="text")
    return {name: table[name].tolist() for name in TEXT_COLUMNS if name in table}


def _scores_by_method(results: Attributions[Any]) -> Columns:
    """Return the names of the units of one text, without special tokens, and the scores of each method."""
    grid = comparison_grid(results.compared())
    names = [grid.columns[column] for column in grid.plain]
    scores = grid.scores[:, grid.plain].tolist()  # (methods, units)
    return {"unit": names, **dict(zip(grid.rows, scores, strict=True))}  # the rows are the methods


def _unit_scores(a: Attribution) -> Columns:
    """Return the names and scores of the units of a result."""
    names, scores = zip(*named_scores(a, "to_latex()"), strict=True)
    return {"unit": list(names), "score": list(scores)}
