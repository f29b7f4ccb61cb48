"""The summary of conversations: the kinds of messages and the tools that answers rest on."""

from dataclasses import dataclass
from typing import NamedTuple

from .answers import (
    USED,
    MeasuredUse,
    Verdicts,
    contradicted_documents,
    is_tested,
    measured_use,
    measured_uses,
    read_verdicts,
)
from .run_tables import RunTables

QUESTION = "question"
"""The name of the user's last message among the kinds of messages."""


class MessageUse(NamedTuple):
    """How often answers use a kind of message.

    Attributes:
        kind: What it is: "question", the last message of the user; "user", an earlier one; "assistant", an earlier
            answer; "system", "reasoning", "tool call" or "tool result".
        tool: Name of the tool; of other messages empty.
        conversations: Conversations that have one.
        cited: Of these, conversations whose answer cites one.
        share: The mean of their share of what speaks for the answer, over these conversations.
        measured: The losses of answers without its sources; None if not measured.
    """

    kind: str
    tool: str
    conversations: int
    cited: int
    share: float
    measured: MeasuredUse | None


class UnusedTool(NamedTuple):
    """A tool whose results no answer uses.

    Attributes:
        tool: Its name.
        conversations: Conversations with a result of it.
        results: Its results in them.
        left_out: Of these, results of which a source was left out; None if nothing was measured.
    """

    tool: str
    conversations: int
    results: int
    left_out: int | None


@dataclass(frozen=True)
class ConversationSummary(Verdicts):
    """The summary of a corpus of conversations.

    An answer uses a result that it cites, or without a source of which one of its sentences loses more than
    `LEAST_LOSS` nats, where that was measured.

    Attributes:
        messages: Kinds of messages and tools, those first that most answers cite.
        never_used: Tools whose results no answer uses, those with the most results first.
        unused: Conversations with a result of a tool that their answer does not use.
    """

    messages: list[MessageUse]
    never_used: list[UnusedTool]
    unused: int


def summarize_conversations(run: RunTables, top: int) -> ConversationSummary:
    """Sum up a run of conversations."""
    verdicts, tested = read_verdicts(run, top), is_tested(run)
    run.ask(
        f"""
        CREATE TEMP TABLE said AS
        WITH flat AS (
            SELECT row, unnest(range(1, len(message_kinds) + 1)) AS place, unnest(message_kinds) AS kind,
                   unnest(message_tools) AS tool, unnest(message_names) AS name, unnest(message_shares) AS share,
                   {"unnest(message_losses)" if tested else "NULL::FLOAT"} AS loss,
                   flatten(sentence_messages) AS cited, {contradicted_documents(run)} AS contradicted
            FROM shards
        ), last AS (SELECT row, max(place) AS place FROM flat WHERE kind = 'user' GROUP BY row)
        SELECT flat.row, CASE WHEN last.place IS NULL THEN kind ELSE '{QUESTION}' END AS kind, tool, share, loss,
               list_contains(cited, name) AS cited, coalesce(list_contains(contradicted, name), false) AS contradicted
        FROM flat LEFT JOIN last ON flat.row = last.row AND flat.place = last.place
        """  # noqa: S608
    )
    messages = run.ask(
        f"""
        WITH each AS (
            SELECT row, kind, tool, sum(share) AS share, bool_or(cited) AS cited, max(loss) AS loss,
                   bool_or(contradicted) AS contradicted
            FROM said GROUP BY row, kind, tool
        )
        SELECT kind, tool, count(*), count(*) FILTER (cited) AS citing, avg(share) AS mean, {measured_uses(run)}
        FROM each GROUP BY kind, tool ORDER BY citing DESC, mean DESC, kind, tool
        """  # noqa: S608
    )
    left_out = "count(*) FILTER (loss IS NOT NULL)" if tested else "NULL"
    unused = run.ask(
        f"""
        SELECT tool, count(DISTINCT row), count(*) AS results, {left_out} FROM said WHERE kind = 'tool result'
        GROUP BY tool HAVING NOT bool_or({USED}) ORDER BY results DESC, tool
        """  # noqa: S608
    )
    ((without,),) = run.ask(
        f"SELECT count(DISTINCT row) FROM said WHERE kind = 'tool result' AND NOT {USED}"  # noqa: S608
    )
    return ConversationSummary(
        **verdicts,
        messages=[
            MessageUse(kind, tool, count, citing, share, measured_use(use))
            for kind, tool, count, citing, share, *use in messages[:top]
        ],
        never_used=[UnusedTool(*row) for row in unused],
        unused=without,
    )
