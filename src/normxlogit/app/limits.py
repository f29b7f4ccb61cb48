"""The limits of what the app is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError, MethodError
from ..methods import Method, method_named

NO_LIMIT_ELSEWHERE = "the command line and Python have no such limit"
"""Advice for users who need more."""


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and of a server that several people share; each is the largest number allowed."""

    characters: int = 20_000  # of a text, and of all documents together
    methods: int = 6  # side by side
    setting: int = 1_000  # in a method's settings, such as the samples of LIME: each may be a forward pass
    new_tokens: int = 200
    models: int = 2  # that are kept loaded besides the one that the app started with
    at_once: int = 2  # requests that are worked on
    waiting: int = 32  # requests that may wait; further ones are told that the app is busy

    def checked_text(self, text: str | None, field: str = "text") -> str:
        """Return a text after checking that it is neither empty nor too long.

        Args:
            text: What was typed.
            field: The name of the field, for errors.

        Raises:
            InputError: If it is empty, or has more characters than `characters`.
        """
        if not text or not text.strip():
            raise InputError(f"the {field} is empty: type at least one character other than white space")
        if len(text) > self.characters:
            raise InputError(
                f"the {field} has {len(text):,} characters and the app takes {self.characters:,}; {NO_LIMIT_ELSEWHERE}"
            )
        return text

    def allowed_methods(self, names: Sequence[str]) -> list[Method]:
        """Return the methods of these names, each once.

        Args:
            names: How the methods are typed, with settings; empty ones are left out.

        Raises:
            MethodError: If there are none, too many, or an unknown one, or a setting is too large.
        """
        methods = list(dict.fromkeys(method_named(name.strip()) for name in names if name.strip()))
        if not methods:
            raise MethodError("choose at least one method")
        if len(methods) > self.methods:
            raise MethodError(f"{len(methods)} methods, and the app draws {self.methods} side by side")
        for method in methods:
            self._check_settings(method)
        return methods

    def _check_settings(self, method: Method) -> None:
        """Refuse large numbers in the settings of a method, and many of them: each may be a forward pass.

        A setting of several numbers may have as many as methods stand side by side. Defaults are always allowed.
        """
        for name, setting in method.info.settings.items():
            value = getattr(method, name)
            values = value if isinstance(value, tuple) else (value,)
            is_large = any(isinstance(number, int | float) and abs(number) > self.setting for number in values)
            is_too_much = is_large or len(values) > self.methods
            if is_too_much and value != setting.default:
                raise MethodError(
                    f"{method.info.name}: the app takes up to {self.methods} numbers up to {self.setting:,}, not "
                    f"{name}={value}; {NO_LIMIT_ELSEWHERE}"
                )
