"""The summary of a corpus of answers: which documents they use, and how many of their sentences nothing supports."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import DataError
from ..results.citations import LEAST_SHARE
from ..results.storage.schema import plain
from ..results.units.units import APART
from .run_tables import RunTables

UNSUPPORTED = f"len(list_filter(sentence_shares, lambda share: share < {LEAST_SHARE}))"
"""The number of sentences of an answer that its sources do not support, as DuckDB computes it."""


class DocumentUse(NamedTuple):
    """How often a document is used.

    Attributes:
        name: Its name.
        answers: Answers that it was there for.
        cited: Of these, answers that cite a sentence of it.
    """

    name: str
    answers: int
    cited: int


class UnsupportedAnswer(NamedTuple):
    """An answer with sentences that its sources do not support.

    Attributes:
        id: The id of its row.
        sentences: Its sentences.
        unsupported: How many of them are not supported.
        completion: What it says.
    """

    id: str
    sentences: int
    unsupported: int
    completion: str


@dataclass(frozen=True)
class AnswerSummary:
    """What answers of a corpus rest on.

    Attributes:
        folder: Where the results are.
        model: Name of the model that read the answers.
        method: Name of the method.
        rows: Answers with a result.
        errors: Rows without one.
        complete: Whether the run was finished, so that these are all rows.
        sentences: Sentences of the answers.
        unsupported: Sentences that the documents do not support.
        threshold: The share of the documents from which on a sentence is supported.
        documents: Documents, the least used first.
        never_used: How many of them no answer cites.
        worst: Answers with the most unsupported sentences.
    """

    folder: str
    model: str
    method: str
    rows: int
    errors: int
    complete: bool
    sentences: int
    unsupported: int
    threshold: float
    documents: list[DocumentUse]
    never_used: int
    worst: list[UnsupportedAnswer]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        state: dict[str, Any] = plain(self)
        return state


def summarize_answers(run: RunTables, top: int) -> AnswerSummary:
    """Sum up a run of answers with citations."""
    if run.ask("SELECT count(*) FROM shards WHERE bias IS NULL")[0][0]:
        raise DataError(f"{run.folder.place}: support needs scores that add up, such as frozen-gradient's")
    ((answers, sentences, missing, model, method),) = run.ask(
        f"SELECT count(*), sum(len(sentence_shares)), sum({UNSUPPORTED}), any_value(model), any_value(method) "  # noqa: S608  # no user's words
        "FROM shards"
    )
    name = "regexp_replace({}, ':[0-9]+$', '')"  # a source is called by its document and its place in it
    documents = run.ask(
        f"""
        WITH used AS (
            SELECT list_transform(
                       list_filter(list_zip(unit_names, unit_kinds), lambda unit: unit[2] NOT IN {APART}),
                       lambda unit: {name.format("unit[1]")}
                   ) AS names,
                   list_transform(flatten(sentence_sources), lambda source: {name.format("source")}) AS cited
            FROM shards
        ), each AS (SELECT unnest(list_distinct(names)) AS name, cited FROM used)
        SELECT name, count(*), count(*) FILTER (list_contains(cited, name)) AS cited
        FROM each GROUP BY name ORDER BY cited, count(*) DESC, name
        """  # noqa: S608
    )
    return AnswerSummary(
        folder=run.folder.place,
        model=model or run.manifest.model["name"],
        method=method or "",
        rows=answers,
        errors=sum(done.errors for done in run.done.values()),
        complete=run.manifest.complete and run.manifest.done.keys() <= run.done.keys(),
        sentences=int(sentences or 0),
        unsupported=int(missing or 0),
        threshold=LEAST_SHARE,
        documents=[DocumentUse(*row) for row in documents[:top]],
        never_used=sum(cited == 0 for *_, cited in documents),
        worst=worst_answers(run, top),
    )


def worst_answers(run: RunTables, top: int) -> list[UnsupportedAnswer]:
    """Return the answers with the most unsupported sentences."""
    rows = run.ask(
        f"SELECT id, len(sentence_shares), {UNSUPPORTED} AS missing, completion FROM shards "  # noqa: S608
        "WHERE missing > 0 ORDER BY missing DESC, row LIMIT ?",
        top,
    )
    return [UnsupportedAnswer(*row) for row in rows]
