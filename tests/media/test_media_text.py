"""Pictures and sounds beside words: every score by an independent way, on tiny random models of eight architectures."""

import base64
import copy
import io
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from scipy.signal import resample_poly

import normxlogit
from normxlogit import Explainer
from normxlogit.copies.clone import clone
from normxlogit.errors import InputError, MethodError
from normxlogit.frozen.backward import frozen_backward
from normxlogit.media.inputs.picture_places import grid_layout, sources_of
from tests import tiny
from tests.contract.compare import total
from tests.media import audio_lm, vlm
from tests.media.multimodal import MODELS, PICTURES, QUESTION, SOUNDS, explainer, made

ENTRY, TOKENS = "frozen-gradient:read_at=0", "frozen-gradient:read_at=-1"

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # PaliGemma's processor


def asked(name, text=QUESTION):
    """Messages with the picture or the sound that a model reads, and a question."""
    return audio_lm.question(audio_lm.sound(), text=text) if name in SOUNDS else vlm.question(vlm.picture(), text=text)


def generated(name, messages, **options):
    return vlm.generated(made(name), messages, **options)


@pytest.mark.parametrize("read_at", ["all", 0, -1])
@pytest.mark.parametrize("name", MODELS)
def test_words_parts_and_bias_add_up_to_what_the_model_itself_wrote(name, read_at):
    inputs, sequence, logits = generated(name, asked(name))
    g = explainer(name).generate(asked(name), max_new_tokens=3, method=f"frozen-gradient:read_at={read_at}")
    assert list(g.token_ids) == sequence.tolist()
    expected = vlm.explained(logits, sequence[inputs["input_ids"].shape[1] :])
    np.testing.assert_allclose(total(g), expected, atol=1e-4 * np.abs(expected).max())
    (medium,) = g.audio if name in SOUNDS else g.images
    assert np.abs(medium.scores).max() > 1e-3
    if name in SOUNDS:
        assert (medium.kind, medium.seconds) == ("sound", pytest.approx(1.0))
        assert (g.scores[:, list(medium.tokens)] == 0).all()


# Pictures


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PICTURES)
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


@pytest.mark.parametrize("name", PICTURES)
def test_patches_have_what_scaling_their_embedding_changes_in_the_network_with_everything_held(name):
    model, _ = made(name)
    messages = asked(name)
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


@pytest.mark.parametrize("name", PICTURES)
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


@pytest.mark.parametrize("name", PICTURES)
def test_a_completion_from_elsewhere_is_explained_like_one_that_was_generated(name):
    messages = asked(name)
    g = explainer(name).generate(messages, max_new_tokens=3)
    again = explainer(name).explain_completion(messages, list(g.token_ids[g.prompt_tokens :]))
    np.testing.assert_allclose(again.scores, g.scores, atol=1e-5)
    np.testing.assert_allclose(again.images[0].scores, g.images[0].scores, atol=1e-5)
    by_text = explainer(name).explain_completion(messages, " the cat")
    assert by_text.completion.strip() == "the cat"
    assert len(by_text) == 2


# Where a patch is: a picture that is dark but for one region changes the model's reading of that region alone.


@pytest.mark.parametrize("name", PICTURES)
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


@pytest.mark.parametrize("name", PICTURES)
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
        (lambda: vlm.encoded(made("llava").processor, asked("llava")), "pass pictures in messages"),
    ],
)
def test_a_prompt_whose_picture_would_be_left_out_is_refused(prompt, reason):
    with pytest.raises(InputError, match=reason):
        explainer("llava").generate(prompt() if callable(prompt) else prompt)


def test_methods_that_score_words_alone_are_refused():
    with pytest.raises(MethodError, match="scores words alone"):
        explainer("llava").generate(vlm.question(vlm.picture()), max_new_tokens=1, method="gradient-x-input")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_a_source_with_the_sum_of_its_patches(name):
    messages = asked(name)
    g = explainer(name).generate(messages, max_new_tokens=2)
    s = explainer(name).explain_completion(messages, list(g.token_ids[g.prompt_tokens :]), sources="message")
    by_name = dict(zip(s.units.name, s.whole().scores, strict=True))
    assert by_name["picture 1"] == pytest.approx(g.images[0].scores.sum(), rel=1e-4)
    np.testing.assert_allclose(total(s), total(g).sum(), rtol=1e-4)
    assert str(s)
    with pytest.raises(MethodError, match="leaves tokens out"):
        explainer(name).explain_completion(messages, " the cat", method="occlusion", parts="word")


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
    assert everything.units.name == ("all", *messages.units.name[-2:])  # nothing is outside
    np.testing.assert_allclose(total(everything), total(messages), rtol=1e-4, atol=1e-5)
    written = explainer(name).explain_completion(
        vlm.question(picture), " the cat", sources={"all": (0, 0, width, height)}
    )
    assert written.units.name == everything.units.name
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


# Sounds

SECONDS_OF_TOKEN = {"qwen2_audio": 0.04, "glmasr": 1 / 12, "fixed_length": 0.04}


