"""As for the tests of the wing itself."""

from tests.media.conftest import parts_of_any_class

__all__ = ["parts_of_any_class"]
