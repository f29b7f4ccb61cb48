"""The calls on models that read pictures or sounds beside text, through processors made in memory."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image

from normxlogit import Explainer
from tests.media import audio_lm, vlm
from tools.survey.base import CheckError
from tools.survey.media import audio_language, speech, towers, vision_language
from tools.survey.outcomes import Call, adds_up, same

NEW_TOKENS = 3
RATE = 16_000
QUESTIONS = ("what is on the left ?", "is the red tree right of a house ?")
SIZES = ((48, 40), (40, 64))
PATCHES = "frozen-gradient:read_at=0"


def picture(seed: int) -> Image.Image:
    """Return a picture of noise."""
    width, height = SIZES[seed]
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def sound(seed: int) -> np.ndarray:
    """Return noise that grows louder; two seconds, or a little less."""
    count = RATE * 2 - seed * 3000
    noise = np.random.default_rng(seed).standard_normal(count) * np.linspace(0.05, 0.5, count)
    return noise.astype(np.float32)


def calls_for(task: str, family: str) -> Any:
    """Build the model of a family and its processor, and return the calls on them."""
    kinds: dict[str, Any] = {
        "image-text-to-text": PictureCalls,
        "audio-text-to-text": SoundPromptCalls,
        "speech-seq2seq": SpeechCalls,
        "ctc": FrameCalls,
        "zero-shot-image": TowerCalls,
    }
    return kinds[task](family)


def parts_of(result: Any) -> np.ndarray:
    """Return the scores of words, patches and moments of each generated token, (G, N)."""
    return np.asarray(result.scores, np.float64)


def generated(model: Any, read: Mapping[str, torch.Tensor]) -> tuple[list[int], torch.Tensor]:
    """Return the tokens that a model's own `generate` gives an input, and their centred logits, (G,)."""
    options = {"do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    with torch.no_grad():
        found = model.generate(**read, max_new_tokens=NEW_TOKENS, **options)
    logits = torch.stack([step[0] for step in found.logits])  # (G, V)
    ids = found.sequences[0, -len(logits) :]
    return ids.tolist(), logits.gather(1, ids[:, None])[:, 0] - logits.mean(-1)


class _Writing:
    """The calls on a model that generates a text from pictures or sounds."""

    inputs: list[Any]
    model: Any
    explainer: Explainer

    def each(self) -> dict[str, tuple[Call, Call]]:
        """Return the calls by name, each with the model's own call of its kind."""
        raise NotImplementedError

    def own(self, seed: int) -> tuple[list[int], torch.Tensor]:
        """Return the tokens that the model's own `generate` gives an input, and their centred logits, (G,)."""
        raise NotImplementedError

    def answers(self) -> None:
        """Let the model generate by itself."""
        for seed in range(2):
            self.own(seed)

    def generates(self, method: str | None = None) -> list[Any]:
        """Generate, alone and together, what the model's own `generate` gives; everything adds up to its logits."""
        alone = [self.explainer.generate(i, max_new_tokens=NEW_TOKENS, method=method) for i in self.inputs]
        together = self.explainer.generate(self.inputs, max_new_tokens=NEW_TOKENS, method=method)
        for seed, (single, result) in enumerate(zip(alone, together, strict=True)):
            ids, logits = self.own(seed)
            written = list(single.token_ids[single.prompt_tokens :])
            if written != ids:
                raise CheckError(f"generated {written}, the model's own generate {ids}")
            adds_up(single, logits, "scores and bias of a generated token", parts_of(single))
            if single.token_ids != result.token_ids:
                raise CheckError(f"generated {result.token_ids} in a batch and {single.token_ids} alone")
            same(parts_of(result), parts_of(single), "in a batch and alone")
        return alone

    def reads_parts(self) -> None:
        """Do the same, read at the patch embedding or the first convolution."""
        self.generates(PATCHES)


class PictureCalls(_Writing):
    """The calls on a vision-language model.

    Args:
        family: The model type.
    """

    def __init__(self, family: str) -> None:
        self.inputs = [vlm.question(picture(i), text=text) for i, text in enumerate(QUESTIONS)]
        self.model, self.processor = vision_language(family, self.inputs[0])
        self.explainer = Explainer(self.model, self.processor)

    def each(self) -> dict[str, tuple[Call, Call]]:
        """Return the calls by name, each with the model's own call of its kind."""
        return {
            "generate": (self.generates, self.answers),
            "parts": (self.reads_parts, self.answers),
            "completion": (self.completes, self.answers),
            "sources": (self.sources, self.answers),
        }

    def own(self, seed: int) -> tuple[list[int], torch.Tensor]:
        """Return the tokens that the model's own `generate` gives a prompt, and their centred logits, (G,)."""
        return generated(self.model, vlm.encoded(self.processor, self.inputs[seed]))

    def completes(self) -> None:
        """Explain what the model generates as a given completion: it has the same logits."""
        for seed, given in enumerate(self.inputs):
            ids, logits = self.own(seed)
            result = self.explainer.explain_completion(given, ids)
            adds_up(result, logits, "scores and bias of a token of a completion", parts_of(result))

    def sources(self) -> None:
        """Explain which messages and pictures a completion rests on; everything adds up to the sum of its logits."""
        ids, logits = self.own(0)
        found = self.explainer.explain_completion(self.inputs[0], ids, sources="message")
        parts = found.scores  # (K, U)
        if len(found.units) < 4:
            raise CheckError(f"sources {found.units.name}: not a picture and a message")
        whole = [logits.sum()] if len(parts) == 1 else logits
        adds_up(found, whole, "scores and bias of sources", parts)


class SoundPromptCalls(PictureCalls):
    """The calls on a language model that reads sounds.

    Args:
        family: The model type.
    """

    def __init__(self, family: str) -> None:
        self.inputs = [audio_lm.question(sound(i), text=text) for i, text in enumerate(QUESTIONS)]
        self.model, self.processor = audio_language(family)
        self.explainer = Explainer(self.model, self.processor)


class _SoundCalls(_Writing):
    """The calls on a model of speech.

    Args:
        family: The model type.
    """

    task: str

    def __init__(self, family: str) -> None:
        self.inputs = [sound(0), sound(1)]
        self.model, self.processor = speech(self.task, family)
        self.explainer = Explainer(self.model, self.processor)

    def each(self) -> dict[str, tuple[Call, Call]]:
        """Return the calls by name, each with the model's own call of its kind."""
        return {"generate": (self.generates, self.answers), "parts": (self.reads_parts, self.answers)}


class SpeechCalls(_SoundCalls):
    """The calls on an encoder-decoder model of speech."""

    task = "speech-seq2seq"

    def own(self, seed: int) -> tuple[list[int], torch.Tensor]:
        """Return the tokens that the model's own `generate` gives a sound, and their centred logits, (G,)."""
        read = self.processor.feature_extractor(self.inputs[seed], sampling_rate=RATE, return_tensors="pt")
        return generated(self.model, read)


class FrameCalls(_SoundCalls):
    """The calls on a model of speech that answers at each frame."""

    task = "ctc"

    def own(self, seed: int) -> tuple[list[int], torch.Tensor]:
        """Return the tokens that the model emits, the likeliest of each run, and their centred logits, (G,)."""
        read = self.processor.feature_extractor(self.inputs[seed], sampling_rate=RATE, return_tensors="pt")
        with torch.no_grad():
            logits = self.model(**read).logits[0]  # (T, V)
        best, blank = logits.argmax(-1).tolist(), self.model.config.pad_token_id
        chances = logits.softmax(-1)
        ids, centred = [], []
        for frame, index in enumerate(best):
            if frame and best[frame - 1] == index:
                continue
            end = next((f for f in range(frame, len(best)) if best[f] != index), len(best))
            if index != blank:
                place = frame + int(chances[frame:end, index].argmax())
                ids.append(index)
                centred.append(logits[place, index] - logits[place].mean())
        if not ids:
            raise CheckError("the model emits nothing but blanks")
        return ids, torch.stack(centred)


class TowerCalls:
    """The calls on a model that compares pictures with texts.

    Args:
        family: The model type.
    """

    def __init__(self, family: str) -> None:
        self.model, self.processor = towers(family)
        self.explainer = Explainer(self.model, self.processor)
        self.pictures = [picture(0), picture(1)]

    def each(self) -> dict[str, tuple[Call, Call]]:
        """Return the calls by name, each with the model's own call of its kind."""
        return {"similarity": (self.compares, self.answers)}

    def answers(self) -> None:
        """Let the model compare by itself."""
        self.cosine(QUESTIONS[0], self.pictures[0])

    def cosine(self, text: str, image: Image.Image) -> float:
        """Return the cosine of the model's own vectors."""
        read = self.processor(text=[text], images=[image], return_tensors="pt", padding="max_length", max_length=64)
        with torch.no_grad():
            found = self.model(**read)
        return float(
            torch.nn.functional.cosine_similarity(found.text_embeds.flatten(), found.image_embeds.flatten(), 0)
        )

    def compares(self) -> None:
        """Compare a text with pictures and a picture with texts, alone and together; each side is the cosine."""
        comparisons: list[tuple[Any, list[Any]]] = [
            (QUESTIONS[0], self.pictures),
            (self.pictures[0], list(QUESTIONS)),
        ]
        for one, others in comparisons:
            alone = [self.explainer.similarity(one, other) for other in others]
            for other, result in zip(others, alone, strict=True):
                text, image = (one, other) if isinstance(one, str) else (other, one)
                cosine = self.cosine(text, image)
                sequences = np.array(result.units.sequence)
                assert result.bias is not None
                sides = [result.scores[sequences == side].sum() + result.bias[side] for side in (0, 1)]
                same([result.prediction.value, *sides], [cosine] * 3, "the cosine, and what each side adds up to", 1.0)
            for single, result in zip(alone, self.explainer.similarity(one, others), strict=True):
                same(result.scores, single.scores, "in a batch and alone")
