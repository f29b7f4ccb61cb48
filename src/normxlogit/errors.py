"""What can go wrong, as types: every message says what was wrong, where, and what to do."""

__all__ = [
    "DataError",
    "HeadMismatchError",
    "InputError",
    "MethodError",
    "NormXLogitError",
    "TargetError",
    "UnsupportedModelError",
]


class NormXLogitError(Exception):
    """Base class of all errors that the library raises on purpose."""


class UnsupportedModelError(NormXLogitError):
    """The model lacks what the call needs: a head, hidden states, parts that a method works on."""


class HeadMismatchError(UnsupportedModelError):
    """No way was found to apply the model's head that reproduces the model's own logits."""


class TargetError(NormXLogitError):
    """The thing to explain does not exist: an unknown label, a token of several pieces, no mask in the text."""


class InputError(NormXLogitError):
    """The input cannot be explained: empty, not text, too long, a pair for a model of single texts."""


class DataError(NormXLogitError):
    """A data set or corpus does not hold what is needed; the message names file, row and column."""


class MethodError(NormXLogitError):
    """An unknown method name, or an option that the method does not have."""
