"""The cards of cited answers: the verdicts on their sentences, and answers with sentences that are not supported."""

from ...render.blocks import Card, Header
from ...render.describe import model_text
from ..summaries.citations import CitationSummary
from .tables import Row, part_of, table, text_cell


def citation_cards(summary: CitationSummary) -> list[Card]:
    """Return the cards of cited answers: verdicts, and answers with sentences that are not supported."""
    return [_verdicts(summary), *_unsupported_answers(summary)]


WITH_MISSING = "with a number or name that stands nowhere"


def _name_of_sources(summary: CitationSummary) -> str:
    """Return what the sources are called."""
    return "conversation" if summary.of_conversations else "documents"


def _verdicts(summary: CitationSummary) -> Card:
    """Return the card of the verdicts on all sentences."""
    counts = {
        "that are supported": summary.supported,
        "of these word for word": summary.quoted,
        WITH_MISSING: summary.with_missing,
        f"that are not from the {_name_of_sources(summary)}": summary.unsupported,
        "that cannot be told": summary.undecided,
        "that were not tested": summary.untested,
    }
    facts = [("answers", f"{summary.rows:,}"), ("sentences", f"{summary.sentences:,}")]
    facts += [(verdict, part_of(count, summary.sentences)) for verdict, count in counts.items()]
    if summary.sentences:
        low, high = summary.interval
        facts.append(("share that is supported", f"95% interval {low:.1%} to {high:.1%}, which counts answers"))
    facts += [("method", summary.method), ("model", model_text(summary.model))]
    notes = [f"rows without a result: {summary.errors:,}"] if summary.errors else []
    notes += [] if summary.complete else ["the run is not finished"]
    heading = "Conversations" if summary.of_conversations else "Answers"
    return Card([Header("", facts, notes)], heading, result=False)


def _unsupported_answers(summary: CitationSummary) -> list[Card]:
    """Return the card of answers with sentences that are not supported; none if there are no such answers."""
    if not summary.worst:
        return []
    rows: list[Row] = []
    for answer in summary.worst:
        counts = [f"{answer.unsupported} of {answer.sentences}", f"{answer.with_missing} of {answer.sentences}"]
        rows.append([answer.id, *counts, answer.missing, text_cell(answer.completion.strip())])
    columns = [
        "id",
        f"not from the {_name_of_sources(summary)}",
        WITH_MISSING,
        "words that stand nowhere there",
        "answer",
    ]
    heading = "Answers with sentences that are not supported"
    return [Card([table(columns, rows, words=5)], heading, result=False)]
