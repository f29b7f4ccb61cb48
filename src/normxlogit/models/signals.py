"""Pictures and sounds: patches and frames in the place of tokens."""

import types
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import HeadMismatchError, InputError, UnsupportedModelError
from ..inputs.batching import Batch
from ..inputs.encoding import Encoding
from ..surgery.clone import clone
from .task_model import TaskModel

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

    def __init__(self, model: nn.Module, tokenizer: Any, name: str | None = None, *, batch_tokens: int = 8192) -> None:
        super().__init__(model, tokenizer, name, batch_tokens=batch_tokens)
        _without_tokens(self.module)
        self._looked = False
        self._lengths: dict[tuple[tuple[int, ...], ...], int] = {}

    def prepare(self, batch: Batch) -> None:
        """Take the model apart, and find in how many places its head looks.

        A head that pools the patches without the class token finds nothing in a sequence of one, so the token stands
        in every place that the head looks at.

        Raises:
            HeadMismatchError: If the head cannot be applied by itself.
        """
        super().prepare(batch)
        if self._looked:
            return
        head = self.parts.head
        width = getattr(getattr(self.config, "vision_config", self.config), "hidden_size", None)
        probe = torch.ones(1, width or 1, dtype=self.module.dtype, device=self.device)
        while width and not head.tokens(probe).isfinite().all():
            head.copies += 1
            if head.copies > MOST_PLACES:
                raise HeadMismatchError(f"the head of {type(self.module).__name__} gives no number for a single token")
        self._looked = True

    def _choose_pad_id(self) -> int:
        return 0  # nothing is padded

    @property
    def device(self) -> torch.device:
        """Where the inputs go."""
        return next(self.module.parameters()).device

    def length(self, signal: Signal) -> int:
        """T, the number of tokens that the trunk makes of a signal.

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
                    states = clone(self.module)(**inputs, output_hidden_states=True).get("hidden_states")
                if not states or states[-1].ndim != 3 or states[0].shape[:2] != states[-1].shape[:2]:
                    raise UnsupportedModelError(
                        f"{type(self.module).__name__} keeps no state for each patch or frame from its first layer to "
                        "its last, so none of them can be scored; transformer trunks such as ViT or Wav2Vec2 do"
                    )
                self._lengths[shapes] = states[-1].shape[1]
        return self._lengths[shapes]

    def signal_batch(self, signals: list[Signal], encodings: list[Encoding], indices: list[int]) -> Batch:
        """Signals of one shape as tensors.

        Raises:
            InputError: If there is none.
        """
        if not signals:
            raise InputError("there is no picture or sound to read")
        inputs = {name: torch.stack([s[name] for s in signals]).to(self.device) for name in signals[0]}
        mask = torch.ones(len(signals), len(encodings[0]), dtype=torch.long, device=self.device)  # (B, T)
        tokens = {"input_ids": torch.zeros_like(mask), "attention_mask": mask}
        return Batch(tokens | inputs, mask.bool(), encodings, indices)


def _without_tokens(model: nn.Module) -> None:
    """Let a clone be called like a text model, as the head is: token ids and their mask mean nothing to it."""

    def forward(self: nn.Module, *, input_ids: Any = None, attention_mask: Any = None, **inputs: Any) -> Any:
        del input_ids, attention_mask
        return type(self).forward(self, **{str(self.main_input_name): None} | inputs)

    name = "_old_forward" if "_old_forward" in model.__dict__ else "forward"  # accelerate moves it when it offloads
    model.__dict__[name] = types.MethodType(forward, model)
