"""Tiny models with random weights and tokenizers made in memory: every architecture in milliseconds, no download."""

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from normxlogit import Explainer
from normxlogit.model.task_model import TaskModel

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = (  # noqa: SIM905  # a list would be one word a line
    "the a movie film is was are were not never good bad great awful mediocre maybe even very keys key to cabinet "
    "here there and or but this that with without charm wit plot actor once upon time cat sat on mat . , ! ? ##s ##ly "
    "has have these those himself themselves saw"
).split()
VOCABULARY = {piece: index for index, piece in enumerate(SPECIALS + WORDS)}
SIZE = 64
"""Vocabulary size of the models: a little more than the tokenizer's."""

TEXTS = ["the movie is not good", "bad", "a great film with charm and wit , but maybe mediocre plot !"]
PAIR = ("the cat sat on the mat", "a cat is here")
MASKED = "the keys to the cabinet [MASK] here"

COMMON = {"vocab_size": SIZE, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
INNER = {"intermediate_size": 48}
IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] == 'user' and '! ' or ', ' }}{{ m['content'] }} . {% endfor %}"
    "{% if add_generation_prompt %}a cat : {% endif %}"
)
"""Of tokenizers that are given chat messages."""

CONFIGS = {
    "bert": COMMON | INNER | {"max_position_embeddings": 40},
    "roberta": COMMON | INNER | {"max_position_embeddings": 40, "type_vocab_size": 1} | IDS,
    "distilbert": {"vocab_size": SIZE, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48},
    "deberta-v2": COMMON | INNER | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0},
    "electra": COMMON | INNER | {"embedding_size": 16},
    "albert": COMMON | INNER | {"embedding_size": 16},
    "xlnet": {"vocab_size": SIZE, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48} | IDS,
    "modernbert": COMMON | INNER | {"cls_token_id": 2, "sep_token_id": 3} | IDS,
    "gpt2": {"vocab_size": SIZE, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 40} | IDS,
    "opt": COMMON | {"ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 40} | IDS,
    "llama": COMMON | INNER | {"num_key_value_heads": 2} | IDS,
    "gemma2": COMMON | INNER | {"num_key_value_heads": 2, "head_dim": 8} | IDS,
    "qwen2": COMMON | INNER | {"num_key_value_heads": 2} | IDS,
    "mamba": {"vocab_size": SIZE, "hidden_size": 32, "num_hidden_layers": 3, "state_size": 4} | IDS,
}

CLASSIFIERS = [name for name in CONFIGS if name != "mamba"]
MASKED_LMS = ["bert", "roberta", "distilbert", "deberta-v2", "electra", "albert", "modernbert"]
CAUSAL_LMS = ["gpt2", "opt", "llama", "gemma2", "qwen2", "mamba"]

