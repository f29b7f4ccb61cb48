"""Whether the frozen network is exact and affine on a clone of a model, also of classes whose head is not found."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from normxlogit import Explainer
from normxlogit.errors import UnsupportedModelError
from normxlogit.models.embeddings import WordEmbeddings
from normxlogit.surgery.clone import clone, one_choice_each
from normxlogit.surgery.frozen import FrozenNetwork, Report
from normxlogit.surgery.headpiece import answer_of
from normxlogit.surgery.run import Replace
from normxlogit.surgery.run import run as run_copy
from tests.architectures.base import SIGNALS, TOLERANCE, Broken, build, stir, tokenizer_for
from tests.architectures.signals import samples_for

TEXT = "the movie is never bad , but the plot was awful and the wit mediocre !"


def check(task: str, family: str, attention: str = "eager") -> dict[str, Any]:
    """Build a model of a family, freeze it on one input, and prove it.

    Args:
        task: The mapping.
        family: The model type.
        attention: The attention that the model is given, where it has it.

    Returns:
        The class, and what was held.

    Raises:
        Broken: If the frozen network is not exact or not affine.
    """
    model = build(task, family)
    stir(model, 2.0)
    with suppress(ValueError, KeyError, AttributeError, NotImplementedError):  # it has one of its own only
        model.set_attn_implementation(attention)
    shadow: Any = clone(model)
    inputs, values = _input(task, family, model, shadow)
    with torch.no_grad():
        own = _answer(shadow, inputs | ({} if values is None else {model.main_input_name: values}))
    entry = None if values is not None else _entry(shadow, inputs)
    values = entry.values if entry is not None else values
    leaf = values.detach().clone().requires_grad_()
    network = FrozenNetwork(shadow)

    def run() -> tuple[Tensor, Tensor]:
        flowing = leaf.clone()  # some models work on what they are given in place
        if entry is None:
            return _answer(network.model, inputs | {model.main_input_name: flowing}), leaf
        with entry.replaced(flowing) as replace:
            return _answer(network.model, inputs, replace), leaf

    def attempt(report: Report) -> tuple[Tensor, list[Tensor]]:
        with network.frozen(report):
            answer, _ = run()
        return answer, [leaf]

    try:
        report = network.prove(attempt, own, TOLERANCE * max(1.0, own[own.abs() < 1e4].abs().max().item()))
    except UnsupportedModelError as error:
        raise Broken(str(error)) from error
    with network.frozen():
        answer, _ = run()
    (slope,) = torch.autograd.grad(answer.flatten()[answer.masked_fill(answer > 1e4, 0.0).argmax()], leaf)
    if not slope.isfinite().all():
        raise Broken("the slope is not finite")
    if not slope.any():  # unless nothing is left of the picture in the random model's own answer
        own, _ = run()
        if torch.autograd.grad(own.sum(), leaf)[0].any():
            raise Broken("the slope is zero")
    if any(parameter.grad is not None for parameter in model.parameters()):
        raise Broken("weights were given a gradient")
    return {"class": type(model).__name__, "held": {f"{f}: {h}": n for (f, h), n in report.held.items()}}


def _input(task: str, family: str, model: Any, shadow: nn.Module) -> tuple[dict[str, Any], Tensor | None]:
    """What a model is called with; and what flows, None for the word embeddings."""
    if task in SIGNALS:
        values = samples_for(model)[:1]
        return {}, values
    text: Any = TEXT.replace("bad", "[MASK]") if task == "masked-lm" else TEXT
    if task in ("question-answering", "multiple-choice"):
        text = ("is it bad ?", TEXT)
    if task == "multiple-choice":
        one_choice_each(shadow)
    explainer = Explainer(model, tokenizer_for(task, family))
    found = dict(explainer._model.batch(explainer._model.encoder([text]), [0]).inputs)
    vars(shadow)["config"] = explainer.model.config  # which knows what padding is
    return found, None


class _Embeddings:
    """The word embeddings of one text, put in the library's own way."""

    def __init__(self, words: WordEmbeddings, ids: Tensor) -> None:
        self.words, self.ids, self.values = words, ids, words(ids)  # (1, T, H)

    def replaced(self, vectors: Tensor) -> Any:
        return self.words.replaced(vectors, self.ids)


class _FirstVectors:
    """The first vectors that a model makes of its token ids, where they are not looked up once in one table."""

    def __init__(self, model: nn.Module, inputs: dict[str, Any]) -> None:
        self.placed: Tensor | None = None
        self.values: Any = None
        self.waiting = True
        leaves = [path for path, module in model.named_modules() if not any(True for _ in module.children())]
        self.replace: dict[str, Replace] = dict.fromkeys(leaves, self._swap)
        run_copy(model, inputs, replace=self.replace)

    def _swap(self, output: Any, args: Any, kwargs: Any) -> Any:
        found = output[0] if isinstance(output, tuple) else output
        fits = isinstance(found, Tensor) and found.ndim == 3 and found.is_floating_point() and found.shape[1] > 1
        if not self.waiting or not fits:
            return None
        self.waiting = False
        if self.placed is None:
            self.values = found
            return None
        return (self.placed, *output[1:]) if isinstance(output, tuple) else self.placed

    @contextmanager
    def replaced(self, vectors: Tensor) -> Iterator[dict[str, Replace]]:
        self.placed, self.waiting = vectors, True
        yield self.replace
        self.placed = None


def _entry(shadow: Any, inputs: dict[str, Any]) -> _Embeddings | _FirstVectors:
    with torch.no_grad():
        try:
            entry = _Embeddings(WordEmbeddings(shadow), inputs["input_ids"])
            with entry.replaced(entry.values.clone()) as replace:
                run_copy(shadow, inputs, replace=replace)
        except (UnsupportedModelError, AttributeError, TypeError):
            return _FirstVectors(shadow, inputs)
        return entry


def _answer(model: nn.Module, inputs: dict[str, Any], replace: dict[str, Replace] | None = None) -> Tensor:
    logits = answer_of(run_copy(model, inputs, replace=replace).output)
    if logits is None:
        raise Broken("the model gives no logits")
    return logits.float()
