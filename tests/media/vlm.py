"""Tiny vision-language models with random weights, and processors made in memory: no download."""

from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.abilities import image_processor

WORDS = "what is on the left right of a cat dog red tree house ? . yes I".split()  # noqa: SIM905
IMAGE = "<image>"

TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }} : {% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for part in m['content'] %}{% if part['type'] == 'image' %}IMAGE{% else %}{{ part['text'] }}{% endif %}"
    " {% endfor %}{% endif %} . {% endfor %}{% if add_generation_prompt %}assistant : {% endif %}"
)

TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}
VISION = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2}


class WithoutVideos(transformers.Qwen2VLProcessor):
    """A processor that reads no videos, which would need torchvision."""

    def check_argument_for_proper_class(self, name: str, argument: Any) -> Any:
        return type(argument)


class Vlm(NamedTuple):
    model: Any
    processor: Any


def tokenizer(*special: str, **named: str) -> transformers.PreTrainedTokenizerFast:
    every = ["<pad>", "<unk>", "</s>", "<s>", *special, *named.values(), "user", "assistant", ":", *WORDS]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(every))}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    named_here = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>", "bos_token": "<s>"}
    extra = {"extra_special_tokens": dict(named), "additional_special_tokens": [*special, *named.values()]}
    extra |= {"padding_side": "left", "model_input_names": ["input_ids", "attention_mask"]}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, **named_here, **extra)


def stirred(model: Any) -> Any:
    """Give a model weights whose answers depend on what it reads, and let nothing be zero."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim > 1:
                weight.copy_(noise * (1.2 / weight[0].numel() ** 0.5 if "embed_tokens" not in name else 1.0))
            elif "norm" in name and "weight" in name:
                weight.add_(noise * 0.1)
            else:
                weight.copy_(noise * 0.1)
    return model.eval()


def llava() -> Vlm:
    words = tokenizer(image_token=IMAGE)
    vision = transformers.CLIPVisionConfig(image_size=32, patch_size=8, projection_dim=24, **VISION)
    text = transformers.LlamaConfig(vocab_size=len(words), **TEXT, pad_token_id=0, eos_token_id=2, bos_token_id=3)
    tokens = {"image_token_index": words.convert_tokens_to_ids(IMAGE), "image_seq_length": 16}
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, vision_feature_layer=-1, **tokens)
    pictures = image_processor("CLIPImageProcessor", size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    options = {"vision_feature_select_strategy": "default", "num_additional_image_tokens": 1, "patch_size": 8}
    processor = transformers.LlavaProcessor(pictures, words, chat_template=TEMPLATE.replace("IMAGE", IMAGE), **options)
    model = stirred(transformers.LlavaForConditionalGeneration(config))
    model.generation_config.suppress_tokens = [config.image_token_id]  # what it writes must be a text that it reads
    return Vlm(model, processor)


def paligemma() -> Vlm:
    words = tokenizer(image_token=IMAGE)
    vision = transformers.SiglipVisionConfig(image_size=32, patch_size=8, **VISION, vision_use_head=False)
    text = transformers.GemmaConfig(vocab_size=len(words) + 1100, head_dim=8, **TEXT, pad_token_id=0)
    sizes = {"projection_dim": 32, "hidden_size": 32, "pad_token_id": 0}
    token = words.convert_tokens_to_ids(IMAGE)
    config = transformers.PaliGemmaConfig(vision_config=vision, text_config=text, image_token_index=token, **sizes)
    pictures = image_processor("SiglipImageProcessor", size={"height": 32, "width": 32})
    pictures.image_seq_length = 16
    processor = transformers.PaliGemmaProcessor(pictures, words, chat_template=TEMPLATE.replace("IMAGE", IMAGE))
    return Vlm(stirred(transformers.PaliGemmaForConditionalGeneration(config)), processor)


def qwen2_vl() -> Vlm:
    words = tokenizer("<|vision_start|>", "<|vision_end|>", "<|video_pad|>", image_token="<|image_pad|>")
    ids = words.convert_tokens_to_ids
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "patch_size": 8, "mlp_ratio": 2}
    rope = {"rope_scaling": {"rope_type": "default", "mrope_section": [1, 1, 2]}, "rope_theta": 1e4}
    config = transformers.Qwen2VLConfig(
        vision_config=vision | {"spatial_merge_size": 2, "temporal_patch_size": 2},
        text_config={"vocab_size": len(words), **TEXT, **rope},
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
    )
    pictures = image_processor("Qwen2VLImageProcessor", patch_size=8, merge_size=2, min_pixels=256, max_pixels=4096)
    template = TEMPLATE.replace("IMAGE", "<|vision_start|> <|image_pad|> <|vision_end|>")
    processor = WithoutVideos(pictures, words, None, chat_template=template)
    return Vlm(stirred(transformers.Qwen2VLForConditionalGeneration(config)), processor)


def idefics3() -> Vlm:
    special = ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]
    special += [f"<row_{r}_col_{c}>" for r in range(1, 5) for c in range(1, 5)]
    words = tokenizer(*special, image_token=IMAGE)
    vision = {**VISION, "image_size": 32, "patch_size": 8}
    text = transformers.LlamaConfig(vocab_size=len(words), **TEXT, pad_token_id=0)
    tokens = {"image_token_id": words.convert_tokens_to_ids(IMAGE), "scale_factor": 2, "pad_token_id": 0}
    config = transformers.Idefics3Config(vision_config=vision, text_config=text, **tokens)
    pictures = image_processor("Idefics3ImageProcessor", size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    processor = transformers.Idefics3Processor(
        pictures, words, image_seq_len=4, chat_template=TEMPLATE.replace("IMAGE", IMAGE)
    )
    return Vlm(stirred(transformers.Idefics3ForConditionalGeneration(config)), processor)


def gemma3() -> Vlm:
    words = tokenizer(image_token="<image_soft_token>", boi_token="<start_of_image>", eoi_token="<end_of_image>")
    ids = words.convert_tokens_to_ids
    vision = {**VISION, "image_size": 32, "patch_size": 4, "vision_use_head": False}
    text = {**TEXT, "vocab_size": len(words), "head_dim": 8, "pad_token_id": 0, "sliding_window": 64}
    names = {"image_token_index": "<image_soft_token>", "boi_token_index": "<start_of_image>"}
    tokens = {name: ids(token) for name, token in (names | {"eoi_token_index": "<end_of_image>"}).items()}
    config = transformers.Gemma3Config(vision_config=vision, text_config=text, mm_tokens_per_image=16, **tokens)
    pictures = image_processor("Gemma3ImageProcessor", size={"height": 32, "width": 32})
    processor = transformers.Gemma3Processor(
        pictures, words, image_seq_length=16, chat_template=TEMPLATE.replace("IMAGE", "<start_of_image>")
    )
    return Vlm(stirred(transformers.Gemma3ForConditionalGeneration(config)), processor)


def picture(width: int = 48, height: int = 40, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def question(*media: Any, text: str = "what is on the left ?", kind: str = "image") -> list[dict[str, Any]]:
    parts = [*({"type": kind, kind: medium} for medium in media), {"type": "text", "text": text}]
    return [{"role": "user", "content": parts}]


def encoded(processor: Any, messages: list[dict[str, Any]]) -> Any:
    """What the caller's own processor makes of messages that the model is to answer."""
    options = {"tokenize": True, "return_dict": True, "return_tensors": "pt", "add_generation_prompt": True}
    inputs = processor.apply_chat_template(messages, **options)
    inputs.pop("labels", None)
    return inputs


