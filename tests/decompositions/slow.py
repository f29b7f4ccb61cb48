"""The decomposition methods once more, as slow loops over positions, heads and layers, straight from the formulas.

Everything is computed here from the weights in float64, attention included, and shares no code with the library.
"""

from types import SimpleNamespace

import torch
from torch import Tensor
from transformers import PreTrainedModel

TINY = 1e-12


def _pair(linear: torch.nn.Linear) -> tuple[Tensor, Tensor]:
    return linear.weight.detach().double(), linear.bias.detach().double()


def _norm(norm: torch.nn.LayerNorm) -> SimpleNamespace:
    return SimpleNamespace(g=norm.weight.detach().double(), b=norm.bias.detach().double(), e=norm.eps)


def _weights(model: PreTrainedModel) -> list[SimpleNamespace]:
    found = []
    if model.config.model_type == "distilbert":
        for layer in model.base_model.transformer.layer:
            own = layer.attention
            maps = [own.q_lin, own.k_lin, own.v_lin, own.out_lin, layer.ffn.lin1, layer.ffn.lin2]
            found.append((maps, layer.sa_layer_norm, layer.output_layer_norm))
    else:
        for layer in model.base_model.encoder.layer:
            own, out = layer.attention.self, layer.attention.output
            maps = [own.query, own.key, own.value, out.dense, layer.intermediate.dense, layer.output.dense]
            found.append((maps, out.LayerNorm, layer.output.LayerNorm))
    return [
        SimpleNamespace(
            **dict(zip(["q", "k", "v", "o", "up", "down"], map(_pair, maps), strict=True)), n1=_norm(n1), n2=_norm(n2)
        )
        for maps, n1, n2 in found
    ]


def deviation(x: Tensor, norm: SimpleNamespace) -> Tensor:
    return (x.var(correction=0) + norm.e).sqrt()


def centred(x: Tensor) -> Tensor:
    return x - x.mean()


def normed(x: Tensor, norm: SimpleNamespace) -> Tensor:
    return norm.g * centred(x) / deviation(x, norm) + norm.b


def attend(w: SimpleNamespace, h: Tensor, heads: int, values: Tensor) -> tuple[Tensor, Tensor]:
    """Attention probabilities (N, T, T) and the attention's output without residual (T, H)."""
    size = h.shape[1] // heads
    probabilities = torch.zeros(heads, len(h), len(h), dtype=torch.double)
    out = w.o[1].repeat(len(h), 1)
    for n in range(heads):
        own = slice(n * size, (n + 1) * size)
        queries, keys = h @ w.q[0][own].T + w.q[1][own], h @ w.k[0][own].T + w.k[1][own]
        for i in range(len(h)):
            probabilities[n, i] = torch.softmax(torch.stack([queries[i] @ k for k in keys]) / size**0.5, 0)
            for j in range(len(h)):
                out[i] = out[i] + probabilities[n, i, j] * (w.o[0][:, own] @ values[j, own])
    return probabilities, out


def finish(w: SimpleNamespace, pre1: Tensor) -> SimpleNamespace:
    y1 = torch.stack([normed(x, w.n1) for x in pre1])
    z = y1 @ w.up[0].T + w.up[1]
    a = torch.nn.functional.gelu(z)
    pre2 = a @ w.down[0].T + w.down[1] + y1
    return SimpleNamespace(pre1=pre1, y1=y1, z=z, a=a, pre2=pre2, out=torch.stack([normed(x, w.n2) for x in pre2]))


