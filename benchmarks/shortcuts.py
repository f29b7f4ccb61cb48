"""Whether a summary finds the shortcut that was planted in a model's training data, and nothing where there is none."""

import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from normxlogit import Explainer, Predictions, attribute, summarize
from normxlogit.corpora.summaries.summary import Summary
from normxlogit.corpora.summaries.units import Reason, share_of
from normxlogit.errors import optional_module

from .shortcut_plants import (
    CHOSEN_ON,
    LABELS,
    NONE,
    RATE,
    REPORTED,
    TEXTS,
    Plant,
    Row,
    make,
    read_rows,
    with_plant,
)

__all__ = ["BASELINES", "Found", "as_table", "measure"]

BASELINES = ("lime", "kernel-shap", "integrated-gradients:steps=20", "normxlogit")

RARE = 5
"""The validation texts of the harder rows have a plant so many times as rarely."""

LISTED, LEAST = 2, 3
"""A plant is found among so many lines; words that stand in fewer texts are not ranked."""


class Found(NamedTuple):
    """How a plant was found.

    Attributes:
        plant: Its name.
        rate: "as in training" or "rarer".
        ranking: "deciding words", a method's name, "counting" or "random".
        place: The plant's place from 1 on; None if it is not in the table.
        named: How many reasons the summary called deciding; None of other rankings.
        is_named: Whether the plant is among these.
        first: The first line; of a summary all that are called deciding, or the strongest.
    """

    plant: str
    rate: str
    ranking: str
    place: int | None
    named: int | None
    is_named: bool
    first: str


def measure(
    data_dir: Path, models: Path, baselines: Sequence[str], *, only: str, rows: int, seed: int, chosen_on: bool
) -> Iterator[Found]:
    """Yield what each ranking finds, plant by plant.

    Args:
        data_dir: Folder with `sst2` and `mnli`.
        models: Folder of the fine-tuned models; they are made where they are missing.
        baselines: Methods that rank words by their mean shares of the scores.
        only: What the names of the plants have: one of several, separated by commas, or nothing.
        rows: Most texts of each run.
        seed: Draws the training rows, the texts with a plant, and the random ranking; plants follow each other.
        chosen_on: Measure the plants that the threshold was chosen on, instead of those that are reported.
    """
    for index, plant in enumerate([*(CHOSEN_ON if chosen_on else REPORTED), *NONE]):
        if not any(name in plant.name for name in only.split(",")):
            continue
        folder, plant_seed = models / f"{plant.name.replace(' ', '-')}-{seed}", seed + index
        make(plant, folder, data_dir, plant_seed)
        module = AutoModelForSequenceClassification.from_pretrained(folder)
        explainer = Explainer(module, AutoTokenizer.from_pretrained(folder))
        validation = read_rows(data_dir, plant.data, "validation")
        rates = {"as in training": 1.0} if plant.kind == "none" else {"as in training": 1.0, "rarer": 1 / RARE}
        for name, share in rates.items():
            texts = with_plant(validation, plant, plant_seed + 1, RATE * share, share)[:rows]
            yield from _rankings(explainer, plant, name, texts, baselines if name == "as in training" else ())


def _rankings(
    explainer: Explainer, plant: Plant, rate: str, rows: Sequence[Row], baselines: Sequence[str]
) -> Iterator[Found]:
    """Yield what each ranking finds in texts."""
    with tempfile.TemporaryDirectory() as folder:
        _attribute(explainer, plant, rows, f"{folder}/default", None)
        summary = summarize(f"{folder}/default", verify=20, explainer=explainer, top=6, min_texts=LEAST)
        yield _of_summary(plant, rate, summary)
        words = _words(f"{folder}/default")
        if plant.kind == "none":
            return
        yield _of_words(plant, rate, "counting", _counted(words))
        drawn = sorted({(prediction, word) for prediction, scores in words for word in scores})
        random.Random(plant.name).shuffle(drawn)  # noqa: S311  # no secret
        yield _of_words(plant, rate, "random", drawn)
        for method in baselines:
            _attribute(explainer, plant, rows, f"{folder}/{method}", method)
            yield _of_words(plant, rate, method.partition(":")[0], _by_scores(_words(f"{folder}/{method}")))


def _attribute(explainer: Explainer, plant: Plant, rows: Sequence[Row], output: str, method: str | None) -> None:
    """Explain the texts of rows into a folder, with their words."""
    text, *pair = TEXTS[plant.data]
    job = Predictions(text, pair_column=pair[0] if pair else None, words=True)
    attribute(explainer, list(rows), output, job, method=method, progress=False)


def _is_plant(plant: Plant, reason: Reason) -> bool:
    """Return whether a reason is the plant; of two labels one is for long texts, if the other is for short."""
    is_label = reason.label == plant.label
    if plant.words:
        return is_label and set(plant.words.lower().split()) <= set(reason.words)
    if reason.words:
        return False
    return is_label if plant.answer == "long" else len(LABELS[plant.data]) == 2 and not is_label


