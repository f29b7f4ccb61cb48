"""Encoder-decoder language models: the decoder, with what the encoder made of the source beside it."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from ..errors import InputError
from ..inputs.batching import Batch, collate
from ..inputs.encoding import Encoding, readable_tokens
from ..surgery.clone import override_forward
from ..surgery.isolated import private_clone, without_autocast
from .model_copy import ModelCopy
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

    _source: tuple[tuple[int, ...], Tensor] | None = None

    def _adapt(self, copy: ModelCopy, task: Task) -> Task:
        override_forward(copy.module, _as_decoder)
        copy.adapted = True
        return Task("seq2seq-lm", "token", ())

    def _as_given(self, inputs: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
        ids = torch.tensor([batch.encodings[0].source], device=self.device)  # (1, S)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": inputs["input_ids"]}

    def begin(self, source: str) -> Encoding:
        """Return the decoder's first token, before anything is written.

        Raises:
            InputError: If the source is empty or longer than the model reads, or the model names no first token.
        """
        self.refresh()
        self._source = None  # the encoder's weights may have changed since
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
        """Return the tokens of a text as the decoder writes it, without a second first token."""
        ids = self.encoder.target_ids(completion)
        start = getattr(self.config, "decoder_start_token_id", None)
        return ids[1:] if ids and ids[0] == start else ids

    def _collated(self, encodings: Sequence[Any], indices: list[int]) -> Batch:
        """Return the decoder's tokens with what the encoder made of their source, one text at a time.

        Raises:
            InputError: If there are several texts.
        """
        if len(encodings) != 1:
            raise InputError("encoder-decoder models are explained one text at a time")
        found = collate(encodings, indices, pad_id=self.pad_id, left=False, device=self.device)
        states = self._encoded(encodings[0].source or ())  # (1, S, H)
        return Batch(found.inputs | {"encoder_states": states}, found.mask, encodings, indices)

    def _encoded(self, source: tuple[int, ...]) -> Tensor:
        """Return the encoder's states, (1, S, H); the last source's are kept while one text after another reads it."""
        kept = self._source
        if kept is None or kept[0] != source:
            ids = torch.tensor([source], device=self.device)  # (1, S)
            with torch.inference_mode():
                encoder: Any = cast(PreTrainedModel, private_clone(self.copy.reference)).get_encoder()
                with without_autocast({"input_ids": ids}):
                    output = encoder(input_ids=ids, attention_mask=torch.ones_like(ids))
            kept = self._source = (source, output[0])
        return kept[1]


def _as_decoder(own: Callable[..., Any], input_ids: Any = None, encoder_states: Any = None, **inputs: Any) -> Any:
    """Call a model as a decoder: its token ids are the decoder's, and the encoder has run already."""
    inputs.pop("attention_mask", None)  # one text, nothing padded
    if encoder_states is None:  # the head on single tokens, which attends to nothing
        given = inputs.get("inputs_embeds", input_ids)
        weight = next(own.__self__.parameters())  # type: ignore[attr-defined]
        encoder_states = torch.zeros(len(given), 1, 1, dtype=weight.dtype, device=weight.device)
    output = BaseModelOutput(last_hidden_state=encoder_states)
    if "inputs_embeds" in inputs:
        inputs["decoder_inputs_embeds"] = inputs.pop("inputs_embeds")
    else:
        inputs["decoder_input_ids"] = input_ids
    return own(encoder_outputs=output, use_cache=False, **inputs)
