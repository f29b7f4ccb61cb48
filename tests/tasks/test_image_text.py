"""Pictures beside words: every score by an independent way, on tiny random models of five architectures."""

import base64
import copy
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from normxlogit import Explainer
from normxlogit.copies.clone import clone
from normxlogit.errors import InputError, MethodError
from normxlogit.frozen.backward import frozen_backward
from normxlogit.inputs.media.picture_places import grid_layout, sources_of
from tests import vlm
from tests.contract.compare import total

MODELS = {"llava": vlm.llava, "paligemma": vlm.paligemma, "qwen2_vl": vlm.qwen2_vl, "idefics3": vlm.idefics3}
MODELS["gemma3"] = vlm.gemma3
READ = ["all", 0, -1]

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # PaliGemma's processor


@cache
def made(name):
    return MODELS[name]()


@cache
def explainer(name):
    return Explainer(*made(name))


def generated(name, messages, **options):
    return vlm.generated(made(name), messages, **options)


@pytest.mark.parametrize("read_at", READ)
@pytest.mark.parametrize("name", MODELS)
def test_words_patches_and_bias_add_up_to_what_the_model_itself_wrote(name, read_at):
    messages = vlm.question(vlm.picture())
    inputs, sequence, logits = generated(name, messages)
    g = explainer(name).generate(messages, max_new_tokens=3, method=f"frozen-gradient:read_at={read_at}")
    assert list(g.token_ids) == sequence.tolist()
    expected = vlm.explained(logits, sequence[inputs["input_ids"].shape[1] :])
    np.testing.assert_allclose(total(g), expected, atol=1e-4 * np.abs(expected).max())
    assert np.abs(g.images[0].scores).max() > 1e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_models_in_half_precision_are_explained_as_in_full(name, dtype):
    """As every checkpoint is loaded; the processor's pixels stay in its own precision until the model reads them."""
    _, processor = made(name)
    messages, completion = vlm.question(vlm.picture()), " the cat is red"
    model = copy.deepcopy(made(name)[0]).to(dtype)
    for method in ("frozen-gradient", "frozen-gradient:read_at=0"):
        full = explainer(name).explain_completion(messages, completion, method=method)
        half = Explainer(model, processor).explain_completion(messages, completion, method=method)
        assert half.images[0].boxes.tolist() == full.images[0].boxes.tolist()
        rounding = 16 * torch.finfo(dtype).eps
        scale = np.abs(full.images[0].scores).max()
        np.testing.assert_allclose(half.images[0].scores, full.images[0].scores, atol=rounding * scale)
        np.testing.assert_allclose(total(half), total(full), atol=rounding * np.abs(total(full)).max())


@pytest.mark.parametrize("name", MODELS)
def test_patches_have_what_scaling_their_embedding_changes_in_the_network_with_everything_held(name):
    model, _ = made(name)
    messages = vlm.question(vlm.picture())
    g = explainer(name).generate(messages, max_new_tokens=1, method="frozen-gradient:read_at=0,sink_threshold=none")
    inputs, sequence, _ = generated(name, messages, max_new_tokens=1)
    copy = clone(model)
    convolution = next(m for m in copy.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Conv3d))
    scale = torch.ones((), requires_grad=True)
    convolution.register_forward_hook(lambda _, __, output: output * scale)
    logits = copy(**inputs).logits[0, -1]
    answer = logits[sequence[-1]] - logits.mean()
    with frozen_backward(answer, [scale]):
        (slope,) = torch.autograd.grad(answer, scale)
    assert g.images[0].scores.sum() == pytest.approx(slope.item(), abs=1e-4 * max(1, abs(slope.item())))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("read_at", ["all", 0])
