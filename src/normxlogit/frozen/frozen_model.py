"""`FrozenModel`: passes of a task model through its frozen network; the first pass of each kind is proved."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.graph import GradientEdge
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from ..copies.arithmetic import EXCLUDED, full_float32
from ..copies.checkpointing import checkpointed, without_cache
from ..copies.clone import clone
from ..copies.memory import GRAPH_MEMORY
from ..copies.run import Pool, constant_clone, run, without_autocast
from ..errors import UnsupportedModelError
from ..inputs.encoding import Batch
from ..model.model_copy import MAX_TOKENS, input_errors
from ..model.task_model import ForwardPass, TaskModel, no_states
from ..parts.headpiece import Head, answer_of
from ..parts.model_proofs import FirstText
from ..parts.proofs import SUM_ERROR, batch_tolerance, largest_difference, proof, tolerance_for
from ..tasks.answers import logits_at
from ..tasks.targets import BatchTargets
from .backward import frozen_backward
from .conservation import Conservation
from .places import (
    MEDIA,
    WORDS,
    ModelPlaces,
    Place,
    Reading,
    Readout,
    detach_sinks,
    hold_sinks,
    lowest_of_sides,
    masks_of,
    only_token,
)
from .slopes import INPUT

_SAVING_OUTPUTS = frozenset(
    getattr(namespace, name)
    for namespace in (torch, Tensor, torch.special)
    for name in ("tanh", "sigmoid", "expm1", "expit", "log_softmax", "tanh_", "sigmoid_", "expm1_")
    if hasattr(namespace, name)
) | {torch.nn.functional.log_softmax}
"""Functions of which torch saves only the output."""


class Recording(TorchFunctionMode):
    """Notes on the nodes of a pass what the rules read and autograd does not save; constants are leaves of a proof."""

    def __init__(self, proof: Conservation | None = None) -> None:
        super().__init__()
        self.proof = proof

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, proof, x = kwargs or {}, self.proof, None
        noted = func in _SAVING_OUTPUTS or func is torch._C._set_grad_enabled
        if noted and proof is not None and (path := proof.path()) is not None:
            proof.recorded.add(path)
        if func is torch._C._set_grad_enabled:  # what a model computes without gradients is part of its answer, too
            return None
        if proof is not None:
            args, kwargs = proof.as_leaves(getattr(func, "__name__", ""), args, kwargs)
        if func in _SAVING_OUTPUTS:
            x = args[0] if args else kwargs["input"]
            x = _Saved.apply(x.clone() if func.__name__.endswith("_") else x)  # type: ignore[no-untyped-call]
        result = func(*args, **kwargs)
        if (x is not None or proof is not None) and isinstance(result, Tensor) and result.grad_fn is not None:
            node: Any = result.grad_fn
            if x is not None:
                node.metadata[INPUT] = x  # and not its node, which torch 2.6 and before empties once no tensor has it
            if proof is not None:
                proof.note(node, result)
        return result


def call_recorded(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a module with a `Recording`, which elsewhere would cost every operation some time."""
    with Recording():
        return call(*args, **kwargs)


class _Saved(Function):
    """Saves a tensor as autograd does, so that hooks of saved tensors see it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.new_empty(0)


@contextmanager
def recorded(copy: nn.Module, proof: Conservation | None = None) -> Iterator[None]:
    """Run passes of a copy inside the block with a graph; the constants of one that is proved are leaves of it."""
    with ExitStack() as stack, torch.enable_grad(), Recording(proof):
        if proof is not None:
            proof.watch(copy, stack)
        yield


BACKPROPAGATED_AT_ONCE = 8  # quantities that are backpropagated together; each needs memory for its own gradients

HeadCall = Callable[[Tensor], Tensor]
"""The head of a language model, a function of states, (N, H), that returns logits, (N, V)."""


@dataclass(frozen=True, kw_only=True)
class FrozenPass(ForwardPass):
    """A frozen forward pass with its graph, which ends when the pass does."""

    readouts: dict[Place, Readout]  # by place; at the lowest of each side the input enters the graph
    # What the model answers, (B, C) or (B, T, C); of a language model with a head what that reads, (B, T, H)
    answer: Tensor
    head: HeadCall | None = None  # the head of such a language model, at which the pass ended; None for other models
    is_recorded: bool = True  # whether all of its operations were recorded
    proof: Conservation | None = None  # proves the pass, over one text, when it is backpropagated through


@dataclass(frozen=True)
class Contributions:
    """The contributions from backward passes through a frozen pass."""

    answer: Tensor  # the explained quantities, (B, K)
    values: dict[Place, Tensor]  # by place, what each token contributes there, (B, K, T)
    sink: dict[Place, Tensor]  # by place, what attention sinks contribute from there on, (B, K)
    sinks: Tensor | None  # which tokens are attention sinks at any place, (B, S + T), the source's first; None if none


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
    """
    positions = run.positions if read_positions is None else read_positions
    with without_autocast(run.batch.inputs):
        if run.head is not None and positions is not None:
            answer = vocabulary_quantities(run.head, run.answer, target, positions, weights)  # (B, K)
        else:
            _ = None if read_positions is None else run.hidden  # without a head, its error says why
            answer = target.quantity(answer_at(run.answer, positions).float())  # (B, K)
        # A single quantity proves the pass, unless a head excludes it.
        if run.proof is not None and (answer.shape[1] > 1 or not answer.isfinite().all()):
            run = proved_by_random_sum(run)
        return backpropagated(answer, run, places)


