"""Every setting of a pipeline: what is explained is what the pipeline answers with it, or an error names it.

The lists are those of the installed version of transformers: a setting that is new there fails the first test.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from normxlogit import Explainer, InputError, UnsupportedModelError
from tests import tiny
from tests.abilities import LACKING, needs
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
    is_close,
    of,
)
from tests.contract.test_pipelines import TEXT, of_texts

METHOD = "input-norm"  # the cheapest: answers are compared, not scores
PAIR = {"text": TEXT, "text_pair": "a cat"}
FORM = "this is the form of the answer"
TWICE = "a pipeline gives this to its tokenizer itself, and ends in an error of two values"
OF_TOKENIZER: Mapping[str, Decision] = {
    "add_special_tokens": Applied(False),
    "truncation": Applied(True, {"max_length": 6}),
    "max_length": Applied(6),
    "padding": Harmless("padding on the right moves no token", "max_length"),
    "padding_side": Refused("left"),
    "pad_to_multiple_of": Refused(8),
    "stride": Refused(2),
    "is_split_into_words": Refused(True),
    "return_token_type_ids": Refused(False),
    "return_attention_mask": Refused(False),
    "return_overflowing_tokens": Refused(True),
    "return_special_tokens_mask": Refused(True),
    "return_offsets_mapping": Refused(True),
    "return_length": Refused(True),
    "text_target": Refused("a cat"),
    "text_pair_target": Refused("a cat"),
    "text": Harmless(TWICE),
    "text_pair": Refused("a cat"),
    "return_tensors": Harmless(TWICE),
    "verbose": Harmless("it is for warnings", False),
    "tokenizer_kwargs": Harmless("others go to the tokenizer as they are"),
}
"""What a tokenizer takes."""

OF_CLASSIFIERS: Mapping[str, Decision] = {
    "function_to_apply": Applied("sigmoid"),
    "top_k": Harmless(FORM, 1),
    "return_all_scores": Harmless(FORM),  # of older versions
    **OF_TOKENIZER,
}

OF_TAGGERS: Mapping[str, Decision] = {
    "ignore_labels": Harmless("the label of every word is compared", []),
    "aggregation_strategy": Refused("average"),
    **{
        name: Harmless("older versions store it as aggregation_strategy")
        for name in ("grouped_entities", "ignore_subwords")
    },
    "offset_mapping": Refused([(0, 1)]),
    "is_split_into_words": Harmless("a call says it anew", True),
    "stride": Refused(2, {"aggregation_strategy": "simple"}),
    "delimiter": Harmless("it joins words that are given as a list", " "),
}

OF_FILLERS: Mapping[str, Decision] = {
    "top_k": Harmless(FORM, 2),
    "targets": Refused(["cat"]),
    "tokenizer_kwargs": Applied({"add_special_tokens": False}),
}

TOOL = {"type": "function", "function": {"name": "cat", "parameters": {}}}
CHAT = [{"role": "user", "content": TEXT}]
BEGUN = [*CHAT, {"role": "assistant", "content": "a great film"}]

OF_WRITERS: Mapping[str, Decision] = {
    **{name: Harmless(FORM) for name in ("return_full_text", "return_tensors", "return_text", "return_type")},
    "clean_up_tokenization_spaces": Harmless(FORM, True),
    "skip_special_tokens": Harmless(FORM, False),
    "prefix": Applied("a cat"),
    "handle_long_generation": Refused("hole"),
    "stop_sequence": Harmless("in a test of its own, as it needs a tokenizer whose words end"),
    "truncation": Harmless("a prompt that is longer than the model reads is an error", True),
    "max_length": Applied(8, {"max_new_tokens": None}),
    "continue_final_message": Applied(False, given=BEGUN),
    "tokenizer_encode_kwargs": Applied({"shout": False}, given=CHAT),
    "tools": Applied([TOOL], given=CHAT),
    "documents": Applied([{"title": "a cat", "text": "the mat"}], given=CHAT),
}

CHAT_TEMPLATE = (
    "{% if tools %}{{ tools[0].function.name }} {% endif %}{% for d in documents or [] %}{{ d.title }} {% endfor %}"
    "{% if shout is not defined or shout %}bad awful {% endif %}" + tiny.CHAT_TEMPLATE
)


def first_label(pipeline: Any, given: Any) -> tuple[str, float]:
    answer = pipeline(given)
    while isinstance(answer, list):
        answer = answer[0]
    return answer["label"], answer["score"]


def explained_label(pipeline: Any, given: Any) -> tuple[str, float]:
    prediction = Explainer(pipeline)(given, method=METHOD).prediction
    shows_logits = str(getattr(pipeline._postprocess_params.get("function_to_apply"), "value", "")) == "none"
    return prediction.label, prediction.value if shows_logits else prediction.probability


def tags(pipeline: Any, given: Any) -> list[tuple[str, float]]:
    shown = pipeline(given, ignore_labels=[])
    return [(row.get("entity") or row["entity_group"], float(row["score"])) for row in shown]


def explained_tags(pipeline: Any, given: Any) -> list[tuple[str, float]]:
    a = Explainer(pipeline)(given, method=METHOD)
    count = len(a.tokens) - 2  # without [CLS] and [SEP]; every token of this text is a word
    places = [Explainer(pipeline)(given, method=METHOD, position=place).prediction for place in range(1, count + 1)]
    return [(prediction.label, prediction.probability) for prediction in places]


def filled(pipeline: Any, given: Any) -> tuple[str, float]:
    best = pipeline(given)[0]
    return best["token_str"].strip(), best["score"]


def explained_filling(pipeline: Any, given: Any) -> tuple[str, float]:
    prediction = Explainer(pipeline)(given, method=METHOD).prediction
    return prediction.label.strip(), prediction.probability


def written(pipeline: Any, given: Any) -> list[int]:
    (row,) = pipeline(given, return_tensors=True)
    return row["generated_token_ids"]


def explained_writing(pipeline: Any, given: Any) -> list[int]:
    return list(Explainer(pipeline).generate(given, method=METHOD).token_ids)


def writer(**settings: Any) -> Any:
    settings = {"do_sample": False, "max_new_tokens": 4, **settings}
    made = {name: value for name, value in settings.items() if value is not None}
    pipeline = of_texts("text-generation", "gpt2", "CausalLM", **made)
    pipeline.tokenizer.chat_template = CHAT_TEMPLATE
    return pipeline


def maker(task: str, kind: str) -> Callable[..., Any]:
    return lambda **settings: of_texts(task, "bert", kind, **settings)


KINDS = {
    "text-classification": Kind(
        maker("text-classification", "SequenceClassification"),
        OF_CLASSIFIERS,
        first_label,
        explained_label,
        PAIR,
        PreTrainedTokenizerBase.__call__,
    ),
    "token-classification": Kind(
        maker("token-classification", "TokenClassification"), OF_TAGGERS, tags, explained_tags, TEXT
    ),
    "fill-mask": Kind(maker("fill-mask", "MaskedLM"), OF_FILLERS, filled, explained_filling, "the movie is [MASK] ."),
    "text-generation": Kind(writer, OF_WRITERS, written, explained_writing, TEXT),
}


@pytest.mark.parametrize("task", KINDS)
def test_every_setting_is_decided(task) -> None:
    check_all_decided(KINDS[task])


@pytest.mark.parametrize(("task", "name"), of(KINDS, Applied))
def test_a_setting_that_changes_the_answer_changes_what_is_explained(task, name) -> None:
    check_applied(KINDS[task], name)


@pytest.mark.parametrize(("task", "name"), of(KINDS, Harmless))
def test_other_settings_change_nothing(task, name) -> None:
    check_harmless(KINDS[task], name)


@pytest.mark.parametrize(("task", "name"), of(KINDS, Refused))
def test_a_setting_that_is_not_applied_is_refused_by_its_name(task, name) -> None:
    check_refused(KINDS[task], name)


def test_a_length_does_not_count_the_prefix() -> None:
    pipeline = writer(prefix="a cat", max_length=9, max_new_tokens=None)
    assert written(pipeline, TEXT) == explained_writing(pipeline, TEXT)


def test_a_length_of_a_call_does_not_count_the_prefix() -> None:
    settings = {"max_length": 10, "method": METHOD}
    called = writer(prefix="a cat", max_new_tokens=None)
    try:
        (row,) = called(TEXT, return_tensors=True, max_length=10)
    except IndexError:  # of a table of positions that is too short for as many tokens as by default
        pytest.skip("pipelines of this version of transformers do not apply the max_length of a call")
    assert row["generated_token_ids"] == list(Explainer(called).generate(TEXT, **settings).token_ids)


@needs("pipelines that take tokenizer_encode_kwargs=")
def test_a_prompt_that_the_pipeline_truncates_is_refused() -> None:
    pipeline = writer(tokenizer_encode_kwargs={"max_length": 4}, max_new_tokens=3)
    assert len(written(pipeline, TEXT)) == 7  # four tokens of the prompt
    with pytest.raises(InputError, match="max_length=4"):
        explained_writing(pipeline, TEXT)
    assert written(pipeline, "a cat") == explained_writing(pipeline, "a cat")


def test_defaults_of_a_pipeline_are_its_answer_but_for_sampling() -> None:
    pipeline = of_texts("text-generation", "gpt2", "CausalLM")
    g = Explainer(pipeline).generate(TEXT, method=METHOD)
    if "pipelines that sample by default" not in LACKING:
        assert any("greedily" in note for note in g.notes)
    (row,) = pipeline(TEXT, return_tensors=True, do_sample=False, max_new_tokens=35)
    assert list(g.token_ids) == row["generated_token_ids"]  # as many as the model reads, as 256 are asked for


@pytest.mark.filterwarnings("ignore:.*max_length:UserWarning")
def test_max_length_truncates_where_the_tokenizer_does() -> None:
    for settings in ({"padding": True}, {"padding": "max_length"}, {"truncation": False}):
        pipeline = KINDS["text-classification"].build(max_length=6, **settings)
        assert is_close(first_label(pipeline, PAIR), explained_label(pipeline, PAIR))


def test_padding_on_the_left_is_refused_where_it_moves_the_text() -> None:
    for side in ("left", "right"):
        pipeline = of_texts("text-classification", "gpt2", "SequenceClassification", padding="max_length")
        pipeline.tokenizer.padding_side = side
        if side == "left":
            with pytest.raises(InputError, match="padding="):
                Explainer(pipeline)
        else:
            assert is_close(first_label(pipeline, TEXT), explained_label(pipeline, TEXT))


def test_a_language_model_that_chooses_among_what_is_heard_is_refused() -> None:
    pipeline = KINDS["fill-mask"].build()
    pipeline.decoder = object()
    with pytest.raises(UnsupportedModelError, match="decoder="):
        Explainer(pipeline)


@needs("pipelines that take tools=")
def test_tools_that_a_template_does_not_write_are_said_to_be_unread() -> None:
    pipeline = writer(tools=[TOOL])
    assert not any("tools=" in note for note in Explainer(pipeline).generate(CHAT, method=METHOD).notes)
    pipeline.tokenizer.chat_template = tiny.CHAT_TEMPLATE
    assert any("tools=" in note for note in Explainer(pipeline).generate(CHAT, method=METHOD).notes)
