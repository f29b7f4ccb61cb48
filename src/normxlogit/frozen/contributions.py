"""Each token's contribution to the answers of a frozen pass, from backward passes through it, and their proof.

The frozen network is affine: f(x) = <g, x> + sum over constants c of <g_c, c>, for every bias, every table of
positions, every vector that the model adds. In a pass that is proved these are leaves (`forward.Constants`), and their
gradients come with the input's, from the backward pass of what is explained. A rule that is wrong, or an operation that
hides what is not linear, shows as a difference.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from ..copies.non_finite import EXCLUDED, mean_logit
from ..copies.run import without_autocast
from ..errors import UnsupportedModelError
from ..model.forward_pass import ForwardPass
from ..parts.proofs import proof, rounding_of
from ..tasks.answers import logits_at
from ..tasks.targets import BatchTargets
from .backward import frozen_backward
from .forward import Recording
from .places import Place, Readout, Side, detach_sinks, lowest_of_sides, only_token

BACKPROPAGATED_AT_ONCE = 8
"""Quantities that are backpropagated together; each needs memory for its own gradients."""

HeadAnswer = tuple[Tensor, Tensor]
"""States, (n, H), and a vocabulary head's logits for them, (n, V), with the graph between them."""


@dataclass(frozen=True, kw_only=True)
class FrozenPass(ForwardPass):
    """A frozen forward pass with its graph, which ends when the pass does.

    Attributes:
        readouts: By place, where contributions can be read; at the lowest of each side the input enters the graph.
        answer: What the model answers, (B, C) or (B, T, C); of a language model with a head what that reads, (B, T, H).
        head: The head of such a language model, a function of states, (N, H); None for other models.
        predicted: What it answers at the position of each text; () if that was not asked for.
        is_recorded: Whether all of its operations were recorded.
        proof: What proves the pass, over one text, when it is backpropagated through; None if it needs no proof.
    """

    readouts: dict[Place, Readout]
    answer: Tensor
    head: Any = None
    predicted: Sequence[HeadAnswer] = ()
    is_recorded: bool = True
    proof: "Conservation | None" = None


@dataclass(frozen=True)
class Contributions:
    """The contributions from backward passes through a frozen pass.

    Attributes:
        answer: The explained quantities, (B, K).
        values: By place, what each token contributes there, (B, K, T).
        sink: By place, what attention sinks contribute from there on, (B, K).
        sinks: Which tokens are attention sinks at any place, (B, T), those of a source first; None if none is.
    """

    answer: Tensor
    values: dict[Place, Tensor]
    sink: dict[Place, Tensor]
    sinks: Tensor | None


def contributions(
    run: FrozenPass,
    target: BatchTargets,
    places: Sequence[Place],
    read_positions: Tensor | None = None,
    weights: Tensor | None = None,
) -> Contributions:
    """Return the contributions of a frozen pass to each target, from a backward pass for each.

    Args:
        run: The pass over B texts, which can be backpropagated through once.
        target: What is explained, K targets for each text; of a vocabulary, each logit minus the contrast's, or minus
            the mean over the vocabulary.
        places: Where contributions are read.
        read_positions: Where a language model answers each of G targets, (B, G); negative where a text has fewer, which
            counts nothing. None for the position of the pass.
        weights: Sums of the G quantities that are explained instead of each, (B, K, G).

    Raises:
        NotRecordedError: If an operation has to be recorded, and was not.
    """
    positions, predicted = (run.positions, run.predicted) if read_positions is None else (read_positions, ())
    with without_autocast(run.batch.inputs):
        if positions is not None and (read_positions is not None or (run.head and positions.ndim == 1)):
            states = run.answer if run.head else run.hidden  # which raises the error that there is no head
            answer = quantities(run.head, states, target, positions, weights, predicted)  # (B, K)
        else:
            answer = target.quantity(answer_at(run.answer, positions).float())  # (B, K)
        if run.proof is not None and not answer.isfinite().all():  # an answer that a head excludes proves nothing
            run = proved_by_random_sum(run)
        return backpropagated(answer, run, places)


