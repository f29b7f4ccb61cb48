"""Tiny processors in memory for the shrunk models that read pictures or sounds beside text."""

import inspect
import re
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import PretrainedConfig, PreTrainedTokenizerFast
from transformers.models.auto import feature_extraction_auto, image_processing_auto, processing_auto

from tests import tiny
from tests.media import audio_lm, vlm
from tools.survey.base import MAPPINGS, stir
from tools.survey.known import PROCESSORS, PROMPTS
from tools.survey.shrink import VOCABULARY, shrunk

_FEATURE_EXTRACTORS: Any = vars(feature_extraction_auto)["FEATURE_EXTRACTOR_MAPPING_NAMES"]
_IMAGE_PROCESSORS: Any = vars(image_processing_auto)["IMAGE_PROCESSOR_MAPPING_NAMES"]
_PROCESSORS: Any = vars(processing_auto)["PROCESSOR_MAPPING_NAMES"]

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]  # as `shrink` numbers them
WORDS = ["user", "assistant", ":", "!", *vlm.WORDS]

LITERAL = re.compile(r"""["'](<[^<>"'\s{}]{1,40}>|\[[A-Z_]{2,20}\]|\|[A-Z_]{3,20}\|)["']""")
NAMED = re.compile(r"tokenizer(?:, [\"']|\.)(\w+_token)(?:_id)?\b")


def tokenizer_for(processor_class: type) -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole words with the special tokens that a processor's code names."""
    source = inspect.getsource(inspect.getmodule(processor_class))  # type: ignore[arg-type]
    literals = dict.fromkeys(LITERAL.findall(source))
    standard = {"pad_token", "unk_token", "bos_token", "eos_token", "cls_token", "sep_token", "mask_token"}
    optional = set(
        re.findall(
            r"(?:hasattr\(tokenizer, .(?=\w+_token\b)|getattr\(tokenizer, .(?=\w+_token_id))(\w+?_token)", source
        )
    )
    optional -= set(re.findall(r"getattr\(tokenizer, .(\w+_token).,", source))
    names = [
        name for name in dict.fromkeys(NAMED.findall(source)) if name not in standard | optional and name[:4] != "add_"
    ]
    named = {
        name: next((t for t in literals if plain(t) == plain(name.removesuffix("_token"))), f"<{name}>")
        for name in names
    }
    vocabulary = dict.fromkeys([*SPECIALS, *literals, *named.values(), *WORDS])
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[PAD]",
        unk_token="[UNK]",
        bos_token="[CLS]",
        eos_token="[SEP]",
        extra_special_tokens=named,
    )
    made.add_tokens([AddedToken(token, special=True, normalized=False) for token in literals], special_tokens=True)
    made.padding_side = "left"
    return made


def plain(token: str) -> str:
    """Return the letters and digits of a token's name."""
    return re.sub(r"[^a-z0-9]", "", token.lower())


IMAGE_SIZE = 64
SEQUENCE = ("image_seq_length", "image_seq_len", "num_image_tokens", "num_query_tokens", "image_token_len")
"""How processors call the number of tokens that stand for a picture, or for one of its tiles."""


