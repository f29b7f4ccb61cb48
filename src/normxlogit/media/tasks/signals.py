"""Classification of pictures and sounds, with patches and frames as tokens."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ...copies.clone import Forward, override_forward
from ...copies.run import Inputs, Pool, Site, TensorInputs, as_batch, private_clone, run, tensor_of
from ...errors import HeadMismatchError, InputError, UnsupportedModelError
from ...inputs.encoding import EncodedMedium, EncodedSignal, Encoding
from ...inputs.texts import collected, named_columns
from ...model.model_copy import named_errors
from ...model.task_model import TaskModel
from ...parts.headpiece import Head
from ...parts.layer_outputs import LayerOutput
from ...parts.model_parts import Parts
from ...parts.signal_entry import embedding_of_signal
from ...results.storage.schema import Fields, Indices, Strings
from ...results.units.media import Medium
from ...tasks.base import loaded
from ...tasks.classification import Classification
from ...tasks.signals import ReadsSignals
from ..inputs.items import media_items
from ..inputs.picture_places import equal_cells
from ..inputs.pictures import filled_by_surroundings
from ..inputs.sounds import Sound, moments

MASK_INPUT = "signal_mask"
"""The name of a feature extractor's mask in a batch; `_call_without_tokens` passes it on as `attention_mask`."""

MAX_REPEATS = 16
"""Most tokens before the patches that a head may leave out: the class token and the registers."""


class PatchGrid(NamedTuple):
    """How the tokens of a signal form rows and columns of patches; without rows they form no grid."""

    rows: int = 0
    columns: int = 1
    tokens_before: int = 0  # such as the class token and registers


NO_GRID = PatchGrid()

Times = tuple[tuple[float, float], ...]
"""Where each token of a sound begins and ends, in seconds."""

SPECTRUM_STEP = 0.01
"""Seconds of a frame of a spectrogram, as feature extractors compute them."""


class Prepared(NamedTuple):
    """A picture or a sound, ready for the processor."""

    value: Any  # what the processor is given
    fields: Fields  # of the medium in results, such as its name
    options: Fields  # of the processor's call
    seconds: float | None = None  # how much of a sound the model reads; None if that is not known, and for pictures
    notes: Strings = ()


@dataclass(frozen=True)
class Signal(EncodedSignal):
    """A picture or a sound as the model reads it.

    Attributes:
        times: Start and end of each token in seconds; () for pictures.
        sound: The sound that the words of a transcript rest on; None for what is classified or compared.
        scored: What is classified or compared, with the places of its tokens; None for others.
        padding: How many of the encoder's last states of a sound the decoder does not look at.
    """

    grid: PatchGrid
    times: Times = ()
    sound: Sound | None = None
    scored: Medium | None = None
    padding: int = 0

    def medium(self, parts: int) -> EncodedMedium | None:
        """Return the sound that an encoder reads in so many frames; None of what is classified or compared."""
        if self.sound is None:
            return None
        end = self.times[-1][1] if self.times else 0.0
        end = end or self.sound.seconds or float(parts)  # if no rate is known, a frame counts as a second
        extent, details = self.sound.size_and_details(end)
        return EncodedMedium(
            kind="sound",
            name=self.sound.name,
            tokens=(),
            by_token=None,
            by_part=moments(self.sound, parts, end),
            extent=extent,
            details=details,
        )

    def without(self, tokens: Sequence[int]) -> "Signal":
        """Return a sound without some moments; patches of a picture get the mean colour of what surrounds them."""
        if self.times:
            return self._silenced(tokens)
        rows, columns, tokens_before = self.grid
        name, pixels = next((name, value) for name, value in self.inputs.items() if value.ndim == 3)  # (C, H, W)
        _, height, width = pixels.shape
        cells = equal_cells((rows, columns), (width, height)).reshape(-1, 4)  # (patches, 4)
        boxes = cells[[token - tokens_before for token in tokens]].tolist()
        filled = filled_by_surroundings(np.moveaxis(pixels.float().numpy(), 0, -1), boxes)  # (H, W, C)
        changed = torch.from_numpy(np.moveaxis(filled, -1, 0).copy()).to(pixels.dtype)  # (C, H, W)
        return replace(self, inputs={**self.inputs, name: changed})

    def _silenced(self, tokens: Sequence[int]) -> "Signal":
        """Return a sound with some moments silenced: samples are zero, spectra at the minimum of the sound."""
        name, values = next((name, value) for name, value in self.inputs.items() if value.is_floating_point())
        silenced = values.clone()  # (time,) of samples, (time, bins) or (bins, time) of a spectrum
        is_spectrum = values.ndim > 1
        time_axis = 0
        seconds = max(end for _, end in self.times)
        if is_spectrum and self.grid.rows:  # (time, bins), cut into patches that need not reach its end
            seconds = values.shape[0] * SPECTRUM_STEP
        elif is_spectrum and values.shape[1] > values.shape[0]:  # (bins, time)
            time_axis = 1
        length = values.shape[time_axis]
        silence = float(values.min()) if is_spectrum else 0.0
        for token in tokens:
            start, end = self.times[token]
            first, last = round(start / seconds * length), round(end / seconds * length)
            silenced.narrow(time_axis, first, max(0, min(last, length) - first)).fill_(silence)
        return replace(self, inputs={**self.inputs, name: silenced})


