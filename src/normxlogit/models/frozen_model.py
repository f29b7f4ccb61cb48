"""A task model frozen at its forward pass: the answers' slopes by what flows through it, proved on the first text."""

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
from ..surgery.frozen import FrozenNetwork
from ..surgery.headpiece import answer_of
from ..surgery.isolated import WriteWatch, private_clone, without_autocast
from ..surgery.layer_outputs import LayerOutput
from ..surgery.same_answer import SUMS, tolerance_for
from ..surgery.trace import hidden_of, tensor_of, with_tensor
from .embeddings import WordEmbeddings
from .forward_pass import ForwardPass, FrozenPass
from .proof import reading
from .targets import Target
from .task_model import TaskModel
from .tasks import at

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FrozenModel", "Slopes"]

AT_ONCE = 8
"""Quantities gone back from together: each holds gradients of its own."""

LONG = 2048
"""Tokens of a pass beyond which its layers run again on the way back, in the place of keeping what they worked out."""

PROOF_ROWS = 7
"""Vocabulary entries that the proof reads."""

PROOF_TOKENS = 512
"""Most tokens of a text that a language model is proved on: the proof goes back twice and keeps everything."""


@dataclass(frozen=True)
class Slopes:
    """What a frozen pass gives.

    Attributes:
        answer: The explained quantities, (B, K).
        states: By place (0 the word embeddings, l the output of layer l), what flows there, (B, T, H).
        gradients: By place, the slope of each of the K quantities, (B, T, H) each.
    """

    answer: Tensor
    states: dict[int, Tensor]
    gradients: dict[int, list[Tensor]]

    def only(self, place: int) -> "Slopes":
        """Return the same of one place."""
        return Slopes(self.answer, {place: self.states[place]}, {place: self.gradients[place]})


