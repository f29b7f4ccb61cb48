"""Any configuration of transformers, made small enough to run on a CPU in about a second.

The default configuration of each family is valid, so its proportions are kept: all widths are divided by one power of
two, which leaves heads x head size = width, and so on, as they were. Only counts (layers, experts, vocabulary) are
set. A few families have numbers that hang together in other ways; they stand in `PARTICULARS`.
"""

import dataclasses
import inspect
import re
from typing import Any

import transformers
from transformers import CONFIG_MAPPING, PretrainedConfig

VOCABULARY = 128
LAYERS = 2
IMAGE = 64
DIVISOR = 8
EXPERTS = 4

_ROPE = {"rope_type": "default", "rope_theta": 10_000.0}

PARTICULARS: dict[str, dict[str, Any]] = {
    "apertus1p5": {"image_token_offset": 96, "audio_token_offset": 104},
    "apertus1p5_vision_tokenizer": {"codebook_size": 8},
    "bamba": {"attn_layer_indices": [1]},
    "bit": {"embedding_size": 32, "hidden_sizes": [32, 64], "depths": [1, 1], "num_groups": 8},
    "blt": {"encoder_hash_byte_group_vocab": 128, "num_hidden_layers": 2},
    "cohere_compass_text": {"rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE}},
    "dots3_note_vision_encoder": {"mlp_layer_types": ["dense", "dense"], "pyramid_num_routed": [0, 0]},
    "cpmant": {"prompt_types": 4, "prompt_length": 4, "segment_types": 4, "max_distance": 64},
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "kv_n_heads": 8, "clip_qkv": 8}},
    "deepseek_v2": {"num_experts_per_tok": 2, "moe_intermediate_size": 64},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "dory": {
        "num_hidden_layers": 3, "n_input_layers": 1, "n_recurrent_layers": 1, "n_output_layers": 1,
        "layer_types": ["sliding_attention", "full_attention", "full_attention"],
    },
    "efficientnet": {"hidden_dim": 320, "width_coefficient": 0.25},
    "esm": {"vocab_size": 128, "pad_token_id": 0, "mask_token_id": 4},
    "gemma3": {"mm_tokens_per_image": 4},
    "vipllava": {"vision_feature_layers": [-1, -2]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "hy_v4_vl_text": {"rope_parameters": {**_ROPE, "mrope_section": [2, 1, 1]}},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "longformer": {"attention_window": 16},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mllama_vision_model": {"intermediate_layers_indices": [0, 1]},
    "mllama_text_model": {"cross_attention_layers": [1]},
    "ministral": {"head_dim": 16},
    "nemotron": {"num_key_value_heads": 8},
    "nemotron_h": {"moe_intermediate_size": 64, "moe_shared_expert_intermediate_size": 64},
    "neomme": {"head_dim": 16},
    "qwen3_asr_encoder": {"output_dim": 256},
    "qwen4_exp_text": {
        "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 32, "indexer_budget": 32,
        "indexer_compress_ratio": 4,
    },
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"axial_pos_embds_dim": (8, 24)},
    "donut-swin": {"window_size": 2},
    "swin": {"window_size": 2},
    "t5": {"decoder_start_token_id": 0},
    "textnet": {"stem_num_channels": 3, "stem_out_channels": 64, "image_size": (64, 64)},
    "wavtokenizer_encoder": {"codebook_dim": 64, "codebook_size": 8},
    "zamba": {"use_mamba_kernels": False, "num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid"] * 2},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"]},
}  # fmt: skip
"""What the rules below get wrong, by the `model_type` of the configuration (nested ones too)."""

_VISION: Any = transformers.CLIPVisionConfig  # takes settings of other towers too

FORCED: dict[str, dict[str, Any]] = {
    # Its own vision tower needs timm, and text does not pass through it.
    "gemma3n": {
        "vision_config": _VISION(
            hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=32,
            rms_norm_eps=1e-6, vocab_size=8, vocab_offset=120,
        )
    },
}  # fmt: skip
"""Settings that the configuration's own checks would refuse."""

_LAYERS = re.compile(
    r"(num|n)(_\w+)?_(hidden_)?layers?|num_(encoder|decoder)_layers|(encoder|decoder)_layers|depth|[lxr]_layers"
)
_WIDTHS = re.compile(
    r"(\w+_)?(size|dim|dims|width|rank|hidden|d_model|d_ff|d_kv|d_inner|d_head|n_embd|channels|d_latents|v_channels|"
    r"qk_channels|d_ssm|dff|d_rel|hc_lowrank|embed|headdim|hidden_size_global)"
)
_NOT_WIDTHS = re.compile(
    r"\w*(vocab|image|patch|kernel|window|chunk|block|pool|batch|crop|merge|group|stride|bucket|codebook|visual|"
    r"conv_dim|train|tubelet|sampling|type_|expand|num_)\w*"
)
_FIXED = {
    "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "num_expert_group": 1, "num_hash_buckets": 64,
    "num_nextn_predict_layers": 0, "num_kv_shared_layers": 0, "max_window_layers": 1,
    "chunk_size": 16, "mamba_chunk_size": 16,
}  # fmt: skip


