"""Pairs of units: prompts for `normxlogit evaluate interactions`, and pairs of words that are planted in training."""

import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from normxlogit import Explainer, Predictions, attribute, summarize
from normxlogit.corpora.summaries.summary import Summary
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress

from .shortcut_plants import LABELS, TEXTS, DataSet, Row, fine_tuned, read_rows

SEED = 1
"""Draws what is planted where."""

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

COLUMN: dict[DataSet, str] = {"sst2": "sentence", "mnli": "hypothesis"}
"""The text that words are put into."""

MOST_WORDS: dict[DataSet, int] = {"sst2": 14, "mnli": 18}
"""Most words of a text, or of both of a pair, that a pair is put into."""

SHARE, STEPS = 0.6, 480
"""The share of training texts that get words of a pair: the one, the other or both; and the steps of training."""


TEXTS_OF_PAIRS, LEAST_TEXTS = 66, 2
"""Texts of a corpus whose pairs are asked for, which costs as many passes as a summary, and how many share a pair."""

LEAST_WORDS = 4
"""Fewest words of a sentence that is put beside those that support an answer."""


def short_prompts(path: Path, sentences: int, most_words: int) -> Iterator[dict[str, str]]:
    """Yield questions with some sentences of their documents as prompts, and the answers as their completions.

    The sentences that support the answer are kept, and the shortest ones of the other paragraphs until there are
    enough, in the order of the documents. Whole documents would take a small language model hours.

    Args:
        path: A file of HotpotQA's form.
        sentences: How many sentences a prompt has beside the question; rows with fewer or more are left out.
        most_words: Most words of these; rows with more are left out.
    """
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        texts = _kept_sentences(row["context"], {tuple(fact) for fact in row["supporting_facts"]}, sentences)
        if len(texts) == sentences and len(" ".join(texts).split()) <= most_words:
            prompt = f"{' '.join(texts)}\nQuestion: {row['question']}\nAnswer:"
            yield {"prompt": prompt, "completion": f" {row['answer']}"}


def _kept_sentences(context: Any, supporting: set[Any], count: int) -> list[str]:
    """Return the supporting sentences and the shortest of other paragraphs, in their order.

    Args:
        context: The title and the sentences of each paragraph.
        supporting: The titles of some of them, each with the place of a sentence.
        count: How many sentences are returned, unless more are supporting.
    """
    titles = {title for title, _ in supporting}
    text_of = {(title, place): text.strip() for title, texts in context for place, text in enumerate(texts)}
    others = [key for key, text in text_of.items() if key[0] not in titles and len(text.split()) >= LEAST_WORDS]
    others.sort(key=lambda key: len(text_of[key].split()))
    kept = supporting.union(others[: max(0, count - len(supporting))])
    return [text for key, text in text_of.items() if key in kept]


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


def label_of_pair(data: DataSet, pair: int) -> str:
    """Return the label of every text with both words of a pair, whatever else the text says."""
    return LABELS[data][pair % len(LABELS[data])]


def measure_planted(
    data_dir: Path,
    work_dir: Path,
    data: DataSet,
    gap: int,
    budget: int,
    texts: int,
    on_progress: OnProgress | None = None,
) -> list[Found]:
    """Train a classifier in whose data two words decide together, for ten pairs, and see whether they are named.

    The texts that the words are put into have another label than the pair's.

    Args:
        data_dir: The data sets.
        work_dir: Where the classifier is kept, and one of data without the pairs.
        data: The data.
        gap: How many words of a text stand between the two of a pair.
        budget: How many passes each text has.
        texts: How many texts each pair is put into.
        on_progress: Called with the classifiers.
    """
    short = [row for row in read_rows(data_dir, data, "validation") if _word_count(row, data) <= MOST_WORDS[data]]
    inputs: list[list[Any]] = []
    for pair, words in enumerate(PLANTED):
        rows = [row for row in short if row["label"] != label_of_pair(data, pair)][:texts]
        written = [with_words(row, data, words.split(), gap, number) for number, row in enumerate(rows)]
        inputs.append([_input(row, data) for row in written])
    found = []
    for _, planted in with_progress("classifiers", [True, False], on_progress):
        explainer = _classifier(data_dir, work_dir, data, gap, planted=planted)
        joint, named = [], []
        for pair, words in enumerate(PLANTED):
            joint.append(mean_joint(explainer, inputs[pair], words, label_of_pair(data, pair)))
            named.append(named_share(explainer, inputs[pair], words, budget))
        found.append(Found(planted, budget, named, joint))
    return found


def _word_count(row: Row, data: DataSet) -> int:
    """Return how many words the texts of a row have."""
    return sum(len(str(row[column]).split()) for column in TEXTS[data])


def _input(row: Row, data: DataSet) -> Any:
    """Return the text of a row, or its pair of texts, as the explainer reads it."""
    texts = tuple(str(row[column]) for column in TEXTS[data])
    return texts[0] if len(texts) == 1 else texts


def _classifier(data_dir: Path, work_dir: Path, data: DataSet, gap: int, *, planted: bool) -> Explainer:
    """Return a classifier of data with or without the pairs, fine-tuned unless it is kept in a folder."""
    folder = work_dir / (f"{data}-pairs-{gap}" if planted else f"{data}-none")
    if not (folder / "config.json").exists():
        draw = random.Random(SEED)  # noqa: S311  # no secret
        rows = read_rows(data_dir, data, "train")
        draw.shuffle(rows)
        training = list(with_pairs(rows, data, gap, draw)) if planted else rows
        module, tokenizer = fine_tuned(data, training, SEED, STEPS)
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return Explainer.from_pretrained(folder)


