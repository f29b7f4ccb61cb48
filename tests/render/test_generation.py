"""Pages and terminal drawings of generated text."""

import json
import re

import numpy as np
import pytest

from normxlogit import Explainer
from normxlogit.render.builders.collection import blocks_of
from normxlogit.render.terminal import text_of_blocks
from tests import tiny
from tests.factories import make_generation


def page(g):
    return g.to_html()


def to_text(g, *, color=False):
    return text_of_blocks(blocks_of(g), color=color)


@pytest.fixture(scope="module")
def result():
    explainer = Explainer(tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama"), name="a model")
    return explainer.explain_completion("[CLS] once upon a time", " the cat sat on")


def data_of(content):
    return json.loads(
        re.search(r'<script type="application/json" class="nxl-data">(.*?)</script>', content, re.S).group(1)
    )


def test_the_page_holds_the_scores_that_each_token_has_seen(result):
    data = data_of(page(result))
    assert data["signed"] is True
    for g, row in enumerate(data["scores"]):
        np.testing.assert_allclose(row, result.scores[g, : result.prompt_tokens + g], rtol=1e-3)


def test_the_terminal_shows_each_token_with_the_strongest_of_its_context(result, monkeypatch):
    monkeypatch.setenv("COLORTERM", "truecolor")  # rich remembers styles as first drawn, for the whole process
    lines = to_text(result, color=False).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("token "))
    for g, line in enumerate(lines[start + 1 : start + 5]):
        plain = np.where(result.special_tokens_mask, 0, result.scores[g])
        best = int(np.abs(plain).argmax())
        parts = line.split()
        assert parts[0] == result.tokens[result.prompt_tokens + g]
        assert parts[1] == f"{100 * result.generated[g].probability:.1f}%"
        assert parts[2] == result.tokens[best]
        assert float(parts[3]) == pytest.approx(float(result.scores[g, best]), rel=0.02)
    assert "\x1b[" in to_text(result, color=True)
    assert str(result) == to_text(result)


def test_context_is_shown_in_words_and_says_what_speaks_against():
    lines = to_text(make_generation(), color=False).splitlines()
    assert re.fullmatch(r"mat +50\.0%  cat's \+1\.00   the \+0\.50", next(x for x in lines if x.startswith("mat")))
    row = next(line for line in lines if line.startswith("is"))
    assert re.fullmatch(r"is +50\.0%  mat -3\.00 against it   cat's \+1\.00   the \+0\.25", row)
    content = page(make_generation())
    assert "-3.00 against it</small>" in content
    assert "cat&#39;s</span> <small>+1.00</small>" in content


def test_parts_of_an_answer_stand_in_the_order_of_the_text():
    content = page(make_generation().sources("word", parts=[2, 0]))
    assert re.findall(r'data-part="(\d)"[^>]*>([^<]*)<', content) == [("1", "mat"), ("0", "red.")]
