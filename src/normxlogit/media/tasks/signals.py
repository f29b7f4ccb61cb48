"""Classification of pictures and sounds, with patches and frames as tokens."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ...copies.clone import Forward, override_forward
from ...copies.module_io import Inputs, TensorInputs, as_batch, tensor_of
from ...copies.pool import Pool, private_clone
from ...copies.run import Site, run
from ...errors import HeadMismatchError, InputError, UnsupportedModelError
from ...inputs.encoding import Encoding
from ...inputs.texts import collected
from ...model.model_errors import named_errors
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
from .encoded_signals import NO_GRID, PatchGrid, Signal, Times, signal_of
from .processor_outputs import given_outputs, processed_inputs

MASK_INPUT = "signal_mask"
"""The name of a feature extractor's mask in a batch; `_call_without_tokens` passes it on as `attention_mask`."""

MAX_REPEATS = 16
"""Most tokens before the patches that a head may leave out: the class token and the registers."""


class Prepared(NamedTuple):
    """A picture or a sound, ready for the processor."""

    value: Any  # what the processor is given
    fields: Fields  # of the medium in results, such as its name
    options: Fields  # of the processor's call
    read_seconds: float | None = None  # of a sound what the model reads, with padding; None if not known, or a picture
    notes: Strings = ()


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
        # What depends on the shapes of the inputs alone: an encoding without its signal, and the grid of its tokens.
        self._templates: dict[tuple[Indices, ...], tuple[Encoding, PatchGrid]] = {}
        self._patch_embedding: LayerOutput | None = None  # of a model without a hidden state for each patch

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
        """Make a copy callable with token ids, which it ignores; that cannot change its answer."""
        override_forward(module, _call_without_tokens)
        return False

    def finalise_parts(self, parts: Parts, pool: Pool[PreTrainedModel], model: TaskModel) -> Parts:
        """Return the parts with a headpiece that accepts single tokens.

        The headpiece is called on one token as a sequence of length one. A head that pools the patches without the
        class token would then pool nothing, so the token is repeated until the head returns a finite value. A model
        without a hidden state for each patch has no headpiece: only its patch embedding is returned.
        """
        if self._patch_embedding is not None:
            error = (
                f"{model.class_name} keeps no state for each patch or frame from its first layer to its "
                "last, which its head could read"
            )
            return Parts(head_error=error, embedding_output=self._patch_embedding, unverified=parts.unverified)
        width = getattr(config_of_signal(model), "hidden_size", None)  # H
        if width is None or parts.headpiece is None:  # nothing to probe a headpiece with, or none
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
        if (outputs := given_outputs(inputs, model)) is not None:
            inputs_of_each, single = outputs
            # How long a sound of them lasts is not known: the samples tell it where there is a rate.
            encodings = [
                self._encoding_of(model, signal_inputs, None, {"name": f"{self.result_kind} {number}"})
                for number, signal_inputs in enumerate(inputs_of_each, 1)
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
            signal: The picture or sound as the model reads it.
            fields: The fields of the result that are known before, such as its name.
        """
        raise NotImplementedError

    def _encode_item(self, model: TaskModel, item: Any, place: int) -> Encoding:
        """Return the encoding of a picture or a sound."""
        prepared = self._prepare_item(model, item, place)
        inputs = processed_inputs(model, self.processor, prepared.value, MASK_INPUT, **prepared.options)
        return replace(self._encoding_of(model, inputs, prepared.read_seconds, prepared.fields), notes=prepared.notes)

    def _times(
        self, model: TaskModel, inputs: TensorInputs, grid: PatchGrid, count: int, read_seconds: float | None
    ) -> Times:
        """Return where each token of a sound begins and ends, in seconds; () if that is not known, or of a picture.

        Args:
            model: The model.
            inputs: What it reads, without the batch axis.
            grid: Rows and columns of patches, and the tokens before them.
            count: The number of tokens, T.
            read_seconds: How long what it reads lasts: a sound may be padded, or cut; None if that is not known.
        """
        return ()

    def _encoding_of(
        self, model: TaskModel, inputs: TensorInputs, read_seconds: float | None, fields: Fields
    ) -> Encoding:
        """Return the encoding of one picture or sound, with names for its patches or frames.

        Names and special tokens depend on the shapes of the inputs alone, and are kept for the next ones.

        Args:
            model: The model.
            inputs: What it reads, without the batch axis.
            read_seconds: As of `_times`.
            fields: The fields of the result that are known before, such as its name.
        """
        shapes = tuple(tuple(value.shape) for value in inputs.values())
        if shapes not in self._templates:
            count, grid = self._count_and_grid(model, inputs)
            self._templates[shapes] = _template(count, grid), grid
        template, grid = self._templates[shapes]
        times = self._times(model, inputs, grid, len(template), read_seconds)
        signal = Signal(shapes, inputs, grid=grid, times=times)
        return replace(template, signal=replace(signal, scored=self._scored(model, signal, fields)))

    def _count_and_grid(self, model: TaskModel, inputs: TensorInputs) -> tuple[int, PatchGrid]:
        """Return T, the number of tokens of a picture or sound in the model, and their grid.

        The tokens are the hidden states of the trunk. If it has no hidden state for each patch, as where a layer merges
        neighbours, they are the patch embeddings.
        """
        count = _frames_of_waveform(model.module, inputs)
        if count is not None:  # by a formula, which takes no pass
            return count, _patch_grid(model, inputs, count)
        batch = as_batch(inputs, model.device)
        module = private_clone(model.module)
        if self._patch_embedding is None:  # one that an earlier input has led to holds for all of them
            count = _count_of_states(module, batch)
            if count is not None:
                return count, _patch_grid(model, inputs, count)
            self._patch_embedding = embedding_of_signal(module, batch, model.module.main_input_name)
        shape = _positions_shape(module, batch, self._patch_embedding)  # (T,) or (h, w)
        if len(shape) == 1:
            return shape[0], _patch_grid(model, inputs, shape[0])
        return math.prod(shape), PatchGrid(rows=shape[0], columns=math.prod(shape[1:]))


def _template(count: int, grid: PatchGrid) -> Encoding:
    """Return the encoding of any picture or sound of `count` tokens, without its signal.

    Patches are named by row and column, others by number; tokens before them are special.
    """
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


def config_of_signal(model: TaskModel) -> Any:
    """Return the configuration of how a model reads pictures or sounds: that of its vision tower, or all of it.

    Args:
        model: A model of pictures or sounds.
    """
    return getattr(model.config, "vision_config", model.config)


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


def _frames_of_waveform(module: Any, inputs: TensorInputs) -> int | None:
    """Return the number of hidden states for a waveform, by the method that models of transformers have for it.

    It is None for other models, and for inputs that are no waveform.
    """
    waveform = inputs.get("input_values")
    count_states = getattr(module, "_get_feat_extract_output_lengths", None)
    if count_states is None or waveform is None or waveform.ndim != 1:
        return None
    return int(count_states(torch.tensor(len(waveform))))


def _count_of_states(module: nn.Module, batch: Inputs) -> int | None:
    """Return the number of hidden states of a trunk, T, from a pass; None if its layers change the number.

    Args:
        module: A copy of the model.
        batch: The inputs of one picture or sound.
    """
    with torch.inference_mode(), named_errors(f"{type(module).__name__} cannot read it"):
        states = module(**batch, output_hidden_states=True).get("hidden_states")
    if not states or states[-1].ndim != 3 or states[0].shape[:2] != states[-1].shape[:2]:  # (1, T, H)
        return None
    return int(states[-1].shape[1])


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


def _patch_grid(model: TaskModel, inputs: TensorInputs, count: int) -> PatchGrid:
    """Return the grid of the patches of a picture or sound of `count` tokens, by the sizes in the model's config."""
    config: Any = config_of_signal(model)
    patch: Any = getattr(config, "patch_size", None)  # one number, or height and width
    values: Tensor = next(iter(inputs.values()))
    if hasattr(config, "frequency_stride") and values.ndim == 2:  # a spectrogram of (time, mel bins)
        rows = (values.shape[1] - patch) // config.frequency_stride + 1
        columns = (values.shape[0] - patch) // config.time_stride + 1
    elif patch is not None and values.ndim == 3:  # a picture of (C, H, W)
        patch_height, patch_width = (patch, patch) if isinstance(patch, int) else patch
        rows = values.shape[1] // patch_height
        columns = values.shape[2] // patch_width
    else:
        return NO_GRID
    tokens_before = count - rows * columns
    # With fewer tokens than patches, the tokens are no patches of these sizes.
    return PatchGrid(rows, columns, tokens_before) if tokens_before >= 0 else NO_GRID