def answer_at(answer: Tensor, positions: Tensor | None) -> Tensor:
    """Return the logits at the position explained; a copy, for autograd keeps nothing of inference mode."""
    return answer if positions is None else logits_at(answer, positions.to(answer.device).clone())


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
    sinks_at = {place for place, readout in run.readouts.items() if readout.sinks is not None}
    last = {max(run.readouts)} if sinks_at else set()  # where it shows which token is the only one that is read
    places_read = sorted({*places, *sinks_at, *last}, reverse=True)
    values, gradients = _contributions_at(answer.sum(0), run, places_read, retain=retain)
    values, sink, is_sink = _without_sinks(answer, run, values)
    if run.proof is not None:
        entries = lowest_of_sides(run.readouts)
        vectors = (vector for place in entries for vector in run.readouts[place].vectors)
        run.proof.check([run.answer, *vectors], gradients)
    return Contributions(
        answer.detach(),
        {place: values[place].transpose(0, 1) for place in places},
        {place: sink[place] for place in places},
        is_sink,
    )


def _contributions_at(
    sums: Tensor, run: FrozenPass, places: Sequence[Place], *, retain: bool
) -> tuple[dict[Place, Tensor], list[Tensor | None]]:
    """Backpropagate sums over texts of K quantities, (K,), in groups through the frozen network.

    Returns:
        The contributions by place, sinks' too, (K, B, T) each; and of a pass that is proved the last quantity's
        gradients at what the proof sums over.
    """
    proof, readouts = run.proof, [run.readouts[place] for place in places]
    entry_edges = [edge for place in lowest_of_sides(run.readouts) for edge in run.readouts[place].edges]
    proved: Sequence[Any] = () if proof is None else (run.answer, *entry_edges, *proof.leaves)
    groups = torch.arange(len(sums)).split(BACKPROPAGATED_AT_ONCE)
    gradients: list[Tensor | None] = []
    by_group: list[list[Tensor]] = []  # by group and place, (k, B, T)
    constant = None if proof is None else proof.hold
    with frozen_backward(sums, entry_edges, constant, is_recorded=run.is_recorded):
        if any(readout.sinks is not None for readout in run.readouts.values()):
            detach_sinks(run.readouts)
        for group in groups:
            keep = retain or group is not groups[-1]
            of_group, gradients = _gradients(sums, group.tolist(), readouts, proved, keep)
            by_group.append(of_group)
    values = {place: torch.cat(each) for place, each in zip(places, zip(*by_group, strict=True), strict=True)}
    return values, gradients


def _without_sinks(
    answer: Tensor, run: FrozenPass, values: Mapping[Place, Tensor]
) -> tuple[dict[Place, Tensor], dict[Place, Tensor], Tensor | None]:
    """Take what attention sinks contribute out of the contributions of tokens.

    Args:
        answer: The quantities, (B, K).
        run: The pass; one that is proved is told what its sinks hold.
        values: The contributions by place, the last place first, (K, B, T) each.

    Returns:
        The contributions without those of sinks; by place what sinks contribute there and at later places, (B, K);
        and which tokens are sinks at any place, (B, S + T), the source's first, None if none is.
    """
    entries, has_sinks = lowest_of_sides(run.readouts), any(run.readouts[place].sinks is not None for place in values)
    exempt = only_token(values[max(run.readouts)]) if has_sinks else None
    is_sink = {side: torch.zeros_like(mask) for side, mask in sorted(masks_of(run.batch).items())}  # (B, S) and (B, T)
    total = torch.zeros_like(answer, requires_grad=False)  # (B, K)
    of_tokens, sink = dict(values), dict[Place, Tensor]()
    for place, contributed in values.items():
        held = run.readouts[place].held(place.side, exempt)
        if held is not None:
            held = held.expand_as(contributed)  # (K, B, T)
            of_sinks = contributed * held
            total = total + of_sinks.sum(-1).T
            of_tokens[place] = contributed.masked_fill(held, 0.0)
            is_sink[place.side] |= held.any(0).to(is_sink[place.side].device)
            if run.proof is not None and place not in entries:  # there they are among the inputs
                run.proof.hold(of_sinks[-1])
        sink[place] = total
    of_sides = torch.cat([*is_sink.values()], -1)  # (B, S + T)
    return of_tokens, sink, of_sides if has_sinks and of_sides.any() else None


