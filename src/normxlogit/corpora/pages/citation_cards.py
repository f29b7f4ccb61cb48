"""The cards of cited answers: the verdicts on their sentences, contradictions, and what is not in the sources."""

from ...render.blocks import Card, Cell, Header
from ...render.describe import model_text
from ...results.verification import likelihood_text
from ..summaries.citations import CitationSummary
from .tables import part_of, table, text_cell


def citation_cards(summary: CitationSummary) -> list[Card]:
    """Return the cards of cited answers: verdicts, contradictions, and unsupported sentences."""
    return [_verdicts(summary), *_contradictions(summary), *_unsupported_answers(summary)]


def _sources(summary: CitationSummary) -> str:
    """Return what the sources are called."""
    return "conversation" if summary.of_conversations else "documents"


def _verdicts(summary: CitationSummary) -> Card:
    """Return the card of the verdicts on all sentences."""
    tested, sources = summary.verify is not None, _sources(summary)
    verdicts = {
        f"rest on the {sources}": summary.resting,
        "contradict a source": summary.contradicting,
        f"are not in the {sources}": summary.unsupported,
        "cannot be told" if tested else "were not tested": summary.undecided,
    }
    measured = {verdict: count for verdict, count in verdicts.items() if count is not None}
    facts = [("answers", f"{summary.rows:,}"), ("sentences", f"{summary.sentences:,}")]
    facts += [(f"that {verdict}", part_of(count, summary.sentences)) for verdict, count in measured.items()]
    facts += [("method", summary.method), ("model", model_text(summary.model))]
    notes = [] if tested else ["nothing was left out to test it: attribute with --verify auto"]
    notes += [f"rows without a result: {summary.errors:,}"] if summary.errors else []
    notes += [] if summary.complete else ["the run is not finished"]
    heading = "Conversations" if summary.of_conversations else "Answers"
    return Card([Header("", facts, notes)], heading, result=False)


def _contradictions(summary: CitationSummary) -> list[Card]:
    """Return the card of sentences that contradict a source; none without any."""
    rows: list[list[str | Cell]] = []
    for found in summary.contradictions:
        likelier = likelihood_text(found.gain) if found.gain else ""
        rows.append([found.id, found.rather, likelier, found.source, text_cell(found.text.strip())])
    columns = ["id", "rather said", "which is", "source", "text"]
    return [Card([table(columns, rows, words=5)], "Sentences that contradict a source", result=False)] if rows else []


def _unsupported_answers(summary: CitationSummary) -> list[Card]:
    """Return the card of answers with sentences that are not in the sources; none without any."""
    rows: list[list[str | Cell]] = []
    for answer in summary.worst:
        sentences = f"{answer.unsupported} of {answer.sentences}"
        rows.append([answer.id, sentences, text_cell(answer.completion.strip())])
    heading = f"Answers with sentences that are not in the {_sources(summary)}"
    return [Card([table(["id", "sentences", "answer"], rows, words=3)], heading, result=False)] if rows else []