def signal_of(encoding: Encoding) -> Signal | None:
    """Return the picture or sound of an encoding; None for texts.

    Args:
        encoding: The encoding.
    """
    return encoding.signal if isinstance(encoding.signal, Signal) else None


@contextmanager
def naming_input(place: int) -> Iterator[None]:
    """Name the input in errors on it.

    Args:
        place: Its place among the inputs, from 0.
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"input {place}: {error}") from None


class SignalTask(ReadsSignals, Classification):
    """Classification of pictures or sounds.

    The caller passes a processor as the tokenizer, and every patch or frame is a token without text.
    """

    reader_name: ClassVar[str]
    """What reads the inputs, for errors."""

    def __init__(self, model: Any = None, tokenizer: Any = None, labels: Sequence[str] | None = None) -> None:
        super().__init__(model, self.processor_of(tokenizer), labels)
        # By the shapes of the inputs: an encoding without its signal, and the grid of its tokens.
        self._templates: dict[tuple[Indices, ...], tuple[Encoding, PatchGrid]] = {}
        self._patches: LayerOutput | None = None  # the patch embedding of a model without a state for each patch

    @classmethod
    def tokenizer_of(cls, reader: Any) -> Any:
        """Return the processor; refuse a tokenizer in its place."""
        if hasattr(loaded(reader), "pad_token_id"):
            class_name = type(reader).__name__
            raise InputError(
                f"{cls.name} reads {cls.result_kind}s, and was given a {class_name}; pass the {cls.reader_name}"
            )
        return reader

    @classmethod
    def processor_of(cls, reader: Any) -> Any:
        """Return the image processor or the feature extractor of a processor, or the reader itself.

        Args:
            reader: One of the three.
        """
        parts = (getattr(reader, name, None) for name in ("image_processor", "feature_extractor"))
        return next((part for part in parts if part is not None), reader)

    def adapt(self, module: nn.Module) -> bool:
        """Make a copy callable with token ids, which it ignores."""
        override_forward(module, _call_without_tokens)
        return False

    def finalise_parts(self, parts: Parts, pool: Pool[PreTrainedModel], model: TaskModel) -> Parts:
        """Return the parts with a headpiece that accepts single tokens.

        The headpiece is called on one token as a sequence of length one. A head that pools the patches without the
        class token would then pool nothing, so the token is repeated until the head returns a finite value. A model
        without a hidden state for each patch has no headpiece: only its patch embedding is returned.
        """
        if self._patches is not None:
            error = (
                f"{model.class_name} keeps no state for each patch or frame from its first layer to its "
                "last, which its head could read"
            )
            return Parts(head_error=error, embedding_output=self._patches, unverified=parts.unverified)
        width = getattr(config_of_signal(model), "hidden_size", None)
        if width is None or parts.headpiece is None:
            return parts
        head = Head(pool, parts.headpiece)
        probe = torch.ones(1, width, dtype=model.module.dtype, device=model.device)  # (1, H)
        with torch.inference_mode():
            while not head.tokens(probe).isfinite().all():
                head = Head(pool, replace(head.piece, repeats=head.piece.repeats + 1))
                if head.piece.repeats > MAX_REPEATS:
                    raise HeadMismatchError(f"the head of {model.class_name} gives no number for a single token")
        return replace(parts, headpiece=head.piece)

    def encode(self, model: TaskModel, inputs: Any, *, long_text: str | None = None) -> tuple[list[Encoding], bool]:
        """Encode pictures or sounds.

        Args:
            model: The model.
            inputs: One or several of them, the processor's output for them, or encodings, which are returned unchanged.
            long_text: Refused: a picture or a sound is not cut.

        Returns:
            The encodings, and whether a single input was given.
        """
        if long_text is not None:
            raise InputError("long_text= is for texts; pictures and sounds are read whole")
        inputs = collected(inputs)
        if isinstance(inputs, list) and inputs and all(isinstance(item, Encoding) for item in inputs):
            return inputs, False
        if (processed := _processed(inputs, model)) is not None:
            signals, single = processed
            encodings = [
                self._encoding_of(model, signal, None, {"name": f"{self.result_kind} {number}"})
                for number, signal in enumerate(signals, 1)
            ]
            return encodings, single
        items, single = media_items(inputs, self.is_item, self.result_kind)
        encodings = []
        for place, item in enumerate(items):
            with naming_input(place):
                encodings.append(self._encode_item(model, item, place))
        return encodings, single

    @staticmethod
    def is_item(item: Any) -> bool:
        """Return whether something is one picture or sound of the task's kind."""
        raise NotImplementedError

    def medium_of(self, encoding: Encoding) -> Medium | None:
        """Return the picture or the sound of an encoding."""
        return None if (signal := signal_of(encoding)) is None else signal.scored

    def _prepare_item(self, model: TaskModel, item: Any, place: int) -> Prepared:
        """Prepare a picture or a sound for the processor.

        Args:
            model: The model.
            item: What `is_item` accepts.
            place: Its place among several, from 0, for the name of one without a file.
        """
        raise NotImplementedError

    def _scored(self, model: TaskModel, signal: Signal, fields: Fields) -> Medium | None:
        """Return a picture or a sound with the places of its tokens; None if these have no places.

        Args:
            model: The model.
            signal: It, as the model reads it.
            fields: The fields of the result that are known before, such as its name.
        """
        raise NotImplementedError

    def _encode_item(self, model: TaskModel, item: Any, place: int) -> Encoding:
        """Return the encoding of a picture or a sound."""
        prepared = self._prepare_item(model, item, place)
        inputs = processed_inputs(model, self.processor, prepared.value, MASK_INPUT, **prepared.options)
        return replace(self._encoding_of(model, inputs, prepared.seconds, prepared.fields), notes=prepared.notes)

    def _times(
        self, model: TaskModel, inputs: TensorInputs, grid: PatchGrid, count: int, seconds: float | None
    ) -> Times:
        """Return where each token of a sound begins and ends, in seconds; () if that is not known, or of a picture.

        Args:
            model: The model.
            inputs: What it reads, without the batch axis.
            grid: Rows and columns of patches, and the tokens before them.
            count: The number of tokens, T.
            seconds: How long what it reads lasts, which may be longer than the sound; None if that is not known.
        """
        return ()

    def _encoding_of(self, model: TaskModel, inputs: TensorInputs, seconds: float | None, fields: Fields) -> Encoding:
        """Return the encoding of one signal, with names for its patches or frames.

        Names and special tokens depend on the shapes of the inputs alone, and are kept for the next signals.
        """
        shapes = tuple(tuple(value.shape) for value in inputs.values())
        if shapes not in self._templates:
            count, grid = self._count_and_grid(model, inputs)
            self._templates[shapes] = _template(count, grid), grid
        template, grid = self._templates[shapes]
        signal = Signal(shapes, inputs, grid, self._times(model, inputs, grid, len(template), seconds))
        return replace(template, signal=replace(signal, scored=self._scored(model, signal, fields)))

    def _count_and_grid(self, model: TaskModel, inputs: TensorInputs) -> tuple[int, PatchGrid]:
        """Return T, the number of tokens of a signal in the model, and their grid.

        Models of transformers with convolutions over a waveform have a method that computes T; any other is run once
        for each shape. The tokens are the hidden states of the trunk. If it has no hidden state for each patch, as
        where a layer merges neighbours, they are the patch embeddings.
        """
        waveform = inputs.get("input_values")
        count_states = getattr(model.module, "_get_feat_extract_output_lengths", None)
        if count_states is not None and waveform is not None and waveform.ndim == 1:
            length = int(count_states(torch.tensor(len(waveform))))
            return length, _patch_grid(model, inputs, length)
        batch = as_batch(inputs, model.device)
        module = private_clone(model.module)
        if self._patches is None:
            with torch.inference_mode(), named_errors(f"{type(module).__name__} cannot read it"):
                states = module(**batch, output_hidden_states=True).get("hidden_states")
            if states and states[-1].ndim == 3 and states[0].shape[:2] == states[-1].shape[:2]:  # (1, T, H)
                length = states[-1].shape[1]
                return length, _patch_grid(model, inputs, length)
            self._patches = embedding_of_signal(module, batch, model.module.main_input_name)
        shape = _positions_shape(module, batch, self._patches)  # (T,) or (h, w)
        if len(shape) == 1:
            return shape[0], _patch_grid(model, inputs, shape[0])
        return math.prod(shape), PatchGrid(rows=shape[0], columns=math.prod(shape[1:]))