def shrunk(model_type: str, **options: Any) -> PretrainedConfig:
    """Return the configuration of a family, shrunk.

    Args:
        model_type: As in transformers' auto mappings.
        **options: Set on the result, such as `num_labels`.
    """
    return shrink(CONFIG_MAPPING[model_type](), options)


def shrink(
    config: PretrainedConfig, options: dict[str, Any] | None = None, *, nested: bool = False
) -> PretrainedConfig:
    """Shrink one configuration and those inside it, which the outer one may have made other than by their defaults."""
    kind = type(config)
    settings: dict[str, Any] = {}
    defaults = _defaults(kind)
    names = set(defaults)
    for name, default in defaults.items():
        try:
            value = getattr(config, name, None)
        except (AttributeError, RuntimeError):  # one that differs by layer
            value = default
        if isinstance(value, PretrainedConfig):
            inner = shrink(value, nested=True)
            settings[name] = inner if dataclasses.is_dataclass(kind) else inner.to_dict()
        elif default is not None:  # a number that the configuration works out itself follows the others
            small = _small(name, value)
            if small != value or (nested and isinstance(value, int | float | str) and value != default):
                settings[name] = small
    kinds = getattr(config, "layer_types", None)
    if (
        "layer_types" in names
        and isinstance(kinds, list)
        and len(set(kinds)) > 1
        and not any("per_layer" in name for name in vars(config))
    ):
        kinds = list(dict.fromkeys(kinds))  # one layer of each kind
        settings |= {"layer_types": kinds, "num_hidden_layers": len(kinds)}
    if nested and "vision" in kind.model_type:  # widths of 1152 leave heads that cannot be rotated in pairs
        width = next((settings.get(name) for name in ("embed_dim", "hidden_size") if name in names), None)
        heads = next((name for name in ("num_attention_heads", "num_heads") if name in names), None)
        if width and heads and width % (4 * settings.get(heads, getattr(config, heads))):
            settings[heads] = 4
    result = kind(**settings | PARTICULARS.get(kind.model_type, {}) | (options or {}))
    vars(result).update(FORCED.get(kind.model_type, {}))
    return result


def _defaults(kind: type[PretrainedConfig]) -> dict[str, Any]:
    """Return the settings of a class of configurations with their defaults.

    Configurations are data classes since transformers 5.4; before, the settings are the arguments of the constructor,
    which takes inner configurations as mappings.
    """
    if dataclasses.is_dataclass(kind):
        return {field.name: field.default for field in dataclasses.fields(kind)}
    parameters = inspect.signature(kind).parameters.values()
    named = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    return {each.name: each.default for each in named}


def _small(name: str, value: Any) -> Any:
    """Return a smaller value for a setting, the same value if its name or kind says nothing about size."""
    if name == "image_size" and isinstance(value, list | tuple):
        return type(value)(min(side, IMAGE) for side in value)
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if name in _FIXED:
        return _FIXED[name]
    if name.endswith(("token_id", "token_index", "_index", "_id")):
        return _token(name, value)
    if name == "image_size":
        return min(value, IMAGE)
    if "vocab_size" in name and value > VOCABULARY:
        return VOCABULARY
    if _LAYERS.fullmatch(name):
        return min(value, LAYERS)
    if ("expert" in name or "topk" in name) and not name.endswith("size"):
        per_token = any(part in name for part in ("tok", "top", "shared", "layer", "period", "zero"))
        return min(value, 2 if per_token else EXPERTS)
    if name in ("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions"):
        return min(value, 512)
    if _WIDTHS.fullmatch(name) and not _NOT_WIDTHS.fullmatch(name) and value >= 32 and value % DIVISOR == 0:
        return value // DIVISOR
    return value


def _token(name: str, value: int) -> int:
    """Return special tokens as the tests' tokenizer has them; the others somewhere above the words."""
    known = {"pad": 0, "bos": 2, "cls": 2, "decoder_start": 2, "eos": 3, "sep": 3, "mask": 4}
    for stem, index in known.items():
        if name == f"{stem}_token_id":
            return index
    return value if 0 <= value < VOCABULARY and value < 0 else VOCABULARY - 1 - sum(map(ord, name)) % 40
