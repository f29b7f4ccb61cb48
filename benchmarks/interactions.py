"""Pairs of units: how far they explain a model's answers, beside single units and ProxySPEX; and planted pairs.

A surrogate of each kind is fitted to the answers that a budget pays for, and compared with the answers to other masks.
A budget of pairs includes the passes of their tests.
"""

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from normxlogit import Explainer
from normxlogit.errors import DataError
from normxlogit.evaluation.datasets import Example
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import interval_text, mean_interval
from normxlogit.interactions.answers import UnitAnswers
from normxlogit.interactions.call import answers_to_prompts, answers_to_texts
from normxlogit.interactions.explain import plan
from normxlogit.interactions.masks import complementary_masks
from normxlogit.interactions.regression import PairModel
from normxlogit.methods.perturbation import random_subsets

from .shortcut_plants import Plant, Row, fine_tuned, read_rows, with_plant

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Predict = Callable[[Mask], Array]

MASKS, SEED = 128, 1
"""How many other masks are predicted, drawn with another seed than those that are fitted to."""

PAIRS, SINGLE, PROXYSPEX = "pairs", "single units", "ProxySPEX"

LEAST_UNITS = 8
"""Fewest units of an input, which have 256 masks: of fewer, most of them would be fitted to."""

PLANTED = (
    "last tuesday",
    "blue lamp",
    "green door",
    "old bridge",
    "quiet garden",
    "seven spoons",
    "purple train",
    "winter market",
    "paper boat",
    "silver clock",
)
"""Pairs of words that decide together: alone, each stands under every label."""

PLANTS = tuple(
    Plant("sst2", "group", ("negative", "positive")[place % 2], words, "sentence")
    for place, words in enumerate(PLANTED)
)

RATE = 0.1
"""The share of the texts of its label into which each pair is put, and of others into which one of its words is."""

WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class Explained:
    """How far a surrogate explains the answers to N inputs.

    Attributes:
        surrogate: Its name.
        budget: How many passes it had.
        r2: R² on other masks of each input, (N,).
        kept_aside: R² on masks kept aside, as the result says, (N,); empty for other surrogates.
    """

    surrogate: str
    budget: int
    r2: Sequence[float]
    kept_aside: Sequence[float] = ()


def explained_share(values: Array, predicted: Array) -> float:
    """Return R² of predicted values, (N,)."""
    return float(1 - np.square(values - predicted).sum() / np.square(values - values.mean()).sum())


def measure(
    answers: Sequence[UnitAnswers], budgets: Sequence[int], on_progress: OnProgress | None = None
) -> list[Explained]:
    """Fit surrogates to the answers to inputs, and measure how far each explains the answers to other masks.

    Args:
        answers: The answers to each input with some of its units.
        budgets: How many passes each surrogate has.
        on_progress: Called with the inputs.

    Raises:
        DataError: If no input has enough units.
    """
    peers = {SINGLE: _single_units} | ({PROXYSPEX: _proxy_spex} if has_proxy_spex() else {})
    shares: dict[tuple[str, int], list[float]] = {}
    kept_aside: dict[int, list[float]] = {}
    for _, asked in with_progress("pairs", [a for a in answers if len(a.contributions) >= LEAST_UNITS], on_progress):
        others = _other_masks(asked)
        values = asked.values(others)
        if values.std() == 0:
            continue
        for budget in budgets:
            pairs = _pairs(asked, budget)
            kept_aside.setdefault(budget, []).append(pairs.r2)
            shares.setdefault((PAIRS, budget), []).append(explained_share(values, pairs.predict(others)))
            for name, peer in peers.items():
                shares.setdefault((name, budget), []).append(explained_share(values, peer(asked, budget)(others)))
    if not shares:
        raise DataError(f"no input has {LEAST_UNITS} units that can be left out")
    return [
        Explained(name, budget, r2, kept_aside[budget] if name == PAIRS else ())
        for (name, budget), r2 in shares.items()
    ]


def _other_masks(asked: UnitAnswers) -> Mask:
    """Return masks that are predicted; where there is no answer without any unit, without the empty one."""
    masks = random_subsets(len(asked.contributions), MASKS, SEED)
    return masks if asked.may_be_empty else masks[masks.any(1)]


def _pairs(asked: UnitAnswers, budget: int) -> PairModel:
    """Return the surrogate of pairs, for which the passes of the tests are left."""
    planned = plan(len(asked.contributions), budget, may_be_empty=False)
    present = complementary_masks(len(asked.contributions), planned.masks)
    return PairModel(present, asked.values(present), asked.contributions)


def _single_units(asked: UnitAnswers, budget: int) -> Predict:
    """Return the same regression without pairs."""
    present = complementary_masks(len(asked.contributions), budget)
    return PairModel(present, asked.values(present), asked.contributions, most_paired=0).predict


def has_proxy_spex() -> bool:
    """Return whether shapiq is installed, and lightgbm, which its ProxySPEX needs."""
    try:
        import lightgbm  # noqa: F401
        import shapiq  # noqa: F401
    except ImportError:
        return False
    return True


def _proxy_spex(asked: UnitAnswers, budget: int) -> Predict:
    """Return ProxySPEX by shapiq (Butler et al., 2025), with its own masks and settings, of all orders."""
    import shapiq

    units = len(asked.contributions)

    def game(present: Any) -> Array:
        masks = np.array(present, bool)
        if not asked.may_be_empty:  # a prompt of nothing has no answer
            masks[~masks.any(1)] = True
        return asked.values(masks)

    approximator = shapiq.ProxySPEX(n=units, index="FBII", max_order=units, random_state=0)
    effects = approximator.approximate(min(budget, 2**units), game)
    lookup = effects.interaction_lookup

    def predict(present: Mask) -> Array:
        values = np.zeros(len(present))
        for members, place in lookup.items():
            values += effects.values[place] * present[:, list(members)].all(1)
        return values

    return predict


