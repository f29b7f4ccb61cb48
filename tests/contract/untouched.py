"""The state of a model, a tokenizer and a process that a call may not change."""

import contextlib
import random
import threading
from collections.abc import Iterator

import numpy as np
import torch

WAITING = "normxlogit progress"
"""The thread that waits whether a call takes long, and ends a second after the last call."""


def waiting_threads():
    """Return the threads that wait whether a call takes long: there is one, or none."""
    return [thread for thread in threading.enumerate() if thread.name == WAITING]


def fingerprint(model):
    """Return the state of the caller's model: weights, gradients, modes, hooks, attributes and configuration."""
    return {
        "weights": {n: (p.data_ptr(), p.requires_grad, p.sum().item()) for n, p in model.named_parameters()},
        "buffers": {n: b.data_ptr() for n, b in model.named_buffers()},
        "grads": {
            n: None if p.grad is None else (p.grad.data_ptr(), p.grad.sum().item()) for n, p in model.named_parameters()
        },
        "modes": {n: m.training for n, m in model.named_modules()},
        "hooks": {
            n: [len(getattr(m, h)) for h in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")]
            for n, m in model.named_modules()
        },
        "attributes": {n: sorted(vars(m)) for n, m in model.named_modules()},
        "modules": {n: id(m) for n, m in model.named_modules()},
        "config": model.config.to_json_string(use_diff=False),
        "attention": model.config._attn_implementation,
    }


def tokenizer_state(tokenizer):
    """Return the settings of the caller's tokenizer, truncation and padding included."""
    names = ("padding_side", "truncation_side", "model_max_length", "model_input_names", "special_tokens_map")
    return tokenizer.backend_tokenizer.to_str(), {name: str(getattr(tokenizer, name)) for name in names}


def random_states():
    """Return the random states of Python, NumPy and torch."""
    numpy_state = np.random.get_state()  # noqa: NPY002  # the state that is not to be touched
    return random.getstate(), numpy_state[1].tolist(), numpy_state[2:], torch.get_rng_state().tolist()


def switches():
    """Return torch's switches of this thread and process."""
    return {
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "modes": torch._C._len_torch_function_stack(),
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


@contextlib.contextmanager
def nothing_left_behind(model, tokenizer) -> Iterator[None]:
    """Compare the caller's model and tokenizer, torch's switches and the random states with what they were before."""

    def state():
        return fingerprint(model), tokenizer_state(tokenizer), switches(), random_states()

    before = state()
    yield
    assert state() == before
