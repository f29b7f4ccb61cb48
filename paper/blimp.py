"""BLiMP's agreement paradigms: minimal pairs that differ in the word that must agree (Warstadt et al., 2020)."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from normxlogit.errors import DataError
from normxlogit.evaluation.datasets import read_rows

from .minimal_pairs import Pair, difference

__all__ = ["PARADIGMS", "Counts", "Half", "Kind", "Paradigm", "expanded", "is_plural", "load_pairs"]

Kind = Literal["anaphor", "determiner", "subject"]
Half = Literal["train", "test"]

SPLIT_SEED = 0
"""Seed of the halves: a model fine-tuned on one half is always measured on the other."""


@dataclass(frozen=True)
class Paradigm:
    """One of the data set's paradigms.

    Attributes:
        name: Its name in BLiMP.
        short: The paper's.
        kind: What the target must agree with: its antecedent, the noun it determines, or its subject.
        balanced: Whether as many singular as plural targets are kept, as in the paper.
    """

    name: str
    short: str
    kind: Kind
    balanced: bool = False


PARADIGMS = {
    paradigm.short: paradigm
    for paradigm in (
        Paradigm("anaphor_number_agreement", "ana", "anaphor"),
        Paradigm("determiner_noun_agreement_2", "dna", "determiner"),
        Paradigm("determiner_noun_agreement_with_adj_2", "dnaa", "determiner"),
        Paradigm("distractor_agreement_relational_noun", "darn", "subject"),
        Paradigm("regular_plural_subject_verb_agreement_1", "rpsv", "subject", balanced=True),
    )
}


_PLURAL = {"are", "were", "have", "do", "these", "those", "themselves"}


def is_plural(pair: Pair) -> bool:
    """Return whether the target of a pair is a plural form."""
    target, foil = pair.good[slice(*pair.target)].lower(), pair.bad[slice(*pair.foil)].lower()
    if target in _PLURAL or foil in _PLURAL:
        return target in _PLURAL
    return len(target) < len(foil)  # verbs: the singular has the ending


@dataclass
class Counts:
    """Counts of rows kept and left out, by paradigm.

    Attributes:
        rows: Rows looked at.
        dropped: Rows left out, by reason.
    """

    rows: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def drop(self, short: str, reason: str) -> None:
        """Count a row of a paradigm that is left out."""
        self.dropped[short][reason] += 1

    def kept(self, short: str) -> int:
        """Count the rows of a paradigm that were not left out."""
        return self.rows[short] - self.dropped[short].total()

    def state(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            short: {"rows": rows, "kept": self.kept(short), "dropped": dict(self.dropped[short])}
            for short, rows in self.rows.items()
        }


_CONTRACTION = re.compile(r"(?i)\b(?P<stem>ca|wo|sha|\w+)n['’]t\b")
_STEMS = {"ca": "can", "wo": "will ", "sha": "shall "}


def expanded(sentence: str) -> str:
    """Write contractions out: couldn't is could not, can't cannot, won't will not.

    What ends in 's is left: it cannot be told from a possessive without parsing.
    """

    def expand(match: re.Match[str]) -> str:
        stem = match["stem"]
        irregular = _STEMS.get(stem.lower())
        return f"{stem} not" if irregular is None else f"{stem[0]}{irregular[1:]}not"

    return _CONTRACTION.sub(expand, sentence)


def load_pairs(
    half: Half, counts: Counts, *, data_dir: str | Path | None = None, limit: int | None = None
) -> list[Pair]:
    """Read one half of every paradigm; rows that do not differ in one word are counted and left out.

    The halves are drawn from a paradigm's rows before anything is left out, so that they have no row in common
    whatever a tokenizer or parser leaves out later.

    Args:
        half: "train" or "test".
        counts: Counts what is read and left out.
        data_dir: Folder with `PARADIGM.jsonl` (or .parquet, .csv); the hub's `nyu-mll/blimp` otherwise.
        limit: Only so many rows of each paradigm.

    Raises:
        DataError: If a paradigm is not there, or a row lacks a sentence.
    """
    pairs = []
    for paradigm in PARADIGMS.values():
        rows, where = _rows(paradigm, data_dir)
        order = list(range(len(rows)))
        random.Random(SPLIT_SEED).shuffle(order)  # noqa: S311  # no secret; the same in every version of Python
        middle = len(order) // 2
        chosen = sorted(order[:middle] if half == "train" else order[middle:])[:limit]
        for number in chosen:
            counts.rows[paradigm.short] += 1
            good, bad = (_sentence(rows[number], name, number, where) for name in ("sentence_good", "sentence_bad"))
            spans = difference(good, bad)
            if isinstance(spans, str):
                counts.drop(paradigm.short, spans)
            else:
                pairs.append(Pair(paradigm.short, good, bad, *spans))
    if not pairs:
        raise DataError(f"{data_dir or 'nyu-mll/blimp'}: no pair of sentences that differ in one word")
    return pairs


def _rows(paradigm: Paradigm, data_dir: str | Path | None) -> tuple[Any, str]:
    if data_dir is not None:
        paths = [Path(data_dir) / f"{paradigm.name}{suffix}" for suffix in (".jsonl", ".parquet", ".csv")]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise DataError(f"{data_dir}: no {paths[0].name}, .parquet or .csv there")
        return read_rows(path), str(path)
    from datasets import load_dataset

    where = f"nyu-mll/blimp ({paradigm.name})"
    try:
        return load_dataset("nyu-mll/blimp", paradigm.name, split="train"), where
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{where}: could not be downloaded from the hub ({reason}); pass data_dir") from None


def _sentence(row: Mapping[str, Any], column: str, number: int, where: str) -> str:
    text = row.get(column)
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where}, row {number}, column {column!r}: expected a sentence, got {text!r}")
    return expanded(text)
