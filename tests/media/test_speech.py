"""Speech to text: the moments that tokens rest on, against the caller's own model with its factors held by hand."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from scipy.signal import resample_poly

import normxlogit
from normxlogit import Explainer, InputError
from normxlogit.media.inputs.sounds import read_sound
from normxlogit.pipeline.completions import completion
from tests import tiny
from tests.autograd import hold_factors
from tests.commands import run
from tests.contract.compare import total
from tests.media.test_signals import RATE, shaken, sound

LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"etaoinshr"]
SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}


def frame_model(folder, kind="Wav2Vec2", **options):
    """A model with an answer at every frame, of random weights, and its processor."""
    torch.manual_seed(0)
    (folder / "vocab.json").write_text(json.dumps({letter: i for i, letter in enumerate(LETTERS)}))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
    convolutions = {"conv_dim": (16, 16, 16), "conv_stride": (5, 4, 4), "conv_kernel": (10, 4, 4)}
    positions = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    config = getattr(transformers, f"{kind}Config")(
        **SMALL, **convolutions, **positions, vocab_size=len(tokenizer), pad_token_id=0, **options
    )
    model = shaken(getattr(transformers, f"{kind}ForCTC")(config))
    with torch.no_grad():
        model.lm_head.weight.mul_(4)
    return model, transformers.Wav2Vec2Processor(transformers.Wav2Vec2FeatureExtractor(), tokenizer)


class Processor:
    """A feature extractor beside a tokenizer, as WhisperProcessor has them."""

    def __init__(self):
        self.feature_extractor = transformers.WhisperFeatureExtractor(chunk_length=2)
        self.tokenizer = tiny.tokenizer()

    def __call__(self, *sounds, **options):
        return self.feature_extractor(*sounds, **options)


def whisper(**options):
    """A Whisper of random weights that reads two seconds, and its processor."""
    torch.manual_seed(0)
    processor = Processor()
    of_side = {"layers": 3, "attention_heads": 4, "ffn_dim": 48}
    sides = {f"{side}_{name}": count for side in ("encoder", "decoder") for name, count in of_side.items()}
    sizes = {"d_model": 32, "num_mel_bins": 80, "max_source_positions": 100, "max_target_positions": 40}
    ids = tiny.IDS | {"decoder_start_token_id": 2, "suppress_tokens": [], "begin_suppress_tokens": []}
    config = transformers.WhisperConfig(**sizes, **ids, **sides | options, vocab_size=len(processor.tokenizer))
    return shaken(transformers.WhisperForConditionalGeneration(config)), processor


def features(processor, samples):
    return processor.feature_extractor(samples, sampling_rate=RATE, return_tensors="pt").input_features


def centred(model, processor, result, samples):
    """Return the own logits of what was generated, minus their mean, and with them the gradients' roots, (G,)."""
    ids = torch.tensor([result.token_ids[:-1]])
    logits = model(input_features=features(processor, samples), decoder_input_ids=ids).logits[0]  # (T - 1, V)
    read = logits[result.prompt_tokens - 1 :]
    chosen = read.gather(1, torch.tensor([[t.id] for t in result.targets]))[:, 0]
    return chosen - read.mean(-1)


