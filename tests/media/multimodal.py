from functools import cache

import pytest

from normxlogit import Explainer
from tests.abilities import TOLD_APART, needs
from tests.media import audio_lm, vlm

PICTURES = {name: getattr(vlm, name) for name in ("llava", "paligemma", "qwen2_vl", "idefics3", "gemma3")}
SOUNDS = {name: getattr(audio_lm, name) for name in ("qwen2_audio", "glmasr", "fixed_length")}
MODELS = PICTURES | SOUNDS
PALIGEMMA = pytest.param("paligemma", marks=needs(TOLD_APART))
QUESTION = "what is on the left ?"


@cache
def made(name: str) -> vlm.Vlm:
    return MODELS[name]()


@cache
def explainer(name: str) -> Explainer:
    return Explainer(*made(name))
