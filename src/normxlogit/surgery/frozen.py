"""The frozen network: a model whose own forward pass is affine in what flows through it.

Let f(x) be what a model answers to the vectors x. At a given x, every operation is replaced by a linear map that gives
the same value: attention probabilities, the denominators of norms, the ratios f(x) / x of activations and the gates of
products are held as constants. What is left is affine, so that one backward pass gives f(x) = sum_i <g_i, x_i> + beta,
the exact share of each x_i in the answer and the share of all biases (Ali et al., 2022; Modarressi et al., 2023).

It is done by a `TorchFunctionMode` around the model's own forward, so no architecture is named. What is held in each
kind of operation is in `frozen_ops` and `frozen_layers`, which factor of a product in `frozen_products`.
"""

import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
from .frozen_proof import blocking, hiding, nonlinear
from .frozen_rules import PASS, Rule, flows
from .frozen_segments import run_again_on_the_way_back
from .memory import refuse_to_hide
from .same_answer import apart
from .trace import tensor_of, with_tensor

__all__ = ["FrozenNetwork", "Report"]

_MISSING: Any = object()
_RULES: dict[Any, Rule | None] = {}


@dataclass
class Report:
    """What was held in one frozen pass.

    Attributes:
        held: How often, by operation and what of it was held.
        leaf: What the module that the pass was frozen from returned, as a leaf; None for a whole pass.
    """

    held: Counter[tuple[str, str]] = field(default_factory=Counter)
    leaf: Tensor | None = None

    def __str__(self) -> str:
        return "\n".join(f"{function}: {held} ({count})" for (function, held), count in sorted(self.held.items()))


