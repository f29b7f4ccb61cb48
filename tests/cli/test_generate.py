import numpy as np

from normxlogit import Explainer, load
from tests import tiny
from tests.commands import run


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