def test_pictures_are_explained_beside_others_as_alone(name, read_at):
    method = f"frozen-gradient:read_at={read_at}"
    prompts = [vlm.question(vlm.picture(seed=1)), "what is a cat", vlm.question(vlm.picture(40, 64, seed=2))]
    together = explainer(name).generate(prompts, max_new_tokens=2, method=method)
    for prompt, beside in zip(prompts, together, strict=True):
        alone = explainer(name).generate(prompt, max_new_tokens=2, method=method)
        assert alone.token_ids == beside.token_ids
        np.testing.assert_allclose(alone.scores, beside.scores, atol=1e-5)
        for one, other in zip(alone.images, beside.images, strict=True):
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_completion_from_elsewhere_is_explained_like_one_that_was_generated(name):
    messages = vlm.question(vlm.picture())
    g = explainer(name).generate(messages, max_new_tokens=3)
    again = explainer(name).explain_completion(messages, list(g.token_ids[g.prompt_tokens :]))
    np.testing.assert_allclose(again.scores, g.scores, atol=1e-5)
    np.testing.assert_allclose(again.images[0].scores, g.images[0].scores, atol=1e-5)
    by_text = explainer(name).explain_completion(messages, " the cat")
    assert by_text.completion.strip() == "the cat"
    assert len(by_text) == 2


# Where a patch is: a picture that is dark but for one region changes the model's reading of that region alone.


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("size", [(48, 40), (90, 50)])
def test_boxes_are_where_the_numbers_of_a_patch_come_from(name, size):
    """The patches whose numbers change with a region of the picture are those whose boxes it overlaps."""
    width, height = size
    plain = np.full((height, width, 3), 90, np.uint8)
    g = explainer(name).generate(vlm.question(plain), max_new_tokens=1, method="frozen-gradient:read_at=0")
    boxes = g.images[0].boxes
    assert (boxes[..., 2:] > boxes[..., :2]).all()
    np.testing.assert_allclose(boxes[:, 1:, 0], boxes[:, :-1, 2], atol=1e-3)  # no gaps, row by row and column by column
    np.testing.assert_allclose(boxes[1:, :, 1], boxes[:-1, :, 3], atol=1e-3)
    assert boxes[..., 0].min() >= -0.01
    assert boxes[..., 2].max() <= width + 0.01
    # The middle of the picture is in the middle of the grid, whatever was cropped.
    centre = (boxes[0, 0, :2] + boxes[-1, -1, 2:]) / 2
    np.testing.assert_allclose(centre, [width / 2, height / 2], atol=0.04 * max(size))


@pytest.mark.parametrize("name", MODELS)
def test_a_patch_counts_only_what_lies_in_its_box(name):
    """Blackening what lies outside a box, a margin apart, leaves what the patch embedding makes of it alone."""
    processor = made(name).processor
    picture = np.asarray(vlm.picture(64, 64))
    g = explainer(name).generate(vlm.question(picture), max_new_tokens=1, method="frozen-gradient:read_at=0")
    boxes = g.images[0].boxes
    row, column = boxes.shape[0] // 2, boxes.shape[1] // 2
    left, top, right, bottom = boxes[row, column]
    inside = picture.copy()
    inside[int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))] = (
        255 - inside[int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))]
    )
    before, after = (
        np.asarray(processor.image_processor(images=[vlm.Image.fromarray(p)], return_tensors="np")["pixel_values"])
        for p in (picture, inside)
    )
    changed = np.abs(before - after).reshape(-1)
    medium = explainer(name)._model.task
    sources = sources_of(medium._boxes.pixels, (picture.shape[1], picture.shape[0]))
    weight = changed * sources.inside.reshape(-1)
    x, y = ((weight * values.reshape(-1)).sum() / weight.sum() for values in (sources.x, sources.y))
    assert left - 1 <= x <= right + 1
    assert top - 1 <= y <= bottom + 1


def test_a_picture_is_found_under_the_usual_keys_and_by_a_pipeline(tmp_path):
    vlm.picture().save(tmp_path / "cat.png")
    encoded = base64.b64encode((tmp_path / "cat.png").read_bytes()).decode()
    data = f"data:image/png;base64,{encoded}"
    parts = [
        {"type": "image", "url": str(tmp_path / "cat.png")},
        {"type": "image", "url": data},
        {"type": "image", "base64": encoded},
        {"type": "image_url", "image_url": {"url": data}},
        {"type": "image_url", "image_url": data},
        {"type": "input_image", "image_url": data},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": encoded}},
        {"inline_data": {"mime_type": "image/png", "data": encoded}},
        {"type": "image", "image": f"file://{tmp_path / 'cat.png'}"},
        {"type": "image", "image": np.asarray(vlm.picture()).astype(np.float32)},
        {"image": vlm.picture()},
        vlm.picture(),
    ]
    model, processor = made("llava")
    piped = Explainer(SimpleNamespace(model=model, processor=processor, tokenizer=processor.tokenizer))
    expected = explainer("llava").generate(vlm.question(vlm.picture()), max_new_tokens=1)
    for part in parts:
        (message,) = vlm.question(vlm.picture())
        message["content"][0] = part
        result = piped.generate([message], max_new_tokens=1)
        np.testing.assert_array_equal(result.images[0].scores, expected.images[0].scores)


