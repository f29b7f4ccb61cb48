"""`explainer.transcribe`: what a model of speech writes of a sound, and the moments that each token rests on."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict, overload

import numpy.typing as npt

from ... import Attribution, Attributions, Explainer
from ...errors import UnsupportedModelError
from ...pipeline.keywords import ByMethod, OfVerify
from ...tasks.targets import Choice
from ..tasks.speech import SpeechTask

Sound = str | bytes | Path | npt.NDArray[Any] | Mapping[str, Any] | Sequence[float]
"""A file, samples, or a mapping of samples and their rate."""


class Keywords(TypedDict, total=False):
    """Keywords of `explainer.transcribe`; each is None unless it is passed."""

    target: Annotated[
        Choice | None, "A token or its index, explained at every position; None for each token of the transcript."
    ]
    contrast: Annotated[Choice | None, "A token that is subtracted at every position, of a target or as an index."]
    method: Annotated[ByMethod, "`frozen-gradient`, with its settings."]
    verify: OfVerify


@overload
def transcribe(  # pyright: ignore[reportOverlappingOverload]  # a path is one sound, not its letters
    explainer: Explainer, sound: Sound, *, max_new_tokens: int | None = None, **options: Any
) -> Attribution: ...
@overload
def transcribe(
    explainer: Explainer, sound: Iterable[Sound], *, max_new_tokens: int | None = None, **options: Any
) -> Attributions[Attribution]: ...
def transcribe(
    explainer: Explainer, sound: Any, *, max_new_tokens: int | None = None, **options: Annotated[Any, Keywords]
) -> Attribution | Attributions[Attribution]:
    """Transcribe a sound, and explain every token of the transcript by moments of the sound.

    It is `explainer.generate` of a model of speech, such as Whisper, or Wav2Vec2 with CTC.

    Args:
        sound: A file's path or bytes, samples at the rate that the model reads, or a mapping with "array" and
            "sampling_rate"; or several in a list.
        max_new_tokens: Most tokens to generate, as in `explainer.generate`.
        **options: Others of the model's `generate`, such as `language`.

    Returns:
        One result, or a list in the order of the sounds.

    Raises:
        InputError: If a sound cannot be read, or a setting is not applied.
        TargetError: If the target is not a token.
        MethodError: If the method does not score moments.
        UnsupportedModelError: If the model does not transcribe sounds.
    """
    model = explainer.task_model
    if not isinstance(model.task, SpeechTask):
        raise UnsupportedModelError(
            f"{model.name} is for {model.task.name}, and does not transcribe sounds; models of speech do, such as "
            "Whisper, or Wav2Vec2 with CTC"
        )
    result: Attribution | Attributions[Attribution]
    result = explainer.generate(sound, max_new_tokens=max_new_tokens, **options)
    return result
