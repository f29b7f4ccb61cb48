"""Sounds beside words: every score by an independent way, on tiny random models of three kinds of processors."""

import base64
import copy
import io
from functools import cache

import numpy as np
import pytest
import torch
import transformers
from scipy.signal import resample_poly

import normxlogit
from normxlogit import Explainer
from normxlogit.copies.clone import clone
from normxlogit.errors import InputError
from normxlogit.frozen.backward import frozen_backward
from tests import audio_lm, tiny, vlm
from tests.contract.compare import total

MODELS = {"qwen2_audio": audio_lm.qwen2_audio, "glmasr": audio_lm.glmasr, "fixed_length": audio_lm.fixed_length}
READ = ["all", 0, -1]
ENTRY = "frozen-gradient:read_at=0"
TOKENS = "frozen-gradient:read_at=-1"
SECONDS_OF_TOKEN = {"qwen2_audio": 0.04, "glmasr": 1 / 12, "fixed_length": 0.04}


@cache
def made(name):
    return MODELS[name]()


@cache
def explainer(name):
    return Explainer(*made(name))


@pytest.mark.parametrize("read_at", READ)
@pytest.mark.parametrize("name", MODELS)
def test_words_moments_and_bias_add_up_to_what_the_model_itself_wrote(name, read_at):
    messages = audio_lm.question(audio_lm.sound())
    inputs, sequence, logits = vlm.generated(made(name), messages)
    g = explainer(name).generate(messages, max_new_tokens=3, method=f"frozen-gradient:read_at={read_at}")
    assert list(g.token_ids) == sequence.tolist()
    written = sequence[inputs["input_ids"].shape[1] :]
    expected = vlm.explained(logits, written)
    np.testing.assert_allclose(total(g), expected, atol=1e-4 * np.abs(expected).max())
    (heard,) = g.audio
    assert (heard.kind, heard.seconds) == ("sound", pytest.approx(1.0))
    assert np.abs(heard.scores).max() > 1e-3
    assert (g.scores[:, list(heard.tokens)] == 0).all()


@pytest.mark.parametrize("name", MODELS)
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


@pytest.mark.parametrize("name", MODELS)
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


@pytest.mark.parametrize("name", MODELS)
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
        {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{encoded_file}"}},
        {"type": "input_audio", "input_audio": {"data": encoded_file, "format": "wav"}},
    ]
    expected = explainer("qwen2_audio").explain_completion(audio_lm.question(samples), " cat")
    for part in written:
        messages = [{"role": "user", "content": [part, {"type": "text", "text": "what is on the left ?"}]}]
        found = explainer("qwen2_audio").explain_completion(messages, " cat")
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
        np.testing.assert_allclose(found.audio[0].scores, expected.audio[0].scores, atol=1e-5)
        assert found.audio[0].name == ("a dog.wav" if str(path) in map(str, part.values()) else "sound 1")


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


@pytest.mark.parametrize(
    ("sound", "error"),
    [
        (
            {"type": "audio", "audio": {"array": [0.1] * 800, "sampling_rate": -8000}},
            "sampling_rate must be a positive",
        ),
        ({"type": "audio", "audio": "https://example.org/a.wav"}, "not fetched"),
        ({"type": "audio"}, "a sound as a mapping"),
        ({"type": "input_audio", "input_audio": {"data": "#", "format": "wav"}}, "not base64"),
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


def test_a_word_that_is_left_out_loses_what_the_model_says_with_the_sound_it_has_heard():
    messages = audio_lm.question(audio_lm.sound())
    g = explainer("qwen2_audio").generate(messages, max_new_tokens=2, verify=1)
    (removal,) = g.verified.single
    ids = [token for place, token in enumerate(g.token_ids) if place not in removal.tokens]
    model, inputs = made("qwen2_audio")[0], vlm.encoded(made("qwen2_audio").processor, messages)
    given = {name: value for name, value in inputs.items() if name not in ("input_ids", "attention_mask")}
    read = torch.tensor([ids])
    with torch.no_grad():
        logits = model(input_ids=read, attention_mask=torch.ones_like(read), **given).logits[0].log_softmax(-1)
    expected = sum(float(logits[place - 1, ids[place]]) for place in (len(ids) - 2, len(ids) - 1))
    assert removal.value == pytest.approx(expected, abs=1e-4)
    assert removal.value != pytest.approx(g.verified.original.value, abs=1e-3)
