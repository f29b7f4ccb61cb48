"""Run a forward pass of a copy with hooks: record, replace or skip modules, or stop at one.

It runs in the model's own precision, whatever autocast the caller has on. Hooks are registered here and nowhere else,
for one pass. The backward pass outlives it: what runs again in it, under gradient checkpointing, runs without hooks.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from .clone import Forward, clone
from .snapshot import Snapshot

MAX_PRIVATE_ELEMENTS = 1_000_000
"""Elements of the largest buffer that a private clone copies; larger ones are quantised weights."""

MAX_IDLE_COPIES = 8

RUNNING = "_normxlogit_running"
"""Attribute that marks a copy while it runs."""

Model = TypeVar("Model", bound=nn.Module)

Inputs = Mapping[str, Any]
"""The arguments of a forward pass, by name; (B, ...) each, if they are tensors."""

TensorInputs = Mapping[str, Tensor]
"""Arguments of a forward pass that are tensors, by name."""

States = tuple[Tensor, ...]
"""The embedding layer's output and each layer's, (B, T, H)."""


def as_batch(inputs: TensorInputs, device: torch.device) -> dict[str, Tensor]:
    """Return the inputs of one signal as a batch of it alone, (1, ...) each.

    Args:
        inputs: The inputs, by name, without the batch axis.
        device: Where the batch goes.
    """
    return {name: value[None].to(device) for name, value in inputs.items()}


class PooledCopy(Generic[Model]):
    """A copy that passes use one after the other, and what shows whether one of them has changed it.

    Args:
        copy: The copy, a `constant_clone` of the model.
        model: The model, whose weights and buffers have the values that the copy should have.
    """

    def __init__(self, copy: Model, model: Model) -> None:
        self.copy = copy
        buffers = zip(copy.buffers(), model.buffers(), strict=True)
        # As `.data`, on which `refresh` may write without the counter of changes that belongs to the buffer.
        self._private_buffers = [(copied.data, original) for copied, original in buffers if copied is not original]
        weights = zip(copy.parameters(), model.parameters(), strict=True)
        self._constant_weights = [(copied, original) for copied, original in weights if copied is not original]
        self._snapshot = Snapshot(copy, configs=False)
        self._buffers = list(copy.buffers())
        self._first_counts = self._change_counts()

    def refresh(self) -> None:
        """Update the copy to the model's values, as training changes buffers and the data of weights."""
        for copied, original in self._private_buffers:
            copied.copy_(original)
        for copied, original in self._constant_weights:
            if copied.data_ptr() != original.data_ptr():
                copied.data = original.data

    @property
    def clean(self) -> bool:
        """Whether no pass has changed an attribute or a buffer of the copy."""
        return self._change_counts() == self._first_counts and self._snapshot.unchanged()

    def _change_counts(self) -> list[int]:
        """Return the in-place change counter of each buffer."""
        return [0 if buffer.is_inference() else buffer._version for buffer in self._buffers]


class Pool(Generic[Model]):
    """Private clones of a model, each for one pass at a time; new ones are made if all are in use.

    Args:
        model: The model.
        around: Returns the context in which a clone is leased.
    """

    def __init__(self, model: Model, around: Callable[[Model], AbstractContextManager[Any]] = nullcontext) -> None:
        self.model = model
        self.around = around
        self._idle: list[PooledCopy[Model]] = []

    @contextmanager
    def lease(self) -> Iterator[Model]:
        """Use a copy for one pass in a `with` block; it is discarded afterwards if the pass has changed it."""
        try:
            pooled = self._idle.pop()
        except IndexError:
            pooled = PooledCopy(constant_clone(self.model), self.model)
        else:
            pooled.refresh()
        try:
            with self.around(pooled.copy):
                yield pooled.copy
        finally:
            if len(self._idle) < MAX_IDLE_COPIES and pooled.clean:
                self._idle.append(pooled)


ModelPool = Pool[PreTrainedModel]
"""Clones of a model of transformers, or of a module that was given the form of one."""


