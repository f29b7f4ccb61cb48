"""The frozen network: the model's own forward pass with every non-linear factor held constant.

Let f(x) be what a model answers to the vectors x. At a given x, every operation is replaced by a linear map that gives
the same value: attention probabilities, the denominators of norms, the ratios f(x) / x of activations and the gates of
products are held as constants. What is left is affine, so that one backward pass gives f(x) = sum_i <g_i, x_i> + beta,
the exact share of each x_i in the answer and the share of all biases (Ali et al., 2022; Modarressi et al., 2023).

It is done by a `TorchFunctionMode` around the model's own forward, so no architecture is named. What is held in each
kind of operation is in `frozen_ops` and `frozen_layers`, which factor of a product in `frozen_products`.
"""

import itertools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

from ..errors import UnsupportedModelError
from . import frozen_maps as maps
from .frozen_modules import is_activation, name_of, opened
from .frozen_ops import rule_for
from .frozen_proof import (
    functions_with_their_own_backward,
    nodes_of,
    operations_that_are_not_linear,
    operations_without_gradient,
)
from .frozen_rules import PASS, Rule, flows
from .frozen_segments import run_again_in_the_backward_pass
from .memory import refuse_to_hide
from .proofs import frozen_answers_as_the_model
from .run import Pass, Replace, Site, in_turn, run
from .trace import tensor_of, with_tensor

_MISSING: Any = object()
_RULES: dict[Any, Rule | None] = {}


@dataclass
class Report:
    """What was held in one frozen pass.

    Attributes:
        held: How often, by operation and what of it was held.
        leaf: What the module that the pass was frozen from returned, as a leaf; None for a whole pass.
        places: By autograd node, which function made it and in which module; None where it is not noted.
    """

    held: Counter[tuple[str, str]] = field(default_factory=Counter)
    leaf: Tensor | None = None
    places: dict[Any, tuple[str, str]] | None = None

    def __str__(self) -> str:
        return "\n".join(f"{function}: {held} ({count})" for (function, held), count in sorted(self.held.items()))


