"""What a completion loses without words, regions of pictures and moments of sounds, by the caller's own model."""

import numpy as np
import pytest
from PIL import Image

import normxlogit
from tests.media import audio_lm, vlm
from tests.media.multimodal import PALIGEMMA, QUESTION, explainer, made

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # PaliGemma's processor


def answer(name, g, *media, text=QUESTION, kind="image"):
    """The log-probability of what was explained as the own model's answer to another question."""
    return vlm.log_probability(made(name), vlm.question(*media, text=text, kind=kind), g.token_ids[g.prompt_tokens :])


def asked_without(unit):
    return " ".join(word for word in QUESTION.split() if word != unit.strip())


def without_box(picture, box):
    """A picture with the mean of the pixels around a box in it: as far on each side as the box is wide and high."""
    left, top, right, bottom = box
    pixels, inside, around = np.asarray(picture).astype(float), [], []
    for y, x in np.ndindex(*pixels.shape[:2]):
        if left <= x + 0.5 < right and top <= y + 0.5 < bottom:
            inside.append((y, x))
        elif 2 * left - right <= x + 0.5 < 2 * right - left and 2 * top - bottom <= y + 0.5 < 2 * bottom - top:
            around.append((y, x))
    colour = np.mean([pixels[place] for place in around], 0)
    for place in inside:
        pixels[place] = colour
    return Image.fromarray(pixels.round().astype(np.uint8))


@pytest.mark.parametrize("name", ["llava", PALIGEMMA, "qwen2_vl", "idefics3", "gemma3"])
def test_words_and_regions_are_left_out_and_the_own_model_is_asked(name):
    picture = vlm.picture()
    g = explainer(name).explain_completion(vlm.question(picture), " the cat", verify=12)
    assert (g.verified.unit, g.verified.removed_by) == ("part", "removed")
    assert g.verified.original.value == pytest.approx(answer(name, g, picture), abs=1e-3)
    kinds, (medium,) = set(), g.media
    box = medium.places.reshape(-1, 4)[-1]
    without = explainer(name).without(vlm.question(picture), box, completion=" the cat")
    assert without.value == pytest.approx(answer(name, g, without_box(picture, box.tolist())), abs=1e-3)
    for removal in g.verified.single:
        (unit,) = removal.units
        kinds.add(unit.startswith("region "))
        if unit.startswith("region "):
            box = medium.places.reshape(-1, 4)[removal.tokens[0] - medium.first].tolist()
            expected = answer(name, g, without_box(picture, box))
        else:
            expected = answer(name, g, picture, text=asked_without(unit))
        assert removal.value == pytest.approx(expected, abs=1e-3)
    assert kinds == {True, False}
    assert "Without the 12 parts of the highest scores:" in str(g)
    assert normxlogit.Attribution.from_dict(g.to_dict()) == g


def test_all_that_is_removed_together_is_removed_from_the_words_and_from_each_picture():
    first, second = vlm.picture(), vlm.picture(seed=1)
    g = explainer("llava").explain_completion(vlm.question(first, second), " the cat", verify=6)
    boxes, words = {0: [], 1: []}, QUESTION.split()
    for removal in g.verified.single:
        (unit,), tokens = removal.units, removal.tokens
        if unit.startswith("region "):
            place = next(k for k, m in enumerate(g.media) if m.units.start <= tokens[0] < m.units.stop)
            assert unit.endswith(f" of picture {place + 1}")
            medium = g.media[place]
            boxes[place].append(medium.places.reshape(-1, 4)[tokens[0] - medium.first])
        else:
            words.remove(unit)
    assert boxes[0]
    assert boxes[1]
    pictures = []
    for place, picture in enumerate((first, second)):
        apart = [
            [a for a in boxes[place] if (np.abs(a - box)[[0, 1]] > 1.9 * (box[2:] - box[:2])).any()]
            for box in boxes[place]
        ]
        assert all(len(others) == len(boxes[place]) - 1 for others in apart), "neighbours would change the colour"
        for box in boxes[place]:
            picture = without_box(picture, box.tolist())
        pictures.append(picture)
    expected = answer("llava", g, *pictures, text=" ".join(words))
    assert g.verified.together.value == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("method", ["frozen-gradient", "occlusion"])