def answer_at(answer: Tensor, positions: Tensor | None) -> Tensor:
    """Return the logits at the position explained; a copy, for autograd keeps nothing of inference mode."""
    return answer if positions is None else logits_at(answer, positions.to(answer.device).clone())


def backpropagated(answer: Tensor, run: FrozenPass, places: Sequence[Place], *, retain: bool = False) -> Contributions:
    """Return each token's contributions to K quantities of a frozen pass, (B, K), from a backward pass for each.

    The last of them proves a pass that has a proof. With `retain` the graph is kept.
    """
    sums, proof = answer.sum(0), run.proof  # (K,)
    last, with_sinks = max(run.readouts), {place for place, each in run.readouts.items() if each.sinks is not None}
    needed = {*places, *with_sinks, *([last] if with_sinks else [])}
    read = {place: run.readouts[place] for place in sorted(needed, reverse=True)}
    entries = _entries(run.readouts)
    groups = [group.tolist() for group in torch.arange(len(sums)).split(BACKPROPAGATED_AT_ONCE)]
    if proof is not None and len(groups[-1]) > 1:
        groups[-1:] = [groups[-1][:-1], groups[-1][-1:]]
    found: list[list[Tensor]] = []  # by group and place, (k, B, T)
    with frozen_backward(
        sums, [edge for edge, _ in entries], None if proof is None else proof.hold, is_recorded=run.is_recorded
    ):
        if with_sinks:
            detach_sinks(run.readouts)
        for number, group in enumerate(groups):
            is_last = number == len(groups) - 1
            proved = proof.begin(run.answer, entries) if proof is not None and is_last else []
            found.append(_gradients(sums, group, list(read.values()), proved, retain=retain or not is_last))
    values = {place: torch.cat(each) for place, each in zip(read, zip(*found, strict=True), strict=True)}  # (K, B, T)
    total, sink = torch.zeros_like(answer, requires_grad=False), dict[Place, Tensor]()  # (B, K)
    sinks: dict[Side, list[Tensor]] = {Side.SOURCE: [], Side.TEXT: []}  # by place, (B, S) and (B, T)
    exempt = only_token(values[last]) if with_sinks else None
    for place, readout in read.items():  # the last first
        if (held := readout.held(place.side, exempt)) is not None:
            held = held.expand_as(values[place])  # (K, B, T)
            of_sinks = values[place] * held
            total = total + of_sinks.sum(-1).T
            values[place] = values[place].masked_fill(held, 0.0)
            sinks[place.side].append(held.any(0))
            if proof is not None and place not in lowest_of_sides(run.readouts):  # there they are among the inputs
                proof.hold(of_sinks[-1])
        sink[place] = total
    if proof is not None:
        proof.check()
    return Contributions(
        answer.detach(),
        {place: values[place].transpose(0, 1) for place in places},
        {place: sink[place] for place in places},
        _any_place(sinks, run) if with_sinks else None,
    )


def _entries(readouts: Mapping[Place, Readout]) -> list[tuple[GradientEdge, Tensor]]:
    """Return the edges at which the input enters the graph, with their vectors."""
    entries = [readouts[place] for place in lowest_of_sides(readouts)]
    return [pair for entry in entries for pair in zip(entry.edges, entry.vectors, strict=True)]


def _gradients(
    sums: Tensor, group: list[int], readouts: Sequence[Readout], proved: "list[Leaf]", *, retain: bool
) -> list[Tensor]:
    """Return the contributions at each readout to a group of k of the sums, (k, B, T) each.

    The gradients of what is `proved` are kept there.
    """
    edges = [*(edge for readout in readouts for edge in readout.edges), *(leaf.edge for leaf in proved)]
    if len(group) == 1:
        found = torch.autograd.grad(sums[group[0]], edges, retain_graph=retain, allow_unused=True)
    else:
        eye = torch.eye(len(sums), dtype=sums.dtype, device=sums.device)[group]  # (k, K)
        found = torch.autograd.grad(sums, edges, eye, retain_graph=retain, allow_unused=True, is_grads_batched=True)
    gradients = iter(found)
    values = [readout.contributions([next(gradients) for _ in readout.edges]) for readout in readouts]
    for leaf in proved:
        leaf.gradient = next(gradients)
    return [each.expand(len(group), *each.shape[-2:]) for each in values]