class _Mode(TorchFunctionMode):
    """A function mode that makes each call of torch linear in the tensors that depend on the input."""

    def __init__(self, report: Report, paths: dict[int, str]) -> None:
        super().__init__()
        self.report = report
        self.fixed: dict[int, tuple[Parameter, Tensor]] = {}
        self.weights: dict[int, Parameter] = {}
        self.paths = paths

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rule = _RULES.get(func, _MISSING)
        if rule is _MISSING:
            rule = _RULES[func] = rule_for(func)
        if rule is PASS:
            return func(*args, **kwargs) if kwargs else func(*args)
        for index, value in enumerate(args):
            if isinstance(value, Parameter) or value.__class__ in (tuple, list):
                args = (*args[:index], self.fix(value), *args[index + 1 :])
        kwargs = {name: self.fix(value) for name, value in kwargs.items()} if kwargs else {}
        result = func(*args, **kwargs) if rule is None else rule(self, func, args, kwargs)
        result = self.weights.get(id(result), result)  # `to` returns the weight where it is already there
        if self.report.places is not None:
            self.place(func, result, self.report.places)
        return result

    def fix(self, value: Any) -> Any:
        """Detach a weight, so that no graph is built for it."""
        if isinstance(value, Parameter):
            if not value.requires_grad:
                return value
            entry = self.fixed.get(id(value))
            if entry is None:
                entry = self.fixed[id(value)] = (value, value.detach())
                self.weights[id(entry[1])] = value
            return entry[1]
        if value.__class__ in (list, tuple) and any(isinstance(part, Parameter) for part in value):
            return type(value)(map(self.fix, value))
        return value

    def note(self, function: str, held: str) -> None:
        """Count something that was held."""
        self.report.held[function, held] += 1

    def inside(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function with the mode on."""
        with self:
            return function(*args, **kwargs)

    def place(self, func: Any, result: Any, places: dict[Any, tuple[str, str]]) -> None:
        """Note in which module the autograd node of a result was made."""
        node = getattr(result, "grad_fn", None) if isinstance(result, Tensor) else None
        while node is not None and node not in places:
            places[node] = (func.__name__, self.path())
            above = [parent for parent, _ in node.next_functions if parent is not None]
            node = above[0] if above and "AccumulateGrad" not in above[0].name() else None

    def path(self) -> str:
        """Find the module whose forward is running."""
        frame = sys._getframe(2)
        while frame is not None:
            path = self.paths.get(id(frame.f_locals.get("self")))
            if path is not None:
                return path
            frame = frame.f_back  # type: ignore[assignment]
        return ""


class _Current(threading.local):
    """The function mode of the current thread.

    Of each thread its own: backward passes on a GPU run on a thread of autograd's, where layers under gradient
    checkpointing run again and are frozen anew.
    """

    mode: _Mode | None = None


_current = _Current()


class FrozenNetwork:
    """A model whose own forward pass can be made affine in the hidden states.

    Inside `frozen()`, put a tensor that requires a gradient through the model's forward, in evaluation mode and without
    `inference_mode`; what the model answers is then affine in it, and `torch.autograd.grad` gives the slope. Weights
    are constants and get no graph.

    Args:
        model: A structural clone of the model for this network alone, in evaluation mode, whose activation modules
            are given another `forward`: outside `frozen()` it does what it did.

    Attributes:
        opened: Whether autograd differentiates inside the model's custom functions; set by the proof.

    Example:
        network = FrozenNetwork(clone(model))
        x = model.get_input_embeddings()(ids).detach().requires_grad_()
        with network.frozen() as report:
            logit = network.model(inputs_embeds=x).logits[0, 1]
        (slope,) = torch.autograd.grad(logit, x)
        scores = (slope * x).sum(-1)
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._cut: set[str] = set()
        self._sparing = False
        self.opened = False
        with torch.random.fork_rng(devices=[]):
            steps = [module for module in model.modules() if is_activation(module)]
        for module in steps:
            self._one_step(module)
        for module in model.modules():
            if (other := opened(module)) is not None:
                self._two_ways(module, other)
            config: Any = getattr(module, "config", None)
            if hasattr(config, "use_cache"):
                config.use_cache = False  # a layer that runs again must not find the keys that it left

    @contextmanager
    def frozen(self, report: Report | None = None) -> Iterator[Report]:
        """Freeze what runs in this thread and block.

        Args:
            report: Of a pass that goes on here; a new one if not given.

        Yields:
            What was held, complete at the end of the block.
        """
        mode = _Mode(report or Report(), self._paths)
        with _running(mode):
            yield mode.report

    def cut_at(self, paths: Iterable[str]) -> None:
        """Name the layers that a sparing pass runs under gradient checkpointing.

        Args:
            paths: Of modules none of which is inside another.
        """
        for path in set(paths) - self._cut:
            self._cut.add(path)
            module = self.model.get_submodule(path)
            run_again_in_the_backward_pass(module, lambda: self._sparing and _current.mode is not None, self.frozen)

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        record: Iterable[Site] = (),
        replace: Mapping[str, Replace] | None = None,
        stop: Site | None = None,
        begin: Site | None = None,
        sparing: bool = False,
        report: Report | None = None,
    ) -> Pass:
        """Run one frozen forward pass.

        Args:
            inputs: The model's inputs.
            record: As for `surgery.run`, as `replace` and `stop` are.
            replace: What takes the place of which modules' outputs.
            stop: Where the pass ends.
            begin: At which output of a module the pass begins to be frozen, such as a layer's; None for a pass that is
                frozen as a whole. What is below runs as it is and nothing is kept of it, so the last layer costs
                little more than the forward pass.
            sparing: Keep little: layers named to `cut_at` run again in the backward pass, unless something inside one
                is replaced.
            report: Filled by the pass; `leaf` is what the module returned that it began with.
        """
        replace = replace or {}
        # What is replaced inside a layer would not be replaced when the layer runs again.
        sparing = sparing and not any(path.startswith(f"{cut}.") for path in replace for cut in self._cut)
        mode, before = _Mode(report or Report(), self._paths), self._sparing
        self._sparing = sparing
        try:
            with ExitStack() as stack:
                if begin is None:
                    stack.enter_context(_running(mode))
                else:
                    stack.enter_context(torch.no_grad())
                    replace = in_turn({begin.path: _begin(begin, mode, stack)}, replace)
                done = run(self.model, inputs, record=record, replace=replace, stop=stop)
        finally:
            self._sparing = before
        if begin is not None and mode.report.leaf is None:
            raise UnsupportedModelError(f"{type(self.model).__name__}: {begin.path} returned no vectors to begin with")
        return done

    def _one_step(self, module: nn.Module) -> None:
        """Treat an activation module made of several operations as one, with f(x) / x held."""
        original, name = module.forward, name_of(module)

        def forward(*args: Any, **kwargs: Any) -> Any:
            mode = _current.mode
            if mode is None or len(args) != 1 or kwargs or not flows(args[0]):
                return original(*args, **kwargs)
            x, changes = args[0], bool(getattr(module, "inplace", False))
            with torch.no_grad(), torch._C.DisableTorchFunction():
                signal = maps.off_zero(x.detach(), name)
                value = original(signal.clone() if changes else signal)
                mode.note(name, "f(x) / x")
                with torch.enable_grad():
                    result = maps.ratio(x, value, name)
                    return x.copy_(result) if changes else result

        module.__dict__["forward"] = forward

    def _two_ways(self, module: nn.Module, other: Callable[..., Any]) -> None:
        """Let a module run with its custom autograd functions opened, where the proof needs it."""
        original = module.forward

        def forward(*args: Any, **kwargs: Any) -> Any:
            return (other if self.opened and _current.mode is not None else original)(*args, **kwargs)

        module.__dict__["forward"] = forward

    def prove(
        self, attempt: Callable[[Report], tuple[Tensor, Sequence[Tensor]]], model_answer: Tensor, tolerance: float
    ) -> Report:
        """Prove on one pass that it gives the model's own answer and is affine.

        Load the model with eager attention for it, or let it use `scaled_dot_product_attention`; attention kernels of
        other packages cannot be differentiated inside.

        Args:
            attempt: Runs the model once, frozen, with the report that it is given; returns its answer, and the leaves
                from which it flows. The graph is kept.
            model_answer: The model's own answer.
            tolerance: Largest allowed difference from it.

        Returns:
            What was held.

        Raises:
            UnsupportedModelError: If the answer is another, or is not affine; with the operation and its module.
        """
        with suppress(UnsupportedModelError):
            return self._proved(attempt, model_answer, tolerance, Report())
        if not self.opened:
            try:  # once more, differentiating inside the model's custom autograd functions
                self.opened = True
                return self._proved(attempt, model_answer, tolerance, Report())
            except Exception as error:
                self.opened = False
                refuse_to_hide(error)
        return self._proved(attempt, model_answer, tolerance, Report(places={}))  # to name the operation

    def _proved(
        self,
        attempt: Callable[[Report], tuple[Tensor, Sequence[Tensor]]],
        model_answer: Tensor,
        tolerance: float,
        report: Report,
    ) -> Report:
        places = {} if report.places is None else report.places
        answer, leaves = attempt(report)
        name = type(self.model).__name__
        if not answer.requires_grad:
            raise UnsupportedModelError(f"{name} cannot be frozen: nothing flows from the input to the answer")
        nodes = nodes_of(answer)
        if blocked := operations_without_gradient(nodes, places):
            raise UnsupportedModelError(
                f"{name} cannot be frozen: no gradient flows through {', '.join(blocked[:3])}, as where weights and "
                "activations are quantised; load it in another precision, or use a method without gradients"
            )
        difference = frozen_answers_as_the_model(
            answer.detach().float(), model_answer.to(answer.device).float(), tolerance
        )
        if difference is not None:
            raise UnsupportedModelError(
                f"{name} cannot be frozen: the frozen pass gives another answer than the model, by {difference:.2g}"
            )
        if hidden := functions_with_their_own_backward(nodes, places):
            raise UnsupportedModelError(
                f"{name} cannot be frozen: {', '.join(hidden[:3])} brings a backward pass of its own, as fused kernels "
                "do, which hides what its slope depends on; load the model without them"
            )
        try:
            culprits = operations_that_are_not_linear(answer, leaves, places)
        except (AssertionError, NotImplementedError, RuntimeError) as error:
            refuse_to_hide(error)
            text = (str(error).strip().splitlines() or [""])[0]
            raise UnsupportedModelError(f"{name} cannot be frozen: it has no usual backward pass: {text}") from error
        if culprits:
            raise UnsupportedModelError(f"{name} cannot be frozen: not linear in what flows: {', '.join(culprits)}")
        return report


@contextmanager
def _running(mode: _Mode) -> Iterator[None]:
    before, _current.mode = _current.mode, mode
    try:
        with torch.enable_grad(), mode:
            yield
    finally:
        _current.mode = before


def _begin(site: Site, mode: _Mode, stack: ExitStack) -> Replace:
    """Return the replacement that starts freezing a pass at a module's output at one of its calls."""
    calls = itertools.count(1)

    def begin(output: Any, _: Any, __: Any) -> Any:
        state = tensor_of(output)
        if next(calls) != site.call or state is None:
            return None
        stack.enter_context(_running(mode))
        leaf = mode.report.leaf = state.detach().requires_grad_()
        return with_tensor(output, leaf.clone())  # some models work on it in place

    return begin