def image_processor_for(family: str, config: PretrainedConfig, count: int) -> Any:
    """Return the image processor of a family, for pictures as small as its shrunk model reads."""
    name = _IMAGE_PROCESSORS.get(family) or _IMAGE_PROCESSORS[PROCESSORS[family]]
    kind = getattr(transformers, name.get("pil") or name["torchvision"])
    vision = getattr(config, "vision_config", config)
    side = _side(config)
    options: dict[str, Any] = {}
    plain_one = kind()
    size = dict(getattr(plain_one, "size", None) or {})
    size = {key: value for key, value in size.items() if value}
    if size.get("longest_edge", 0) > 10_000:  # numbers of pixels
        options["size"] = {"shortest_edge": 16 * 16, "longest_edge": 4 * IMAGE_SIZE**2}
    elif size:
        options["size"] = {key: 2 * side if key == "longest_edge" else side for key in size}
    if getattr(plain_one, "crop_size", None):
        options["crop_size"] = {"height": side, "width": side}
    if getattr(kind, "max_image_size", None):
        options["max_image_size"] = {"longest_edge": side} if isinstance(kind.max_image_size, dict) else side
    if getattr(plain_one, "image_grid_pinpoints", None):
        options["image_grid_pinpoints"] = [[side, 2 * side], [2 * side, side], [2 * side, 2 * side]]
    for key, limit in (("min_pixels", 16 * 16), ("max_pixels", 4 * IMAGE_SIZE**2)):
        if key in kind.valid_kwargs.__annotations__ and "size" not in options:
            options[key] = limit
    if getattr(kind, "max_patches", None):
        options["max_patches"] = 4
    for key, names in {
        "patch_size": ("patch_size",),
        "merge_size": ("merge_size", "spatial_merge_size"),
        "temporal_patch_size": ("temporal_patch_size",),
        "pooling_kernel_size": ("pooling_kernel_size",),
    }.items():
        value: int | None = next(
            (v for owner in (vision, config) for n in names if isinstance(v := getattr(owner, n, None), int)), None
        )
        if value is not None and getattr(kind, key, None) is not None:
            options[key] = {"height": value, "width": value} if isinstance(getattr(kind, key), dict) else value
    made = kind(**options)
    made.image_seq_length = count
    return made


def _side(config: PretrainedConfig) -> int:
    """Return the pixels of a side of the pictures that a model reads."""
    for owner in (getattr(config, "vision_config", None), config):
        size = getattr(owner, "image_size", None)
        if size is not None:
            return int(size if isinstance(size, int) else size[0])
    return IMAGE_SIZE


class _Unread:
    """Take the place of what reads videos, proteins or sounds, which no prompt here holds."""

    model_input_names = ()

    def __getattr__(self, name: str) -> Any:
        """Have every setting, and none of them set."""
        if name.startswith("__"):
            raise AttributeError(name)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        raise AssertionError("not called")


def processor_for(family: str, config: PretrainedConfig, count: int = 1, feature_extractor: Any = None) -> Any:
    """Return a processor for the shrunk model of a family, and name its special tokens in the configuration.

    Args:
        family: The model type.
        config: The model's configuration.
        count: Tokens that stand for a picture or one of its tiles.
        feature_extractor: What reads sounds; None where no prompt holds one.
    """
    kind = getattr(transformers, _PROCESSORS.get(family) or _PROCESSORS[PROCESSORS[family]])
    loose = type(kind.__name__, (kind,), {"check_argument_for_proper_class": lambda *args: None})
    tokenizer = tokenizer_for(kind)
    parts: dict[str, Any] = {}
    sounds: Any = feature_extractor or _Unread()
    vision = getattr(config, "vision_config", config)
    settings: dict[str, Any] = dict.fromkeys(SEQUENCE, count) | {
        "img_size": _side(config),
        "patch_size": getattr(vision, "patch_size", None),
        "vision_feature_select_strategy": getattr(config, "vision_feature_select_strategy", "default"),
        "num_additional_image_tokens": 1 if "clip" in vision.model_type else 0,
        "tokenizer": tokenizer,
        "qformer_tokenizer": tokenizer,
    }
    if "image_processor" in inspect.signature(kind.__init__).parameters:
        settings["image_processor"] = image_processor_for(family, config, count)
    for name, parameter in inspect.signature(kind.__init__).parameters.items():
        if name in settings:
            parts[name] = settings[name]
        elif name in ("feature_extractor", "audio_processor"):
            parts[name] = sounds
        elif name.endswith(("processor", "extractor", "tokenizer")):
            parts[name] = _Unread()
        elif (
            parameter.default is parameter.empty
            and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            and name != "self"
        ):
            parts[name] = None
    processor = loose(**parts)
    image = PROMPTS.get(family, _image_token(processor))
    template = vlm.TEMPLATE.replace("IMAGE", image)
    if feature_extractor is not None:
        template = audio_lm.TEMPLATE.replace("SOUND", str(getattr(processor, "audio_token", "<audio>")))
    processor.chat_template = template
    name_tokens(config, processor)
    pinpoints = getattr(getattr(processor, "image_processor", None), "image_grid_pinpoints", None)
    if pinpoints and hasattr(config, "image_grid_pinpoints"):
        config.image_grid_pinpoints = pinpoints
    return processor


