"""A private tokenizer that shares no settings with the user's."""

import copy
from typing import Any

from tokenizers import Tokenizer

from ..errors import InputError


def private_tokenizer(tokenizer: Any) -> Any:
    """Copy the user's tokenizer so that no setting is shared, such as truncation and padding.

    A fast tokenizer keeps truncation and padding in its backend, and every call sets them there: what the user had set
    would be lost and saved as lost, and a thread that uses it meanwhile would get other tokens. The copy shares the
    vocabulary, so it is made in microseconds and needs no memory.

    Args:
        tokenizer: The user's tokenizer; slow ones keep nothing of a call and are returned as they are.

    Raises:
        InputError: If the tokenizer has numbers for its added tokens that no copy of it gets.
    """
    theirs = getattr(tokenizer, "_tokenizer", None)
    if not isinstance(theirs, Tokenizer):
        return tokenizer
    private = copy.copy(tokenizer)
    private._tokenizer = _shared(theirs)
    return private


def _shared(theirs: Tokenizer) -> Tokenizer:
    """Return a new backend around the components of another."""
    private = Tokenizer(theirs.model)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if (component := getattr(theirs, part)) is not None:
            setattr(private, part, component)
    private.encode_special_tokens = theirs.encode_special_tokens
    added = theirs.get_added_tokens_decoder()
    private.add_tokens([added[index] for index in sorted(added)])
    if private.get_added_tokens_decoder() != added:
        raise InputError(
            "the tokenizer numbers its added tokens in a way that it loses when it is saved: its vocabulary was "
            "replaced after they were added; build it again, with the tokens added last"
        )
    return private