@dataclass
class _Seen(threading.local):
    """What the hooks of the current thread's pass saw."""

    calls: dict[str, int] = field(default_factory=dict)
    wanted: dict[tuple[str, int], int] = field(default_factory=dict)
    found: dict[int, Any] = field(default_factory=dict)


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
        self._written = False
        self._watch: WriteWatch | None = None
        self._lock = threading.Lock()
        self._seen = _Seen()
        known = [*(model.parts.outputs or ()), *filter(None, [model.parts.embedding_output])]
        for path in {output.path for output in known}:
            self._listen(path)
            self._network.begin_at(path)
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
        self, batch: Batch, places: Sequence[int], vectors: Tensor | None = None, *, predict: bool = True
    ) -> ForwardPass:
        """Run the frozen network once over a batch; its answers are the model's own.

        Args:
            batch: What to read.
            places: Where its slopes will be wanted: 0 for the word embeddings, or layers.
            vectors: What is read in the place of the word embeddings, (B, T, H), if not they themselves.
            predict: As for `TaskModel.run`.

        Raises:
            UnsupportedModelError: If the network is not affine once frozen, or a layer's output does not pass by.
        """
        self._prove(batch)
        model, network, seen = self.model, self._network, self._seen
        words = self._embeddings if 0 in places else None
        states: dict[int, Tensor] = {}
        if words is None:
            first = self._output(min(places))
            begin = network.frozen_from(first.path, first.call)
        else:
            # Looked up before anything listens: XLNet's table is where its embeddings are heard.
            states[0] = (self.vectors(batch) if vectors is None else vectors).detach().clone().requires_grad_()
            begin = network.frozen()
        with ExitStack() as stack:
            record = stack.enter_context(model.copy.recording(stop=model.task.vocabulary))
            stack.enter_context(self._listening(places))
            stack.enter_context(reading(self.module, batch.inputs))
            stack.enter_context(without_autocast(batch.inputs))
            if words is not None:
                stack.enter_context(words.given(states[0], batch.inputs["input_ids"]))
            report = stack.enter_context(begin)
            more: dict[str, Any] = {}
            if batch.mask.numel() > LONG:
                stack.enter_context(network.sparing())
                if "use_cache" in inspect.signature(type(self.module).forward).parameters:
                    more["use_cache"] = False  # a layer that runs again must not find what it left there
            with self._watched():
                outputs = network.model(**batch.inputs, **more)
        hidden, embedded = hidden_of(record.trunk), record.embedded
        record.trunk = record.embedded = None
        if report.leaf is not None:
            states[min(places)] = report.leaf
        states |= {place: state for place, state in seen.found.items() if place not in states}
        seen.found = {}
        tap = model.parts.embedding_tap
        if hidden is None or embedded is None or tap is None or len(states) != len(places):
            raise UnsupportedModelError(f"{type(self.module).__name__} does not give its layers' outputs")
        answer = hidden if model.task.vocabulary else answer_of(outputs)
        if answer is None:
            raise UnsupportedModelError(f"{type(self.module).__name__} returned no logits")
        with torch.no_grad():
            run = model.finish(
                batch,
                hidden.detach(),
                tap.read(embedded.detach(), batch.mask.shape[1]),
                None,
                None if model.task.vocabulary else answer.detach(),
                predict,
            )
        return replace(run, frozen=FrozenPass(states, answer))

    def slopes(self, run: ForwardPass, target: Target, places: Sequence[int]) -> Slopes:
        """Go back through a frozen pass once for each target.

        Args:
            run: What `run` returned; it can be gone back through once.
            target: What is explained.
            places: Where the slopes are wanted.
        """
        flowed = _flowed(run)
        with without_autocast(run.batch.inputs):
            answer = self._answer(run, flowed.answer, target)  # (B, K)
            return self._gone_back(answer, answer.sum(0), flowed, places)

    def slopes_each(
        self,
        run: ForwardPass,
        target: Target,
        places: Sequence[int],
        read: Tensor,
        weights: Tensor | None = None,
    ) -> Slopes:
        """Go back through a frozen pass of a causal language model, once for each place of the answers.

        Args:
            run: What `run` returned for B texts; it can be gone back through once.
            target: The G vocabulary entries read, (B, G); each logit counts less the contrast's, or less the mean over
                the vocabulary.
            places: Where the slopes are wanted.
            read: Where the model answers, (B, G); negative where a text has fewer places, which count nothing.
            weights: Sums of the G quantities that are explained instead of each, (B, K, G).

        Returns:
            The slopes of G quantities, or K sums.
        """
        flowed = _flowed(run)
        states = self.model.parts.by_token(flowed.answer, run.batch.mask.shape[1])  # (B, T, H)
        with without_autocast(run.batch.inputs):
            with self._network.frozen():
                answer = self.read_each(states, target, read, weights)  # (B, K)
            return self._gone_back(answer, answer.sum(0), flowed, places)

    def read_each(self, states: Tensor, target: Target, read: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return what `slopes_each` explains, (B, K), of states that the head reads, (B, T, H)."""
        there = (read >= 0).to(states.device)  # (B, G)
        texts, order = there.nonzero(as_tuple=True)  # (N,), the N places of all texts
        hidden = states[texts, read.to(states.device)[there]]  # (N, H)
        logits = self.model.parts.head.tokens(hidden).float()  # (N, V)
        ids = target.ids.to(states.device)[there]  # (N,)
        other = logits.mean(-1) if target.contrast is None else logits[:, target.contrast[0]]  # (N,)
        each = logits.gather(1, ids[:, None])[:, 0] - other  # (N,)
        answer = each.new_zeros(there.shape).index_put((texts, order), each)  # (B, G)
        return answer if weights is None else torch.einsum("bkg,bg->bk", weights.to(answer), answer)  # (B, K)

    def _gone_back(self, answer: Tensor, sums: Tensor, flowed: FrozenPass, places: Sequence[int]) -> Slopes:
        """Return the slopes of each of K sums over the texts, (K,), several at a time."""
        order = [flowed.states[place] for place in places]
        gradients: dict[int, list[Tensor]] = {place: [] for place in places}
        for start in range(0, len(sums), AT_ONCE):
            part = sums[start : start + AT_ONCE]  # (k,)
            last = start + AT_ONCE >= len(sums)
            found: Sequence[Tensor | None]
            if len(part) == 1:
                found = [
                    None if g is None else g[None]
                    for g in torch.autograd.grad(part[0], order, retain_graph=not last, allow_unused=True)
                ]
            else:
                each = torch.eye(len(part), dtype=part.dtype, device=part.device)
                found = torch.autograd.grad(
                    part, order, each, retain_graph=not last, allow_unused=True, is_grads_batched=True
                )
            for place, state, slopes in zip(places, order, found, strict=True):
                several = torch.zeros_like(state)[None].expand(len(part), *state.shape) if slopes is None else slopes
                gradients[place] += [self._shaped(slope, place) for slope in several]
        states = {place: self._shaped(state, place).detach() for place, state in zip(places, order, strict=True)}
        return Slopes(answer.detach(), states, gradients)

    def _answer(self, run: ForwardPass, answer: Tensor, target: Target) -> Tensor:
        """Return the explained quantities with their graph, (B, K), of what the pass answered with its own."""
        # A copy, because autograd keeps no tensor that was made in inference mode.
        positions = None if run.positions is None else run.positions.to(answer.device).clone()
        if target.task.vocabulary and positions is not None:
            rows, target = target.rows()
            hidden = self.model.parts.by_token(answer, run.batch.mask.shape[1])  # (B, T, H)
            texts = torch.arange(len(hidden), device=hidden.device)
            with self._network.frozen():
                answer = self.model.parts.head.tokens(hidden[texts, positions], rows)  # (B, R)
        elif positions is not None:
            answer = at(answer, positions)  # (B, C)
        return target.read(answer.float())

    def _shaped(self, held: Tensor, place: int) -> Tensor:
        """Bring what a module holds into the order (b, T, H)."""
        if place == 0 and self._embeddings is not None:
            return held
        return held.permute(self._output(place).axes).flatten(2)  # several streams side by side

    def _output(self, layer: int) -> LayerOutput:
        outputs, embedded = self.model.parts.outputs, self.model.parts.embedding_output
        if layer == 0 and embedded is not None:
            return embedded
        if outputs is None or layer == 0:
            what = f"the output of layer {layer}" if layer else "the embeddings"
            raise UnsupportedModelError(
                f"no module of {type(self.module).__name__} returns {what} as `hidden_states` has it, a state for each "
                "token, so the frozen network cannot be read there; read_at=0 needs no layer, and normxlogit and logat "
                "score layers in another way"
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
            trial = type(self)(self.model)  # what a pass of the proof writes on its modules must be in no answer
            trial._network.prove(lambda: trial._from_leaf(inputs, place, rows), own, SUMS * tolerance_for(own))
            self._network.opened, self._proved = trial._network.opened, True

    def _from_leaf(self, inputs: dict[str, Tensor], place: Tensor | None, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the answer to one text, and what flowed to it: word embeddings, or the embedding layer's output."""
        words, module = self._embeddings, self._network.model
        if words is not None:
            with torch.no_grad():
                leaf = words(inputs["input_ids"]).detach().clone()  # (1, T, H)
            leaf.requires_grad_()
            with words.given(leaf, inputs["input_ids"]):
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
        seen = self._seen

        def after(_: nn.Module, __: Any, output: Any) -> None:
            seen.calls[path] = seen.calls.get(path, 0) + 1
            place = seen.wanted.get((path, seen.calls[path]))
            if place is not None:
                seen.found[place] = tensor_of(output)

        self._network.model.get_submodule(path).register_forward_hook(after)

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

    def _listening(self, places: Sequence[int]) -> "_Listening":
        wanted = {(self._output(p).path, self._output(p).call): p for p in places if p or self._embeddings is None}
        return _Listening(self._seen, wanted)


def _flowed(run: ForwardPass) -> FrozenPass:
    if run.frozen is None:
        raise ValueError("the pass was not made by the frozen network")
    return run.frozen


class _Listening:
    """Lets the hooks of the current thread's pass note the outputs of layers."""

    def __init__(self, seen: _Seen, wanted: dict[tuple[str, int], int]) -> None:
        self._seen, self._wanted = seen, wanted

    def __enter__(self) -> None:
        self._seen.calls, self._seen.wanted, self._seen.found = {}, self._wanted, {}

    def __exit__(self, *_: object) -> None:
        self._seen.wanted = {}


def _word_embeddings(model: TaskModel) -> WordEmbeddings | None:
    """Return the word embeddings of a model; None where it reads none, as of pictures, sounds or characters."""
    if model.task.signal:
        return None
    try:
        return model.embeddings
    except UnsupportedModelError:
        return None
