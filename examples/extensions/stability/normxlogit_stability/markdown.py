"""An export: the words of a result as a table of Markdown."""

from normxlogit import Attribution


def to_markdown(result: Attribution, *, digits: int = 2) -> str:
    """Return a row for each word, with its score."""
    rows = [f"| {word.text} | {word.score:.{digits}f} |" for word in result.words()]
    return "\n".join(["| word | score |", "|---|---|", *rows])
