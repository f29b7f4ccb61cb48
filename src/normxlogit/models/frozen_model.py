"""A task model frozen at its forward pass: what each token contributes to its answers, proved on the first text."""

import inspect
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..errors import UnsupportedModelError
from ..inputs.batching import Batch
from ..surgery.autocast import without_autocast
from ..surgery.frozen import FrozenNetwork
from ..surgery.headpiece import answer_of
from ..surgery.layer_outputs import LayerOutput
from ..surgery.pool import WriteWatch, private_clone
from ..surgery.readout import Readout, attention_sinks, read_out
from ..surgery.same_answer import SUMS, tolerance_for
from ..surgery.trace import Axes, tensor_of, with_tensor
from .contributions import Contributions, contributions, read_once
from .embeddings import WordEmbeddings
from .forward_pass import ForwardPass, FrozenPass, no_states
from .proof import reading
from .targets import Target
from .task_model import TaskModel
from .tasks import at
from .token_tables import TokenTables, find_token_tables

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FrozenModel"]

LONG = 2048
"""Tokens of a pass beyond which its layers run again in the backward pass (gradient checkpointing)."""

PROOF_ROWS = 7
"""Vocabulary entries that the proof reads."""

PROOF_TOKENS = 512
"""Most tokens of a text that a language model is proved on: the proof goes back twice and keeps everything."""


@dataclass
class _Listening(threading.local):
    """What the hooks of the current thread's pass read.

    Attributes:
        wanted: Where to read, by module and by which of its calls in a pass: the place, and how its state is held.
        mask: Real tokens, (B, T), by whether the place is of a source.
        threshold: From how many times the median on a state is an attention sink; None for never.
        calls: How often each module was called.
        readouts: By place, what was read.
    """

    wanted: dict[tuple[str, int], tuple[int, Axes]] = field(default_factory=dict)
    mask: dict[bool, Tensor] = field(default_factory=dict)
    threshold: float | None = None
    calls: dict[str, int] = field(default_factory=dict)
    readouts: dict[int, Readout] = field(default_factory=dict)

    def read(self, path: str, output: Any) -> Any:
        """Read what a module returned, if it is wanted; returns what flows on."""
        self.calls[path] = self.calls.get(path, 0) + 1
        state = tensor_of(output)
        if (path, self.calls[path]) not in self.wanted or state is None:
            return None
        place, axes = self.wanted[path, self.calls[path]]
        sinks, mask = None, self.mask[place < 0]
        with torch._C.DisableTorchFunction():
            tokens = state.permute(axes).flatten(2)[:, : mask.shape[1]]  # (B, T, H), several streams side by side
            if self.threshold is not None and tokens.shape[:2] == mask.shape:
                sinks = attention_sinks(tokens, mask, self.threshold)
            flowing, self.readouts[place] = read_out(state, axes, sinks, length=mask.shape[1])
        return with_tensor(output, flowing)


