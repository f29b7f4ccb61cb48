"""Pictures and sounds beside words: every score by an independent way, on tiny random models of eight architectures."""

import base64
import copy
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from normxlogit import Explainer
from normxlogit.copies.clone import clone
from normxlogit.errors import InputError, MethodError
from normxlogit.frozen.backward import frozen_backward
from normxlogit.media.inputs.picture_places import sources_of
from tests.contract.compare import total
from tests.media import audio_lm, vlm
from tests.media.multimodal import MODELS, PICTURES, QUESTION, SOUNDS, explainer, made

ENTRY, TOKENS = "frozen-gradient:read_at=0", "frozen-gradient:read_at=-1"

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # PaliGemma's processor


def asked(name, text=QUESTION):
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


@pytest.mark.parametrize("name", PICTURES)
def test_patches_have_what_scaling_their_embedding_changes_in_the_network_with_everything_held(name):
    model, _ = made(name)
    g = explainer(name).generate(asked(name), max_new_tokens=1, method=f"{ENTRY},sink_threshold=none")
    inputs, sequence, _ = generated(name, asked(name), max_new_tokens=1)
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
    if name == "paligemma":  # what it generates of a text alone is refused: its cache answers otherwise than a pass
        del prompts[1]
    together = explainer(name).generate(prompts, max_new_tokens=2, method=method)
    for prompt, beside in zip(prompts, together, strict=True):
        alone = explainer(name).generate(prompt, max_new_tokens=2, method=method)
        assert (alone.token_ids, alone.units) == (beside.token_ids, beside.units)
        np.testing.assert_allclose(alone.scores, beside.scores, atol=1e-5)  # those of patches among them


# Where a patch is: a picture that is dark but for one region changes the model's reading of that region alone.


@pytest.mark.parametrize("name", PICTURES)
def test_a_patch_counts_only_what_lies_in_its_box(name):
    """Blackening what lies outside a box, a margin apart, leaves what the patch embedding makes of it alone."""
    processor = made(name).processor
    picture = np.asarray(vlm.picture(64, 64))
    g = explainer(name).generate(vlm.question(picture), max_new_tokens=1, method=ENTRY)
    boxes = g.images[0].boxes
    left, top, right, bottom = boxes[boxes.shape[0] // 2, boxes.shape[1] // 2]
    inside = picture.copy()
    inside[int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))] ^= 255
    before, after = (
        np.asarray(processor.image_processor(images=[vlm.Image.fromarray(p)], return_tensors="np")["pixel_values"])
        for p in (picture, inside)
    )
    changed = np.abs(before - after).reshape(-1)
    task = explainer(name)._model.task
    *axes, inside = sources_of(task._places._boxes.pixels, (picture.shape[1], picture.shape[0]))
    weight = changed * inside.reshape(-1)
    x, y = ((weight * values.reshape(-1)).sum() / weight.sum() for values in axes)
    assert left - 1 <= x <= right + 1
    assert top - 1 <= y <= bottom + 1


BESIDE = [{"type": "image"}, {"type": "text", "text": QUESTION}]
OTHER_PLACES = [
    [{"role": "user", "content": QUESTION, "images": [vlm.picture()]}],
    [{"role": "user", "content": [{"image": vlm.picture()}, {"text": QUESTION}]}],
    {"messages": [{"role": "user", "content": BESIDE}], "images": [vlm.picture()]},
    {"messages": [{"role": "user", "content": QUESTION}], "images": [vlm.picture()]},
]