def walk(model: PreTrainedModel, ids: list[int]) -> list[SimpleNamespace]:
    """What every layer does with one text; checked against the model's own hidden states."""
    with torch.no_grad():
        states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    h = states[0][0].double()
    heads = model.config.num_attention_heads
    layers = []
    for w, real in zip(_weights(model), states[1:], strict=True):
        values = h @ w.v[0].T + w.v[1]
        a, out = attend(w, h, heads, values)
        done = finish(w, out + h)
        torch.testing.assert_close(done.out.float(), real[0], rtol=1e-3, atol=1e-4)
        layers.append(SimpleNamespace(w=w, h=h, att=a, v=values, heads=heads, size=h.shape[1] // heads, **vars(done)))
        h = done.out
    return layers


def mixes(layer: SimpleNamespace) -> Tensor:
    """u_ij, (T, T, H)."""
    count = len(layer.h)
    u = torch.zeros(count, count, layer.h.shape[1], dtype=torch.double)
    for i in range(count):
        for j in range(count):
            for n in range(layer.heads):
                own = slice(n * layer.size, (n + 1) * layer.size)
                u[i, j] += layer.att[n, i, j] * (layer.w.o[0][:, own] @ layer.v[j, own])
            if i == j:
                u[i, j] += layer.h[i]
    return u


def rollout(layer: SimpleNamespace) -> Tensor:
    matrix = layer.att.mean(0) + torch.eye(len(layer.h))
    return torch.stack([row / row.sum() for row in matrix])


def globenc(layer: SimpleNamespace) -> Tensor:
    u, w = mixes(layer), layer.w
    scores = torch.zeros(u.shape[:2], dtype=torch.double)
    for i in range(len(u)):
        for j in range(len(u)):
            y = w.n1.g * centred(u[i, j]) / deviation(layer.pre1[i], w.n1)
            scores[i, j] = (w.n2.g * centred(y) / deviation(layer.pre2[i], w.n2)).norm()
    return scores


def alti(layer: SimpleNamespace) -> Tensor:
    u, w = mixes(layer), layer.w
    scores = torch.zeros(u.shape[:2], dtype=torch.double)
    for i in range(len(u)):
        for j in range(len(u)):
            t = w.n1.g * centred(u[i, j]) / deviation(layer.pre1[i], w.n1)
            scores[i, j] = max(0.0, float(layer.y1[i].norm(p=1) - (layer.y1[i] - t).norm(p=1)))
        scores[i] /= scores[i].sum()
    return scores


def value_zeroing(layer: SimpleNamespace) -> Tensor:
    count = len(layer.h)
    scores = torch.zeros(count, count, dtype=torch.double)
    for j in range(count):
        values = layer.v.clone()
        values[j] = 0
        _, out = attend(layer.w, layer.h, layer.heads, values)
        moved = finish(layer.w, out + layer.h).out
        for i in range(count):
            scores[i, j] = 1 - torch.nn.functional.cosine_similarity(moved[i], layer.out[i], dim=0)
    return torch.stack([row / row.sum() for row in scores])


def rolled(matrices: list[Tensor]) -> Tensor:
    product = matrices[0]
    for matrix in matrices[1:]:
        product = matrix @ product
    return product


def with_bias(x: Tensor, b: Tensor) -> Tensor:
    """The absdot rule on shares (T, D)."""
    dots = torch.stack([(x_j @ b).abs() for x_j in x])
    return torch.stack([x_j + dot / (dots.sum() + TINY) * b for x_j, dot in zip(x, dots, strict=True)])


def norm_shares(x: Tensor, norm: SimpleNamespace, real: Tensor) -> Tensor:
    return with_bias(torch.stack([norm.g * centred(x_j) / deviation(real, norm) for x_j in x]), norm.b)


def decompx_states(layers: list[SimpleNamespace]) -> list[Tensor]:
    """Shares x_ij after every layer, (T, T, H) each."""
    states = []
    for number, layer in enumerate(layers):
        w, count = layer.w, len(layer.h)
        if number == 0:
            mixed, bias = mixes(layer), w.o[1]
        else:
            x = states[-1]
            mixed, bias = x.clone(), w.o[0] @ w.v[1] + w.o[1]
            for i in range(count):
                for j in range(count):
                    for n in range(layer.heads):
                        own = slice(n * layer.size, (n + 1) * layer.size)
                        carried = sum(layer.att[n, i, q] * (w.v[0][own] @ x[q, j]) for q in range(count))
                        mixed[i, j] += w.o[0][:, own] @ carried
        rows = []
        for i in range(count):
            y = norm_shares(with_bias(mixed[i], bias), w.n1, layer.pre1[i])
            inner = with_bias(y @ w.up[0].T, w.up[1]) * (layer.a[i] / (layer.z[i] + TINY))
            rows.append(norm_shares(with_bias(inner @ w.down[0].T, w.down[1]) + y, w.n2, layer.pre2[i]))
        states.append(torch.stack(rows))
    return states


def decompx_head(model: PreTrainedModel, shares: Tensor, state: Tensor) -> Tensor:
    """What each token adds to each output, (T, C), from the shares (T, H) of the state (H,) that the head reads."""
    dense, act, norm, out = _head(model)
    if dense is not None:
        z = dense[0] @ state + dense[1]
        shares = with_bias(shares @ dense[0].T, dense[1]) * (act(z) / (z + TINY))
        state = act(z)
    if norm is not None:
        shares = norm_shares(shares, norm, state)
    return with_bias(shares @ out[0].T, out[1])


def _head(model):
    gelu, tanh, relu = torch.nn.functional.gelu, torch.tanh, torch.relu
    name = type(model).__name__
    if name.endswith("ForTokenClassification"):
        return None, None, None, _pair(model.classifier)
    if name == "BertForSequenceClassification":
        return _pair(model.bert.pooler.dense), tanh, None, _pair(model.classifier)
    if name == "DistilBertForSequenceClassification":
        return _pair(model.pre_classifier), relu, None, _pair(model.classifier)
    if name.endswith("ForSequenceClassification"):
        act = gelu if name.startswith("Electra") else tanh
        return _pair(model.classifier.dense), act, None, _pair(model.classifier.out_proj)
    if name == "BertForMaskedLM":
        head = model.cls.predictions
        return _pair(head.transform.dense), gelu, _norm(head.transform.LayerNorm), _pair(head.decoder)
    if name == "DistilBertForMaskedLM":
        return _pair(model.vocab_transform), gelu, _norm(model.vocab_layer_norm), _pair(model.vocab_projector)
    if name == "ElectraForMaskedLM":
        head = model.generator_predictions
        return _pair(head.dense), gelu, _norm(head.LayerNorm), _pair(model.generator_lm_head)
    return _pair(model.lm_head.dense), gelu, _norm(model.lm_head.layer_norm), _pair(model.lm_head.decoder)
