"""The frozen network against what it must be: exact, affine, and the linear maps written out by hand."""

import pytest
import torch
from torch import nn

from normxlogit.errors import UnsupportedModelError
from normxlogit.surgery.clone import clone
from normxlogit.surgery.frozen import FrozenNetwork, Report
from normxlogit.surgery.run import Site
from tests import tiny
from tests.surgery.slopes import proved

FAMILIES = [family for family in tiny.CONFIGS if family not in ("bart", "t5")]
"""Those two look for the end token's id, and are tried in tests/architectures."""
IDS = torch.tensor([[2, 5, 7, 8, 13, 11, 3], [2, 6, 20, 21, 15, 12, 3]])  # (2, 7)


def made(family, **options):
    return tiny.model(family, "CausalLM" if family == "mamba" else "SequenceClassification", **options)


def frozen_pass(model):
    """Return the logits, the word embeddings and the network that made them."""
    network = FrozenNetwork(clone(model))
    x = model.get_input_embeddings()(IDS).detach().requires_grad_()
    with network.frozen():
        logits = network.model(inputs_embeds=x).logits
    return logits, x, network


def prove(model, run=None):
    network = FrozenNetwork(clone(model))
    x = model.get_input_embeddings()(IDS).detach().requires_grad_()
    with torch.no_grad():
        own = model(inputs_embeds=x).logits
    return proved(network, lambda: (network.model(inputs_embeds=x).logits, x), own, 1e-4 * own.abs().max().item())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_exact_and_affine(family, attention):
    model = made(family)
    try:
        model.set_attn_implementation(attention)
    except ValueError:
        pytest.skip(f"{family} has no {attention} attention")
    report = prove(model)
    assert report.held


@pytest.mark.parametrize(
    ("kind", "value", "slope"),
    [(nn.GELU, 0.0, 0.5), (nn.SiLU, 0.0, 0.5), (nn.Tanh, 0.0, 1.0), (nn.ReLU, 0.0, 0.0), (nn.Sigmoid, 0.5, 0.0)],
)
def test_at_zero_an_activation_keeps_its_value_and_has_the_slope_that_it_has_beside_zero(kind, value, slope):
    """Rounding decides whether a state is zero, which must not change a contribution; a sigmoid passes nothing."""
    network, beside = FrozenNetwork(nn.Sequential(kind())), 1e-6
    x = torch.tensor([0.0, beside], requires_grad=True)
    with network.frozen():
        answer = network.model(x)
    (found,) = torch.autograd.grad(answer.sum(), x)
    assert answer[0].item() == pytest.approx(value, abs=1e-30)
    assert found.tolist() == pytest.approx([slope, kind()(torch.tensor(beside)).item() / beside], rel=1e-4)


class _Layers(nn.Module):
    """Written out with explicit constants: a BERT whose attention, norms and activations are where they were."""

    def __init__(self, model):
        super().__init__()
        self.bert, self.head = model.bert, model.classifier
        self.heads = model.config.num_attention_heads

    def norm(self, module, z, at):
        spread = (at.var(-1, correction=0, keepdim=True) + module.eps).sqrt()
        return (z - z.mean(-1, keepdim=True)) / spread * module.weight + module.bias

    def forward(self, z, z0):
        """Carry z through the network that was frozen at z0; (T, H)."""
        embeddings, count = self.bert.embeddings, len(z)
        more = embeddings.position_embeddings.weight[:count] + embeddings.token_type_embeddings.weight[0]
        z, z0 = (self.norm(embeddings.LayerNorm, flowing + more, z0 + more) for flowing in (z, z0))
        for layer in self.bert.encoder.layer:
            own, out = layer.attention.self, layer.attention.output
            both = []
            for flowing in (z, z0):
                parts = []
                for head in range(self.heads):
                    rows = slice(head * 8, head * 8 + 8)
                    q = z0 @ own.query.weight[rows].T + own.query.bias[rows]
                    k = z0 @ own.key.weight[rows].T + own.key.bias[rows]
                    v = flowing @ own.value.weight[rows].T + own.value.bias[rows]
                    parts.append(((q @ k.T) / 8**0.5).softmax(-1) @ v)
                both.append(out.dense(torch.cat(parts, -1)) + flowing)
            z, z0 = (self.norm(out.LayerNorm, flowing, both[1]) for flowing in both)
            inner, inner0 = layer.intermediate.dense(z), layer.intermediate.dense(z0)
            kept = nn.functional.gelu(inner0) / inner0
            sums = [layer.output.dense(part * kept) + flowing for part, flowing in ((inner, z), (inner0, z0))]
            z, z0 = (self.norm(layer.output.LayerNorm, flowing, sums[1]) for flowing in sums)
        pooled, pooled0 = self.bert.pooler.dense(z[0]), self.bert.pooler.dense(z0[0])
        return self.head(pooled * pooled0.tanh() / pooled0)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_bert_written_out_with_constants(attention):
    model = made("bert")
    model.set_attn_implementation(attention)
    logits, x, _ = frozen_pass(model)
    (slope,) = torch.autograd.grad(logits[0, 1], x)
    layers = _Layers(model)
    with torch.no_grad():
        x0 = x[0]
        start = layers(x0, x0)[1]
        assert start.item() == pytest.approx(logits[0, 1].item(), rel=1e-4)
        for token in range(x0.shape[0]):
            for unit in range(0, x0.shape[1], 5):
                moved = x0.clone()
                moved[token, unit] += 1.0  # affine: a step of any size
                wanted = (layers(moved, x0)[1] - start).item()
                assert slope[0, token, unit].item() == pytest.approx(wanted, rel=2e-3, abs=2e-5)
        assert slope[1].abs().max() == 0  # the other text


