"""Whatever a model looks up for a token, beside its word embedding too, belongs to that token and to no bias."""

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from normxlogit import Explainer
from tests import plain, tiny
from tests.abilities import needs
from tests.contract.compare import total

PROMPT, COMPLETION = "once upon a time the cat", " sat on the mat"
LAYERS = ["sliding_attention", "sliding_attention", "full_attention"]
SETTINGS = tiny.COMMON | tiny.INNER | tiny.IDS | {"num_key_value_heads": 2, "head_dim": 8, "layer_types": LAYERS}
SETTINGS |= {"sliding_window": 32, "vocab_size_per_layer_input": tiny.SIZE, "hidden_size_per_layer_input": 8}
SETTINGS |= {"num_kv_shared_layers": 0}


def gemma(name, **options):
    config = getattr(transformers, f"{name}TextConfig")(**SETTINGS, **options)
    return tiny.random_model(getattr(transformers, f"{name}ForCausalLM"), config)


MODELS = {
    "Gemma 4": lambda: gemma("Gemma4", global_head_dim=8),
    "Gemma 3n": lambda: gemma("Gemma3n", laurel_rank=4, altup_num_inputs=2, activation_sparsity_pattern=[0.0] * 3),
}


@pytest.mark.parametrize(("name", "settings"), [
    *(pytest.param("Gemma 4", settings, marks=needs("Gemma 4"))
      for settings in ("", ":read_at=0", ":read_at=0,sink_threshold=none")),
    pytest.param("Gemma 3n", ":read_at=0", marks=needs("Gemma 3n")),
])  # fmt: skip
def test_tokens_contribute_all_of_a_logit_of_a_network_without_biases(name, settings):
    model, method = MODELS[name](), f"frozen-gradient{settings}"
    found = Explainer(model, tiny.tokenizer_for("llama")).explain_completion(PROMPT, COMPLETION, method=method)
    logits = tiny.logits_of(model, found.token_ids)
    own = [logits[target.position][target.id] - logits[target.position].mean() for target in found.targets]
    np.testing.assert_allclose(total(found), own, atol=1e-4)
    np.testing.assert_allclose(found.bias, 0, atol=1e-4)


class Twice(nn.Module):
    """Adds up what it looks up: the contribution of each token is known."""

    def __init__(self, width=16):
        super().__init__()
        self.words, self.more = nn.Embedding(tiny.SIZE, width), nn.Embedding(tiny.SIZE, 2 * width)
        self.places = nn.Embedding(40, width)
        self.mix, self.norm, self.out = nn.Linear(2 * width, width), nn.Identity(), nn.Linear(width, 3)

    def parts(self, input_ids):
        places = self.places(torch.arange(input_ids.shape[1])[None].expand_as(input_ids))
        return self.words(input_ids), self.mix(self.more(input_ids)), places

    def get_input_embeddings(self):
        return self.words

    def forward(self, input_ids, attention_mask=None):
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        states = self.norm(sum(self.parts(input_ids))) * mask[..., None]
        return self.out(states.sum(1) / mask.sum(1, keepdim=True))


@pytest.mark.parametrize("texts", [["the movie is not good", "bad"], ["[PAD] [UNK] [CLS] [SEP]", "the movie"]])
def test_what_is_looked_up_twice_is_counted_twice_and_positions_are_not(texts):
    """The second text's token ids are the numbers of its positions."""
    torch.manual_seed(0)
    model = plain.grown(Twice())
    tokenizer = tiny.tokenizer(specials=False)
    explainer = Explainer(model, tokenizer, task="sequence-classification")
    for text, found in zip(texts, explainer(texts, target=1, method="frozen-gradient:read_at=0"), strict=True):
        ids = torch.tensor([tokenizer(text).input_ids])
        with torch.no_grad():
            words, more, _ = model.parts(ids)
            each = ((words + more - model.mix.bias) @ model.out.weight[1])[0] / ids.shape[1]
            logit = model(ids)[0, 1].item()
        np.testing.assert_allclose(found.scores, each, rtol=1e-4, atol=1e-5)
        assert total(found) == pytest.approx(logit, abs=1e-4)
        alone = explainer(text, target=1, method="frozen-gradient:read_at=0")
        np.testing.assert_allclose(found.scores, alone.scores, rtol=1e-5, atol=1e-6)