def _template(count: int, grid: PatchGrid) -> Encoding:
    """Return the encoding of any signal of `count` tokens: names by row and column, or by number, of its patches."""
    first = grid.tokens_before
    numbers = range(count - first)
    names = [f"{number // grid.columns},{number % grid.columns}" if grid.rows else str(number) for number in numbers]
    special = (True,) * first + (False,) * (count - first)
    return Encoding(
        inputs={"input_ids": list(range(count))},
        tokens=(*(f"[{number}]" for number in range(first)), *names),
        offsets=None,
        words=None,
        sequence_ids=tuple(None if is_special else 0 for is_special in special),
        special=special,
    )


def processed_inputs(model: TaskModel, processor: Any, value: Any, mask_name: str, **options: Any) -> dict[str, Tensor]:
    """Return what a processor makes of a picture or a sound, without the batch axis.

    Args:
        model: The model.
        processor: Its image processor or feature extractor.
        value: The picture or the samples.
        mask_name: The name that the mask of a sound's frames gets, (F,), if some are padding.
        **options: Further arguments of the processor.

    Returns:
        The main input of the model, such as pixels (C, H, W), and last the mask if some frames are padding.

    Raises:
        InputError: If the processor cannot read it, or makes no input of this model.
        UnsupportedModelError: If the model reads more than this input.
    """
    with named_errors("the model's processor cannot read it"):
        processed = processor(value, return_tensors="pt", **options)
    name = model.module.main_input_name
    if name not in processed:
        raise InputError(f"the processor gives no {name}; pass the model's image processor or feature extractor")
    if "spatial_shapes" in processed:  # NaFlex, pictures of any size as a row of patches, as in SigLIP 2
        raise UnsupportedModelError(f"the model reads patches with their places, and not {name} alone")
    inputs = {name: processed[name][0].to(model.module.dtype)}
    mask = processed.get("attention_mask")
    if mask is not None and not mask.all():  # a sound without others beside it may be padded, too
        inputs[mask_name] = mask[0]
    return inputs


