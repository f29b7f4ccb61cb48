"""Tiny models of many families with all heads, each with a tokenizer of the kind that the family is trained with."""

import functools
import string
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from normxlogit import Explainer
from tests import tiny

SIZE = 400
"""Vocabulary of these models: the tokenizers below have fewer entries."""

WORDPIECE = ("bert", "distilbert", "electra", "big_bird", "modernbert", "mamba")
BYTES = ("roberta", "gpt2", "opt", "bart", "bloom", "qwen2")
CAUSAL = ("gpt2", "opt", "bloom", "qwen2", "llama", "mamba")

HEADS = {
    "SequenceClassification": (
        *("bert", "roberta", "distilbert", "electra", "deberta-v2", "albert", "xlnet", "big_bird", "modernbert"),
        *("gpt2", "opt", "llama", "qwen2", "bloom", "bart", "t5"),
    ),
    "TokenClassification": ("bert", "deberta-v2", "xlnet", "gpt2", "bloom", "t5"),
    "QuestionAnswering": ("distilbert", "electra", "albert", "opt", "bart"),
    "MultipleChoice": ("roberta", "big_bird") if find_spec("normxlogit.choices") else (),
    "MaskedLM": ("bert", "roberta", "distilbert", "modernbert", "deberta-v2"),
    "CausalLM": ("gpt2", "opt", "llama", "qwen2", "bloom", "mamba"),
}
"""Head to families."""


@dataclass(frozen=True)
class Case:
    """A model, its tokenizer, and the explainer of both."""

    family: str
    head: str
    regression: bool = False

    def __str__(self) -> str:
        return f"{self.family}-{'Regression' if self.regression else self.head}"

    @property
    def model(self) -> PreTrainedModel:
        return _made(self)[0]

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        return _made(self)[1]

    @property
    def explainer(self) -> Explainer:
        return _made(self)[2]

    def input_of(self, text: str, other: str = "the cat sat on the mat") -> Any:
        """Bring a text into the form that the head reads."""
        if self.head == "QuestionAnswering":
            return (text, other)
        if self.head == "MultipleChoice":
            return (text, ["good", other])
        return f"[MASK] {text}" if self.head == "MaskedLM" else text

    def answer(self, ids: Any, **more: Any) -> Any:
        """Ask the caller's own model: its outputs for one text, with hidden states."""
        with torch.no_grad():
            given = {name: torch.tensor([values]) for name, values in {"input_ids": ids, **more}.items()}
            return self.model(**given, output_hidden_states=True)


REGRESSION = [Case(family, "SequenceClassification", True) for family in ("electra", "llama")]
CASES = [Case(family, head) for head, families in HEADS.items() for family in families] + REGRESSION


def cases(*heads: str) -> list[Case]:
    """Return the cases of some heads."""
    return [case for case in CASES if case.head in heads and not case.regression]


@functools.cache
def _made(case: Case) -> tuple[PreTrainedModel, PreTrainedTokenizerFast, Explainer]:
    options = {"num_labels": 1} if case.regression else {"num_labels": 3}
    if case.head in ("QuestionAnswering", "MultipleChoice", "MaskedLM", "CausalLM"):
        options = {}
    model = tiny.model(case.family, case.head, scale=2.0, vocab_size=SIZE, **options)
    tokenizer = tokenizer_for(case.family)
    return model, tokenizer, Explainer(model, tokenizer)


@functools.cache
def tokenizer_for(family: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer of the kind that the family is trained with: WordPiece, byte-level BPE or Unigram."""
    if family in WORDPIECE:
        return tiny.tokenizer_for(family)
    backend = byte_level() if family in BYTES else unigram()
    if family not in CAUSAL:
        order = "$A [SEP] [CLS]", "$A [SEP] $B:1 [SEP]:1 [CLS]:1"
        if family != "xlnet":
            order = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]"
        backend.post_processor = processors.TemplateProcessing(
            single=order[0], pair=order[1], special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    return tiny.as_fast(backend, "left" if family == "xlnet" else "right")


def byte_level() -> Tokenizer:
    """Byte-level BPE, as of GPT-2: a character may be several tokens, a space belongs to the word behind it."""
    pieces = [*tiny.SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges = []
    for word in ("Ġthe", "Ġgood", "Ġis", "Ġnot", "Ġmovie", "Ã©", "Ġå"):
        for end in range(2, len(word) + 1):
            merge = (word[: end - 1], word[end - 1])
            if merge not in merges:
                merges.append(merge)
                pieces.append("".join(merge))
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def unigram() -> Tokenizer:
    """Unigram behind SentencePiece's normalisation: characters change, some become several and some nothing."""
    letters = [(piece, -5.0) for piece in string.ascii_letters + string.digits + ".,!?'-éä今天"]
    words = [(f"▁{word}", -1.0) for word in tiny.WORDS if word.isalpha() and len(word) > 1]
    backend = Tokenizer(
        models.Unigram([*((piece, 0.0) for piece in tiny.SPECIALS), *words, ("▁", -2.0), *letters], unk_id=1)
    )
    backend.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.Replace(Regex(r"[\u0000-\u0008\u200b\ufeff\u00ad]"), ""),
            normalizers.Replace(Regex(r"\s+"), " "),
        ]
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return backend
