"""A private tokenizer that shares no settings with the user's."""

import copy
from typing import Any

from tokenizers import Tokenizer

from ..errors import InputError


def private_tokenizer(tokenizer: Any) -> Any:
    """Return a copy of the user's tokenizer that shares no setting with it, such as truncation and padding.

    A fast tokenizer keeps truncation and padding in its backend, and every call sets them there: the user's own setting
    would be overwritten, also in what `save_pretrained` writes, and a thread that uses it meanwhile would get other
    tokens. The copy shares the vocabulary, so it is made in microseconds and needs no memory.

    Args:
        tokenizer: The user's tokenizer; slow ones keep nothing of a call and are returned as they are.

    Raises:
        InputError: If a copy of the backend would give its added tokens other ids.
    """
    backend = getattr(tokenizer, "_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        return tokenizer
    private = copy.copy(tokenizer)
    private._tokenizer = _copy_backend(backend)
    return private


def _copy_backend(backend: Tokenizer) -> Tokenizer:
    """Return a new backend around the components of another."""
    private = Tokenizer(backend.model)
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if (component := getattr(backend, name)) is not None:
            setattr(private, name, component)
    private.encode_special_tokens = backend.encode_special_tokens
    added_tokens = backend.get_added_tokens_decoder()
    private.add_tokens([added_tokens[index] for index in sorted(added_tokens)])
    if private.get_added_tokens_decoder() != added_tokens:
        raise InputError(
            "the tokenizer numbers its added tokens in a way that it loses when it is saved: its vocabulary was "
            "replaced after they were added; build it again, with the tokens added last"
        )
    return private
