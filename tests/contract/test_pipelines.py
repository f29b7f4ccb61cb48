"""Every kind of pipeline in transformers: its own answer is the one that is explained, or it is refused in a line."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import transformers
from transformers.pipelines import SUPPORTED_TASKS

from normxlogit import Explainer, InputError, NormXLogitError, UnsupportedModelError
from tests import tiny
from tests.abilities import needs
from tests.contract.compare import refused

TEXT = "the movie is not good"
LONG = "the movie is not good " * 12
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}


def pipeline_of(task: str, model: Any, **settings: Any) -> Any:
    """Build a pipeline from a model and what reads its inputs."""
    kind = SUPPORTED_TASKS[task]["impl"]
    if isinstance(kind, str):
        module, _, name = kind.rpartition(".")
        kind = getattr(importlib.import_module(module), name)
    return kind(model=model.eval(), task=task, device=-1, **settings)


def of_texts(task: str, family: str, kind: str, **settings: Any) -> Any:
    options = {"num_labels": 3} if kind.endswith("Classification") else {}
    return pipeline_of(task, tiny.model(family, kind, **options), tokenizer=tiny.tokenizer_for(family), **settings)


def same_label(pipeline: Any, given: Any) -> None:
    """Compare the prediction with the pipeline's first answer."""
    answer = pipeline(given)
    while isinstance(answer, list):
        answer = answer[0]
    prediction = Explainer(pipeline)(given).prediction
    assert prediction.label == answer["label"]
    none = str(getattr(pipeline._postprocess_params.get("function_to_apply"), "value", "")) == "none"
    assert (prediction.value if none else prediction.probability) == pytest.approx(answer["score"], abs=1e-5)


def same_continuation(pipeline: Any, prompt: Any, **settings: Any) -> None:
    """Compare what is generated with what the pipeline writes."""
    (row,) = pipeline(prompt, return_tensors=True, **settings)
    assert list(Explainer(pipeline).generate(prompt, **settings).token_ids) == row["generated_token_ids"]


def pipeline_refused(pipeline: Any, reason: str) -> None:
    """Check that a pipeline is refused in a line."""
    with pytest.raises(NormXLogitError, match=reason) as refusal:
        Explainer(pipeline)
    assert isinstance(refusal.value, UnsupportedModelError)
    assert "\n" not in str(refusal.value)


def skip_where_lacking(task: str) -> None:
    """Skip the test of a kind of pipeline that only older or only newer versions have."""
    if task not in SUPPORTED_TASKS:
        pytest.skip(f"this version of transformers has no pipeline for {task}")


def classified(**settings: Any) -> Any:
    return of_texts("text-classification", "bert", "SequenceClassification", **settings)


def tagged(**settings: Any) -> Any:
    return of_texts("token-classification", "bert", "TokenClassification", **settings)


def written(**settings: Any) -> Any:
    return of_texts("text-generation", "gpt2", "CausalLM", **{"do_sample": False, "max_new_tokens": 4} | settings)


def test_text_classification() -> None:
    function = "function_to_apply"
    applied = [{}, *({function: name} for name in ("sigmoid", "softmax", "none"))]
    cut = {"truncation": True, "max_length": 8}
    for settings in (*applied, cut, {"add_special_tokens": False}, {"padding": True, "top_k": 1}):
        for given in (TEXT, {"text": TEXT, "text_pair": "a cat"}):
            same_label(classified(**settings), given)
    reranker = tiny.model("bert", num_labels=1)
    for settings in ({}, {function: "none"}, {function: "sigmoid"}):
        pipeline = pipeline_of("text-classification", reranker, tokenizer=tiny.tokenizer_for("bert"), **settings)
        same_label(pipeline, {"text": TEXT, "text_pair": "a cat"})
    same_label(classified(truncation=True, max_length=8), LONG)
    same_label(classified(truncation=True), LONG)


