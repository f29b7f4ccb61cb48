"""Where the pictures and sounds of a prompt are: their tokens in it, and what these show of a picture or a sound."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from os.path import commonprefix
from typing import Any

import numpy as np
import torch

from ...copies.pool import private_clone
from ...errors import UnsupportedModelError
from ...inputs.batches import collate
from ...inputs.encoded_media import EncodedMedium, ScoreSpread
from ...inputs.encoding import Encoding
from ...inputs.message_parts import ReadPart
from ...inputs.texts import with_distinct_names
from ...model.task_model import TaskModel
from ...parts.signal_entry import SignalEntry, find_signal_entry
from ...results.storage.schema import Float64Array, Indices
from ..inputs.parts import pictures_and_sounds
from ..inputs.picture_grids import GridShape, Size, grid_layout, merged_boxes
from ..inputs.picture_places import PIXELS, PictureBoxes
from ..inputs.pictures import Picture
from ..inputs.sounds import Sound, feature_extractor_of, moments
from .spectra import Spectrum, spectrum_of

NO_TOKENS = "{}: no tokens of the prompt stand for each {} part, so where it is read cannot be told"


class MediaPlaces:
    """Finds the tokens of pictures and sounds in prompts, and the places of their patches and frames.

    A modality is "image" or "audio", as in transformers' messages.

    Args:
        processor: The model's processor.
        tokenizer: The tokenizer in it.
    """

    def __init__(self, processor: Any, tokenizer: Any) -> None:
        self._processor = processor
        self._tokenizer = tokenizer
        self._boxes = PictureBoxes(partial(self._alone, "image"))
        # What was found before: where an input enters the model, by its shape; the layout of a sound, by its samples.
        self._entries: dict[Indices, SignalEntry | None] = {}
        self._spectra: dict[int, Spectrum] = {}

    def located(self, model: TaskModel, encoding: Encoding, media: Sequence[ReadPart]) -> Encoding:
        """Return an encoded prompt with its pictures and sounds, pictures first.

        Args:
            model: The model.
            encoding: The prompt as the processor encodes it.
            media: Its pictures and sounds, in their order.

        Raises:
            UnsupportedModelError: If it cannot be told which tokens stand for a picture or a sound.
        """
        pictures, sounds = pictures_and_sounds(media)
        located_media = self._encoded_pictures(model, pictures, encoding) if pictures else []
        if sounds:
            spectra = [self._spectrum(model, sound) for sound in sounds]
            located_media += self._encoded_sounds(model, sounds, spectra, encoding)
            for sound, spectrum in zip(sounds, spectra, strict=True):
                encoding = replace(encoding, notes=(*encoding.notes, *sound.notes, *spectrum.notes(sound)))
        if pictures and sounds:  # they enter the model at two modules, and a pass records one
            located_media = [replace(medium, by_part=None) for medium in located_media]
        located_media = with_distinct_names(located_media)
        encoding = self._with_placeholders(model, encoding, "image", located_media[: len(pictures)])
        encoding = self._with_placeholders(model, encoding, "audio", located_media[len(pictures) :])
        return replace(encoding, media=tuple(located_media))

    def _encoded_pictures(
        self, model: TaskModel, pictures: Sequence[Picture], encoding: Encoding
    ) -> list[EncodedMedium]:
        """Return the pictures of a prompt, with the places of their tokens and patches."""
        token_positions = self._token_positions(model, encoding, "image")
        # Of each picture by itself: tokens are divided, and boxes measured, by what one picture becomes.
        pixels_alone = [self._boxes.pixels(picture.image) for picture in pictures]
        pixel_count = sum(pixels.size for pixels in pixels_alone)
        entry = self._entry_of_pictures(model, encoding, pixels_alone)
        tokens_by_picture = _divided(token_positions, _token_counts(len(token_positions), pixels_alone))
        media = []
        patches_before = 0
        for index, picture in enumerate(pictures):
            tokens = tokens_by_picture[index]
            by_part = by_token = None
            extent, details = picture.size_and_details()
            if entry is not None:
                boxes, grid = self._boxes.boxes_and_grid(entry, extent, pixels_alone[index].size / pixel_count)
                by_part = _counted_from(patches_before, grid_layout(boxes, extent))
                by_token = _layout_of_tokens(boxes, grid, len(tokens), extent)
                patches_before += len(boxes)
            name = picture.name or f"picture {index + 1}"
            media.append(EncodedMedium("picture", name, tokens, by_token, by_part, extent, details))
        return media

    def _entry_of_pictures(
        self, model: TaskModel, encoding: Encoding, pixels_alone: Sequence[Float64Array]
    ) -> SignalEntry | None:
        """Return where pictures enter the model; None where the boxes of one picture alone do not hold for it.

        Boxes are measured with one picture: they hold where the processor makes the same pixels of it in this prompt.

        Args:
            model: The model.
            encoding: The prompt.
            pixels_alone: What the processor makes of each picture by itself.
        """
        pixels = encoding.extra_inputs.get(PIXELS, torch.zeros(0)).float().numpy().ravel()
        expected_pixels = np.concatenate([of_picture.ravel() for of_picture in pixels_alone])
        has_same_size = 0 < pixels.size == expected_pixels.size
        if not has_same_size or not np.allclose(pixels, expected_pixels, atol=1e-5):
            return None
        entry = self._entry(model, encoding, PIXELS)
        # Of another size, what enters there is not these pixels, each once.
        return entry if entry is not None and math.prod(entry.input_shape) == pixels.size else None

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
        media = []
        parts_before = 0
        for sound, spectrum, tokens in zip(sounds, spectra, _divided(token_positions, counts), strict=True):
            by_part = by_token = None
            if spectrum.seconds_of_tokens is not None:
                by_token = moments(sound, spectrum.tokens, spectrum.seconds_of_tokens)
            if entry is not None:
                by_part = _counted_from(parts_before, spectrum.moments_of_parts(sound, entry))
                parts_before += spectrum.rows * entry.places
            extent, details = sound.size_and_details()
            media.append(EncodedMedium("sound", sound.name, tokens, by_token, by_part, extent, details))
        return media

    def _entry_of_sounds(self, model: TaskModel, encoding: Encoding, spectra: Sequence[Spectrum]) -> SignalEntry | None:
        """Return where sounds enter the model; None unless all their rows do there, in the order of the prompt."""
        name = spectra[0].name
        rows = sum(spectrum.rows for spectrum in spectra)
        values = encoding.extra_inputs.get(name)
        if values is None or len(values) != rows:
            return None
        entry = self._entry(model, encoding, name)
        return entry if entry is not None and entry.output_shape[0] == rows else None

    def _entry(self, model: TaskModel, encoding: Encoding, name: str) -> SignalEntry | None:
        """Return the module at which an input of a processor enters the model, found once for each shape of it."""
        shape = tuple(encoding.extra_inputs[name].shape)
        if shape not in self._entries:
            # A pass over this prompt alone, in which the module is found.
            tokens = collate([encoding], [0], pad_id=model.pad_id, left=model.pad_left, device=model.device)
            inputs = model.task.add_inputs(tokens, model).inputs
            self._entries[shape] = find_signal_entry(private_clone(model.unmodified), inputs)
        return self._entries[shape]

    def _spectrum(self, model: TaskModel, sound: Sound) -> Spectrum:
        """Return the layout of a sound's spectrum, found once for each length of sounds."""
        length = len(sound.samples)
        if length not in self._spectra:
            reader = feature_extractor_of(self._processor)
            token = self._placeholder_id(model, "audio")
            self._spectra[length] = spectrum_of(partial(self._alone, "audio"), sound, reader, token)
        return self._spectra[length]

    def _token_positions(self, model: TaskModel, encoding: Encoding, modality: str) -> list[int]:
        """Return the positions of the tokens that stand for pictures ("image") or sounds ("audio") in a prompt."""
        placeholder = self._placeholder_id(model, modality)
        positions = [position for position, token_id in enumerate(encoding.ids) if token_id == placeholder]
        if not positions:
            raise UnsupportedModelError(NO_TOKENS.format(model.class_name, modality))
        return positions

    def _placeholder_id(self, model: TaskModel, modality: str) -> int | None:
        """Return the token id that stands for a picture or a sound; None if neither model nor processor names it."""
        ids = (
            getattr(model.config, f"{modality}_token_id", None),
            getattr(model.config, f"{modality}_token_index", None),
            getattr(self._processor, f"{modality}_token_id", None),
        )
        return next((token_id for token_id in ids if isinstance(token_id, int)), None)  # the configuration's first

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
        if len(spans) != len(media):  # the text has the placeholder elsewhere, too, or in another form
            return encoding
        offsets = list(encoding.offsets)
        for (start, end), medium in zip(spans, media, strict=True):
            for token in medium.tokens:
                offsets[token] = (end, end)
            for token in medium.tokens[:1]:  # the first one has the characters; there may be none
                offsets[token] = (start, end)
        return replace(encoding, offsets=tuple(offsets))

    def _placeholder(self, model: TaskModel, modality: str) -> str:
        """Return what the chat template writes for a picture ("image") or a sound ("audio").

        It is the medium's own token if the template writes that; a template may write another text, which the processor
        replaces. It is found by comparing a message with the medium and one without.
        """
        question = {"type": "text", "text": "?"}
        with_medium, without = (
            str(self._processor.apply_chat_template([{"role": "user", "content": content}], tokenize=False))
            for content in ([{"type": modality}, question], [question])
        )
        start = len(commonprefix([with_medium, without]))  # noqa: RUF071  # of characters, not of a path
        inserted = with_medium[start : start + len(with_medium) - len(without)].strip()
        token = self._tokenizer.convert_ids_to_tokens(self._placeholder_id(model, modality))
        return token if token in inserted else inserted

    def _alone(self, modality: str, medium: Any) -> Any:
        """Return the model's inputs for a message with one picture ("image") or sound ("audio").

        The whole processor is called, as its image processor or feature extractor by itself has other defaults.
        """
        content = [{"type": modality, modality: medium}, {"type": "text", "text": "?"}]
        return apply_template(self._processor, [{"role": "user", "content": content}])


def apply_template(processor: Any, messages: Any, **options: Any) -> Any:
    """Return the model's inputs for messages, as tensors by name.

    Args:
        processor: The model's processor.
        messages: The messages, as chat templates take them.
        **options: Further options of the template.
    """
    return processor.apply_chat_template(messages, tokenize=True, return_dict=True, return_tensors="pt", **options)


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


def _layout_of_tokens(boxes: Float64Array, grid: GridShape | None, count: int, size: Size) -> ScoreSpread | None:
    """Return the places of a picture's tokens in it; None unless the patches form one square block for each token.

    Args:
        boxes: The boxes of the patches in pixels, (N, 4).
        grid: Rows and columns of patches in each tile; None if the patches come block by block, or in an unknown order.
        count: How many tokens stand for the picture.
        size: Width and height of the picture, in pixels.
    """
    side = math.isqrt(len(boxes) // max(count, 1))  # of a block, in patches; 0 if there are more tokens than patches
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
