"""What the paper shows by example: the sentences of its data with their evidence, and the signs of one explanation."""

from pathlib import Path

from normxlogit.evaluation.datasets import SAMPLE, load_examples
from normxlogit.evaluation.report import markdown_table
from normxlogit.explainer import Explainer
from normxlogit.results.storage.files import write_text

from .blimp import PARADIGMS, Counts, load_pairs
from .evidence import evidence_of
from .minimal_pairs import Pair

__all__ = ["TEXT", "paradigm_table", "sign_table"]

TEXT = "The movie is mediocre, maybe even bad."
"""Explained where no other text is given."""


def paradigm_table(*, data_dir: str | Path | None = None, limit: int | None = None) -> str:
    """Show the first pair of each of BLiMP's paradigms: its target, the foil, and the words that tell its form.

    Args:
        data_dir: Folder with `PARADIGM.jsonl`; the hub otherwise.
        limit: Only so many rows of each paradigm, which the counts are of.

    Returns:
        A table in Markdown: the target in italics, the evidence in bold.

    Raises:
        DataError: If there is no data or no parser.
    """
    counts = Counts()
    pairs = load_pairs("test", counts, data_dir=data_dir, limit=limit)
    examples: dict[str, list[tuple[Pair, tuple[tuple[int, int], ...]]]] = {short: [] for short in PARADIGMS}
    for pair, words in zip(pairs, evidence_of(pairs), strict=True):
        if words:
            examples[pair.group].append((pair, words))
    table = []
    for short, paradigm in PARADIGMS.items():
        example = foil = ""
        if examples[short]:
            pair, words = examples[short][0]
            marks = [(words[0][0], words[-1][1], "**"), (*pair.target, "*")]
            example, foil = _marked(pair.good, marks), pair.bad[slice(*pair.foil)]
        table.append([short, paradigm.name, example, foil, str(counts.rows[short]), str(len(examples[short]))])
    columns = ["paradigm", "name in BLiMP", "example", "foil", "rows", "with evidence"]
    return f"The target in italics, the evidence in bold.\n\n{markdown_table(columns, table)}"


def _marked(text: str, spans: list[tuple[int, int, str]]) -> str:
    for start, end, mark in sorted(spans, reverse=True):
        text = f"{text[:start]}{mark}{text[start:end]}{mark}{text[end:]}"
    return text


def sign_table(explainer: Explainer, output: Path, *, text: str = TEXT) -> str:
    """Take one explanation apart into norm and logit, and count how many scores speak for the answer.

    Args:
        explainer: A classifier of single texts.
        output: Folder for the explanation as a page, `figure1.html`.
        text: What is explained.

    Returns:
        Markdown: the table, and the shares of scores above zero in this text and in the sentences of the package.
    """
    norm, logit, product = (explainer(text, method=name) for name in ("input-norm", "logat", "normxlogit"))
    every = zip(product.tokens, norm.scores, logit.scores, product.scores, strict=True)
    rows = [[token.replace("|", "/"), *(f"{value:.3f}" for value in values)] for token, *values in every]
    table = markdown_table(["token", "norm of the embedding", "LogAt", "NormXLogit"], rows)
    explained = explainer([example.text for example in load_examples(SAMPLE)], method="normxlogit")
    above, count = sum(int((a.scores > 0).sum()) for a in explained), sum(len(a.scores) for a in explained)
    output.mkdir(parents=True, exist_ok=True)
    write_text(product.to_html(), output / "figure1.html")
    prediction = f"{product.prediction.label}, {product.prediction.probability:.3f}" if product.prediction else ""
    above_here = int((product.scores > 0).sum())
    return (
        f"{explainer.task_model.name}: {prediction}\n\n{table}\n"
        f"Scores above zero: {above_here} of {len(product.scores)} tokens here, {above / count:.3f} of the {count} "
        f"tokens of the {len(explained)} sentences in the package.\n"
    )
