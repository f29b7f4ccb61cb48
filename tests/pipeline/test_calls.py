"""Calls that extensions add to the explainer."""

import inspect
from typing import Annotated, TypedDict

import pytest
from typing_extensions import Unpack

from normxlogit import Explainer, InputError
from normxlogit.pipeline.arguments import checked_arguments
from normxlogit.pipeline.calls import add_calls
from tests import tiny


def count(explainer: Explainer, text: str, *, times: int = 1) -> int:
    """Count the tokens of a text.

    Args:
        text: The text.
        times: How often each counts.
    """
    return len(explainer(text).tokens) * times


class Front(Explainer):
    """A class of its own, so that the package's keeps its calls."""


def add(**calls: str) -> None:
    add_calls(Front, calls)


def test_a_call_is_a_method_with_its_name_and_signature_and_checks_its_arguments() -> None:
    add(count=f"{__name__}:count")
    explainer = Front(tiny.model("bert"), tiny.tokenizer_for("bert"))
    assert explainer.count("the movie", times=2) == 8
    assert "count" in dir(explainer)
    assert list(inspect.signature(explainer.count).parameters) == ["text", "times"]
    assert inspect.getdoc(explainer.count).startswith("Count the tokens")
    with pytest.raises(InputError, match="count has no argument 'tims': did you mean times=") as error:
        explainer.count("the movie", tims=2)
    assert "explainer=" not in str(error.value)


def test_a_name_that_no_extension_provides_is_the_usual_error() -> None:
    with pytest.raises(AttributeError, match="'Explainer' object has no attribute 'summon'"):
        tiny.explainer().summon()


def test_a_call_whose_module_is_missing_is_not_an_attribute() -> None:
    add(summon="no_such_package_of_calls:summon")
    with pytest.raises(AttributeError, match="no_such_package_of_calls"):
        _ = Front.summon


class Keys(TypedDict, total=False):
    """The keys of a call."""

    times: Annotated[int, "How often each counts."]
    words: Annotated[bool, "Whether words are counted."]


def test_the_keys_of_unpacked_options_stand_in_the_signature_and_the_description() -> None:
    @checked_arguments()
    def counted(text: str, **options: Unpack[Keys]) -> str:
        """Count the tokens of a text.

        Args:
            text: The text.
            **options: See `Keys`.
        """
        return text

    assert list(inspect.signature(counted).parameters) == ["text", "times", "words"]
    description = inspect.getdoc(counted) or ""
    assert "times: How often each counts." in description
    assert "**options" not in description
    with pytest.raises(InputError, match="counted has no argument 'tims': did you mean times="):
        counted("the movie", tims=2)
