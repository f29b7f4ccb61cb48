import numpy as np
import pytest
import torch

from normxlogit import Explainer
from normxlogit.evaluation import faithfulness
from normxlogit.evaluation.datasets import Example
from normxlogit.evaluation.flips import MOST
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
        if int(tiny.logits_of(explainer.model, ids).argmax()) != a.prediction.id:
            return count
    return np.inf


def test_flips_are_counted_with_the_callers_own_model(explainer: Explainer) -> None:
    examples = [Example(text, "negative") for text in TEXTS]
    results = faithfulness.evaluate(explainer, examples, ["frozen-gradient", "normxlogit"])
    for result in results:
        assert list(result.flips) == [counted(explainer, text, result.method) for text in TEXTS]
    assert 1 in results[0].flips


def test_values_fall_by_what_the_callers_own_model_says() -> None:
    model, tokenizer = tiny.model("bert", num_labels=1), tiny.tokenizer_for("bert")
    one = Explainer(model, tokenizer)
    pairs = ("the movie is not good", "a cat"), ("never bad", "a great film , the cat")
    examples = [Example(pair, 1.0) for pair in pairs]
    (result,) = faithfulness.evaluate(one, examples, ["frozen-gradient"])
    assert result.flips == ()
    for example, falls in zip(examples, result.falls, strict=True):
        a = one(example.text, method="frozen-gradient")
        words = sorted(a.words(), key=lambda word: -word.score)
        inputs, values = tokenizer(*example.text, return_tensors="pt"), []
        for count in (0, 1, 2, 3, 6):
            removed = {token for word in words[:count] for token in word.tokens}
            kept = [place for place in range(len(a.token_ids)) if place not in removed]
            with torch.no_grad():
                values.append(float(model(**{name: value[:, kept] for name, value in inputs.items()}).logits))
        assert falls == pytest.approx([values[0] - value for value in values[1:]], abs=1e-4)
    assert "value is lower after" in flips_table([result])


def test_the_best_word_is_found_by_trying_each_with_the_callers_own_model(explainer: Explainer) -> None:
    results = faithfulness.evaluate(
        explainer, [Example(text, "negative") for text in TEXTS], ["random", "frozen-gradient"]
    )
    changed = []
    for text in TEXTS:
        a = explainer(text)
        ids = [[i for place, i in enumerate(a.token_ids) if place not in word.tokens] for word in a.words()]
        changed.append(any(int(tiny.logits_of(explainer.model, row).argmax()) != a.prediction.id for row in ids))
    assert 0 < sum(changed) < len(TEXTS)
    assert {result.flippable for result in results} == {sum(changed) / len(TEXTS)}
    assert f"| the best word of each text | {sum(changed) / len(TEXTS):.2f} |" in flips_table(results)
