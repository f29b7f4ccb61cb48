import dataclasses
import io

import matplotlib
import numpy as np
import pytest
from matplotlib._pylab_helpers import Gcf
from matplotlib.image import AxesImage

from normxlogit.plots.figure import NEGATIVE, POSITIVE
from normxlogit.results.collection import Attributions
from tests.factories import all_layers, make_attribution, make_generation

ADDING = make_attribution(
    ("good", "bad", "dull"), (3.0, -2.0, 1.0), text="good bad dull", special_score=0.25, bias=np.array(-1.0, np.float32)
)


@pytest.fixture(autouse=True)
def untouched():
    """No plot changes a global setting or leaves a figure in pyplot's list."""
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    assert not Gcf.figs


def labels(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def widths(figure):
    return [round(float(bar.get_width()), 6) for bar in figure.axes[0].patches]


def table(figure):
    (image,) = figure.axes[0].findobj(AxesImage)
    return np.asarray(image.get_array())


def test_bars_stand_in_the_order_of_the_text_in_the_colour_of_their_sign():
    figure = ADDING.plot()
    assert labels(figure.axes[0].yaxis) == ["good", "bad", "dull"]
    assert widths(figure) == [3, -2, 1]
    colors = [matplotlib.colors.to_hex(bar.get_facecolor()) for bar in figure.axes[0].patches]
    assert colors == [POSITIVE, NEGATIVE, POSITIVE]
    bottom, top = figure.axes[0].get_ylim()
    assert bottom > top, "the first word is on top"
    assert labels(ADDING.plot(k=2).axes[0].yaxis) == ["good", "bad"], "the strongest, in the order of the text"


def test_a_waterfall_goes_from_the_bias_to_the_sum_of_all_scores():
    figure = ADDING.plot("waterfall", k=2)
    assert labels(figure.axes[0].yaxis) == ["bias", "good", "bad", "all other tokens", "sum: +1.50"]
    assert widths(figure) == [-1, 3, -2, 1.5, 1.5]
    lefts = [float(bar.get_x()) for bar in figure.axes[0].patches]
    assert lefts == [0, -1, 2, 0, 0]
    without = make_attribution(("a", "b"), (1, 2), text="a b", special_score=0).plot("waterfall")
    assert widths(without) == [2, 1, 0, 3]


def test_layers_and_methods_are_rows_each_on_its_own_scale():
    other = dataclasses.replace(make_attribution(), scores=make_attribution().scores * 100, method="lime")
    layers, methods = all_layers().plot(), Attributions([make_attribution(), other]).plot()
    assert labels(layers.axes[0].yaxis) == ["layer 1", "layer 2", "layer 3"]
    assert labels(methods.axes[0].yaxis) == ["normxlogit", "lime"]
    for found in map(table, (layers, methods)):
        assert np.allclose(found[0], found[1])
        assert np.abs(found).max(1) == pytest.approx(1)
    assert layers.axes[0].get_ylim()[0] < layers.axes[0].get_ylim()[1], "the last layer is on top"


def test_generated_tokens_are_rows_and_words_or_sources_columns():
    g = make_generation()
    figure = g.plot()
    assert labels(figure.axes[0].yaxis) == ["mat", "is", "red."]
    assert labels(figure.axes[0].xaxis) == list(g.sources("word").units.text[:-2])
    by_token = g.sources("word", parts="token")
    scores = by_token.scores[:, by_token.units.sources]
    assert np.allclose(table(figure), scores / np.maximum(np.abs(scores).max(1, keepdims=True), 1e-30))
    assert table(g.sources({"a": (0, 6), "b": (6, 10)}, "sentence").plot()).shape == (2, 1)
    assert len(labels(g.plot(k=1).axes[0].xaxis)) == 1


def test_sources_are_rows_with_their_shares_of_each_sentence():
    g = make_generation()
    s = g.sources({"the first half of what the model was given": (0, 6), "b": (6, 10)}, parts="sentence")
    figure = s.plot()
    assert np.array_equal(table(figure), s.shares[:, s.units.sources].T)
    assert len(labels(figure.axes[0].yaxis)) == 2
    assert len(labels(s.plot(k=1).axes[0].yaxis)) == 1
    assert "the 1 strongest of 2" in s.plot(k=1).get_suptitle()


STRANGE = ("$5", "and$", "电影", "הסרט", "مرحبا", "\x1b[31m", "\ud800", "ด้วย", "e\u0301", "\u202ex", "_a", "%s")


@pytest.mark.filterwarnings("ignore:Glyph")
def test_any_word_can_be_drawn():
    a = make_attribution(STRANGE, range(1, 13), text=" ".join(STRANGE))
    both = Attributions([a, dataclasses.replace(a, method="lime")])
    for figure in (a.plot(), a.plot("heatmap"), both.plot()):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg")
        drawn = buffer.getvalue().decode()
        assert all(text in drawn for text in ("$", "电影"[0], "_a"))
        assert "\x1b" not in drawn
