"""CLIP and SigLIP: the cosine of a text and a picture, from either side."""

import numpy as np
import pytest
import torch
import transformers

from normxlogit import Explainer, InputError, UnsupportedModelError
from tests.abilities import needs
from tests.media.test_signals import picture
from tests.media.towers import LENGTH, PICTURES, TEXT, model_and_processor

pytestmark = needs("hidden states of two towers")


def explained(kind):
    model, processor = model_and_processor(kind)
    return model, processor.tokenizer, Explainer(model, processor)


def own_cosine(model, tokenizer, text, image):
    ids = torch.tensor([tokenizer(text)["input_ids"]])
    if isinstance(model, transformers.SiglipModel):
        ids = torch.nn.functional.pad(ids, (0, LENGTH - ids.shape[1]), value=tokenizer.pad_token_id)
    with torch.inference_mode():
        outputs = model(input_ids=ids, pixel_values=PICTURES(image, return_tensors="pt")["pixel_values"])
    return float(torch.nn.functional.cosine_similarity(outputs.text_embeds, outputs.image_embeds))


def side(result, sequence):
    return result.scores[np.array(result.units.sequence) == sequence]


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_words_and_patches_add_up_to_the_cosine_from_either_side(kind):
    model, tokenizer, explainer = explained(kind)
    texts, images = [TEXT, "a great film"], [picture(0), picture(1)]
    result = explainer.similarity(TEXT, images[0])
    words, patches = side(result, 0), side(result, 1)
    (image,) = result.images
    cosine = own_cosine(model, tokenizer, TEXT, images[0])
    assert result.prediction.value == pytest.approx(cosine, abs=1e-5)
    assert words.sum() + result.bias[0] == pytest.approx(cosine, abs=1e-5)
    assert patches.sum() + result.bias[1] == pytest.approx(cosine, abs=1e-5)
    np.testing.assert_array_equal(patches[-16:], image.scores.ravel())
    assert image.scores.shape == (4, 4)
    np.testing.assert_array_equal(image.boxes[0, 1], [15, 0, 30, 12.5])
    assert [word.text for word in result.words(sequence=0)] == TEXT.split()
    for first, others in ((TEXT, images), (images[0], texts)):
        for other, each in zip(others, explainer.similarity(first, others), strict=True):
            text, image = (first, other) if first == TEXT else (other, first)
            assert each.prediction.value == pytest.approx(own_cosine(model, tokenizer, text, image), abs=1e-5)
            alone = explainer.similarity(first, other)
            np.testing.assert_allclose(each.scores, alone.scores, rtol=1e-3, atol=1e-6)


def test_pairs_of_words_and_patches_add_up_to_the_cosine():
    _, _, explainer = explained("clip")
    result = explainer.similarity(TEXT, picture(), matrix=True)
    assert result.pairs.sum() == pytest.approx(result.prediction.value, abs=1e-5)
    np.testing.assert_allclose(result.pairs.sum(1)[:-1], side(result, 0), atol=1e-5)
    np.testing.assert_allclose(result.pairs.sum(0)[:-1], side(result, 1), atol=1e-5)


def test_words_and_regions_are_left_out_to_test_a_cosine_by_the_own_model():
    model, tokenizer, explainer = explained("clip")
    image = picture(0)
    result = explainer.similarity(TEXT, image, verify=8)
    assert (result.verified.unit, result.verified.removed_by) == ("part", "removed")
    pixels = PICTURES(image, return_tensors="pt")["pixel_values"]  # (1, 3, 32, 32), in patches of 8
    words = regions = 0
    for removal in result.verified.single:
        (unit,) = removal.units
        kept, without = TEXT.split(), pixels.clone()
        if unit.startswith("region "):
            regions += 1
            left, top, *_ = map(float, unit.removeprefix("region (").rstrip(")").split(", "))
            row, column = round(top / 12.5), round(left / 15)  # of 60 x 50 pixels
            inside = torch.zeros(32, 32, dtype=torch.bool)
            inside[8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = True
            near = torch.zeros_like(inside)
            near[max(0, 8 * row - 8) : 8 * row + 16, max(0, 8 * column - 8) : 8 * column + 16] = True
            without[0][:, inside] = pixels[0][:, near & ~inside].mean(1, keepdim=True)
        else:
            words += 1
            kept.remove(unit)
        ids = torch.tensor([tokenizer(" ".join(kept))["input_ids"]])
        with torch.inference_mode():
            outputs = model(input_ids=ids, pixel_values=without)
        cosine = torch.nn.functional.cosine_similarity(outputs.text_embeds, outputs.image_embeds)
        assert removal.value == pytest.approx(float(cosine), abs=1e-5)
    assert words
    assert regions


def test_what_cannot_be_compared_is_refused():
    _, _, explainer = explained("clip")
    with pytest.raises(InputError, match="one kind at a time"):
        explainer.similarity(TEXT, [picture(), "a film"])
    with pytest.raises(InputError, match="texts and pictures, not int"):
        explainer.similarity(TEXT, [7])
    with pytest.raises(InputError, match="no text or picture"):
        explainer.similarity(TEXT, [])
    with pytest.raises(UnsupportedModelError, match="similarity"):
        explainer(picture())
