"""Attention rollout, GlobEnc, ALTI and Value Zeroing against loops written from the formulas."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

from normxlogit import ALL, Explainer
from normxlogit.decompositions.value_zeroing import ValueZeroing, _score_matrix
from normxlogit.errors import UnsupportedModelError
from tests import tiny

from . import slow

FAMILIES = ["bert", "roberta", "distilbert", "electra", "xlm-roberta", "camembert"]
MATRICES = {
    "attention-rollout": slow.rollout,
    "globenc": slow.globenc,
    "alti": slow.alti,
    "value-zeroing": slow.value_zeroing,
}
LAYERED = ["globenc", "alti", "value-zeroing"]


def close(found, expected, tolerance=1e-4):
    expected = np.asarray(expected, dtype=np.float64)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def both(family: str, kind: str = "SequenceClassification", **options):
    model = tiny.model(family, kind, **options)
    return model, Explainer(model, tiny.tokenizer_for(family))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", MATRICES)
def test_rolled_out_scores_are_the_product_of_the_layers_matrices(family, name):
    model, explainer = both(family)
    found = explainer(tiny.TEXTS[0], method=name, layers=ALL)
    matrices = [MATRICES[name](layer) for layer in slow.walk(model, list(found.token_ids))]
    for number in (1, 2, 3):
        close(found.scores[number - 1], slow.rolled(matrices[:number])[0])
    close(explainer(tiny.TEXTS[0], method=name).scores, found.scores[-1], 1e-6)


@pytest.mark.parametrize("name", LAYERED)
@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_layer_scores_are_the_row_of_the_position_explained(family, name):
    model, explainer = both(family, "MaskedLM")
    found = explainer(tiny.MASKED, method=f"{name}:rollout=false", layers=[3, 1], target="good")
    matrices = [MATRICES[name](layer) for layer in slow.walk(model, list(found.token_ids))]
    mask = found.token_ids.index(tiny.VOCABULARY["[MASK]"])
    close(found.scores[0], matrices[2][mask])
    close(found.scores[1], matrices[0][mask])
    close(explainer(tiny.MASKED, method=f"{name}:rollout=false").scores, matrices[2][mask])


@pytest.mark.parametrize("family", ["llama", "qwen2", "opt", "gemma2"])
def test_value_zeroing_of_a_causal_model_is_a_rerun_with_that_value_zeroed(family):
    model, explainer = both(family, "CausalLM")
    ids = explainer(tiny.TEXTS[2], method="value-zeroing:rollout=false", layers=ALL)
    trunk = model.base_model.decoder if family == "opt" else model.base_model
    values = [layer.self_attn.v_proj for layer in trunk.layers]
    for number, (layer, value) in enumerate(zip(trunk.layers, values, strict=True), 1):
        outputs = []
        layer.register_forward_hook(
            lambda _, __, o, seen=outputs: seen.append((o if isinstance(o, torch.Tensor) else o[0])[0, -1].double())
        )
        for j in (None, *range(len(ids.tokens))):
            zeroed = torch.arange(len(ids.tokens)) == (-1 if j is None else j)
            handle = value.register_forward_hook(lambda _, __, o, z=zeroed: o.masked_fill(z[None, :, None], 0))
            tiny.logits_of(model, ids.token_ids)
            handle.remove()
        layer._forward_hooks.clear()
        real, *moved = (state / state.norm() for state in outputs)
        distances = torch.stack([(m - real).square().sum() for m in moved])
        close(ids.scores[number - 1], distances / distances.sum())


def test_a_head_that_pools_all_tokens_gets_the_mean_of_their_rows():
    settings = tiny.COMMON | tiny.INNER | tiny.IDS | {"num_key_value_heads": 2, "classifier_pooling": "mean"}
    config = transformers.AutoConfig.for_model("eurobert", **settings)
    explainer = Explainer(transformers.AutoModelForSequenceClassification.from_config(config).eval(), tiny.tokenizer())
    inside = explainer._model
    encodings = explainer.encode(tiny.TEXTS)
    with torch.inference_mode():
        run = inside.run(inside.batch(encodings, [0, 1, 2]))
        _, matrix = next(iter(ValueZeroing().matrices(inside, run, (3,))))  # (B, T, T)
    for row, text in enumerate(tiny.TEXTS):
        real = run.batch.mask[row]
        expected = matrix[row][real][:, real].mean(0)
        close(explainer(text, method="value-zeroing:rollout=false").scores, expected, 1e-5)


@pytest.mark.parametrize("method", ["alti", "decompx"])
def test_an_answer_read_from_padding_is_refused(method):
    model, explainer = both("bert")
    inputs = {"input_ids": torch.tensor([[0, 2, 7, 3], [2, 7, 8, 3]])}
    inputs["attention_mask"] = (inputs["input_ids"] != 0).long()  # padded on the left: position 0 is no token
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    with pytest.raises(UnsupportedModelError, match=f"^{method} needs a head that reads real tokens"):
        explainer.from_outputs(inputs, outputs, method=method)


@pytest.mark.filterwarnings("ignore")
def test_value_zeroing_refuses_layers_that_cannot_be_run_by_themselves():
    _, explainer = both("big_bird", attention_type="block_sparse", num_random_blocks=1)
    for words, message in ((28, "cannot on 28 copies of a text"), (27, "padding of its own")):
        with pytest.raises(UnsupportedModelError, match=message):
            explainer(" ".join(["the"] * (words - 2)), method="value-zeroing")


def test_value_zeroing_refuses_a_layer_that_gives_something_else_when_it_is_called_again():
    state = torch.randn(1, 3, 4)
    call = SimpleNamespace(call_again=lambda *_: state + 1, returned=state, layer=torch.nn.Linear(2, 2))
    with pytest.raises(UnsupportedModelError, match="Linear gives something else"):
        _score_matrix(call, torch.nn.Linear(2, 2), torch.ones(1, 3, dtype=torch.bool), 100)
