"""Run a forward pass of a copy with hooks: record, replace or skip modules, or stop at one.

Hooks are registered here and nowhere else, for one pass. The backward pass outlives it: what runs again in it, under
gradient checkpointing, runs without hooks.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from .clone import Forward
from .module_io import CallArguments, Inputs
from .precision import without_autocast

RUNNING = "_normxlogit_running"
"""Attribute that marks a copy while it runs."""


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
    """The hooks of one module in one pass."""

    result: Pass  # where values are recorded
    stop: Site | None  # where the pass ends, in this module or another; None for its end
    sites: list[Site] = field(default_factory=list)  # what is recorded
    replacements: list[tuple[int, Replace]] = field(default_factory=list)  # by the call that they change, 0 for all
    calls_begun: int = 0  # how often the module was called
    calls_ended: int = 0  # how often it has returned

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

    def _record(self, site: Site, call: int, value: Any) -> None:
        """Record the value of a module's call if the site names it; end the pass at the stop.

        Args:
            site: What is recorded.
            call: Which of the module's calls it is, counted from 1.
            value: The module's main input or output.
        """
        if site.call == 0:
            self.result.recorded.setdefault(site, []).append(value)
        elif site.call == call:
            self.result.recorded[site] = value
        if site == self.stop and call >= site.call:  # a stop at all calls, 0, is the first one
            raise _Stop
