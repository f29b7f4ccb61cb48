import torch
import transformers

from tests import tiny
from tests.abilities import image_processor
from tests.media.test_signals import shaken

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}


LENGTH = 24

PICTURES = image_processor("CLIPImageProcessor", size={"height": 32, "width": 32}, do_center_crop=False)


TEXT = "the movie is bad"


def towers(kind):
    torch.manual_seed(0)
    tokenizer = tiny.tokenizer()
    special = {"eos_token_id": 3, "bos_token_id": 2, "pad_token_id": 0}
    text = SMALL | special | {"vocab_size": len(tokenizer), "max_position_embeddings": LENGTH}
    settings = {"text_config": text, "vision_config": SMALL | {"image_size": 32, "patch_size": 8}}
    if kind == "clip":
        model = transformers.CLIPModel(transformers.CLIPConfig(**settings, projection_dim=16))
    else:
        model = transformers.SiglipModel(transformers.SiglipConfig(**settings))
    return shaken(model), tokenizer


def model_and_processor(kind="clip"):
    model, tokenizer = towers(kind)
    return model, transformers.CLIPProcessor(PICTURES, tokenizer)
