"""Language models whose prompt may hold pictures and sounds."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...copies.run import private_clone
from ...errors import InputError, UnsupportedModelError
from ...inputs.chat import ReadPrompt
from ...inputs.encoding import Batch, EncodedMedium, Encoding, ScoreSpread, Spans, collate, readable_tokens
from ...inputs.texts import with_distinct_names
from ...model.causality import reads_prompt_as_alone
from ...model.generation import inputs_of_generated
from ...model.task_model import TaskModel
from ...parts.signal_entry import SignalEntry, find_signal_entry
from ...results.storage.schema import Float64Array, Indices
from ...tasks.base import GenerateSettings, Region, of_prompt
from ...tasks.language import CausalLM
from ...text.characters import Span
from ..extension import AUDIO_TEXT, IMAGE_TEXT
from ..inputs.parts import pictures_and_sounds, with_other_media
from ..inputs.picture_places import PIXELS, GridShape, PictureBoxes, Size, grid_layout, merged_boxes
from ..inputs.pictures import Picture
from ..inputs.sounds import Sound, feature_extractor_of, moments, sampling_rate_of
from .spectra import Spectrum, spectrum_of

NO_TOKENS = "{}: no tokens of the prompt stand for each {} part, so where it is read cannot be told"

NOT_EXTRA_INPUTS = ("input_ids", "attention_mask", "labels")
"""Outputs of a processor that are not passed on to the model unchanged."""


class MultimodalLM(CausalLM):
    """Language models that read pictures or sounds; the caller passes their processor as the tokenizer.

    A prompt with pictures or sounds is read by itself, not in a batch. The tokens that stand for one have no score of
    their own: a result has the scores of its patches or moments.
    """

    def __init__(self, model: Any = None, tokenizer: Any = None, labels: Sequence[str] | None = None) -> None:
        super().__init__(model, tokenizer, labels)
        self._entries: dict[Indices, SignalEntry | None] = {}  # by the shape of the input
        self._boxes = PictureBoxes(partial(self._alone, "image"))
        self._spectra: dict[int, Spectrum] = {}  # by the samples of a sound
        self._reads_prompt_as_alone: dict[tuple[Any, ...], bool] = {}  # by the inputs where the prompt ends

    def check_generates(self, model: TaskModel) -> None:
        """Refuse encoder-decoder models: only their encoder reads the picture."""
        if getattr(model.config, "is_encoder_decoder", False):
            raise UnsupportedModelError(
                f"{model.class_name} reads pictures with the encoder of an encoder-decoder model; pictures "
                "are explained for models that read them among the words of one sequence"
            )

    def reads_medium(self, kind: str) -> bool:
        """Return whether the processor reads pictures (`kind` "picture") or sounds ("sound")."""
        if kind == "picture":
            return hasattr(self.processor, "image_processor")
        return sampling_rate_of(self.processor) is not None

    def check_reads(self, model: TaskModel, kind: str) -> None:
        """Refuse pictures or sounds that the processor does not read.

        Args:
            model: The model.
            kind: "picture" or "sound".

        Raises:
            InputError: If it does not.
        """
        if not self.reads_medium(kind):
            raise InputError(
                f"{type(self.processor).__name__} reads no {kind}s: pass the model's processor, "
                "Explainer(model, AutoProcessor.from_pretrained(...))"
            )

    def read_prompt(self, model: TaskModel, prompt: ReadPrompt) -> Encoding:
        """Encode a prompt with its pictures and sounds by the processor.

        Args:
            model: The model.
            prompt: The prompt; one without pictures and sounds is encoded as any text.

        Raises:
            InputError: If the processor does not read such media, or these messages.
            UnsupportedModelError: If it cannot be told which tokens stand for a picture or a sound.
        """
        if not prompt.media:
            return super().read_prompt(model, prompt)
        for medium in prompt.media:
            self.check_reads(model, medium.kind)
        encoding = self._processed(prompt)
        pictures, sounds = pictures_and_sounds(prompt.media)
        media = self._encoded_pictures(model, pictures, encoding) if pictures else []
        if sounds:
            spectra = [self._spectrum(model, sound) for sound in sounds]
            media += self._encoded_sounds(model, sounds, spectra, encoding)
            encoding = replace(encoding, notes=(*encoding.notes, *_notes_on(sounds, spectra)))
        if pictures and sounds:  # they enter the model at two modules, and a pass records one
            media = [replace(medium, by_part=None) for medium in media]
        media = with_distinct_names(media)
        encoding = self._with_placeholders(model, encoding, "image", media[: len(pictures)])
        encoding = self._with_placeholders(model, encoding, "audio", media[len(pictures) :])
        return replace(encoding, media=tuple(media))

    def _processed(self, prompt: ReadPrompt) -> Encoding:
        """Return a prompt as the processor encodes it, with what it makes of pictures and sounds."""
        try:
            processed = self._apply_template(prompt.messages, **prompt.template_options)
        except (TypeError, ValueError) as error:
            raise InputError(f"the processor cannot read these messages: {error}") from None
        ids: list[int] = processed["input_ids"][0].tolist()
        inputs: dict[str, Any] = {"input_ids": ids}  # along the tokens
        extra_inputs: dict[str, Tensor] = {}
        for name, value in processed.items():
            if isinstance(value, Tensor) and name not in NOT_EXTRA_INPUTS:
                if value.shape == (1, len(ids)):
                    inputs[name] = value[0].tolist()
                else:
                    extra_inputs[name] = value
        return replace(self._with_text(prompt, inputs), extra_inputs=extra_inputs)

    def _with_placeholders(
        self, model: TaskModel, encoding: Encoding, modality: str, media: Sequence[EncodedMedium]
    ) -> Encoding:
        """Return a prompt in which the tokens of each picture, or sound, have the characters of its placeholder.

        The offsets of an encoding are found by comparing tokens. The tokens of adjacent pictures are all the same, so
        those of one may have got the characters of the next.

        Args:
            model: The model.
            encoding: The prompt.
            modality: "image" or "audio".
            media: Its pictures, or its sounds.
        """
        if not media or encoding.offsets is None:
            return encoding
        placeholder = re.escape(self._placeholder(model, modality))
        spans = [match.span() for match in re.finditer(placeholder, encoding.text or "")]
        if len(spans) != len(media):
            return encoding
        offsets = list(encoding.offsets)
        for (start, end), medium in zip(spans, media, strict=True):
            for token in medium.tokens:
                offsets[token] = (end, end)
            for token in medium.tokens[:1]:  # the first one has the characters
                offsets[token] = (start, end)
        return replace(encoding, offsets=tuple(offsets))

    def without_places(self, encoding: Encoding, prompt: ReadPrompt, places: Sequence[Sequence[Region]]) -> Encoding:
        """Return an encoding of a prompt whose pictures and sounds lack some places.

        Args:
            encoding: The encoded prompt.
            prompt: The prompt.
            places: The places that each picture and sound lacks, pictures first.

        Raises:
            UnsupportedModelError: If the processor makes inputs of another shape of them.
        """
        media = sorted(prompt.media, key=lambda medium: medium.kind)  # pictures, then sounds, as an encoding has them
        pairs = zip(media, places, strict=True)
        media = [medium.without(removed) if removed else medium for medium, removed in pairs]
        processed = self._apply_template(with_other_media(prompt.messages, media), **prompt.template_options)
        inputs = {name: processed[name] for name in encoding.extra_inputs}
        for name, value in encoding.extra_inputs.items():
            if inputs[name].shape != value.shape:
                raise UnsupportedModelError(
                    f"{type(self.processor).__name__} makes {name} of another shape of a picture or a sound without "
                    "some of its parts, so what the model answers without them cannot be compared"
                )
        return replace(encoding, extra_inputs=inputs)

    def read_completion(
        self, model: TaskModel, prompt: ReadPrompt, before: Encoding, completion: str, settings: GenerateSettings
    ) -> tuple[Encoding, int]:
        """Encode a completion and append it to the encoded prompt with pictures or sounds.

        Args:
            model: The model.
            prompt: The prompt as it was read.
            before: Its encoding.
            completion: The text.
            settings: Settings of `generate`.

        Returns:
            The encoding of both, and how many tokens the prompt has.
        """
        if not before.media:
            return super().read_completion(model, prompt, before, completion, settings)
        tokenize = partial(self.tokenizer, add_special_tokens=False)
        prompt_ids = tokenize(prompt.text)["input_ids"]  # with one token for each picture, so not those of `before`
        both_ids = tokenize(prompt.text + completion)["input_ids"]
        ids = both_ids[len(prompt_ids) :]
        if both_ids[: len(prompt_ids)] != prompt_ids:  # a token has the end of the prompt and the completion's start
            ids = tokenize(completion)["input_ids"]
        return self.appended(model, before, ids), len(before)

    def appended(self, model: TaskModel, before: Encoding, ids: list[int]) -> Encoding:
        """Return a prompt with tokens appended, each with the inputs that the model's `generate` gives it.

        PaliGemma's types of tokens are an example: the prompt is read as a whole, generated tokens from left to right.

        Args:
            model: The model.
            before: The encoded prompt.
            ids: The tokens that follow it.

        Raises:
            UnsupportedModelError: If the prompt gets other hidden states once tokens follow it.
        """
        appended = super().appended(model, before, ids)
        if not before.media:
            return appended
        token_inputs = self._inputs_of_generated(model, before, appended)
        as_generated = replace(appended, inputs={**appended.inputs, **token_inputs})
        if self._keeps_states_of_prompt(model, before, as_generated):
            return as_generated
        return self._with_other_type(model, before, as_generated, token_inputs)

    def _inputs_of_generated(self, model: TaskModel, before: Encoding, appended: Encoding) -> dict[str, list[int]]:
        """Return the inputs with a value for each token, by name, as `generate` continues those of the prompt."""
        continued = inputs_of_generated(model, before.inputs, len(appended) - len(before))
        return {name: values for name, values in continued.items() if name in appended.inputs}

    def _keeps_states_of_prompt(self, model: TaskModel, before: Encoding, followed: Encoding) -> bool:
        """Return whether a prompt has the same hidden states alone and with tokens that follow it.

        The inputs that `generate` gives to generated tokens are made for its passes over one token each, with the
        prompt's states in the cache. PaliGemma's may say that a generated token is of the prompt: in a pass over both,
        the prompt would attend to the answer.

        It is measured once for all prompts with the same inputs, except ids, at the two tokens where the prompt ends:
        its last token and the one that follows.

        Args:
            model: The model.
            before: The prompt.
            followed: The prompt and the tokens that follow it.
        """
        where_prompt_ends = slice(len(before) - 1, len(before) + 1)
        inputs_there = tuple(
            (name, *values[where_prompt_ends]) for name, values in followed.inputs.items() if name != "input_ids"
        )
        if inputs_there not in self._reads_prompt_as_alone:
            self._reads_prompt_as_alone[inputs_there] = reads_prompt_as_alone(model, before, followed)
        return self._reads_prompt_as_alone[inputs_there]

    def _with_other_type(
        self, model: TaskModel, before: Encoding, followed: Encoding, token_inputs: Mapping[str, list[int]]
    ) -> Encoding:
        """Return a prompt that has the same states as alone, with tokens of the other type after it.

        A type is a number for each token, 0 or 1, such as `token_type_ids`.

        Args:
            model: The model.
            before: The prompt.
            followed: The prompt and the tokens that follow it, of the type that `generate` gives them.
            token_inputs: The inputs along the tokens of both, by name, such as their types.

        Raises:
            UnsupportedModelError: If the prompt has other states than alone with either type.
        """
        for name, types in token_inputs.items():
            other_types = [*types[: len(before)], *(int(type_ == 0) for type_ in types[len(before) :])]
            encoding = replace(followed, inputs={**followed.inputs, name: other_types})
            if self._keeps_states_of_prompt(model, before, encoding):
                return encoding
        raise UnsupportedModelError(
            f"{model.name} reads a prompt otherwise once an answer follows it, and `generate` does not: what it was "
            f"told of generated tokens ({', '.join(token_inputs) or 'nothing'}) does not say that they come after the "
            "prompt; a newer version may tell it more: pip install -U transformers"
        )

    def add_inputs(self, batch: Batch, model: TaskModel, *, encode_sources: bool = True) -> Batch:
        """Return a batch of one text with its pictures and sounds."""
        encodings = batch.encodings
        if len(encodings) > 1 and any(encoding.media for encoding in encodings):
            raise InputError("a prompt with pictures or sounds is read by itself")
        media_inputs = {
            name: value.to(model.device, model.module.dtype if value.is_floating_point() else value.dtype)
            for name, value in encodings[0].extra_inputs.items()  # in the precision of the processor
        }
        return replace(batch, inputs=batch.inputs | media_inputs) if media_inputs else batch

    def _with_text(self, prompt: ReadPrompt, inputs: dict[str, list[int]]) -> Encoding:
        """Return the encoding of token ids with the text of the prompt, in which one token stands for each medium."""
        ids = inputs["input_ids"]
        tokenizer = self.tokenizer
        tokens = readable_tokens(tokenizer, ids)
        special = tuple(token_id in tokenizer.all_special_ids for token_id in ids)
        offsets = None
        if tokenizer.is_fast:
            text_encoding = tokenizer(prompt.text, add_special_tokens=False, return_offsets_mapping=True)
            offsets = _align_offsets(text_encoding["input_ids"], text_encoding["offset_mapping"], ids)
        sequences = tuple(None if is_special else 0 for is_special in special)
        encoding = Encoding(inputs, tokens, offsets, None, sequences, special, prompt.text)
        return of_prompt(tokenizer, encoding, prompt)

    def _apply_template(self, messages: Any, **options: Any) -> Any:
        """Return the model's inputs for messages, as tensors."""
        return self.processor.apply_chat_template(
            messages, tokenize=True, return_dict=True, return_tensors="pt", **options
        )

    def _placeholder(self, model: TaskModel, modality: str) -> str:
        """Return what the chat template writes for a picture ("image") or a sound ("audio").

        It is the medium's own token if the template writes that; a template may write another text, which the processor
        replaces. It is found by comparing a message with the medium and one without.
        """
        question = {"type": "text", "text": "?"}
        with_medium, without = (
            str(self.processor.apply_chat_template([{"role": "user", "content": content}], tokenize=False))
            for content in ([{"type": modality}, question], [question])
        )
        characters = enumerate(zip(with_medium, without, strict=False))
        start = next((index for index, (of_one, of_other) in characters if of_one != of_other), len(without))
        inserted = with_medium[start : start + len(with_medium) - len(without)].strip()
        token = self.tokenizer.convert_ids_to_tokens(placeholder_token(self.processor, model.config, modality))
        return token if token in inserted else inserted

    def _alone(self, modality: str, medium: Any) -> Any:
        """Return the model's inputs for a message with one picture ("image") or sound ("audio").

        The whole processor is called, as its image processor or feature extractor by itself has other defaults.
        """
        content = [{"type": modality, modality: medium}, {"type": "text", "text": "?"}]
        return self._apply_template([{"role": "user", "content": content}])

    def _spectrum(self, model: TaskModel, sound: Sound) -> Spectrum:
        """Return the layout of a sound's spectrum, found once for each length of sounds."""
        length = len(sound.samples)
        if length not in self._spectra:
            reader = feature_extractor_of(self.processor)
            token = placeholder_token(self.processor, model.config, "audio")
            self._spectra[length] = spectrum_of(partial(self._alone, "audio"), sound, reader, token)
        return self._spectra[length]

    def _encoded_sounds(
        self, model: TaskModel, sounds: Sequence[Sound], spectra: Sequence[Spectrum], encoding: Encoding
    ) -> list[EncodedMedium]:
        """Return the sounds of a prompt, with the times of their tokens and of the parts that reach the model.

        Args:
            model: The model.
            sounds: The sounds, in their order.
            spectra: The layout of each one's spectrum.
            encoding: The prompt.
        """
        token_positions = self._token_positions(model, encoding, "audio")
        counts = [spectrum.tokens for spectrum in spectra]
        if sum(counts) != len(token_positions):
            raise UnsupportedModelError(NO_TOKENS.format(model.class_name, "audio"))
        entry = self._entry_of_sounds(model, encoding, spectra)
        media, parts_before = [], 0
        for sound, spectrum, tokens in zip(sounds, spectra, _divided(token_positions, counts), strict=True):
            by_part = by_token = None
            if spectrum.seconds_of_tokens is not None:
                by_token = moments(sound, spectrum.tokens, spectrum.seconds_of_tokens)
            if entry is not None:
                by_part = _counted_from(parts_before, spectrum.moments_of_parts(sound, entry))
                parts_before += spectrum.rows * entry.places
            media.append(EncodedMedium("sound", sound.name, tokens, by_token, by_part, *sound.size_and_details()))
        return media

    def _entry_of_sounds(self, model: TaskModel, encoding: Encoding, spectra: Sequence[Spectrum]) -> SignalEntry | None:
        """Return where sounds enter the model; None unless all do there, in the order of the prompt."""
        name = spectra[0].name
        rows = sum(spectrum.rows for spectrum in spectra)
        values = encoding.extra_inputs.get(name)
        entry = self._entry(model, encoding, name) if values is not None and len(values) == rows else None
        return entry if entry is not None and entry.output_shape[0] == rows else None

    def _encoded_pictures(
        self, model: TaskModel, pictures: Sequence[Picture], encoding: Encoding
    ) -> list[EncodedMedium]:
        """Return the pictures of a prompt, with the places of their tokens and patches."""
        token_positions = self._token_positions(model, encoding, "image")
        pixels_by_picture = [self._boxes.pixels(picture.image) for picture in pictures]  # each processed alone
        pixels_alone = np.concatenate([pixels.ravel() for pixels in pixels_by_picture])
        all_pixels = encoding.extra_inputs.get(PIXELS, torch.zeros(0)).float().numpy().ravel()
        # Boxes are measured with one picture alone: they hold where the processor makes the same of it in this prompt.
        pixels_match = 0 < all_pixels.size == pixels_alone.size and np.allclose(all_pixels, pixels_alone, atol=1e-5)
        tokens_by_picture = _divided(token_positions, _token_counts(len(token_positions), pixels_by_picture))
        media, patches_before = [], 0
        for index, picture in enumerate(pictures):
            tokens = tokens_by_picture[index]
            size = picture.image.size
            by_part = by_token = None
            entry = self._entry(model, encoding, PIXELS) if pixels_match else None
            if entry is not None and int(np.prod(entry.input_shape)) == all_pixels.size:
                pixel_share = pixels_by_picture[index].size / all_pixels.size
                boxes, grid = self._boxes.boxes_and_grid(entry, size, pixel_share)
                by_part = _counted_from(patches_before, grid_layout(boxes, size))
                by_token = _layout_of_tokens(boxes, grid, len(tokens), size)
                patches_before += len(boxes)
            name = picture.name or f"picture {index + 1}"
            media.append(EncodedMedium("picture", name, tokens, by_token, by_part, *picture.size_and_details()))
        return media

    def _token_positions(self, model: TaskModel, encoding: Encoding, modality: str) -> list[int]:
        """Return the positions of the tokens that stand for pictures ("image") or sounds ("audio") in a prompt."""
        placeholder = placeholder_token(self.processor, model.config, modality)
        positions = [position for position, token_id in enumerate(encoding.ids) if token_id == placeholder]
        if not positions:
            raise UnsupportedModelError(NO_TOKENS.format(model.class_name, modality))
        return positions

    def _entry(self, model: TaskModel, encoding: Encoding, name: str) -> SignalEntry | None:
        """Return the module at which an input of a processor enters the model, found once for each shape of it."""
        shape = tuple(encoding.extra_inputs[name].shape)
        if shape not in self._entries:
            tokens = collate([encoding], [0], pad_id=model.pad_id, left=model.pad_left, device=model.device)
            inputs = self.add_inputs(tokens, model).inputs
            self._entries[shape] = find_signal_entry(private_clone(model.unmodified), inputs)
        return self._entries[shape]


