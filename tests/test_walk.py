"""The way of a call goes down through the rooms: one above is entered by a callback that has a name."""

import pytest

from scripts import walk

CALLS = ("explainer(text)", "explainer.cite(question, documents)", "attribute(explainer, rows, folder)")


@pytest.mark.parametrize("name", CALLS)
def test_a_room_enters_one_above_it_by_a_named_callback_alone(name, tmp_path):
    call = walk.calls_to_walk(tmp_path)[name]
    call()
    files, upwards = walk.walk(call)
    assert "copies/run.py" in files
    assert {low for low, _ in upwards} - set(walk.CALLBACKS) == set()


def test_a_call_of_a_room_above_is_seen():
    names = {}
    exec(compile("def low(call): call()", walk.PACKAGE / "text" / "low.py", "exec"), names)
    exec(compile("def high(): pass", walk.PACKAGE / "render" / "high.py", "exec"), names)
    assert walk.walk(lambda: names["low"](names["high"])) == (
        ["text/low.py", "render/high.py"],
        [("text/low.py", "render/high.py")],
    )
