"""What was kept belongs to the model that made it: its weights, adapters, hooks and settings."""

import copy
import json
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from normxlogit import DataError, Explainer, attribute
from tests import adapters, tiny
from tests.contract.compare import refused

pytest.importorskip("peft")
pytest.importorskip("pyarrow")

pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),  # peft's call
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),  # torch's own
]

ROWS = [{"text": text} for text in tiny.TEXTS * 3]


def adapted():
    """A model with two LoRA adapters, "default" and "other", of which the first is active."""
    return adapters.adapted("bert", "other")


def bert(model):
    return model.base_model.model.bert


def query(model):
    return bert(model).encoder.layer[0].attention.self.query


def double(value):
    return value * SCALE


SCALE = 2.0


class Steering:
    """A hook with a setting."""

    def __init__(self, strength):
        self.strength = strength

    def __call__(self, module, inputs, output):
        return output * self.strength


def closure_hook(strength):
    return lambda module, inputs, output: output + strength


def scaled(model):
    query(model).scaling["default"] *= 3


def in_place(model):
    with torch.no_grad():
        query(model).base_layer.weight[0, 0] += 1


CHANGES = {
    "active adapter": lambda model: model.set_adapter("other"),
    "scaling": scaled,
    "adapters off": lambda model: model.base_model.disable_adapter_layers(),
    "weight": in_place,
    "hook": lambda model: query(model).register_forward_hook(Steering(2.0)),
    "pre-hook": lambda model: query(model).register_forward_pre_hook(lambda module, inputs: (double(inputs[0]),)),
    "backward hook": lambda model: query(model).register_full_backward_hook(lambda *_: None),
    "setting of a module": lambda model: setattr(bert(model).encoder.layer[0].output.LayerNorm, "eps", 1),
    "forward of one module": lambda model: setattr(bert(model).pooler, "forward", lambda hidden: hidden[:, 0]),
}
"""What makes another model of one that `adapted` returned."""


def attributed(model, folder, rows=ROWS, **options):
    return attribute(Explainer(model, tiny.tokenizer(), name="tiny"), rows, folder, shard_rows=4, **options)


def stopped(progress):
    raise KeyboardInterrupt


def begin(model, folder):
    """Write the first shards of a run that is stopped, and return the folder."""
    with pytest.raises(KeyboardInterrupt):
        attributed(model, folder, watch=stopped)
    return folder


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A corpus folder with the first shards of a run that was stopped."""
    return begin(adapted(), tmp_path_factory.mktemp("corpus") / "run")


@pytest.mark.parametrize("name", CHANGES)
def test_a_corpus_is_not_continued_with_another_model(begun, name):
    model = adapted()
    CHANGES[name](model)
    before = (begun / "manifest.json").read_bytes()
    refused(DataError, "other weights, settings, active adapters, hooks", lambda: attributed(model, begun))
    assert (begun / "manifest.json").read_bytes() == before


def test_a_corpus_is_continued_with_the_same_model(begun, tmp_path):
    """It may be another object, that was used, was in training mode, and had another adapter and a hook meanwhile."""
    model = adapted()
    with torch.no_grad():
        model(input_ids=torch.ones(1, 5, dtype=torch.long), output_hidden_states=True)
    query(model).register_forward_hook(Steering(2.0)).remove()
    model.set_adapter("other")
    model.set_adapter("default")
    model.train().eval()
    folder = begin(model, tmp_path / "run")
    manifests = [json.loads((place / "manifest.json").read_text()) for place in (begun, folder)]
    assert manifests[0]["identity"] == manifests[1]["identity"]
    assert attributed(adapted(), folder).rows == len(ROWS)


def test_a_model_that_was_saved_and_loaded_is_the_same(tmp_path):
    model = tiny.model("bert", "SequenceClassification")
    folder = begin(model, tmp_path / "run")
    model.save_pretrained(tmp_path / "model")
    loaded = type(model).from_pretrained(tmp_path / "model", attn_implementation="eager")
    assert attributed(loaded, folder).rows == len(ROWS)


@pytest.mark.parametrize(("one", "other"), [(Steering(2.0), Steering(3.0)), (closure_hook(1.0), closure_hook(2.0))])
def test_a_hook_counts_by_what_it_does(tmp_path, one, other):
    def hooked(hook):
        model = tiny.model("bert", "SequenceClassification")
        model.bert.pooler.register_forward_hook(hook)
        return model

    begin(hooked(one), tmp_path)
    refused(DataError, "hooks", lambda: attributed(hooked(other), tmp_path))
    assert attributed(hooked(copy.deepcopy(one)), tmp_path).rows == len(ROWS)


def test_a_module_counts_by_its_code_and_its_settings(tmp_path):
    def plain(scale, setting):
        class Model(torch.nn.Module):
            factor = scale

            def __init__(self):
                super().__init__()
                self.settings = SimpleNamespace(shift=[{"by": setting}])
                self.table, self.out = torch.nn.Embedding(64, 8), torch.nn.Linear(8, 2)

            def forward(self, input_ids, attention_mask=None):
                return self.out(self.table(input_ids).mean(1) * self.factor + self.settings.shift[0]["by"])

        torch.manual_seed(0)
        return Explainer(Model(), tiny.tokenizer(), task="sequence-classification", labels=["no", "yes"], name="mine")

    options = {"shard_rows": 4, "method": "occlusion"}
    with pytest.raises(KeyboardInterrupt):
        attribute(plain(1.0, 0.0), ROWS, tmp_path, watch=stopped, **options)
    for other in (plain(2.0, 0.0), plain(1.0, 1.0)):
        refused(DataError, "settings", partial(attribute, other, ROWS, tmp_path, **options))
    assert attribute(plain(1.0, 0.0), ROWS, tmp_path, **options).rows == len(ROWS)


def test_a_change_while_a_corpus_is_explained_is_refused(tmp_path):
    model = adapted()
    with pytest.raises(DataError, match="changed while the corpus was explained"):
        attributed(model, tmp_path, watch=lambda _: model.set_adapter("other"))
    again = attributed(adapted(), tmp_path)
    assert (again.rows, again.errors) == (len(ROWS), 0)


def test_offloaded_weights_count(tmp_path):
    accelerate = pytest.importorskip("accelerate")

    def offloaded(change):
        model = tiny.model("bert", "SequenceClassification")
        with torch.no_grad():
            model.bert.encoder.layer[0].output.dense.weight.mul_(change)
        return accelerate.cpu_offload(model, execution_device="cpu")

    begin(offloaded(1), tmp_path)
    refused(DataError, "other weights", lambda: attributed(offloaded(2), tmp_path))
    assert attributed(tiny.model("bert", "SequenceClassification"), tmp_path).rows == len(ROWS)