def _image_token(processor: Any) -> str:
    token = getattr(processor, "image_token", None) or getattr(processor.tokenizer, "image_token", "<image>")
    return str(getattr(token, "content", token))


def name_tokens(config: PretrainedConfig, processor: Any) -> None:
    """Give a configuration the ids of the special tokens that the processor puts in a prompt."""
    tokenizer = processor.tokenizer
    by_name = {plain(token): index for token, index in tokenizer.get_added_vocab().items()}
    for name in vars(config):
        stem = re.sub(r"_(token_)?(id|index)$", "", name)
        if stem == name or stem in ("pad", "bos", "eos", "sep", "mask", "decoder_start"):
            continue
        for owner in (processor, tokenizer):
            token = getattr(owner, f"{stem}_token", None)
            if token is not None:
                setattr(config, name, tokenizer.convert_tokens_to_ids(str(getattr(token, "content", token))))
                break
        else:
            if plain(stem) in by_name:
                setattr(config, name, by_name[plain(stem)])


def vision_language(family: str, messages: Any) -> tuple[Any, Any]:
    """Return the shrunk vision-language model of a family, and its processor.

    Args:
        family: The model type.
        messages: A prompt with a picture, to see how many tokens must stand for it.
    """
    config = shrunk(family)
    widths_agree(config)
    processor = processor_for(family, config)
    torch.manual_seed(0)
    model = transformers.AutoModelForImageTextToText.from_config(config).float().eval()
    read = vlm.encoded(processor, messages)
    inner = model if hasattr(model, "get_image_features") else getattr(model, "model", model)
    if any(hasattr(owner, name) for owner in (processor, processor.image_processor) for name in SEQUENCE):
        count = getattr(config, "num_query_tokens", None) or _features(inner, read, config)
        processor = processor_for(family, config, count)
        read = vlm.encoded(processor, messages)
    added = [i for i in read["input_ids"][0].tolist() if i in processor.tokenizer.added_tokens_decoder]
    common = max(set(added), key=added.count) if added else None
    for name in ("image_token_id", "image_token_index"):
        if hasattr(model.config, name) and added.count(common) > 1:
            setattr(model.config, name, common)
    stir(model, 1.5)
    special = sorted(processor.tokenizer.added_tokens_decoder)
    model.generation_config.update(suppress_tokens=special, eos_token_id=None, pad_token_id=0)
    return model, processor


