"""Tiny language models with random weights that read sounds, and processors made in memory: no download."""

from functools import partial
from typing import Any

import numpy as np
import transformers

from tests.media import vlm
from tests.media.vlm import TEXT, Vlm, stirred, tokenizer

SOUND = "<|AUDIO|>"
RATE = 16_000

TEMPLATE = vlm.TEMPLATE.replace("'image' %}IMAGE", "'audio' %}SOUND")
SPOKEN = TEMPLATE.replace("SOUND", f"<bos> {SOUND} <eos>")
"""A chat template that writes sounds."""

TOWER = {"d_model": 24, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 40}
TOWER |= {"num_mel_bins": 8, "max_source_positions": 100}


def features() -> Any:
    return transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=2, sampling_rate=RATE)


def _writing_words(model: Any) -> Any:
    """Give a model weights that depend on what it reads; what it writes must be a text that it reads."""
    model.generation_config.suppress_tokens = [model.config.audio_token_id]
    return stirred(model)


def qwen2_audio(kind: Any = transformers.Qwen2AudioProcessor) -> Vlm:
    """Makes tokens of the frames of the sound alone, four frames each."""
    words = tokenizer("<bos>", "<eos>", audio_token=SOUND)
    config = transformers.Qwen2AudioConfig(
        audio_config=transformers.Qwen2AudioEncoderConfig(**TOWER),
        text_config=transformers.Qwen2Config(vocab_size=len(words), **TEXT, pad_token_id=0),
        audio_token_index=words.convert_tokens_to_ids(SOUND),
    )
    marks = {"audio_token": SOUND, "audio_bos_token": "<bos>", "audio_eos_token": "<eos>"}
    processor = kind(features(), words, chat_template=SPOKEN, **marks)
    return Vlm(_writing_words(transformers.Qwen2AudioForConditionalGeneration(config)), processor)


def glmasr() -> Vlm:
    """Cuts a sound into pieces that its tower reads one by one."""
    words = tokenizer("<bos>", "<eos>", audio_token=SOUND)
    tower = {"hidden_size": 32, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.GlmAsrConfig(
        audio_config=transformers.GlmAsrEncoderConfig(**tower, num_mel_bins=8, max_position_embeddings=100),
        text_config=transformers.LlamaConfig(vocab_size=len(words), **TEXT, pad_token_id=0),
        audio_token_id=words.convert_tokens_to_ids(SOUND),
    )
    processor = transformers.GlmAsrProcessor(features(), words, chat_template=SPOKEN, audio_token=SOUND)
    return Vlm(_writing_words(transformers.GlmAsrForConditionalGeneration(config)), processor)


class FixedLength(transformers.Qwen2AudioProcessor):
    """Has as many tokens for each sound as for the longest, as Gemma 3n and Voxtral have."""

    def _process_audio(self, audio: Any, **kwargs: Any) -> Any:
        inputs, replacements = super()._process_audio(audio, **kwargs)
        inputs["feature_attention_mask"][:] = 1
        inputs["num_audio_tokens"] = [50] * len(audio)
        return inputs, [self.audio_token * 50 for _ in replacements]


def fixed_length() -> Vlm:
    """Makes tokens of all frames, also of those that fill a sound up."""
    return qwen2_audio(FixedLength)


def sound(seconds: float = 1.0, seed: int = 0) -> np.ndarray:
    count = round(RATE * seconds)
    noise = np.random.default_rng(seed).normal(0, 0.1, count)
    return (noise * np.linspace(0.1, 1, count)).astype(np.float32)


question = partial(vlm.question, kind="audio")
"""Chat messages with sounds before a question."""
