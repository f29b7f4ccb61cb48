"""The settings of pipelines as tables, without a pipeline of transformers."""

from types import SimpleNamespace

import pytest
import transformers
from torch import nn

from normxlogit import InputError, UnsupportedModelError
from normxlogit.loading.pipeline_settings import GenerationOfPipeline, ignored_labels, pipeline_settings
from tests import tiny

OWN = transformers.GenerationConfig(max_new_tokens=7)


@pytest.mark.parametrize(
    ("pipeline", "called", "configured", "expected"),
    [
        ({}, {}, {}, {}),
        ({"given": {"num_beams": 2}}, {}, {}, {"num_beams": 2}),
        ({"given": {"num_beams": 2}}, {"num_beams": 1}, {}, {"num_beams": 1}),
        ({"given": {"num_beams": 2}}, {"generation_config": OWN}, {}, {"generation_config": OWN}),
        ({"given": {"num_beams": 2}}, {"generation_config": None}, {}, {"num_beams": 2, "generation_config": None}),
        ({"defaults": {"max_new_tokens": 256}}, {}, {}, {"max_new_tokens": 256}),
        ({"defaults": {"max_new_tokens": 256}}, {"max_new_tokens": 3}, {}, {"max_new_tokens": 3}),
        ({"defaults": {"max_new_tokens": 256}}, {}, {"max_new_tokens": 5}, {}),
        ({"defaults": {"max_new_tokens": 256}}, {"generation_config": OWN}, {}, {"generation_config": OWN}),
        ({"defaults": {"max_new_tokens": 256}}, {"max_length": 9}, {}, {"max_length": 9}),
        ({"defaults": {"max_new_tokens": 256}}, {}, {"max_length": 9}, {}),
        ({"prefix_length": 2}, {"max_length": 9, "min_length": 4}, {}, {"max_length": 11, "min_length": 6}),
        ({"prefix_length": 2, "given": {"max_length": 9}}, {}, {}, {"max_length": 11}),
        ({"prefix_length": 2, "defaults": {"max_length": 9}}, {}, {}, {"max_length": 11}),
        ({"prefix_length": 2}, {}, {"max_length": 9}, {"max_length": 11}),
        ({"prefix_length": 2}, {"max_length": None}, {}, {"max_length": None}),
        ({"prefix_length": 2}, {"max_length": 9, "max_new_tokens": 3}, {}, {"max_length": 9, "max_new_tokens": 3}),
        ({"prefix_length": 2}, {"min_length": 9}, {"min_new_tokens": 3}, {"min_length": 9}),
        ({"prefix_length": 0}, {"max_length": 9}, {}, {"max_length": 9}),
    ],
)
def test_a_call_goes_before_the_pipeline_which_goes_before_its_defaults(pipeline, called, configured, expected):
    before = dict(called)
    assert GenerationOfPipeline(**pipeline).of_call(called, configured) == expected
    assert called == before


class Pipeline:
    """Has the groups of settings of a pipeline, and its methods, which have defaults."""

    task, decoder, set_anew = "text-classification", None, {}

    def __init__(self, preprocess=None, forward=None, postprocess=None, **attributes):
        self.model, self.tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
        self._preprocess_params, self._forward_params = preprocess or {}, forward or {}
        self._postprocess_params = postprocess or {}
        self.__dict__.update(attributes)

    def _sanitize_parameters(self, stride=None):
        return {}, {}, self.set_anew

    def preprocess(self, text, of_preprocessing=1):
        raise NotImplementedError

    def postprocess(self, answer, of_postprocessing="usual"):
        raise NotImplementedError


def settings_of(*groups, **attributes):
    return pipeline_settings(Pipeline(*groups, **attributes), None)


def test_what_every_call_sets_anew_goes_before_what_a_pipeline_was_made_with():
    """As the function of a pipeline of sounds up to transformers 4.57."""
    made_with = {"function_to_apply": "sigmoid"}
    settings = settings_of(None, None, made_with, set_anew={"function_to_apply": "softmax"})
    assert settings.problem == "single-label"


def test_a_pipeline_without_settings_has_the_defaults():
    settings = settings_of()
    assert settings == pipeline_settings(tiny.model("bert"), None)
    assert settings.add_special_tokens
    assert (settings.question, settings.problem, settings.max_length, settings.longest_prompt) == (None,) * 4
    assert (settings.prefix, settings.generation, settings.chat) == ("", GenerationOfPipeline(), {})


