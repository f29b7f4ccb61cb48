"""Methods as text, for tests that run over several of them."""

from typing import Any

from normxlogit.methods.settings import format_value


def spelled(name: str, **settings: Any) -> str:
    """Write a method with settings as one types it, such as "lime:samples=40"."""
    return name + ":" * bool(settings) + ",".join(f"{key}={format_value(value)}" for key, value in settings.items())
