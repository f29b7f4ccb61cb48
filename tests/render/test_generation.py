"""Pages and terminal drawings of generated text."""

import json
import re

import numpy as np
import pytest

from normxlogit import Explainer
from normxlogit.cli import main
from normxlogit.render.terminal import text_of_blocks
from tests import tiny
from tests.factories import make_generation


def page(g):
    return g.to_html()


def to_text(g, *, color=False):
    return text_of_blocks(g._blocks(), color=color)


@pytest.fixture(scope="module")
def result():
    explainer = Explainer(tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama"), name="a model")
    return explainer.explain_completion("[CLS] once upon a time", " the cat sat on")


def test_the_page_needs_no_other_file(result):
    content = page(result)
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", content)
    assert content.startswith("<!DOCTYPE html>")


def data_of(content):
    return json.loads(
        re.search(r'<script type="application/json" class="nxl-data">(.*?)</script>', content, re.S).group(1)
    )


def test_the_page_holds_the_scores_that_each_token_has_seen(result):
    data = data_of(page(result))
    assert data["prompt"] == result.prompt_tokens
    assert data["signed"] is True
    for g, row in enumerate(data["scores"]):
        np.testing.assert_allclose(row, result.scores[g, : result.prompt_tokens + g], rtol=1e-3)


def test_a_matrix_too_large_for_a_page_is_left_out_and_the_page_says_so(result, monkeypatch):
    monkeypatch.setattr("normxlogit.render.builders.generation.LARGEST", 10)
    content = page(result)
    assert '<table class="nxl-map">' not in content
    assert "4 x 9 scores is too large" in content


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


def test_of_several_layers_the_last_is_drawn():
    explainer = Explainer(tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama"))
    several = explainer.explain_completion("once upon", " a time", layers=[1, 2], contrast="cat")
    content = page(several)
    assert "layer 2 shown" in content
    assert "rather than cat" in content
    np.testing.assert_allclose(data_of(content)["scores"][1], several.scores[1, 1, :3], rtol=1e-3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("writer")
    tiny.model("llama", "CausalLM").save_pretrained(path)
    tokenizer = tiny.tokenizer_for("llama")
    tokenizer.chat_template = "{% for m in messages %}a {{ m['content'] }} . {% endfor %}"
    tokenizer.save_pretrained(path)
    return str(path)


def test_the_command_writes_text_json_and_pages(folder, tmp_path, capsys):
    explainer = Explainer.from_pretrained(folder)
    wanted = explainer.generate("once upon a time", max_new_tokens=3)
    command = ["generate", "once upon a time", "--model", folder, "--max-new-tokens", "3"]
    run(command)
    assert capsys.readouterr().out.strip() == to_text(wanted)
    run([*command, "--format", "json"])
    assert json.loads(capsys.readouterr().out) == wanted.to_dict()
    run([*command, "--output", str(tmp_path / "why.html")])
    assert (tmp_path / "why.html").read_text() == page(wanted)


def run(arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0


def test_context_is_shown_in_words_and_says_what_speaks_against():
    lines = to_text(make_generation(), color=False).splitlines()
    assert re.fullmatch(r"mat +50\.0%  cat's \+1\.00   the \+0\.50", next(x for x in lines if x.startswith("mat")))
    row = next(line for line in lines if line.startswith("is"))
    assert re.fullmatch(r"is +50\.0%  mat -3\.00 against it   cat's \+1\.00   the \+0\.25", row)
    content = page(make_generation())
    assert "-3.00 against it</small>" in content
    assert "cat&#39;s</span> <small>+1.00</small>" in content