def test_moments_and_tokens_are_gradients_of_the_own_model_with_factors_held(monkeypatch):
    model, processor = whisper(attn_implementation="eager", activation_function="gelu")
    result = Explainer(model, processor).generate(sound(), max_new_tokens=4, method="frozen-gradient:read_at=1")
    hold_factors(monkeypatch)
    model, _ = whisper(attn_implementation="eager", activation_function="gelu")  # its activations are looked up anew
    kept = []

    def keep(_, __, output):
        state = output[0] if isinstance(output, tuple) else output
        state.retain_grad()
        kept.append(state)

    hooks = [model.model.encoder.layers[0].register_forward_hook(keep)]
    hooks.append(model.model.decoder.embed_tokens.register_forward_hook(keep))
    quantities = centred(model, processor, result, sound())
    for g, quantity in enumerate(quantities):
        for state in kept:
            state.grad = None
        quantity.backward(retain_graph=True)
        frames, words = ((state.grad * state)[0].sum(-1).detach().numpy() for state in kept)  # (S,), (T - 1,)
        moments = len(result.audio[0].times)
        np.testing.assert_allclose(result.audio[0].scores[g], frames[:moments], rtol=1e-3, atol=1e-5)
        seen = result.prompt_tokens + g
        np.testing.assert_allclose(result.scores[g, :seen], words[:seen], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("read_at", ["first-half", "all", 0, -1])
def test_moments_tokens_and_bias_add_up_to_the_models_own_logits(read_at):
    model, processor = whisper()
    explainer = Explainer(model, processor)
    sounds = [sound(9000), sound(20000, 1)]
    results = explainer.generate(sounds, max_new_tokens=4, method=f"frozen-gradient:read_at={read_at}")
    for samples, result in zip(sounds, results, strict=True):
        with torch.no_grad():
            expected = centred(model, processor, result, samples).numpy()
        np.testing.assert_allclose(total(result), expected, rtol=1e-4, atol=1e-4)
        own = model.generate(features(processor, samples), max_new_tokens=4, do_sample=False)[0].tolist()
        assert own[-4:] == list(result.token_ids[-4:])
        times, seconds = result.audio[0].times, len(samples) / RATE
        assert times[0, 0] == 0
        assert times[-1, 1] == pytest.approx(seconds, abs=1e-4), "the padding after the sound has no moments"
        assert times[1, 0] == pytest.approx(0.01 if read_at == 0 else 0.02)
        alone = explainer.generate(samples, max_new_tokens=4, method=f"frozen-gradient:read_at={read_at}")
        np.testing.assert_allclose(result.audio[0].scores, alone.audio[0].scores, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["Wav2Vec2", "Hubert", "WavLM", "Data2VecAudio"])
def test_frames_and_bias_add_up_to_the_logits_of_emitted_tokens(tmp_path, kind):
    model, processor = frame_model(tmp_path, kind)
    sounds = [sound(9000), sound(7000, 1)]
    for samples, result in zip(sounds, Explainer(model, processor).generate(sounds), strict=True):
        values = processor.feature_extractor(samples, sampling_rate=RATE, return_tensors="pt").input_values
        with torch.no_grad():
            logits = model(values).logits[0]  # (T, V)
        best = logits.argmax(-1)
        runs = [index for index in torch.unique_consecutive(best).tolist() if index != 0]
        assert list(result.token_ids[1:]) == runs
        for g, target in enumerate(result.targets):
            frames = logits[best == target.id]  # it is read at one of them
            expected = (frames[:, target.id] - frames.mean(-1)).tolist()
            total = result.audio[0].scores[g].sum() + result.bias[g]
            assert min(abs(total - value) for value in expected) < 1e-4 * max(1, abs(total))
        assert result.audio[0].scores.shape[1] == len(best)
        assert result.audio[0].times[-1, 1] <= len(samples) / RATE
        assert not result.scores[:, : result.text_units].any(), "no token rests on another one"


def test_a_file_is_written_down_by_the_command(tmp_path, capsys):
    model, processor = frame_model(tmp_path)
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    file = tmp_path / "talk.wav"
    pytest.importorskip("soundfile").write(file, sound() * 0.1, RATE)
    asked = ["transcribe", file, "--model", tmp_path, "--output", tmp_path / "why.json"]
    assert run(capsys, *asked)[:2] == (0, "")
    result = normxlogit.load(tmp_path / "why.json")
    expected = Explainer(model, processor).generate(file)
    assert result.text == expected.text
    np.testing.assert_allclose(result.audio[0].scores, expected.audio[0].scores, rtol=1e-3, atol=1e-5)
    code, _, err = run(capsys, "transcribe", tmp_path / "missing.wav", "--model", tmp_path)
    assert code == 2
    assert "missing.wav: the file cannot be read as a sound" in err


def test_what_is_not_explained_of_a_sound_is_said(tmp_path):
    model, processor = whisper()
    explainer = Explainer(model, processor)
    with pytest.raises(InputError, match="explains what it writes itself"):
        explainer.explain_completion(sound(), "the cat")
    with pytest.raises(InputError, match="no column of sounds"):
        explainer.generate(processor(sound(), sampling_rate=RATE, return_tensors="pt"))
    with pytest.raises(InputError, match="has no use for"):  # it has an answer at every frame
        Explainer(*frame_model(tmp_path)).generate(sound(), num_beams=2)


def test_a_recording_of_another_rate_is_heard_at_the_rate_of_the_model():
    """A tone is the same tone at either rate; what the model's rate cannot hold is filtered, and does not come back."""

    def tone(hertz, rate, seconds=2.5):
        return np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)

    for rate in (8_000, 11_025, 44_100):
        heard = read_sound({"array": tone(440, rate), "sampling_rate": rate}, RATE)
        wanted = tone(440, RATE)[: len(heard.samples)]
        assert heard.seconds == pytest.approx(2.5, abs=1 / RATE)
        np.testing.assert_allclose(heard.samples[500:-500], wanted[500:-500], atol=0.01)
    assert np.abs(read_sound((tone(12_000, 44_100), 44_100), RATE).samples[500:-500]).max() < 0.01
    assert [note.split()[0] for note in read_sound((np.ones((500, 2)), 44_100), RATE).notes] == ["the", "resampled"]
    explainer = Explainer(*whisper())
    long = resample_poly(np.concatenate([sound(), sound(), sound()]), 441, 160)  # read in two windows
    result = explainer.generate({"array": long, "sampling_rate": 44_100}, max_new_tokens=3)
    expected = explainer.generate(resample_poly(long, 160, 441).astype(np.float32), max_new_tokens=3)
    np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(result.audio[0].times, expected.audio[0].times)
    assert result.audio[0].times[-1, 1] == pytest.approx(len(long) / 44_100, abs=1e-3)
    assert result.notes[0] == "resampled from 44100 samples a second to 16000, which the model reads"


def test_a_long_transcript_is_explained_without_copies_of_the_sound_on_a_gpu(monkeypatch):
    """On a GPU, a text with many generated tokens is read in copies; a sound, which an encoder reads, is not."""
    explainer, copies_of_text = Explainer(*whisper()), completion._copies_of_text
    expected = explainer.transcribe(sound(), max_new_tokens=12)

    def copies_on_gpu(model, batch):
        return copies_of_text(SimpleNamespace(device=torch.device("cuda"), batch_tokens=model.batch_tokens), batch)

    monkeypatch.setattr(completion, "_copies_of_text", copies_on_gpu)
    assert len(expected.targets) > 8
    assert explainer.transcribe(sound(), max_new_tokens=12) == expected