def widths_agree(config: PretrainedConfig) -> None:
    """Let what a vision tower gives be as wide as the text model, which the defaults of some families are not."""
    vision, text = getattr(config, "vision_config", None), config.get_text_config()
    if vision is not None and hasattr(vision, "out_hidden_size"):
        vision.out_hidden_size = text.hidden_size
    if vision is not None and vision.model_type.startswith("qwen2_vl"):
        vision.hidden_size = text.hidden_size
    if "hidden_size" in vars(config) and vision is not None:
        config.hidden_size = text.hidden_size
    rope = getattr(text, "rope_parameters", None)
    if isinstance(rope, dict) and "rope_theta" in rope and hasattr(vision, "spatial_merge_size"):
        width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        half = int(width * rope.get("partial_rotary_factor", 1.0)) // 2
        rope["mrope_section"] = [half - 2 * (half * 3 // 8), half * 3 // 8, half * 3 // 8]


def _features(model: Any, read: Any, config: PretrainedConfig) -> int:
    """Return how many vectors a model makes of a picture, or of one of its tiles."""
    if hasattr(config, "image_grid_pinpoints"):  # the whole has rows that end in a vector of their own
        return int((_side(config) // config.vision_config.patch_size) ** 2)
    if not hasattr(model, "get_image_features"):
        return 1
    text = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")
    with torch.no_grad():
        features = model.get_image_features(**{k: v for k, v in read.items() if k not in text})
    features = getattr(features, "pooler_output", features)
    parts = features if isinstance(features, list | tuple) else [features]
    pixels = next(v for k, v in read.items() if k.startswith("pixel_values"))
    return int(sum(part.shape[:-1].numel() for part in parts) // max(1, pixels.shape[:-3].numel()))


class Reader:
    """A feature extractor beside a tokenizer, as the processors of speech have them.

    Args:
        feature_extractor: Of the family.
        tokenizer: Of letters.
    """

    def __init__(self, feature_extractor: Any, tokenizer: Any) -> None:
        self.feature_extractor, self.tokenizer = feature_extractor, tokenizer

    def __call__(self, *sounds: Any, **options: Any) -> Any:
        """Return what the feature extractor makes of sounds."""
        return self.feature_extractor(*sounds, **options)


def audio_language(family: str) -> tuple[Any, Any]:
    """Return the shrunk language model of a family that reads sounds, and its processor."""
    config = shrunk(family)
    processor = processor_for(family, config, feature_extractor=feature_extractor_for(family, config))
    torch.manual_seed(0)
    model = transformers.AutoModelForMultimodalLM.from_config(config).float().eval()
    stir(model, 1.5)
    special = sorted(processor.tokenizer.added_tokens_decoder)
    model.generation_config.update(suppress_tokens=special, eos_token_id=None, pad_token_id=0)
    return model, processor


def feature_extractor_for(family: str, config: Any) -> Any:
    """Return the feature extractor of a family, for sounds as short as its shrunk model reads."""
    kind = getattr(transformers, _FEATURE_EXTRACTORS[PROCESSORS.get(family, family)])
    options: dict[str, Any] = {}
    if "chunk_length" in inspect.signature(kind.__init__).parameters:
        options["chunk_length"] = 2
        owner: Any
        for owner in (config, getattr(config, "audio_config", None)):
            if hasattr(owner, "max_source_positions"):
                owner.max_source_positions = 100
    sides = (config, getattr(config, "encoder_config", None), getattr(config, "audio_config", None))
    names = ("num_mel_bins", "input_feat_per_channel")
    bins = next((v for side in sides for name in names if (v := getattr(side, name, None))), None)
    if hasattr(config, "feature_projection_input_dim"):
        config.feature_projection_input_dim = 160
    if bins and "feature_size" in inspect.signature(kind.__init__).parameters:
        options["feature_size"] = bins
    return kind(**options)


def speech(task: str, family: str) -> tuple[Any, Any]:
    """Return the shrunk model of speech of a family, and what takes the place of its processor.

    Args:
        task: The mapping.
        family: The model type.
    """
    config: Any = shrunk(family, **({"vocab_size": VOCABULARY} if task == "ctc" else {}))
    feature_extractor = feature_extractor_for(family, config)
    torch.manual_seed(0)
    auto = getattr(transformers, MAPPINGS[task].auto)
    model = auto.from_config(config).float().eval()
    stir(model, 2.0)
    if model.can_generate():
        model.generation_config.update(eos_token_id=None, forced_eos_token_id=None, suppress_tokens=[0, 1, 2, 3])
    return model, Reader(feature_extractor, tiny.tokenizer())


def towers(family: str) -> tuple[Any, Any]:
    """Return the shrunk model of two towers of a family, and its processor."""
    config = shrunk(family)
    kind = getattr(transformers, _PROCESSORS[family])
    loose = type(kind.__name__, (kind,), {"check_argument_for_proper_class": lambda *args: None})
    processor = loose(image_processor=image_processor_for(family, config, 1), tokenizer=tiny.tokenizer())
    if "siglip" in family:  # their tokenizers return no mask: padding is read like any other token
        processor.tokenizer.model_input_names = ["input_ids"]
    torch.manual_seed(0)
    model = transformers.AutoModelForZeroShotImageClassification.from_config(config).float().eval()
    stir(model, 2.0)
    return model, processor
