from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

from normxlogit import ALL, Explainer
from normxlogit.errors import HeadMismatchError, InputError, UnsupportedModelError
from normxlogit.loading.wrappers import module_and_reader, with_length_limit, wrapped_state
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


BERT, TOKENIZER = tiny.model("bert"), tiny.tokenizer_for("bert")


class Ranking(SimpleNamespace):
    """As a `CrossEncoder`, whose model is under one of two names."""

    def rank(self):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("model", "tokenizer", "expected"),
    [
        (BERT, TOKENIZER, (BERT, TOKENIZER)),
        (torch.nn.DataParallel(BERT), TOKENIZER, (BERT, TOKENIZER)),
        (SimpleNamespace(model=BERT, tokenizer=TOKENIZER), None, (BERT, TOKENIZER)),
        (SimpleNamespace(model=BERT, tokenizer=TOKENIZER), print, (BERT, print)),
        (SimpleNamespace(model=BERT, processing_class=TOKENIZER), None, (BERT, TOKENIZER)),
        (SimpleNamespace(model=BERT, processor=len, processing_class=print, tokenizer=TOKENIZER), None, (BERT, len)),
        (SimpleNamespace(model=BERT, tokenizer=None, feature_extractor=len), None, (BERT, len)),
        (SimpleNamespace(model=BERT, tokenizer=print, feature_extractor=len), None, (BERT, print)),
        (Ranking(model=BERT, tokenizer=TOKENIZER), None, (BERT, TOKENIZER)),
        (Ranking(model=BERT, tokenizer=TOKENIZER), print, (BERT, print)),
        (Ranking(transformers_model=BERT, model=None, tokenizer=TOKENIZER), None, (BERT, TOKENIZER)),
    ],
)
def test_the_module_and_what_reads_for_it(model, tokenizer, expected):
    module, reader = module_and_reader(model, tokenizer)
    assert module is expected[0]
    assert reader is expected[1]


def test_a_module_may_hold_its_tokenizer():
    module = torch.nn.Linear(2, 2)
    module.tokenizer = TOKENIZER
    assert module_and_reader(module, None) == (module, TOKENIZER)
    assert module_and_reader(module, print) == (module, print)


@pytest.mark.parametrize(
    ("model", "tokenizer", "message"),
    [
        (
            SimpleNamespace(model="a name", tokenizer=TOKENIZER),
            None,
            "takes a model or a pipeline, not SimpleNamespace",
        ),
        ("a name", TOKENIZER, "takes a model or a pipeline, not str"),
    ],
)
def test_what_is_no_model_is_refused(model, tokenizer, message):
    with pytest.raises(InputError, match=message):
        module_and_reader(model, tokenizer)


@pytest.mark.parametrize(
    "ranking",
    [
        Ranking(model=BERT.bert, tokenizer=TOKENIZER),  # is no classifier
        SimpleNamespace(model=BERT, tokenizer=TOKENIZER, rank=3, default_prompt_name="query"),
    ],
)
def test_what_does_not_rank_by_a_classifier_is_read_as_a_pipeline(ranking):
    assert module_and_reader(ranking, None) == (ranking.model, TOKENIZER)


def test_a_ranking_model_with_a_prompt_is_refused():
    with pytest.raises(UnsupportedModelError, match="modules or prompts around"):
        module_and_reader(Ranking(model=BERT, tokenizer=TOKENIZER, default_prompt_name="query"), None)


@pytest.mark.parametrize(
    ("limits", "length"),
    [
        ({}, 40),
        ({"max_seq_length": 12}, 12),
        ({"max_length": 12}, 12),
        ({"max_seq_length": 9, "max_length": 12}, 9),
        ({"max_seq_length": None, "max_length": 12}, 12),
        ({"max_seq_length": 40}, 40),
        ({"max_seq_length": 41}, 40),
        ({"max_seq_length": 12.0}, 40),
    ],
)
def test_the_lower_of_two_limits_counts(limits, length):
    limited = with_length_limit(SimpleNamespace(**limits), TOKENIZER)
    assert limited.model_max_length == length
    assert TOKENIZER.model_max_length == 40
    assert (limited is TOKENIZER) == (length == 40)


def test_the_parts_of_a_pipeline_become_the_processor_of_its_model():
    class Processor:
        def __init__(self, tokenizer, image_processor):
            self.parts = tokenizer, image_processor

    class Config(transformers.BertConfig):
        pass

    parts = {"tokenizer": TOKENIZER, "image_processor": print, "feature_extractor": len}
    pipeline = SimpleNamespace(model=tiny.model("bert"), **parts)
    assert module_and_reader(pipeline, None)[1] is TOKENIZER, "no processor is known for its configuration"
    pipeline.model.config = Config()
    PROCESSOR_MAPPING.register(Config, Processor)
    try:
        assert module_and_reader(pipeline, None)[1].parts == (TOKENIZER, print)
        del pipeline.image_processor, pipeline.feature_extractor
        assert module_and_reader(pipeline, None)[1] is TOKENIZER
    finally:
        del PROCESSOR_MAPPING._extra_content[Config]


def test_labels_and_settings_of_what_is_wrapped():
    state = wrapped_state(BERT, TOKENIZER, None)
    assert (state["model"], state["tokenizer"], state["labels"]) == (BERT, TOKENIZER, None)
    assert state["pipeline"].ignored is None
    assert wrapped_state(BERT, TOKENIZER, ["no", "yes"])["labels"] == ("no", "yes")
    parts = {"_preprocess_params": {"max_length": 6}, "_forward_params": {}, "task": "token-classification"}
    pipeline = SimpleNamespace(
        model=BERT, tokenizer=TOKENIZER, **parts, _postprocess_params={"ignore_labels": ["LABEL_1"]}
    )
    for name in ("preprocess", "postprocess"):
        setattr(pipeline, name, lambda: None)
    pipeline._sanitize_parameters = lambda: ({}, {}, {})
    settings = wrapped_state(pipeline, None, None)["pipeline"]
    assert (settings.max_length, settings.ignored) == (6, [1])
