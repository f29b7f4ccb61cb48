"""Language models whose prompt may hold pictures and sounds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cached_property, partial
from typing import Any

from torch import Tensor

from ...errors import InputError, UnsupportedModelError
from ...inputs.batches import Batch
from ...inputs.chat import ReadPrompt
from ...inputs.decoded_tokens import readable_tokens
from ...inputs.encoding import Encoding, Spans
from ...model.causality import reads_prompt_as_alone
from ...model.generation import inputs_of_generated
from ...model.task_model import TaskModel
from ...tasks.base import GenerateSettings, Region, of_prompt
from ...tasks.language import CausalLM
from ...text.characters import Span
from ..extension import AUDIO_TEXT, IMAGE_TEXT
from ..inputs.parts import with_other_media
from ..inputs.sounds import sampling_rate_of
from .media_places import MediaPlaces, apply_template

NOT_EXTRA_INPUTS = ("input_ids", "attention_mask", "labels")
"""Outputs of a processor that are not passed on to the model unchanged."""


class MultimodalLM(CausalLM):
    """Language models that read pictures or sounds; the caller passes their processor as the tokenizer.

    A prompt with pictures or sounds is read by itself, not in a batch. The tokens that stand for one have no score of
    their own: a result has the scores of its patches or moments.
    """

    @cached_property
    def _places(self) -> MediaPlaces:
        """What finds pictures and sounds in prompts."""
        return MediaPlaces(self.processor, self.tokenizer)

    @cached_property
    def _reads_prompt_as_alone(self) -> dict[Any, bool]:
        """What `_keeps_states_of_prompt` has measured, by the inputs where a prompt ends."""
        return {}

    def check_generates(self, model: TaskModel) -> None:
        """Refuse encoder-decoder models: only their encoder reads the picture."""
        if getattr(model.config, "is_encoder_decoder", False):
            raise UnsupportedModelError(
                f"{model.class_name} reads pictures with the encoder of an encoder-decoder model; pictures "
                "are explained for models that read them among the words of one sequence"
            )

    def reads_medium(self, kind: str) -> bool:
        """Return whether the processor reads pictures (`kind` "picture") or sounds ("sound"), by what it is made of."""
        if kind == "picture":
            return hasattr(self.processor, "image_processor")
        return sampling_rate_of(self.processor) is not None

    def check_reads(self, model: TaskModel, kind: str) -> None:
        """Refuse pictures or sounds that the processor does not read.

        Args:
            model: The model.
            kind: "picture" or "sound".

        Raises:
            InputError: If it does not.
        """
        if not self.reads_medium(kind):
            raise InputError(
                f"{type(self.processor).__name__} reads no {kind}s: pass the model's processor, "
                "Explainer(model, AutoProcessor.from_pretrained(...))"
            )

    def read_prompt(self, model: TaskModel, prompt: ReadPrompt) -> Encoding:
        """Encode a prompt with its pictures and sounds by the processor.

        Args:
            model: The model.
            prompt: The prompt; one without pictures and sounds is encoded as any text.

        Raises:
            InputError: If the processor does not read such media, or these messages.
            UnsupportedModelError: If it cannot be told which tokens stand for a picture or a sound.
        """
        if not prompt.media:
            return super().read_prompt(model, prompt)
        for medium in prompt.media:
            self.check_reads(model, medium.kind)
        return self._places.located(model, self._processed(prompt), prompt.media)

    def _processed(self, prompt: ReadPrompt) -> Encoding:
        """Return a prompt as the processor encodes it, with what it makes of pictures and sounds."""
        try:
            processed = apply_template(self.processor, prompt.messages, **prompt.template_options)
        except (TypeError, ValueError) as error:
            raise InputError(f"the processor cannot read these messages: {error}") from None
        ids: list[int] = processed["input_ids"][0].tolist()
        # By their shape, the outputs are a value for each token, or what the model makes of pictures and sounds.
        inputs: dict[str, Any] = {"input_ids": ids}
        extra_inputs: dict[str, Tensor] = {}
        for name, value in processed.items():
            if isinstance(value, Tensor) and name not in NOT_EXTRA_INPUTS:
                if value.shape == (1, len(ids)):
                    inputs[name] = value[0].tolist()
                else:
                    extra_inputs[name] = value
        return replace(self._with_text(prompt, inputs), extra_inputs=extra_inputs)

    def without_places(self, encoding: Encoding, prompt: ReadPrompt, places: Sequence[Sequence[Region]]) -> Encoding:
        """Return an encoding of a prompt whose pictures and sounds lack some places.

        Args:
            encoding: The encoded prompt.
            prompt: The prompt.
            places: The places that each picture and sound lacks, pictures first.

        Raises:
            UnsupportedModelError: If the processor makes inputs of another shape of them.
        """
        media = sorted(prompt.media, key=lambda medium: medium.kind)  # pictures, then sounds, as an encoding has them
        pairs = zip(media, places, strict=True)
        media = [medium.without(removed) if removed else medium for medium, removed in pairs]
        processed = apply_template(self.processor, with_other_media(prompt.messages, media), **prompt.template_options)
        inputs = {name: processed[name] for name in encoding.extra_inputs}
        for name, value in encoding.extra_inputs.items():
            if inputs[name].shape != value.shape:
                raise UnsupportedModelError(
                    f"{type(self.processor).__name__} makes {name} of another shape of a picture or a sound without "
                    "some of its parts, so what the model answers without them cannot be compared"
                )
        return replace(encoding, extra_inputs=inputs)

    def read_completion(
        self, model: TaskModel, prompt: ReadPrompt, before: Encoding, completion: str, settings: GenerateSettings
    ) -> tuple[Encoding, int]:
        """Encode a completion and append it to the encoded prompt with pictures or sounds.

        Args:
            model: The model.
            prompt: The prompt as it was read.
            before: Its encoding.
            completion: The text.
            settings: Settings of `generate`.

        Returns:
            The encoding of both, and how many tokens the prompt has.
        """
        if not before.media:
            return super().read_completion(model, prompt, before, completion, settings)
        tokenize = partial(self.tokenizer, add_special_tokens=False)
        prompt_ids = tokenize(prompt.text)["input_ids"]  # with one token for each picture, so not those of `before`
        both_ids = tokenize(prompt.text + completion)["input_ids"]
        ids = both_ids[len(prompt_ids) :]
        if both_ids[: len(prompt_ids)] != prompt_ids:  # a token has the end of the prompt and the completion's start
            ids = tokenize(completion)["input_ids"]
        return self.appended(model, before, ids), len(before)

    def appended(self, model: TaskModel, before: Encoding, ids: list[int]) -> Encoding:
        """Return a prompt with tokens appended, each with the inputs that the model's `generate` gives it.

        PaliGemma's types of tokens are an example: the prompt is read as a whole, generated tokens from left to right.

        Args:
            model: The model.
            before: The encoded prompt.
            ids: The tokens that follow it.

        Raises:
            UnsupportedModelError: If the prompt gets other hidden states once tokens follow it.
        """
        appended = super().appended(model, before, ids)
        if not before.media:
            return appended
        token_inputs = self._inputs_of_generated(model, before, appended)
        as_generated = replace(appended, inputs={**appended.inputs, **token_inputs})
        if self._keeps_states_of_prompt(model, before, as_generated):
            return as_generated
        return self._with_other_type(model, before, as_generated, token_inputs)

    def _inputs_of_generated(self, model: TaskModel, before: Encoding, appended: Encoding) -> dict[str, list[int]]:
        """Return the inputs with a value for each token, by name, as `generate` continues those of the prompt."""
        continued = inputs_of_generated(model, before.inputs, len(appended) - len(before))
        return {name: values for name, values in continued.items() if name in appended.inputs}

    def _keeps_states_of_prompt(self, model: TaskModel, before: Encoding, followed: Encoding) -> bool:
        """Return whether a prompt has the same hidden states alone and with tokens that follow it.

        The inputs that `generate` gives to generated tokens are made for its passes over one token each, with the
        prompt's states in the cache. PaliGemma's may say that a generated token is of the prompt: in a pass over both,
        the prompt would attend to the answer.

        It is measured once for all prompts with the same inputs, except ids, at the two tokens where the prompt ends:
        its last token and the one that follows.

        Args:
            model: The model.
            before: The prompt.
            followed: The prompt and the tokens that follow it.
        """
        where_prompt_ends = slice(len(before) - 1, len(before) + 1)
        inputs_there = tuple(
            (name, *values[where_prompt_ends]) for name, values in followed.inputs.items() if name != "input_ids"
        )
        if inputs_there not in self._reads_prompt_as_alone:
            self._reads_prompt_as_alone[inputs_there] = reads_prompt_as_alone(model, before, followed)
        return self._reads_prompt_as_alone[inputs_there]

    def _with_other_type(
        self, model: TaskModel, before: Encoding, followed: Encoding, token_inputs: Mapping[str, list[int]]
    ) -> Encoding:
        """Return a prompt that has the same states as alone, with tokens of the other type after it.

        A type is a number for each token, 0 or 1, such as `token_type_ids`.

        Args:
            model: The model.
            before: The prompt.
            followed: The prompt and the tokens that follow it, of the type that `generate` gives them.
            token_inputs: The inputs along the tokens of both, by name, such as their types.

        Raises:
            UnsupportedModelError: If the prompt has other states than alone with either type.
        """
        for name, types in token_inputs.items():
            other_types = [*types[: len(before)], *(int(type_ == 0) for type_ in types[len(before) :])]
            encoding = replace(followed, inputs={**followed.inputs, name: other_types})
            if self._keeps_states_of_prompt(model, before, encoding):
                return encoding
        raise UnsupportedModelError(
            f"{model.name} reads a prompt otherwise once an answer follows it, and `generate` does not: what it was "
            f"told of generated tokens ({', '.join(token_inputs) or 'nothing'}) does not say that they come after the "
            "prompt; a newer version may tell it more: pip install -U transformers"
        )

    def add_inputs(self, batch: Batch, model: TaskModel, *, encode_sources: bool = True) -> Batch:
        """Return a batch of one text with its pictures and sounds."""
        encodings = batch.encodings
        if len(encodings) > 1 and any(encoding.media for encoding in encodings):
            raise InputError("a prompt with pictures or sounds is read by itself")
        media_inputs = {
            name: value.to(model.device, model.module.dtype if value.is_floating_point() else value.dtype)
            for name, value in encodings[0].extra_inputs.items()  # in the precision of the processor
        }
        return replace(batch, inputs=batch.inputs | media_inputs) if media_inputs else batch

    def _with_text(self, prompt: ReadPrompt, inputs: dict[str, list[int]]) -> Encoding:
        """Return the encoding of token ids with the text of the prompt, in which one token stands for each medium."""
        ids = inputs["input_ids"]
        tokenizer = self.tokenizer
        tokens = readable_tokens(tokenizer, ids)
        special = tuple(token_id in tokenizer.all_special_ids for token_id in ids)
        offsets = None
        if tokenizer.is_fast:  # others give no characters of tokens
            text_encoding = tokenizer(prompt.text, add_special_tokens=False, return_offsets_mapping=True)
            offsets = _align_offsets(text_encoding["input_ids"], text_encoding["offset_mapping"], ids)
        sequences = tuple(None if is_special else 0 for is_special in special)
        encoding = Encoding(inputs, tokens, offsets, None, sequences, special, prompt.text)
        return of_prompt(tokenizer, encoding, prompt)


class ImageText(MultimodalLM):
    """Vision-language models; some read sounds, too."""

    name = IMAGE_TEXT.name
    models = IMAGE_TEXT.models


class AudioText(MultimodalLM):
    """Language models that read sounds."""

    name = AUDIO_TEXT.name
    models = AUDIO_TEXT.models


def _align_offsets(text_ids: Sequence[int], offsets: Spans, ids: Sequence[int]) -> Spans:
    """Return the offsets of tokens, of which a processor has inserted some.

    Args:
        text_ids: The tokens of the text.
        offsets: Their characters.
        ids: The tokens of the text with those that the processor has inserted; these get empty spans.
    """
    spans: list[Span] = []
    for change, start, end, first_id, last_id in SequenceMatcher(None, text_ids, ids, autojunk=False).get_opcodes():
        if change == "equal":
            spans += [(offsets[index][0], offsets[index][1]) for index in range(start, end)]
        else:
            place = spans[-1][1] if spans else 0
            spans += [(place, place)] * (last_id - first_id)
    return tuple(spans)
