"""How many words are deleted until the prediction changes, counted with the model itself."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer
from normxlogit.evaluation import faithfulness
from normxlogit.evaluation.datasets import Example
from normxlogit.evaluation.faithfulness import MOST
from normxlogit.evaluation.report import flips_table
from tests import tiny

TEXTS = [
    "It is not a bad film, just a very long one.",
    "The movie is mediocre, maybe even bad.",
    "A thoughtful look at a painful incident.",
    "Good!",
    "The best of a bad lot, and I loved every minute of it.",
]


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer.from_pretrained()


def counted(explainer: Explainer, text: str, method: str) -> float:
    a = explainer(text, method=method)
    words = sorted(a.words(), key=lambda word: -word.score)
    for count in range(1, min(MOST, len(words)) + 1):
        removed = {token for word in words[:count] for token in word.tokens}
        ids = [i for place, i in enumerate(a.token_ids) if place not in removed]
        with torch.no_grad():
            if int(explainer.model(input_ids=torch.tensor([ids])).logits.argmax()) != a.prediction.id:
                return count
    return np.inf


def test_flips_are_counted_with_the_callers_own_model(explainer: Explainer) -> None:
    examples = [Example(text, 0) for text in TEXTS]
    results = faithfulness.evaluate(explainer, examples, ["frozen-gradient", "normxlogit"])
    for result in results:
        assert list(result.flips) == [counted(explainer, text, result.method) for text in TEXTS]
    assert 1 in results[0].flips


def test_values_fall_by_what_the_callers_own_model_says() -> None:
    model, tokenizer = tiny.model("bert", num_labels=1), tiny.tokenizer_for("bert")
    one = Explainer(model, tokenizer)
    examples = [
        Example(text, 1.0) for text in (("the movie is not good", "a cat"), ("never bad", "a great film , the cat"))
    ]
    (result,) = faithfulness.evaluate(one, examples, ["frozen-gradient"])
    assert result.flips == ()
    for example, falls in zip(examples, result.falls, strict=True):
        a = one(example.text, method="frozen-gradient")
        words = sorted(a.words(), key=lambda word: -word.score)
        types = one.encode([example.text])[0].inputs["token_type_ids"]

        def value(removed: set[int]) -> float:
            kept = [place for place in range(len(a.token_ids)) if place not in removed]  # noqa: B023
            ids, kinds = ([values[place] for place in kept] for values in (a.token_ids, types))  # noqa: B023
            with torch.no_grad():
                return float(model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([kinds])).logits)

        expected = [value(set()) - value({t for word in words[:count] for t in word.tokens}) for count in (1, 2, 3, 6)]
        assert falls == pytest.approx(expected, abs=1e-4)
    assert "value is lower after" in flips_table([result])


def test_the_best_word_is_found_by_trying_each_with_the_callers_own_model(explainer: Explainer) -> None:
    results = faithfulness.evaluate(explainer, [Example(text, 0) for text in TEXTS], ["random", "frozen-gradient"])
    changed = []
    for text in TEXTS:
        a = explainer(text)
        remaining = [[i for i in range(len(a.token_ids)) if i not in word.tokens] for word in a.words()]
        ids = [[a.token_ids[i] for i in places] for places in remaining]
        with torch.no_grad():
            classes = [int(explainer.model(input_ids=torch.tensor([row])).logits.argmax()) for row in ids]
        changed.append(any(label != a.prediction.id for label in classes))
    assert 0 < sum(changed) < len(TEXTS)
    assert {result.flippable for result in results} == {sum(changed) / len(TEXTS)}
    assert f"| the best word of each text | {sum(changed) / len(TEXTS):.2f} |" in flips_table(results)
