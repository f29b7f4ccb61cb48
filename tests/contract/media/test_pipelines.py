"""Every kind of pipeline of pictures and sounds: its own answer is explained, or it is refused in a line."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import transformers
from transformers.pipelines import SUPPORTED_TASKS

from normxlogit import Explainer
from tests.abilities import needs
from tests.contract import test_pipelines as texts
from tests.contract.test_pipelines import SMALL, WORDS, pipeline_of, pipeline_refused, same_label, untrained
from tests.media import vlm
from tests.media.test_signals import PROCESSOR, RATE, picture, sound, vit, wav2vec2
from tests.media.test_speech import frame_model, whisper
from tests.media.towers import model_and_processor


def test_image_classification() -> None:
    for settings in ({}, {"function_to_apply": "sigmoid"}, {"function_to_apply": "none"}):
        same_label(pipeline_of("image-classification", vit(), image_processor=PROCESSOR, **settings), picture())


def test_audio_classification() -> None:
    extractor = transformers.Wav2Vec2FeatureExtractor()
    for settings in ({}, {"function_to_apply": "sigmoid"}):
        same_label(pipeline_of("audio-classification", wav2vec2(), feature_extractor=extractor, **settings), sound())


@needs("hidden states of two towers")
def test_zero_shot_image_classification() -> None:
    pytest.importorskip("normxlogit.similarity")
    model, processor = model_and_processor()
    parts = {"tokenizer": processor.tokenizer, "image_processor": processor.image_processor}
    pipeline = pipeline_of("zero-shot-image-classification", model, **parts)
    names = ["a cat", "the movie"]
    answers = pipeline(picture(), candidate_labels=names, hypothesis_template="{}")
    cosines = [s.prediction.value for s in Explainer(pipeline).similarity(picture(), names)]
    logits = np.array(cosines) * float(model.logit_scale.detach().exp())
    chances = dict(zip(names, np.exp(logits) / np.exp(logits).sum(), strict=True))
    for answer in answers:
        assert chances[answer["label"]] == pytest.approx(answer["score"], abs=1e-4)


def test_speech(tmp_path) -> None:
    model, processor = frame_model(tmp_path)
    parts = {"tokenizer": processor.tokenizer, "feature_extractor": processor.feature_extractor}
    pipeline = pipeline_of("automatic-speech-recognition", model, **parts)
    heard = {"raw": sound(), "sampling_rate": RATE}
    ids = [t.id for t in Explainer(pipeline).generate(dict(heard)).targets]
    assert processor.tokenizer.decode(ids, group_tokens=False) == pipeline(dict(heard))["text"]
    model, processor = whisper()
    parts = {"tokenizer": processor.tokenizer, "feature_extractor": processor.feature_extractor}
    pipeline = pipeline_of("automatic-speech-recognition", model, **parts, generate_kwargs={"max_new_tokens": 3})
    assert len(Explainer(pipeline).generate(dict(heard)).targets) <= 3


@pytest.mark.parametrize("task", ["image-text-to-text", "any-to-any"])
def test_image_text_to_text(task) -> None:
    if task == "any-to-any":
        pytest.importorskip("torchvision", reason="the pipeline needs it")
    model, processor = vlm.llava()
    pipeline = pipeline_of(task, model, processor=processor, generate_kwargs={"max_new_tokens": 2})
    messages = vlm.question(vlm.picture())
    kept = Explainer(pipeline).generate(messages)
    assert len(kept.targets) <= 2
    assert kept.completion == Explainer(model, processor).generate(messages, max_new_tokens=2).completion


EXPLAINED = {"image-classification", "audio-classification", "zero-shot-image-classification", "any-to-any"}
EXPLAINED |= {"automatic-speech-recognition", "image-text-to-text"}


VISION = SMALL | {"image_size": 32, "patch_size": 8}
NARROW = {"hidden_sizes": [8, 8, 16, 16], "depths": [1] * 4, "num_attention_heads": [1] * 4}
PLACES = SMALL | {"image_size": [32, 32], "patch_size": 8, "num_detection_tokens": 5}
SIDES = {"text_config": WORDS, "vision_config": VISION, "projection_dim": 16}
NO_HEAD = "no head of a supported kind"
SEGMENTS = {"decoder_hidden_size": 16, **NARROW}
REFUSED: Mapping[str, tuple[Callable[[], Any], str]] = {
    "image-feature-extraction": (untrained("ViTModel", "ViTConfig", **VISION), "no head"),
    "image-segmentation": (untrained("SegformerForSemanticSegmentation", "SegformerConfig", **SEGMENTS), NO_HEAD),
    "object-detection": (untrained("YolosForObjectDetection", "YolosConfig", **PLACES), NO_HEAD),
    "zero-shot-object-detection": (untrained("OwlViTForObjectDetection", "OwlViTConfig", **SIDES), NO_HEAD),
    "visual-question-answering": (untrained("ViltForQuestionAnswering", "ViltConfig", **WORDS | VISION), texts.MORE),
    "depth-estimation": (untrained("GLPNForDepthEstimation", "GLPNConfig", **NARROW, decoder_hidden_size=8), NO_HEAD),
}


ELSEWHERE = {"text-to-audio", "zero-shot-audio-classification", "video-classification", "mask-generation",
             "image-to-image", "image-to-text", "keypoint-matching"}  # fmt: skip
"""Of classes without a head of a known kind too; their models are large, or need packages that are not installed."""


def test_every_kind_of_pipeline_is_tried() -> None:
    of_choices = "zero-shot-classification"  # in tests/contract/choices
    assert set(SUPPORTED_TASKS) <= {*EXPLAINED, *REFUSED, *texts.EXPLAINED, *texts.REFUSED, *ELSEWHERE, of_choices}


@pytest.mark.parametrize("task", REFUSED)
def test_pipelines_of_other_kinds_are_refused_in_a_line(task) -> None:
    texts.skip_where_lacking(task)
    build, reason = REFUSED[task]
    pipeline_refused(pipeline_of(task, build(), image_processor=transformers.ViTImageProcessor()), reason)
