"""Pointing: scores of pictures and sounds against known evidence, and the methods that they are compared with."""

from functools import cache

import numpy as np
import pytest
import torch

from benchmarks.pointing_cases import PointingCase
from benchmarks.pointing_peers import signal_answer
from normxlogit import Explainer
from tests.media import vlm

EVERYWHERE = ((-1e3, -1e3, 1e3, 1e3),)


@cache
def explainer():
    model, processor = vlm.llava()
    model.generation_config.max_new_tokens = 2
    model.generation_config.eos_token_id = None
    return Explainer(model, processor)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A question that the model answers right, because its own answer is the right one."""
    path = tmp_path_factory.mktemp("pictures") / "one.png"
    vlm.picture().save(path)
    return answered(PointingCase(path, "what is on the left ?", "", (EVERYWHERE,)))


def own_words(g):
    return [w.text for w in g.words() if w.tokens[-1] >= g.prompt_tokens and any(map(str.isalnum, w.text))]


def answered(case):
    g = explainer().generate(case.prompt, max_new_tokens=4)
    words = own_words(g)
    return case._replace(answer=" ".join(words), evidence=case.evidence[:1] * len(words))


def own_logits(values, case):
    """The logits of the caller's own model for other pixels, at the places of the generated tokens, (G, V)."""
    model, processor = explainer().model, explainer().language_model.reader
    read = {"tokenize": True, "return_dict": True, "return_tensors": "pt"}
    inputs = processor.apply_chat_template(case.prompt, **read)
    g = explainer().generate(case.prompt, max_new_tokens=4)
    ids = torch.tensor([g.token_ids])
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=values).logits[0]
    return logits[g.prompt_tokens - 1 : -1], g, inputs["pixel_values"]


def test_peers_are_the_formulas_on_the_pixels_of_the_callers_model(case):
    _, g, pixels = own_logits(torch.zeros(1, 3, 32, 32), case)
    shape = (len(g), *g.images[0].boxes.shape[:2])
    answer = signal_answer(explainer(), g, case.prompt)
    chosen = torch.tensor(g.token_ids[g.prompt_tokens :])

    def quantities(values):
        logits = own_logits(values, case)[0]
        return logits.gather(1, chosen[:, None])[:, 0] - logits.mean(-1)

    values = pixels.clone().requires_grad_()
    side = values.shape[-1] // shape[1]
    last = quantities(values)[-1]
    (slope,) = torch.autograd.grad(last, values)
    products = (slope * values)[0].sum(0).detach().reshape(shape[1], side, shape[2], side).sum((1, 3))
    np.testing.assert_allclose(answer.scores("gradient-x-input")[-1], products, atol=1e-5)
    without = pixels.clone()
    without[..., :side, side : 2 * side] = pixels.mean()
    with torch.no_grad():
        lost = quantities(pixels) - quantities(without)
    np.testing.assert_allclose(answer.scores("occlusion")[:, 0, 1], lost, atol=1e-5)
    integrated = answer.scores("integrated-gradients").sum((1, 2))
    with torch.no_grad():
        expected = (quantities(pixels) - quantities(torch.zeros_like(pixels))).numpy()
    np.testing.assert_allclose(integrated, expected, atol=0.05 * np.abs(expected).max())
