"""Gold labels of models that give every label to some texts, in every spelling."""

import itertools

import numpy as np
import pytest
import torch

from normxlogit import Explainer
from tests import tiny

TEXTS = [" ".join(words) for words in itertools.islice(itertools.permutations(tiny.WORDS[:9], 3), 0, 400, 16)]


def explainer(*labels, kind="SequenceClassification"):
    """A model that gives every label to some of the texts: its head is that of a small random one, centred."""
    model = tiny.model("bert", kind, num_labels=len(labels))
    with torch.no_grad():
        model.classifier.weight.mul_(50)
        logits = model(**tiny.tokenizer()(TEXTS, return_tensors="pt", padding=True)).logits
        model.classifier.bias.sub_(logits.mean(0))
    return Explainer(model, tiny.tokenizer(), labels=list(labels))


@pytest.fixture(scope="module")
def results():
    made = {}

    def of(*labels):
        if labels not in made:
            made[labels] = explainer(*labels), explainer(*labels)(TEXTS)
        return made[labels]

    return of


def right_or_wrong(found, labels):
    """Indices of gold labels of which every other one is right, and which are."""
    ids = [result.prediction.id for result in found]
    assert len(set(ids)) > 1
    right = [i % 2 == 0 for i in range(len(ids))]
    return [i if ok else (i + 1) % len(labels) for i, ok in zip(ids, right, strict=True)], right


STARS = ("1", "2", "3", "4", "5")
RATED = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
YES = ("no", "yes")
UNNAMED = ("LABEL_0", "LABEL_1")
SPELLED = {
    "names": (STARS, lambda i, labels: labels[i]),
    "names in other capitals": (YES, lambda i, labels: f" {labels[i].upper()} "),
    "names that differ in capitals": (("Yes", "yes"), lambda i, labels: labels[i]),
    "names that are numbers": (STARS, lambda i, labels: int(labels[i])),
    "names that are floats": (STARS, lambda i, labels: float(labels[i])),
    "numbers in names": (RATED, lambda i, labels: int(labels[i][0])),
    "digits in names": (RATED, lambda i, labels: labels[i][0]),
    "indices": (UNNAMED, lambda i, _: i),
    "indices in digits": (UNNAMED, lambda i, _: str(i)),
    "floats": (UNNAMED, lambda i, _: float(i)),
    "booleans": (YES, lambda i, _: bool(i)),
    "booleans in another order": (("yes", "no"), lambda i, labels: labels[i] == "yes"),
    "boolean words": (YES, lambda i, _: str(bool(i))),
    "booleans of labels without names": (UNNAMED, lambda i, _: bool(i)),
    "booleans that are names": (("true", "false"), lambda i, _: i == 0),
    "booleans of names that are numbers": (("1", "0"), lambda i, _: i == 0),
}


SEVERAL = {
    "names": lambda names: names,
    "names of other forms": lambda names: [f"\u2060{name.upper()} " for name in names],
    "indices": lambda names: [FEELINGS.index(name) for name in names],
    "an array of indices": lambda names: np.array([FEELINGS.index(name) for name in names]),
    "zeros and ones": lambda names: [int(name in names) for name in FEELINGS],
    "floats for training": lambda names: [float(name in names) for name in FEELINGS],
    "booleans": lambda names: [name in names for name in FEELINGS],
}
FEELINGS = ["joy", "anger", "fear"]


@pytest.fixture(scope="module")
def feelings():
    """A model of which several labels are true, and whether each of its answers is among the gold labels."""
    model = explainer(*FEELINGS, kind="SequenceClassification").model
    model.config.problem_type = "multi_label_classification"
    asked = Explainer(model, tiny.tokenizer(), labels=FEELINGS)
    said = [result.prediction.label for result in asked(TEXTS)]
    others = [[name for name in FEELINGS if name != label] for label in said]
    gold = [[others[i][0], label] if i % 2 else others[i] for i, label in enumerate(said)]
    gold[2], gold[4] = [], others[4][:1]
    return asked, gold
