"""The summary of a corpus of conversations: what answers rest on, by kind of message and by tool."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import DataError
from ..results.citations import LEAST_SHARE
from ..results.storage.schema import plain
from .answer_summary import UNSUPPORTED, UnsupportedAnswer, worst_answers
from .run_tables import RunTables

QUESTION = "question"
"""What the last message of the user is called beside the kinds of messages."""


class MessageUse(NamedTuple):
    """How often answers rest on a kind of message.

    Attributes:
        kind: What it is: "question", the last message of the user; "user", an earlier one; "assistant", an earlier
            answer; "system", "reasoning", "tool call" or "tool result".
        tool: Name of the tool; of other messages empty.
        conversations: Conversations that have one.
        cited: Of these, conversations whose answer cites one.
        share: The mean of their share of what speaks for the answer, over these conversations.
    """

    kind: str
    tool: str
    conversations: int
    cited: int
    share: float


class UnusedTool(NamedTuple):
    """A tool in whose conversations no answer cites a result of it.

    Attributes:
        tool: Its name.
        conversations: Conversations with a result of it.
        results: Its results in them.
    """

    tool: str
    conversations: int
    results: int


@dataclass(frozen=True)
class ConversationSummary:
    """What the answers of conversations rest on.

    Attributes:
        folder: Where the results are.
        model: Name of the model that read the conversations.
        method: Name of the method.
        rows: Conversations with a result.
        errors: Rows without one.
        complete: Whether the run was finished, so that these are all rows.
        sentences: Sentences of the answers.
        unsupported: Sentences that do not rest on the conversation.
        threshold: The share of the conversation from which on a sentence rests on it.
        messages: Kinds of messages and tools, those first that most answers cite.
        never_used: Tools whose results no answer cites, those with the most results first.
        unused: Conversations with a result of a tool that their answer does not cite.
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
    messages: list[MessageUse]
    never_used: list[UnusedTool]
    unused: int
    worst: list[UnsupportedAnswer]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        state: dict[str, Any] = plain(self)
        return state


def summarize_conversations(run: RunTables, top: int) -> ConversationSummary:
    """Sum up a run of conversations."""
    if run.ask("SELECT count(*) FROM shards WHERE bias IS NULL")[0][0]:
        raise DataError(f"{run.folder.place}: support needs scores that add up, such as frozen-gradient's")
    ((rows, sentences, missing, model, method),) = run.ask(
        f"SELECT count(*), sum(len(sentence_shares)), sum({UNSUPPORTED}), any_value(model), any_value(method) "  # noqa: S608  # no user's words
        "FROM shards"
    )
    run.ask(
        f"""
        CREATE TEMP TABLE said AS
        WITH flat AS (
            SELECT row, unnest(range(1, len(message_kinds) + 1)) AS place, unnest(message_kinds) AS kind,
                   unnest(message_tools) AS tool, unnest(message_names) AS name, unnest(message_shares) AS share,
                   flatten(sentence_messages) AS cited
            FROM shards
        ), last AS (SELECT row, max(place) AS place FROM flat WHERE kind = 'user' GROUP BY row)
        SELECT flat.row, CASE WHEN last.place IS NULL THEN kind ELSE '{QUESTION}' END AS kind, tool, share,
               list_contains(cited, name) AS cited
        FROM flat LEFT JOIN last ON flat.row = last.row AND flat.place = last.place
        """  # noqa: S608
    )
    messages = run.ask(
        """
        WITH each AS (
            SELECT row, kind, tool, sum(share) AS share, bool_or(cited) AS cited FROM said GROUP BY row, kind, tool
        )
        SELECT kind, tool, count(*), count(*) FILTER (cited) AS citing, avg(share) AS mean
        FROM each GROUP BY kind, tool ORDER BY citing DESC, mean DESC, kind, tool
        """
    )
    unused = run.ask(
        """
        SELECT tool, count(DISTINCT row), count(*) AS results FROM said WHERE kind = 'tool result'
        GROUP BY tool HAVING NOT bool_or(cited) ORDER BY results DESC, tool
        """
    )
    ((without,),) = run.ask("SELECT count(DISTINCT row) FROM said WHERE kind = 'tool result' AND NOT cited")
    return ConversationSummary(
        folder=run.folder.place,
        model=model or run.manifest.model["name"],
        method=method or "",
        rows=rows,
        errors=sum(done.errors for done in run.done.values()),
        complete=run.manifest.complete and run.manifest.done.keys() <= run.done.keys(),
        sentences=int(sentences or 0),
        unsupported=int(missing or 0),
        threshold=LEAST_SHARE,
        messages=[MessageUse(*row) for row in messages[:top]],
        never_used=[UnusedTool(*row) for row in unused],
        unused=without,
        worst=worst_answers(run, top),
    )
