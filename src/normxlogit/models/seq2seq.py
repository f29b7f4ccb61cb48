"""Encoder-decoder language models: the decoder, with what the encoder made of the source beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

from ..errors import InputError
from ..inputs.batching import Batch, collate
from ..inputs.encoding import Encoding, readable_tokens
from ..surgery.autocast import without_autocast
from ..surgery.clone import override_forward
from ..surgery.pool import private_clone
from .model_copy import ModelCopy
from .task_model import TaskModel
from .tasks import Task

__all__ = ["Seq2SeqModel"]


@dataclass
class _Encoded(BaseModelOutput):
    """An encoder's states, with what mixtures of experts look for beside them."""

    router_logits: Any = None
    router_probs: Any = None


class Seq2SeqModel(TaskModel):
    """An encoder-decoder model whose decoder is read as a causal language model.

    The paper's scores are read by the head, and the head reads the decoder's states alone. So the source counts as a
    circumstance of the forward pass, like the weights; only methods that go back through the encoder score it.
    """

    _known: tuple[tuple[int, ...], Tensor] | None = None

    def _adapt(self, copy: ModelCopy, task: Task) -> Task:
        override_forward(copy.module, _as_decoder)
        copy.adapted = True
        return Task("seq2seq-lm", "token", ())

    def _as_given(self, inputs: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
        ids = torch.tensor([_source(batch.encodings[0])], device=self.device)  # (1, S)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": inputs["input_ids"]}

    def begin(self, source: str) -> Encoding:
        """Return the decoder's first token, before anything is written, with the source beside it.

        Raises:
            InputError: If the source is empty or longer than the model reads, or the model names no first token.
        """
        self.refresh()
        self._known = None  # the encoder's weights may have changed since
        read = self.encoder([source], long_text="window")[0]
        limit = self.encoder.limit
        if limit is not None and len(read) > limit:
            raise InputError(f"the prompt has {len(read)} tokens and the model reads {limit}; shorten it")
        start = getattr(self.config, "decoder_start_token_id", None)
        if start is None:
            start = self.module.generation_config.decoder_start_token_id
        if start is None:
            raise InputError("the model's configuration has no decoder_start_token_id to begin with")
        ids = {"input_ids": [int(start)]}
        tokens = readable_tokens(self.tokenizer, [int(start)])
        return Encoding(ids, tokens, ((0, 0),), None, (None,), (True,), "", None, read.notes, source=read)

    def target_ids(self, completion: str) -> list[int]:
        """Return the tokens of a text as the decoder writes it, without a second first token."""
        ids = self.encoder.target_ids(completion)
        start = getattr(self.config, "decoder_start_token_id", None)
        return ids[1:] if ids and ids[0] == start else ids

    def with_source(self, encoding: Encoding) -> Batch:
        """Return one text for a pass through encoder and decoder, instead of one that begins with the encoder's states.

        Args:
            encoding: The decoder's tokens, with their source.
        """
        self.refresh()
        if self.copy.parts is None:
            self.prepare(self.batch([encoding], [0]))
        found = collate([encoding], [0], pad_id=self.pad_id, left=False, device=self.device)
        ids = torch.tensor([_source(encoding)], device=self.device)  # (1, S)
        more = {"source": ids[..., None], "source_mask": torch.ones_like(ids)[..., None]}
        return Batch(found.inputs | more, found.mask, [encoding], [0])

    def _collated(self, encodings: Sequence[Any], indices: list[int]) -> Batch:
        """Return the decoder's tokens with what the encoder made of their sources, all padded on the right."""
        found = collate(encodings, indices, pad_id=self.pad_id, left=False, device=self.device)
        sources = [_source(encoding) for encoding in encodings]
        longest = max(map(len, sources))
        mask = torch.tensor([[1] * len(s) + [0] * (longest - len(s)) for s in sources], device=self.device)  # (B, S)
        # With a third axis, for what has the shape of the tokens' mask is taken for something of each token.
        more = {"encoder_states": self._encoded(sources, mask), "source_mask": mask[..., None]}
        return Batch(found.inputs | more, found.mask, encodings, indices)

    def _encoded(self, sources: Sequence[tuple[int, ...]], mask: Tensor) -> Tensor:
        """Return the encoder's states, (B, S, H); those of a source are kept while one text after another reads it."""
        known = self._known
        if known is not None and all(source == known[0] for source in sources):
            return known[1].expand(len(sources), -1, -1)
        longest = mask.shape[1]
        ids = torch.tensor([[*s, *[self.pad_id] * (longest - len(s))] for s in sources], device=self.device)  # (B, S)
        with torch.inference_mode():
            encoder: Any = private_clone(self.copy.reference).get_encoder()
            with without_autocast({"input_ids": ids}):
                states: Tensor = encoder(input_ids=ids, attention_mask=mask)[0]  # (B, S, H)
        if len(sources) == 1:
            self._known = (sources[0], states)
        return states


def _source(encoding: Encoding) -> tuple[int, ...]:
    """Return the token ids of an encoding's source."""
    return () if encoding.source is None else tuple(encoding.source.ids)


def _as_decoder(
    own: Callable[..., Any],
    input_ids: Any = None,
    encoder_states: Any = None,
    source: Any = None,
    source_mask: Any = None,
    **inputs: Any,
) -> Any:
    """Call a model as a decoder: its token ids are the decoder's; the encoder has run already, or reads `source`."""
    inputs.pop("attention_mask", None)  # padding stands behind the text, where a decoder does not look
    if source_mask is not None:
        inputs["attention_mask"] = source_mask[..., 0]
    if source is not None:
        inputs["input_ids"] = source[..., 0]
    else:
        if encoder_states is None:  # the head on single tokens, which attends to nothing
            given = inputs.get("inputs_embeds", input_ids)
            model: Any = own.__self__  # type: ignore[attr-defined]
            width = getattr(getattr(model.config, "encoder", None), "hidden_size", 1)  # some are projected first
            weight = next(model.parameters())
            encoder_states = torch.zeros(len(given), 1, width, dtype=weight.dtype, device=weight.device)
        inputs["encoder_outputs"] = _Encoded(last_hidden_state=encoder_states)
    if "inputs_embeds" in inputs:
        inputs["decoder_inputs_embeds"] = inputs.pop("inputs_embeds")
    else:
        inputs["decoder_input_ids"] = input_ids
    return own(use_cache=False, **inputs)