def _any_place(sinks: Mapping[Side, list[Tensor]], run: FrozenPass) -> Tensor | None:
    """Return the sinks of all places, by side and place (B, S) and (B, T), as (B, S + T); None if there are none."""
    of_sides: list[Tensor] = []
    for side, masks in sinks.items():
        count = next((readout.tokens.shape[1] for place, readout in run.readouts.items() if place.side is side), 0)
        none = run.answer.new_zeros(len(run.batch.mask), count, dtype=torch.bool)
        of_sides.append(torch.stack(masks).any(0) if masks else none)
    together = torch.cat(of_sides, -1)
    return together if bool(together.any()) else None


# --- what a vocabulary head answers ----------------------------------------------------------------------------------


def head_answers(head: Callable[[Tensor], Tensor], states: Tensor, *, gradients: bool = True) -> Iterator[HeadAnswer]:
    """Yield a head's logits, (n, V), for a few of N states, (N, H), at a time; with `gradients` with their graph."""
    for rows in states.split(BACKPROPAGATED_AT_ONCE):
        leaf = rows.detach().requires_grad_(gradients)
        with torch.set_grad_enabled(gradients), Recording():
            logits = head(leaf).float()
        yield leaf, logits


def contrasted_logits(answers: Iterable[HeadAnswer], states: Tensor, ids: Tensor, contrast: Tensor | None) -> Tensor:
    """Return the logits of entries (N, K) for states (N, H), minus the contrast's, (N,), or the mean over all, (N, K).

    Each depends on its own state alone, so the head's gradients are taken here, for few states at a time. Where the
    answers are computed as they are asked for, no logits are kept for the backward pass: the head of the frozen network
    is affine, value + <g, state>.
    """
    values, gradients, start = [], [], 0
    for leaf, logits in answers:
        rows = slice(start, start := start + len(leaf))
        subtracted = mean_logit(logits) if contrast is None else logits.gather(-1, contrast[rows, None])  # (n, 1)
        value = logits.gather(-1, ids[rows]) - subtracted  # (n, K)
        values.append(value.detach())
        if states.requires_grad:
            totals = value.sum(0)  # (K,)
            with frozen_backward(totals, [leaf]):
                by_target = [torch.autograd.grad(total, leaf, retain_graph=True)[0] for total in totals]  # (n, H) each
            gradients.append(torch.stack(by_target, 1))
    answer = torch.cat(values)
    return answer + ((states - states.detach())[:, None] * torch.cat(gradients)).sum(-1) if gradients else answer


def quantities(
    head: Any,
    states: Tensor,
    target: BatchTargets,
    positions: Tensor,
    weights: Tensor | None = None,
    predicted: Sequence[HeadAnswer] = (),
) -> Tensor:
    """Return a language model's quantities, (B, K), from its head and the head's input, (B, T, H).

    Args:
        head: A function of states, (N, H).
        states: What it reads.
        target: The targets.
        positions: Where all targets of a text are read, (B,), or each of G, (B, G), negative where a text has fewer.
        weights: As in `contributions`.
        predicted: What the head answers at the positions; () if that is not known.
    """
    on_host, ids = positions.cpu(), target.ids.to(states.device)  # on a GPU, each question for a place would wait
    by_position, ids = (on_host[:, None], ids[:, None]) if positions.ndim == 1 else (on_host, ids[:, :, None])
    found = (by_position >= 0).nonzero()  # (N, 2), the N places of all texts
    rows = torch.cat([found, by_position[found[:, 0], found[:, 1], None]], 1).to(states.device)  # (N, 3)
    texts, columns, places = rows.T  # (N,) each
    read_states = states[texts, places]  # (N, H)
    contrast = None if target.contrast is None else target.contrast.to(states.device)[texts]  # (N,)
    answers = predicted or head_answers(head, read_states, gradients=states.requires_grad)
    values = contrasted_logits(answers, read_states, ids[texts, columns], contrast)  # (N, K) or (N, 1)
    answer = values.new_zeros(*by_position.shape, values.shape[1]).index_put((texts, columns), values).flatten(1)
    return answer if weights is None else torch.einsum("bkg,bg->bk", weights.to(answer), answer)  # (B, K)


