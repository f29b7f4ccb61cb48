"""The summary of cited answers: the verdicts on their sentences."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from .run_tables import RunSummary, RunTables


class UnsupportedAnswer(NamedTuple):
    """An answer with sentences that do not rest on its sources."""

    id: str  # the id of its row
    sentences: int  # how many sentences it has
    unsupported: int  # how many of them do not rest on the sources
    completion: str  # the text of the answer


class Contradiction(NamedTuple):
    """A sentence that contradicts its sources."""

    id: str  # the id of its row
    rather: str  # what the sources rather say
    source: str  # the name of the source that it contradicts; empty if it cites none
    gain: float  # what the sentence's log-probability gains from saying that, in nats
    text: str  # the sentence; the whole answer where texts were not kept


@dataclass(frozen=True, kw_only=True)
class CitationSummary(RunSummary):
    """The summary of a corpus of cited answers; each sentence has one verdict.

    Attributes:
        of_conversations: Whether the sources are messages of conversations, and not documents.
        verify: Which sources of each answer were left out; None if nothing was tested.
        sentences: Sentences of the answers.
        resting: Sentences that rest on the sources.
        contradicting: Sentences that contradict them; None if that was not measured.
        unsupported: Sentences that are not in the sources.
        undecided: Sentences of which that cannot be told, or that were not tested.
        worst: Answers with the most unsupported sentences.
        contradictions: Sentences that contradict their sources, the clearest first; empty if that was not measured.
    """

    of_conversations: bool
    verify: Any
    sentences: int
    resting: int
    contradicting: int | None
    unsupported: int
    undecided: int
    worst: list[UnsupportedAnswer]
    contradictions: list[Contradiction]


def summarize_citations(run: RunTables, top: int) -> CitationSummary:
    """Sum up a run of cited answers; `top` is the length of the lists."""
    tested, of_conversations = "source_losses" in run.kinds, "message_spans" in run.kinds
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
    return CitationSummary(
        **run.described(),
        of_conversations=of_conversations,
        verify=run.manifest.settings["verify"] if tested else None,
        sentences=sum(counts.values()),
        resting=counts.get("rests", 0),
        contradicting=counts.get("contradicts", 0) if tested else None,
        unsupported=counts.get("not in the sources", 0),
        undecided=counts.get("cannot tell", 0) + counts.get("not tested", 0),
        worst=[UnsupportedAnswer(*row) for row in worst],
        contradictions=_contradictions(run, top) if tested else [],
    )


def _contradictions(run: RunTables, top: int) -> list[Contradiction]:
    """Return the sentences that contradict their sources, the clearest first."""
    text = "target[found.target + 1]" if "target" in run.kinds else "completion"
    rows = run.ask(
        f"""
        WITH flat AS (SELECT *, unnest(sentence_contradictions) AS found FROM shards)
        SELECT id, found.rather, found.source, found.gain, {text}
        FROM flat WHERE found IS NOT NULL ORDER BY found.gain DESC, row LIMIT ?
        """,  # noqa: S608  # a column's name
        top,
    )
    return [Contradiction(*row) for row in rows]
