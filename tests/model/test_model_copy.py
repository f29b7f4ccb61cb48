"""The model as it is now: whatever its owner does to it between two calls, the second explains what it then is."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from normxlogit import ALL, Explainer
from normxlogit.model.task_model import TaskModel
from tests import tiny

pytestmark = pytest.mark.filterwarnings("ignore")

TEXT = tiny.TEXTS[2]


def lora_bert():
    peft = pytest.importorskip("peft")
    made = tiny.model("bert")
    config = peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "value"])
    wrapped = peft.get_peft_model(made, config).eval()
    wrapped.add_adapter("second", config)
    learn(wrapped)
    return wrapped


def learn(model):
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.5)


def own_adapter():
    pytest.importorskip("peft")
    from peft import LoraConfig

    model = tiny.model("bert")
    model.add_adapter(LoraConfig(r=4, target_modules=["query", "value"]))
    learn(model)
    return model.eval()


def set_adapter(model):
    model.set_adapter("second")


def disable_adapter(model):
    model.base_model.disable_adapter_layers()


def hook_added(model):
    model.bert.encoder.layer[1].register_forward_hook(lambda _, __, output: output * 1.5)


def hook_removed(model):
    model.bert.encoder.layer[0]._forward_hooks.clear()


def head_replaced(model):
    torch.manual_seed(9)
    model.classifier = nn.Linear(32, 2)


def scalar_replaced(model):
    model.classifier.register_parameter("bias", nn.Parameter(model.classifier.bias + 1))


def assigned(model):
    torch.manual_seed(9)
    model.load_state_dict({k: v + 0.1 * torch.randn_like(v) for k, v in model.state_dict().items()}, assign=True)


def attention_changed(model):
    for layer in model.bert.encoder.layer:
        layer.attention.self.scaling = layer.attention.self.scaling * 3


def forward_replaced(model):
    own = type(model.bert.embeddings).forward
    model.bert.embeddings.forward = lambda *a, **k: own(model.bert.embeddings, *a, **k) * 2


def in_place(model):
    with torch.no_grad():
        model.bert.encoder.layer[0].output.dense.weight.mul_(2)


def in_data(model):
    model.bert.encoder.layer[0].output.dense.weight.data = model.bert.encoder.layer[0].output.dense.weight.data * 2


def hooked():
    model = tiny.model("bert")
    model.bert.encoder.layer[0].register_forward_hook(lambda _, __, output: output * 1.5)
    return model


def bert():
    return tiny.model("bert")


CHANGES = [
    (lora_bert, set_adapter),
    (lora_bert, disable_adapter),
    (own_adapter, lambda model: model.disable_adapters()),
    (bert, hook_added),
    (hooked, hook_removed),
    (bert, head_replaced),
    (bert, scalar_replaced),
    (bert, assigned),
    (bert, attention_changed),
    (bert, forward_replaced),
    (bert, in_place),
    (bert, in_data),
]


@pytest.mark.parametrize(("build", "change"), CHANGES, ids=lambda f: f.__name__)
def test_a_change_between_two_calls_is_followed(build, change):
    model, tokenizer = build(), tiny.tokenizer_for("bert")
    explainer = Explainer(model, tokenizer)
    before = explainer(TEXT, target=0, method="normxlogit").scores
    change(model)
    after = explainer(TEXT, target=0, method="normxlogit")
    np.testing.assert_allclose(
        after.scores, Explainer(model, tokenizer)(TEXT, target=0, method="normxlogit").scores, rtol=1e-5, atol=1e-6
    )
    with torch.no_grad():
        logits = model(**tokenizer(TEXT, return_tensors="pt")).logits[0]
    assert after.prediction.value == pytest.approx(logits.max().item(), abs=1e-5)
    assert np.abs(after.scores - before).max() > 1e-3


def test_merging_and_switching_back_leave_the_scores():
    wrapped = lora_bert()
    explainer = Explainer(wrapped, tiny.tokenizer_for("bert"))
    on = explainer(TEXT).scores
    with wrapped.disable_adapter():
        off = explainer(TEXT).scores
    np.testing.assert_allclose(explainer(TEXT).scores, on, rtol=1e-5, atol=1e-6)
    assert np.abs(on - off).max() > 1e-3
    wrapped.merge_adapter()
    np.testing.assert_allclose(explainer(TEXT).scores, on, rtol=1e-3, atol=1e-3)
    wrapped.unmerge_adapter()
    np.testing.assert_allclose(explainer(TEXT).scores, on, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("layers", [None, ALL])
def test_a_change_in_another_thread_waits_for_the_next_call(layers, monkeypatch):
    """The first call has run its trunk when the other thread copies the changed model: it ends as it began."""
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    expected = Explainer(model, tokenizer)(TEXT, target=0, layers=layers).scores
    explainer, finish, found = Explainer(model, tokenizer), TaskModel.finish, []

    def changed(*_):
        head_replaced(model)
        found.append(explainer(TEXT, target=0, layers=layers).scores)

    def meanwhile(self, *args, **options):
        if not found:
            found.append(None)
            thread = threading.Thread(target=changed)
            thread.start()
            thread.join()
        return finish(self, *args, **options)

    monkeypatch.setattr(TaskModel, "finish", meanwhile)
    np.testing.assert_allclose(explainer(TEXT, target=0, layers=layers).scores, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(explainer(TEXT, target=0, layers=layers).scores, found[1])
    assert np.abs(found[1] - expected).max() > 1e-3


def test_what_is_read_before_the_first_batch_is_of_the_model_as_it_is_now():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    explainer = Explainer(model, tokenizer)
    text = "the movie is not good " * 4
    assert explainer(text).target.name.startswith("LABEL")
    model.config.id2label = {0: "no", 1: "yes"}
    assert explainer(text, target="yes", contrast="no").target.name == "yes"
    tokenizer.model_max_length = 10
    assert len(explainer(text).units) == len(explainer.encode(text)[0]) == 10
    tokenizer.model_max_length = 20
    assert len(explainer(text).units) == 20, "the tokenizer's limit is read anew, larger ones too"
    model.resize_token_embeddings(80)
    assert explainer({"input_ids": [[2, 79, 3]]})[0].token_ids == (2, 79, 3)
