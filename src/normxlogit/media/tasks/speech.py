"""Speech to text: encoder-decoder models such as Whisper, and CTC models such as Wav2Vec2."""

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...copies.arithmetic import mean_logit
from ...copies.module_io import TensorInputs, as_batch
from ...errors import InputError, UnsupportedModelError
from ...inputs.batches import Batch
from ...inputs.decoded_tokens import readable_tokens
from ...inputs.encoding import Encoding
from ...model.task_model import TaskModel
from ...results import Prediction
from ...tasks.base import Generates, GenerateSettings, Task, loaded
from ...tasks.seq2seq import Seq2Seq, encoder_output
from ...tasks.targets import BatchTargets
from ...tasks.task_outputs import AtToken, Outputs
from ..extension import FRAMES, SPEECH
from ..inputs.sounds import Sound, feature_extractor_of
from .classification import AudioClassification, ReadsSounds
from .encoded_signals import NO_GRID, Signal, signal_of
from .processor_outputs import processed_inputs

MASK = "attention_mask"
"""What processors and encoders call the mask of a sound's frames."""


def speech_task(model: TaskModel) -> Any:
    """Return the task of a model of speech, without a type: some methods are those of one kind, such as `emitted`.

    Args:
        model: A model of speech.
    """
    return model.task


class SpeechTask(Generates, ReadsSounds, Task):
    """The base of models that answer a sound with a text; the caller passes their processor as the tokenizer."""

    per_frame: ClassVar[bool] = False
    """Whether the model answers at every frame of the sound at once; False if it generates token by token."""

    @classmethod
    def tokenizer_of(cls, reader: Any) -> Any:
        """Return the tokenizer of a processor that reads sounds and writes texts."""
        tokenizer = getattr(loaded(reader), "tokenizer", None)
        if not hasattr(tokenizer, "pad_token_id") or not hasattr(reader, "feature_extractor"):
            raise InputError(
                f"{cls.name} reads sounds and writes texts, and was given a {type(reader).__name__}; pass the model's "
                "processor, as AutoProcessor.from_pretrained(...) loads it"
            )
        return tokenizer

    def explain_written(self, model: Any, inputs: Any, options: Any, settings: GenerateSettings) -> Any:
        """Transcribe sounds, and explain every token by moments of the sound; see `explain_speech`."""
        from ..speech.transcripts import explain_speech

        if options.other_answer is not None:
            raise InputError("contrast= of a transcript is a token's index, or goes with target=")
        return explain_speech(model, inputs, options, settings)

    def features(self, model: TaskModel, sound: Sound) -> TensorInputs:
        """Return the features of a sound, without the batch axis, and last their mask (F,) if some are padding.

        Args:
            model: The model.
            sound: The sound.
        """
        extractor = feature_extractor_of(self.processor)
        return processed_inputs(model, extractor, sound.samples, MASK, sampling_rate=sound.rate)

    def check_prompts(self, model: TaskModel) -> None:
        """Refuse prompts."""
        raise InputError(f"{model.name} transcribes sounds: transcribe(sound) explains what it writes itself")

    def check_explains_inputs(self, model: TaskModel) -> None:
        """Refuse to explain a sound by itself."""
        raise UnsupportedModelError(f"{model.name} answers a sound with a text: transcribe(sound) explains its tokens")


