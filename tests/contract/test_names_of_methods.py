"""A method's name in another package finds the one here, and says so; what would be another method is refused."""

import warnings

import numpy as np
import pytest

from normxlogit import Explainer
from normxlogit.errors import MethodError
from tests import tiny
from tests.commands import run


@pytest.fixture(scope="module")
def explainer():
    return Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))


@pytest.mark.parametrize("name", ["loo", "Leave_One_Out", "FeatureAblation:window=2"])
def test_another_packages_name_gives_the_scores_of_the_method_here(explainer, name):
    with pytest.warns(UserWarning, match="is called occlusion here"):
        found = explainer(tiny.TEXTS[0], method=name)
    settings = name.partition(":")[2]
    np.testing.assert_array_equal(found.scores, explainer(tiny.TEXTS[0], method=f"occlusion:{settings}").scores)
    assert found.method == "occlusion"


@pytest.mark.parametrize("spelling", ["frozen_gradient", "FrozenGradient", "Frozen Gradient"])
def test_another_spelling_of_a_name_needs_no_word(explainer, spelling):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert explainer(tiny.TEXTS[0], method=spelling).method == "frozen-gradient"


@pytest.mark.parametrize("name", ["attnlrp", "AttnLRP:read_at=0"])
def test_a_method_that_is_not_here_is_refused_with_the_nearest(explainer, name):
    with pytest.raises(MethodError, match="the nearest is frozen-gradient"):
        explainer(tiny.TEXTS[0], method=name)


def test_lrp_is_the_frozen_gradient_at_the_embeddings_with_nothing_set_apart(explainer):
    with pytest.warns(UserWarning, match="lrp is called"):
        found = explainer(tiny.TEXTS[0], method="lrp:point=0.5")
    assert found.settings["read_at"] == 0
    assert found.settings["sink_threshold"] is None
    assert found.settings["point"] == 0.5


def test_the_command_line_says_it_in_one_line(capsys, tmp_path):
    tiny.save(tmp_path / "model", "bert")
    code, out, err = run(capsys, "explain", "the cat", "--model", tmp_path / "model", "--method", "loo")
    assert (code, err) == (0, "note: loo is called occlusion here\n")
    assert "occlusion" in out
    code, _, err = run(capsys, "explain", "the cat", "--model", tmp_path / "model", "--method", "attnlrp")
    assert code == 2
    assert err.count("\n") == 1
    assert "frozen-gradient" in err
