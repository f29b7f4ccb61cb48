import json
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import normxlogit
from normxlogit import Explainer
from normxlogit.errors import DataError, InputError
from normxlogit.results.attribution import Attribution
from tests.abilities import image_processor
from tests.media.factories import make_media
from tests.media.test_signals import PROCESSOR, picture, vit

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


CROPPING = image_processor("CLIPImageProcessor", size={"shortest_edge": 40}, crop_size={"height": 32, "width": 48})


@pytest.mark.parametrize("size", [(60, 50), (640, 500), (12, 10)])
@pytest.mark.parametrize("processor", [PROCESSOR, CROPPING])
def test_what_changes_in_a_box_of_a_classifier_is_read_by_its_patch(processor, size):
    """Inverting the middle of a box in the picture changes what the processor returns for that patch, and no other."""
    image = picture(size=size)
    boxes = Explainer(vit(), processor)(image).images[0].boxes
    for row, column in ((0, 0), (1, 2), (3, 5)):
        low, high = boxes[row, column].reshape(2, 2)
        slack = np.maximum(0.35 * (high - low), 0.5)
        x, y = map(slice, (low + slack).astype(int), np.ceil(high - slack).astype(int))
        levels = np.asarray(image).copy()
        levels[y, x] = 255 * (levels[y, x] < 128)
        pictures = (image, Image.fromarray(levels))
        before, after = (processor(of, return_tensors="np")["pixel_values"][0] for of in pictures)
        changed = np.abs(after - before).sum(0).reshape(4, 8, 6, 8).sum((1, 3))  # of each patch
        assert changed[row, column] > (0.85 if min(size) > 10 else 0.7) * changed.sum()  # enlarging mixes neighbours


def test_parts_of_a_picture_are_pixels_wherever_they_are_told(tmp_path):
    explainer = Explainer(vit(), PROCESSOR)
    a = explainer(picture(), verify=2)
    a.save(tmp_path / "a.json")
    for result in (a, normxlogit.load(tmp_path / "a.json")):
        (image,) = result.images
        assert (image.width, image.height) == (60, 50)
        table = result.to_pandas()
        np.testing.assert_array_equal(table.loc[1:, ["left", "top", "right", "bottom"]], image.boxes.reshape(-1, 4))
        assert set(table.loc[1:, "medium"]) == {"picture 1"}
        names = [removal.units[0] for removal in result.verified.single]
        assert {unit.name for unit in result.top(2)} == set(names)
        for drawn in (str(result), result.to_html()):
            assert names[0] in drawn
        for drawn in (str(grouped := result.group({"the ear": (0, 0, 9, 9)})), grouped.to_html()):
            assert {"the ear", "the rest of picture 1"} <= set(re.findall("the ear|the rest of picture 1", drawn))
        again = explainer.without(picture(), tuple(map(float, names[0].strip("()").split(", "))))
        assert again.tokens == result.verified.single[0].tokens
    (of_tensor,) = explainer(PROCESSOR(picture(), return_tensors="pt"))
    assert of_tensor.images[0].boxes[1, 2].tolist() == [16, 8, 24, 16]
    with pytest.raises(InputError, match="does not read that part"):
        Explainer(vit(), CROPPING).without(picture(), (0, 0, 60, 3))


def test_pictures_without_a_name_are_told_apart(tmp_path):
    pytest.importorskip("normxlogit.similarity")
    from tests.media.towers import model_and_processor

    explainer = Explainer(*model_and_processor())
    picture().save(tmp_path / "cat.png")
    results = explainer.similarity(picture(0), [picture(1), tmp_path / "cat.png"], verify=3)
    assert [s.media[1].name for s in results] == ["picture 2", "cat.png"]
    same = explainer.similarity(tmp_path / "cat.png", tmp_path / "cat.png")
    assert [medium.name for medium in same.media] == ["cat.png", "cat.png (2)"]
    assert all("picture 2" in drawn for drawn in (str(results[0]), results[0].to_html()))


def test_a_region_has_the_patches_by_the_share_of_their_area_in_it():
    (image,) = make_media().images  # four patches of 8 x 6 pixels
    s = image.scores
    expected = s[:, 0, 0] / 2 + s[:, 0, 1] + s[:, 1, 0] / 2 / 3 + s[:, 1, 1] / 3
    sums = make_media().group({"a": (4, 0, 16, 8)})
    region = sums.units.name.index("a")
    np.testing.assert_allclose(sums.scores[:, region], expected, rtol=1e-5)
    np.testing.assert_allclose(sums.scores.sum(1), make_media().scores.sum(1), rtol=1e-5)  # the rest is there too
