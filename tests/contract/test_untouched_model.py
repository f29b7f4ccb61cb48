"""The caller's model and tokenizer stay as they were, also after an exception, and are explained as they are now."""

import contextlib

import pytest
import torch

from normxlogit import ALL, Explainer, MethodError, NormXLogitError, TargetError
from tests import tiny

from .compare import close, every_method, present
from .faults import AtOperation
from .untouched import nothing_left_behind


def training(family, kind="SequenceClassification"):
    """Return a model that is being trained, with one frozen weight, a gradient, a hook, and its tokenizer."""
    model, tokenizer = tiny.model(family, kind).train(), tiny.tokenizer_for(family)
    model.get_input_embeddings().weight.requires_grad_(False)
    model.register_forward_hook(lambda *_: None)
    last = list(model.parameters())[-1]
    last.grad = torch.ones_like(last)
    tokenizer.backend_tokenizer.enable_truncation(7)
    tokenizer.backend_tokenizer.enable_padding(length=9)
    return model, tokenizer


@pytest.mark.parametrize(
    ("family", "kind"), [("bert", "SequenceClassification"), ("gpt2", "SequenceClassification"), ("llama", "CausalLM")]
)
def test_results_and_errors_leave_the_model_as_it_was(family, kind):
    model, tokenizer = training(family, kind)
    with nothing_left_behind(model, tokenizer):
        explainer = Explainer(model, tokenizer)
        explainer(tiny.TEXTS, layers=ALL)
        explainer([tiny.TEXTS[2] * 20])
        for options in ({"target": "nobody knows"}, {"layers": 99}):
            with pytest.raises((TargetError, MethodError)):
                explainer(tiny.TEXTS, **options)


@every_method
def test_every_method_leaves_the_model_as_it_was(method):
    model, tokenizer = training("bert")
    with nothing_left_behind(model, tokenizer):
        Explainer(model, tokenizer)(tiny.TEXTS, method=method)


@every_method
def test_every_method_leaves_it_as_it_was_when_the_model_fails(method):
    """The model raises in the middle of a pass: at the first, and at one of those that the method runs itself."""
    for good_passes in (0, 2):
        model, tokenizer = training("bert")
        passes = []

        def fail(*_, allowed=good_passes, seen=passes):
            seen.append(1)
            if len(seen) > allowed:
                raise ValueError("the model's own failure")

        model.bert.encoder.layer[1].register_forward_pre_hook(fail)
        with (
            nothing_left_behind(model, tokenizer),
            contextlib.suppress(NormXLogitError, ValueError),  # in what it is wrapped is looked at in test_errors.py
        ):
            Explainer(model, tokenizer)(tiny.TEXTS, method=method)
        assert passes


def test_an_operation_that_fails_leaves_the_model_as_it_was():
    model, tokenizer = training("bert")
    explainer = Explainer(model, tokenizer)
    for moment in (1, 40, 200):
        with nothing_left_behind(model, tokenizer), contextlib.suppress(NormXLogitError), AtOperation(moment):
            explainer(tiny.TEXTS, method="frozen-gradient")


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_generation_leaves_the_model_as_it_was(family):
    model, tokenizer = training(family, "CausalLM")
    tokenizer.backend_tokenizer.no_truncation()
    settings = model.generation_config.to_dict()
    with nothing_left_behind(model, tokenizer):
        explainer = Explainer(model, tokenizer)
        explainer.generate("the cat sat", max_new_tokens=2)
        explainer.generate(["the cat sat", "bad"], max_new_tokens=2, do_sample=False)
        explainer.explain_completion("the cat", " sat on the mat")
        explainer.compare("the cat sat", ["normxlogit", "frozen-gradient"])
    assert model.generation_config.to_dict() == settings


def test_sampling_takes_its_numbers_from_the_callers_random_state_alone():
    model, tokenizer = tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama")
    inputs = tokenizer("the cat sat", return_tensors="pt")
    torch.manual_seed(3)
    with torch.no_grad():
        expected = model.generate(**inputs, do_sample=True, max_new_tokens=4)
    torch.manual_seed(3)
    result = Explainer(model, tokenizer).generate("the cat sat", do_sample=True, max_new_tokens=4)
    assert list(result.token_ids) == expected[0].tolist()


def test_the_training_goes_on_as_without_an_explainer():
    """Gradients, an optimizer's step and dropout are those of a model that nobody explains."""

    def trained(explained):
        model, tokenizer = tiny.model("bert").train(), tiny.tokenizer_for("bert")
        explainer = Explainer(model, tokenizer)
        inputs = tokenizer(tiny.TEXTS, return_tensors="pt", padding=True)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        torch.manual_seed(1)
        for _ in range(3):
            model(**inputs, labels=torch.tensor([0, 1, 0])).loss.backward()
            if explained:
                for method in present("frozen-gradient", "gradient-x-input"):
                    explainer(tiny.TEXTS[:2], method=method)
            optimizer.step()
            optimizer.zero_grad()
        return model.state_dict()

    explained, plain = trained(True), trained(False)
    for name, expected in plain.items():
        torch.testing.assert_close(explained[name], expected, rtol=0, atol=0)


def test_dropout_of_a_model_in_training_mode_does_not_reach_the_scores():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    expected = Explainer(model, tokenizer)(tiny.TEXTS[0]).scores
    close(Explainer(model.train(), tokenizer)(tiny.TEXTS[0]).scores, expected)
