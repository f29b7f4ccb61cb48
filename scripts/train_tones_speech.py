"""Train a tiny Whisper on sequences of tones in noise, and write the sounds whose evidence is known.

    python scripts/train_tones_speech.py out/ [--steps 1000]

makes `out/model`, `out/train.jsonl` and `out/heldout.jsonl` with their sounds, for `python -m benchmarks pointing`. A
tone's pitch is its word, "0" to "9"; around the tones there are noise and clicks, drawn anew for each sound.
"""

import argparse
import json
import math
import time
import wave
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import (
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperProcessor,
    WhisperTokenizer,
)

RATE, SECONDS = 16_000, 2

LOWEST, STEP = 220.0, 2 ** (1 / 4)
"""Frequency of the tone "0", and the ratio of one tone to the next."""

MOST = 4
"""Tones of a sound."""


class Heard(NamedTuple):
    """A sound, its tones as words, and when each is heard."""

    samples: np.ndarray
    words: list[int]  # 0 to 9
    times: list[tuple[float, float]]  # beginning and end of each, in seconds


class Sounds:
    """Sounds of tones, each drawn anew."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def draw(self) -> Heard:
        """Return a sound of 2 to 4 tones."""
        random = self.random
        count = int(random.integers(2, MOST + 1))
        lengths = random.uniform(0.15, 0.3, count)
        gaps = random.dirichlet(np.ones(count + 1)) * (SECONDS - lengths.sum() - 0.05 * count) + 0.05
        starts = np.cumsum(gaps[:-1]) + np.concatenate([[0], np.cumsum(lengths)[:-1]])
        samples = random.normal(0, random.uniform(0.005, 0.03), RATE * SECONDS)
        words, times = [], []
        for start, length in zip(starts, lengths, strict=True):
            word = int(random.integers(0, 10))
            first, sample_count = int(start * RATE), int(length * RATE)
            seconds = np.arange(sample_count) / RATE
            pitch = LOWEST * STEP**word * random.uniform(0.98, 1.02)
            phases = 2 * np.pi * pitch * seconds[None] * np.arange(1, 4)[:, None]  # of the tone and two overtones
            weights = random.uniform(0.2, 1, 3) / np.arange(1, 4)
            envelope = np.minimum(1, np.minimum(seconds, seconds[::-1]) / 0.02)
            tone = (weights[:, None] * np.sin(phases + random.uniform(0, 6, (3, 1)))).sum(0) * envelope
            samples[first : first + sample_count] += random.uniform(0.1, 0.4) * tone[: len(samples) - first]
            words.append(word)
            times.append((round(float(start), 4), round(float(start + length), 4)))
        for place in random.integers(0, len(samples) - 400, random.integers(0, 4)):  # clicks
            samples[place : place + 200] += random.normal(0, 0.3, 200) * np.linspace(1, 0, 200)
        return Heard(np.clip(samples, -1, 1).astype(np.float32), words, times)


def processor() -> WhisperProcessor:
    """Return a feature extractor of two seconds, and a tokenizer of digits."""
    special = ["<|endoftext|>", "<|startoftranscript|>"]
    pieces = [*special, *map(str, range(10)), "Ġ", *(f"Ġ{digit}" for digit in range(10))]
    tokenizer = WhisperTokenizer(
        vocab={piece: number for number, piece in enumerate(pieces)},
        merges=[("Ġ", str(digit)) for digit in range(10)],
        bos_token=special[0],
        eos_token=special[0],
        unk_token=special[0],
        pad_token=special[0],
    )
    return WhisperProcessor(
        WhisperFeatureExtractor(feature_size=40, sampling_rate=RATE, chunk_length=SECONDS), tokenizer
    )


def network(reader: WhisperProcessor) -> WhisperForConditionalGeneration:
    """Return a Whisper of some hundred thousand weights."""
    start = reader.tokenizer.convert_tokens_to_ids("<|startoftranscript|>")
    sides: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        sides |= {f"{side}_layers": 4, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 192}
    config = WhisperConfig(
        vocab_size=len(reader.tokenizer),
        d_model=96,
        num_mel_bins=40,
        max_source_positions=50 * SECONDS,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        decoder_start_token_id=start,
        suppress_tokens=[],
        begin_suppress_tokens=[],
        **sides,
    )
    model = WhisperForConditionalGeneration(config)
    model.generation_config.update(max_new_tokens=MOST + 1, suppress_tokens=None, begin_suppress_tokens=None)
    return model


def batch(reader: WhisperProcessor, sounds: list[Heard]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the encoder reads, and the words with the end, (B, T), -100 after it, which the loss leaves out."""
    features = reader.feature_extractor([sound.samples for sound in sounds], sampling_rate=RATE, return_tensors="pt")
    first = reader.tokenizer.convert_tokens_to_ids("Ġ0")
    rows = [[*(first + word for word in sound.words), 0] for sound in sounds]
    labels = torch.tensor([row + [-100] * (MOST + 1 - len(row)) for row in rows])
    return features.input_features, labels


def train(model: Any, reader: WhisperProcessor, steps: int, size: int, rate: float) -> None:
    """Train for a number of steps; the learning rate falls to zero."""
    sounds = Sounds(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    start = time.perf_counter()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / steps))
        features, labels = batch(reader, [sounds.draw() for _ in range(size)])
        loss = model(input_features=features, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 49:
            seconds = time.perf_counter() - start
            share = accuracy(model, reader, Sounds(1), 100)
            print(f"step {step + 1}, {seconds:.0f} s, loss {loss.item():.3f}; held out: {share:.3f} right", flush=True)


@torch.no_grad()
def accuracy(model: Any, reader: WhisperProcessor, sounds: Sounds, count: int) -> float:
    """Return the share of sounds of which every word is right."""
    features, labels = batch(reader, [sounds.draw() for _ in range(count)])
    best = model(input_features=features, labels=labels).logits.argmax(-1)
    return float(((best == labels) | (labels < 0)).all(-1).float().mean())


def write(folder: Path, name: str, sounds: Sounds, count: int) -> None:
    """Write sounds, and their words with times as JSON lines."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    lines = []
    for index in range(count):
        sound = sounds.draw()
        path = f"{name}/{index:04}.wav"
        with wave.open(str(folder / path), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes((sound.samples * 32767).astype("<i2").tobytes())
        lines.append(json.dumps({"audio": path, "answer": " ".join(map(str, sound.words)), "times": sound.times}))
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Train, and write what `python -m benchmarks pointing` reads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--sounds", type=int, default=100, help="of each part")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    reader = processor()
    model = network(reader)
    print(f"{sum(p.numel() for p in model.parameters()):,} weights")
    train(model, reader, arguments.steps, arguments.batch, arguments.rate)
    model.eval().save_pretrained(arguments.folder / "model")
    reader.save_pretrained(arguments.folder / "model")
    write(arguments.folder, "train", Sounds(3), arguments.sounds)
    write(arguments.folder, "heldout", Sounds(4), arguments.sounds)


if __name__ == "__main__":
    main()
