"""One layer of each kind against a plain loop from its formula: which factor moves cannot be told by any sum."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, LlamaConfig, MixtralConfig
from transformers.models.bert.modeling_bert import BertIntermediate, BertSelfAttention
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

from tests.frozen.slopes import slope_of

T, H, INNER = 3, 4, 8
SIZES = {"hidden_size": H, "intermediate_size": INNER, "num_attention_heads": 2, "num_hidden_layers": 1}
X = torch.tensor([[0.5, -1.0, 2.0, 1.5], [1.0, 0.3, -0.7, -2.0], [-0.4, 0.8, 0.2, 1.1]])  # (T, H)


def made(layer):
    generator = torch.Generator().manual_seed(5)
    for parameter in layer.parameters():
        parameter.data.normal_(generator=generator)
        parameter.requires_grad_(False)
    return layer.eval()


def same(slope, wanted):
    """Compare d output[i, a] / d input[j, b] with wanted(i, a, j, b), entry by entry."""
    found = slope.reshape(T, -1, T, H)
    for i, a, j, b in np.ndindex(*found.shape):
        assert found[i, a, j, b].item() == pytest.approx(wanted(i, a, j, b), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_attention_moves_values_by_held_probabilities(implementation):
    """The output of i is sum_j p_ij (W_v x_j + b_v), p_ij the softmax of q_i k_j / sqrt(d)."""
    config = BertConfig(**SIZES, attn_implementation=implementation)
    layer = made(BertSelfAttention(config))
    slope = slope_of(lambda x: layer(x[None])[0][0], X)
    width = H // 2
    weights = {name: getattr(layer, name).weight.tolist() for name in ("query", "key", "value")}
    biases = {name: getattr(layer, name).bias.tolist() for name in ("query", "key")}
    x = X.tolist()

    def projected(name, i, a):
        return sum(weights[name][a][b] * x[i][b] for b in range(H)) + biases[name][a]

    def probability(i, j, head):
        units = range(head * width, head * width + width)
        scores = [sum(projected("query", i, u) * projected("key", k, u) for u in units) for k in range(T)]
        exps = [math.exp(score / math.sqrt(width)) for score in scores]
        return exps[j] / sum(exps)

    same(slope, lambda i, a, j, b: probability(i, j, a // width) * weights["value"][a][b])


def silu(z):
    return z / (1 + math.exp(-z))


def gated(x, gate, up, down, a, b):
    found = 0.0
    for c in range(len(up)):
        held = silu(sum(gate[c][d] * x[d] for d in range(H)))
        found += down[a][c] * held * up[c][b]
    return found


def test_a_gated_layer_holds_the_activated_factor():
    layer = made(LlamaMLP(LlamaConfig(**SIZES)))
    slope = slope_of(layer, X)
    gate, up, down = (module.weight.tolist() for module in (layer.gate_proj, layer.up_proj, layer.down_proj))
    x = X.tolist()
    same(slope, lambda i, a, j, b: gated(x[i], gate, up, down, a, b) if i == j else 0.0)


@pytest.mark.parametrize("implementation", ["eager", "grouped_mm", "batched_mm"])
def test_a_router_is_held_and_its_experts_move(implementation):
    """The output is sum_k r_k expert_k(x), r_k the two largest router probabilities, normalised."""
    config = MixtralConfig(**SIZES, num_local_experts=3, num_experts_per_tok=2, num_key_value_heads=2)
    config._experts_implementation = implementation
    layer = made(MixtralSparseMoeBlock(config))
    router = layer.gate.weight.tolist()
    gates_and_ups, downs = layer.experts.gate_up_proj.tolist(), layer.experts.down_proj.tolist()
    slope = slope_of(lambda x: layer(x[None])[0], X)
    x = X.tolist()

    def wanted(i, a, j, b):
        if i != j:
            return 0.0
        exps = [math.exp(sum(router[e][d] * x[i][d] for d in range(H))) for e in range(3)]
        best = sorted(range(3), key=lambda e: -exps[e])[:2]
        total = sum(exps[e] for e in best)
        return sum(
            exps[e] / total * gated(x[i], gates_and_ups[e][:INNER], gates_and_ups[e][INNER:], downs[e], a, b)
            for e in best
        )

    same(slope, wanted)


def test_an_activation_moves_by_its_ratio():
    layer = made(BertIntermediate(BertConfig(**SIZES)))
    slope = slope_of(layer, X)
    weight, bias, x = layer.dense.weight.tolist(), layer.dense.bias.tolist(), X.tolist()

    def wanted(i, a, j, b):
        z = sum(weight[a][d] * x[i][d] for d in range(H)) + bias[a]
        gelu = z * 0.5 * (1 + math.erf(z / math.sqrt(2)))
        return gelu / z * weight[a][b] if i == j else 0.0

    same(slope, wanted)


def test_a_root_mean_square_is_held():
    layer = made(LlamaRMSNorm(H))
    weight, x = layer.weight.tolist(), X.tolist()
    roots = [math.sqrt(sum(value * value for value in row) / H + layer.variance_epsilon) for row in x]
    same(slope_of(layer, X), lambda i, a, j, b: weight[a] / roots[i] if (i, a) == (j, b) else 0.0)


def test_a_standard_deviation_is_held_and_the_mean_moves():
    layer = made(nn.LayerNorm(H))
    weight, x, spreads = layer.weight.tolist(), X.tolist(), []
    for row in x:
        mean = sum(row) / H
        spreads.append(math.sqrt(sum((value - mean) ** 2 for value in row) / H + layer.eps))
    same(slope_of(layer, X), lambda i, a, j, b: weight[a] * ((a == b) - 1 / H) / spreads[i] if i == j else 0.0)


def test_what_a_channel_is_scaled_by_is_held():
    """Squeeze and excitation: x_c times the sigmoid of a mix of the means over all tokens."""
    mix = made(nn.Linear(H, H))
    slope = slope_of(lambda x: x * torch.sigmoid(mix(x.mean(0, keepdim=True))), X)
    x = X.tolist()
    means = [sum(x[i][d] for i in range(T)) / T for d in range(H)]
    held = [
        1 / (1 + math.exp(-sum(w * m for w, m in zip(row, means, strict=True)) - bias))
        for row, bias in zip(mix.weight.tolist(), mix.bias.tolist(), strict=True)
    ]
    same(slope, lambda i, a, j, b: held[a] if (i, a) == (j, b) else 0.0)


def test_a_recurrent_state_moves_by_held_gates():
    """The state is s_t = f_t s_(t-1) + i_t tanh(V x_t), with f_t and i_t held: tanh moves by its ratio."""
    forget, write, value = (made(nn.Linear(H, H, bias=False)) for _ in range(3))
    write.weight.mul_(-0.5)
    value.weight.mul_(0.3)

    def run(x):
        state, states = torch.zeros(H), []
        for token in x:
            state = torch.sigmoid(forget(token)) * state + torch.sigmoid(write(token)) * torch.tanh(value(token))
            states.append(state)
        return torch.stack(states)

    x = X.tolist()

    def times(module, i, a):
        return sum(module.weight[a, d].item() * x[i][d] for d in range(H))

    def sigmoid(z):
        return 1 / (1 + math.exp(-z))

    def wanted(i, a, j, b):
        if j > i:
            return 0.0
        kept = math.prod(sigmoid(times(forget, t, a)) for t in range(j + 1, i + 1))
        z = times(value, j, a)
        return kept * sigmoid(times(write, j, a)) * math.tanh(z) / z * value.weight[a, b].item()

    same(slope_of(run, X), wanted)