QUESTION = "what is on the left ?"
BESIDE = [{"type": "image"}, {"type": "text", "text": QUESTION}]


@pytest.mark.parametrize(
    "prompt",
    [
        [{"role": "user", "content": QUESTION, "images": [vlm.picture()]}],
        [{"role": "user", "content": [vlm.picture(), QUESTION]}],
        [{"role": "user", "content": [{"image": vlm.picture()}, {"text": QUESTION}]}],
        {"messages": [{"role": "user", "content": BESIDE}], "images": [vlm.picture()]},
        {"messages": [{"role": "user", "content": QUESTION}], "images": [vlm.picture()]},
        pd.DataFrame({"prompt": [[{"role": "user", "content": BESIDE}]], "images": [[vlm.picture()]]}),
    ],
)
def test_a_picture_is_read_wherever_a_prompt_has_it(prompt):
    expected = explainer("llava").generate(vlm.question(vlm.picture()), max_new_tokens=1)
    results = explainer("llava").generate(prompt, max_new_tokens=1)
    result = results[0] if isinstance(prompt, pd.DataFrame) else results
    np.testing.assert_array_equal(result.images[0].scores, expected.images[0].scores)
    assert result.prompt == expected.prompt


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ({"messages": [{"role": "user", "content": BESIDE}], "images": [vlm.picture()] * 2}, "places for 1 pictures"),
        ([{"role": "user", "content": [{"inline": 1}]}], r"a part without a type \(inline\)"),
        ([{"role": "user", "content": [QUESTION, 7]}], "holds a int among its parts"),
        ((vlm.picture(), QUESTION), "a picture or a sound stands in a message"),
        ({"image": vlm.picture(), "text": QUESTION}, "a picture or a sound stands in a message"),
    ],
)
def test_a_prompt_whose_picture_would_be_left_out_is_refused(prompt, reason):
    with pytest.raises(InputError, match=reason):
        explainer("llava").generate(prompt)


def test_what_a_processor_returned_is_refused_with_the_line_to_write():
    inputs, *_ = generated("llava", vlm.question(vlm.picture()))
    with pytest.raises(InputError, match="pass pictures in messages"):
        explainer("llava").generate(inputs)


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "gemma3"])
def test_words_beside_a_picture_are_verified_by_the_models_own_answer_without_them(name):
    model, processor = made(name)
    g = explainer(name).explain_completion(vlm.question(vlm.picture()), " the cat", verify=2)
    ids = torch.tensor([g.token_ids[g.prompt_tokens :]])

    def answer(text):
        inputs = processor.apply_chat_template(
            vlm.question(vlm.picture(), text=text),
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            add_generation_prompt=True,
        )
        count = inputs["input_ids"].shape[1]
        for key, values in inputs.items():
            if values.shape == (1, count):
                inputs[key] = torch.cat([values, torch.full_like(ids, key == "attention_mask")], 1)
        inputs["input_ids"][:, count:] = ids
        with torch.no_grad():
            logits = model(**inputs).logits[0, count - 1 : -1].log_softmax(-1)
        return float(logits.gather(1, ids.T).sum())

    assert g.verified.original.value == pytest.approx(answer(QUESTION), abs=1e-3)
    assert len(g.verified.single) == 2
    for removal in g.verified.single:
        (word,) = (unit.strip() for unit in removal.units)
        left = " ".join(each for each in QUESTION.split() if each != word)
        assert removal.value == pytest.approx(answer(left), abs=1e-3)


def test_methods_that_score_words_alone_are_refused():
    with pytest.raises(MethodError, match="scores words alone"):
        explainer("llava").generate(vlm.question(vlm.picture()), max_new_tokens=1, method="gradient-x-input")


