"""The calls that a user makes, on one shrunk model of a class: what each gives, refuses, or fails with.

Every outcome is "yes", "refused: ..." for an error that the library raises on purpose, "fails: ..." where the model's
own call fails too, or "error: ..." for everything that must not happen: another exception, or numbers that do not
agree.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from normxlogit import ALL, Explainer
from normxlogit.errors import NormXLogitError
from normxlogit.methods import list_methods
from normxlogit.tasks.language import CausalLM
from tests.frozen.leaves import contributions_of_leaves
from tools.survey.base import MEDIA, SIGNALS, CheckError, build, stir, tokenizer_for
from tools.survey.checks import check
from tools.survey.media_calls import calls_for
from tools.survey.outcomes import Call, adds_up, attempt, line_of, same
from tools.survey.signals import samples_for, unread

TEXTS = ["the movie is never bad , but the plot was awful !", "a great film"]
INPUTS: dict[str, list[Any]] = {
    "masked-lm": ["the movie is never [MASK] , but the plot was awful !", "a [MASK] film"],
    "question-answering": [("is it bad ?", TEXTS[0]), ("a cat ?", "the cat sat")],
    "multiple-choice": [("is it bad ?", [TEXTS[0], "a film with charm"]), ("a cat", ["sat here", "is not bad"])],
}
COMPLETIONS = ["with charm and wit", "was bad"]
NEW_TOKENS = 3
SMALLER = {
    "integrated-gradients": "integrated-gradients:steps=3",
    "lime": "lime:samples=12",
    "context-cite": "context-cite:samples=12",
    "kernel-shap": "kernel-shap:samples=12",
}
"""Methods with fewer passes than by default."""

WITHOUT_LEAVES = ("canine", "perceiver", "reformer", "xglm")
"""Models that look no words up, refuse gradients, or compute constants that are not parameters."""

LAYERED = ("normxlogit", "frozen-gradient")
DEFAULT = "default"
METHODS = (DEFAULT, *(info.name for info in list_methods()), "normxlogit:norm_of=word_embedding")
"""The methods of `explainer(text, method=...)`; the default one is that of `explainer(text)`."""


def call_all(task: str, family: str, only: Sequence[str] = ()) -> dict[str, Any]:
    """Make every call on a model of a class.

    Args:
        task: The mapping.
        family: The model type.
        only: Make these calls alone, and no checks of the head.

    Returns:
        The class, what `check` says of its parts, and the outcome of each call by its name.
    """
    if task in MEDIA:
        return _media(task, family, only)
    try:
        model = build(task, family)
    except Exception as error:  # such as a package that is not installed
        return {"head": f"fails: {line_of(error)}", "calls": {}}
    facts: dict[str, Any] = {"class": type(model).__name__, "calls": {}}
    try:
        calls: Any = SignalCalls(model) if task in SIGNALS else TextCalls(model, tokenizer_for(task, family))
    except NormXLogitError as error:
        return facts | {"head": f"refused: {line_of(error)}"}
    if not only:
        facts["head"] = attempt(lambda: facts.update(check(task, family)), calls.answers)
    stir(model, facts.get("strength", 2.0))
    facts["calls"] = {
        name: attempt(call, own) for name, (call, own) in calls.each().items() if not only or name in only
    }
    return facts


def _media(task: str, family: str, only: Sequence[str]) -> dict[str, Any]:
    """Make every call on a model that reads pictures or sounds beside text, or compares pictures with texts."""
    try:
        calls = calls_for(task, family)
        calls.answers()
    except NormXLogitError as error:
        return {"head": f"refused: {line_of(error)}", "calls": {}}
    except Exception as error:  # such as a package that is not installed, or a processor for a model of another size
        return {"head": f"fails: {line_of(error)}", "calls": {}}
    chosen = {name: call for name, call in calls.each().items() if not only or name in only}
    outcomes = {name: attempt(call, own) for name, (call, own) in chosen.items()}
    return {"class": type(calls.model).__name__, "head": "yes", "calls": outcomes}


class TextCalls:
    """The calls on a model of text.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model: Any = model
        self.tokenizer = tokenizer
        self.explainer = Explainer(model, tokenizer)
        self.task = self.explainer.task_model.task.name  # XLM's language model is in two mappings
        self.inputs = INPUTS.get(self.task, TEXTS)

    def each(self) -> dict[str, tuple[Call, Call]]:
        """Return the calls by name, each with the model's own call of its kind."""
        found: dict[str, tuple[Call, Call]] = {n: (functools.partial(self.explains, n), self.answers) for n in METHODS}
        for name in LAYERED:
            found[f"{name}, layers"] = functools.partial(self.layers, name), self.answers
        if isinstance(self.explainer.task_model.task, CausalLM):  # those that read pictures, too
            found["generate"] = self.generates, self.generates_alone
            found["completion"] = self.completes, self.answers
            found["sources"] = self.sources, self.answers
        return found

    def logits(self, given: Any) -> Tensor:
        """Return the caller's own model's logits, without the axis of texts: (C,), (T, C) or (T, 2)."""
        if self.task == "multiple-choice":
            prompt, choices = given  # each by itself: some models see padding
            each = [self.tokenizer(prompt, choice, return_tensors="pt") for choice in choices]
            with torch.no_grad():
                return torch.cat([self.model(**{n: v[None] for n, v in e.items()}).logits[0] for e in each])
        elif isinstance(given, tuple):
            encoded = self.tokenizer(*given, return_tensors="pt")
        else:
            encoded = self.tokenizer(given, return_tensors="pt")
        with torch.no_grad():
            output = self.model(**encoded)
        if output.get("start_logits") is not None:
            return torch.stack((output["start_logits"], output["end_logits"]), -1)[0]
        return output["logits"][0]

    def answers(self) -> None:
        """Call the model on each text."""
        for given in self.inputs:
            self.logits(given)

    def logit(self, given: Any, result: Any) -> float:
        """Return the caller's own model's logit of what a result explains, minus the mean over a vocabulary."""
        logits, target = self.logits(given), result.target
        logits = logits if target.position is None else logits[target.position]
        if self.explainer.task_model.task.outputs.vocabulary:
            logits = logits - logits.mean()
        return float(logits[target.id])

    def explains(self, name: str) -> None:
        """Explain texts of different lengths alone and in a batch, and compare with the model's own logits."""
        method = None if name == DEFAULT else SMALLER.get(name, name)
        alone = [self.explainer(given, method=method) for given in self.inputs]
        for given, result in zip(self.inputs, alone, strict=True):
            if len(result.scores) != len(result.tokens):
                raise CheckError(f"{result.scores.shape} scores for {len(result.tokens)} tokens")
            if self.task != "question-answering":
                logits, place = self.logits(given), result.target.position
                same(result.prediction.value, (logits if place is None else logits[place]).max(), "the predicted logit")
            if result.method == "frozen-gradient" and self._reads_one_target(result):
                adds_up(result, self.logit(given, result), "scores and bias")
                if name == "frozen-gradient" and isinstance(given, str):
                    self.leaves_add_up(given, result)
            if name == "decompx" and self._reads_one_target(result):  # it shares the biases out
                logit = self.logit(given, result)
                same(result.scores.sum(), logit, "the sum of the scores", float(np.abs(result.scores).sum()))
        for result, single in zip(self.explainer(self.inputs, method=method), alone, strict=True):
            same(result.scores, single.scores, "in a batch and alone")

    def leaves_add_up(self, text: str, result: Any) -> None:
        """Compare the model's logit with what all its leaves contribute, by the rules alone: nothing is a difference.

        Raises:
            CheckError: If they differ.
        """
        if self.model.config.model_type in WITHOUT_LEAVES:
            return
        target = result.target

        def answer_of(output: Any) -> Tensor:
            logits = output["logits"][0]
            return logits[target.id] if target.position is None else logits[target.position, target.id]

        inputs = dict(self.tokenizer(text, return_tensors="pt"))
        if isinstance(self.explainer.task_model.task, CausalLM):
            inputs["use_cache"] = False
        answer, shares = contributions_of_leaves(self.model, inputs, answer_of)
        same(sum(shares.values()), answer, "what all leaves contribute", max(1.0, sum(map(abs, shares.values()))))

    def _reads_one_target(self, result: Any) -> bool:
        return self.task != "question-answering" or result.target.position is not None

    def layers(self, name: str) -> None:
        """Explain every layer; NormXLogit's last one is what it gives without layers."""
        alone = [self.explainer(given, method=name, layers=ALL) for given in self.inputs]
        for given, result in zip(self.inputs, alone, strict=True):
            if result.scores.shape != (len(result.layers), len(result.tokens)):
                raise CheckError(f"{result.scores.shape} scores of {len(result.layers)} layers")
            if name == "normxlogit":
                same(result.scores[-1], self.explainer(given, method=name).scores, "the last layer and no layers")
            elif self._reads_one_target(result):
                adds_up(result, [self.logit(given, result)] * len(result.layers), "scores and bias of a layer")
        for result, single in zip(self.explainer(self.inputs, method=name, layers=ALL), alone, strict=True):
            same(result.scores, single.scores, "layers in a batch and alone")

    def generates_alone(self) -> list[list[int]]:
        """Return the tokens that the model's own `generate` gives each text."""
        found = []
        for text in self.inputs:
            encoded = self.tokenizer(text, return_tensors="pt")
            with torch.no_grad():
                ids = self.model.generate(**encoded, max_new_tokens=NEW_TOKENS, do_sample=False)
            found.append(ids[0].tolist())
        return found

    def generates(self) -> None:
        """Generate, alone and together, the tokens of the model's own `generate`."""
        single = [self.explainer.generate(text, max_new_tokens=NEW_TOKENS) for text in self.inputs]
        several = self.explainer.generate(self.inputs, max_new_tokens=NEW_TOKENS)
        for ids, alone, result in zip(self.generates_alone(), single, several, strict=True):
            if list(alone.token_ids) != ids:
                raise CheckError(f"generated {list(alone.token_ids)}, the model's own generate {ids}")
            if alone.token_ids != result.token_ids:
                raise CheckError(f"generated {result.token_ids} in a batch and {alone.token_ids} alone")
            same(result.scores, alone.scores, "generated in a batch and alone")

    def _centred(self, text: str, completion: str) -> Tensor:
        """Return the model's own logit of each token of a completion, minus the mean over the vocabulary, (G,).

        Each is read where the text ends before it: some models in this mapping read ahead.
        """
        count = len(self.tokenizer(text)["input_ids"])
        encoded = self.tokenizer(f"{text} {completion}", return_tensors="pt")
        found = []
        for place in range(count, encoded["input_ids"].shape[1]):
            with torch.no_grad():
                logits = self.model(**{name: value[:, :place] for name, value in encoded.items()}).logits[0, -1]  # (V,)
            found.append(logits[encoded["input_ids"][0, place]] - logits.mean())
        return torch.stack(found)

    def completes(self) -> None:
        """Explain completions, alone and together; scores and bias are the model's own centred logits."""
        pairs = list(zip(self.inputs, COMPLETIONS, strict=True))
        single = [self.explainer.explain_completion(text, f" {after}") for text, after in pairs]
        several = self.explainer.explain_completion(self.inputs, [f" {after}" for after in COMPLETIONS])
        for (text, after), alone, result in zip(pairs, single, several, strict=True):
            adds_up(alone, self._centred(text, after), "scores and bias of a generated token")
            same(result.scores, alone.scores, "completions in a batch and alone")

    def sources(self) -> None:
        """Explain which words of a prompt a completion rests on; everything adds up to the sum of its logits."""
        text, completion = self.inputs[0], COMPLETIONS[0]
        found = self.explainer.explain_completion(text, f" {completion}", sources="word")
        whole = [self._centred(text, completion).sum()]
        adds_up(found, whole, "scores and bias of sources", found.scores)


