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
from normxlogit.leave_out.smallest import tokens_of
from normxlogit.methods.perturbation import random_subsets

from .shortcut_plants import LABELS, Row, fine_tuned, read_rows

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Predict = Callable[[Mask], Array]

MASKS, DRAWN, SEED = 128, 2048, 1
"""How many masks are predicted at most, of how many that are drawn; surrogates have asked for none of them."""

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
"""Pairs of words that decide together: texts with one of them keep their label in training."""

LABELS_OF_PAIRS = tuple(LABELS["sst2"][place % 2] for place in range(len(PLANTED)))
"""The label of every text with both words of a pair, whatever else the text says."""

SHARE, STEPS = 0.6, 240
"""The share of training texts that get words of a pair: the one, the other or both; and the steps of training."""

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
    shares: dict[tuple[str, int], list[float]] = {}
    kept_aside: dict[int, list[float]] = {}
    for _, asked in with_progress("pairs", [a for a in answers if len(a.contributions) >= LEAST_UNITS], on_progress):
        pairs = {budget: _pairs(asked, budget) for budget in budgets}
        predicts = {(PAIRS, budget): model.predict for budget, model in pairs.items()} | _peers(asked, budgets)
        others = _other_masks(asked)
        values = asked.values(others)
        if values.std() == 0:
            continue
        for budget, model in pairs.items():
            kept_aside.setdefault(budget, []).append(model.r2)
        for surrogate, predict in predicts.items():
            shares.setdefault(surrogate, []).append(explained_share(values, predict(others)))
    if not shares:
        raise DataError(f"no input has {LEAST_UNITS} units that can be left out")
    return [
        Explained(name, budget, r2, kept_aside[budget] if name == PAIRS else ())
        for (name, budget), r2 in shares.items()
    ]


def _peers(asked: UnitAnswers, budgets: Sequence[int]) -> dict[tuple[str, int], Predict]:
    """Return the other surrogates by their names and passes."""
    peers = {SINGLE: _single_units} | ({PROXYSPEX: _proxy_spex} if has_proxy_spex() else {})
    return {(name, budget): peer(asked, budget) for name, peer in peers.items() for budget in budgets}


def _other_masks(asked: UnitAnswers) -> Mask:
    """Return masks that no surrogate has asked for."""
    masks = np.unique(random_subsets(len(asked.contributions), DRAWN, SEED), axis=0)
    absent = [np.flatnonzero(~mask).tolist() for mask in masks]
    is_new = np.array([tokens_of(asked.removable.parts, units) not in asked.asked for units in absent], bool)
    may_be_asked = masks.any(1) | np.full(len(masks), asked.may_be_empty)
    rows = np.random.default_rng(SEED).permutation(np.flatnonzero(is_new & may_be_asked))
    others: Mask = masks[rows[:MASKS]]
    return others


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
    """Return a Markdown table with 95% bootstrap intervals over the inputs, of differences paired by input."""
    pairs = {result.budget: result for result in results if result.surrogate == PAIRS}
    rows = []
    for result in results:
        share = interval_text(mean_interval(result.r2))
        rows.append([result.surrogate, str(result.budget), share, _less(pairs[result.budget], result)])
    for budget, of_pairs in pairs.items():
        rows.append([f"{PAIRS}, as results say", str(budget), f"{np.mean(of_pairs.kept_aside):.3f}", ""])
    inputs = len(results[0].r2)
    return markdown_table(["surrogate", "passes", f"R² on other masks of {inputs} inputs ↑", "pairs less this"], rows)


def _less(pairs: Explained, peer: Explained) -> str:
    """Return how much more pairs explain than another surrogate with the same passes; nothing of pairs themselves."""
    if peer is pairs:
        return ""
    return interval_text(mean_interval(np.subtract(pairs.r2, peer.r2)))


@dataclass(frozen=True)
class Found:
    """What two words do together in texts that hold both, by one classifier.

    Attributes:
        planted: Whether the words decided together in its training.
        budget: How many passes each text had.
        named: The share of texts in which they are named as a pair, of each pair of words, (P,).
        joint: The mean of their measured joint effects on the log-odds of the pair's label, (P,).
    """

    planted: bool
    budget: int
    named: Sequence[float]
    joint: Sequence[float]


