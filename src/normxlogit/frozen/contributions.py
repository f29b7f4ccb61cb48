"""Contributions: what each token adds to an answer, from a backward pass through a frozen pass."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from ..copies.arithmetic import EXCLUDED
from ..copies.precision import without_autocast
from ..model.forward_pass import ForwardPass
from ..tasks.targets import BatchTargets
from ..tasks.task_outputs import logits_at
from .backward import frozen_backward
from .conservation import Conservation
from .places import Place, lowest_of_sides, masks_of
from .readouts import ByPlace, Readout, Readouts
from .sinks import detached_sinks, only_token
from .vocabulary import BACKPROPAGATED_AT_ONCE, HeadCall, vocabulary_quantities


@dataclass(frozen=True, kw_only=True)
class FrozenPass(ForwardPass):
    """A frozen forward pass with its graph, which ends when the pass does."""

    readouts: Readouts  # by place; at the lowest of each side the input enters the graph
    # What the model answers, (B, C) or (B, T, C); of a language model with a head what that reads, (B, T, H)
    answer: Tensor
    head: HeadCall | None = None  # the head of such a language model, at which the pass ended; None for other models
    is_recorded: bool = True  # whether all of its operations were recorded
    proof: Conservation | None = None  # proves the pass, over one text, when it is backpropagated through


@dataclass(frozen=True)
class Contributions:
    """The contributions from backward passes through a frozen pass."""

    answer: Tensor  # the explained quantities, (B, K)
    values: ByPlace  # by place, what each token contributes there, (B, K, T), without attention sinks
    sink: ByPlace  # by place, what attention sinks contribute from there on, (B, K)
    is_sink: Tensor | None  # whether a token is a sink at any place, (B, S + T), the source's first; None if none is


def contributions(
    run: FrozenPass,
    target: BatchTargets,
    places: Sequence[Place],
    read_positions: Tensor | None = None,
    weights: Tensor | None = None,
) -> Contributions:
    """Return the contributions of a frozen pass to each target; the pass is backpropagated through only once.

    Args:
        run: The pass.
        target: What is explained, K targets for each of B texts; see `BatchTargets.quantity`.
        places: Where contributions are read.
        read_positions: Where G targets are answered, (B, G), negative for none; None for the pass's own positions.
        weights: Of sums of the G quantities, which are explained instead of each, (B, K, G).

    Returns:
        The quantities, and what each token contributes to them at each place.

    Raises:
        NotRecordedError: If the pass was recorded in part, and the rules need more of it.
        UnsupportedModelError: As in `backpropagated`.
        HeadMismatchError: If `read_positions` are given for a model without a head.
    """
    positions = run.positions if read_positions is None else read_positions
    with without_autocast(run.batch.inputs):
        if run.head is not None and positions is not None:  # for the type: with such a head there are positions
            answer = vocabulary_quantities(run.head, run.answer, target, positions, weights)  # (B, K)
        else:
            if read_positions is not None:  # without a head, the states have no logits there:
                _ = run.hidden  # this raises the error that says why
            answer = target.quantity(answer_at(run.answer, positions).float())  # (B, K)
        # A single quantity is proved where it is backpropagated, unless the head excludes it with -inf.
        if run.proof is not None and (answer.shape[1] > 1 or not answer.isfinite().all()):
            run = proved_by_random_sum(run)
        return backpropagated(answer, run, places)


def answer_at(answer: Tensor, positions: Tensor | None) -> Tensor:
    """Return the logits, or states, at the position that is explained.

    Args:
        answer: Logits, (B, C) or (B, T, C), or states, (B, T, H).
        positions: Where they are read, (B,), or (B, 2) for a span; None for answers about the whole text.
    """
    if positions is None:
        return answer
    indices = positions.to(answer.device).clone()  # autograd saves no tensor that was made in inference mode
    return logits_at(answer, indices)


def backpropagated(answer: Tensor, run: FrozenPass, places: Sequence[Place], *, retain: bool = False) -> Contributions:
    """Backpropagate quantities through a frozen pass, and return what each token contributes to them at places.

    At a place with the states h, token i contributes <g_i, h_i>, g the gradient that arrives there (the rules and
    their papers: `frozen/rules.py`). Attention sinks pass no gradient on: what arrives at them, where they
    leave a layer, is summed as the sink's, from the last place to each before it. Quantities are backpropagated in
    groups of `BACKPROPAGATED_AT_ONCE`, each through the same graph.

    Args:
        answer: The quantities, (B, K), with their graph; a text's depend on its own tokens alone. A single one if the
            pass is to be proved.
        run: The pass, whose readouts are at the places.
        places: Where contributions are read.
        retain: Whether the graph stays, for another call.

    Returns:
        The values of the quantities, the tokens' contributions by place, (B, K, T) each, without those of sinks, and
        the sinks' contributions by place, (B, K) each.

    Raises:
        UnsupportedModelError: If an operation without a rule receives a gradient, or the contributions of a pass that
            is proved do not sum to the answer.
    """
    places_with_sinks = {place for place, readout in run.readouts.items() if readout.is_sink is not None}
    # At the last place it shows whether the answer passes through a single token, whose sink is not held.
    last_place = {max(run.readouts)} if places_with_sinks else set()
    places_read = sorted({*places, *places_with_sinks, *last_place}, reverse=True)
    sums = answer.sum(0)  # (K,): what one text contributes depends on no other text, so one pass serves all
    values, gradients = _contributions_at(sums, run, places_read, retain=retain)
    only_tokens = only_token(values[max(values)]) if places_with_sinks else None
    result = _without_sinks(answer, run, values, places, only_tokens)
    if run.proof is not None:
        entries = lowest_of_sides(run.readouts)
        inputs = [vector for place in entries for vector in run.readouts[place].vectors]
        run.proof.check(run.answer, inputs, gradients)
    return result


def _contributions_at(
    sums: Tensor, run: FrozenPass, places: Sequence[Place], *, retain: bool
) -> tuple[ByPlace, list[Tensor | None]]:
    """Backpropagate sums over texts of K quantities, (K,), in groups through the frozen network.

    Args:
        sums: The sums.
        run: The pass.
        places: Where contributions are read, the last place first.
        retain: Whether the graph stays, for another call.

    Returns:
        The contributions by place, sinks' too, (K, B, T) each; and the last quantity's gradients at what a proof sums
        over, as `Conservation.check` takes them, [] without a proof.
    """
    entry_edges = [edge for place in lowest_of_sides(run.readouts) for edge in run.readouts[place].edges]
    add_constant = None
    proved_edges = list[Any]()
    if run.proof is not None:
        add_constant = run.proof.hold
        proved_edges = [run.answer, *entry_edges, *run.proof.leaves]
    readouts = [run.readouts[place] for place in places]
    groups = torch.arange(len(sums)).split(BACKPROPAGATED_AT_ONCE)
    values_of_groups: list[list[Tensor]] = []  # by group and place, (group, B, T)
    gradients: list[Tensor | None] = []  # of the last group
    frozen = frozen_backward(sums, entry_edges, add_constant, is_recorded=run.is_recorded)
    with frozen, detached_sinks(run.readouts):
        for group in groups:
            keep_graph = retain or group is not groups[-1]
            values, gradients = _gradients(sums, group.tolist(), readouts, proved_edges, keep_graph)
            values_of_groups.append(values)
    values_of_places = zip(*values_of_groups, strict=True)  # by place and group
    return {place: torch.cat(values) for place, values in zip(places, values_of_places, strict=True)}, gradients


def _without_sinks(
    answer: Tensor, run: FrozenPass, values: ByPlace, places: Sequence[Place], exempt: Tensor | None
) -> Contributions:
    """Take what attention sinks contribute out of the contributions of tokens.

    Args:
        answer: The quantities, (B, K).
        run: The pass, whose proof counts what its sinks contribute as held.
        values: The contributions by place, the last place first, (K, B, T) each.
        places: The places whose contributions are returned.
        exempt: Tokens that are the only ones from which the answer is read, whose sinks are not held, (K, B, T); None
            for a pass without sinks.
    """
    entries = lowest_of_sides(run.readouts)
    of_tokens = dict(values)
    sink = ByPlace()
    total = torch.zeros_like(answer, requires_grad=False)  # of the sinks so far, (B, K)
    sinks_of_side = {side: torch.zeros_like(mask) for side, mask in sorted(masks_of(run.batch).items())}  # (B, S or T)
    for place, contributed in values.items():
        held_sinks = run.readouts[place].held_sinks(place.side, exempt)
        if held_sinks is not None:
            held_sinks = held_sinks.expand_as(contributed)  # (K, B, T)
            of_sinks = contributed * held_sinks
            total = total + of_sinks.sum(-1).T
            of_tokens[place] = contributed.masked_fill(held_sinks, 0.0)
            # For any quantity: which sinks are exempt depends on it.
            sinks_of_side[place.side] |= held_sinks.any(0).to(sinks_of_side[place.side].device)
            if run.proof is not None and place not in entries:  # at an entry, they are among the proof's inputs
                run.proof.hold(of_sinks[-1])  # of the only quantity
        sink[place] = total  # of the sinks here and at all later places, which come first in `values`
    is_sink = torch.cat([*sinks_of_side.values()], -1)  # (B, S + T)
    return Contributions(
        answer=answer.detach(),
        values={place: of_tokens[place].transpose(0, 1) for place in places},
        sink={place: sink[place] for place in places},
        is_sink=is_sink if exempt is not None and is_sink.any() else None,  # without sinks no transfer to ask
    )


def _gradients(
    sums: Tensor, group: list[int], readouts: Sequence[Readout], proved: Sequence[Tensor | GradientEdge], retain: bool
) -> tuple[list[Tensor], list[Tensor | None]]:
    """Backpropagate a group of the K sums at once.

    Args:
        sums: All sums, (K,).
        group: The indices of those that are backpropagated.
        readouts: Where contributions are read.
        proved: What else has its gradients returned.
        retain: Whether the graph stays.

    Returns:
        The contributions at each readout, (group, B, T); and the gradients of `proved`, None where none arrived.
    """
    edges: list[Any] = [*(edge for readout in readouts for edge in readout.edges), *proved]
    is_batched = len(group) > 1
    one_hot = torch.eye(len(sums), dtype=sums.dtype, device=sums.device)  # (K, K): with a row, one sum counts alone
    weights = one_hot[group] if is_batched else one_hot[group[0]]  # (group, K) or (K,)
    # In the order of `edges`: first those of the readouts, one after the other. An edge may be on no path: unused.
    gradients = iter(torch.autograd.grad(sums, edges, weights, retain, allow_unused=True, is_grads_batched=is_batched))
    values = [readout.contributions([next(gradients) for _ in readout.edges]) for readout in readouts]
    # A single sum has no axis of its own, and neither have zeros where no gradient arrived.
    return [each.expand(len(group), *each.shape[-2:]) for each in values], list(gradients)


def proved_by_random_sum(run: FrozenPass) -> FrozenPass:
    """Prove a pass by a random sum of its logits, or of the states that its head reads.

    Returns:
        The pass with its graph, which needs no further proof.

    Raises:
        UnsupportedModelError: As in `backpropagated`.
    """
    answer = (run.answer if run.head is None else answer_at(run.answer, run.positions)).float()
    weights = torch.randn(answer.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32).to(answer)
    included = answer.isfinite() & (answer.abs() < EXCLUDED)  # some heads exclude outputs by large negative logits
    if not included.any():  # the values of a regression model may all be large
        included = answer.isfinite()
    random_sum = (answer.masked_fill(~included, 0.0) * weights).sum()
    # As one quantity of one text, (1, 1). The graph stays for what is explained.
    backpropagated(random_sum[None, None], run, (), retain=True)
    return replace(run, proof=None)
