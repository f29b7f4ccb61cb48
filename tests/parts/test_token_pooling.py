"""Trunks that shorten the text, heads that need its other tokens, and trunks that cannot be read token by token."""

import pytest
import torch
import transformers

from normxlogit import Explainer
from normxlogit.parts import token_pooling
from tests import tiny


def funnel(**options):
    sizes = {"d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48, "vocab_size": tiny.SIZE}
    config = transformers.FunnelConfig(block_sizes=[1, 1, 1], num_decoder_layers=1, **sizes, **options)
    return tiny.random_model(transformers.FunnelForSequenceClassification, config)


def test_tokens_take_the_state_that_they_are_pooled_into():
    model = funnel(num_labels=3, truncate_seq=False)
    explainer = Explainer(model, tiny.tokenizer())
    text = tiny.TEXTS[2]
    result = explainer(text, method="normxlogit")
    ids = torch.tensor([result.token_ids])
    with torch.no_grad():
        outputs = model(input_ids=ids, output_hidden_states=True)
        norms = outputs.hidden_states[0][0].norm(dim=-1)  # (T,)
        logits = model.classifier(outputs.hidden_states[-1][0])[:, result.target.id]  # (T',)
    assert len(logits) < len(norms)
    # The class token stands alone; two blocks of stride two then pool the others by four.
    places = [0] + [1 + (i - 1) // 4 for i in range(1, len(norms))]
    torch.testing.assert_close(torch.tensor(result.scores), norms * logits[places], atol=1e-5, rtol=1e-4)


def test_tokens_that_the_trunk_drops_go_with_the_one_before_them(monkeypatch):
    def places(pool, length):
        """Where each token stands in a trunk that pools token ids like this, with no layer."""
        trunk = lambda _, __, ___, inputs: pool(inputs["input_ids"])[..., None].float()  # noqa: E731
        monkeypatch.setattr(token_pooling, "run_trunk", trunk)
        pooling = token_pooling.TokenPooling({}, 3)
        return token_pooling.token_state_indices(None, "", pooling, length, torch.device("cpu")).tolist()

    assert places(lambda ids: torch.stack((ids[:, 0] + ids[:, 1], ids[:, 2], ids[:, 5]), 1), 7) == [0, 0, 1, 1, 1, 2, 2]
    with pytest.raises(LookupError, match="into several states"):
        places(lambda ids: ids[:, :1] + torch.zeros(1, 2), 4)
    with pytest.raises(LookupError, match="holds no token"):
        places(lambda ids: torch.stack((ids[:, 0], 0 * ids[:, 1]), 1), 4)


def test_a_head_that_compares_tokens_is_read_in_the_text():
    """Splinter's reader asks every token how it fits the question's mask: alone, a token answers something else."""
    config = transformers.SplinterConfig(**tiny.COMMON, **tiny.INNER, question_token_id=4)
    model = tiny.random_model(transformers.SplinterForQuestionAnswering, config)
    explainer = Explainer(model, tiny.tokenizer())
    result = explainer(("the cat [MASK] ?", "a cat is here"), method="normxlogit")
    ids = torch.tensor([result.token_ids])
    with torch.no_grad():
        outputs = model(input_ids=ids, output_hidden_states=True)
    own = torch.stack((outputs.start_logits, outputs.end_logits), -1)[0, :, result.target.id]  # (T,)
    norms = outputs.hidden_states[0][0].norm(dim=-1)  # (T,)
    kept = own.abs() < 1e4
    torch.testing.assert_close(torch.tensor(result.scores)[kept], (norms * own)[kept], atol=1e-4, rtol=1e-4)
    assert not explainer._model.parts.tokenwise
