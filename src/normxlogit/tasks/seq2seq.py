"""Encoder-decoder language models: the decoder is explained, and the encoder's states are one of its inputs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from ..compat import decoder_of, encoder_of
from ..copies.clone import Forward, override_forward
from ..copies.module_io import TensorInputs
from ..copies.pool import private_clone
from ..copies.precision import without_autocast
from ..errors import InputError, UnsupportedModelError
from ..extending import ModelClasses
from ..inputs.batches import Batch
from ..inputs.chat import ReadPrompt
from ..inputs.decoded_tokens import append_tokens, readable_tokens
from ..inputs.encoding import EMPTY, Encoding
from ..inputs.token_ids import check_ids
from ..inputs.windows import check_fits
from ..results.storage.schema import Indices
from .base import Generates, GenerateSettings, PositionCount, TokenLimits, of_prompt
from .language import AtLastToken, OverVocabulary

if TYPE_CHECKING:
    from ..model.task_model import TaskModel


DECODER_SETTINGS = ("decoder_start_token_id", "forced_bos_token_id")
"""Settings of `generate` that say how a decoder begins: its first token, and the one that is forced after it."""


@dataclass
class EncoderOutput(BaseModelOutput):
    """An encoder's states, with the fields that mixtures of experts and models of speech expect."""

    attention_mask: Any = None
    router_logits: Any = None
    router_probs: Any = None