@pytest.mark.parametrize("name", MODELS)
def test_a_picture_is_a_source_with_the_sum_of_its_patches(name):
    messages = vlm.question(vlm.picture())
    g = explainer(name).generate(messages, max_new_tokens=2)
    s = explainer(name).explain_completion(messages, list(g.token_ids[g.prompt_tokens :]), sources="message")
    by_name = dict(zip(s.units.name, s.whole().scores, strict=True))
    assert by_name["picture 1"] == pytest.approx(g.images[0].scores.sum(), rel=1e-4)
    np.testing.assert_allclose(total(s), total(g).sum(), rtol=1e-4)
    assert str(s)
    with pytest.raises(MethodError, match="leaves words out"):
        explainer(name).explain_completion(messages, " the cat", sources="message", method="occlusion")


@pytest.mark.parametrize("name", ["llava", "idefics3"])
def test_regions_of_a_picture_and_its_rest_add_up_to_it(name):
    picture = vlm.picture()
    width, height = picture.size
    g = explainer(name).generate(vlm.question(picture), max_new_tokens=3)
    messages = g.sources("message")
    whole = dict(zip(messages.units.name, messages.scores.T, strict=True))
    cut, low = width // 3 + 1, height // 2  # through the middle of a patch
    boxes = {"left": (0, 0, cut, height), "lower right": (cut, low, width, height)}
    s = g.sources(boxes, parts="token")
    assert s.units.name[:3] == ("left", "lower right", "the rest of picture 1")
    np.testing.assert_allclose(s.scores[:, :3].sum(1), g.images[0].total, rtol=1e-4, atol=1e-6)
    everything = g.sources({"all": (0, 0, width, height)})
    np.testing.assert_allclose(everything.scores[:, 0], whole["picture 1"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(everything.scores[:, 1], 0, atol=1e-4)
    assert "lower right" in str(s)


def test_regions_are_sources_and_checked():
    picture = vlm.picture()
    e, messages = explainer("llava"), vlm.question(picture)
    width, height = picture.size
    box = (0, 0, width // 2, height)
    s = e.explain_completion(messages, " the cat", sources={"left": box})
    expected = e.explain_completion(messages, " the cat").sources({"left": box})
    np.testing.assert_allclose(s.scores, expected.scores, rtol=1e-5)
    for wrong, message in [
        ({"a": (0, 0, width + 1, 5)}, "not a box"),
        ({"a": box, "b": (1, 1, 5, 5)}, "overlap"),
        ({"a": (1, *box)}, "holds 1 pictures"),
    ]:
        with pytest.raises(InputError, match=message):
            e.explain_completion(messages, " the cat", sources=wrong)
    with pytest.raises(InputError, match="holds no picture"):
        e.explain_completion("the movie", " the cat", sources={"left": box})


def test_patches_are_read_where_they_enter_unless_the_caller_says_otherwise():
    prompts = [vlm.question(vlm.picture()), "what is a cat"]
    with_picture, words_alone = explainer("llava").generate(prompts, max_new_tokens=1)
    assert with_picture.settings["read_at"] == 0
    assert words_alone.settings["read_at"] == "first-half"
    named = explainer("llava").generate(prompts[0], max_new_tokens=1, method="frozen-gradient")
    assert named.settings["read_at"] == "first-half"
    sources = explainer("llava").explain_completion(prompts[0], " the cat", sources="message")
    assert sources.settings["read_at"] == 0


def test_tiles_with_margins_of_padding_are_spread_over_a_grid():
    """A whole of 2 x 2 parts, and a row of tiles of which the first part is mostly padding, as LLaVA-NeXT has them."""
    whole = [[x, y, x + 20.0, y + 20.0] for y in (0.0, 20.0) for x in (0.0, 20.0)]
    tiles = [
        [x, y, x + wide, y + 8.0]
        for y in range(0, 40, 8)
        for x, wide in ((0.0, 2.0), *((2.0 + 9.5 * i, 9.5) for i in range(4)))
    ]
    boxes = np.array([*whole, *tiles, [np.nan] * 4])
    spread = grid_layout(boxes, (40, 40))
    scores = np.arange(1.0, len(boxes) + 1)[None, None]
    placed = spread(scores)
    assert placed.shape[-2:] == spread.where.shape[:2] == (5, 4)
    np.testing.assert_allclose(placed.sum(), scores[..., :-1].sum(), rtol=1e-5)
    only_first = spread(np.eye(len(boxes))[0][None, None])[0, 0]
    left = spread.where[..., 2] <= 20.01
    assert only_first[left].sum() == pytest.approx(1, abs=1e-5)
