from dataclasses import replace

import numpy as np
import pytest

from normxlogit.render.charts import Grid, Legend
from normxlogit.render.describe import header, method_of, prediction_text
from normxlogit.render.layout import ALONE, layout
from normxlogit.render.terminal import tone
from normxlogit.render.token_groups import overlapping_groups
from normxlogit.results.targets import Prediction, Target
from tests.factories import all_labels, all_layers, make_attribution, make_generation


def spans_apart(spans):
    """Return the indices of spans, those that share characters with the one before it together."""
    groups = []
    for index, (start, end) in enumerate(spans):
        covered = {place for before in groups[-1:] for member in before for place in range(*spans[member])}
        if covered & set(range(start, end)):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


@pytest.mark.parametrize(
    "spans",
    [
        ((0, 1), (1, 2), (2, 3)),
        ((0, 2), (2, 3), (2, 3), (2, 3), (4, 5)),
        ((0, 1), (0, 1), (1, 3), (2, 4), (3, 5), (5, 6), (5, 6)),
        ((0, 0), (0, 4), (4, 4), (4, 8), (5, 6), (7, 8), (0, 0)),
    ],
)
def test_tokens_that_share_characters_are_one_group(spans):
    a = make_attribution(["x"] * len(spans), [1.0] * len(spans), text="x " * len(spans), special=False)
    groups = overlapping_groups(a, spans)
    assert [list(tokens) for tokens, _, _ in groups] == spans_apart(spans)
    for tokens, start, end in groups:
        assert (start, end) == (spans[tokens[0]][0], max(spans[token][1] for token in tokens))


def test_tokens_of_two_texts_are_never_one_group():
    a = make_attribution(("a",), (1.0, 2.0), text="a", text_pair="a", pair_pieces=("a",), special=False)
    assert len(overlapping_groups(a, ((0, 1), (0, 1)))) == 2


@pytest.mark.parametrize(
    ("scores", "signs"),
    [([1.0, 0.0], [1]), ([0.0, -1.0], [-1]), ([1.0, -2.0], [1, -1]), ([0.0, 0.0], []), ([], [])],
)
def test_a_legend_names_the_colours_that_are_drawn(scores, signs):
    grid = Grid([""], [f"word {i}" for i in range(len(scores))], np.array([scores], np.float32))
    assert Legend("for", "against", grid=grid).meanings() == [(sign, {1: "for", -1: "against"}[sign]) for sign in signs]
    assert len(Legend("for", "against").meanings()) == 2, "of what is drawn nothing is known"
    assert Legend("importance").meanings() == [(1, "importance")]


def test_the_axis_of_layers_is_relative_and_that_of_one_row_means_the_target():
    one, several = layout(make_attribution()).grid.label, layout(all_layers()).grid.label
    assert one != several
    assert "negative" in one
    assert "negative" not in several


def test_a_position_is_named_where_all_targets_are_read_at_it():
    at_two = Target("label", "negative", 0, position=2)
    a = make_attribution(target=at_two)
    assert f"position 2 ({a.tokens[2]})" in header([a]).facts[0][1]
    both = replace(all_labels(), targets=(at_two, Target("label", "positive", 1, position=2)))
    assert "position 2" in header([both]).facts[0][1]
    apart = replace(all_labels(), targets=(at_two, Target("label", "positive", 1, position=3)))
    beyond = make_attribution(target=Target("label", "negative", 0, position=len(a.tokens)))
    for without in (apart, beyond, make_attribution(), make_generation()):
        assert "position" not in header([without]).facts[0][1]


def test_what_methods_cost_is_said_where_several_are_compared():
    a = make_attribution()
    lime = replace(a, method="lime", settings={})
    assert ("method", method_of(a)) in header([a]).facts
    compared = [text for name, text in header([a, lime]).facts if name == "method"]
    assert [text.partition(": ")[0] for text in compared] == [method_of(a), "lime"]
    assert all(text.partition(": ")[2] for text in compared)


def levels(strength):
    return [int(level) for level in tone(strength).removeprefix("rgb(").rstrip(")").split(",")]


def test_a_patch_is_between_grey_and_the_colour_of_its_sign():
    grey, red, blue = levels(0.0), levels(1.0), levels(-1.0)
    assert len(set(grey)) == 1
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    for strength, full in ((0.5, red), (-0.5, blue)):
        np.testing.assert_allclose(levels(strength), np.add(grey, full) / 2, atol=1)
    assert (levels(3.0), levels(-3.0)) == (red, blue)


def test_what_the_head_says_of_a_token_alone_stands_beside_single_tokens():
    a = make_attribution()
    said = [Prediction("positive", 1, float(index), 0.5) for index in range(len(a.units))]
    a = replace(a, token_predictions=tuple(said))
    assert layout(a, words=False).facts[ALONE] == [prediction_text(prediction) for prediction in said]
    of_words = dict(zip([word.text for word in a.words()], layout(a).facts[ALONE], strict=True))
    assert of_words.pop("mediocre") == "", "which is two tokens"
    assert all(of_words.values())
    assert not any(layout(make_attribution()).facts[ALONE])
