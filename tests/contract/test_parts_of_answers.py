"""Where sums over an answer's tokens are asked for, only these are computed, and they are the sums."""

import numpy as np
import pytest

from normxlogit import InputError
from tests import tiny
from tests.commands import run

PROMPT, ANSWER = "the cat sat on the mat . it was", " a good film . the plot was never bad !"


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("parts", ["word", "sentence", "all"])
def test_parts_are_sums_of_their_tokens(family, parts):
    explainer = tiny.explainer(family, "CausalLM")
    tokens = explainer.explain_completion(PROMPT, ANSWER)
    summed = tokens.whole() if parts == "all" else tokens.group_targets(parts)
    result = explainer.explain_completion(PROMPT, ANSWER, parts=parts)
    scale = np.abs(summed.scores).max()
    np.testing.assert_allclose(result.scores, summed.scores.reshape(result.scores.shape), atol=1e-5 * scale)
    np.testing.assert_allclose(result.bias, np.reshape(summed.bias, np.shape(result.bias)), atol=1e-4)
    assert result.diagnostics["backward_passes"] == len(result.targets)


def test_generated_answers_are_explained_by_parts():
    explainer = tiny.explainer("llama", "CausalLM")
    tokens = explainer.generate(PROMPT, max_new_tokens=6)
    result = explainer.generate(PROMPT, max_new_tokens=6, parts="all")
    assert len(result.targets) == 1
    assert result.completion == tokens.completion
    np.testing.assert_allclose(result.scores[0], tokens.scores.sum(0), atol=1e-5 * np.abs(tokens.scores).max() * 6)
    both = explainer.generate([PROMPT, "the film"], max_new_tokens=6, parts=[0, -1])
    assert [len(each.targets) for each in both] == [2, 2]
    with pytest.raises(InputError, match="'all'"):
        explainer.generate(PROMPT, max_new_tokens=3, parts="letter")


def test_parts_on_the_command_line(tmp_path, capsys):
    tiny.model("llama", "CausalLM").save_pretrained(tmp_path)
    tiny.tokenizer_for("llama").save_pretrained(tmp_path)
    code, out, _ = run(capsys, "generate", PROMPT, "--completion", ANSWER, "--model", tmp_path, "--parts", "sentence")
    assert code == 0
    assert "a good film ." in " ".join(out.split())
    assert run(capsys, "generate", PROMPT, "--model", tmp_path, "--max-new-tokens", 3, "--parts", "all")[0] == 0