@pytest.mark.parametrize("name", SOUNDS)
def test_moments_have_what_scaling_their_frames_changes_in_the_network_with_everything_held(name):
    """Two sounds, of each its frames: those of its moments are its score."""
    messages = audio_lm.question(audio_lm.sound(1.0), audio_lm.sound(0.7, seed=1))
    if name == "glmasr":  # its processor takes one
        messages = audio_lm.question(audio_lm.sound())
    g = explainer(name).generate(messages, max_new_tokens=1, method=f"{ENTRY},sink_threshold=none")
    inputs, sequence, _ = vlm.generated(made(name), messages, max_new_tokens=1)
    model = clone(made(name)[0])
    convolution = next(module for module in model.modules() if isinstance(module, torch.nn.Conv1d))
    scales = torch.ones(len(g.audio), 1, 200, requires_grad=True)  # (sounds, 1, frames)
    convolution.register_forward_hook(lambda _, __, output: output * scales)
    logits = model(**inputs).logits[0, -1]
    answer = logits[sequence[-1]] - logits.mean()
    with frozen_backward(answer, [scales]):
        (slopes,) = torch.autograd.grad(answer, scales)
    for index, heard in enumerate(g.audio):
        expected = slopes[index, 0, : len(heard.times)].numpy()
        np.testing.assert_allclose(heard.scores[0], expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", SOUNDS)
@pytest.mark.parametrize("start", [0.1, 0.45, 0.8])
def test_a_moment_is_when_it_is_heard(name, start):
    """Where a tenth of a second is another, a model whose encoder looks nowhere else reads other frames and tokens."""
    sound = np.random.default_rng(0).normal(0, 0.1, audio_lm.RATE).astype(np.float32)
    changed = sound.copy()
    changed[round(start * audio_lm.RATE) : round((start + 0.1) * audio_lm.RATE)] *= -1
    changed[round(start * audio_lm.RATE) : round((start + 0.1) * audio_lm.RATE) : 2] *= -1  # as loud, another spectrum
    model = copy.deepcopy(made(name)[0])
    modules = dict(model.named_modules())
    for path, module in modules.items():
        if "tower" in path and path.endswith(("attn.out_proj", "attn.o_proj")):
            torch.nn.init.zeros_(module.weight)
    convolution = next(module for module in modules.values() if isinstance(module, torch.nn.Conv1d))
    projector = next(module for path, module in modules.items() if path.endswith("multi_modal_projector"))

    def read(samples):
        outputs = []
        keep = [
            module.register_forward_hook(lambda *args: outputs.append(args[2])) for module in (convolution, projector)
        ]
        model(**vlm.encoded(made(name).processor, audio_lm.question(samples)))
        for hook in keep:
            hook.remove()
        return outputs[0][0].T, outputs[1].reshape(-1, outputs[1].shape[-1])  # (frames, H), (tokens, H)

    for method, before, after in zip((ENTRY, TOKENS), read(sound), read(changed), strict=True):
        times = explainer(name).explain_completion(audio_lm.question(sound), " cat", method=method).audio[0].times
        change = (after - before).norm(dim=-1)[: len(times)]
        begin, end = times[int(change.argmax())]
        margin = 0.05 + SECONDS_OF_TOKEN[name]  # what spectra and convolutions look at besides, and a token
        assert start - margin <= begin
        assert end <= start + 0.1 + margin


@pytest.mark.parametrize("name", SOUNDS)
def test_tokens_of_a_sound_have_the_seconds_that_they_are_of(name):
    for seconds in (0.5, 1.0, 1.7):
        g = explainer(name).explain_completion(audio_lm.question(audio_lm.sound(seconds)), " cat", method=TOKENS)
        times = g.audio[0].times
        np.testing.assert_allclose(np.diff(times[:, 0]), SECONDS_OF_TOKEN[name], rtol=0.08)
        assert times[-1, 1] == pytest.approx(seconds, abs=1e-6)
        assert g.audio[0].loudness.argmax() > 0.5 * len(g.audio[0].loudness)  # it gets louder


def test_sounds_of_one_length_are_measured_once(monkeypatch):
    own, read = Explainer(*audio_lm.qwen2_audio()), []
    extractor = transformers.WhisperFeatureExtractor
    call = extractor.__call__
    monkeypatch.setattr(extractor, "__call__", lambda *args, **options: read.append(1) or call(*args, **options))
    first = own.explain_completion(audio_lm.question(audio_lm.sound()), " cat")
    measured = len(read)
    second = own.explain_completion(audio_lm.question(audio_lm.sound(seed=1)), " cat")
    assert (measured > 1, len(read) - measured) == (True, 1)
    np.testing.assert_array_equal(first.audio[0].times, second.audio[0].times)


def test_a_sound_whose_end_is_not_read_says_so():
    g = explainer("qwen2_audio").explain_completion(audio_lm.question(audio_lm.sound(5.0)), " cat")
    assert g.notes == ("sound 1 has 5.0 s; only the first 2.0 were read",)
    assert g.audio[0].times[-1, 1] == pytest.approx(2.0)
    pieces = explainer("glmasr").explain_completion(audio_lm.question(audio_lm.sound(5.0)), " cat")
    assert not pieces.notes  # it cuts sounds into pieces, and reads them all
    assert pieces.audio[0].times[-1, 1] == pytest.approx(5.0)


def test_every_way_to_write_a_sound_is_the_same_sound(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    samples = audio_lm.sound()
    path, file = tmp_path / "a dog.wav", io.BytesIO()
    soundfile.write(path, samples, audio_lm.RATE, subtype="FLOAT")
    soundfile.write(file, samples, audio_lm.RATE, subtype="FLOAT", format="WAV")
    encoded_file = base64.b64encode(file.getvalue()).decode()
    written = [
        {"type": "audio", "audio": {"array": samples, "sampling_rate": audio_lm.RATE}},
        {"type": "audio", "audio": torch.tensor(samples)},
        {"type": "audio", "audio": str(path)},
        {"type": "audio", "path": path},
        {"type": "audio", "base64": encoded_file},
        {"type": "audio", "url": f"data:audio/wav;base64,{encoded_file}"},
    ]
    expected = explainer("qwen2_audio").explain_completion(audio_lm.question(samples), " cat")
    for part in written:
        messages = [{"role": "user", "content": [part, {"type": "text", "text": "what is on the left ?"}]}]
        found = explainer("qwen2_audio").explain_completion(messages, " cat")
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
        np.testing.assert_allclose(found.audio[0].scores, expected.audio[0].scores, atol=1e-5)
        assert found.audio[0].name == ("a dog.wav" if str(path) in map(str, part.values()) else "sound 1")


def test_a_result_with_a_sound_is_saved_drawn_and_grouped(tmp_path):
    g = explainer("qwen2_audio").generate(audio_lm.question(audio_lm.sound()), max_new_tokens=2)
    for ending in ("json", "parquet"):
        g.save(tmp_path / f"g.{ending}")
        assert normxlogit.load(tmp_path / f"g.{ending}") == g
    g.to_html(tmp_path / "g.html")
    assert "sound 1" in str(g)
    sources = g.sources("sentence")
    heard = sources.scores[:, list(sources.units.names).index("sound 1")]
    np.testing.assert_allclose(heard, g.audio[0].total.sum(), atol=1e-4)


def test_a_sound_of_another_rate_in_a_message_is_resampled():
    samples = audio_lm.sound()
    part = {"type": "audio", "audio": {"array": samples, "sampling_rate": 2 * audio_lm.RATE}}
    messages = [{"role": "user", "content": [part, {"type": "text", "text": "what is on the left ?"}]}]
    found = explainer("qwen2_audio").explain_completion(messages, " cat", verify=1)
    halved = resample_poly(samples, 1, 2).astype(np.float32)
    expected = explainer("qwen2_audio").explain_completion(audio_lm.question(halved), " cat", verify=1)
    np.testing.assert_allclose(found.audio[0].scores, expected.audio[0].scores, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found.audio[0].times, expected.audio[0].times)
    assert found.verified.original.value == pytest.approx(expected.verified.original.value, rel=1e-4)
    assert any("resampled from 32000 samples a second to 16000" in note for note in found.notes)


@pytest.mark.parametrize(
    ("sound", "error"),
    [
        (
            {"type": "audio", "audio": {"array": [0.1] * 800, "sampling_rate": -8000}},
            "sampling_rate must be a positive",
        ),
        ({"type": "audio", "audio": "https://example.org/a.wav"}, "not fetched"),
        ({"type": "audio"}, "a sound as a mapping"),
        ({"type": "audio", "base64": "#"}, "not base64"),
        ({"type": "video", "video": "a.mp4"}, "'video'"),
    ],
)
def test_what_is_no_sound_is_refused(sound, error):
    messages = [{"role": "user", "content": [sound, {"type": "text", "text": "what is it ?"}]}]
    with pytest.raises(InputError, match=error):
        explainer("qwen2_audio").generate(messages, max_new_tokens=1)


def test_a_model_of_texts_alone_refuses_a_sound():
    messages = audio_lm.question(audio_lm.sound())
    tokenizer = tiny.letters()
    tokenizer.chat_template = audio_lm.SPOKEN
    model = tiny.model("llama", "CausalLM", vocab_size=100)
    with pytest.raises(InputError, match="reads texts alone, and a message holds a sound"):
        Explainer(model, tokenizer).generate(messages, max_new_tokens=1)
    model, processor = audio_lm.qwen2_audio()
    processor.tokenizer.chat_template = audio_lm.SPOKEN
    with pytest.raises(InputError, match="reads no sounds: pass the model's processor"):
        Explainer(model, processor.tokenizer).generate(messages, max_new_tokens=1)


def test_a_prompt_is_drawn_with_one_name_for_each_sound():
    messages = audio_lm.question(audio_lm.sound(), audio_lm.sound(0.6))
    drawn = str(explainer("qwen2_audio").explain_completion(messages, " cat"))
    assert "<bos> [sound 1] <eos> <bos> [sound 2] <eos> what" in drawn
