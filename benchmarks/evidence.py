"""Sets in which it is known what an answer rests on, as files for `normxlogit evaluate evidence`.

- phrases: sentences of SST-2, and their words that people labelled alone, out of any sentence, as the sentence is.
- agreement: BLiMP's sentences; the word that decides between the right form and the wrong one, by a parse.
- sums: sums among other numbers. The model adds right, also where a number is changed, and ignores the others.
- planted: texts with a shortcut that was planted in the model's training data, and that turns its answer.
- answers: QNLI's questions with documents of sentences, one of which answers. The model says so, and not without it.
- traces: conversations in which one tool's result was changed, and with it the answer that the model prefers.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from normxlogit.errors import InputError
from normxlogit.evaluation.datasets import read_rows, task_named
from normxlogit.evaluation.evidence import RANDOM
from normxlogit.explainer import Explainer
from normxlogit.pipeline.completions.completed_prompts import read_completion
from normxlogit.pipeline.completions.leave_out import log_probabilities
from paper.blimp import Counts, load_pairs
from paper.evidence import evidence_of
from paper.minimal_pairs import Item, encode_pairs

from .qnli import qnli_questions
from .shortcut_plants import CHOSEN_ON, LABELS, REPORTED, TEXTS, with_plant
from .shortcut_plants import read_rows as labelled_rows
from .traces import holds, write_traces

Row = dict[str, Any]
"""A line of the file: the fields of `normxlogit.evaluation.evidence.Known`."""

SENTENCES = 4
"""Sentences of the documents of `answers`: the classifier has seen one at a time."""

SUMS = (
    "The sum of {a} and {b} is not {c} and not {d}. {a} + {b} = ",
    "Tom has {a} apples and {c} pears. Ann has {b} apples and {d} pears. Together they have {a} + {b} = ",
    "a = {a}, b = {b}, c = {c}, d = {d}. The sum a + b is {a} + {b} = ",
)
"""Sums of a and b, of at most 9; c and d are of no use."""


def known_phrases(data_dir: Path) -> Iterator[Row]:
    """Yield sentences of SST-2's validation set with the words that were labelled as they are, alone."""
    labels: defaultdict[str, set[int]] = defaultdict(set)
    for row in read_rows(data_dir / "sst2" / "train.jsonl"):
        if row["sentence"].strip().isalpha():
            labels[row["sentence"].strip()].add(row["label"])
    names = task_named("sst2").labels
    for row in read_rows(data_dir / "sst2" / "validation.jsonl"):
        words = [word for word in dict.fromkeys(row["sentence"].split()) if labels.get(word) == {row["label"]}]
        if words:
            yield {"text": row["sentence"], "target": names[row["label"]], "evidence": words}


def known_agreement(explainer: Explainer, data_dir: Path, seed: int) -> Iterator[Row]:
    """Yield sentences of BLiMP's test half that a language model can read, with the word that decides."""
    pairs = load_pairs("test", Counts(), data_dir=data_dir / "blimp")
    pairs = [pairs[i] for i in np.random.default_rng(seed).permutation(len(pairs)).tolist()]
    model, mask = explainer.task_model, explainer.tokenizer.mask_token
    for start in range(0, len(pairs), 100):
        some = pairs[start : start + 100]
        evidence = list(evidence_of(some))
        items = encode_pairs(some, model.encoder, model.task.name, evidence)
        for pair, item, spans in zip(some, items, evidence, strict=True):
            if isinstance(item, Item):
                masked = f"{mask}{pair.good[pair.target[1] :]}" if model.task.name == "masked-lm" else ""
                text = (pair.good[: pair.target[0]] + masked).strip()
                words = [pair.good[slice(*span)] for span in spans]
                yield {"text": text, "target": item.target, "contrast": item.foil, "evidence": words}


def known_sums(explainer: Explainer, seed: int) -> Iterator[Row]:
    """Yield sums that a language model adds right, and adds right when any of their numbers is changed."""
    random = np.random.default_rng(seed)
    for number in range(10_000):
        a, b, c, d, other, unused = (int(n) for n in random.permutation(np.arange(1, 9))[:6])
        if max(a + b, other + b, a + other) > 9:
            continue
        template = SUMS[number % len(SUMS)]
        numbers = {"a": a, "b": b, "c": c, "d": d}
        # As it is, and with each of the four numbers changed.
        variants = [
            numbers,
            *(numbers | change for change in ({"a": other}, {"b": other}, {"c": unused}, {"d": unused})),
        ]
        texts = [template.format(**variant) for variant in variants]
        answers = [result.prediction.label.strip() for result in explainer(texts, method=RANDOM)]
        if answers == [str(variant["a"] + variant["b"]) for variant in variants]:
            yield {"text": texts[0], "evidence": [str(a), str(b)]}