def _gradients(
    sums: Tensor, group: list[int], readouts: Sequence[Readout], proved: Sequence[Tensor | GradientEdge], retain: bool
) -> tuple[list[Tensor], list[Tensor | None]]:
    """Return the contributions at each readout to a group of k of the sums, (k, B, T) each, and further gradients."""
    edges: list[Any] = [*(edge for readout in readouts for edge in readout.edges), *proved]
    several, weights = len(group) > 1, torch.eye(len(sums), dtype=sums.dtype, device=sums.device)[group]  # (k, K)
    gradients = iter(
        torch.autograd.grad(
            sums, edges, weights if several else weights[0], retain, allow_unused=True, is_grads_batched=several
        )
    )
    values = [readout.contributions([next(gradients) for _ in readout.edges]) for readout in readouts]
    return [each.expand(len(group), *each.shape[-2:]) for each in values], list(gradients)


def proved_by_random_sum(run: FrozenPass) -> FrozenPass:
    """Prove a pass by a random sum of its logits, or of the states that its head reads; return it, with its graph."""
    answer = (run.answer if run.head is None else answer_at(run.answer, run.positions)).float()
    weights = torch.randn(answer.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32).to(answer)
    finite = answer.isfinite() & (answer.abs() < EXCLUDED)
    finite = finite if finite.any() else answer.isfinite()  # the values of a regression model may all be large
    backpropagated((answer.masked_fill(~finite, 0.0) * weights).sum()[None, None], run, (), retain=True)
    return replace(run, proof=None)


# --- what a vocabulary head answers ----------------------------------------------------------------------------------