@pytest.mark.parametrize(
    ("preprocess", "max_length"),
    [
        ({"max_length": 6}, 6),
        ({"max_length": 6, "padding": True}, None),
        ({"max_length": 6, "padding": False}, 6),
        ({"max_length": 6, "padding": True, "truncation": True}, 6),
        ({"max_length": 6, "truncation": "longest_first"}, 6),
        ({"max_length": 6, "truncation": False}, None),
        ({"max_length": 6, "truncation": "do_not_truncate"}, None),
        ({"truncation": True}, None),
        ({"tokenizer_kwargs": {"max_length": 6}}, 6),
    ],
)
def test_the_length_of_texts_and_of_prompts(preprocess, max_length):
    assert settings_of(preprocess).max_length == max_length
    assert settings_of(preprocess).longest_prompt is None
    for task in ("text-generation", "image-text-to-text", "any-to-any"):
        settings = settings_of(dict(preprocess), task=task)
        assert (settings.longest_prompt, settings.max_length) == (max_length, None)


@pytest.mark.parametrize(
    ("group", "name", "value", "refused"),
    [
        ("preprocess", "truncation", "only_first", "truncation"),
        ("preprocess", "of_preprocessing", 2, "of_preprocessing"),
        ("preprocess", "of_preprocessing", 1, None),
        ("preprocess", "of_preprocessing", True, "of_preprocessing"),
        ("preprocess", "of_preprocessing", None, None),
        ("postprocess", "of_postprocessing", "usual", None),
        ("postprocess", "of_postprocessing", "other", "of_postprocessing"),
        ("postprocess", "aggregation_strategy", "simple", None),
        ("postprocess", "aggregation_strategy", "none", None),
        ("postprocess", "aggregation_strategy", "max", "aggregation_strategy"),
        ("postprocess", "aggregation_strategy", SimpleNamespace(value="simple"), None),
        ("postprocess", "aggregation_strategy", SimpleNamespace(value="first"), "aggregation_strategy"),
        ("postprocess", "target_ids", [3], "targets"),
        ("preprocess", "tokenizer_params", {"stride": 2}, "stride"),
        ("postprocess", "top_k", 5, None),
        ("preprocess", "candidate_labels", ["a"], "candidate_labels"),
        ("preprocess", "padding", "max_length", None),
        ("preprocess", "padding", True, None),
    ],
)
def test_a_setting_is_refused_by_the_name_that_the_caller_knows(group, name, value, refused):
    if refused is None:
        assert settings_of(**{group: {name: value}}).add_special_tokens
    else:
        with pytest.raises(InputError, match=f"made with {refused}=, with which it answers otherwise"):
            settings_of(**{group: {name: value}})


def test_padding_on_the_left_to_a_length_is_refused():
    left, right = (tiny.tokenizer(padding_side=side) for side in ("left", "right"))
    for padding, tokenizer in (("max_length", right), (True, left), (True, right)):
        assert settings_of({"padding": padding}, tokenizer=tokenizer).add_special_tokens
    with pytest.raises(InputError, match="padding="):
        settings_of({"padding": "max_length"}, tokenizer=left)


@pytest.mark.parametrize(
    ("postprocess", "attributes", "problem"),
    [
        ({"function_to_apply": "sigmoid"}, {}, "multi-label"),
        ({"function_to_apply": SimpleNamespace(value="SOFTMAX")}, {}, "single-label"),
        ({"function_to_apply": "none"}, {}, None),
        ({}, {"model": tiny.model("bert", num_labels=1)}, "multi-label"),
        ({}, {"model": tiny.model("bert", num_labels=1), "task": "image-classification"}, "multi-label"),
        ({}, {"model": tiny.model("bert", num_labels=1), "task": "token-classification"}, None),
        ({}, {"model": tiny.model("bert", num_labels=1, problem_type="regression")}, None),
        ({"function_to_apply": "softmax"}, {"model": tiny.model("bert", num_labels=1)}, "single-label"),
    ],
)
def test_the_function_that_makes_probabilities(postprocess, attributes, problem):
    assert settings_of(postprocess=postprocess, **attributes).problem == problem


