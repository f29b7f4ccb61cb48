"""A small language model that solves chains of reasoning, trained on chains that a program writes.

A word is a token, and so are a few phrases. The first two layers begin as an induction head, and chains grow from one
step to six, so that training takes minutes on one core.
"""

import random
import re
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.explainer import Explainer

from .chains import Chain, as_prompt, write_chain

WIDTH, HEADS = 128, 4

PHRASES = ("\n\nQuestion: ", "?\nAnswer:", "is in the", "more than", ", which makes", "That one", "So the answer is")
"""What is one token though it has spaces."""

STEPS, TOKENS, RATE, MOST_STEPS = 500, 2048, 2e-3, 6
"""Of the training: batches, tokens of each, about, the learning rate, and steps of the longest chain."""

THETA, SHARPNESS, OFFSETS, FAST = 1e6, 5.0, (2, 3, 5, 4), 6
"""Of what the first two layers begin with: the base of the rotary positions, how sharp the attention to offsets is,
how far back each head attends, and how many rotations are too fast to compare tokens far from each other."""

INITIAL, STATE, WRITTEN, COPIED, COMPARED = 0.05, 0.15, 0.1, 0.15, 1.7
"""Scales of the weights, of the embeddings and of what the first two layers begin with."""

IGNORED = -100
"""The label of a token that is not learnt."""


def trained_reader(folder: Path | None = None, seed: int = 0, on_progress: OnProgress | None = None) -> Explainer:
    """Return the reader that is in a folder, or train it and keep it there."""
    if folder is not None and (folder / "config.json").exists():
        return Explainer.from_pretrained(folder)
    explainer = train(seed, on_progress)
    model: Any = explainer.model
    if folder is not None:
        model.save_pretrained(folder)
        explainer.tokenizer.save_pretrained(folder)
    return explainer


def train(seed: int = 0, on_progress: OnProgress | None = None) -> Explainer:
    """Train a reader on chains that are drawn with a seed."""
    torch.manual_seed(seed)
    rng = random.Random(f"training {seed}")  # noqa: S311
    tokenizer = make_tokenizer()
    shape: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": 3,
        "num_attention_heads": HEADS,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "initializer_range": INITIAL,
        "rope_theta": THETA,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
    }
    model = LlamaForCausalLM(LlamaConfig(**shape)).train()
    _begin_as_induction(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    for step, _ in with_progress("training", range(STEPS), on_progress):
        # The rate rises over 50 batches, and falls over the last two fifths of them.
        optimizer.param_groups[0]["lr"] = RATE * min((step + 1) / 50, 1, 0.05 + (STEPS - step) / (0.4 * STEPS))
        longest_chain = 1 + min(MOST_STEPS - 1, 10 * step // STEPS)  # longer ones come later
        ids, labels = _batch(tokenizer, longest_chain, rng)
        logits = model(ids).logits[:, :-1]  # (B, T - 1, V)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return Explainer(model.eval(), tokenizer)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make the tokenizer of all words that chains are written in."""
    split = "|".join(f" ?{re.escape(phrase)}" for phrase in PHRASES) + r"| ?\w+|[^\w ]|\s"
    word_splitter = pre_tokenizers.Split(Regex(split), "isolated")
    rng = random.Random(0)  # noqa: S311
    chains = [write_chain(rng, count % 2 == 0, MOST_STEPS) for count in range(4000)]
    texts = [f"{as_prompt(chain)} {chain.answer}" for chain in chains]
    words = sorted({word for text in texts for word, _ in word_splitter.pre_tokenize_str(text)})
    vocabulary = {word: token_id for token_id, word in enumerate(["<unk>", "</s>", *words])}
    backend = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    backend.pre_tokenizer = word_splitter
    backend.decoder = decoders.Fuse()
    special = {"unk_token": "<unk>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=512, **special)


def _batch(tokenizer: PreTrainedTokenizerFast, longest: int, rng: random.Random) -> tuple[Tensor, Tensor]:
    """Return token ids and labels of chains of up to so many steps, (B, T) each; the answer alone is learnt."""
    ids_of_chains, labels_of_chains = [], []
    for _ in range(TOKENS // (25 * longest + 25)):  # a step takes about 25 tokens
        chain = write_chain(rng, rng.random() < 0.5, rng.randint(1, longest))
        prompt, answer = _ids(tokenizer, chain)
        ids_of_chains.append([*prompt, *answer])
        labels_of_chains.append([*[IGNORED] * len(prompt), *answer])
    length = max(map(len, ids_of_chains))
    ids = [row + [tokenizer.eos_token_id] * (length - len(row)) for row in ids_of_chains]
    labels = [row + [IGNORED] * (length - len(row)) for row in labels_of_chains]
    return torch.tensor(ids), torch.tensor(labels)  # (B, T) each


def _ids(tokenizer: PreTrainedTokenizerFast, chain: Chain) -> tuple[list[int], list[int]]:
    """Return the tokens of a chain's prompt, and of its answer with the end."""
    prompt, answer = tokenizer(as_prompt(chain))["input_ids"], tokenizer(f" {chain.answer}")["input_ids"]
    return prompt, [*answer, tokenizer.eos_token_id]


def _begin_as_induction(model: LlamaForCausalLM) -> None:
    """Let the first two layers begin as an induction head, which takes longest to be found by chance.

    A half of the states holds tokens. The heads of the first layer write what stands `OFFSETS` places back into the
    other half; those of the second layer find where the same stands two places back, and copy the token there.
    """
    width = WIDTH // 2  # of the half that holds tokens, H / 2
    size = WIDTH // HEADS  # of a head, D
    half = size // 2
    frequencies = THETA ** -(torch.arange(half) / half)  # (D / 2,), of the rotary positions
    slow = [coordinate for coordinate in range(size) if coordinate % half >= FAST]
    first, second = (layer.self_attn for layer in model.model.layers[:2])
    code = torch.linalg.qr(torch.randn(width, size)).Q.T  # (D, H / 2)
    with torch.no_grad():
        model.model.embed_tokens.weight[:, :width] *= STATE / INITIAL
        for layer in model.model.layers[:2]:
            attention = layer.self_attn
            for module in (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj, layer.mlp.down_proj):
                module.weight *= 0.1
        for head, offset in enumerate(OFFSETS):
            part, angles = slice(head * size, (head + 1) * size), frequencies * -offset
            first.k_proj.bias[part] = SHARPNESS * torch.cat([torch.ones(half), torch.zeros(half)])  # (D,)
            first.q_proj.bias[part] = SHARPNESS * torch.cat([angles.cos(), angles.sin()])  # (D,)
            first.v_proj.weight[part, :width] += code
            # The first head writes what keys are compared by, the others what queries are.
            written = width + (size if head else 0)
            first.o_proj.weight[written : written + size, part] += WRITTEN * torch.eye(size)  # (D, D)
            for coordinate in slow:
                second.k_proj.weight[head * size + coordinate, width + coordinate] += COMPARED
                second.q_proj.weight[head * size + coordinate, width + size + coordinate] += COMPARED
            rows = torch.linalg.qr(torch.randn(width, size)).Q.T  # (D, H / 2)
            second.v_proj.weight[part, :width] += rows
            second.o_proj.weight[:width, part] += COPIED * rows.T
