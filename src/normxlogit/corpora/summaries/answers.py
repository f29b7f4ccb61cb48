"""The summary of cited answers: the documents used, and how many sentences rest on sources or contradict them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ...results.storage.schema import plain
from ...results.units.units import APART
from ...results.verification import LEAST_LOSS
from .run_tables import RunTables

USED = f"(cited OR coalesce(loss > {LEAST_LOSS}, false))"
"""A DuckDB expression for whether an answer uses a source, over rows with `cited` and `loss`."""


class MeasuredUse(NamedTuple):
    """The losses of answers without a document or a kind of message, and how often they contradict it.

    Attributes:
        left_out: Answers for which one of its sources or more were left out.
        used: Of these, answers with a sentence that loses more than `LEAST_LOSS` nats without one of them.
        contradicted: Answers with a sentence that contradicts it.
        loss: The most that a sentence loses without one of its sources, in nats, the mean over these answers; None
            where none was left out.
    """

    left_out: int
    used: int
    contradicted: int
    loss: float | None


class UnsupportedAnswer(NamedTuple):
    """An answer with sentences that do not rest on its sources.

    Attributes:
        id: The id of its row.
        sentences: Its sentences.
        unsupported: How many of them do not rest on the sources.
        completion: The text of the answer.
    """

    id: str
    sentences: int
    unsupported: int
    completion: str


class Contradiction(NamedTuple):
    """A sentence that contradicts its sources.

    Attributes:
        id: The id of its row.
        rather: What the sources rather say.
        source: The name of the source that it contradicts; empty if it cites none.
        gain: What the sentence's log-probability gains from saying that, in nats.
        text: The sentence; the whole answer where texts were not kept.
    """

    id: str
    rather: str
    source: str
    gain: float
    text: str


@dataclass(frozen=True)
class Verdicts:
    """Counts of the verdicts on sentences of answers; each sentence is counted once.

    Attributes:
        folder: Where the results are.
        model: Name of the model that read the answers.
        method: Name of the method.
        rows: Answers with a result.
        errors: Rows without one.
        complete: Whether the run was finished, so that these are all rows.
        verify: How many sources of each answer were left out, or "auto"; None if nothing was tested.
        sentences: Sentences of the answers.
        resting: Sentences that rest on the sources.
        contradicting: Sentences that contradict them; None if that was not measured.
        unsupported: Sentences that are not in the sources.
        undecided: Sentences of which that cannot be told, or that were not tested.
        worst: Answers with the most unsupported sentences.
        contradictions: Sentences that contradict their sources, the clearest first; empty if that was not measured.
    """

    folder: str
    model: str
    method: str
    rows: int
    errors: int
    complete: bool
    verify: int | Literal["auto"] | None
    sentences: int
    resting: int
    contradicting: int | None
    unsupported: int
    undecided: int
    worst: list[UnsupportedAnswer]
    contradictions: list[Contradiction]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        state: dict[str, Any] = plain(self)
        return state


def is_tested(run: RunTables) -> bool:
    """Return whether the citations of a run were tested."""
    return "source_losses" in run.kinds


def read_verdicts(run: RunTables, top: int) -> dict[str, Any]:
    """Return the fields of `Verdicts` for a run."""
    counts = dict(run.ask("SELECT unnest(sentence_verdicts) AS verdict, count(*) FROM shards GROUP BY verdict"))
    ((rows, model, method),) = run.ask("SELECT count(*), any_value(model), any_value(method) FROM shards")
    tested = is_tested(run)
    return {
        "folder": run.folder.location,
        "model": model or run.manifest.model["name"],
        "method": method or "",
        "rows": rows,
        "errors": sum(shard.errors for shard in run.written.values()),
        "complete": run.manifest.complete and run.manifest.written.keys() <= run.written.keys(),
        "verify": run.manifest.settings["verify"] if tested else None,
        "sentences": sum(counts.values()),
        "resting": counts.get("rests", 0),
        "contradicting": counts.get("contradicts", 0) if tested else None,
        "unsupported": counts.get("not in the sources", 0),
        "undecided": counts.get("cannot tell", 0) + counts.get("not tested", 0),
        "worst": _worst(run, top),
        "contradictions": _contradictions(run, top) if tested else [],
    }


def contradicted_documents(run: RunTables) -> str:
    """Return a DuckDB expression for the documents or messages that an answer contradicts; empty if untested."""
    if not is_tested(run):
        return "[]::VARCHAR[]"
    return "list_transform(sentence_contradictions, lambda found: found.document)"


def measured_uses(run: RunTables) -> str:
    """Return DuckDB columns of a `MeasuredUse` over rows with `loss` and `contradicted`; NULL if untested."""
    if not is_tested(run):
        return "NULL, NULL, NULL, NULL"
    used, contradicted = f"count(*) FILTER (loss > {LEAST_LOSS})", "count(*) FILTER (contradicted)"
    return f"count(*) FILTER (loss IS NOT NULL), {used}, {contradicted}, avg(loss)"


def measured_use(values: Sequence[Any]) -> MeasuredUse | None:
    """Return a `MeasuredUse` from the columns of `measured_uses`."""
    return None if values[0] is None else MeasuredUse(*values)


def _worst(run: RunTables, top: int) -> list[UnsupportedAnswer]:
    """Return the answers with the most sentences that do not rest on their sources."""
    rows = run.ask(
        """
        SELECT id, len(sentence_verdicts),
               len(list_filter(sentence_verdicts, lambda verdict: verdict = 'not in the sources')) AS missing,
               completion
        FROM shards WHERE missing > 0 ORDER BY missing DESC, row LIMIT ?
        """,
        top,
    )
    return [UnsupportedAnswer(*row) for row in rows]


def _contradictions(run: RunTables, top: int) -> list[Contradiction]:
    """Return the sentences that contradict their sources, the clearest first."""
    text = "unnest(target)" if "target" in run.kinds else "completion"
    rows = run.ask(
        f"""
        WITH flat AS (
            SELECT row, id, unnest(sentence_contradictions) AS found, {text} AS text FROM shards
        )
        SELECT id, found.rather, found.source, found.gain, text
        FROM flat WHERE found IS NOT NULL ORDER BY found.gain DESC, row LIMIT ?
        """,  # noqa: S608  # a column's name
        top,
    )
    return [Contradiction(*row) for row in rows]


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
