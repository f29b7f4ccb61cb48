"""Pictures and sounds to results: every patch or frame is a token."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..inputs.encoding import Encoding
from ..inputs.pictures import as_channels
from ..models.map_batches import map_batches
from ..models.signals import Signal, SignalModel
from ..models.targets import check_target
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..results.signals import AudioAttribution, ImageAttribution
from .explain import explain_batch
from .options import Options
from .progress import progress_bar

__all__ = ["explain_signals"]


def explain_signals(model: SignalModel, inputs: Any, options: Options) -> Attribution | Attributions[Attribution]:
    """Explain pictures or sounds.

    Args:
        model: The classifier.
        inputs: A picture (Pillow, or an array as its processor takes it) or a sound (a one-dimensional array at the
            processor's sampling rate, or a mapping with "array" and "sampling_rate"), a list of these, or the
            processor's output.
        options: What is wanted.

    Returns:
        One result for one input, otherwise a list.

    Raises:
        InputError: If an input cannot be read, or an option is only for texts.
    """
    if options.position is not None or options.long_text is not None:
        raise InputError("position= and long_text= are for texts; pictures and sounds have neither")
    encoded = isinstance(inputs, Mapping) and model.module.main_input_name in inputs
    sound = isinstance(inputs, list | tuple) and bool(inputs) and isinstance(inputs[0], int | float)  # bare samples
    many = encoded or (isinstance(inputs, list | tuple) and not sound)
    items = list(inputs) if many and not encoded else [inputs]
    signals = _unbatched(inputs) if encoded else [_processed(model, item, i) for i, item in enumerate(items)]
    model.refresh()
    options.check_count(len(signals))
    check_target(model, options.target, options.contrast, options.targets)
    seconds = [None] * len(signals) if encoded else [_seconds(model, item) for item in items]
    groups: dict[Any, list[int]] = {}
    for place, signal in enumerate(signals):
        groups.setdefault(tuple(value.shape for value in signal.values()), []).append(place)
    results: list[Attribution | None] = [None] * len(signals)
    with progress_bar(len(signals), options.progress) as advance:
        for places in groups.values():
            encoding = _encoding(model, signals[places[0]])

            def work(group: list[int], places: list[int] = places, encoding: Encoding = encoding) -> list[Attribution]:
                some = [places[i] for i in group]
                batch = model.signal_batch([signals[i] for i in some], [encoding] * len(some), some)
                found = explain_batch(model, options.method.forward(model, batch, options.layers), options)
                advance(len(group))
                return found

            explained = map_batches(model, [encoding] * len(places), work, options.method.memory)
            for place, result in zip(places, explained, strict=True):
                results[place] = _placed(model, result, signals[place], seconds[place])
    found = [r for r in results if r is not None]
    return Attributions(found) if many else found[0]


def _processed(model: SignalModel, item: Any, place: int) -> Signal:
    options: dict[str, Any] = {}
    if model.task.name == "audio-classification":
        rate = _rate(model)
        if isinstance(item, Mapping):
            if {"array", "sampling_rate"} - item.keys():
                raise InputError(f"input {place}: a sound as a mapping has an array and a sampling_rate")
            if rate is not None and item["sampling_rate"] != rate:
                raise InputError(f"input {place} has {item['sampling_rate']} samples a second, the model reads {rate}")
            item = item["array"]
        item = np.asarray(item)
        if item.ndim != 1 or not item.size:
            raise InputError(f"input {place}: a sound is one channel of samples, not of shape {item.shape}")
        options["sampling_rate"] = rate
    elif isinstance(item, str):
        raise InputError(f"input {place} is a string; open the picture first: PIL.Image.open({item!r})")
    else:
        config = getattr(model.config, "vision_config", model.config)
        item = as_channels(item, getattr(config, "num_channels", None), place)
    try:
        found = model.tokenizer(item, return_tensors="pt", **options)
    except (ValueError, TypeError) as error:
        raise InputError(f"input {place} cannot be read: {error}") from None
    wanted = model.module.main_input_name
    if wanted not in found:
        raise InputError(f"the processor gives no {wanted}; pass the model's own image processor or feature extractor")
    return {wanted: found[wanted][0].to(model.module.dtype)}


def _unbatched(inputs: Mapping[str, Any]) -> list[Signal]:
    (values,) = (v for k, v in inputs.items() if k in ("pixel_values", "input_values", "input_features"))
    return [{k: row for k in inputs if inputs[k] is values} for row in torch.as_tensor(values)]


def _rate(model: SignalModel) -> int | None:
    extractor = getattr(model.tokenizer, "feature_extractor", model.tokenizer)
    return getattr(extractor, "sampling_rate", None)


def _seconds(model: SignalModel, item: Any) -> float | None:
    """Return the duration of a sound in seconds, as the model reads it; None for other signals."""
    rate = _rate(model)
    if model.task.name != "audio-classification" or rate is None:
        return None
    chunk = getattr(getattr(model.tokenizer, "feature_extractor", model.tokenizer), "chunk_length", None)
    samples = item["array"] if isinstance(item, Mapping) else item
    return float(chunk) if chunk else len(samples) / rate


def _encoding(model: SignalModel, signal: Signal) -> Encoding:
    """Return the encoding of one signal, with names for its patches or frames."""
    count = model.length(signal)
    rows, columns, first = _grid(model, signal, count)
    named = [f"{i // columns},{i % columns}" if rows else str(i) for i in range(count - first)]
    tokens = (*(f"[{i}]" for i in range(first)), *named)
    special = tuple(i < first for i in range(count))
    sequences = tuple(None if s else 0 for s in special)
    return Encoding({"input_ids": list(range(count))}, tokens, None, None, sequences, special)


def _grid(model: SignalModel, signal: Signal, count: int) -> tuple[int, int, int]:
    """Return the numbers of rows and columns of patches and of other tokens before them; 0 rows without a grid."""
    config = getattr(model.config, "vision_config", model.config)
    patch: Any = getattr(config, "patch_size", None)
    values: Tensor = next(iter(signal.values()))
    if hasattr(config, "frequency_stride") and values.ndim == 2:  # a spectrogram of (time, mel bins)
        height = (values.shape[1] - patch) // config.frequency_stride + 1
        width = (values.shape[0] - patch) // config.time_stride + 1
    elif patch is not None and values.ndim == 3:
        high, wide = (patch, patch) if isinstance(patch, int) else patch
        height, width = values.shape[1] // high, values.shape[2] // wide
    else:
        return 0, 1, 0
    before = count - height * width
    return (height, width, before) if before >= 0 else (0, 1, 0)


def _placed(model: SignalModel, result: Attribution, signal: Signal, seconds: float | None) -> Attribution:
    """Return the result with the place of every patch or frame."""
    values = {f.name: getattr(result, f.name) for f in fields(Attribution)} | {"token_ids": ()}  # no vocabulary
    rows, columns, first = _grid(model, signal, len(result))
    if model.task.name == "image-classification":
        return ImageAttribution(**values, rows=rows, columns=columns if rows else 0, first=first)
    return AudioAttribution(**values, times=_times(model, signal, len(result), seconds))


def _times(model: SignalModel, signal: Signal, count: int, seconds: float | None) -> tuple[tuple[float, float], ...]:
    rate = _rate(model)
    rows, columns, first = _grid(model, signal, count)
    if rows:  # a spectrogram of ten milliseconds a frame, cut into patches
        step, width = 0.01 * model.config.time_stride, 0.01 * model.config.patch_size
        spans = [((i % columns) * step, (i % columns) * step + width) for i in range(count - first)]
        return (*((0.0, 0.0) for _ in range(first)), *spans)
    waveform = signal.get("input_values")
    if seconds is None and waveform is not None and rate is not None:
        seconds = len(waveform) / rate
    if seconds is None:
        return ()
    ratio = getattr(model.config, "inputs_to_logits_ratio", None)
    step = ratio / rate if ratio and rate and waveform is not None else seconds / count
    return tuple((i * step, min(seconds, (i + 1) * step)) for i in range(count))
