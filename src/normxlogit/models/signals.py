"""Pictures and sounds: patches and frames in the place of tokens."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..errors import HeadMismatchError, InputError, UnsupportedModelError
from ..inputs.batching import Batch
from ..inputs.encoding import Encoding
from ..surgery.clone import override_forward
from ..surgery.headpiece import Head
from ..surgery.parts import Parts
from ..surgery.pool import private_clone
from .embeddings import WordEmbeddings
from .model_copy import ModelCopy
from .task_model import TaskModel
from .tasks import Task

__all__ = ["Signal", "SignalModel"]

Signal = Mapping[str, Tensor]
"""What a processor makes of one picture or sound: the model's inputs without the batch axis."""

MOST_PLACES = 16
"""Places before the patches that a head may leave out: the class token and the registers."""


class SignalModel(TaskModel):
    """An image or audio classifier, taken apart like any other task model.

    Its processor stands in the tokenizer's place, and every patch or frame is a token without a text. Inputs are
    never padded: those of one shape are read together.
    """

    @property
    def embeddings(self) -> WordEmbeddings:
        """None: patches and frames are not looked up in a table.

        Raises:
            UnsupportedModelError: Always.
        """
        raise UnsupportedModelError(
            f"{type(self.module).__name__} reads no word embeddings, which this method works on; normxlogit, logat and "
            "frozen-gradient explain pictures and sounds"
        )

    def _adapt(self, copy: ModelCopy, task: Task) -> Task:
        override_forward(copy.module, _without_tokens)
        self._lengths: dict[tuple[tuple[int, ...], ...], int] = {}
        return task

    def _settle(self, copy: ModelCopy, parts: Parts) -> Parts:
        """Find in how many places the head looks.

        A head that pools the patches without the class token finds nothing in a sequence of one, so the token stands
        in every place that the head looks at.

        Raises:
            HeadMismatchError: If the head gives no number for a single token.
        """
        width = getattr(getattr(self.config, "vision_config", self.config), "hidden_size", None)
        if width is None or parts.headpiece is None:
            return parts
        head = Head(copy.pool, parts.headpiece)
        probe = torch.ones(1, width, dtype=copy.module.dtype, device=self.device)
        with torch.inference_mode():
            while not head.tokens(probe).isfinite().all():
                head = Head(copy.pool, replace(head.piece, copies=head.piece.copies + 1))
                if head.piece.copies > MOST_PLACES:
                    raise HeadMismatchError(
                        f"the head of {type(copy.module).__name__} gives no number for a single token"
                    )
        return replace(parts, headpiece=head.piece)

    def _padding(self, module: PreTrainedModel) -> tuple[int, bool]:
        return 0, True  # nothing is padded

    @property
    def device(self) -> torch.device:
        """Where the inputs go."""
        return next(self.module.parameters()).device

    def length(self, signal: Signal) -> int:
        """Return T, the number of tokens that the trunk makes of a signal.

        A trunk of convolutions over a waveform says so itself; any other is run once for every shape.

        Raises:
            UnsupportedModelError: If the model does not give its layers' outputs.
        """
        shapes = tuple(tuple(value.shape) for value in signal.values())
        if shapes not in self._lengths:
            waveform = signal.get("input_values")
            count = getattr(self.module, "_get_feat_extract_output_lengths", None)
            if count is not None and waveform is not None and waveform.ndim == 1:
                self._lengths[shapes] = int(count(torch.tensor(len(waveform))))
            else:
                with torch.inference_mode():
                    inputs = {name: value[None].to(self.device) for name, value in signal.items()}
                    states = private_clone(self.module)(**inputs, output_hidden_states=True).get("hidden_states")
                if not states or states[-1].ndim != 3 or states[0].shape[:2] != states[-1].shape[:2]:
                    raise UnsupportedModelError(
                        f"{type(self.module).__name__} keeps no state for each patch or frame from its first layer to "
                        "its last, so none of them can be scored; transformer trunks such as ViT or Wav2Vec2 do"
                    )
                self._lengths[shapes] = states[-1].shape[1]
        return self._lengths[shapes]

    def signal_batch(self, signals: list[Signal], encodings: list[Encoding], indices: list[int]) -> Batch:
        """Return signals of one shape as tensors.

        Raises:
            InputError: If there is none.
        """
        if not signals:
            raise InputError("there is no picture or sound to read")
        self.refresh()
        inputs = {name: torch.stack([s[name] for s in signals]).to(self.device) for name in signals[0]}
        mask = torch.ones(len(signals), len(encodings[0]), dtype=torch.long, device=self.device)  # (B, T)
        tokens = {"input_ids": torch.zeros_like(mask), "attention_mask": mask}
        return Batch(tokens | inputs, mask.bool(), encodings, indices)


def _without_tokens(
    own: Callable[..., Any], *, input_ids: Any = None, attention_mask: Any = None, **inputs: Any
) -> Any:
    """Call a model like a text model, as the head is called: token ids and their mask mean nothing to it."""
    del input_ids, attention_mask
    return own(**{str(own.__self__.main_input_name): None} | inputs)  # type: ignore[attr-defined]