def test_a_picture_is_read_under_the_usual_keys_and_wherever_a_prompt_has_it(tmp_path):
    path = tmp_path / "cat.png"
    vlm.picture().save(path)
    encoded = base64.b64encode(path.read_bytes()).decode()
    data = f"data:image/png;base64,{encoded}"
    parts = [vlm.picture(), *({"type": "image", "url": url} for url in (str(path), data))]
    parts += [{"type": "image", "base64": encoded}, {"type": "image", "image": f"file://{path}"}]
    prompts = [[{"role": "user", "content": [part, QUESTION]}] for part in parts] + OTHER_PLACES
    table = pd.DataFrame({"prompt": [[{"role": "user", "content": BESIDE}]], "images": [[vlm.picture()]]})
    model, processor = made("llava")
    piped = Explainer(SimpleNamespace(model=model, processor=processor, tokenizer=processor.tokenizer))
    expected = explainer("llava").generate(asked("llava"), max_new_tokens=1)
    for result in [*piped.generate(table, max_new_tokens=1), *(piped.generate(p, max_new_tokens=1) for p in prompts)]:
        np.testing.assert_array_equal(result.images[0].scores, expected.images[0].scores)
        assert result.prompt == expected.prompt


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ({"messages": [{"role": "user", "content": BESIDE}], "images": [vlm.picture()] * 2}, "places for 1 pictures"),
        ([{"role": "user", "content": [{"inline": 1}]}], "a dict without a type among its parts"),
        ([{"role": "user", "content": [QUESTION, 7]}], "holds a int without a type among its parts"),
        ([{"role": "user", "content": [{"type": "video", "video": "a.mp4"}, QUESTION]}], "'video'"),
        ((vlm.picture(), QUESTION), "pictures and sounds are parts of messages"),
        ({"image": vlm.picture(), "text": QUESTION}, "a picture or a sound stands in a message"),
        (lambda: vlm.encoded(made("llava").processor, asked("llava")), "must hold rows of whole numbers"),
    ],
)
def test_a_prompt_whose_picture_would_be_left_out_is_refused(prompt, reason):
    with pytest.raises(InputError, match=reason):
        explainer("llava").generate(prompt() if callable(prompt) else prompt)


def test_methods_that_score_words_alone_are_refused():
    with pytest.raises(MethodError, match="scores words alone"):
        explainer("llava").generate(vlm.question(vlm.picture()), max_new_tokens=1, method="gradient-x-input")


# Sounds

SECONDS_OF_TOKEN = {"qwen2_audio": 0.04, "glmasr": 1 / 12, "fixed_length": 0.04}


@pytest.mark.parametrize("name", SOUNDS)
def test_moments_have_what_scaling_their_frames_changes_in_the_network_with_everything_held(name):
    """Two sounds, of each its frames: those of its moments are its score."""
    sounds = [audio_lm.sound(1.0), audio_lm.sound(0.7, seed=1)]
    messages = audio_lm.question(*sounds[: 1 if name == "glmasr" else 2])  # whose processor takes one
    g = explainer(name).generate(messages, max_new_tokens=1, method=f"{ENTRY},sink_threshold=none")
    inputs, sequence, _ = generated(name, messages, max_new_tokens=1)
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
def test_tokens_of_a_sound_have_the_seconds_that_they_are_of(name):
    for seconds in (0.5, 1.0, 1.7):
        g = explainer(name).explain_completion(audio_lm.question(audio_lm.sound(seconds)), " cat", method=TOKENS)
        times = g.audio[0].times
        np.testing.assert_allclose(np.diff(times[:, 0]), SECONDS_OF_TOKEN[name], rtol=0.08)
        assert times[-1, 1] == pytest.approx(seconds, abs=1e-6)
        assert g.audio[0].loudness.argmax() > 0.5 * len(g.audio[0].loudness)  # it gets louder


def test_a_sound_whose_end_is_not_read_says_so():
    g = explainer("qwen2_audio").explain_completion(audio_lm.question(audio_lm.sound(5.0)), " cat")
    assert g.notes == ("sound 1 has 5.0 s; only the first 2.0 were read",)
    assert g.audio[0].times[-1, 1] == pytest.approx(2.0)
    pieces = explainer("glmasr").explain_completion(audio_lm.question(audio_lm.sound(5.0)), " cat")
    assert not pieces.notes  # it cuts sounds into pieces, and reads them all
    assert pieces.audio[0].times[-1, 1] == pytest.approx(5.0)


@pytest.mark.parametrize("name", SOUNDS)
@pytest.mark.parametrize("start", [0.1, 0.45, 0.8])
def test_a_moment_is_when_it_is_heard(name, start):
    """Where a tenth of a second is another, a model whose encoder looks nowhere else reads other frames and tokens."""
    sound = np.random.default_rng(0).normal(0, 0.1, audio_lm.RATE).astype(np.float32)
    changed = sound.copy()
    changed[round(start * audio_lm.RATE) + 1 : round((start + 0.1) * audio_lm.RATE) : 2] *= -1  # another spectrum
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
