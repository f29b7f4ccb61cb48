"""How well the verdicts on sentences about documents tell true sentences from false ones, by kind of falsehood."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import DataError
from ...evaluation.datasets import parsed_rows
from ...evaluation.evidence import auroc
from ...evaluation.report import markdown_table
from ...evaluation.runs import OnProgress, ResultCache, with_progress
from ...explainer import Explainer
from ...results.storage.schema import Number
from ..citations.cite import read_answered
from ..citations.reading import SentencesAfterPrompt
from ..verdicts import Judgement, Reading, Verdict

KEPT = 0.9
"""Share of the true sentences that the threshold of the table keeps."""

JUDGEMENTS: tuple[Judgement, ...] = ("rests", "cannot tell", "contradicts", "not in the sources")


class Statement(NamedTuple):
    """A sentence about documents."""

    split: str  # "train" for the sentences that verdicts are fitted to; others are judged
    domain: str  # what the documents are about
    origin: str  # "written" by hand, or a data set
    question: str
    kind: str  # what is false; of a true sentence what is false in the other one of its pair
    sentence: str
    true: bool  # whether the documents say it


class Prompted(NamedTuple):
    """Sentences about the same documents, as answers to the same question."""

    question: str
    documents: Mapping[str, str]
    system: str | None
    statements: tuple[Statement, ...]


class MeasuredSentence(NamedTuple):
    """A sentence with what the reader makes of it."""

    statement: Statement
    features: Mapping[str, Number]  # of the verdict, by name
    verdict: Verdict


def load_statements(paths: Sequence[str | Path]) -> list[Prompted]:
    """Read sentences about documents from JSON lines.

    Args:
        paths: Files whose lines have "documents", "question" and either "pairs" ([kind, true sentence, false sentence],
            with another question as a fourth) or "sentences" ([kind, sentence], the kind "true" of true ones); and, if
            known, "split", "domain", "origin" and "system".
    """
    prompted: list[Prompted] = []
    for path in paths:
        for rows in parsed_rows(path, partial(_of_row, Path(path).stem), "not sentences about documents"):
            prompted += rows
    return prompted


def _of_row(name: str, row: Mapping[str, Any]) -> list[Prompted]:
    fields = {"split": "test", "domain": name, "origin": "written", **row}
    labelled = [
        (kind, sentence, sentence is true, question)
        for kind, true, false, *question in row.get("pairs", ())
        for sentence in (true, false)
    ]
    labelled += [(kind, sentence, kind == "true", []) for kind, sentence in row.get("sentences", ())]
    by_question: dict[str, list[Statement]] = {}
    for kind, sentence, is_true, question in labelled:
        query = str(question[0] if question else row["question"])
        texts = (str(fields["split"]), str(fields["domain"]), str(fields["origin"]), query, str(kind), str(sentence))
        by_question.setdefault(query, []).append(Statement(*texts, is_true))
    documents = {str(key): str(text) for key, text in dict(row["documents"]).items()}
    return [Prompted(query, documents, row.get("system"), tuple(group)) for query, group in by_question.items()]


def measure_statements(
    explainer: Explainer,
    prompted: Sequence[Prompted],
    folder: Path | None = None,
    on_progress: OnProgress | None = None,
) -> list[MeasuredSentence]:
    """Measure what the reader makes of each sentence."""
    cache = ResultCache[tuple[Reading, ...]](folder, explainer.language_model, [], tuple[Reading, ...])
    measured: list[MeasuredSentence] = []
    for _, prompt in with_progress("prompts", prompted, on_progress):
        request = (prompt.question, dict(prompt.documents), prompt.system, [s.sentence for s in prompt.statements])
        readings = cache.cached(partial(_read, explainer, prompt), "prompt", *request)
        pairs = zip(prompt.statements, readings, strict=True)
        measured += [MeasuredSentence(statement, reading.features, reading.verdict) for statement, reading in pairs]
    return measured


def _read(explainer: Explainer, prompt: Prompted) -> tuple[Reading, ...]:
    """Read the sentences, each as an answer of its own; those after one prompt share its passes."""
    model, question = explainer.language_model, (prompt.question, prompt.documents)
    answers = [
        read_answered(model, *question, system=prompt.system, answer=statement.sentence).completed
        for statement in prompt.statements
    ]
    return SentencesAfterPrompt(model, answers, None).readings()


def verdict_table(measured: Sequence[MeasuredSentence]) -> str:
    """Return a Markdown table of how well the judged sentences are told apart, by kind of falsehood.

    The threshold of "pass" keeps nine in ten true sentences: of the training sentences, or else of those judged.
    """
    judged = [m for m in measured if m.statement.split != "train"]
    true = [m for m in judged if m.statement.true]
    if not true or len(true) == len(judged):
        raise DataError("needs true and false sentences that are not of the split train")
    chosen_on = [m for m in measured if m.statement.split == "train" and m.statement.true] or true
    threshold = float(np.quantile(_values(chosen_on), 1 - KEPT))
    false = [m for m in judged if not m.statement.true]
    groups = {"true": true}
    for measured_sentence in sorted(false, key=lambda m: m.statement.kind):
        groups.setdefault(measured_sentence.statement.kind, []).append(measured_sentence)
    rows = []
    for name, group in {**groups, "all that are false": false}.items():
        values = np.concatenate([_values(true), _values(group)])
        area = "" if group is true else f"{auroc(values, np.arange(len(values)) < len(true)):.2f}"
        shares = [np.mean([m.verdict.judgement == judgement for m in group]) for judgement in JUDGEMENTS]
        passing = (_values(group) >= threshold).mean()
        rows.append([name, str(len(group)), area, *(f"{share:.2f}" for share in (passing, *shares))])
    columns = ["sentences", "n", "AUROC against the true ones ↑", f"pass where {KEPT:.0%} of true ones are kept"]
    return markdown_table([*columns, *JUDGEMENTS], rows)


def _values(measured: Sequence[MeasuredSentence]) -> npt.NDArray[np.float64]:
    """Return the logarithm of the probability that each sentence is covered and agreed."""
    return np.array([math.log(max(m.verdict.covered * m.verdict.agreed, 1e-300)) for m in measured])


def listed(measured: Sequence[MeasuredSentence]) -> str:
    """Return the judged sentences with their verdicts, wrong ones too, as a Markdown table."""
    rows = [
        [s.sentence, "true" if s.true else s.kind, v.judgement, f"{v.covered:.2f}", f"{v.agreed:.2f}"]
        for s, _, v in measured
        if s.split != "train"
    ]
    return markdown_table(["sentence", "kind", "verdict", "in the documents", "nothing else said"], rows)
