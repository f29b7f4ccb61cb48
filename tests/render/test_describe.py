import pytest

from normxlogit.render.blocks import Table
from normxlogit.render.describe import model_text
from normxlogit.render.text import attribution_blocks
from tests.factories import make_attribution


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("google/bert", "google/bert"),
        ("bert", "bert"),
        ("./bert", "bert"),
        ("~/bert", "bert"),
        ("../models/bert", "bert"),
        ("/bert", "bert"),
        ("/models/bert", "bert"),
        ("models/mine/bert", "bert"),
        ("/", "/"),
    ],
)
def test_a_model_of_a_folder_is_called_by_its_last_part(name, shown):
    assert model_text(name) == shown


@pytest.mark.parametrize(("count", "caption"), [(4, "Words"), (30, "The 8 strongest of 30 words"), (1, "Word")])
def test_the_table_of_the_strongest_scores_says_how_many_there_are(count, caption):
    a = make_attribution(["a"] * count, range(1, count + 1), text="a " * count)
    assert caption in [block.caption for block in attribution_blocks(a) if isinstance(block, Table)]