class Seq2Seq(Generates, OverVocabulary):
    """An encoder-decoder model whose decoder is explained like a causal language model.

    The paper's scores are read by the head, and the head reads the decoder's states alone. So the source counts as a
    circumstance of the forward pass, like the weights; only methods that backpropagate through the encoder score it.
    """

    name = "seq2seq-lm"
    models = ModelClasses(
        mapping="MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
        auto_class="AutoModelForSeq2SeqLM",
        peft_type="SEQ_2_SEQ_LM",
        needs_encoder=True,
    )
    position = AtLastToken(left_to_right=False)

    _cached_source: tuple[Indices, Tensor] | None = None
    """The token ids of the source that was read last, and its encoder states, (1, S, H)."""

    def limits(self, model: Any, positions: PositionCount) -> TokenLimits:
        """Return the limits of the encoder and of the decoder, each of which has position embeddings of its own."""
        # None, for any number, is inf of a decoder, where None would say that there is no decoder.
        return TokenLimits(positions(encoder_of(model)), positions(decoder_of(model)) or math.inf)

    def adapt(self, module: nn.Module) -> bool:
        """Make a copy callable as its decoder alone, which could change its answer."""
        override_forward(module, _call_as_decoder)
        return True

    def caller_inputs(self, inputs: TensorInputs, batch: Batch, device: torch.device) -> TensorInputs:
        """Return the inputs of encoder and decoder."""
        ids = torch.tensor([_source_ids(batch.encodings[0])], device=device)  # (1, S)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": inputs["input_ids"]}

    def check_explains_inputs(self, model: "TaskModel") -> None:
        """Refuse to explain a source by itself."""
        raise UnsupportedModelError(
            f"{model.class_name} reads its source with an encoder whose states never reach the head, so the "
            "head has no logit for a source token; generate and explain_completion explain the generated tokens by the "
            "source too"
        )

    def read_prompt(self, model: "TaskModel", prompt: ReadPrompt) -> Encoding:
        """Return the decoder's first token as an encoding, with the source of the encoder."""
        self._cached_source = None  # the encoder's weights may have changed since
        source = model.encoder([prompt.text], long_text="window")[0]  # whole: it is refused, not cut, if too long
        check_fits("the prompt has", len(source), model.encoder.limit, "shorten it")
        first_token = _decoder_token(model, "decoder_start_token_id", {})
        if first_token is None:
            raise InputError("the model's configuration has no decoder_start_token_id to begin with")
        source = of_prompt(self.tokenizer, source, prompt)
        before = replace(EMPTY, notes=source.notes, source=source)
        return with_first_tokens(self.tokenizer, before, [first_token])

    def read_completion(
        self,
        model: "TaskModel",
        prompt: ReadPrompt,
        before: Encoding,
        completion: str,
        settings: GenerateSettings,
    ) -> tuple[Encoding, int]:
        """Encode the completion as decoder tokens, with the first tokens that `generate` would begin with."""
        start_token, forced_token = (_decoder_token(model, name, settings) for name in DECODER_SETTINGS)
        if start_token is not None:
            before = with_first_tokens(self.tokenizer, before, [start_token])
        ids = self._target_ids(model, completion, start_token)
        if ids == self._target_ids(model, "", start_token):  # only the special tokens around every text
            raise InputError("the completion is empty")
        check_ids(ids, model.encoder.vocabulary, "the completion")
        if forced_token is not None and ids[:1] != [forced_token]:
            # The forced token is mostly that of a language; the tokenizer may be set to another language.
            begins_with_language = ids[0] in self.tokenizer.all_special_ids
            ids = [forced_token, *(ids[1:] if begins_with_language else ids)]
        return append_tokens(self.tokenizer, before, ids), len(before)

    def _target_ids(self, model: "TaskModel", text: str, start: int | None) -> list[int]:
        """Return a text's token ids as the decoder generates them after its first token, `start`.

        Some tokenizers, such as mBART's, write the language behind the token that ends a text, as labels of a training.
        """
        ids = model.encoder.target_ids(text)
        end = self.tokenizer.eos_token_id
        if end in ids[1:]:  # the first token may be the same one, with which BART's decoder starts
            ids = ids[: ids.index(end, 1) + 1]
        return ids[1:] if ids and ids[0] == start else ids

    def add_inputs(self, batch: Batch, model: "TaskModel", *, encode_sources: bool = True) -> Batch:
        """Return a batch with the encoder's states of the sources, or with the sources themselves."""
        sources = [_source_ids(encoding) for encoding in batch.encodings]
        longest = max(map(len, sources))
        mask_rows = [[1] * len(ids) + [0] * (longest - len(ids)) for ids in sources]
        id_rows = [[*ids, *[model.pad_id] * (longest - len(ids))] for ids in sources]
        source_mask = torch.tensor(mask_rows, device=model.device)  # (B, S)
        source = torch.tensor(id_rows, device=model.device)  # (B, S)
        # With a third axis, as tensors of the shape of the tokens' mask, (B, T), count as a value for each token.
        source_inputs = {"source_mask": source_mask[..., None]}
        if encode_sources:
            source_inputs["encoder_states"] = self._encoder_states(model, sources, source, source_mask)  # (B, S, H)
        else:
            source_inputs["source"] = source[..., None]
        return replace(batch, inputs=batch.inputs | source_inputs)

    def _encoder_states(self, model: "TaskModel", sources: Sequence[Indices], ids: Tensor, mask: Tensor) -> Tensor:
        """Return the encoder's states, (B, S, H); those of one source are cached for further calls with it.

        Args:
            model: The model.
            sources: The token ids of B sources.
            ids: The same, padded, (B, S).
            mask: 1 at tokens, 0 at padding, (B, S).
        """
        if self._cached_source is not None:
            cached_ids, cached_states = self._cached_source
            if all(source == cached_ids for source in sources):  # as of one text without several of its tokens in turn
                return cached_states.expand(len(sources), -1, -1)
        states: Tensor = encoder_output(model, ids, attention_mask=mask)[0]
        if len(sources) == 1:  # those of several are padded
            self._cached_source = (sources[0], states)
        return states


def _decoder_token(model: "TaskModel", name: str, settings: GenerateSettings) -> int | None:
    """Return a token with which the decoder begins, as `generate` chooses it; None if nothing sets it.

    Args:
        model: The model, whose configurations come after that of the call.
        name: Which token, one of `DECODER_SETTINGS`.
        settings: The settings of the call.

    Raises:
        InputError: If it is not a token id.
    """
    configs = settings.get("generation_config"), getattr(model.module, "generation_config", None), model.config
    candidates = [settings.get(name), *(getattr(config, name, None) for config in configs)]
    if name == "decoder_start_token_id":
        candidates += [getattr(config, "bos_token_id", None) for config in configs]
    token = next((token for token in candidates if token is not None), None)
    if token is None:
        return None
    if isinstance(token, list | tuple) and len(token) == 1:  # a list has one for each text of `generate`'s batch
        token = token[0]
    if not isinstance(token, int):
        raise InputError(f"{name} must be a token id, not {token!r}")
    check_ids([token], None, name)  # a decoder may have a vocabulary of its own
    return token


