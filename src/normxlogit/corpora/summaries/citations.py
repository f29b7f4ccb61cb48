"""The summary of cited answers: the verdicts on their sentences."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...long_runs.intervals import wilson_interval
from ...results.storage.schema import Number
from .run_tables import RunSummary, RunTables


class UnsupportedAnswer(NamedTuple):
    """An answer with sentences that are not from its sources, or with a number or name that stands nowhere."""

    id: str  # the id of its row
    sentences: int  # how many sentences it has
    unsupported: int  # how many of them are not from the sources
    with_missing: int  # how many have a number or name that stands nowhere
    missing: str  # the words of these that stand in no source
    completion: str  # the text of the answer


@dataclass(frozen=True, kw_only=True)
class CitationSummary(RunSummary):
    """The summary of a corpus of cited answers; each sentence has one verdict.

    Attributes:
        of_conversations: Whether the sources are messages of conversations, and not documents.
        verify: Which sources of each answer were left out; None if none was.
        sentences: Sentences of the answers.
        supported: Sentences that the sources support, or have word for word.
        quoted: Those of them that stand there word for word.
        with_missing: Sentences with a number or name that stands nowhere.
        unsupported: Sentences that are not from the sources.
        undecided: Sentences of which that cannot be told.
        untested: Sentences that were not tested.
        interval: The 95% interval of the share of supported sentences; NaN if there is none.
        worst: Answers with the most sentences that are not from the sources, or have a number or name that stands
            nowhere.
    """

    of_conversations: bool
    verify: Any
    sentences: int
    supported: int
    quoted: int
    with_missing: int
    unsupported: int
    undecided: int
    untested: int
    interval: tuple[Number, Number]
    worst: list[UnsupportedAnswer]


def summarize_citations(run: RunTables, top: int) -> CitationSummary:
    """Sum up a run of cited answers.

    Args:
        run: The run's tables.
        top: The length of the list of answers.
    """
    counts = dict(run.ask("SELECT unnest(sentence_verdicts) AS verdict, count(*) FROM shards GROUP BY verdict"))
    counts.pop("rests on", 0)  # a part of a tool's call, which is not a sentence
    # A row whose parts all "rest on" sources is a call of a tool.
    is_answer = "len(list_filter(sentence_verdicts, lambda verdict: verdict <> 'rests on')) > 0"
    ((answers,),) = run.ask(f"SELECT count(*) FROM shards WHERE {is_answer}")  # noqa: S608
    supported = counts.get("supported", 0) + counts.get("quoted", 0)
    sentences = sum(counts.values())
    # Without their texts (`keep_text`) answers lack these columns.
    text = "completion" if "completion" in run.column_types else "''"
    missing = "array_to_string(flatten(sentence_missing), ', ')" if "sentence_missing" in run.column_types else "''"
    worst = run.ask(
        f"""
        SELECT id, len(sentence_verdicts),
               len(list_filter(sentence_verdicts, lambda verdict: verdict = 'not in the sources')) AS foreign_sentences,
               len(list_filter(sentence_verdicts, lambda verdict: verdict = 'missing')) AS with_missing,
               {missing}, {text}
        FROM shards WHERE foreign_sentences + with_missing > 0
        ORDER BY foreign_sentences + with_missing DESC, row LIMIT ?
        """,  # noqa: S608  # names of columns
        top,
    )
    return CitationSummary(
        **run.described(),
        of_conversations="message_spans" in run.column_types,
        verify=run.manifest.settings["verify"] if "source_losses" in run.column_types else None,
        sentences=sentences,
        supported=supported,
        quoted=counts.get("quoted", 0),
        with_missing=counts.get("missing", 0),
        unsupported=counts.get("not in the sources", 0),
        undecided=counts.get("cannot tell", 0),
        untested=counts.get("not tested", 0),
        # The sentences of one answer are not independent.
        interval=wilson_interval(supported / sentences, answers) if sentences else (math.nan, math.nan),
        worst=[UnsupportedAnswer(*row) for row in worst],
    )