class FrozenModel:
    """A task model whose own forward pass is affine in the word embeddings, or in the output of a layer.

    Args:
        model: The model, which has read something already.
        like: A frozen form of the same model, whose proof holds for this one.
    """

    def __init__(self, model: TaskModel, *, like: "FrozenModel | None" = None) -> None:
        self.model = model
        self.module = model.module
        self._embeddings = _word_embeddings(model)  # before the clone, which takes its hook along
        private = private_clone(model.module)
        self._network = FrozenNetwork(private)
        own = zip(private.buffers(), model.module.buffers(), strict=True)
        self._buffers = [(held, given) for held, given in own if held is not given]
        self._proved: bool = like is not None and like._proved
        self._network.opened = like is not None and like._network.opened
        self._token_tables: TokenTables = TokenTables(private, () if like is None else like._token_tables.paths)
        self._written = False
        self._watch: WriteWatch | None = None
        self._lock = threading.Lock()
        self._listening = _Listening()
        known = [*(model.parts.outputs or ()), *filter(None, [model.parts.embedding_output])]
        for path in {output.path for output in known}:
            self._network.begin_at(path)  # first, for a pass that begins there is read from there on
            self._listen(path)
        self._network.cut_at({output.path for output in model.parts.outputs or ()})

    @classmethod
    def of(cls, model: TaskModel) -> "Self":
        """Return the frozen form of a model, made once and anew when the model was taken apart anew."""
        found = model.__dict__.get("_frozen_model")
        kept = found if type(found) is cls else None
        same = kept is not None and kept.module is model.module
        if kept is None or not same or kept._written:
            kept = model.__dict__["_frozen_model"] = cls(model, like=kept if same else None)
        return kept

    def vectors(self, batch: Batch) -> Tensor:
        """Return the word embeddings of a batch, (B, T, H).

        Raises:
            UnsupportedModelError: If nothing can be put in their place.
        """
        if self._embeddings is None:
            raise UnsupportedModelError(
                f"{type(self.module).__name__} reads no word embeddings that others could take the place of, so there "
                "is no way to them from a baseline; points=1.0 and baseline=zero need none"
            )
        with torch.no_grad():
            return self._embeddings(batch.inputs["input_ids"].clone())

    def run(
        self,
        batch: Batch,
        places: Sequence[int],
        vectors: Tensor | None = None,
        *,
        sink_threshold: float | None = None,
        predict: bool = True,
    ) -> ForwardPass:
        """Run the frozen network once over a batch; its answers are the model's own.

        Args:
            batch: What to read.
            places: Where contributions will be wanted: 0 for the word embeddings, or layers.
            vectors: What is read in the place of the word embeddings, (B, T, H), if not they themselves.
            sink_threshold: From how many times the median of its layer on a hidden state counts as an attention sink,
                which is held where it leaves the layer; None holds none.
            predict: As for `TaskModel.run`.

        Raises:
            UnsupportedModelError: If the network is not affine once frozen, or a layer's output does not pass by.
        """
        self._prove(batch)
        model, network = self.model, self._network
        by_head = model.task.vocabulary and model.parts.trunk is not None  # a vocabulary's logits are not kept
        words = self._embeddings if 0 in places else None
        readouts: dict[int, Readout] = {}
        if words is None:
            first = self._output(min(places))
            begin = network.frozen_from(first.path, first.call)
        else:
            # Looked up before anything listens: XLNet's table is where its embeddings are heard.
            flowing, readouts[0] = read_out((self.vectors(batch) if vectors is None else vectors).detach())
            begin = network.frozen()
        with ExitStack() as stack:
            record = stack.enter_context(model.copy.recording(stop=by_head))
            seen = stack.enter_context(self._reading(places, batch, sink_threshold))
            stack.enter_context(reading(self.module, batch.inputs))
            stack.enter_context(without_autocast(batch.inputs))
            if words is not None:
                ids, leaf = batch.inputs["input_ids"], readouts[0].leaf
                stack.enter_context(words.given(flowing, ids))
                # What else is looked up for a token belongs to it: one leaf reads both contributions.
                stack.enter_context(self._token_tables.changed(ids, lambda rows: read_out(rows, leaf=leaf)[0]))
            stack.enter_context(begin)
            more: dict[str, Any] = {}
            if batch.mask.numel() > LONG:
                stack.enter_context(network.sparing())
                if "use_cache" in inspect.signature(type(self.module).forward).parameters:
                    more["use_cache"] = False  # a layer that runs again must not find what it left there
            with self._watched():
                outputs = network.model(**batch.inputs, **more)
        hidden = None if model.parts.trunk is None else model.parts.hidden(self.module, record.trunk)
        embedded = record.embedded
        record.trunk = record.embedded = None
        readouts |= seen
        start = model.parts.embedded(embedded, batch.mask.shape[1])
        if not readouts.keys() >= set(places):
            raise no_states(self.module)
        answer = hidden if by_head else answer_of(outputs)
        if answer is None:
            raise UnsupportedModelError(f"{type(self.module).__name__} returned no logits")
        with torch.no_grad():
            run = model.finish(
                batch,
                None if hidden is None else hidden.detach(),
                start.detach() if isinstance(start, Tensor) else start or no_states(self.module),
                None,
                None if by_head else answer.detach(),
                predict,
            )
        return replace(run, frozen=FrozenPass(readouts, answer))

    def contributions(self, run: ForwardPass, target: Target, places: Sequence[int]) -> Contributions:
        """Backpropagate through a frozen pass once for each target.

        Args:
            run: What `run` returned; it can be backpropagated through once.
            target: What is explained; of a vocabulary, each logit counts less the contrast's, or less the mean over
                the vocabulary.
            places: Where contributions are wanted.
        """
        frozen, positions = _frozen(run), run.positions
        single = (
            None if positions is None or positions.ndim > 1 else positions[:, None].expand(target.ids.shape)
        )  # (B, K)
        if target.task.vocabulary and single is not None and self.model.parts.trunk is not None:
            return self.contributions_each(run, target, places, single)
        answer = frozen.answer
        with without_autocast(run.batch.inputs):
            if positions is not None:
                # A copy, because autograd keeps no tensor that was made in inference mode.
                answer = at(answer, positions.to(answer.device).clone())  # (B, C)
            return contributions(target.quantity(answer.float()), frozen, places, single)

    def contributions_each(
        self,
        run: ForwardPass,
        target: Target,
        places: Sequence[int],
        read: Tensor,
        weights: Tensor | None = None,
    ) -> Contributions:
        """Backpropagate through a frozen pass of a language model, once for each place of the answers.

        Args:
            run: What `run` returned for B texts; it can be backpropagated through once.
            target: The G vocabulary entries read, (B, G); each logit counts less the contrast's, or less the mean over
                the vocabulary.
            places: Where contributions are wanted.
            read: Where the model answers, (B, G); negative where a text has fewer places, which count nothing.
            weights: Sums of the G quantities that are explained instead of each, (B, K, G).

        Returns:
            The contributions to G quantities, or to K sums.
        """
        frozen = _frozen(run)
        states = self.model.parts.by_token(frozen.answer, run.batch.mask.shape[1])  # (B, T, H)
        with without_autocast(run.batch.inputs):
            with self._network.frozen():
                answer = self.read_each(states, target, read, weights)  # (B, K)
            return contributions(answer, frozen, places, read if weights is None else read_once(read, weights))

    def read_each(self, states: Tensor, target: Target, read: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return what `contributions_each` explains, (B, K), of states that the head reads, (B, T, H)."""
        there = (read >= 0).to(states.device)  # (B, G)
        texts, order = there.nonzero(as_tuple=True)  # (N,), the N places of all texts
        places, rows = torch.stack([texts, read.to(states.device)[there]], 1).unique(dim=0, return_inverse=True)
        logits = self.model.parts.head.tokens(states[places[:, 0], places[:, 1]]).float()  # (P, V), P distinct places
        ids = target.ids.to(states.device)[there]  # (N,)
        if target.contrast is None:
            other = logits.mean(-1)[rows]  # (N,)
        else:
            other = logits[rows, target.contrast.to(states.device)[texts]]  # (N,)
        each = logits[rows, ids] - other  # (N,)
        answer = each.new_zeros(there.shape).index_put((texts, order), each)  # (B, G)
        return answer if weights is None else torch.einsum("bkg,bg->bk", weights.to(answer), answer)  # (B, K)

    def _output(self, layer: int) -> LayerOutput:
        outputs, embedded = self.model.parts.outputs, self.model.parts.embedding_output
        if layer == 0 and embedded is not None:
            return embedded
        if outputs is None or layer == 0:
            what = f"the output of layer {layer}" if layer else "the embeddings"
            hint = "; read_at=0 needs no layer, and normxlogit and logat score layers in another way" if layer else ""
            raise UnsupportedModelError(
                f"no module of {type(self.module).__name__} returns {what} as `hidden_states` has it, a state for each "
                f"token, so the frozen network cannot be read there{hint}"
            )
        return outputs[layer - 1]

    def _prove(self, batch: Batch) -> None:
        """Prove once, on the first text, that the frozen pass gives the model's answer and is affine."""
        with self._lock, without_autocast(batch.inputs):
            if self._proved:
                return
            inputs, mask = {name: value[:1] for name, value in batch.inputs.items()}, batch.mask[:1]
            place, rows = None, None
            if self.model.task.vocabulary:
                inputs = {name: value[:, :PROOF_TOKENS] for name, value in inputs.items()}
                place = mask[:, :PROOF_TOKENS].int().cumsum(-1).argmax(-1)  # (1,), the last token
                rows = (
                    torch.arange(PROOF_ROWS, device=place.device) * (self.model.vocabulary_size - 1) // (PROOF_ROWS - 1)
                )
            with torch.no_grad():
                own = self.model.answer(inputs, place, rows)  # (1, C), or (1, T, C)
            self._find_token_tables(inputs)
            trial = type(self)(self.model, like=self)  # what its pass writes on its modules must be in no answer
            trial._network.prove(lambda: trial._from_leaf(inputs, place, rows), own, SUMS * tolerance_for(own))
            self._network.opened, self._proved = trial._network.opened, True

    def _find_token_tables(self, inputs: dict[str, Tensor]) -> None:
        """Find what a model looks its token ids up in beside the word embeddings, before it is proved."""
        if self._embeddings is not None and "input_ids" in inputs:
            self._token_tables = TokenTables(self._network.model, find_token_tables(self.model, inputs))

    def _from_leaf(self, inputs: dict[str, Tensor], place: Tensor | None, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the answer to one text, and what flowed to it: word embeddings, or the embedding layer's output."""
        words, module = self._embeddings, self._network.model
        if words is not None:
            with torch.no_grad():
                leaf = words(inputs["input_ids"]).detach().clone()  # (1, T, H)
            leaf.requires_grad_()
            tables, ids = self._token_tables, inputs["input_ids"]
            zeros = (leaf - leaf.detach()).sum(-1, keepdim=True)  # (1, T, 1), for other rows to flow from the leaf too
            with words.given(leaf, ids), tables.changed(ids, lambda rows: rows + zeros.to(rows)):
                return self.model.answer(inputs, place, rows, module), leaf
        output, seen, leaves = self._output(0), [0], list[Tensor]()

        def begin(_: nn.Module, __: Any, returned: Any) -> Any:
            seen[0] += 1
            found = tensor_of(returned)
            if seen[0] != output.call or found is None:
                return None
            leaves.append(found.detach().clone().requires_grad_())
            return with_tensor(returned, leaves[0].clone())

        handle = module.get_submodule(output.path).register_forward_hook(begin)
        try:
            return self.model.answer(inputs, place, rows, module), leaves[0]
        finally:
            handle.remove()

    def _listen(self, path: str) -> None:
        listening = self._listening
        module = self._network.model.get_submodule(path)
        module.register_forward_hook(lambda _, __, output: listening.read(path, output))

    @contextmanager
    def _reading(self, places: Sequence[int], batch: Batch, threshold: float | None) -> Iterator[dict[int, Readout]]:
        """Read contributions at places in this thread and block, and at all layers above if sinks are to be held."""
        outputs = self.model.parts.outputs
        layers = {place for place in places if place or self._embeddings is None}
        if threshold is not None and outputs is not None:
            layers |= set(range(max(min(places), 1), len(outputs) + 1))
        wanted = {(o.path, o.call): (layer, o.axes) for layer, o in zip(layers, map(self._output, layers), strict=True)}
        with self._listen_for(wanted, {False: batch.mask}, threshold) as readouts:
            yield readouts

    @contextmanager
    def _listen_for(
        self, wanted: dict[tuple[str, int], tuple[int, Axes]], mask: dict[bool, Tensor], threshold: float | None
    ) -> Iterator[dict[int, Readout]]:
        listening = self._listening
        listening.wanted, listening.mask, listening.threshold = wanted, mask, threshold
        listening.calls, listening.readouts = {}, {}
        try:
            yield listening.readouts
        finally:
            listening.wanted, listening.readouts = {}, {}

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """See to it that what a pass in this block writes on its modules is no part of the next text's answer."""
        for held, given in self._buffers:  # its owner may have changed them in place, as training changes batch norms
            held.data.copy_(given)  # as data, for the watch to see only what passes write
        watch = self._watch = self._watch or WriteWatch(self._network.model)
        try:
            yield
        finally:
            self._written = self._written or watch.written()


def _frozen(run: ForwardPass) -> FrozenPass:
    if run.frozen is None:
        raise ValueError("the pass was not made by the frozen network")
    return run.frozen


def _word_embeddings(model: TaskModel) -> WordEmbeddings | None:
    """Return the word embeddings of a model; None where it reads none, as of pictures, sounds or characters."""
    try:
        return model.embeddings
    except UnsupportedModelError:
        return None
