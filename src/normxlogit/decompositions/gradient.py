"""Gradient methods, through Captum: gradient norm, gradient x input, Integrated Gradients."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..copies.memory import out_of_memory
from ..errors import NormXLogitError, UnsupportedModelError
from ..methods.base import Baseline, Method, Request, Scores, baseline_vectors, import_package, remainder
from ..methods.registry import alternatives, register
from ..model.task_model import TaskModel
from ..tasks import Task

Aggregate = Literal["l1", "l2", "sum"]
Protocol = Literal["default", "published"]

NEEDS = "a model that is differentiable in its word embeddings"


class _AnswerToEmbeddings:
    """The explained quantity as a differentiable function of the word embeddings.

    The "published" protocol starts at the embedding layer's output and uses that instead of the word embeddings, so
    that positions and LayerNorm are applied twice, and drops the token types.
    """

    def __init__(self, request: Request, protocol: Protocol) -> None:
        """Keep the inputs and the target of a request, and the embeddings where its gradients end.

        Args:
            request: A forward pass over B texts, and what is explained of each.
            protocol: Which embeddings these are, see the class.
        """
        model = request.model
        run = request.forward
        target = request.target
        model.task.check_input(model, "words")
        self.request = request
        self.model = model
        # Cloned, because autograd keeps no tensor that was made in inference mode.
        self.inputs = {name: value.clone() for name, value in run.batch.inputs.items()}
        self.ids = self.inputs["input_ids"]  # (B, T)
        self.positions = _cloned(run.positions)  # (B,) or (B, 2)
        self.target = replace(target, ids=target.ids.clone(), contrast=_cloned(target.contrast))
        if protocol == "published":
            vectors = run.embedded.clone()  # (B, T, H)
            self.inputs.pop("token_type_ids", None)
        else:
            with torch.no_grad():
                vectors = model.embeddings(self.ids)  # (B, T, H)
        # Half precision is too coarse for a path of fifty steps.
        self.vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))  # (B, T, H)

    def __call__(self, vectors: Tensor, texts: Tensor, target_index: int) -> Tensor:
        """Return the explained quantity of N texts of the batch for other embeddings, (N,).

        Args:
            vectors: The embeddings, (N, T, H).
            texts: The places of the texts in the batch, (N,).
            target_index: Which of the K targets of each text is explained.
        """
        # `measure` selects the texts' rows of the target by itself.
        inputs = {name: value[texts] for name, value in self.inputs.items()}
        # Captum attributes a single number of each text, and so a single target.
        target = replace(self.target, ids=self.target.ids[:, [target_index]])  # ids (B, 1)
        positions = None if self.positions is None else self.positions[texts]
        with self.model.embeddings.replaced(vectors, inputs["input_ids"]) as embedding_replacement:
            values = self.model.measure(target, inputs, positions, texts, replace=embedding_replacement)  # (N, 1)
            answers = values[:, 0]  # (N,)
        if not _is_differentiable(answers):
            raise RuntimeError("no gradient flows through some operation, as where activations are quantised")
        return answers


def _cloned(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.clone()


def _is_differentiable(output: Tensor) -> bool:
    """Return whether all operations in an output's graph have a backward pass.

    Torch names the node of an operation without one "NotImplemented" or "WarnNotImplemented".
    """
    nodes_to_visit: list[Any] = [output.grad_fn]
    visited: set[Any] = {None}  # autograd has None where it computes no gradient
    while nodes_to_visit:
        node = nodes_to_visit.pop()
        if node in visited:
            continue
        if "NotImplemented" in node.name():
            return False
        visited.add(node)
        nodes_to_visit += [parent for parent, _ in node.next_functions]
    return True


class _Gradient(Method):
    """The base of gradient methods: groups of texts, their gradients, and the sum over the embedding width."""

    needs_grad = True
    converges = False  # whether it is an integral whose error is known
    captum_method: tuple[str, dict[str, Any]]  # Captum's name for it, and options

    def __init__(self, aggregate: Aggregate = "sum", protocol: Protocol = "default") -> None:
        self.aggregate: Aggregate = aggregate
        self.protocol: Protocol = protocol
        self.captum = import_package("captum.attr")  # now, to say that it is missing

    def signed_on(self, task: Task) -> bool:
        """Return whether scores have a sign: that of the sum over the width."""
        return self.aggregate == "sum"

    def score(self, request: Request) -> Scores:
        """Score by gradients."""
        errors = torch.zeros(request.target.ids.shape, dtype=torch.float32)  # (B, K), which integrals fill
        with _explaining_missing_gradients(request.model):
            answer = _AnswerToEmbeddings(request, self.protocol)
            all_texts = torch.arange(len(answer.ids), device=answer.ids.device)  # (B,)
            groups = all_texts.split(self._texts_at_once(answer))
            scores_of_targets = []
            for target_index in range(request.target.ids.shape[1]):
                values = [self.attribute(answer, texts, target_index, errors) for texts in groups]  # (N, T, H) each
                scores_of_targets.append(torch.cat(list(map(self._aggregated, values))))  # (B, T)
        scores = torch.stack(scores_of_targets, 1)[:, :, None]  # (B, K, 1, T)
        if not self.converges:  # gradients at the text alone add up to no answer
            return Scores(scores)
        adds_up = self.aggregate == "sum" and self.protocol == "default"
        bias = remainder(request, scores) if adds_up else None  # the answer at the baseline
        return Scores(scores, diagnostics={"convergence_error": errors}, bias=bias)

    def _texts_at_once(self, answer: _AnswerToEmbeddings) -> int:
        """Return the number of texts in one pass."""
        return max(1, answer.model.batch_tokens // answer.ids.shape[1])

    def attribute(self, answer: _AnswerToEmbeddings, texts: Tensor, target_index: int, errors: Tensor) -> Tensor:
        """Attribute one target of N texts to each coordinate of their embeddings, (N, T, H).

        Args:
            answer: The explained quantity.
            texts: The places of the texts in the batch, (N,).
            target_index: Which of the K targets of each text is explained.
            errors: Where integrals write how far they miss, (B, K).
        """
        vectors = answer.vectors[texts].requires_grad_()  # (N, T, H), a copy
        name, options = self.captum_method
        method = getattr(self.captum, name)(answer)
        return method.attribute(vectors, additional_forward_args=(texts, target_index), **options)

    def _aggregated(self, values: Tensor) -> Tensor:
        """Return values aggregated over the width, (N, T, H) to (N, T)."""
        values = values.detach().float()
        if self.aggregate == "sum":
            return values.sum(-1)
        return torch.linalg.vector_norm(values, 1 if self.aggregate == "l1" else 2, dim=-1)


@register(
    "gradient-norm",
    title="sensitivity to each word",
    paper="Simonyan et al., 2014",
    needs=NEEDS,
    passes="1 forward, 1 backward",
    extra="eval",
)
class GradientNorm(_Gradient):
    """The norm of the gradient of the logit with respect to each token's word embedding.

    score_i = || d logit_p / d x_i^0 ||  (Simonyan et al., 2014; l1 in NormXLogit, EMNLP 2025)

    Args:
        aggregate: Over the width: "l1" (the paper's), "l2" or "sum", which keeps the sign.
        protocol: "default" takes x^0 to be the word embedding, with the right positions and token types; "published"
            feeds the embedding layer's output back in its place, as the authors' code does.
    """

    captum_method = "Saliency", {"abs": False}

    def __init__(self, aggregate: Aggregate = "l1", protocol: Protocol = "default") -> None:
        super().__init__(aggregate, protocol)


@register(
    "gradient-x-input",
    title="first-order shares",
    paper="Shrikumar et al., 2017",
    needs=NEEDS,
    signed=True,
    passes="1 forward, 1 backward",
    extra="eval",
)
class GradientXInput(_Gradient):
    """The gradient of the logit with respect to each word embedding, times that embedding.

    score_i = <x_i^0, d logit_p / d x_i^0>  (Shrikumar et al., 2017); with aggregate="l1" the absolute values of the
    product's coordinates are summed, as in NormXLogit (EMNLP 2025).

    Args:
        aggregate: Over the width: "sum" keeps the sign, "l1" is the paper's, or "l2".
        protocol: As for `GradientNorm`.
    """

    captum_method = "InputXGradient", {}


@register(
    "integrated-gradients",
    title="averaged shares from a blank text on",
    paper="Sundararajan et al., 2017",
    needs=NEEDS,
    signed=True,
    passes="50 forward, 50 backward",
    extra="eval",
)
class IntegratedGradients(_Gradient):
    """The gradient averaged over the path from a baseline to each word embedding, times their difference.

    score_i = <x_i - b_i, mean over a of d logit_p(b + a (x - b)) / d x_i>  (Sundararajan et al., 2017, equation 1), by
    Gauss-Legendre quadrature; with aggregate="l1" absolute values are summed, as in NormXLogit (EMNLP 2025). The sum
    over tokens and width, minus the difference between the answers at the text and at the baseline, is reported as
    `diagnostics["convergence_error"]`.

    Args:
        aggregate: As for `GradientXInput`.
        steps: Points on the path.
        baseline: "zero" vectors everywhere (the paper's), or the embedding of the "pad" or "mask" token in the place
            of all tokens but the special ones.
        protocol: As for `GradientNorm`; "published" has the zero baseline only.
    """

    def __init__(
        self, aggregate: Aggregate = "sum", steps: int = 50, baseline: Baseline = "zero", protocol: Protocol = "default"
    ) -> None:
        super().__init__(aggregate, protocol)
        if steps < 1:
            raise ValueError("steps must be positive")
        # A token's embedding is no output of the embedding layer, where this protocol begins.
        if protocol == "published" and baseline != "zero":
            raise ValueError("the published protocol has baseline='zero' only")
        self.steps = steps
        self.baseline: Baseline = baseline

    converges = True

    def attribute(self, answer: _AnswerToEmbeddings, texts: Tensor, target_index: int, errors: Tensor) -> Tensor:
        """Attribute by Captum's integral, whose convergence error goes to `errors`."""
        integrated, error = self.captum.IntegratedGradients(answer).attribute(
            answer.vectors[texts],  # (N, T, H)
            baseline_vectors(answer.request, answer.vectors, self.baseline)[texts],  # (N, T, H)
            additional_forward_args=(texts, target_index),
            n_steps=self.steps,
            internal_batch_size=self._texts_at_once(answer),
            return_convergence_delta=True,
        )
        errors[texts.cpu(), target_index] = error.float().cpu()
        return integrated


@contextmanager
def _explaining_missing_gradients(model: TaskModel) -> Iterator[None]:
    """Turn an error of a model without gradients into one that says so, and what works instead."""
    try:
        yield
    except Exception as error:  # a model that is not made for gradients may refuse them in any way
        if isinstance(error, NormXLogitError) or out_of_memory(error):
            raise
        # Of the reason the first sentence alone.
        raise UnsupportedModelError(
            f"gradient methods need {NEEDS}, and {model.class_name} is not "
            f"({str(error).partition('. ')[0].strip()}); {alternatives()}"
        ) from error
