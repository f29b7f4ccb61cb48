"""The paper's own scores against its formula, from the plain model's hidden states."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer
from tests import tiny


@pytest.mark.parametrize("norm_of", ["embedding_output", "word_embedding"])
def test_the_heads_logit_at_each_token_times_the_norm_of_its_embedding(norm_of):
    model, tokenizer = tiny.model("bert", num_labels=3), tiny.tokenizer_for("bert")
    explainer = Explainer(model, tokenizer)
    ids = tokenizer(tiny.TEXTS[0], return_tensors="pt").input_ids  # (1, T)
    with torch.no_grad():
        states = model(input_ids=ids, output_hidden_states=True).hidden_states
        logits = model.classifier(model.bert.pooler(states[-1][0][:, None]))[:, 1]  # (T,), each token pooled alone
        words = model.bert.embeddings.word_embeddings(ids)
    norms = (states[0] if norm_of == "embedding_output" else words)[0].norm(dim=-1)  # (T,)
    for method, wanted in (("input-norm", norms), ("normxlogit", norms * logits)):
        found = explainer(tiny.TEXTS[0], target=1, method=f"{method}:norm_of={norm_of}")
        np.testing.assert_allclose(found.scores, wanted, rtol=1e-4, atol=1e-5)
    found = explainer(tiny.TEXTS[0], target=1, method="logat")
    np.testing.assert_allclose(found.scores, logits, rtol=1e-4, atol=1e-5)
