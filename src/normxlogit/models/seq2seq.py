"""Encoder-decoder language models: the decoder, with what the encoder made of the source beside it."""

import types
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from ..errors import InputError
from ..inputs.batching import Batch, collate
from ..inputs.encoding import Encoding, readable_tokens
from ..surgery.clone import clone, unwrapped
from .task_model import TaskModel
from .tasks import Task

__all__ = ["Seq2SeqModel"]

NOTE = (
    "the source is read by the encoder, whose states never reach the head: it has no scores, only the decoder's own "
    "tokens have"
)


class Seq2SeqModel(TaskModel):
    """An encoder-decoder model whose decoder is read as a causal language model.

    The paper's scores are read by the head, and the head reads the decoder's states alone. So the source counts as a
    circumstance of the forward pass, like the weights, and the decoder's tokens are what is explained.
    """

    def __init__(self, model: nn.Module, tokenizer: Any, name: str | None = None, *, batch_tokens: int = 8192) -> None:
        super().__init__(model, tokenizer, name, batch_tokens=batch_tokens)
        self.task = Task("seq2seq-lm", "token", ())
        self.writer: PreTrainedModel = clone(unwrapped(model))  # type: ignore[assignment]
        self._source: tuple[tuple[int, ...], Tensor] | None = None
        _as_decoder(self.module)

    def begin(self, source: str) -> Encoding:
        """The decoder's first token, before anything is written.

        Raises:
            InputError: If the source is empty or longer than the model reads, or the model names no first token.
        """
        read = self.encoder([source], long_text="error")[0]
        start = getattr(self.config, "decoder_start_token_id", None)
        if start is None:
            start = self.module.generation_config.decoder_start_token_id
        if start is None:
            raise InputError("the model's configuration has no decoder_start_token_id to begin with")
        ids = {"input_ids": [int(start)]}
        tokens = readable_tokens(self.tokenizer, [int(start)])
        return Encoding(
            ids, tokens, ((0, 0),), None, (None,), (True,), "", None, (*read.notes, NOTE), source=tuple(read.ids)
        )

    def target_ids(self, completion: str) -> list[int]:
        """The tokens of a text as the decoder writes it, without a second first token."""
        ids = self.encoder.target_ids(completion)
        start = getattr(self.config, "decoder_start_token_id", None)
        return ids[1:] if ids and ids[0] == start else ids

    def write(self, beginning: Encoding, config: GenerationConfig, options: dict[str, Any]) -> list[int]:
        """What the model writes after its first token."""
        ids = torch.tensor([beginning.source], device=self.device)  # (1, S)
        written: Any = self.writer.generate(  # type: ignore[operator]
            input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config, **options
        )
        found: list[int] = getattr(written, "sequences", written)[0, 1:].tolist()
        return found

    def batch(self, encodings: Sequence[Any], indices: list[int]) -> Batch:
        """The decoder's tokens with what the encoder made of their source, one text at a time.

        Raises:
            InputError: If there are several texts.
        """
        if len(encodings) != 1:
            raise InputError("encoder-decoder models are explained one text at a time")
        found = collate(encodings, indices, pad_id=self.pad_id, left=False, device=self.device)
        states = self._encoded(encodings[0].source or ())  # (1, S, H)
        return Batch(found.inputs | {"encoder_states": states}, found.mask, encodings, indices)

    def _encoded(self, source: tuple[int, ...]) -> Tensor:
        """The encoder's states, (1, S, H); the last source's are kept, for it is read for one text after another."""
        kept = self._source
        if kept is None or kept[0] != source:
            ids = torch.tensor([source], device=self.device)  # (1, S)
            with torch.inference_mode():
                output = self.writer.get_encoder()(input_ids=ids, attention_mask=torch.ones_like(ids))
            kept = self._source = (source, output[0])
        return kept[1]


def _as_decoder(model: nn.Module) -> None:
    """Let a clone be called as a decoder: its token ids are the decoder's, and the encoder has run already."""

    def forward(self: nn.Module, input_ids: Any = None, encoder_states: Any = None, **inputs: Any) -> Any:
        inputs.pop("attention_mask", None)  # one text, nothing padded
        if encoder_states is None:  # the head on single tokens, which attends to nothing
            given = inputs.get("inputs_embeds", input_ids)
            weight = next(self.parameters())
            encoder_states = torch.zeros(len(given), 1, 1, dtype=weight.dtype, device=weight.device)
        output = BaseModelOutput(last_hidden_state=encoder_states)
        if "inputs_embeds" in inputs:
            inputs["decoder_inputs_embeds"] = inputs.pop("inputs_embeds")
        else:
            inputs["decoder_input_ids"] = input_ids
        return type(self).forward(self, encoder_outputs=output, use_cache=False, **inputs)

    name = "_old_forward" if "_old_forward" in model.__dict__ else "forward"  # accelerate moves it when it offloads
    model.__dict__[name] = types.MethodType(forward, model)
