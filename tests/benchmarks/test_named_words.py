"""Named words: the prompts, and what is counted as a person would count it."""

import json

import numpy as np
import pytest

from benchmarks.named_words import PROMPTS, RAREST, NamedPrompt, evaluate_named_words, load_prompts, named_words_table
from normxlogit import Explainer
from tests import tiny


def test_every_prompt_holds_its_words_and_positions_tell_nothing():
    rows = [json.loads(line) for line in PROMPTS.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 200
    assert sum(row["distractor"] is not None for row in rows) == 100
    before = []
    for row in rows:
        text = row["prompt"].casefold()
        assert all(word.casefold() in text for word in row["words"])
        if row["distractor"] is not None:
            before.append(text.index(row["words"][0].casefold()) < text.index(row["distractor"].casefold()))
    assert np.mean(before) == pytest.approx(0.5, abs=0.02)
    train, validation = load_prompts("train"), load_prompts("validation")
    assert (len(train), len(validation)) == (100, 100)
    assert not {p.prompt.split(".")[0] for p in train if p.distractor} & {
        p.prompt.split(".")[0] for p in validation if p.distractor
    }, "both halves of a pair are in one split"


def test_what_is_first_is_counted_by_hand():
    explainer = Explainer(tiny.model("gpt2", "CausalLM"), tiny.tokenizer_for("gpt2"))
    prompt = "the movie is bad and a cat"
    a = explainer(prompt, method="frozen-gradient")
    ranked = sorted((w for w in a.words() if len(a.tokens) - 1 not in w.tokens), key=lambda w: -w.score)
    names = [word.text for word in ranked]
    prompts = [NamedPrompt(prompt, (names[0],), None), NamedPrompt(prompt, (names[1],), names[0])]
    result, rarest = evaluate_named_words(explainer, prompts, ["frozen-gradient"])
    assert result.plain.tolist() == [[True, True]]
    assert result.distracted.tolist() == [[False, True]]
    assert result.fooled.tolist() == [True]
    assert rarest.method == RAREST
    assert "1.00 (1.00 to 1.00)" in named_words_table([result, rarest])
