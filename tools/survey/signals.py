"""The checks on image and audio classifiers: patches and frames in the place of tokens."""

from typing import Any

import torch
from transformers import PreTrainedModel

from normxlogit import ALL, Explainer
from normxlogit.errors import UnsupportedModelError
from tools.survey.base import CheckError, build, near, stir, tokens_read

SAMPLES = 4000


def samples_for(model: PreTrainedModel) -> torch.Tensor:
    """Two random pictures or sounds of the size that a model reads."""
    config = model.config
    generator = torch.Generator().manual_seed(0)
    if model.main_input_name == "pixel_values":
        inner = getattr(config, "vision_config", config)
        size = getattr(inner, "image_size", 64)
        high, wide = (size, size) if isinstance(size, int) else size
        shape: tuple[int, ...] = (2, getattr(inner, "num_channels", 3), high, wide)
    elif hasattr(config, "max_length"):  # a spectrogram
        shape = (2, config.max_length, config.num_mel_bins)
    elif hasattr(config, "feature_projection_input_dim"):
        shape = (2, 60, config.feature_projection_input_dim)
    elif model.main_input_name == "input_features":
        shape = (2, config.num_mel_bins, 2 * config.max_source_positions)
    else:
        shape = (2, SAMPLES)
    return torch.randn(shape, generator=generator)


def unread(*inputs: Any, **options: Any) -> Any:
    """Take the place of a processor that must not be called."""
    raise AssertionError("pictures and sounds are given as the model takes them")


def check_signal(task: str, family: str) -> dict[str, Any]:
    """As `checks.check`, for a classifier of pictures or sounds."""
    model = build(task, family)
    stir(model, 2.0)
    explainer = Explainer(model, unread)  # what a processor would make is given as it is
    taken, values = explainer.task_model, samples_for(model)
    with torch.no_grad():
        encodings, _ = taken.task.encode(taken, {model.main_input_name: values})
        batch = taken.batch(encodings, [0, 1])
        own = model(**{model.main_input_name: values}, output_hidden_states=True)
        run = taken.run(batch)
        head = taken.head
        near(run.logits, own.logits, "logits")
        near(head.texts(run.hidden, batch.inputs), own.logits, "whole-sequence logits")
        reads = tokens_read(head, run.hidden[:1], {k: v[:1] for k, v in batch.inputs.items()}, own.logits[:1])
        result = explainer({model.main_input_name: values}, method="normxlogit")[0]
        each = torch.cat([head.tokens(state[None]) for state in run.hidden[0]])[:, result.target.id]  # (T,)
        near(
            torch.tensor(result.scores), own.hidden_states[0][0].norm(dim=-1) * each, "NormXLogit against a plain loop"
        )
    try:
        layered = torch.tensor(
            explainer({model.main_input_name: values}, method="normxlogit", layers=ALL)[0].scores
        )  # (L, T)
    except UnsupportedModelError:
        layered = torch.zeros(0)
    if len(layered):
        if not layered.isfinite().all():
            raise CheckError("scores of a layer are not finite")
        near(layered[-1], torch.tensor(result.scores), "last layer against the default")
    facts = {"class": type(model).__name__, "trunk": taken.parts.trunk, "reads": reads, "padding": "same"}
    return facts | {"layers": len(layered), "resting": taken.parts.early_exit is not None}
