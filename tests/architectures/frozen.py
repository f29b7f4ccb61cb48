"""Whether the frozen backward pass conserves the answer of a clone of a model, also where no head is found."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from normxlogit import Explainer
from normxlogit.copies.clone import accept_single_choices, clone
from normxlogit.copies.run import Replace
from normxlogit.copies.run import run as run_copy
from normxlogit.errors import UnsupportedModelError
from normxlogit.frozen.conservation import Balance, constants_as_leaves, prove_conservation
from normxlogit.frozen.differentiable import differentiable, with_constant_weights
from normxlogit.frozen.readout import read_out
from normxlogit.parts.embeddings import WordEmbeddings
from normxlogit.parts.headpiece import answer_of
from tests.architectures.base import SIGNALS, TOLERANCE, Broken, build, stir, tokenizer_for
from tests.architectures.signals import samples_for

TEXT = "the movie is never bad , but the plot was awful and the wit mediocre !"


def check(task: str, family: str, attention: str = "eager") -> dict[str, Any]:
    """Build a model of a family, and prove its frozen backward pass on one input.

    Args:
        task: The mapping.
        family: The model type.
        attention: The attention that the model is given, where it has it.

    Returns:
        The class, and what its modules contribute to the bias.

    Raises:
        Broken: If contributions do not add up to the model's answer.
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
    leaf = values
    with_constant_weights(shadow)

    def run() -> Tensor:
        flowing = leaf.clone()  # some models work on what they are given in place
        if entry is None:
            return _answer(shadow, inputs | {model.main_input_name: flowing})
        with entry.replaced(flowing) as replace:
            return _answer(shadow, inputs, replace)

    def conserved(careful: bool) -> tuple[Tensor, Balance]:
        with constants_as_leaves(shadow) as constants, differentiable(shadow, careful=careful):
            reading, readout = read_out(values.detach()[None], (0, 1, *range(2, values.ndim + 1)))
            nonlocal leaf
            leaf = reading[0]
            answer = run()
        return answer, prove_conservation(type(model).__name__, answer, [readout.leaf], constants, torch.float32)

    try:
        try:
            answer, sums = conserved(careful=False)
        except Exception:  # it writes on what its backward pass needs, or has autograd functions of its own
            answer, sums = conserved(careful=True)
    except UnsupportedModelError as error:
        raise Broken(str(error)) from error
    if not torch.allclose(answer, own, atol=TOLERANCE * max(1.0, own[own.abs() < 1e4].abs().max().item())):
        raise Broken("another answer")
    if not sums.size:
        raise Broken("nothing contributes")
    if any(parameter.grad is not None for parameter in model.parameters()):
        raise Broken("weights were given a gradient")
    return {"class": type(model).__name__, "bias": dict(sums.bias)}


def _input(task: str, family: str, model: Any, shadow: nn.Module) -> tuple[dict[str, Any], Tensor | None]:
    """What a model is called with; and what flows, None for the word embeddings."""
    if task in SIGNALS:
        values = samples_for(model)[:1]
        return {}, values
    text: Any = TEXT.replace("bad", "[MASK]") if task == "masked-lm" else TEXT
    if task in ("question-answering", "multiple-choice"):
        text = ("is it bad ?", TEXT)
    if task == "multiple-choice":
        accept_single_choices(shadow)
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