# --- the proof -------------------------------------------------------------------------------------------------------


@dataclass
class Leaf:
    """A tensor of a pass with its edge, and the gradient that arrived there; None before, or if none did."""

    edge: Any
    vector: Tensor
    gradient: Tensor | None = None

    @property
    def products(self) -> Tensor:
        """The gradient times the tensor. What excludes an answer may be infinite, and nothing of it arrives."""
        if self.gradient is None:
            return torch.zeros((), dtype=torch.float64)
        gradient = self.gradient.double()
        return gradient * self.vector.detach().double().masked_fill(gradient == 0, 0.0)


@dataclass
class Conservation:
    """The proof of a recorded pass over one text, in a backward pass through it.

    Attributes:
        constants: All that the pass adds, which are leaves of its graph.
        dtype: The coarsest precision in it.
        accept: Called when the pass is proved.
    """

    constants: Sequence[Tensor]
    dtype: torch.dtype
    accept: Callable[[], None] = lambda: None
    _terms: list[Tensor] = field(default_factory=list)
    _leaves: tuple[list[Leaf], ...] = ()  # the answer, the input, the constants

    def begin(self, answer: Tensor, entries: Sequence[tuple[GradientEdge, Tensor]]) -> list[Leaf]:
        """Begin the backward pass that proves; return the leaves whose gradients it needs."""
        self._terms.clear()
        given = [Leaf(edge, vector) for edge, vector in entries]
        self._leaves = [Leaf(answer, answer)], given, [Leaf(constant, constant) for constant in self.constants]
        return [leaf for leaves in self._leaves for leaf in leaves]

    def hold(self, held: Tensor) -> None:
        """Count the contribution of a held value."""
        self._terms.append(held.double().sum())

    @proof(
        compares="what the input and all constants of the model contribute, and what is explained; of the head alone, "
        "a random sum of its logits",
        tolerance="rounding, relative to the sum of all contributions without their signs",
        why="each rule gives what its operation passes on; what hides how it depends on the input shows",
        when="first use of frozen-gradient; nothing more for a short text alone, otherwise a backward pass",
    )
    def check(self) -> None:
        """Refuse the pass if the contributions do not add up to what is explained.

        Raises:
            UnsupportedModelError: If they do not, or no gradient arrived at an input.
        """
        answer, given, constants = self._leaves
        if all(leaf.gradient is None for leaf in given):
            raise UnsupportedModelError("the model cannot be frozen: nothing flows from the input to the answer")
        terms = [*self._terms, *(leaf.products.sum(-1) for leaf in given), *(leaf.products for leaf in constants)]
        sums = [torch.stack((products.sum(), products.abs().sum())) for products in (answer[0].products, *terms)]
        explained, *contributed = [each.to(answer[0].vector.device) for each in sums]
        both = torch.stack((explained, torch.stack(contributed).sum(0)))
        (value, value_size), (total, size) = both.tolist()  # one transfer
        if not abs(value - total) <= rounding_of(self.dtype) * max(1.0, value_size, size):
            raise UnsupportedModelError(
                "the model cannot be frozen: contributions of its input and its biases do not add up to its answer, by "
                f"{abs(value - total):.2g} of {value:.4g}: an operation that is not linear has no rule, or a wrong one"
            )
        self.accept()


def proved_by_random_sum(run: FrozenPass) -> FrozenPass:
    """Prove a pass by a random sum of its logits, or of the states that its head reads; return it, with its graph."""
    answer = run.answer if run.head is None else answer_at(run.answer, run.positions)
    answer = answer.float()
    weights = torch.randn(answer.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32).to(answer)
    finite = answer.isfinite() & (answer.abs() < EXCLUDED)
    finite = finite if finite.any() else answer.isfinite()  # the values of a regression model may all be large
    backpropagated((answer.masked_fill(~finite, 0.0) * weights).sum()[None, None], run, (), retain=True)
    return replace(run, proof=None)
