"""Sets in which it is known what an answer rests on, as files for `normxlogit evaluate evidence`.

- phrases: sentences of SST-2, and their words that people labelled alone, out of any sentence, as the sentence is.
- agreement: BLiMP's sentences; the word that decides between the right form and the wrong one, by a parse.
- sums: sums among other numbers. The model adds right, also where a number is changed, and ignores the others.
- causes: a tool's result is changed, and the model's answer with it: it prefers the wrong answer to the right one.
- answers: questions of QNLI about seven sentences, of which one answers; the answer is the model's own.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from normxlogit.errors import InputError
from normxlogit.evaluation.datasets import read_rows, task_named
from normxlogit.explainer import Explainer
from paper.blimp import Counts, load_pairs
from paper.evidence import evidence_of
from paper.minimal_pairs import Item, encode_pairs

from .qnli import qnli_questions
from .traces import FACTS

Row = dict[str, Any]
"""A line of the file: the fields of `normxlogit.evaluation.evidence.Known`."""

SUMS = (
    "The sum of {a} and {b} is not {c} and not {d}. {a} + {b} = ",
    "Tom has {a} apples and {c} pears. Ann has {b} apples and {d} pears. Together they have {a} + {b} = ",
    "a = {a}, b = {b}, c = {c}, d = {d}. The sum a + b is {a} + {b} = ",
)
"""Sums of a and b, of at most 9; c and d are of no use."""

PLACES = 5
"""Tools that return something."""


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
                masked = f"{mask}{pair.good[pair.target[1] :]}" if model.task.position.is_mask else ""
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
        changes = [(a, b, c, d), (other, b, c, d), (a, other, c, d), (a, b, unused, d), (a, b, c, unused)]
        texts = [template.format(**dict(zip("abcd", change, strict=True))) for change in changes]
        answers = [result.prediction.label.strip() for result in explainer(texts, method="random")]
        if answers == [str(change[0] + change[1]) for change in changes]:
            yield {"text": texts[0], "evidence": [str(a), str(b)]}


def known_causes(explainer: Explainer, seed: int) -> Iterator[Row]:
    """Yield conversations of which a tool's changed result makes the answer wrong: without the change it is right."""
    random = np.random.default_rng(seed)
    for _ in range(10_000):
        fact = FACTS[int(random.integers(len(FACTS)))]
        things, values = ([str(x) for x in random.permutation(of)] for of in (fact.things, fact.values))
        place = int(random.integers(PLACES))
        right, wrong = (fact.sentence.format(thing=things[place], value=v) for v in (values[place], values[PLACES]))
        told = [fact.sentence.format(thing=t, value=v) for t, v in zip(things[:PLACES], values, strict=False)]
        changed = [wrong if sentence == right else sentence for sentence in told]
        question = fact.question.format(thing=things[place])
        prefers = [_log_odds(explainer, _conversation(question, results), wrong, right) for results in (told, changed)]
        if prefers[0] < 0 < prefers[1]:
            yield {
                "messages": _conversation(question, changed),
                "completion": wrong,
                "contrast": right,
                "units": "message",
                "among": changed,
                "evidence": [wrong],
            }


def _conversation(question: str, results: Sequence[str]) -> list[Row]:
    system = {"role": "system", "content": "You answer in one short sentence."}
    tools = [{"role": "tool", "content": result} for result in results]
    return [system, *tools, {"role": "user", "content": question}]


def _log_odds(explainer: Explainer, messages: list[Row], answer: str, other: str) -> float:
    """Return how much likelier a model finds an answer than another one, in nats."""
    explained = explainer.explain_completion([messages, messages], [answer, other], method="random")
    first, second = (sum(log(max(token.probability or 0, 1e-30)) for token in a.generated) for a in explained)
    return first - second


def known_answers(explainer: Explainer, data_dir: Path, seed: int) -> Iterator[Row]:
    """Yield a model's own answers to QNLI's questions about seven sentences, with the one that answers."""
    rows = read_rows(data_dir / "qnli" / "validation.jsonl")
    answering = {row["question"]: " ".join(str(row["sentence"]).split()) for row in rows if row["label"] == 0}
    for asked in qnli_questions(rows, len(rows), seed):
        document = " ".join(str(asked.documents["text"]).split())
        messages = [{"role": "user", "content": f"{document}\n\n{asked.question}"}]
        answer = explainer.generate(messages, max_new_tokens=24, method="random").completion
        if answer and answer.strip():
            yield {
                "messages": messages,
                "completion": answer,
                "units": "sentence",
                "among": [document],
                "evidence": [answering[asked.question]],
            }


def known_rows(name: str, explainer: Explainer | None, data_dir: Path, limit: int, seed: int) -> list[Row]:
    """Return the rows of a set.

    Raises:
        InputError: If there is no such set, or it needs a model.
    """
    if name == "phrases":
        return list(islice(known_phrases(data_dir), limit))
    if explainer is None:
        raise InputError(f"{name} takes a language model: name one with --model")
    rows = {
        "agreement": known_agreement(explainer, data_dir, seed),
        "sums": known_sums(explainer, seed),
        "causes": known_causes(explainer, seed),
        "answers": known_answers(explainer, data_dir, seed),
    }[name]
    return list(islice(rows, limit))