def config_of_signal(model: TaskModel) -> Any:
    """Return the configuration of how a model reads pictures or sounds: that of its vision tower, or all of it.

    Args:
        model: A model of pictures or sounds.
    """
    return getattr(model.config, "vision_config", model.config)


def _positions_shape(model: nn.Module, inputs: Inputs, patches: LayerOutput) -> list[int]:
    """Return how many patches a patch embedding returns along each of its axes of positions.

    Args:
        model: A copy of the model, which is run up to the patch embedding.
        inputs: Its inputs.
        patches: The patch embedding; its axes are the batch, positions, and the hidden state.
    """
    site = Site(patches.path, patches.call)
    name = type(model).__name__
    with torch.inference_mode(), named_errors(f"{name} cannot read it"):
        state = tensor_of(run(model, inputs, record=[site], stop=site).last(site))
    if state is None:
        raise UnsupportedModelError(f"{name} does not read every picture in the same way")
    return [state.shape[axis] for axis in patches.axes[1:-1]]


def _processed(inputs: Any, model: TaskModel) -> tuple[list[dict[str, Tensor]], bool] | None:
    """Return the signals in the output of a processor; None if the inputs are not that.

    Frames that its attention mask hides, such as padding, are cut off.

    Args:
        inputs: The output, with or without the batch axis; or rows of it, as in a data set.
        model: The model.

    Returns:
        The main input of the model for each signal, and whether there is a single one.
    """
    name = model.module.main_input_name
    if _are_rows(inputs, name):
        processed_rows = filter(None, (_processed(row, model) for row in inputs))
        return list(chain.from_iterable(map(itemgetter(0), processed_rows))), False
    columns = named_columns(inputs)
    if columns is None or name not in columns:
        return None
    values = columns[name]
    masks = columns.get("attention_mask")
    single = _is_single(values, name, model)
    if single:
        values, masks = [values], [masks]
    elif masks is None:
        masks = [None] * len(values)
    rows = (_visible_frames(_as_tensor(row), mask) for row, mask in zip(values, masks, strict=False))
    return [{name: row.to(model.module.dtype)} for row in rows], single