def constant_clone(model: Model) -> Model:
    """Return a private clone whose weights, on the model's own storage, are constants: no graph is built for them."""
    copied = private_clone(model)
    constants = dict[int, nn.Parameter]()
    for module in copied.modules():
        weights = module.__dict__["_parameters"]
        for name, weight in weights.items():
            if weight is not None and weight.requires_grad and type(weight) is nn.Parameter:
                weights[name] = constants.setdefault(id(weight), nn.Parameter(weight.detach(), requires_grad=False))
    return copied


def private_clone(model: Model) -> Model:
    """Return a clone with buffers of its own, except large ones, so that one pass does not leak into others."""
    copied = clone(model)
    with torch.inference_mode(False), torch.no_grad():  # tensors made in inference mode do not count their changes
        private: dict[int, Tensor] = {}  # by the id of the buffer, as several modules may share it
        for module in copied.modules():
            table = module.__dict__["_buffers"]
            for name, value in table.items():
                if value is not None and not value.is_meta and value.numel() <= MAX_PRIVATE_ELEMENTS:
                    table[name] = private.setdefault(id(value), value.clone())
    return cast(Model, copied)


class CallArguments(NamedTuple):
    """The arguments of a module's call."""

    args: tuple[Any, ...]
    kwargs: Inputs

    @property
    def main_input(self) -> Any:
        """The module's main input: its first argument, or by name that of layers in transformers."""
        if self.args:
            return self.args[0]
        return self.kwargs.get("hidden_states", next(iter(self.kwargs.values()), None))


Replace = Callable[[Any, CallArguments], Any]
"""Called with a module's output and arguments; returns a replacement, or None to leave the output."""

Instead = Callable[..., Any]
"""Called instead of a module, with the module's own call (with the owner's hooks) and the arguments."""


@dataclass(frozen=True)
class Site:
    """A module's input or output, at one or all of its calls."""

    path: str  # where the module is in the copy
    call: int = 1  # which of its calls in the pass, counted from 1; 0 for all of them, as a list
    is_input: bool = False  # its main input, after the hooks of the model's owner, and not its output


Replacements = Mapping[Site, Replace]
"""What is called at which sites."""


@dataclass
class Pass:
    """The output and the recorded values of a forward pass."""

    output: Any = None  # the output of the model; None if the pass was stopped
    recorded: dict[Site, Any] = field(default_factory=dict)  # the values; nothing for a call that did not happen

    def last(self, site: Site | None) -> Any:
        """Return the recorded value of the last call; None if there is none."""
        if site is None:
            return None
        value = self.recorded.get(site)
        is_of_all_calls = site.call == 0
        return value[-1] if is_of_all_calls and value else value


class _Stop(BaseException):
    """Ends a forward pass; not an `Exception`, so that a model's own `except Exception` does not swallow it."""


def run(
    copy: nn.Module,
    inputs: Inputs,
    *,
    record: Iterable[Site] = (),
    replace: Replacements | None = None,
    instead: Mapping[str, Instead] | None = None,
    stop: Site | None = None,
    call: Forward | None = None,
) -> Pass:
    """Run one forward pass of a copy, which nothing else runs meanwhile.

    Args:
        copy: The copy, which is as it was after the pass.
        inputs: The arguments of its forward, by name.
        record: What is recorded; a value that is replaced is recorded after its replacement.
        replace: Functions that change the output of a module.
        instead: Functions that are called instead of a module, by its path; it runs only if the function calls it.
        stop: Where the pass ends; that, too, is recorded.
        call: A function to call instead of the copy, such as one of its layers.

    Returns:
        The output, None if the pass was stopped, and what was recorded.

    Raises:
        RuntimeError: If the copy runs already.
    """
    if RUNNING in copy.__dict__:
        raise RuntimeError("a copy is run by one pass at a time; lease another one")
    result = Pass()
    with contextlib.ExitStack() as stack, contextlib.suppress(_Stop):
        stack.callback(torch.set_grad_enabled, torch.is_grad_enabled())  # a pass that ends early may leave it changed
        copy.__dict__[RUNNING] = True
        stack.callback(copy.__dict__.pop, RUNNING)
        hooks: dict[str, _Hooks] = {}
        for site, function in (replace or {}).items():
            hooks.setdefault(site.path, _Hooks(result, stop)).replacements.append((site.call, function))
        for site in dict.fromkeys(record if stop is None else (*record, stop)):
            hooks.setdefault(site.path, _Hooks(result, stop)).sites.append(site)
        for path, hooks_of_module in hooks.items():
            hooks_of_module.register(copy.get_submodule(path), stack)
        for path, function in (instead or {}).items():
            _call_instead(copy.get_submodule(path), path, function, stack)
        with without_autocast(inputs):
            result.output = (copy if call is None else call)(**inputs)
    return result


