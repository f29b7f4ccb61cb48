from dataclasses import replace

import pytest
import torch

from normxlogit import Explainer, UnsupportedModelError
from normxlogit.frozen.frozen_model import FrozenModel
from normxlogit.frozen.places import Reading
from tests import tiny

from .test_contributions import layers, made


def test_a_layer_that_does_not_pass_by_is_refused(monkeypatch):
    task, batch = made("bert")
    frozen = FrozenModel.of(task)
    frozen.run(batch, Reading(layers(1, 3)))
    tenth_calls = {place: replace(output, call=10) for place, output in frozen.places.outputs(batch).items()}
    monkeypatch.setattr(frozen.places, "outputs", lambda _: tenth_calls)
    with pytest.raises(UnsupportedModelError, match="does not give its layers' outputs"):
        frozen.run(batch, Reading(layers(1, 3)))


class Changed(torch.nn.Module):
    """A layer's last step, with a function of what it returns behind it."""

    def __init__(self, step, change):
        super().__init__()
        self.step, self.change = step, change

    def forward(self, x):
        return self.change(self.step(x))


def bent(x):
    """Add an operation that no rule holds."""
    return x + torch.special.i0e(x.cumsum(-1))


def capped(x):
    """Cap what is returned for longer texts alone."""
    return x if x.shape[1] < 8 else 2 * torch.tanh(20 * x)


def test_what_is_not_affine_counts_where_the_pass_goes_through_it():
    model = tiny.model("bert")
    model.bert.encoder.layer[0].output.dense = Changed(model.bert.encoder.layer[0].output.dense, bent)
    explainer = Explainer(model, tiny.tokenizer_for("bert"))
    for _ in range(2):  # proved above it, which proves nothing of what is below
        above = explainer(tiny.TEXTS[2], target=0, method="frozen-gradient:read_at=-1")
        with torch.no_grad():
            logit = model(**explainer.tokenizer(tiny.TEXTS[2], return_tensors="pt")).logits[0, 0].item()
        assert above.scores.sum() + above.bias == pytest.approx(logit, abs=1e-5)
        for read_at in (0, "first-half"):
            with pytest.raises(UnsupportedModelError, match=r"SpecialI0E in bert\.encoder\.layer\.0\.output\.dense"):
                explainer(tiny.TEXTS[2], method=f"frozen-gradient:read_at={read_at}")


def test_a_buffer_that_the_owner_changed_is_followed():
    """As training changes what batch norms remember, which makes no other module of them."""
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    model.classifier = torch.nn.Sequential(torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 2)).eval()
    explainer = Explainer(model, tokenizer)
    before = explainer(tiny.TEXTS[2], target=0, method="frozen-gradient").scores
    with torch.no_grad():
        model.classifier[0].running_var.fill_(0.2)
        logit = model(**tokenizer(tiny.TEXTS[2], return_tensors="pt")).logits[0, 0].item()
    after = explainer(tiny.TEXTS[2], target=0, method="frozen-gradient")
    assert abs(after.scores - before).max() > 1e-3
    assert after.scores.sum() + after.bias == pytest.approx(logit, abs=1e-5)


def test_one_is_kept_until_the_model_changes():
    task, batch = made("bert")
    first = FrozenModel.of(task)
    assert FrozenModel.of(task) is first
    first.run(batch, Reading(layers(0)))
    assert FrozenModel.of(task) is first, "nothing was written on it"
    task.caller_model.classifier = torch.nn.Linear(32, 2)
    task.prepare(task.batch(task.encoder(tiny.TEXTS), list(range(len(tiny.TEXTS)))))
    assert FrozenModel.of(task) is not first


def test_what_a_longer_text_alone_computes_is_recorded_for_it():
    """Near its limit a tanh cannot be inverted, so that its input must be known."""
    model = tiny.model("bert")
    model.bert.encoder.layer[-1].output.dense = Changed(model.bert.encoder.layer[-1].output.dense, capped)
    long, method = tiny.TEXTS[2], "frozen-gradient:read_at=-1"
    begun_with_it, begun_with_another = (Explainer(model, tiny.tokenizer_for("bert")) for _ in range(2))
    expected = begun_with_it(long, target=0, method=method).scores
    begun_with_another("a film", target=0, method=method)
    assert begun_with_another(long, target=0, method=method).scores.tolist() == expected.tolist()


@pytest.mark.parametrize("read_at", [0, 1, "first-half"])
def test_a_model_may_write_on_what_is_read(read_at):
    scores = []
    for in_place in (True, False):
        model = tiny.model("bert")
        model.bert.embeddings.LayerNorm.register_forward_hook(
            lambda _, __, output, in_place=in_place: output.mul_(1.5) if in_place else output * 1.5
        )
        layer = model.bert.encoder.layer[1]
        layer.register_forward_pre_hook(
            lambda _, args, in_place=in_place: (args[0].mul_(0.5) if in_place else args[0] * 0.5, *args[1:])
        )
        explainer = Explainer(model, tiny.tokenizer_for("bert"))
        scores.append(explainer(tiny.TEXTS[2], method=f"frozen-gradient:read_at={read_at}").scores)
    torch.testing.assert_close(*map(torch.tensor, scores))
