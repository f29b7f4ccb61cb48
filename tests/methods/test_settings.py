"""Settings: read off a constructor, checked, written as text and read from it."""

from typing import Literal, Optional, Union

import numpy as np
import pytest

from normxlogit.methods.settings import Setting, check, format_value, parse, settings_of

MODE = Literal["l1", "l2", "sum"]


def setting(kind, default=None):
    return Setting("s", default, kind)


@pytest.mark.parametrize("parameter", ["a=1", "a: int", "*a: int", "**a: int"])
def test_a_setting_needs_a_type_and_a_default(parameter):
    names = {}
    exec(f"class Own:\n    def __init__(self, {parameter}) -> None: ...", names)
    with pytest.raises(TypeError, match="Own: the setting a needs a type and a default"):
        settings_of(names["Own"])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (int, 3, 3),
        (int, np.int64(3), 3),
        (int, np.uint8(3), 3),
        (int, 10**18, 10**18),
        (float, 0.5, 0.5),
        (float, 2, 2.0),
        (float, np.float32(0.5), 0.5),
        (float, np.int64(2), 2.0),
        (bool, True, True),
        (bool, np.False_, False),
        (str, "a b", "a b"),
        (MODE, "l2", "l2"),
        (Literal[1, 2], 2, 2),
        (int | None, None, None),
        (Optional[int], 4, 4),  # noqa: UP045  # both spellings of the same
        (Union[int, str], "x", "x"),  # noqa: UP007
        (tuple[int, ...], (1, 2), (1, 2)),
        (tuple[int, ...], [np.int32(1), 2], (1, 2)),
        (tuple[int, ...], 3, (3,)),
    ],
)
def test_values_become_plain(kind, value, expected):
    found = check(setting(kind), value)
    assert found == expected
    assert type(found) is type(expected)
    if isinstance(found, tuple):
        assert {type(v) for v in found} == {int}


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (int, 50, "50"),
        (int, -3, "-3"),
        (float, 0.01, "0.01"),
        (float, 1e-05, "1e-05"),
        (bool, True, "true"),
        (bool, False, "false"),
        (str, "a b", "a b"),
        (MODE, "sum", "sum"),
        (Literal[1, 2], 2, "2"),
        (int | None, None, "none"),
        (int | None, 7, "7"),
        (str | None, None, "none"),
        (bool | None, None, "none"),
        (tuple[int, ...], (1, 2, 3), "1+2+3"),
        (tuple[int, ...], (1,), "1"),
        (tuple[str, ...], ("a", "b"), "a+b"),
    ],
)
def test_text_and_back(kind, value, text):
    assert format_value(value) == text
    found = parse(setting(kind), text)
    assert found == value
    assert type(found) is type(value)