def _call_instead(module: nn.Module, path: str, function: Instead, stack: contextlib.ExitStack) -> None:
    """Let a function be called instead of a module until an exit stack is closed."""
    if "_call_impl" in module.__dict__:
        raise RuntimeError(f"something is called instead of {path} under another path already")
    # Looked up by torch's wrapper of calls; the module's hooks and a forward of its owner's stay as they are.
    module.__dict__["_call_impl"] = partial(function, module._call_impl)
    stack.callback(module.__dict__.pop, "_call_impl")


@dataclass
class _Hooks:
    """The hooks of one module, which record into `result`."""

    result: Pass
    stop: Site | None
    sites: list[Site] = field(default_factory=list)  # what is recorded
    replacements: list[tuple[int, Replace]] = field(default_factory=list)  # by the call that they change, 0 for all
    calls_begun: int = 0
    calls_ended: int = 0

    def register(self, module: nn.Module, stack: contextlib.ExitStack) -> None:
        """Register the hooks until an exit stack is closed."""
        if any(site.is_input for site in self.sites):
            stack.callback(module.register_forward_pre_hook(self.on_call, with_kwargs=True).remove)
        if self.replacements or not all(site.is_input for site in self.sites):
            stack.callback(module.register_forward_hook(self.on_return, with_kwargs=True).remove)

    def on_call(self, _: nn.Module, args: Any, kwargs: Inputs) -> None:
        """Record the module's main input."""
        self.calls_begun += 1
        for site in self.sites:
            if site.is_input:
                self._record(site, self.calls_begun, CallArguments(args, kwargs).main_input)

    def on_return(self, _: nn.Module, args: Any, kwargs: Inputs, output: Any) -> Any:
        """Replace the module's output, and record it."""
        self.calls_ended += 1
        for call, replace in self.replacements:
            changed = replace(output, CallArguments(args, kwargs)) if call in (0, self.calls_ended) else None
            output = output if changed is None else changed
        for site in self.sites:
            if not site.is_input:
                self._record(site, self.calls_ended, output)
        return output

    def _record(self, site: Site, count: int, value: Any) -> None:
        """Record the value of a module's call if the site names it; end the pass at the stop.

        Args:
            site: What is recorded.
            count: Which of the module's calls it is, counted from 1.
            value: The module's main input or output.
        """
        if site.call == 0:
            self.result.recorded.setdefault(site, []).append(value)
        elif site.call == count:
            self.result.recorded[site] = value
        if site == self.stop and count >= site.call:  # of all calls, the first one
            raise _Stop


# --- the model's own precision --------------------------------------------------------------------------------------


def without_autocast(inputs: Inputs) -> contextlib.AbstractContextManager[Any]:
    """Disable autocast inside the block, for the device of the inputs."""
    if not torch._C._is_any_autocast_enabled():  # a mode that records the pass would see the device being asked for
        return contextlib.nullcontext()
    return torch.autocast(_device_of(inputs), enabled=False)


