"""Every setting of a pipeline of pictures and sounds: its answer with it is what is explained, or an error names it."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
import transformers

from normxlogit import Explainer, InputError
from tests.abilities import KEEPS_FUNCTION, LACKING
from tests.contract.decided import (
    Applied,
    Decision,
    Harmless,
    Kind,
    Refused,
    check_all_decided,
    check_applied,
    check_harmless,
    check_refused,
    of,
    parameters_of,
    undecided,
)
from tests.contract.test_pipeline_settings import FORM, explained_label, first_label
from tests.contract.test_pipelines import pipeline_of
from tests.media import vlm
from tests.media.test_signals import PROCESSOR, RATE, picture, sound, vit, wav2vec2
from tests.media.test_speech import frame_model, whisper
from tests.media.towers import model_and_processor

VIT, WAV2VEC2, LLAVA = vit(), wav2vec2(), vlm.llava()


def searching() -> tuple[Any, Any]:
    """A Whisper for which a search by beams, the default of the pipeline, finds other tokens than the greedy ones."""
    model, processor = whisper()
    torch.manual_seed(5)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "decoder" in name and weight.ndim == 2:
                weight.copy_(torch.randn_like(weight) * 0.3)
    return model, processor


WHISPER = searching()

OF_CLASSIFIERS: Mapping[str, Decision] = {
    "function_to_apply": Applied("sigmoid"),
    "top_k": Harmless(FORM, 1),
    "timeout": Harmless("it is for pictures that are downloaded", 5.0),
}

OF_SPEECH: Mapping[str, Decision] = {
    "chunk_length_s": Refused(1.0, {"ignore_warning": True}),
    "stride_length_s": Refused(0.5),
    "ignore_warning": Harmless("it is for a warning", True),
    "decoder_kwargs": Refused({"beam_width": 3}),
    "return_language": Harmless(FORM),
    "return_timestamps": Harmless("its tokens are those of generate; without a vocabulary for times it is an error"),
    "generate_kwargs": Applied({"num_beams": 1}),
}

OF_MESSAGES: Mapping[str, Decision] = {
    "max_new_tokens": Applied(2),
    "generate_kwargs": Applied({"suppress_tokens": [*range(8), *range(12, 20)]}),
    "timeout": Harmless("it is for pictures that are downloaded", 5.0),
    **{name: Harmless(FORM) for name in ("return_full_text", "return_tensors", "return_type")},
    "clean_up_tokenization_spaces": Harmless(FORM, True),
    "skip_special_tokens": Harmless(FORM, False),
    "stop_sequence": Harmless("it is the stop_strings of generate"),
    "continue_final_message": Harmless("that of a pipeline of texts, which is tried there"),
    "processor_kwargs": Refused({"do_resize": False}),
    "generation_mode": Refused("text"),
}


def transcript(pipeline: Any, given: Any) -> list[int]:
    (inputs,) = pipeline.preprocess(dict(given), **pipeline._preprocess_params)
    return pipeline.forward(inputs, **pipeline._forward_params)["tokens"][0].tolist()


def explained_transcript(pipeline: Any, given: Any) -> list[int]:
    return [target.id for target in Explainer(pipeline).generate(dict(given)).targets]


def whisper_pipeline(**settings: Any) -> Any:
    model, processor = WHISPER
    parts = {"tokenizer": processor.tokenizer, "feature_extractor": processor.feature_extractor}
    settings["generate_kwargs"] = {"max_new_tokens": 5, **settings.get("generate_kwargs", {})}
    return pipeline_of("automatic-speech-recognition", model, **parts, **settings)


def written(pipeline: Any, given: Any) -> str:
    return "".join(pipeline(text=given, return_full_text=False)[0]["generated_text"].split())


def explained_writing(pipeline: Any, given: Any) -> str:
    ids = [target.id for target in Explainer(pipeline).generate(given, method="normxlogit").targets]
    return "".join(pipeline.tokenizer.decode(ids, skip_special_tokens=True).split())


def of_messages(**settings: Any) -> Any:
    model, processor = LLAVA
    if "max_new_tokens" not in settings:
        settings["generate_kwargs"] = {"max_new_tokens": 4, **settings.get("generate_kwargs", {})}
    return pipeline_of("image-text-to-text", model, processor=processor, **settings)


KINDS = {
    "image-classification": Kind(
        lambda **settings: pipeline_of("image-classification", VIT, image_processor=PROCESSOR, **settings),
        OF_CLASSIFIERS,
        first_label,
        explained_label,
        picture(),
    ),
    "audio-classification": Kind(
        lambda **settings: pipeline_of(
            "audio-classification",
            WAV2VEC2,
            feature_extractor=transformers.Wav2Vec2FeatureExtractor(),
            **settings,
        ),
        {name: decision for name, decision in OF_CLASSIFIERS.items() if name != "timeout"},
        first_label,
        explained_label,
        sound(),
    ),
    "automatic-speech-recognition": Kind(
        whisper_pipeline, OF_SPEECH, transcript, explained_transcript, {"raw": sound(), "sampling_rate": RATE}
    ),
    "image-text-to-text": Kind(of_messages, OF_MESSAGES, written, explained_writing, vlm.question(vlm.picture())),
}


@pytest.mark.parametrize("task", KINDS)
def test_every_setting_is_decided(task) -> None:
    check_all_decided(KINDS[task])


@pytest.mark.parametrize(("task", "name"), of(KINDS, Applied))
def test_a_setting_that_changes_the_answer_changes_what_is_explained(task, name) -> None:
    if (task, name) == ("audio-classification", "function_to_apply") and KEEPS_FUNCTION in LACKING:
        pytest.skip(f"this version of transformers lacks {KEEPS_FUNCTION}")
    check_applied(KINDS[task], name)


@pytest.mark.parametrize(("task", "name"), of(KINDS, Harmless))
def test_other_settings_change_nothing(task, name) -> None:
    check_harmless(KINDS[task], name)


@pytest.mark.parametrize(("task", "name"), of(KINDS, Refused))
def test_a_setting_that_is_not_applied_is_refused_by_its_name(task, name) -> None:
    check_refused(KINDS[task], name)


def test_speech_of_frames_and_several_kinds_of_media_take_the_same_settings(tmp_path) -> None:
    model, processor = frame_model(tmp_path)
    parts = {"tokenizer": processor.tokenizer, "feature_extractor": processor.feature_extractor}
    for name in ("automatic-speech-recognition", "any-to-any"):
        if name == "any-to-any":
            pytest.importorskip("torchvision", reason="the pipeline needs it")
        pipeline = pipeline_of(name, model, **parts) if name != "any-to-any" else of_messages()
        known = OF_SPEECH if name != "any-to-any" else OF_MESSAGES
        assert not undecided(parameters_of(pipeline._sanitize_parameters), known)
    heard = {"raw": sound(), "sampling_rate": RATE}
    pipeline = pipeline_of("automatic-speech-recognition", model, **parts, return_timestamps="char")
    ids = [target.id for target in Explainer(pipeline).generate(dict(heard)).targets]
    assert processor.tokenizer.decode(ids, group_tokens=False) == pipeline(dict(heard))["text"]


def test_templates_of_labels_for_pictures_are_refused_as_the_caller_gives_whole_texts() -> None:
    model, processor = model_and_processor()
    parts = {"tokenizer": processor.tokenizer, "image_processor": processor.image_processor}
    decided = {"candidate_labels", "hypothesis_template", "timeout", "tokenizer_kwargs"}
    pipeline = pipeline_of("zero-shot-image-classification", model, **parts)
    assert set(parameters_of(pipeline.preprocess)) <= {"image", *decided}
    for name, value in {"candidate_labels": ["a cat"], "hypothesis_template": "this is {}"}.items():
        with pytest.raises(InputError, match=f"{name}="):
            Explainer(pipeline_of("zero-shot-image-classification", model, **parts, **{name: value}))