class _Mode(TorchFunctionMode):
    """Makes each function that is called linear in what flows through it."""

    def __init__(self, report: Report, paths: dict[int, str] | None = None) -> None:
        super().__init__()
        self.report = report
        self.fixed: dict[int, tuple[Parameter, Tensor]] = {}
        self.weights: dict[int, Parameter] = {}
        self.paths = paths
        self.places: dict[Any, tuple[str, str]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rule = _RULES.get(func, _MISSING)
        if rule is _MISSING:
            rule = _RULES[func] = rule_for(func)
        if rule is PASS:
            return func(*args, **kwargs) if kwargs else func(*args)
        for place, value in enumerate(args):
            if isinstance(value, Parameter) or value.__class__ in (tuple, list):
                args = (*args[:place], self.fix(value), *args[place + 1 :])
        kwargs = {name: self.fix(value) for name, value in kwargs.items()} if kwargs else {}
        result = func(*args, **kwargs) if rule is None else rule(self, func, args, kwargs)
        result = self.weights.get(id(result), result)  # `to` returns the weight where it is already there
        if self.paths is not None:
            self.place(func, result)
        return result

    def fix(self, value: Any) -> Any:
        """Take a weight for a constant, so that no graph is built for it."""
        if isinstance(value, Parameter):
            if not value.requires_grad:
                return value
            known = self.fixed.get(id(value))
            if known is None:
                known = self.fixed[id(value)] = (value, value.detach())
                self.weights[id(known[1])] = value
            return known[1]
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

    def place(self, func: Any, result: Any) -> None:
        """Note in which module the autograd node of a result was made."""
        node = getattr(result, "grad_fn", None) if isinstance(result, Tensor) else None
        while node is not None and node not in self.places:
            self.places[node] = (func.__name__, self.path())
            above = [parent for parent, _ in node.next_functions if parent is not None]
            node = above[0] if above and "AccumulateGrad" not in above[0].name() else None

    def path(self) -> str:
        """Find the module whose forward is running."""
        frame = sys._getframe(2)
        while frame is not None:
            path = (self.paths or {}).get(id(frame.f_locals.get("self")))
            if path is not None:
                return path
            frame = frame.f_back  # type: ignore[assignment]
        return ""


class _Held(threading.local):
    """What the current thread runs under."""

    mode: _Mode | None = None
    waiting: _Mode | None = None
    start: str | None = None
    calls: int = 0
    sparing: bool = False


class FrozenNetwork:
    """A model whose own forward pass can be made affine in what flows through it.

    Inside `frozen()`, put a tensor that requires a gradient through the model's forward, in evaluation mode and without
    `inference_mode`; what the model answers is then affine in it, and `torch.autograd.grad` gives the slope. Weights
    are constants and get no graph. Modes belong to a thread, so several threads may use one network.

    Args:
        model: A structural clone of the model for this network alone, in evaluation mode, whose activation modules
            are given another `forward`: outside `frozen()` it does what it did.

    Attributes:
        model: The clone.
        opened: Whether the model's own autograd functions are seen through; the proof finds out.

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
        self._held = _Held()
        self._lock = threading.Lock()
        self._hooked: set[str] = set()
        self._paths = {id(module): path for path, module in model.named_modules()}
        self.opened = False
        with torch.random.fork_rng(devices=[]):
            steps = [module for module in model.modules() if is_activation(module)]
        for module in steps:
            self._one_step(module)
        for module in model.modules():
            if (other := opened(module)) is not None:
                self._two_ways(module, other)

    @contextmanager
    def frozen(self) -> Iterator[Report]:
        """Freeze what runs in this thread and block.

        Yields:
            What was held, complete at the end of the block.
        """
        mode = _Mode(Report())
        with self._running(mode):
            yield mode.report

    def cut_at(self, paths: Iterable[str]) -> None:
        """Name the layers of which a pass inside `sparing()` keeps nothing but what they are given.

        Args:
            paths: Of modules none of which is inside another.
        """
        held = self._held
        for path in paths:
            run_again_on_the_way_back(
                self.model.get_submodule(path), lambda: held.sparing and held.mode is not None, self.frozen
            )

    @contextmanager
    def sparing(self) -> Iterator[None]:
        """Let frozen passes of this thread and block keep little; going back runs each layer again."""
        before, self._held.sparing = self._held.sparing, True
        try:
            yield
        finally:
            self._held.sparing = before

    def begin_at(self, path: str) -> None:
        """Let passes begin to be frozen where a module returns, see `frozen_from`; done once, by it if not before.

        Args:
            path: Of the module.
        """
        with self._lock:
            if path not in self._hooked:
                self._hooked.add(path)
                self.model.get_submodule(path).register_forward_hook(functools.partial(self._begin, path))

    @contextmanager
    def frozen_from(self, path: str, calls: int = 1) -> Iterator[Report]:
        """Freeze what runs in this thread and block after a module has returned; what is below it runs as it is.

        Nothing is kept of what is below, so the last layer costs little more than the forward pass.

        Args:
            path: Of a module that returns a tensor, or a tuple or list that begins with one, such as a layer.
            calls: Which of its calls in this block, where layers share one module.

        Yields:
            What was held; its `leaf` is what the module returned, there as soon as it did.

        Raises:
            UnsupportedModelError: At the end of the block, if the module was not called or returned no tensor.
        """
        self.begin_at(path)
        mode, held = _Mode(Report()), self._held
        before, held.waiting, held.start, held.calls = held.mode, mode, path, calls
        try:
            with torch.no_grad():
                yield mode.report
        finally:
            begun, held.waiting, held.start = held.mode is mode, None, None
            if begun:
                held.mode = before
                mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        if not begun:
            raise UnsupportedModelError(f"{type(self.model).__name__}: {path} returned no vectors to begin with")

    def _begin(self, path: str, _: nn.Module, __: Any, output: Any) -> Any:
        """Let the frozen pass begin with what a module returned."""
        held = self._held
        found = tensor_of(output)
        if held.waiting is None or held.start != path or found is None:
            return None
        held.calls -= 1
        if held.calls:
            return None
        mode, held.waiting = held.waiting, None
        held.mode = mode
        leaf = mode.report.leaf = found.detach().requires_grad_()
        torch.set_grad_enabled(True)
        mode.__enter__()  # type: ignore[no-untyped-call]
        return with_tensor(output, leaf.clone())  # some models work on it in place

    @contextmanager
    def _running(self, mode: _Mode) -> Iterator[None]:
        before, self._held.mode = self._held.mode, mode
        try:
            with torch.enable_grad(), mode:
                yield
        finally:
            self._held.mode = before

    def _one_step(self, module: nn.Module) -> None:
        """Let an activation module written in several operations be one, with f(x) / x held."""
        own, held = module.forward, self._held
        name = name_of(module)

        def forward(*args: Any, **kwargs: Any) -> Any:
            mode = held.mode
            if mode is None or len(args) != 1 or kwargs or not flows(args[0]):
                return own(*args, **kwargs)
            x, changes = args[0], bool(getattr(module, "inplace", False))
            with torch.no_grad(), torch._C.DisableTorchFunction():
                value = own(x.detach().clone() if changes else x.detach())
                mode.note(name, "f(x) / x")
                with torch.enable_grad():
                    result = maps.ratio(x, value, name)
                    return x.copy_(result) if changes else result

        module.__dict__["forward"] = forward

    def _two_ways(self, module: nn.Module, other: Callable[..., Any]) -> None:
        """Let a module be run with its autograd functions seen through, where the proof needs it."""
        own, held = module.forward, self._held

        def forward(*args: Any, **kwargs: Any) -> Any:
            return (other if self.opened and held.mode is not None else own)(*args, **kwargs)

        module.__dict__["forward"] = forward

    def prove(self, run: Callable[[], tuple[Tensor, Tensor]], own: Tensor, tolerance: float) -> Report:
        """Prove on one input that the frozen pass gives the model's own answer and is affine.

        Load the model with eager attention for it, or let it use `scaled_dot_product_attention`; attention kernels of
        other packages cannot be seen through.

        Args:
            run: Runs the model once and returns its answer, and the tensor that flows, a leaf.
            own: The model's own answer.
            tolerance: Largest allowed difference from it.

        Returns:
            What was held.

        Raises:
            UnsupportedModelError: If the answer is another, or is not affine; with the operation and its module.
        """
        try:
            return self._proved(run, own, tolerance)
        except UnsupportedModelError:
            if self.opened:
                raise
            try:  # once more, with the model's own autograd functions seen through
                self.opened = True
                return self._proved(run, own, tolerance)
            except Exception as error:
                self.opened = False
                refuse_to_hide(error)
            raise

    def _proved(self, run: Callable[[], tuple[Tensor, Tensor]], own: Tensor, tolerance: float) -> Report:
        mode = _Mode(Report(), self._paths)
        with self._running(mode):
            answer, leaf = run()
        name = type(self.model).__name__
        if not answer.requires_grad:
            raise UnsupportedModelError(f"{name} cannot be frozen: nothing flows from the input to the answer")
        difference = apart(answer.detach().float(), own.to(answer.device).float())
        if not difference <= tolerance:
            raise UnsupportedModelError(
                f"{name} cannot be frozen: the frozen pass gives another answer than the model, by {difference:.2g}"
            )
        if blocked := blocking(answer, mode.places):
            raise UnsupportedModelError(
                f"{name} cannot be frozen: no gradient flows through {', '.join(blocked[:3])}, as where weights and "
                "activations are quantised; load it in another precision, or use a method without gradients"
            )
        if hidden := hiding(answer, mode.places):
            raise UnsupportedModelError(
                f"{name} cannot be frozen: {', '.join(hidden[:3])} brings a backward pass of its own, as fused kernels "
                "do, which cannot be seen through; load the model without them"
            )
        try:
            culprits = nonlinear(answer, leaf, mode.places)
        except (AssertionError, NotImplementedError, RuntimeError) as error:
            refuse_to_hide(error)
            text = (str(error).strip().splitlines() or [""])[0]
            raise UnsupportedModelError(f"{name} cannot be frozen: it has no usual backward pass: {text}") from error
        if culprits:
            raise UnsupportedModelError(f"{name} cannot be frozen: not linear in what flows: {', '.join(culprits)}")
        return mode.report