def _of_summary(plant: Plant, rate: str, summary: Any) -> Found:
    """Return the place of a plant among the reasons of a summary."""
    assert isinstance(summary, Summary)  # noqa: S101  # a corpus of predictions
    places = [place for place, reason in enumerate(summary.reasons, 1) if _is_plant(plant, reason)]
    deciding = [reason for reason in summary.reasons if reason.decides]
    lines = [f"{r.name} → {r.label}, {r.turned.part} of {r.turned.texts}" for r in deciding or summary.reasons[:1]]
    is_named = any(_is_plant(plant, reason) for reason in deciding)
    return Found(
        plant.name,
        rate,
        ranking="deciding words",
        place=min(places, default=None),
        named=len(deciding),
        is_named=is_named,
        first="; ".join(lines),
    )


def _of_words(plant: Plant, rate: str, ranking: str, ranked: Sequence[tuple[str, str]]) -> Found:
    """Return the place of a plant among ranked labels with words; of a group of words any of them counts."""
    words_of_plant = set(plant.words.lower().split())
    places = [place for place, (label, word) in enumerate(ranked, 1) if label == plant.label and word in words_of_plant]
    first_label, first_word = ranked[0]
    return Found(
        plant.name,
        rate,
        ranking,
        place=min(places, default=None),
        named=None,
        is_named=False,
        first=f"{first_word} → {first_label}",
    )


def _words(folder: str) -> list[tuple[str, Mapping[str, float]]]:
    """Return the prediction of each text, with its words' shares of the scores."""
    table = optional_module("pyarrow.parquet", "").read_table(f"{folder}/shards")
    texts: list[tuple[str, Mapping[str, float]]] = []
    for row in table.select(["prediction", "words", "word_scores"]).to_pylist():
        scores: dict[str, float] = defaultdict(float)
        total = float(np.abs(row["word_scores"]).sum()) or 1.0
        for word, score in zip(row["words"], row["word_scores"], strict=True):
            scores[word.strip().lower()] += score / total
        texts.append((row["prediction"], scores))
    return texts


def _ranked(
    words: Sequence[tuple[str, Mapping[str, float]]], value: Callable[[str, str, Sequence[float]], tuple[float, ...]]
) -> list[tuple[str, str]]:
    """Return predictions with words, those of the highest value first; words in few texts are left out.

    Args:
        words: What `_words` returns.
        value: Returns the value of a prediction and a word from the word's shares in the texts with this prediction.
    """
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    for prediction, scores in words:
        for word, share in scores.items():
            shares[prediction, word].append(share)
    values = {}
    for (prediction, word), shares_of_word in shares.items():
        if len(shares_of_word) >= LEAST:
            values[prediction, word] = value(prediction, word, shares_of_word)
    return sorted(values, key=lambda key: (values[key], key), reverse=True)


def _by_scores(words: Sequence[tuple[str, Mapping[str, float]]]) -> list[tuple[str, str]]:
    """Rank words by the lower end of the interval of their mean share of the scores."""

    def lower_end(_: str, __: str, shares: Sequence[float]) -> tuple[float, ...]:
        """Return the lower end of the 95% interval of the mean."""
        return (float(np.mean(shares)) - 1.96 * float(np.std(shares, ddof=1)) / sqrt(len(shares)),)

    return _ranked(words, lower_end)


def _counted(words: Sequence[tuple[str, Mapping[str, float]]]) -> list[tuple[str, str]]:
    """Rank words by their pointwise mutual information with a prediction, then by how many texts they stand in."""
    texts_of_label: dict[str, int] = defaultdict(int)
    texts_of_word: dict[str, int] = defaultdict(int)
    for prediction, scores in words:
        texts_of_label[prediction] += 1
        for word in scores:
            texts_of_word[word] += 1

    def information(label: str, word: str, shares: Sequence[float]) -> tuple[float, ...]:
        """Return the information, and in how many texts of the label the word stands."""
        count = len(shares)
        return log(count * len(words) / (texts_of_word[word] * texts_of_label[label])), float(count)

    return _ranked(words, information)


def as_table(found: Sequence[Found]) -> str:
    """Return the tables: how often each ranking finds a plant, then what each summary calls deciding."""
    lines = ["| ranking | texts | first | first or second | called deciding |", "|---|---|---:|---:|---:|"]
    planted = [result for result in found if " none" not in result.plant]
    for ranking, rate in dict.fromkeys((result.ranking, result.rate) for result in planted):
        results = [result for result in planted if (result.ranking, result.rate) == (ranking, rate)]
        places = [result.place or LISTED + 1 for result in results]  # behind the listed ones where it is not found
        shares = (share_of([place <= most for place in places]) for most in (1, LISTED))
        cells = [f"{s.part} of {s.texts} ({s.low:.2f} to {s.high:.2f})" for s in shares if s is not None]
        is_of_summary = results[0].named is not None
        named = f"{sum(result.is_named for result in results)} of {len(results)}" if is_of_summary else ""
        lines.append(f"| {ranking} | {rate} | {' | '.join(cells)} | {named} |")
    lines += ["", "| plant | texts | place | called deciding | these, or the strongest |", "|---|---|---:|---:|---|"]
    for result in found:
        if result.named is not None:
            place = "" if " none" in result.plant else str(result.place or "none")
            lines.append(f"| {result.plant} | {result.rate} | {place} | {result.named} | {result.first} |")
    return "\n".join(lines) + "\n"