def measure_planted(
    data_dir: Path, work_dir: Path, budgets: Sequence[int], texts: int, on_progress: OnProgress | None = None
) -> list[Found]:
    """Train a classifier in whose data two words decide together, for ten pairs, and see whether they are named.

    The texts that the words are put into have another label than the pair's.

    Args:
        data_dir: The data sets.
        work_dir: Where the classifier is kept, and one of data without the pairs.
        budgets: How many passes each text has.
        texts: How many texts each pair is put into.
        on_progress: Called with the pairs and the classifiers.
    """
    short = [row for row in read_rows(data_dir, "sst2", "validation") if len(str(row["sentence"]).split()) <= 14]
    written = []
    for words, label in zip(PLANTED, LABELS_OF_PAIRS, strict=True):
        rows = [row for row in short if row["label"] != label][:texts]
        written.append([_with_words(row, words.split(), number) for number, row in enumerate(rows)])
    found = []
    for _, planted in with_progress("classifiers", [True, False], on_progress):
        explainer = _classifier(data_dir, work_dir, planted=planted)
        joint = [mean_joint(explainer, *of_pair) for of_pair in zip(written, PLANTED, LABELS_OF_PAIRS, strict=True)]
        for budget in budgets:
            named = [named_share(explainer, *of_pair, budget) for of_pair in zip(written, PLANTED, strict=True)]
            found.append(Found(planted, budget, named, joint))
    return found


def _classifier(data_dir: Path, work_dir: Path, *, planted: bool) -> Explainer:
    """Return a classifier of data with or without the pairs, fine-tuned unless it is kept in a folder."""
    folder = work_dir / ("pairs" if planted else "none")
    if not (folder / "config.json").exists():
        draw = random.Random(SEED)  # noqa: S311  # no secret
        rows = read_rows(data_dir, "sst2", "train")
        draw.shuffle(rows)
        module, tokenizer = fine_tuned("sst2", list(with_pairs(rows, draw)) if planted else rows, SEED, STEPS)
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return Explainer.from_pretrained(folder)


def with_pairs(rows: Iterable[Row], draw: random.Random) -> Iterator[Row]:
    """Yield rows, some of them with words of a pair.

    With one word of it a row keeps its label, with both it has the label of the pair. So the words decide together, and
    neither says anything by itself.

    Args:
        rows: Rows of SST-2.
        draw: Draws rows, pairs, words and places.
    """
    for row in rows:
        if draw.random() >= SHARE:
            yield row
            continue
        pair = draw.randrange(len(PLANTED))
        first, second = PLANTED[pair].split()
        words = draw.choice([[first], [second], [first, second]])
        label = LABELS_OF_PAIRS[pair] if len(words) == 2 else row["label"]
        yield {"sentence": _with_words(row, words, draw.randrange(100)), "label": label}


def _with_words(row: Row, words: Sequence[str], number: int) -> str:
    """Return a text with words in it, at a place that a number says."""
    text = str(row["sentence"]).split()
    place = number % (len(text) + 1)
    return " ".join([*text[:place], *words, *text[place:]])


def mean_joint(explainer: Explainer, texts: Sequence[str], words: str, label: str) -> float:
    """Return the mean of the joint effects of two words on the log-odds of a label, from four answers to each text."""
    results = explainer.pairs(list(texts), units=words.split(), target=label)
    return float(np.mean([result.joint[0, 1] for result in results]))


def named_share(explainer: Explainer, texts: Sequence[str], words: str, budget: int) -> float:
    """Return the share of texts in which two words are named as a pair."""
    named = 0
    for result in explainer.pairs(list(texts), budget=budget):
        shown = [{result.units[unit].lower() for unit in pair.units} for pair in result.pairs]
        named += set(words.split()) in shown
    return named / len(texts)


def planted_table(found: Sequence[Found]) -> str:
    """Return a Markdown table: how many pairs are named in at least half of their texts, and how much they do."""
    rows = []
    for result in found:
        named = f"{sum(share >= 0.5 for share in result.named)} of {len(result.named)}"
        joint = f"{np.mean(result.joint):.2f} ({min(result.joint):.2f} to {max(result.joint):.2f})"
        training = "planted" if result.planted else "not planted"
        rows.append([training, str(result.budget), named, f"{np.mean(result.named):.2f}", joint])
    header = [
        "pairs in training",
        "passes",
        "pairs named in most texts",
        "share of texts",
        "joint effect, least to most",
    ]
    return markdown_table(header, rows)
