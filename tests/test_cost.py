"""What makes the explanation cheap, as counts of calls and operations: a clock on a busy machine proves nothing."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from normxlogit import ALL
from tests import tiny
from tests.tiny import explainer

WIDE = 997
"""A vocabulary size that no other axis has."""


def warm(e):
    """Let what is tried once, the head and what padding does, be over."""
    e(tiny.MASKED, method="normxlogit")
    e([tiny.MASKED, f"{tiny.MASKED} and there"], method="normxlogit")
    return e


@pytest.fixture
def layer_calls(monkeypatch):
    """Count the calls of a class of layers, whichever copy of the model makes them."""

    def count(layers):
        calls = []
        kind, forward = type(layers[0]), type(layers[0]).forward
        monkeypatch.setattr(kind, "forward", lambda self, *a, **k: calls.append(1) or forward(self, *a, **k))
        return calls

    return count


class Operations(TorchDispatchMode):
    """Notes the shape of what every operation computes; views of the weights are no computation."""

    def __init__(self, model):
        super().__init__()
        self.weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self.shapes: list[torch.Size] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for value in tree_leaves(found):
            if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() not in self.weights:
                self.shapes.append(value.shape)
        return found

    def rows_of(self, width):
        return max((shape.numel() // width for shape in self.shapes if width in shape), default=0)


def flops(work):
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


@pytest.mark.parametrize(
    "options",
    [{}, {"target": ALL}, {"layers": ALL}, {"target": ALL, "layers": ALL}, {"token_predictions": True}],
    ids=str,
)
def test_one_trunk_call_for_a_batch(layer_calls, options):
    e = explainer(num_labels=3)
    texts = ["the movie is not good", "a cat sat on the mat", "the plot was very bad"]
    e(texts, **options)  # proved once for each lowest place at which contributions are read
    calls = layer_calls(e._model.module.bert.encoder.layer)
    e(texts, **options)
    assert len(calls) == 3


def test_from_outputs_runs_the_embeddings_and_no_attention(layer_calls):
    e = explainer()
    inputs = e._model.tokenizer(tiny.TEXTS, return_tensors="pt", padding=True)
    with torch.inference_mode():
        outputs = e._model.module(**inputs, output_hidden_states=True)
    e.from_outputs(inputs, outputs)
    calls = layer_calls(e._model.module.bert.encoder.layer)
    outputs_of_attention = layer_calls([layer.attention.output for layer in e._model.module.bert.encoder.layer])
    e.from_outputs(inputs, outputs, layers=ALL)
    assert len(calls) <= 1, "the first layer is where the embeddings arrive"
    assert not outputs_of_attention


def test_the_head_costs_its_operations_on_real_tokens():
    e = warm(explainer(num_labels=3))
    encodings = e.encode(["the movie is not good", "a cat sat on the mat ."])
    batch = e._model.batch(encodings, [0, 1])
    assert batch.padded, "else the test would not notice padding"
    e(encodings, method="normxlogit")  # once, to see that the one does not change beside the other
    bare = flops(lambda: e._model.module(**batch.inputs))
    tokens, width = sum(map(len, encodings)), e.model.config.hidden_size
    head = 2 * tokens * (width * width + 3 * width)  # pooler and classifier
    assert flops(lambda: e(encodings, method="normxlogit")) == bare + head
    assert flops(lambda: e(encodings, target=ALL, method="normxlogit")) == bare + head, (
        "more labels are read off the same logits"
    )
    below = e._model.parts.layers - 1
    assert flops(lambda: e(encodings, layers=ALL, method="normxlogit")) == bare + (1 + below) * head


@pytest.mark.parametrize(("family", "kind"), [("bert", "MaskedLM"), ("roberta", "MaskedLM"), ("llama", "CausalLM")])
def test_the_vocabulary_meets_only_the_explained_positions(family, kind):
    e = warm(explainer(family, kind, vocab_size=WIDE))
    texts = [tiny.MASKED, tiny.MASKED + " and there"]
    with Operations(e._model.module) as operations:
        e(texts, layers=ALL, method="normxlogit")
        e(texts, target=["are", "is"], contrast="was", method="normxlogit")
    assert 0 < operations.rows_of(WIDE) <= len(texts)