class SignalCalls:
    """The calls on a classifier of pictures or sounds, given what a processor would make of them.

    Args:
        model: The model.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model: Any = model
        self.explainer = Explainer(model, unread)
        self.values = samples_for(model)

    def each(self) -> dict[str, tuple[Call, Call]]:
        """Return the calls by name, each with the model's own call of its kind."""
        found: dict[str, tuple[Call, Call]] = {n: (functools.partial(self.explains, n), self.answers) for n in METHODS}
        for name in LAYERED:
            found[f"{name}, layers"] = functools.partial(self.layers, name), self.answers
        return found

    def logits(self) -> Tensor:
        """Return the model's own logits, (2, C)."""
        with torch.no_grad():
            return self.model(**{self.model.main_input_name: self.values}).logits

    def answers(self) -> None:
        """Call the model on both inputs."""
        self.logits()

    def _given(self, rows: slice) -> dict[str, Tensor]:
        return {self.model.main_input_name: self.values[rows]}

    def _explained(self, method: str | None, **options: Any) -> list[Any]:
        alone = [self.explainer(self._given(slice(i, i + 1)), method=method, **options)[0] for i in range(2)]
        together = self.explainer(self._given(slice(0, 2)), method=method, **options)
        for result, single in zip(together, alone, strict=True):
            same(result.scores, single.scores, "in a batch and alone")
        return alone

    def explains(self, name: str) -> None:
        """Explain two inputs, alone and together."""
        method = None if name == DEFAULT else SMALLER.get(name, name)
        for own, result in zip(self.logits(), self._explained(method), strict=True):
            same(result.prediction.value, own.max(), "the predicted logit")
            if result.method == "frozen-gradient":
                adds_up(result, own[result.target.id], "scores and bias")

    def layers(self, name: str) -> None:
        """Explain every layer; NormXLogit's last one is what it gives without layers."""
        for i, result in enumerate(self._explained(name, layers=ALL)):
            if name == "normxlogit":
                default = self.explainer(self._given(slice(i, i + 1)), method=name)[0]
                same(result.scores[-1], default.scores, "the last layer and no layers")
            else:
                logit = self.logits()[i, result.target.id]
                adds_up(result, [logit] * len(result.layers), "scores and bias of a layer")
