import json
import re
from dataclasses import replace

import numpy as np
import pytest

from normxlogit.errors import DataError
from normxlogit.results.attribution import Attribution
from tests.media.factories import make_image, make_media

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def drawn(preview=PIXEL):
    state = make_media().to_dict()
    state["media"][0] |= {"preview": preview}
    return Attribution.from_dict(state)


def test_a_page_has_every_patch_at_its_place_over_the_picture_and_its_scores_for_every_token():
    g = drawn()
    page = g.to_html()
    assert f'<img src="{PIXEL}"' in page
    places = re.findall(r"position:absolute;left:([\d.]+)%;top:([\d.]+)%;width:([\d.]+)%;height:([\d.]+)%", page)
    corners = [tuple(map(float, place)) for place in places[:4]]
    assert corners == [(left, top, 50, 50) for top in (0, 50) for left in (0, 50)]
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
        drawn(preview)


def only_sound():
    g = make_media()
    kept = [*range(7), *range(11, 14)]
    sound = replace(g.media[1], first=7)
    scores = np.concatenate([np.zeros((3, 7)), g.scores[:, 11:]], 1, dtype=np.float32)
    return replace(g, units=g.units.take(kept), media=(sound,), scores=scores)


def test_one_token_has_the_picture_and_the_sound_beside_its_words():
    g = replace(make_media(), bias=np.array([0.5, 1.0, 2.0], np.float32), method="frozen-gradient")
    one = g[1]
    assert one.tokens == g.tokens[:5]
    assert one.scores.sum() + one.bias == pytest.approx(g.scores[1].sum() + g.bias[1], abs=1e-6)
    for medium, of_all in zip((*one.images, *one.audio), (*g.images, *g.audio), strict=True):
        assert np.array_equal(medium.scores, of_all.scores[1])
    assert "cat.png" in str(one)
    assert Attribution.from_dict(one.to_dict()) == one


def test_a_classified_picture_is_drawn_by_rows_and_columns_of_patches():
    assert "\nPatches\nrow 2, column 1  +3.00" in str(make_image())
