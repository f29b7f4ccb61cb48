"""Terminals of 256 colours, long collections and names of local models."""

import pytest

from normxlogit.render.describe import model_text
from normxlogit.results.collection import Attributions
from tests.commands import run_python
from tests.factories import make_attribution


def test_a_collection_prints_ten_and_says_how_many_more():
    many = Attributions([make_attribution()] * 200)
    shown = str(many)
    assert shown.count("prediction") == 10
    assert shown.endswith("and 190 more: slice them, or to_html(path) writes a page of all")
    assert "slice them" not in str(many[:10])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/data/models/mine", "mine"),
        ("./runs/3/best", "best"),
        ("../mine/", "mine"),
        ("~/models/mine", "mine"),
        ("runs/3/best", "best"),
        ("org/model", "org/model"),
        ("bert", "bert"),
        (".", "."),
    ],
)
def test_a_local_model_is_called_by_its_folder(name, shown):
    assert model_text(name) == shown


def test_terminals_of_256_colors_get_no_more():
    code = (
        "from tests.factories import make_attribution as make\n"
        "from normxlogit.render.builders.collection import blocks_of\n"
        "from normxlogit.render.terminal import text_of_blocks\n"
        "print(ascii(text_of_blocks(blocks_of(make()), color=True)))"
    )
    text = run_python(code, COLORTERM="")
    assert "48;5;" in text
    assert "48;2;" not in text
