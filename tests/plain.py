"""Modules that are not of transformers and map token ids to logits, as people write them."""

import torch
from torch import nn
from transformers import BertModel

from tests import tiny

LABELS = ["no", "yes", "maybe"]


def grown(module):
    """Weights large enough for layers and positions to differ, and the mode for reading."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.4 if parameter.ndim > 1 else 0.2)
    return module.eval()


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width))

    def forward(self, x, unseen, causal=None):
        h = self.norm(x)
        x = x + self.attention(h, h, h, key_padding_mask=unseen, attn_mask=causal, need_weights=False)[0]
        return x + self.mlp(self.norm(x))


class Transformer(nn.Module):
    """Written out in one forward: no module holds the trunk."""

    def __init__(self, outputs=3, width=16):
        super().__init__()
        self.words = nn.Embedding(tiny.SIZE, width)
        self.places = nn.Embedding(40, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, outputs)

    def embed(self, input_ids):
        return self.words(input_ids) + self.places(torch.arange(input_ids.shape[1], device=input_ids.device))

    def states(self, input_ids, attention_mask=None, causal=None):
        unseen = None if attention_mask is None else attention_mask == 0
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x, unseen, causal)
        return self.norm(x)

    def forward(self, input_ids, attention_mask=None):
        x = self.states(input_ids, attention_mask)
        if attention_mask is None:
            return self.out(x.mean(1))
        kept = attention_mask[..., None].to(x.dtype)
        return self.out((x * kept).sum(1) / kept.sum(1))


class Tagger(Transformer):
    def forward(self, input_ids, attention_mask=None):
        return {"logits": self.out(self.states(input_ids, attention_mask)), "loss": None}


class LanguageModel(Transformer):
    def __init__(self):
        super().__init__(tiny.SIZE)

    def forward(self, input_ids, attention_mask=None):
        width = input_ids.shape[1]
        causal = torch.ones(width, width, dtype=torch.bool, device=input_ids.device).triu(1)
        return self.out(self.states(input_ids, attention_mask, causal))


class Wrapped(nn.Module):
    """A transformers encoder with a head of one's own, its loss before the logits."""

    def __init__(self):
        super().__init__()
        self.encoder = BertModel(tiny.model("bert").config)
        self.out = nn.Linear(32, 3)

    def forward(self, input_ids, attention_mask):
        hidden = self.encoder(input_ids, attention_mask).last_hidden_state
        return torch.zeros(()), self.out(hidden[:, 0])


class Recurrent(nn.Module):
    """Takes ids only, under another name, and takes padding for words."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(tiny.SIZE, 16)
        self.lstm = nn.LSTM(16, 16, batch_first=True)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        hidden, _ = self.lstm(self.words(x))
        return self.out(hidden.mean(1))


class Bag(nn.Module):
    """Answers with a sum over the words: linear in which of them are there."""

    def __init__(self, width=8):
        super().__init__()
        self.words, self.head = nn.Embedding(tiny.SIZE, width), nn.Linear(width, 2)

    def forward(self, input_ids, attention_mask):
        return self.head((self.words(input_ids) * attention_mask[..., None]).sum(1))

    def shares(self, ids, filler=None):
        """What each token adds to the answers, (T, 2), or adds to what a filler in its place would."""
        away = 0 if filler is None else self.words(torch.tensor(filler))
        return ((self.words(ids) - away) @ self.head.weight.T).detach()