def generated(made: Vlm, messages: list[dict[str, Any]], **options: Any) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """What the caller's own model reads, what it writes, greedily, and its logits of each token, (G, V)."""
    inputs = encoded(made.processor, messages)
    options = {"max_new_tokens": 3, "do_sample": False, "output_logits": True} | options
    found = made.model.generate(**inputs, **options, return_dict_in_generate=True)
    return inputs, found.sequences[0], torch.stack([logits[0] for logits in found.logits])


def explained(logits: torch.Tensor, written: torch.Tensor) -> np.ndarray:
    """The logits of the written tokens less their mean over the vocabulary, (G,)."""
    return (logits.gather(1, written[:, None])[:, 0] - logits.mean(-1)).numpy()


class Forced(transformers.LogitsProcessor):
    def __init__(self, ids: list[int], prompt: int) -> None:
        self.ids, self.prompt = ids, prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        allowed = torch.full_like(scores, -1e9)
        allowed[:, self.ids[input_ids.shape[1] - self.prompt]] = 0
        return allowed


def log_probability(made: Vlm, messages: list[dict[str, Any]], ids: list[int]) -> float:
    """The log-probability of tokens as the answer to messages, of the caller's own `generate`, one after the other."""
    force = Forced(ids, encoded(made.processor, messages)["input_ids"].shape[1])
    *_, logits = generated(made, messages, max_new_tokens=len(ids), min_new_tokens=len(ids), logits_processor=[force])
    return float(logits.float().log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).sum())