class Head(nn.Module):
    """A task head with something in it that cannot be frozen."""

    def __init__(self, classifier, function):
        super().__init__()
        self.classifier, self.function = classifier, function

    def forward(self, hidden):
        return self.classifier(self.function(hidden))


@pytest.mark.parametrize(
    ("function", "named"),
    [(torch.sin, "sin"), (lambda x: x * x, "mul"), (lambda x: x.pow(3), "pow"), (lambda x: x + torch.cos(x), "cos")],
)
def test_what_is_not_linear_is_named_with_its_place(function, named):
    model = made("bert")
    model.classifier = Head(model.classifier, function)
    with pytest.raises(UnsupportedModelError, match=f"{named} .* in classifier"):
        prove(model)


class Fused(torch.autograd.Function):
    """Works its slope out where autograd does not see it, as kernels of other packages do."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return nn.functional.silu(x)

    @staticmethod
    def backward(ctx, gradient):
        x, gradient = ctx.saved_tensors[0].detach(), gradient.detach()
        gate = torch.sigmoid(x)
        return gradient * (gate + x * gate * (1 - gate))


def test_a_backward_of_a_functions_own_hides_what_it_depends_on_and_is_refused():
    model = made("bert")
    model.classifier = Head(model.classifier, Fused.apply)
    with pytest.raises(UnsupportedModelError, match=r"Fused in classifier.* brings a backward pass of its own"):
        prove(model)


def test_another_answer_is_refused():
    model = made("bert")
    network = FrozenNetwork(clone(model))
    x = model.get_input_embeddings()(IDS).detach().requires_grad_()
    with pytest.raises(UnsupportedModelError, match="another answer"):
        proved(network, lambda: (network.model(inputs_embeds=x).logits, x), torch.zeros(2, 2), 1e-4)


def test_nothing_that_flows_is_refused():
    model = made("bert")
    model.classifier = Head(model.classifier, torch.round)
    network = FrozenNetwork(clone(model))
    x = model.get_input_embeddings()(IDS).detach()
    with pytest.raises(UnsupportedModelError, match="nothing flows"):
        proved(network, lambda: (network.model(inputs_embeds=x).logits, x), model(inputs_embeds=x).logits, 1e-4)


def nodes(tensor):
    found, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.add(node)
            waiting += [parent for parent, _ in node.next_functions]
    return found


@pytest.mark.parametrize("family", ["bert", "llama", "mamba"])
def test_weights_have_no_graph(family):
    model = made(family)
    assert all(parameter.requires_grad for parameter in model.parameters())
    logits, x, _ = frozen_pass(model)
    leaves = [node.variable for node in nodes(logits) if hasattr(node, "variable")]
    assert len(leaves) == 1
    assert leaves[0] is x


def test_a_shared_layer_is_counted_by_its_calls():
    model = made("albert")
    path = "albert.encoder.albert_layer_groups.0"
    network = FrozenNetwork(clone(model))
    states = model(input_ids=IDS, output_hidden_states=True).hidden_states
    for calls in (1, 2, 3):
        report = Report()
        network.run({"input_ids": IDS}, begin=Site(path, calls), report=report)
        torch.testing.assert_close(report.leaf, states[calls])


def test_a_place_that_is_not_reached_is_an_error():
    network = FrozenNetwork(clone(made("bert")))
    with pytest.raises(UnsupportedModelError, match="classifier"):
        network.run({"input_ids": IDS}, begin=Site("classifier", 2))
    assert torch.is_grad_enabled()
    x = torch.randn(3, requires_grad=True)
    assert (x * x).grad_fn.next_functions[1][0] is not None  # no mode is left behind


@pytest.mark.parametrize("activation", [nn.SiLU, nn.ReLU, nn.Hardswish])
def test_an_activation_in_place_changes_what_it_was_given(activation):
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = activation(inplace=True)

        def forward(self, x):
            y = x * 2
            return self.act(y) + 3 * y

    x = torch.tensor([-1.5, 0.4, 2.0], requires_grad=True)
    network, value = FrozenNetwork(Reads()), activation()(2 * x.detach())
    proved(network, lambda: (network.model(x), x), 4 * value, 1e-5)
    with network.frozen():
        answer = network.model(x)
    (slope,) = torch.autograd.grad(answer.sum(), x)
    torch.testing.assert_close(slope, 4 * value / x.detach())


def test_hooks_of_the_models_owner_see_no_probe():
    model, seen = made("bert"), []
    for module in model.modules():
        module.register_forward_hook(lambda module, args, output: seen.append(module))
    state = torch.get_rng_state()
    FrozenNetwork(clone(model))
    assert not seen
    assert torch.equal(torch.get_rng_state(), state)
