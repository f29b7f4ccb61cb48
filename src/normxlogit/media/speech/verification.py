"""Verify transcripts: the loss of log-probability without the moments of the highest scores."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ... import Attribution
from ...copies.module_io import as_batch
from ...copies.pool import private_clone
from ...leave_out.outcomes import Answer, Outcomes
from ...leave_out.picking import Verify, picked
from ...leave_out.removable import Removable
from ...leave_out.removal import TextRemoval
from ...leave_out.search import run_searches
from ...model.task_model import TaskModel
from ...pipeline.progress import VERIFYING
from ..inputs.sounds import Sound
from ..tasks.speech import speech_task
from .long_sounds import Window


def with_speech_verification(
    model: TaskModel, windows: Sequence[Window], g: Attribution, verify: Verify
) -> Attribution:
    """Return the transcript of a sound with its log-probability when moments of the sound are silenced.

    Of a sound that is read in windows it is the sum over them; only those that hold a silenced moment are read again.

    Args:
        model: The model of speech.
        windows: The windows of the sound with their transcripts.
        g: The transcript of the whole sound.
        verify: How many moments are silenced; None for none.
    """
    if verify is None:
        return g
    has_seconds = windows[0].sound.rate is not None  # by which moments are silenced
    parts = g.audio[0].removable() if has_seconds else []
    # Without parts to silence, the search adds a note that says so.
    removable_moments = Removable(parts, "moment", "silenced", "the transcript")
    answers = _TranscriptAnswers(model, windows, g.audio[0].first)
    (verified,) = run_searches([g], [picked(g.whole(), removable_moments, verify)], answers)
    return verified


class _TranscriptAnswers:
    """The log-probability of a transcript without some moments of the sound, which is read in windows.

    Args:
        model: The model of speech.
        windows: The windows with their transcripts.
        first_moment: The unit of the whole transcript that is the first moment of the sound.
    """

    def __init__(self, model: TaskModel, windows: Sequence[Window], first_moment: int) -> None:
        self.model = model
        self.windows = windows
        self.times = [window.transcript.audio[0].times.tolist() for window in windows]  # seconds of each one's moments
        # The first moment of each window among the units of the whole transcript, and one past the last.
        self.firsts: list[int] = np.cumsum([first_moment, *map(len, self.times)]).tolist()
        self._table: Outcomes[TextRemoval, float] = Outcomes(self._measured, VERIFYING)

    def __call__(self, removals: list[TextRemoval]) -> list[Answer]:
        """Return the answers without some moments of the whole sound, the sum over the windows."""
        removals_by_window = [self._by_window(removal.tokens) for removal in removals]
        self._table(chain.from_iterable(removals_by_window))  # measures all at once, and keeps them for the sums
        return [
            Answer(prediction=None, value=sum(self._table(of_windows)), outcome=None)
            for of_windows in removals_by_window
        ]

    def _by_window(self, moments: Iterable[int]) -> list[TextRemoval]:
        """Return which of the moments are removed from each window."""
        return [
            TextRemoval(window, tuple(moment for moment in moments if first <= moment < end))
            for window, (first, end) in enumerate(pairwise(self.firsts))
        ]

    def _measured(self, removals: list[TextRemoval]) -> Iterator[tuple[TextRemoval, float]]:
        """Yield each removal from a window with the log-probability of the window's transcript after it."""
        measure = _ctc_log_probability if speech_task(self.model).per_frame else _decoder_log_probability
        for removal in removals:
            index = removal.text
            times = [self.times[index][moment - self.firsts[index]] for moment in removal.tokens]
            window = self.windows[index]
            yield removal, measure(self.model, window, window.sound.without(times))


@torch.inference_mode()
def _decoder_log_probability(model: TaskModel, window: Window, sound: Sound) -> float:
    """Return the log-probability of the transcript of a window, given another sound, by an encoder-decoder model."""
    start = window.transcript.prompt_tokens or 0
    ids = torch.tensor([window.transcript.token_ids[: start + window.kept]], device=model.device)  # (1, T)
    inputs = as_batch(speech_task(model).features(model, sound), model.device)
    logits = private_clone(model.unmodified)(**inputs, decoder_input_ids=ids[:, :-1]).logits  # (1, T - 1, V)
    # The logits at a token are those of the next one, so the last token is not read.
    log_probabilities = logits[0, start - 1 :].float().log_softmax(-1)  # (G, V)
    return float(log_probabilities.gather(1, ids[0, start:, None]).sum())


@torch.inference_mode()
def _ctc_log_probability(model: TaskModel, window: Window, sound: Sound) -> float:
    """Return the log-probability of the transcript of a window, given another sound, by CTC (Graves et al., 2006)."""
    start = window.transcript.prompt_tokens or 0
    emitted = torch.tensor([window.transcript.token_ids[start : start + window.kept]])  # (1, G)
    inputs = as_batch(speech_task(model).features(model, sound), model.device)
    log_probabilities = private_clone(model.unmodified)(**inputs).logits.float().log_softmax(-1).cpu()  # (1, S, V)
    loss: Tensor = functional.ctc_loss(
        log_probabilities.transpose(0, 1),  # (S, 1, V)
        emitted,
        input_lengths=torch.tensor([log_probabilities.shape[1]]),
        target_lengths=torch.tensor([emitted.shape[1]]),
        blank=speech_task(model).blank_id(model),
        reduction="sum",
    )
    return -float(loss)
