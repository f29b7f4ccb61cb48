import json
import re

import numpy as np
import pytest

from normxlogit.errors import DataError
from normxlogit.render.terminal import text_of_blocks
from normxlogit.results.generation import GenerationAttribution
from tests.factories import make_media

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def drawn(**changes):
    state = make_media().to_dict()
    state["images"][0] |= {"preview": PIXEL} | changes
    return GenerationAttribution.from_dict(state)


def test_a_page_has_every_patch_at_its_place_over_the_picture_and_its_scores_for_every_token():
    g = drawn()
    page = g.to_html()
    assert f'<img src="{PIXEL}"' in page
    places = re.findall(r"position:absolute;left:([\d.]+)%;top:([\d.]+)%;width:([\d.]+)%;height:([\d.]+)%", page)
    assert [tuple(map(float, place)) for place in places] == [
        (0, 0, 50, 50),
        (50, 0, 50, 50),
        (0, 50, 50, 50),
        (50, 50, 50, 50),
    ]
    data = json.loads(re.search(r'class="nxl-data">(.*?)</script>', page, re.DOTALL)[1])
    sources = [int(i) for i in re.findall(r'nxl-patch[^>]*data-source="(\d+)"', page)]
    for row, scores in zip(data["scores"], g.images[0].scores, strict=True):
        np.testing.assert_allclose([row[i] for i in sources], scores.ravel())
        assert row[g.prompt_tokens + 2] is None  # not seen


def test_a_terminal_names_the_strongest_regions_or_draws_half_blocks():
    g = drawn(scores=[[[1.0, 0.0], [0.0, 3.0]]] * 3)
    assert "cat.png, strongest: lower right 75%, upper left 25%" in text_of_blocks(g._blocks(), color=False)
    coloured = text_of_blocks(g._blocks(), color=True)
    assert coloured.count("\u2580") == 24 * 12


def test_a_fine_grid_is_drawn_coarser_with_the_same_sum():
    image = make_media().images[0].coarser(1)
    assert image.scores.shape == (3, 1, 1)
    np.testing.assert_allclose(image.scores[:, 0, 0], make_media().images[0].scores.sum((1, 2)), rtol=1e-6)
    assert image.boxes[0, 0].tolist() == [0, 0, 16, 12]


@pytest.mark.parametrize(
    "preview", ["https://example.org/track.png", "data:image/svg+xml;base64,AAAA", 'data:image/png;base64,"><script>']
)
def test_a_file_cannot_make_a_page_load_something_else(preview):
    with pytest.raises(DataError, match="preview"):
        drawn(preview=preview)