@pytest.mark.parametrize("name", ["llava", "qwen2_vl"])
def test_regions_and_the_rest_of_a_picture_are_sources_that_can_be_left_out(name, method):
    picture = vlm.picture()
    width, height = picture.size
    box = (0, 0, width // 2, height // 2)
    sources = {"asked": (0, 0, 10), "corner": box}
    g = explainer(name).explain_completion(vlm.question(picture), " the cat", sources=sources, verify=3, method=method)
    tokens = explainer(name).explain_completion(vlm.question(picture), " the cat")
    whole = answer(name, tokens, picture)
    pixels = np.asarray(picture).astype(float)
    rest = np.broadcast_to(pixels[: height // 2, : width // 2].mean((0, 1)), pixels.shape).copy()
    rest[: height // 2, : width // 2] = pixels[: height // 2, : width // 2]
    expected = {
        "asked": answer(name, tokens, picture, text="the left ?"),
        "corner": answer(name, tokens, without_box(picture, box)),
        "the rest of picture 1": answer(name, tokens, Image.fromarray(rest.round().astype(np.uint8))),
    }
    assert {r.units[0]: r.value for r in g.verified.single} == pytest.approx(expected, abs=1e-2)
    if method == "occlusion":
        scores = dict(zip(g.units.names, g.scores[0], strict=True))
        assert scores == pytest.approx({name: whole - value for name, value in expected.items()}, abs=1e-2)


@pytest.mark.parametrize("name", ["llava", PALIGEMMA, "qwen2_vl", "idefics3", "gemma3", "qwen2_audio"])
def test_one_backward_pass_for_a_part_is_the_sum_over_its_tokens(name):
    kind, medium = ("audio", audio_lm.sound()) if name == "qwen2_audio" else ("image", vlm.picture())
    messages = vlm.question(medium, text="The cat is red. The tree is on the left.", kind=kind)
    given = messages, "The tree is red. The cat is a dog."
    parts = explainer(name).explain_completion(*given, sources="sentence", parts="sentence")
    by_token = explainer(name).explain_completion(*given).sources("sentence", "sentence")
    assert parts.diagnostics["backward_passes"] == len(parts.targets)
    assert parts.units == by_token.units
    np.testing.assert_allclose(parts.scores, by_token.scores, atol=1e-5 * np.abs(parts.scores).max())
    np.testing.assert_allclose(parts.bias, by_token.bias, atol=1e-4)


def test_words_and_moments_are_left_out_and_the_own_model_is_asked():
    sound = audio_lm.sound()
    g = explainer("qwen2_audio").explain_completion(audio_lm.question(sound), " the cat", verify=6)
    assert g.verified.original.value == pytest.approx(answer("qwen2_audio", g, sound, kind="audio"), abs=1e-3)
    kinds = set()
    for removal in g.verified.single:
        (unit,) = removal.units
        kinds.add(unit.startswith("moment "))
        if unit.startswith("moment "):
            start, end = map(float, unit.removeprefix("moment ").removesuffix(" s").split("-"))
            silent = sound.copy()
            silent[round(start * audio_lm.RATE) : round(end * audio_lm.RATE)] = 0
            expected = answer("qwen2_audio", g, silent, kind="audio")
        else:
            expected = answer("qwen2_audio", g, sound, text=asked_without(unit), kind="audio")
        assert removal.value == pytest.approx(expected, abs=1e-3)
    assert kinds == {True, False}


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "gemma3"])
def test_texts_around_a_picture_are_sources_with_words_that_can_be_left_out(name):
    picture, said = vlm.picture(), "the cat is red .\n\nyes ?"
    parts = [{"type": "text", "text": said}, *vlm.question(picture)[0]["content"]]
    messages = [{"role": "user", "content": parts}]

    def answered(said, text=QUESTION, picture=picture):
        parts = [{"type": "text", "text": said}, *vlm.question(picture, text=text)[0]["content"]]
        return vlm.log_probability(made(name), [{"role": "user", "content": parts}], list(g.token_ids[-2:]))

    g = explainer(name).explain_completion(messages, " the cat", verify=99)
    lost = {r.units[0].strip(): r.value for r in g.verified.single}
    expected = {"left": answered(said, "what is on the ?"), "red": answered("the cat is . yes ?")}
    assert {word: lost[word] for word in expected} == pytest.approx(expected, abs=1e-3)
    sources = {"said": (0, 0, 16), "asked": (0, 24, 24 + len(QUESTION))}
    by_name = explainer(name).explain_completion(messages, " the cat", sources=sources, method="occlusion")
    whole = answered(said)
    expected = [whole - answered("yes ?"), whole - answered(said, "")]
    assert by_name.scores[0, :2].tolist() == pytest.approx(expected, abs=1e-3)
    assert g.sources("message").units.names[:3] == ("user", "user", "picture 1")