class SpeechSeq2Seq(SpeechTask, Seq2Seq):
    """An encoder-decoder model whose source is a sound."""

    name = SPEECH.name
    models = SPEECH.models

    def read_signal(self, model: TaskModel, sound: Sound) -> Signal:
        """Return the features of a sound, with the seconds of each state of the encoder.

        Args:
            model: The model, whose encoder is run once.
            sound: The sound.
        """
        inputs = self.features(model, sound)
        source, masks = _encoder_inputs(model, inputs)
        output = encoder_output(model, source, **masks)
        count = output[0].shape[1]  # S
        states_mask = getattr(output, MASK, None)  # (1, S), of models whose encoder shortens the sound
        padding = 0 if states_mask is None else count - int(states_mask.sum())
        # Whisper's extractor fills every sound up to a chunk of 30 seconds.
        chunk = getattr(feature_extractor_of(self.processor), "chunk_length", None)
        seconds = float(chunk) if chunk else sound.seconds  # of all states; None if no rate is known
        if seconds is not None and masks:  # the features reach beyond the sound, by the frames that are padding
            seconds *= masks[MASK].numel() / int(masks[MASK].sum())
        step = 0.0 if seconds is None else seconds / count
        times = tuple((index * step, (index + 1) * step) for index in range(count))
        shapes = tuple(tuple(value.shape) for value in inputs.values())
        return Signal(shapes, inputs, NO_GRID, times=times, sound=sound, padding=padding)

    def caller_inputs(self, inputs: TensorInputs, batch: Batch, device: torch.device) -> TensorInputs:
        """Return the inputs of encoder and decoder."""
        sound_inputs = as_batch(_signal_of(batch.encodings[0]).inputs, device)
        return {**sound_inputs, "decoder_input_ids": inputs["input_ids"]}

    def add_inputs(self, batch: Batch, model: TaskModel, *, encode_sources: bool = True) -> Batch:
        """Return a batch with the encoder's states of the sound, or with the sound's features for the encoder."""
        # Each transcript is explained by itself, so a batch has one sound.
        signal = _signal_of(batch.encodings[0])
        source, masks = _encoder_inputs(model, signal.inputs)
        states_mask = torch.ones(1, len(signal.times), 1, dtype=torch.long, device=model.device)  # (1, S, 1)
        states_mask[:, len(signal.times) - signal.padding :] = 0
        source_inputs = {"source_mask": states_mask}
        if masks:
            source_inputs["frames_mask"] = masks[MASK][..., None]  # (1, F, 1)
        if encode_sources:
            source_inputs["encoder_states"] = encoder_output(model, source, **masks)[0]  # (1, S, H)
        else:
            source_inputs["source"] = source
        return replace(batch, inputs=batch.inputs | source_inputs)


class CTC(SpeechTask, AudioClassification):
    """A model that answers with a token or the blank, which stands for none, at every frame of a sound."""

    name = FRAMES.name
    models = FRAMES.models
    position = AtToken()
    outputs = Outputs()  # pyright: ignore[reportAssignmentType]
    per_frame = True

    @classmethod
    def processor_of(cls, reader: Any) -> Any:
        """Return the whole processor, as its tokenizer is needed too."""
        return reader

    def blank_id(self, model: TaskModel) -> int:
        """Return the vocabulary index of the blank, for which transformers uses the padding token."""
        return int(model.config.pad_token_id or 0)  # None counts as 0, the default of these configurations

    def emitted(self, logits: Tensor, model: TaskModel) -> list[tuple[int, Prediction]]:
        """Return the emitted tokens, each with the frame at which it is most likely.

        A token is emitted for each run of frames with the same most likely token, unless it is the blank.

        Args:
            logits: The logits at every frame, (T, V).
            model: The model.
        """
        probabilities = logits.float().softmax(-1)  # (T, V)
        tokens = []
        start = 0
        for token_id, run in groupby(logits.argmax(-1).tolist()):
            end = start + len(list(run))
            if token_id != self.blank_id(model):
                frame = start + int(probabilities[start:end, token_id].argmax())
                (name,) = readable_tokens(model.tokenizer, [token_id])
                logit = float(logits[frame, token_id])
                probability = float(probabilities[frame, token_id])
                tokens.append((frame, Prediction(name, token_id, logit, probability)))
            start = end
        return tokens


@dataclass(frozen=True)
class Emitted(BatchTargets):
    """The logits of emitted tokens at their frames, each minus the mean logit of the vocabulary at its frame."""

    frames: Tensor  # the frame of each token, (B, K)

    def select(self, logits: Tensor, texts: Tensor | None = None) -> Tensor:
        """Return the explained logits, (B, K), of the logits at every frame, (B, T, V); all rows are whole sounds."""
        sounds = torch.arange(len(logits), device=logits.device)[:, None]  # (B, 1)
        frame_logits = logits[sounds, self.frames.to(logits.device)]  # (B, K, V)
        target_logits = frame_logits.gather(-1, self.ids.to(logits.device)[..., None])[..., 0]  # (B, K)
        return target_logits - mean_logit(frame_logits)[..., 0]


def _signal_of(encoding: Encoding) -> Signal:
    """Return the sound of an encoding; refuse a text."""
    if (signal := signal_of(encoding)) is None:
        raise InputError("a model of speech reads a sound, and a text was given: transcribe(sound)")
    return signal


def _encoder_inputs(model: TaskModel, inputs: TensorInputs) -> tuple[Tensor, TensorInputs]:
    """Return the features of a sound, (1, ...), and the mask of its frames as a keyword of the encoder.

    Args:
        model: The model.
        inputs: The features, and last their mask if some frames are padding, without the batch axis.

    Returns:
        The features, and the mask, (1, F), by its name; no mask if none is padding.
    """
    features, *masks = as_batch(inputs, model.device).values()
    return features, {MASK: masks[0]} if masks else {}