def test_token_classification() -> None:
    pipeline = tagged(ignore_labels=[])
    a = Explainer(pipeline)(TEXT, position=2)
    answer = next(row for row in pipeline(TEXT) if row["index"] == 2)
    assert (a.prediction.label, a.tokens[2]) == (answer["entity"], answer["word"])
    assert a.prediction.probability == pytest.approx(float(answer["score"]), abs=1e-5)


def test_fill_mask() -> None:
    text = "the movie is [MASK] ."
    for settings in ({}, {"tokenizer_kwargs": {"truncation": True}}):
        pipeline = of_texts("fill-mask", "bert", "MaskedLM", **settings)
        answer, a = pipeline(text)[0], Explainer(pipeline)(text)
        assert a.prediction.label.strip() == answer["token_str"].strip()
        assert a.prediction.probability == pytest.approx(answer["score"], abs=1e-5)


def test_text_generation() -> None:
    for settings in ({}, {"prefix": "a cat"}, {"num_beams": 3}, {"repetition_penalty": 1.5}):
        same_continuation(written(**settings), TEXT)
    same_continuation(written(max_new_tokens=None, max_length=9), TEXT)
    same_continuation(written(add_special_tokens=False), TEXT)


@needs("pipelines that take tools=")
def test_tools_of_text_generation() -> None:
    pipeline = written()
    tool = {"type": "function", "function": {"name": "cat", "parameters": {}}}
    pipeline.tokenizer.chat_template = "{% if tools %}{{ tools[0].function.name }} {% endif %}" + tiny.CHAT_TEMPLATE
    same_continuation(pipeline, [{"role": "user", "content": TEXT}])
    settings = {"tokenizer": pipeline.tokenizer, "tools": [tool], "do_sample": False, "max_new_tokens": 3}
    piped = pipeline_of("text-generation", pipeline.model, **settings)
    result = Explainer(piped).generate([{"role": "user", "content": TEXT}])
    assert result.prompt.startswith("cat ")


EXPLAINED = {"text-classification", "token-classification", "fill-mask", "text-generation"}


def untrained(kind: str, config: str, **sizes: Any) -> Callable[[], Any]:
    return lambda: getattr(transformers, kind)(getattr(transformers, config)(**sizes))


WORDS, MORE = SMALL | {"vocab_size": 64}, "more than a text"
REFUSED: Mapping[str, tuple[Callable[[], Any], str]] = {
    "feature-extraction": (untrained("BertModel", "BertConfig", **WORDS), "bare encoder: it has no head"),
    "document-question-answering": (untrained("LayoutLMForQuestionAnswering", "LayoutLMConfig", **WORDS), MORE),
    "table-question-answering": (untrained("TapasForQuestionAnswering", "TapasConfig", **WORDS), MORE),
    "question-answering": (lambda: tiny.model("bert", "QuestionAnswering"), MORE),
    "summarization": (lambda: tiny.model("t5", "Seq2SeqLM"), MORE),
    "text2text-generation": (lambda: tiny.model("t5", "Seq2SeqLM"), MORE),
    "translation": (lambda: tiny.model("t5", "Seq2SeqLM"), MORE),
    "decision": (lambda: tiny.model("gpt2", "CausalLM"), MORE),
}


@pytest.mark.parametrize("task", REFUSED)
def test_pipelines_of_other_kinds_are_refused_in_a_line(task) -> None:
    skip_where_lacking(task)
    build, reason = REFUSED[task]
    pipeline_refused(pipeline_of(task, build(), tokenizer=tiny.tokenizer_for("bert")), reason)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: of_texts("fill-mask", "bert", "MaskedLM", targets=["cat"]), "targets="),
        (lambda: tagged(stride=2, aggregation_strategy="simple"), "stride="),
        (lambda: classified(truncation="only_first"), "truncation="),
        (lambda: written(handle_long_generation="hole"), "handle_long_generation="),
    ],
)
def test_a_setting_with_which_the_answer_is_another_is_refused_by_its_name(build, name) -> None:
    refused(InputError, name, lambda: Explainer(build()))