def with_first_tokens(tokenizer: Any, encoding: Encoding, first: list[int]) -> Encoding:
    """Return the encoding of a source or a sound whose decoder begins with some tokens, which stand for no text.

    Args:
        tokenizer: The tokenizer.
        encoding: The encoding, whose tokens are replaced.
        first: The ids of the decoder's first tokens.
    """
    count = len(first)
    columns: dict[str, Any] = {
        "offsets": ((0, 0),) * count,
        "sequence_ids": (None,) * count,
        "special": (True,) * count,
    }
    return replace(encoding, inputs={"input_ids": first}, tokens=readable_tokens(tokenizer, first), **columns)


def encoder_output(model: "TaskModel", source: Tensor, **inputs: Tensor) -> Any:
    """Return what the encoder returns for sources; its hidden states, (B, S, H), come first.

    Args:
        model: An encoder-decoder model.
        source: What the encoder reads: token ids, (B, S), or the features of a sound.
        **inputs: Further inputs of the encoder, such as a mask.
    """
    encoder = encoder_of(private_clone(model.unmodified))
    with torch.inference_mode(), without_autocast({"source": source}):
        return encoder(source, **inputs)


def _source_ids(encoding: Encoding) -> Indices:
    """Return the token ids of an encoding's source."""
    return () if encoding.source is None else tuple(encoding.source.ids)


def _call_as_decoder(
    original: Forward,
    input_ids: Any = None,
    encoder_states: Any = None,
    source: Any = None,
    source_mask: Any = None,
    frames_mask: Any = None,
    **inputs: Any,
) -> Any:
    """Call an encoder-decoder model of transformers with the inputs of a decoder.

    The encoder does not run if its states are given: the forward of transformers takes them as `encoder_outputs`.

    Args:
        original: The model's own forward.
        input_ids: The decoder's token ids, (B, T); None with `inputs_embeds`.
        encoder_states: The encoder's states, (B, S, H); None if the encoder runs now, and for the head alone.
        source: What the encoder reads if it runs now: token ids, (B, S, 1), or a sound.
        source_mask: 1 at tokens of the source, 0 at padding, (B, S, 1); of a sound at states of the encoder.
        frames_mask: 1 at frames of a sound, 0 at padding, (B, F, 1); None if there is no padding, or no sound.
        **inputs: All other inputs of a decoder.
    """
    model: Any = original.__self__  # type: ignore[attr-defined]
    encoder_input = str(model.main_input_name)
    reads_tokens = encoder_input == "input_ids"
    # The model's `attention_mask` is that of the encoder. The decoder needs none: padding follows its tokens, and it
    # does not attend to later tokens.
    inputs.pop("attention_mask", None)
    if reads_tokens and source_mask is not None:
        inputs["attention_mask"] = source_mask[..., 0]
    if frames_mask is not None:
        inputs["attention_mask"] = frames_mask[..., 0]
    if source is not None:
        inputs[encoder_input] = source[..., 0] if reads_tokens else source
    else:
        if encoder_states is None:
            encoder_states = _states_of_no_source(model, len(inputs.get("inputs_embeds", input_ids)))
        # `frames_mask` is of sounds alone, and models of speech read the mask of their encoder's states from here.
        states_mask = None if frames_mask is None or source_mask is None else source_mask[..., 0].bool()
        inputs["encoder_outputs"] = EncoderOutput(last_hidden_state=encoder_states, attention_mask=states_mask)
    if "inputs_embeds" in inputs:
        inputs["decoder_inputs_embeds"] = inputs.pop("inputs_embeds")
    else:
        inputs["decoder_input_ids"] = input_ids
    return original(use_cache=False, **inputs)


def _states_of_no_source(model: Any, count: int) -> Tensor:
    """Return states for the call of the head on N single tokens, which attends to no source, (N, 1, H)."""
    # A decoder with an encoder of another width projects its states, which therefore must have that width.
    width = getattr(getattr(model.config, "encoder", None), "hidden_size", 1)
    weight = next(model.parameters())
    return torch.zeros(count, 1, width, dtype=weight.dtype, device=weight.device)