def test_what_is_read_before_a_text_and_by_a_template():
    assert not settings_of({"add_special_tokens": False}).add_special_tokens
    assert settings_of({"prefix": "say: "}).prefix == "say: "
    assert settings_of({"continue_final_message": True}).chat == {
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
    assert settings_of({"continue_final_message": False}).chat == {
        "continue_final_message": False,
        "add_generation_prompt": True,
    }
    chat = {"tools": ["t"], "documents": ["d"]}
    assert settings_of({**chat, "tokenizer_encode_kwargs": {"shout": 1, "max_length": 4}}).chat == chat | {"shout": 1}


def writer(forward, **attributes):
    model = tiny.model("gpt2", "CausalLM")
    return settings_of(None, forward, model=model, task="text-generation", **attributes).generation


def test_what_a_pipeline_passes_to_generate():
    forward = {"generate_kwargs": {"num_beams": 2}, "tokenizer": 1, "return_language": 2, "prefix_length": 3}
    generation = writer(forward | {"top_k": 5}, _generate_kwargs={"num_beams": 4, "seed": 1})
    assert generation == GenerationOfPipeline({"num_beams": 2, "seed": 1, "top_k": 5}, prefix_length=3)
    defaults = {"max_new_tokens": 9, "do_sample": True, "temperature": 0.7, "transformers_version": "5"}
    assert writer({}, _generation_defaults=defaults) == GenerationOfPipeline({}, {"max_new_tokens": 9}, samples=True)
    config = transformers.GenerationConfig(max_new_tokens=9, do_sample=True)
    older = writer({}, generation_config=config)
    assert (older.samples, older.defaults) == (True, {"max_new_tokens": 9})
    assert settings_of(None, {"top_k": 5}).generation == GenerationOfPipeline(), "a classifier does not generate"


def test_settings_of_the_forward_pass_are_not_those_of_texts():
    assert writer({"of_preprocessing": 3}).given == {"of_preprocessing": 3}
    assert settings_of({"handle": "x"}, {"handle": "x"}).add_special_tokens


@pytest.mark.parametrize("task", ["question-answering", "table-question-answering", "translation_en_to_de"])
def test_a_pipeline_that_asks_more_than_a_text_is_refused(task):
    with pytest.raises(UnsupportedModelError, match=f"a pipeline for {task} asks"):
        settings_of(task=task)
    with pytest.raises(UnsupportedModelError, match="decoder="):
        settings_of(decoder=object())


@pytest.mark.parametrize(
    ("name", "activation", "problem"),
    [
        ("activation_fn", nn.Sigmoid(), "multi-label"),
        ("default_activation_function", nn.Sigmoid(), "multi-label"),
        ("activation_fn", nn.Identity(), None),
    ],
)
def test_a_ranking_model_that_returns_probabilities(name, activation, problem):
    ranking = SimpleNamespace(**{name: activation}, rank=len)
    assert pipeline_settings(ranking, None).problem == problem
    assert pipeline_settings(SimpleNamespace(**{name: activation}), None).problem is None


@pytest.mark.parametrize(
    ("postprocess", "ignored"),
    [
        ({}, None),
        ({"ignore_labels": None}, None),
        ({"ignore_labels": []}, []),
        ({"ignore_labels": ["O"]}, [0]),
        ({"ignore_labels": ["O", "B-PER"]}, [0, 1]),
        ({"ignore_labels": ["PER"]}, []),
        ({"ignore_labels": ["PER"], "aggregation_strategy": "none"}, []),
        ({"ignore_labels": ["PER"], "aggregation_strategy": "simple"}, [1, 2]),
        ({"ignore_labels": ["PER"], "aggregation_strategy": SimpleNamespace(value="simple")}, [1, 2]),
        ({"ignore_labels": ["PER"], "aggregation_strategy": SimpleNamespace(value="none")}, []),
    ],
)
def test_the_labels_that_a_pipeline_leaves_out(postprocess, ignored):
    names = dict(enumerate(["O", "B-PER", "I-PER", "PERSON"]))
    config = transformers.BertConfig(id2label=names, label2id={name: index for index, name in names.items()})
    pipeline = SimpleNamespace(_postprocess_params=postprocess, model=SimpleNamespace(config=config))
    assert ignored_labels(pipeline) == ignored
    assert ignored_labels(config) is None
