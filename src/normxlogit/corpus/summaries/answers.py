"""The summary of cited answers: how often documents are used, and the verdicts on sentences."""

from dataclasses import dataclass
from typing import NamedTuple

from ...results.units.units import APART
from .run_tables import RunTables
from .verdicts import (
    USED,
    MeasuredUse,
    Verdicts,
    contradicted_documents,
    is_tested,
    measured_use,
    measured_uses,
    read_verdicts,
)


class DocumentUse(NamedTuple):
    """How often a document is used.

    Attributes:
        name: Its name.
        answers: Answers that it was there for.
        cited: Of these, answers that cite a sentence of it.
        measured: The losses without its sentences; None if not measured.
    """

    name: str
    answers: int
    cited: int
    measured: MeasuredUse | None


@dataclass(frozen=True)
class AnswerSummary(Verdicts):
    """The summary of a corpus of cited answers.

    Attributes:
        documents: Documents, the least used first.
        never_used: How many of them no answer cites, or loses more than `LEAST_LOSS` nats without, where measured.
    """

    documents: list[DocumentUse]
    never_used: int


def summarize_answers(run: RunTables, top: int) -> AnswerSummary:
    """Sum up a run of answers with citations."""
    verdicts = read_verdicts(run, top)
    name = "regexp_replace({}, ':[0-9]+$', '')"  # a source is called by its document and its place in it
    loss = "NULL::FLOAT"
    if is_tested(run):
        units = "len(unit_names)"  # the losses of a sentence without each unit are consecutive
        loss = f"list_max(source_losses[place + 1 : len(source_losses) : {units}])"
    documents = run.ask(
        f"""
        WITH units AS (
            SELECT *, unnest(range(len(unit_names))) AS place FROM shards
        ), named AS (
            SELECT row, {name.format("unit_names[place + 1]")} AS name, {loss} AS loss,
                   list_transform(flatten(sentence_sources), lambda source: {name.format("source")}) AS cited,
                   {contradicted_documents(run)} AS contradicted
            FROM units WHERE unit_kinds[place + 1] NOT IN {APART}
        ), each AS (
            SELECT name, max(loss) AS loss, bool_or(list_contains(cited, name)) AS cited,
                   bool_or(coalesce(list_contains(contradicted, name), false)) AS contradicted
            FROM named GROUP BY row, name
        )
        SELECT name, count(*), count(*) FILTER (cited) AS citing, {measured_uses(run)},
               bool_or({USED}) AS used
        FROM each GROUP BY name ORDER BY citing, count(*) DESC, name
        """  # noqa: S608
    )
    return AnswerSummary(
        **verdicts,
        documents=[
            DocumentUse(name, count, citing, measured_use(use)) for name, count, citing, *use, _ in documents[:top]
        ],
        never_used=sum(not used for *_, used in documents),
    )
