"""A package adds a kind of input for modules of one's own, read without a tokenizer, and outputs of a text task."""

MODULES = """
import sys
import numpy as np
import torch
from torch import nn
from normxlogit import ALL, DataError, Explainer, InputError, UnsupportedModelError, load
from tests import plain, tiny

class Module(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Linear(1, width)
        self.places = nn.Parameter(torch.randn(64, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 32, batch_first=True, dropout=0.0) for _ in range(3)
        )
        self.out = nn.Linear(width, 2)

    def states(self, values):
        states = [self.embed(values) + self.places[: values.shape[1]]]
        for layer in self.layers:
            states.append(layer(states[-1]))
        return states

    def forward(self, values):
        return self.out(self.states(values)[-1].mean(1))

class ChannelsFirst(Module):
    channels_first = True

    def forward(self, values):
        return super().forward(values.transpose(1, 2))

torch.manual_seed(0)
module = Module().eval()
numbers = np.sin(np.arange(12)).astype(np.float32)
tensor = torch.tensor(numbers)[None, :, None]
"""

SERIES = """
explainer = Explainer(module, task="series-classification", labels=["calm", "storm"])
a = explainer(numbers, verify=3)
answer = module(tensor)[0]
np.testing.assert_allclose(a.prediction.probability, answer.softmax(-1)[a.prediction.id].item(), rtol=1e-4)
assert a.method == "frozen-gradient" and set(a.units.kind) == {"step"}
np.testing.assert_allclose(a.scores.sum() + a.bias, answer[a.prediction.id].item(), atol=1e-4)
assert (a.verified.unit, a.verified.removed_by, len(a.verified.single)) == ("step", "flattened", 3)
for removal in a.verified.single:
    (step,) = removal.tokens
    flat = tensor.clone()
    flat[:, step] = float(np.delete(numbers, step).mean())
    np.testing.assert_allclose(removal.value, module(flat)[0].softmax(-1)[a.prediction.id].item(), rtol=1e-4)
assert "Without step" in str(explainer(numbers, verify=1).verified)
assert 'class="steps"' in a.to_html() and "series, strongest: 0, 5" in str(a)
for name in ("a.json", "a.parquet"):
    a.save(f"{sys.argv[1]}/{name}")
    assert load(f"{sys.argv[1]}/{name}") == a
state = a.to_dict()
state["units"]["kind"][0] = "stride"
for broken in (state, a.to_dict() | {"verified": a.to_dict()["verified"] | {"unit": "stride"}}):
    try:
        type(a).from_dict(broken)
    except DataError as error:
        assert "'stride' is of no extension" in str(error), error
    else:
        raise AssertionError("an unknown kind was loaded")
many = explainer([numbers, numbers[:5], numbers[::-1].copy()])
assert [each.scores.size for each in many] == [12, 5, 12]
np.testing.assert_allclose(many[0].scores, a.scores, atol=1e-5)
by_layer = explainer(numbers, method="normxlogit", layers=ALL)
assert by_layer.scores.shape == (3, 12)
assert explainer.without(numbers, ["3"]).original == a.verified.original.value
try:
    explainer(numbers, method="occlusion")
except UnsupportedModelError as error:
    assert "needs words" in str(error)
else:
    raise AssertionError("a series has no words to leave out")
constant = Explainer(module, task="series-classification")
np.testing.assert_allclose(constant(np.ones(7)).scores.sum() + constant(np.ones(7)).bias,
    module(torch.ones(1, 7, 1))[0].max().item(), atol=1e-4)
try:
    explainer(np.ones(65))
except InputError as error:
    assert "cannot read series of shape (1, 65, 1)" in str(error), error
else:
    raise AssertionError("the module has 64 places")

# A module that reads another order of axes is adapted, and the copy compared with it.
turned = ChannelsFirst().eval()
turned.load_state_dict(module.state_dict())
b = Explainer(turned, task="series-classification", labels=["calm", "storm"])(numbers, verify=3)
np.testing.assert_allclose(b.scores, a.scores, atol=1e-5)
assert b.verified == a.verified
"""

OUTPUTS = """
torch.manual_seed(0)
texts, reader = plain.grown(plain.Transformer(outputs=2)), tiny.tokenizer_for("bert")
explainer = Explainer(texts, reader, task="form-urgency")
form = {"title": "a fine film"}
assert explainer(form).prediction.label in ("can wait", "urgent")
assert explainer(form, target="urgent").target.name == "urgent"
try:
    Explainer(texts, reader, task="form-urgency", labels=["x", "y"])
except InputError as error:
    assert "labels=" in str(error)
else:
    raise AssertionError("labels were lost")
class Chances(plain.Transformer):
    def forward(self, input_ids, attention_mask=None):
        return super().forward(input_ids, attention_mask).sigmoid()
try:
    Explainer(plain.grown(Chances(outputs=2)), reader, task="form-urgency")
except UnsupportedModelError as error:
    assert "independent" in str(error)
else:
    raise AssertionError("sigmoids were read as exclusive")
try:
    Explainer(texts, task="form-urgency")
except InputError as error:
    assert "needs its tokenizer" in str(error)
else:
    raise AssertionError("a text task went without a tokenizer")
"""


def test_series_of_numbers_are_explained_verified_drawn_and_saved_without_a_reader(extensions_installed, tmp_path):
    code, _, error = extensions_installed("-c", MODULES + SERIES, tmp_path)
    assert code == 0, error


def test_a_text_task_keeps_the_outputs_that_it_declares(extensions_installed):
    code, _, error = extensions_installed("-c", MODULES + OUTPUTS)
    assert code == 0, error
