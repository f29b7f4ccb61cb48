"""What a processor makes of pictures and sounds: made here, or given by the caller."""

from collections.abc import Mapping
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...copies.module_io import TensorInputs
from ...errors import InputError, UnsupportedModelError
from ...inputs.texts import named_columns
from ...model.model_errors import named_errors
from ...model.task_model import TaskModel


def processed_inputs(model: TaskModel, processor: Any, value: Any, mask_name: str, **options: Any) -> TensorInputs:
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
    inputs = {name: processed[name][0].to(model.module.dtype)}  # a batch of one
    mask = processed.get("attention_mask")
    if mask is not None and not mask.all():  # a sound without others beside it may be padded, too
        inputs[mask_name] = mask[0]
    return inputs


def given_outputs(inputs: Any, model: TaskModel) -> tuple[list[TensorInputs], bool] | None:
    """Return the pictures or sounds in a processor's output that the caller passes; None if the inputs are not that.

    Frames that its attention mask hides, such as padding, are cut off.

    Args:
        inputs: The output, with or without the batch axis; or rows of it, as in a data set.
        model: The model.

    Returns:
        The main input of the model for each of them, without the batch axis, and whether there is a single one.
    """
    name = model.module.main_input_name
    if _are_rows(inputs, name):
        # The filter is for the type checker alone: each row has the input, and so is an output.
        outputs_of_rows = filter(None, (given_outputs(row, model) for row in inputs))
        return list(chain.from_iterable(map(itemgetter(0), outputs_of_rows))), False
    columns = named_columns(inputs)
    if columns is None or name not in columns:
        return None
    values = columns[name]
    masks = columns.get("attention_mask")
    single = _is_single(values, name, model)
    if single:
        values = [values]
        masks = [masks]
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
    """Return whether the values of an input are those of one picture or sound, without a batch axis."""
    # Mostly `input_values` is a waveform; some models call a spectrum so, too, and name its bands, "mel bins".
    axes_of_values = 2 if hasattr(model.config, "num_mel_bins") else 1
    axes_of_one = {"pixel_values": 3, "input_features": 2}.get(name, axes_of_values)
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