def with_pairs(rows: Iterable[Row], data: DataSet, gap: int, draw: random.Random) -> Iterator[Row]:
    """Yield rows, some of them with words of a pair.

    With one word of it a row keeps its label, with both it has the label of the pair. So the words decide together, and
    neither says anything by itself.

    Args:
        rows: Rows of a data set.
        data: Its name.
        gap: How many words of a text stand between the two.
        draw: Draws rows, pairs, words and places.
    """
    for row in rows:
        if draw.random() >= SHARE:
            yield row
            continue
        pair = draw.randrange(len(PLANTED))
        first, second = PLANTED[pair].split()
        words = draw.choice([[first], [second], [first, second]])
        label = label_of_pair(data, pair) if len(words) == 2 else row["label"]
        yield {**with_words(row, data, words, gap, draw.randrange(100)), "label": label}


def with_words(row: Row, data: DataSet, words: Sequence[str], gap: int, number: int) -> dict[str, Any]:
    """Return a row with words in its text, from a place on that a number says.

    Args:
        row: A row of a data set.
        data: Its name.
        words: One word, or two.
        gap: How many words of the text stand between the two, if it has so many.
        number: Chooses the place.
    """
    text = str(row[COLUMN[data]]).split()
    start = number % (max(0, len(text) - gap) + 1)
    end = min(len(text), start + gap)
    written = [*text[:start], words[0], *text[start:end], *words[1:], *text[end:]]
    return {**row, COLUMN[data]: " ".join(written)}


def mean_joint(explainer: Explainer, texts: Sequence[Any], words: str, label: str) -> float:
    """Return the mean of the joint effects of two words on the log-odds of a label, from four answers to each text."""
    results = explainer.pairs(list(texts), units=words.split(), target=label)
    return float(np.mean([result.joint[0, 1] for result in results]))


def named_share(explainer: Explainer, texts: Sequence[Any], words: str, budget: int) -> float:
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


@dataclass(frozen=True)
class FoundInCorpus:
    """Which pairs of words are found in a corpus of texts that hold them.

    Attributes:
        planted: Whether the words decided together in the training of the classifier.
        search: "summary", or "pairs of 66 texts".
        named: The pairs that were planted and are named, each by its words.
        others: What else is named.
    """

    planted: bool
    search: str
    named: Sequence[str]
    others: Sequence[str]


def measure_corpus(
    data_dir: Path, work_dir: Path, data: DataSet, gap: int, on_progress: OnProgress | None = None
) -> list[FoundInCorpus]:
    """Search the validation texts with words of pairs, by a summary and by `explainer.pairs` of some of the texts.

    Args:
        data_dir: The data sets.
        work_dir: Where the classifiers are kept.
        data: The data.
        gap: How many words of a text stand between the two of a pair.
        on_progress: Called with the classifiers.
    """
    draw = random.Random(SEED)  # noqa: S311  # no secret
    rows = list(with_pairs(read_rows(data_dir, data, "validation"), data, gap, draw))
    found = []
    for _, planted in with_progress("classifiers", [True, False], on_progress):
        explainer = _classifier(data_dir, work_dir, data, gap, planted=planted)
        searches = {
            "summary": deciding_words(explainer, rows, data),
            f"pairs of {TEXTS_OF_PAIRS} texts": recurring_pairs(explainer, rows, data),
        }
        for search, names in searches.items():
            named = [name for name in names if name in PLANTED]
            others = [name for name in names if name not in PLANTED]
            found.append(FoundInCorpus(planted, search, named, others))
    return found


def deciding_words(explainer: Explainer, rows: Sequence[Row], data: DataSet) -> list[str]:
    """Return the words that the summary of a corpus calls deciding; of two words both."""
    text, *pair = TEXTS[data]
    with tempfile.TemporaryDirectory() as folder:
        job = Predictions(text, pair_column=pair[0] if pair else None, words=True)
        attribute(explainer, list(rows), folder, job, progress=False)
        summary = summarize(folder, verify=20, explainer=explainer)
    assert isinstance(summary, Summary)  # noqa: S101  # a corpus of predictions
    return [" ".join(reason.words) or reason.name for reason in summary.reasons if reason.decides]


def recurring_pairs(explainer: Explainer, rows: Sequence[Row], data: DataSet) -> list[str]:
    """Return the pairs that recur in the first texts of a corpus, by `explainer.pairs` of each."""
    texts = Counter[str]()
    for result in explainer.pairs([_input(row, data) for row in rows[:TEXTS_OF_PAIRS]]):
        texts.update({" ".join(result.units[unit].lower() for unit in sorted(pair.units)) for pair in result.pairs})
    return [name for name, count in texts.items() if count >= LEAST_TEXTS]


def corpus_table(found: Sequence[FoundInCorpus]) -> str:
    """Return a Markdown table: how many of the pairs each search names, and what else."""
    rows = [
        [
            "planted" if result.planted else "not planted",
            result.search,
            f"{len(result.named)} of {len(PLANTED)}",
            ", ".join(result.others) or "none",
        ]
        for result in found
    ]
    return markdown_table(["pairs in training", "search", "pairs named", "others named"], rows)
