import base64
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from normxlogit.errors import DataError, InputError
from normxlogit.media.drawing.drawing import merge_neighbours
from normxlogit.render.builders.collection import blocks_of_attribution
from normxlogit.render.terminal import text_of_blocks
from normxlogit.results.attribution import Attribution
from tests.media.factories import make_audio, make_media

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def encoded(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


PICTURE = encoded(Image.new("RGB", (16, 12), "red"))


def drawn(**changes):
    """Return a result with another picture; `scores` are those of its patches, for every token."""
    g = make_media()
    scores = g.scores.copy()
    if patches := changes.pop("scores", None):
        scores[:, 7:11] = np.array(patches).reshape(3, 4)
    state = replace(g, scores=scores).to_dict()
    state["media"][0] |= {"preview": PIXEL} | changes
    return Attribution.from_dict(state)


def test_a_page_has_every_patch_at_its_place_over_the_picture_and_its_scores_for_every_token():
    g = drawn()
    page = g.to_html()
    assert f'<img src="{PIXEL}"' in page
    places = re.findall(r"position:absolute;left:([\d.]+)%;top:([\d.]+)%;width:([\d.]+)%;height:([\d.]+)%", page)
    assert [tuple(map(float, place)) for place in places[:4]] == [
        (0, 0, 50, 50),
        (50, 0, 50, 50),
        (0, 50, 50, 50),
        (50, 50, 50, 50),
    ]
    data = json.loads(re.search(r'class="nxl-data">(.*?)</script>', page, re.DOTALL)[1])
    sources = [int(i) for i in re.findall(r'nxl-patch[^>]*data-source="(\d+)"', page)]
    for row, patches, moments in zip(data["scores"], g.images[0].scores, g.audio[0].scores, strict=True):
        np.testing.assert_allclose([row[i] for i in sources], [*patches.ravel(), *moments])
        assert row[g.prompt_tokens + 2] is None  # not seen


@pytest.mark.parametrize(
    "preview", ["https://example.org/track.png", "data:image/svg+xml;base64,AAAA", 'data:image/png;base64,"><script>']
)
def test_a_file_cannot_make_a_page_load_something_else(preview):
    with pytest.raises(DataError, match="preview"):
        drawn(preview=preview)


def only_sound():
    """Return a result whose words rest on the sound alone."""
    g = make_media()
    kept = [*range(7), *range(11, 14)]
    sound = replace(g.media[1], first=7)
    scores = np.concatenate([np.zeros((3, 7)), g.scores[:, 11:]], 1, dtype=np.float32)
    return replace(g, units=g.units.take(kept), media=(sound,), scores=scores)


def test_a_page_links_the_moments_of_a_sound_with_words_that_rest_on_nothing_else():
    g = only_sound()
    page = g.to_html()
    places = re.findall(r"position:absolute;left:([\d.]+)%;top:0.000%;width:([\d.]+)%", page)
    np.testing.assert_allclose(np.array(places, float), [[0, 33.333], [33.333, 33.333], [66.667, 33.333]], atol=1e-3)
    data = json.loads(re.search(r'class="nxl-data">(.*?)</script>', page, re.DOTALL)[1])
    np.testing.assert_allclose(data["scores"], g.group_targets("word").audio[0].scores)
    assert re.findall(r'data-part="(\d)"', page) == ["0", "1", "2"]
    assert re.findall(r'data-source="(\d)"', page) == ["0", "1", "2"]


def test_a_long_sound_is_drawn_in_fewer_moments_with_the_same_sum():
    (audio,) = make_media().audio
    times = np.stack([np.arange(7), np.arange(1, 8)], -1).astype(np.float32)
    long_sound = replace(audio, places=times, scores=np.arange(14, dtype=np.float32).reshape(2, 7))
    coarse = merge_neighbours(long_sound, 3)
    assert coarse.times.tolist() == [[0, 3], [3, 6], [6, 7]]
    assert coarse.scores.tolist() == [[3, 12, 6], [24, 33, 13]]


def test_a_terminal_draws_a_sound_as_loud_as_it_is_or_names_its_strongest_moment():
    g = make_media()
    g = replace(g, scores=np.concatenate([g.scores[:, :11], [[0.0, 3.0, 1.0]] * 3], 1, dtype=np.float32))
    assert "cat.wav, strongest: 0.50 to 1.00 s 75%, 1.00 to 1.50 s 25%" in text_of_blocks(
        blocks_of_attribution(g), color=False
    )
    assert "\u2588" in text_of_blocks(blocks_of_attribution(g), color=True)


def test_scores_that_are_not_finite_have_no_colour_and_no_height():
    a = replace(make_audio(), scores=np.array([0, np.inf, -np.inf, np.nan, 2], np.float32))
    assert "strongest: 1.50 to 2.00 s 100%" in text_of_blocks(blocks_of_attribution(a), color=True)
    assert "nan" not in a.to_html()
    a.plot()


def test_one_token_has_the_picture_and_the_sound_beside_its_words():
    g = replace(make_media(), bias=np.array([0.5, 1.0, 2.0], np.float32), method="frozen-gradient")
    one = g[1]
    assert one.tokens == g.tokens[:5]
    assert one.scores.sum() + one.bias == pytest.approx(g.scores[1].sum() + g.bias[1], abs=1e-6)
    for medium, of_all in zip((*one.images, *one.audio), (*g.images, *g.audio), strict=True):
        assert np.array_equal(medium.scores, of_all.scores[1])
    assert "cat.png" in str(one)
    assert Attribution.from_dict(one.to_dict()) == one


def test_a_figure_has_each_picture_for_the_answer_and_every_word_and_a_row_for_each_word_of_a_sound():
    g = drawn(preview=PICTURE)
    axes = g.group_targets("word").plot().get_axes()
    titles = [a.get_title() for a in axes if a.get_title()]
    assert [title.split("  ")[0] for title in titles] == ["the whole answer", "mat", "is", "red.", "cat.wav"]
    (patches,) = axes[1].collections
    alphas = patches.get_facecolor()[:, 3]
    expected = np.abs(g.images[0].scores[0].ravel())
    np.testing.assert_allclose(alphas / alphas.max(), expected / expected.max(), rtol=1e-5)
    (table,) = [a.collections[0].get_array() for a in axes if a.get_ylabel() == "" and a.get_xlabel() == "seconds"]
    moments = g.group_targets("word").audio[0].scores
    np.testing.assert_allclose(table, moments / np.abs(moments).max(1, keepdims=True), rtol=1e-5)
    with pytest.raises(InputError, match="k must be"):
        g.plot(k=0)