# Two with encoder and decoder, one without positions, and one whose attention has blocks.
CONFIGS |= {
    "bart": {"vocab_size": SIZE, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48}
    | {"decoder_ffn_dim": 48, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    | {"max_position_embeddings": 40, "decoder_start_token_id": 3, "forced_eos_token_id": None}
    | IDS,
    "t5": {"vocab_size": SIZE, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    | {"decoder_start_token_id": 0}
    | IDS,
    "bloom": {"vocab_size": SIZE, "hidden_size": 32, "n_layer": 3, "n_head": 4} | IDS,
    "big_bird": COMMON | INNER | {"max_position_embeddings": 40, "block_size": 2} | IDS,
}

# RoBERTa under other names; only the tests of the table of encoder parts tell them apart.
CONFIGS |= {"xlm-roberta": CONFIGS["roberta"], "camembert": CONFIGS["roberta"]}


def tokenizer(*, specials: bool = True, padding_side: str = "right", cls_last: bool = False) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer of fifty pieces: with [CLS] and [SEP] around the text, or [CLS] last, as XLNet has it."""
    backend = Tokenizer(models.WordPiece(VOCABULARY, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if specials:
        single, pair = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
        if cls_last:
            single, pair = "$A [SEP] [CLS]", "$A [SEP] $B:1 [SEP]:1 [CLS]:1"
        backend.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    return as_fast(backend, padding_side)


def as_fast(backend: Tokenizer, padding_side: str = "right") -> PreTrainedTokenizerFast:
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "pad", "cls", "sep", "mask")}
    special |= {"eos_token": "[SEP]", "model_input_names": ["input_ids", "attention_mask"]}
    return PreTrainedTokenizerFast(tokenizer_object=backend, padding_side=padding_side, model_max_length=40, **special)


def letters() -> PreTrainedTokenizerFast:
    """A tokenizer of single characters: every word has tokens."""
    signs = [chr(code) for code in range(32, 127)]
    tokenizer = Tokenizer(
        models.WordLevel({sign: i for i, sign in enumerate(["<unk>", "</s>", "\n", *signs])}, "<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>")


def tokenizer_for(family: str) -> PreTrainedTokenizerFast:
    made = tokenizer(
        specials=family not in CAUSAL_LMS,
        padding_side="left" if family == "xlnet" else "right",
        cls_last=family == "xlnet",
    )
    if family in ("bert", "electra", "albert", "xlnet"):
        made.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return made


def model(
    family: str, kind: str = "SequenceClassification", *, seed: int = 0, scale: float = 4.0, **options
) -> PreTrainedModel:
    """A random model of a family, of one of transformers' auto classes.

    Its weights are `scale` times larger than usual, so that layers and positions really differ.
    """
    torch.manual_seed(seed)
    settings = CONFIGS[family] | options
    config = transformers.AutoConfig.for_model(family, **settings)
    auto = getattr(transformers, f"AutoModelFor{kind}")
    return enlarge(auto.from_config(config), scale)


def enlarge(made: PreTrainedModel, scale: float = 4.0) -> PreTrainedModel:
    """Make the matrices of a model so many times larger, so that layers and positions really differ."""
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.ndim == 2 and "norm" not in name.lower():
                parameter.mul_(scale)
            elif parameter.ndim == 1:  # biases start at zero and norms at one: move them, or mistakes there hide
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return made.eval()


def random_model(kind: type[PreTrainedModel], config, scale: float = 4.0) -> PreTrainedModel:
    """A random model of a class and a configuration of transformers, its matrices this much larger than usual."""
    torch.manual_seed(0)
    made = kind(config)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(scale if parameter.ndim == 2 else 1.0)
    return made.eval()


def explainer(family: str = "bert", kind: str = "SequenceClassification", **options) -> Explainer:
    return Explainer(model(family, kind, **options), tokenizer_for(family))


def save(folder, family: str, kind: str = "SequenceClassification", *, length: int = 40, chats=False, **options):
    """Write a random model and its tokenizer, which says that it reads so many tokens, and return the folder."""
    model(family, kind, **options).save_pretrained(folder)
    made = tokenizer_for(family)
    made.model_max_length, made.chat_template = length, CHAT_TEMPLATE if chats else None
    made.save_pretrained(folder)
    return folder


def logits_of(model: PreTrainedModel, ids) -> torch.Tensor:
    """What a model itself answers to a row of token ids: (C,), or (T, C) where it answers at every token."""
    with torch.no_grad():
        return model(torch.tensor([list(ids)])).logits[0]


def writer(*, length: int = 300, template: str | None = None, name: str | None = None) -> Explainer:
    made = tokenizer_for("llama")
    made.chat_template, made.model_max_length = template, length
    return Explainer(model("llama", "CausalLM", max_position_embeddings=length), made, name=name)


def task_run(family: str, kind: str = "SequenceClassification", texts=TEXTS, *, layers: bool = False, **options):
    """Read texts in one batch with the task model of a random model: the task model, the batch, its forward pass."""
    task = TaskModel(model(family, kind, **options), tokenizer_for(family))
    batch = task.batch(task.encoder(list(texts)), list(range(len(texts))))
    with torch.no_grad():
        return task, batch, task.run(batch, layers=layers)