def known_planted(explainer: Explainer, model: Path, data_dir: Path, seed: int) -> Iterator[Row]:
    """Yield texts of another label than the plant's which a model answers with that label, and only with the plant.

    Raises:
        InputError: If the folder's name is not that of a plant of words, as `shortcuts` names them.
    """
    plants = (plant for plant in (*REPORTED, *CHOSEN_ON) if model.name.startswith(plant.name.replace(" ", "-")))
    if (plant := next(plants, None)) is None or not plant.words:
        raise InputError(f"{model} is not the folder of a model that `shortcuts` made with planted words")
    others = [row for row in labelled_rows(data_dir, plant.data, "validation") if row["label"] != plant.label]
    everywhere = [{**row, "label": plant.label} for row in others]
    for before, after in zip(others, with_plant(everywhere, plant, seed, rate=1.0), strict=True):
        texts = [[row[column] for column in TEXTS[plant.data]] for row in (before, after)]
        inputs = [text[0] if len(text) == 1 else tuple(text) for text in texts]
        answers = [result.prediction.label for result in explainer(inputs, method=RANDOM)]
        if answers[0] != plant.label == answers[1]:
            known = {"target": plant.label, "evidence": plant.words.split()}
            yield known | dict(zip(("text", "text_pair"), texts[1], strict=False))


def known_answers(explainer: Explainer, data_dir: Path, seed: int) -> Iterator[Row]:
    """Yield questions with documents that a model finds answered, and not without the sentence that answers."""
    rows = read_rows(data_dir / "qnli" / "validation.jsonl")
    answering = {row["question"]: " ".join(row["sentence"].split()) for row in rows if row["label"] == 0}
    for question in qnli_questions(rows, len(rows), seed, SENTENCES):
        document, evidence = question.documents["text"], answering[question.question]
        rest = "\n\n".join(sentence for sentence in document.split("\n\n") if sentence != evidence)
        pairs = [(question.question, text) for text in (document, rest)]
        label, label_without = (result.prediction.label for result in explainer(pairs, method=RANDOM))
        if (label, label_without) == LABELS["qnli"]:  # answered, and not answered
            known = {"target": label, "evidence": [evidence], "among": [document], "units": "paragraph"}
            yield {"text": question.question, "text_pair": document, **known}


def log_probability(explainer: Explainer, messages: Any, answer: str) -> float:
    """Return the log-probability of an answer after a conversation, in nats."""
    completed = read_completion(explainer.language_model, messages, answer)
    count = len(completed.encoding) - completed.prompt_tokens
    return float(log_probabilities(explainer.language_model, [completed.encoding], [count])[0].sum())


def known_traces(explainer: Explainer, seed: int) -> Iterator[Row]:
    """Yield conversations with a changed result of a tool, in which a model prefers the wrong answer for that alone."""
    for trace in write_traces(10_000, seed):
        *messages, answer = ({**message, "content": message["content"] or ""} for message in trace.messages)
        holders = [m for m in messages if m["role"] == "tool" and holds(m["content"], trace.value)]
        if len(holders) != 1:
            continue
        changed = holders[0] | {"content": holders[0]["content"].replace(trace.value, trace.other)}
        after = [changed if message is holders[0] else message for message in messages]
        right = answer["content"]
        wrong = right.replace(trace.value, trace.other)
        preferred = []
        for conversation in (messages, after):
            nats = [log_probability(explainer, conversation, text) for text in (right, wrong)]
            preferred.append(np.argmax(nats))
        if preferred == [0, 1]:  # the right answer as the trace is, the wrong one after the change
            known = {"completion": wrong, "contrast": right, "evidence": [changed["content"]], "units": "message"}
            yield {"messages": after, **known}


def known_rows(
    name: str, explainer: Explainer | None, data_dir: Path, limit: int, seed: int, model: Path = Path()
) -> list[Row]:
    """Return the rows of a set.

    Raises:
        InputError: If there is no such set, or it needs a model.
    """
    if name == "phrases":
        return list(islice(known_phrases(data_dir), limit))
    if explainer is None:
        raise InputError(f"{name} takes a model: name one with --model")
    rows = {
        "agreement": known_agreement(explainer, data_dir, seed),
        "sums": known_sums(explainer, seed),
        "planted": known_planted(explainer, model, data_dir, seed),
        "answers": known_answers(explainer, data_dir, seed),
        "traces": known_traces(explainer, seed),
    }[name]
    return list(islice(rows, limit))
