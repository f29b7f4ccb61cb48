"""The summary of cited answers: which documents or messages they use, and the verdicts on their sentences."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ...results.storage.schema import plain
from ...results.units.units import APART
from ...results.verification import LEAST_LOSS
from .run_tables import RunTables

QUESTION = "question"
"""The name of the user's last message among the kinds of messages."""


class SourceUse(NamedTuple):
    """How often answers use a document, or a kind of message.

    Attributes:
        name: The name of the document; of messages "question", the last message of the user, "user", an earlier one,
            "assistant", an earlier answer, "system", "reasoning", "tool call" or "tool result".
        tool: The name of the tool; empty if there is none.
        answers: Answers that it was there for.
        cited: Of these, answers that cite a source in it.
        share: The mean of its share of what speaks for the answer.
    """

    name: str
    tool: str
    answers: int
    cited: int
    share: float


class UnsupportedAnswer(NamedTuple):
    """An answer with sentences that do not rest on its sources.

    Attributes:
        id: The id of its row.
        sentences: How many sentences it has.
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
class CitationSummary:
    """The summary of a corpus of cited answers; each sentence has one verdict.

    Attributes:
        folder: Where the results are.
        model: Name of the model that read the answers.
        method: Name of the method.
        rows: Answers with a result.
        errors: Rows without one.
        complete: Whether the run was finished, so that these are all rows.
        of_conversations: Whether the sources are messages of conversations, and not documents.
        verify: How many sources of each answer were left out, or "auto"; None if nothing was tested.
        sentences: Sentences of the answers.
        resting: Sentences that rest on the sources.
        contradicting: Sentences that contradict them; None if that was not measured.
        unsupported: Sentences that are not in the sources.
        undecided: Sentences of which that cannot be told, or that were not tested.
        worst: Answers with the most unsupported sentences.
        contradictions: Sentences that contradict their sources, the clearest first; empty if that was not measured.
        uses: Documents, the least cited first; or kinds of messages, the most cited first.
        unused: Documents, or tools' results, that no answer cites, or loses more than `LEAST_LOSS` nats without.
    """

    folder: str
    model: str
    method: str
    rows: int
    errors: int
    complete: bool
    of_conversations: bool
    verify: int | Literal["auto"] | None
    sentences: int
    resting: int
    contradicting: int | None
    unsupported: int
    undecided: int
    worst: list[UnsupportedAnswer]
    contradictions: list[Contradiction]
    uses: list[SourceUse]
    unused: list[SourceUse]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        state: dict[str, Any] = plain(self)
        return state


def summarize_citations(run: RunTables, top: int) -> CitationSummary:
    """Sum up a run of cited answers; `top` is the length of the lists."""
    tested, of_conversations = "source_losses" in run.kinds, "message_kinds" in run.kinds
    counts = dict(run.ask("SELECT unnest(sentence_verdicts) AS verdict, count(*) FROM shards GROUP BY verdict"))
    worst = run.ask(
        """
        SELECT id, len(sentence_verdicts),
               len(list_filter(sentence_verdicts, lambda verdict: verdict = 'not in the sources')) AS missing,
               completion
        FROM shards WHERE missing > 0 ORDER BY missing DESC, row LIMIT ?
        """,
        top,
    )
    uses = _uses(run, of_conversations=of_conversations, tested=tested)
    could_be_used = [(use, used) for use, used in uses if not of_conversations or use.name == "tool result"]
    return CitationSummary(
        **run.described(),
        rows=run.ask("SELECT count(*) FROM shards")[0][0],
        of_conversations=of_conversations,
        verify=run.manifest.settings["verify"] if tested else None,
        sentences=sum(counts.values()),
        resting=counts.get("rests", 0),
        contradicting=counts.get("contradicts", 0) if tested else None,
        unsupported=counts.get("not in the sources", 0),
        undecided=counts.get("cannot tell", 0) + counts.get("not tested", 0),
        worst=[UnsupportedAnswer(*row) for row in worst],
        contradictions=_contradictions(run, top) if tested else [],
        uses=[use for use, _ in uses[:top]],
        unused=[use for use, used in could_be_used if not used],
    )


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


def _uses(run: RunTables, *, of_conversations: bool, tested: bool) -> list[tuple[SourceUse, bool]]:
    """Return the documents or kinds of messages, and whether an answer uses each."""
    if of_conversations:
        loss = "unnest(message_losses)" if tested else "NULL::FLOAT"
        sources = f"""
            SELECT row, CASE WHEN kind = 'user' AND place = max(place) FILTER (kind = 'user') OVER (PARTITION BY row)
                        THEN '{QUESTION}' ELSE kind END AS name, tool, share, loss, source, cited
            FROM (
                SELECT row, unnest(range(len(message_kinds))) AS place, unnest(message_kinds) AS kind,
                       unnest(message_tools) AS tool, unnest(message_shares) AS share, {loss} AS loss,
                       unnest(message_names) AS source, flatten(sentence_messages) AS cited
                FROM shards
            )
        """  # noqa: S608  # constants
    else:
        document = "regexp_replace({}, ':[0-9]+$', '')"  # a source is called by its document and its place in it
        # The losses of a sentence without each unit are consecutive.
        loss = "list_max(source_losses[place : len(source_losses) : len(unit_names)])" if tested else "NULL::FLOAT"
        sources = f"""
            SELECT row, {document.format("unit_names[place]")} AS name, '' AS tool, shares[place] AS share,
                   {loss} AS loss, name AS source,
                   list_transform(flatten(sentence_sources), lambda source: {document.format("source")}) AS cited
            FROM (SELECT *, unnest(range(1, len(unit_names) + 1)) AS place FROM shards)
            WHERE unit_kinds[place] NOT IN {APART}
        """  # noqa: S608  # constants
    rows = run.ask(
        f"""
        WITH sources AS ({sources}), each AS (
            SELECT name, tool, sum(share) AS share, max(loss) AS loss, bool_or(list_contains(cited, source)) AS cited
            FROM sources GROUP BY row, name, tool
        )
        SELECT name, tool, count(*), count(*) FILTER (cited) AS citing, avg(share) AS mean,
               bool_or(cited OR coalesce(loss > {LEAST_LOSS}, false))
        FROM each GROUP BY name, tool
        ORDER BY {"citing DESC, mean DESC" if of_conversations else "citing, count(*) DESC"}, name, tool
        """  # noqa: S608  # constants
    )
    return [(SourceUse(*use), used) for *use, used in rows]
