from types import SimpleNamespace

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer
from normxlogit.errors import HeadMismatchError, UnsupportedModelError
from tests import tiny
from tests.adapters import KINDS, adapted

peft = pytest.importorskip("peft")
accelerate = pytest.importorskip("accelerate")

pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),  # peft's call
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),  # torch's own
]

TEXT = tiny.TEXTS[2]


def by_hand(wrapped, explainer: Explainer) -> np.ndarray:
    ids = torch.tensor([explainer(TEXT).token_ids])
    with torch.no_grad():
        out = wrapped(input_ids=ids, output_hidden_states=True)
        norms = out.hidden_states[0][0].float().norm(dim=-1)  # (T,)
        if out.logits.ndim == 3:
            label = out.logits[0, -1].argmax()
            logits = out.logits[0, :, label]  # (T,)
        else:
            plain = explainer._model.module
            each = out.hidden_states[-1].transpose(0, 1)  # (T, 1, H): every token a text of its own
            logits = plain.classifier(plain.bert.pooler(each))[:, out.logits[0].argmax()]  # (T,)
    return (norms * logits.float()).numpy()


def head_trained_beside():
    wrapped = adapted("bert", modules_to_save=["classifier"])
    with torch.no_grad():
        wrapped.base_model.model.classifier.modules_to_save["default"].weight.add_(1.0)
    return wrapped


READ = {
    # Rows of an adapted embedding cannot be cut out of the base weight, so all columns are computed.
    "output embedding": ("llama", lambda: adapted("llama", target_modules=["lm_head"])),
    "trained head": ("bert", head_trained_beside),
}


@pytest.mark.parametrize("name", READ)
def test_heads_and_weights_are_read_as_they_are(name):
    family, make = READ[name]
    model = make()
    explainer = Explainer(model, tiny.tokenizer_for(family))
    scores = explainer(TEXT, method="normxlogit").scores
    np.testing.assert_allclose(scores, by_hand(model, explainer), rtol=1e-4, atol=1e-4)


def test_adapters_that_the_text_switches_on_and_virtual_tokens_are_refused():
    wrapped = adapted("llama", alora_invocation_tokens=[tiny.VOCABULARY["film"]])
    with pytest.raises(UnsupportedModelError, match="activated LoRA"):
        Explainer(wrapped, tiny.tokenizer_for("llama"))
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    wrapped = peft.get_peft_model(tiny.model("llama", "CausalLM"), config).eval()
    with pytest.raises(UnsupportedModelError, match="prompt learning puts virtual tokens"):
        Explainer(wrapped, tiny.tokenizer_for("llama"))
    with wrapped.disable_adapter():
        assert Explainer(wrapped, tiny.tokenizer_for("llama"))(TEXT).tokens


@pytest.mark.parametrize(("longest", "read"), [(6, 6), (20, 12), (None, 12), ("6", 12)])
def test_the_lower_limit_of_a_ranking_model_and_its_tokenizer_counts(longest, read):
    tokenizer = tiny.tokenizer()
    tokenizer.model_max_length = 12
    ranking = SimpleNamespace(rank=print, model=tiny.model("bert"), tokenizer=tokenizer, max_length=longest)
    assert len(Explainer(ranking)("the " * 30).tokens) == read
    assert tokenizer.model_max_length == 12


@pytest.mark.parametrize("where", ["", "base_model"])
def test_what_is_done_around_the_model_is_not_passed_over(where):
    """As X-LoRA does, which reads a text twice; here it is a hook on what holds the adapters."""
    wrapped = adapted("llama")
    explainer = Explainer(wrapped, tiny.tokenizer_for("llama"))
    explainer(TEXT)
    wrapped.get_submodule(where).register_forward_hook(lambda _, __, output: {"logits": output.logits * 2})
    with pytest.raises(HeadMismatchError, match="differ from the model's own"):
        explainer(TEXT)


def test_hooks_around_a_compiled_model_are_refused():
    compiled = torch.compile(tiny.model("bert"))
    compiled.register_forward_hook(lambda _, __, output: {"logits": output.logits * 2})
    with pytest.raises(UnsupportedModelError, match=r"hooks are on what torch\.compile put around a BertFor"):
        Explainer(compiled, tiny.tokenizer_for("bert"))


@pytest.mark.parametrize(
    ("family", "method"), [(family, method) for family in KINDS for method in ("normxlogit", "frozen-gradient")]
)
def test_weights_that_wait_elsewhere_give_the_same_scores(family, method, tmp_path):
    """Offloaded weights are on the meta device until accelerate's hook brings them for one call of their module."""
    plain = tiny.model(family, KINDS[family])
    tokenizer = tiny.tokenizer_for(family)
    wanted = Explainer(plain, tokenizer)(TEXT, method=method).scores
    layered = Explainer(plain, tokenizer)(TEXT, method=method, layers=ALL).scores
    disk = accelerate.disk_offload(tiny.model(family, KINDS[family]), str(tmp_path), execution_device="cpu")
    memory = accelerate.cpu_offload(tiny.model(family, KINDS[family]), execution_device="cpu")
    for offloaded in (memory, disk):
        assert next(offloaded.parameters()).device.type == "meta"
        explainer = Explainer(offloaded, tokenizer)
        np.testing.assert_allclose(explainer(TEXT, method=method).scores, wanted, rtol=1e-5, atol=1e-5)
        layers = explainer(TEXT, method=method, layers=ALL).scores
        np.testing.assert_allclose(layers, layered, rtol=1e-5, atol=1e-5)
        assert next(offloaded.parameters()).device.type == "meta", "weights must go back"