def vocabulary_quantities(
    head: HeadCall, states: Tensor, target: BatchTargets, positions: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return a language model's quantities, with the gradients that its frozen head passes to the states.

    Args:
        head: The head.
        states: What it reads, (B, T, H).
        target: What is explained, K for each text, or one at each of G positions.
        positions: Where the answer is read, (B,) for K targets at one position, (B, G) for one at each; negative where
            a text has fewer than G.
        weights: Of sums of the G quantities, which are returned instead of each, (B, K, G).

    Returns:
        (B, K), (B, G), or sums, (B, K).
    """
    on_host, ids = positions.cpu(), target.ids.to(states.device)  # on a GPU, each question for a place would wait
    by_position, ids = (on_host[:, None], ids[:, None]) if positions.ndim == 1 else (on_host, ids[:, :, None])
    answered = (by_position >= 0).nonzero()  # (N, 2), the N places of all texts
    rows = torch.cat([answered, by_position[answered[:, 0], answered[:, 1], None]], 1).to(states.device)  # (N, 3)
    texts, columns, places = rows.T  # (N,) each
    contrast = None if target.contrast is None else target.contrast.to(states.device)[texts]  # (N,)
    of_places = replace(target, ids=ids[texts, columns], contrast=contrast)
    values = _quantities(head, states[texts, places], of_places)  # (N, K) or (N, 1)
    answer = values.new_zeros(*by_position.shape, values.shape[1]).index_put((texts, columns), values).flatten(1)
    return answer if weights is None else torch.einsum("bkg,bg->bk", weights.to(answer), answer)  # (B, K)


def _quantities(head: HeadCall, states: Tensor, target: BatchTargets) -> Tensor:
    """Return the quantities (N, K) of states (N, H), by the targets of each; no logits are kept.

    The frozen head, and each quantity of its logits, is affine in the state. So its gradients are taken here, for few
    states at a time, and the result is a function of the states by these gradients alone.
    """
    values, gradients = [], []
    for rows in torch.arange(len(states), device=states.device).split(BACKPROPAGATED_AT_ONCE):
        leaf = states[rows].detach().requires_grad_()
        with torch.enable_grad(), Recording():
            logits = head(leaf).float()  # (n, V)
        value = target.quantity(logits, rows)  # (n, K)
        values.append(value.detach())
        if states.requires_grad:
            totals = value.sum(0)  # (K,)
            with frozen_backward(totals, [leaf]):
                by_target = [torch.autograd.grad(each, leaf, retain_graph=True)[0] for each in totals]  # (n, H)
            gradients.append(torch.stack(by_target, 1))
    answer = torch.cat(values)
    return answer + ((states - states.detach())[:, None] * torch.cat(gradients)).sum(-1) if gradients else answer


PROOF_TOKENS = 512  # most tokens of the text for the proof of a language model, which is not checkpointed


class FrozenModel:
    """A task model and the backward pass of its frozen network; every path to the answer passes one place of a side."""

    def __init__(self, model: TaskModel) -> None:
        self.model, self.module, self.name = model, model.module, type(model.module).__name__
        self._without_cache = without_cache(clone(model.module))
        self._pool = Pool(self._without_cache)
        self.places = ModelPlaces(model)
        self._proved: dict[tuple[bool, bool], Place] = {}  # from which place on, with pictures or sounds, with a source
        self.recorded: set[str] = set()  # modules that need a `Recording`, as passes that were proved show; "" for all

    @classmethod
    def of(cls, model: TaskModel) -> "FrozenModel":
        """Return the frozen form of a model, cached until the model is copied anew."""
        cached = model.__dict__.get("_frozen_model")
        if cached is None or cached.module is not model.module:
            cached = model.__dict__["_frozen_model"] = cls(model)
        return cast(FrozenModel, cached)

    @property
    def head(self) -> Callable[..., Tensor] | None:
        """The head of a language model, at which a pass ends, so that the logits of a vocabulary need no memory."""
        if not self.model.task.outputs.vocabulary or self.model.parts.trunk is None:
            return None
        return self.model.head.tokens

    @property
    def tokens_kept(self) -> int:
        """Most tokens of a pass whose graph is kept; longer ones use gradient checkpointing."""
        return self.model.batch_tokens // GRAPH_MEMORY

    # --- passes ------------------------------------------------------------------------------------------------------

    def run(self, batch: Batch, reading: Reading, *, predict: bool = True) -> FrozenPass:
        """Run the frozen network once over a batch; its outputs are the model's own; see `TaskModel.run`."""
        with input_errors(self.module, batch.inputs), without_autocast(batch.inputs):
            return self._first_pass(batch, reading, predict) or self._run_copy(batch, reading, predict)

    def _is_long(self, batch: Batch) -> bool:
        """Return whether the layers of a pass are checkpointed, as a picture adds hundreds of tokens and an encoder."""
        source = batch.inputs["source"].numel() if batch.has_source else 0
        return bool(batch.media) or batch.mask.numel() + source > self.tokens_kept

    def _run_copy(self, batch: Batch, reading: Reading, predict: bool, proof: Conservation | None = None) -> FrozenPass:
        """Run a recorded copy over a batch, with readouts at places; unproved, a long pass keeps its layers' inputs."""
        parts, head, readouts = self.model.parts, self.head, dict[Place, Readout]()
        long = proof is None and self._is_long(batch)
        everywhere = long or proof is not None or "" in self.recorded
        instead = {} if everywhere else dict.fromkeys(self.recorded, call_recorded)
        with ExitStack() as stack:
            # A long pass keeps its copy, as its layers run again in the backward pass.
            copy = constant_clone(self._without_cache) if long else stack.enter_context(self._pool.lease())
            stack.enter_context(recorded(copy, proof) if everywhere else torch.enable_grad())
            replaced = stack.enter_context(self.places.replaced(batch, reading, readouts))
            if long:
                layers = {output.path for place, output in self.places.outputs(batch).items() if place.layer}
                # Replacements inside a layer would not be applied when the layer runs again.
                if not any(site.path.startswith(f"{layer}.") for site in replaced for layer in layers):
                    stack.enter_context(checkpointed(copy, layers, Recording))
            stop = None if head is None else parts.trunk_site
            recorded_pass = run(copy, batch.inputs, record=parts.sites, replace=replaced, instead=instead, stop=stop)
        if not readouts.keys() >= set(reading.places):
            raise no_states(self.module)
        if reading.sink_threshold is not None:
            hold_sinks(readouts, masks_of(batch), reading.sink_threshold)
        if head is None:
            answer = answer_of(recorded_pass.output)
        else:
            with torch.enable_grad():
                answer = parts.hidden(self.module, recorded_pass.last(parts.trunk_site))[:, : batch.mask.shape[1]]
        if answer is None:
            raise UnsupportedModelError(f"{self.name} returned no logits")
        with torch.no_grad():
            forward = self.model.read(batch, recorded_pass, predict=predict)
        return FrozenPass(
            **vars(forward), readouts=readouts, answer=answer, head=head, is_recorded=everywhere, proof=proof
        )

    # --- the proof ---------------------------------------------------------------------------------------------------

    def _first_pass(self, batch: Batch, reading: Reading, predict: bool) -> FrozenPass | None:
        """Prove the first pass of a kind, over the first text's beginning; return it if it is one that explains.

        A short text alone is proved by the very passes that explain it. A lower place has more of the model in the
        graph.
        """
        kind, lowest = (bool(batch.media), batch.has_source), min(set(reading.places) - {MEDIA})
        if kind in self._proved and self._proved[kind] <= lowest:
            return None
        # A signal is one input, not a sequence of tokens that could be cut; a prompt with pictures is read by itself.
        is_cut = self.model.task.outputs.vocabulary and not batch.source_is_signal
        sample = batch if batch.media else batch.rows(slice(1), PROOF_TOKENS if is_cut else None)
        is_whole = all(sample.inputs[name].shape == value.shape for name, value in batch.inputs.items())
        sample = batch if is_whole else sample
        dtype = getattr(self.module, "dtype", torch.float32)
        conservation = Conservation(dtype, partial(self._proved.__setitem__, kind, lowest))
        with full_float32() as is_changed:
            run = self._run_copy(sample, replace(reading, baseline=None, point=1.0), predict, conservation)
            self.recorded |= conservation.recorded
            self.frozen_answers_as_the_model(run)
            at_text = reading.point == 1.0 and reading.baseline is None
            is_explained = is_whole and at_text and not (is_changed or self._is_long(batch))
            if self.model.parts.trunk is not None:
                self._prove_head(run, Conservation(dtype))
            if self.model.parts.trunk is None or not is_explained:
                run = proved_by_random_sum(run)
            return run if is_explained else None

    def _prove_head(self, run: FrozenPass, conservation: Conservation) -> None:
        """Prove all outputs of the head, on the states that it reads in a pass; of a vocabulary some."""
        readout = Readout()
        pool = Pool(cast(PreTrainedModel, self._without_cache), partial(recorded, proof=conservation))
        head = Head(pool, self.model.parts.head)
        with torch.enable_grad():
            states = readout.read(run.hidden, enters=True)
            if run.head is None:
                answer = head.texts(states, run.batch.inputs)
            else:
                answer = head.tokens(answer_at(states, run.positions), self._first_text.rows)
        proved_by_random_sum(replace(run, readouts={WORDS: readout}, answer=answer, head=None, proof=conservation))

    @property
    def _first_text(self) -> FirstText:
        """The text with which the model's parts were found."""
        return cast(FirstText, self.model.copy.first_text)

    def _compared(self, answer: Tensor, batch: Batch) -> Tensor:
        """Return the logits of a pass that are compared, (1, C) or (1, T, C), of a vocabulary some, (1, T, R)."""
        rows = self._first_text.rows
        if self.head is not None:
            return self.head(batch.real(answer)[-MAX_TOKENS:], rows)[None].float()
        return (answer if rows is None else answer[..., rows]).float()

    @proof(
        compares="the frozen pass and the model's own logits, on the first text",
        tolerance=f"{SUM_ERROR} times rounding",
        why="every operation that is held constant gives its own value",
        when="first use of frozen-gradient; nothing more for a short text that was the model's first, alone; otherwise "
        "a plain pass, and a frozen one over the first of several texts",
    )
    def frozen_answers_as_the_model(self, run: FrozenPass) -> None:
        """Compare the answer of a frozen pass over one text with the model's own."""
        first, inputs = self._first_text, run.batch.inputs
        with torch.no_grad():
            answer = self._compared(run.answer.detach(), run.batch)
            is_same_text = first.inputs.keys() == inputs.keys() and all(
                torch.equal(first.inputs[name], inputs[name]) for name in inputs
            )
            # Alone it has answered as the model did beside another text.
            if is_same_text and not first.draws and largest_difference(answer, first.logits) <= batch_tolerance(answer):
                self.model.copy.proved_alone = True
                return
            self.model.prove_alone()  # the model's weights may have been trained since
            model_answer = self.model.answer(inputs) if self.head is None else self.model.states(run.batch)
            expected = self._compared(model_answer, run.batch)
        difference = largest_difference(answer, expected.to(answer.device))
        if not difference <= SUM_ERROR * tolerance_for(expected):
            raise UnsupportedModelError(
                f"{self.name} cannot be frozen: the pass gives another answer than the model, by {difference:.2g}"
            )