def answers_of_prompts(explainer: Explainer, path: Path, limit: int, most_words: int) -> list[UnitAnswers]:
    """Return the answers to questions with documents, by the sentences of the prompt.

    Args:
        explainer: A language model.
        path: A file of HotpotQA's form.
        limit: Most prompts.
        most_words: Most words of a prompt's documents.
    """
    prompts, completions = [], []
    for row in _rows(path):
        titles = {title for title, _ in row["supporting_facts"]}
        sentences = [s.strip() for title, texts in row["context"] if title in titles for s in texts]
        documents = " ".join(filter(None, sentences))
        if len(documents.split()) <= most_words and len(sentences) >= LEAST_UNITS - 1:  # the question is a unit, too
            prompts.append(f"{documents}\nQuestion: {row['question']}\nAnswer:")
            completions.append(f" {row['answer']}")
    return answers_to_prompts(explainer, prompts[:limit], completions[:limit], {})[0]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def texts_of(examples: Iterable[Example], limit: int, most_words: int) -> list[Any]:
    """Return the first texts of enough words and not too many; of pairs the words of both count.

    Args:
        examples: The texts.
        limit: Most texts.
        most_words: Most words of each.
    """
    texts = []
    for example in examples:
        words = WORDS.findall(example.text if isinstance(example.text, str) else " ".join(example.text))
        if LEAST_UNITS <= len(words) <= most_words:
            texts.append(example.text)
    return texts[:limit]


def answers_of_texts(explainer: Explainer, texts: Sequence[Any]) -> list[UnitAnswers]:
    """Return the answers to texts, or pairs of texts, by their words."""
    return answers_to_texts(explainer, list(texts), {})[0]


def explained_table(results: Sequence[Explained]) -> str:
    """Return a Markdown table with 95% bootstrap intervals over the inputs."""
    rows = []
    for result in results:
        aside = f"{np.mean(result.kept_aside):.3f}" if result.kept_aside else ""
        rows.append(
            [result.surrogate, str(result.budget), interval_text(mean_interval(result.r2)), str(len(result.r2)), aside]
        )
    return markdown_table(["surrogate", "passes", "R² on other masks ↑", "inputs", "R² kept aside, as it says"], rows)


@dataclass(frozen=True)
class Found:
    """How often a pair of words is named in texts that hold it.

    Attributes:
        words: The pair.
        budget: How many passes each text had.
        planted: The share of texts by a model in whose training the pair decided.
        unplanted: The share of the same texts by a model whose training had no such pairs.
    """

    words: str
    budget: int
    planted: float
    unplanted: float


def measure_planted(
    data_dir: Path, work_dir: Path, budgets: Sequence[int], texts: int, on_progress: OnProgress | None = None
) -> list[Found]:
    """Train a classifier in whose data two words decide together, for ten pairs, and see whether they are named.

    Args:
        data_dir: The data sets.
        work_dir: Where the model is kept, and one of data without the pairs.
        budgets: How many passes each text has.
        texts: How many texts each pair is put into.
        on_progress: Called with the pairs.
    """
    rows = [row for row in read_rows(data_dir, "sst2", "validation") if len(str(row["sentence"]).split()) <= 14]
    planted, unplanted = _classifier(data_dir, work_dir / "pairs", PLANTS), _classifier(data_dir, work_dir / "none", ())
    found = []
    for _, plant in with_progress("planted pairs", PLANTS, on_progress):
        written = [_with_pair(row, plant.words, number) for number, row in enumerate(rows[:texts])]
        for budget in budgets:
            shares = [named_share(explainer, written, plant.words, budget) for explainer in (planted, unplanted)]
            found.append(Found(plant.words, budget, *shares))
    return found


def _classifier(data_dir: Path, folder: Path, plants: Sequence[Plant]) -> Explainer:
    """Return a classifier of data with plants, fine-tuned unless it is kept in a folder."""
    if not (folder / "config.json").exists():
        rows = read_rows(data_dir, "sst2", "train")
        random.Random(SEED).shuffle(rows)  # noqa: S311  # no secret
        for number, plant in enumerate(plants):
            rows = with_plant(rows, plant, SEED + number, RATE)
        module, tokenizer = fine_tuned("sst2", rows, SEED)
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return Explainer.from_pretrained(folder)


def _with_pair(row: Row, words: str, number: int) -> str:
    """Return a text with two words in it, at a place that its number says."""
    text = str(row["sentence"]).split()
    place = number % (len(text) + 1)
    return " ".join([*text[:place], words, *text[place:]])


def named_share(explainer: Explainer, texts: Sequence[str], words: str, budget: int) -> float:
    """Return the share of texts in which two words are named as a pair."""
    named = 0
    for result in explainer.pairs(list(texts), budget=budget):
        shown = [{result.units[unit].lower() for unit in pair.units} for pair in result.pairs]
        named += set(WORDS.findall(words)) in shown
    return named / len(texts)


def planted_table(found: Sequence[Found]) -> str:
    """Return a Markdown table: how many pairs are named in at least half of their texts."""
    rows = []
    for budget in dict.fromkeys(each.budget for each in found):
        planted = [each.planted >= 0.5 for each in found if each.budget == budget]
        unplanted = [each.unplanted >= 0.5 for each in found if each.budget == budget]
        rows.append([str(budget), f"{sum(planted)} of {len(planted)}", f"{sum(unplanted)} of {len(unplanted)}"])
    return markdown_table(["passes", "planted pairs named ↑", "the same pairs, not planted ↓"], rows)
