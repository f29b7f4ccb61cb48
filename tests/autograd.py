"""The factors of the frozen gradient held by hand."""

from torch.nn import functional as F


def hold_factors(monkeypatch):
    """Hold attention, denominators and activation ratios of any model in torch's own functions."""
    softmax, gelu = F.softmax, F.gelu

    def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
        scale = (x.var(-1, correction=0, keepdim=True) + eps).rsqrt().detach()
        return (x - x.mean(-1, keepdim=True)) * scale * weight + bias

    monkeypatch.setattr(F, "softmax", lambda *args, **options: softmax(*args, **options).detach())
    monkeypatch.setattr(F, "layer_norm", layer_norm)
    monkeypatch.setattr(F, "gelu", lambda x, *args: x * (gelu(x) / x).detach())