def _are_rows(inputs: Any, name: str) -> bool:
    """Return whether inputs are rows of a processor's output, each a mapping with an input of this name."""
    if not isinstance(inputs, list | tuple) or not inputs:
        return False
    return all(isinstance(row, Mapping) and name in row for row in inputs)


def _is_single(values: Any, name: str, model: TaskModel) -> bool:
    """Return whether the values of an input are those of one signal, without a batch axis."""
    waveform_axes = 2 if hasattr(model.config, "num_mel_bins") else 1  # some call a spectrum input_values, too
    axes_of_one = {"pixel_values": 3, "input_features": 2}.get(name, waveform_axes)
    first_row = next(iter(values), np.zeros([1] * axes_of_one))  # an empty batch is a batch
    return bool(np.ndim(first_row) < axes_of_one)


def _visible_frames(row: Tensor, mask: Any) -> Tensor:
    """Return a row of frames without those that its mask hides; all if its mask is not of frames, (F,)."""
    if mask is None:
        return row
    is_visible = _as_tensor(mask).bool()
    return row[is_visible] if len(is_visible) == len(row) and not is_visible.all() else row


def _as_tensor(values: Any) -> Tensor:
    """Return a row of a processor's output as a tensor."""
    return values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))


def _patch_grid(model: TaskModel, inputs: TensorInputs, count: int) -> PatchGrid:
    """Return the grid of the patches of a signal of `count` tokens, by the patch size in the model's config."""
    config: Any = config_of_signal(model)
    patch: Any = getattr(config, "patch_size", None)
    values: Tensor = next(iter(inputs.values()))
    if hasattr(config, "frequency_stride") and values.ndim == 2:  # a spectrogram of (time, mel bins)
        height = (values.shape[1] - patch) // config.frequency_stride + 1
        width = (values.shape[0] - patch) // config.time_stride + 1
    elif patch is not None and values.ndim == 3:
        patch_height, patch_width = (patch, patch) if isinstance(patch, int) else patch
        height, width = values.shape[1] // patch_height, values.shape[2] // patch_width
    else:
        return NO_GRID
    tokens_before = count - height * width
    return PatchGrid(height, width, tokens_before) if tokens_before >= 0 else NO_GRID


def _call_without_tokens(
    original: Forward,
    *,
    input_ids: Any = None,
    attention_mask: Any = None,
    signal_mask: Any = None,
    **inputs: Any,
) -> Any:
    """Call a model of signals with token ids and their mask too, which are ignored.

    Its main input is None where it is not given: the headpiece is called without it, and `forward` may require it.
    """
    del input_ids, attention_mask
    if signal_mask is not None:
        inputs["attention_mask"] = signal_mask
    return original(**{str(original.__self__.main_input_name): None} | inputs)  # type: ignore[attr-defined]