class ImageText(MultimodalLM):
    """Vision-language models; some read sounds, too."""

    name = IMAGE_TEXT.name
    models = IMAGE_TEXT.models


class AudioText(MultimodalLM):
    """Language models that read sounds."""

    name = AUDIO_TEXT.name
    models = AUDIO_TEXT.models


def _notes_on(sounds: Sequence[Sound], spectra: Sequence[Spectrum]) -> list[str]:
    """Return the notes on how sounds were read, such as that the end of one was cut off."""
    pairs = zip(sounds, spectra, strict=True)
    return [note for sound, spectrum in pairs for note in (*sound.notes, *spectrum.notes(sound))]


def _divided(positions: Sequence[int], counts: Sequence[int]) -> list[Indices]:
    """Return the tokens of each picture or sound, of the positions of all, by how many tokens each has."""
    ends = accumulate(counts)
    return [tuple(positions[end - count : end]) for count, end in zip(counts, ends, strict=True)]


def _token_counts(total: int, pixels_by_picture: Sequence[Float64Array]) -> list[int]:
    """Return how many of all tokens each picture has: in proportion to its pixels, or equal if that gives fractions."""
    total_pixels = max(sum(pixels.size for pixels in pixels_by_picture), 1)
    shares = [total * pixels.size / total_pixels for pixels in pixels_by_picture]
    if np.allclose(shares, np.round(shares)):
        return [round(share) for share in shares]
    return [total // len(pixels_by_picture)] * len(pixels_by_picture)


def placeholder_token(processor: Any, config: Any, modality: str) -> int | None:
    """Return the token id that stands for a picture or a sound in a prompt; None if neither of two objects names it.

    Args:
        processor: The model's processor.
        config: The model's configuration.
        modality: "image" or "audio".
    """
    names = ((config, f"{modality}_token_id"), (config, f"{modality}_token_index"), (processor, f"{modality}_token_id"))
    return next((token for owner, name in names if isinstance(token := getattr(owner, name, None), int)), None)


def _align_offsets(text_ids: Sequence[int], offsets: Spans, ids: Sequence[int]) -> Spans:
    """Return the offsets of tokens, of which a processor has inserted some.

    Args:
        text_ids: The tokens of the text.
        offsets: Their characters.
        ids: The tokens of the text with those that the processor has inserted; these get empty spans.
    """
    spans: list[Span] = []
    for change, start, end, first_id, last_id in SequenceMatcher(None, text_ids, ids, autojunk=False).get_opcodes():
        if change == "equal":
            spans += [(offsets[index][0], offsets[index][1]) for index in range(start, end)]
        else:
            place = spans[-1][1] if spans else 0
            spans += [(place, place)] * (last_id - first_id)
    return tuple(spans)


def _layout_of_tokens(boxes: Float64Array, grid: GridShape | None, count: int, size: Size) -> Any:
    """Return the places of a picture's tokens in it; None unless the patches form one square block for each token.

    Args:
        boxes: The boxes of the patches in pixels, (N, 4).
        grid: Rows and columns of patches in each tile; None if the patches come block by block, or in an unknown order.
        count: How many tokens stand for the picture.
        size: Width and height of the picture, in pixels.
    """
    side = math.isqrt(len(boxes) // max(count, 1))  # of a block, in patches
    if side == 0 or side**2 * count != len(boxes):
        return None
    height, width = grid or (count * side, side)  # without a grid, one block below the other
    if height % side or width % side:
        return None
    merged = merged_boxes(boxes, (height, width), side)
    if grid is None and np.nanmax(_areas(merged)) > 1.5 * side**2 * np.nanmedian(_areas(boxes)):
        return None  # the patches of a token do not follow each other: their boxes span more than a block
    return grid_layout(merged, size)


def _areas(boxes: Float64Array) -> Float64Array:
    """Return the areas of boxes, (N, 4), in square pixels, (N,)."""
    areas: Float64Array = np.prod(boxes[:, 2:] - boxes[:, :2], -1)
    return areas


def _counted_from(first: int, spread: ScoreSpread | None) -> ScoreSpread | None:
    """Return the places of a medium's parts, with these counted behind those of the media before it."""
    return spread and spread._replace(parts=spread.parts + first)
