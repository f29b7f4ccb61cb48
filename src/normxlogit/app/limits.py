"""Limits of one request to a server that several people share."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError, MethodError
from ..methods import Method, method_named

UNLIMITED = "the command line and Python have no such limit"
"""Advice for users who need more."""


@dataclass(frozen=True)
class Limits:
    """Limits of one request and of the server.

    Attributes:
        characters: Most characters of a text, and of all documents together.
        methods: Most methods side by side.
        setting: Largest number in a method's settings, such as the samples of LIME: each may be a forward pass.
        new_tokens: Most tokens that a model generates.
        models: Models that are kept loaded besides the one that the app started with.
        at_once: Requests that are worked on at the same time.
        waiting: Requests that may wait; further ones are told that the app is busy.
    """

    characters: int = 20_000
    methods: int = 6
    setting: int = 1_000
    new_tokens: int = 200
    models: int = 2
    at_once: int = 2
    waiting: int = 32

    def text(self, text: str | None, what: str = "text") -> str:
        """Return a text after checking that it is neither empty nor too long."""
        if not text or not text.strip():
            raise InputError(f"the {what} is empty: type at least one character other than white space")
        if len(text) > self.characters:
            raise InputError(
                f"the {what} has {len(text):,} characters and the app takes {self.characters:,}; {UNLIMITED}"
            )
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(f"the {what} holds half of a character; paste it again")
        return text

    def chosen(self, names: Sequence[str]) -> list[Method]:
        """Return the chosen methods without duplicates."""
        methods = list(dict.fromkeys(method_named(name.strip()) for name in names if name.strip()))
        if not methods:
            raise MethodError("choose at least one method")
        if len(methods) > self.methods:
            raise MethodError(f"{len(methods)} methods, and the app draws {self.methods} side by side")
        for method in methods:
            self._check(method)
        return methods

    def _check(self, method: Method) -> None:
        """Refuse a setting that would make one request very expensive; a method's default is never refused."""
        for name, setting in method.info.settings.items():
            value = getattr(method, name)
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, int | float) and abs(number) > self.setting and value != setting.default:
                    raise MethodError(
                        f"{method.info.name}: the app takes numbers up to {self.setting:,}, not {name}={number}; "
                        + UNLIMITED
                    )
            if isinstance(value, tuple) and len(value) > self.methods:
                raise MethodError(f"{method.info.name}: the app takes {self.methods} values of {name} at most")


LIMITS = Limits()
