"""`generate`: what is said where a model trained on chats continues a plain question with nothing."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer, load
from tests import tiny
from tests.commands import run


@pytest.mark.parametrize("template", [True, False], ids=["chat", "plain"])
def test_a_model_that_ends_at_once_is_told_to_chat(template, tmp_path, capsys):
    model, tokenizer = tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama")
    if template:
        tokenizer.chat_template = tiny.CHAT_TEMPLATE
    with torch.no_grad():  # every token but the end has the same logit, or a lower one
        model.lm_head.weight.zero_()
        model.lm_head.weight[tokenizer.eos_token_id] = 1e-3
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    code, out, _ = run(capsys, "generate", "the cat", "--model", tmp_path, "--max-new-tokens", 2)
    assert code == 0
    drawn = " ".join(out.split())
    assert f"completion {tokenizer.eos_token}" in drawn
    assert ("--chat sends the prompt as a message" in drawn) == template


def test_whole_answers_and_next_words_of_several_tokens_are_contrasted(tmp_path, capsys):
    model, page = tiny.save(tmp_path / "model", "llama", "CausalLM"), tmp_path / "a.json"
    prompt, answers, save = "the movie is", (" a great film", " bad"), ("--model", model, "--output", page)
    expected = Explainer.from_pretrained(model).explain_completion(prompt, answers[0], contrast=answers[1])
    commands = [
        ("generate", prompt, "--completion", answers[0], "--contrast", answers[1]),
        ("explain", prompt, "--target", answers[0], "--contrast", answers[1]),
    ]
    for command in commands:
        code, _, _ = run(capsys, *command, *save)
        assert code == 0
        (result,) = load(page)
        np.testing.assert_allclose(result.scores, expected.scores, atol=1e-5)
        assert result.target.contrast.strip() == "bad"
    code, out, _ = run(capsys, "generate", prompt, "--contrast", answers[1], "--max-new-tokens", 2, "--model", model)
    assert code == 0
    assert "rather than" in out