def autocast_note(inputs: Inputs, dtype: torch.dtype | None) -> tuple[str, ...]:
    """Return a note if the caller has enabled autocast, in which the model's outputs would differ.

    Args:
        inputs: The inputs, on the model's device.
        dtype: The precision of the model; None if it is not known.
    """
    if not torch.is_autocast_enabled(_device_of(inputs)):
        return ()
    precision = "" if dtype is None else f", {str(dtype).removeprefix('torch.')}"
    return (f"explained in the model's own precision{precision}; in autocast, which is on here, it answers otherwise",)


def _device_of(inputs: Inputs) -> str:
    """Return the type of the inputs' device."""
    return next((value.device.type for value in inputs.values() if isinstance(value, Tensor)), "cpu")


# --- what a module is given, and what it returns --------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """How a module returns a state: alone, first in a tuple or list, or as `last_hidden_state`."""

    kind: Any  # the type of what it returns
    length: int = 1  # length of the tuple or list
    pooled: bool = False  # whether a pooled state is returned beside it

    @classmethod
    def of(cls, output: Any) -> "Form":
        """Return the form of a module's output."""
        pooled = isinstance(output, ModelOutput) and output.get("pooler_output") is not None
        return cls(type(output), len(output) if isinstance(output, tuple | list) else 1, pooled)

    def wrap(self, state: Tensor) -> Any:
        """Return a state in the form of the module's output."""
        if issubclass(self.kind, Tensor):
            return state
        if issubclass(self.kind, ModelOutput):
            return self.kind(last_hidden_state=state)
        values = [state, *[None] * (self.length - 1)]
        is_named_tuple = hasattr(self.kind, "_fields")
        return self.kind(*values) if is_named_tuple else self.kind(values)

    def return_input(self, _: Any, *args: Any, **kwargs: Any) -> Any:
        """Skip a module: return its main input in the form of its output."""
        return self.wrap(CallArguments(args, kwargs).main_input)


def tensor_of(output: Any) -> Tensor | None:
    """Return the main tensor in a module's output, None if there is none."""
    if isinstance(output, ModelOutput):
        output = output.get("last_hidden_state")
    elif isinstance(output, tuple | list) and output:
        output = output[0]
    return output if isinstance(output, Tensor) else None


def with_tensor(output: Any, tensor: Tensor) -> Any:
    """Return a module's output with its main tensor replaced, see `tensor_of`.

    Args:
        output: A tensor, a tuple or list that begins with one, or a `ModelOutput`.
        tensor: The replacement.
    """
    if isinstance(output, ModelOutput):
        return type(output)(**{**output, "last_hidden_state": tensor})
    if not isinstance(output, tuple | list):
        return tensor
    values = [tensor, *output[1:]]
    is_named_tuple = hasattr(output, "_fields")
    return type(output)(*values) if is_named_tuple else type(output)(values)


def several_states(output: Any) -> bool:
    """Return whether a module returns more than one state, as reversible layers do."""
    main = tensor_of(output)
    if main is None or isinstance(output, Tensor):
        return False
    values = output.values() if isinstance(output, Mapping) else output
    return sum(isinstance(part, Tensor) and part.shape == main.shape for part in values) > 1


def hidden_of(output: Any) -> Tensor | None:
    """Return the (B, T, H) hidden states in a trunk's output, None if there are none."""
    hidden = tensor_of(output)
    return hidden if hidden is not None and hidden.ndim == 3 else None


def states_of(output: Any) -> States | None:
    """Return the `hidden_states` in a model's output, those of the decoder if it has one; None if there are none."""
    if not isinstance(output, Mapping):
        return None
    return output.get("hidden_states") or output.get("decoder_hidden_states") or None


def embedded_of(output: Mapping[str, Any]) -> Tensor | None:
    """Return the embedding layer's output, (B, T, H), of the encoder if there is one; None for another shape."""
    states = output.get("encoder_hidden_states") or states_of(output)
    return states[0] if states and states[0].ndim == 3 else None
