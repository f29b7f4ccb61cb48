"""Language models: the outputs are the vocabulary, and the prediction at one token is explained."""

from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from ..errors import InputError, TargetError, UnsupportedModelError
from ..inputs.batching import Batch
from ..inputs.chat import ReadPrompt, is_chat, read_prompt
from ..inputs.encoder import LongText, private_tokenizer
from ..inputs.encoding import Encoding, readable_tokens
from .base import MAX_LISTED_LABELS, Task, TaskName
from .interfaces import ModelInterface
from .positions import last_tokens, locate, with_chosen_positions


class LanguageTask(Task):
    """The base of language tasks: targets and predictions are tokens."""

    vocabulary = True
    use = "tokens"
    per_token = True
    outputs = "the tokens of the vocabulary"
    target_kind = "token"

    def positions(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Return the last token, of an encoder-decoder model the decoder's, (B,)."""
        return with_chosen_positions(batch, last_tokens(batch))

    def check_answer(self, logits: Tensor, name: str) -> None:
        """Refuse logits with far fewer entries than the tokenizer has tokens."""
        count, tokens = logits.shape[-1], len(self.tokenizer)
        # Some vocabularies are larger than the head, by tokens that are only read.
        if count < tokens / 2:
            raise UnsupportedModelError(
                f"the head of {name} answers with {count} numbers and the tokenizer knows {tokens} tokens: it is not "
                f"the head of a {self.name} model"
            )

    def output_index(self, name: str) -> int:
        """Return the id of the token for a string, preferring the token that starts a word."""
        tokenizer = self.tokenizer
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise TargetError(f"the target {name!r} holds half a character (a lone surrogate); it was decoded wrongly")
        spellings = [name] if name != name.lstrip() else [" " + name, name]
        pieces: list[int] = []
        for spelling in spellings:
            pieces = private_tokenizer(tokenizer).encode(spelling, add_special_tokens=False)
            if len(pieces) == 1 and pieces[0] != tokenizer.unk_token_id:
                return pieces[0]
        token_id = tokenizer.convert_tokens_to_ids(name)  # a piece by its own name, such as "##ing" or "Ġthe"
        if isinstance(token_id, int) and token_id != tokenizer.unk_token_id:
            return token_id
        token_list = ", ".join(repr(piece) for piece in tokenizer.convert_ids_to_tokens(pieces[:MAX_LISTED_LABELS]))
        token_list += f" and {len(pieces) - MAX_LISTED_LABELS} more" if len(pieces) > MAX_LISTED_LABELS else ""
        raise TargetError(
            f"{name!r} is not one token for this model but {token_list or 'nothing'}; choose a single-token word"
        )

    def output_name(self, index: int) -> str:
        """Return the token of an id in readable form."""
        return readable_tokens(self.tokenizer, [index])[0]


class CausalLM(LanguageTask):
    """Causal language models: the last token's prediction is explained, and they generate."""

    name: ClassVar[TaskName] = "causal-lm"
    mapping = "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"
    ending = "ForCausalLM"
    auto_class = "AutoModelForCausalLM"
    peft_type = "CAUSAL_LM"
    plain = True
    left_to_right = True
    generates = True

    def encode(
        self, model: ModelInterface, inputs: Any, *, long_text: LongText | None = None
    ) -> tuple[list[Encoding], bool]:
        """Encode texts, or chats by the tokenizer's template, whose next token is explained."""
        single = is_chat(inputs)
        chats = [inputs] if single else inputs
        if not isinstance(chats, list | tuple) or not chats or not all(map(is_chat, chats)):
            return super().encode(model, inputs, long_text=long_text)
        prompts = [read_prompt(self.processor, chat) for chat in chats]
        if kinds := [medium.kind for prompt in prompts for medium in prompt.media]:
            raise InputError(
                f"what rests on a {kinds[0]} is explained by generate(messages) or explain_completion"
                if self.multimodal
                else f"{model.name} reads texts alone, and a message holds a {kinds[0]}"
            )
        return [self.read_prompt(model, prompt, special=False) for prompt in prompts], single

    def known_position(self, encoding: Encoding) -> int | None:
        """Return the last token."""
        return len(encoding) - 1 if encoding.position is None else encoding.position

    def read_prompt(self, model: ModelInterface, prompt: ReadPrompt, *, special: bool) -> Encoding:
        """Encode a prompt without the special tokens that would end it."""
        return self._encode_opening(model, prompt, prompt.text, special)

    def read_completion(
        self, model: ModelInterface, prompt: ReadPrompt, before: Encoding, completion: str, *, special: bool
    ) -> tuple[Encoding, int]:
        """Encode prompt and completion as one text; a token with characters of both belongs to the completion."""
        encoding, count = self._encode_opening(model, prompt, prompt.text + completion, special), len(before)
        if encoding.offsets is not None:
            after = (index for index, (_, end) in enumerate(encoding.offsets) if end > len(prompt.text))
            count = next(after, len(encoding))
        elif encoding.ids[:count] != before.ids:
            raise InputError("the tokenizer merges the end of the prompt with the completion; give it as token ids")
        return encoding, count

    def _encode_opening(self, model: ModelInterface, prompt: ReadPrompt, text: str, special: bool) -> Encoding:
        """Encode the beginning of a text, without the special tokens at its end."""
        encoding = self.encoder.opening(text, special=special)
        marked = special_tokens(self.tokenizer, encoding, prompt)
        return replace(encoding, special=marked, notes=(*encoding.notes, *prompt.notes))


class MaskedLM(LanguageTask):
    """Masked language models: the prediction at the mask is explained."""

    name = "masked-lm"
    mapping = "MODEL_FOR_MASKED_LM_MAPPING_NAMES"
    ending = "ForMaskedLM"
    auto_class = "AutoModelForMaskedLM"
    plain = True
    explains_mask = True

    def example_input(self, model: ModelInterface) -> Any:
        """Return a text with a mask."""
        return f"{super().example_input(model)} {self.tokenizer.mask_token}"

    def locate(self, encodings: list[Encoding], position: Any) -> list[Encoding]:
        """Return the encodings with the position of the mask to explain."""
        return locate(encodings, position)

    def every_position(self, encoding: Encoding) -> list[int]:
        """Return the masks."""
        masks = [token for token, token_id in enumerate(encoding.ids) if token_id == self.tokenizer.mask_token_id]
        if not masks:
            raise InputError("position=ALL explains the predictions at the masks, and the text holds none")
        return masks

    def positions(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Return the chosen position, or that of the mask, (B,)."""
        mask_id = self.tokenizer.mask_token_id
        if mask_id is None:
            raise TargetError("the tokenizer has no mask token, so there is no position to explain")
        masked = (batch.inputs["input_ids"] == mask_id) & batch.mask  # (B, T)
        counts = masked.sum(-1).tolist()
        for index, count, encoding in zip(batch.indices, counts, batch.encodings, strict=True):
            if count != 1 and encoding.position is None:
                amount = f"there {count} times; choose one with position=" if count else "there nowhere"
                full_text = (encoding.text or "") + (encoding.text_pair or "")
                if not count and self.tokenizer.mask_token in full_text:
                    amount = f"behind the {len(encoding)} tokens that are read"
                raise TargetError(
                    f"input {index} must hold the mask token {self.tokenizer.mask_token} once; it stands {amount}"
                )
        return with_chosen_positions(batch, masked.int().argmax(-1))  # (B,)

    def known_position(self, encoding: Encoding) -> int | None:
        """Return the chosen position, or the mask if there is one."""
        mask_id = self.tokenizer.mask_token_id
        if encoding.position is None and encoding.ids.count(mask_id) == 1:
            return encoding.ids.index(mask_id)
        return encoding.position


def special_tokens(tokenizer: Any, encoding: Encoding, prompt: ReadPrompt) -> tuple[bool, ...]:
    """Return which tokens of a prompt are special tokens or belong to the chat template."""
    special_ids = set(tokenizer.all_special_ids)
    special = [
        is_special or token_id in special_ids
        for is_special, token_id in zip(encoding.special, encoding.ids, strict=True)
    ]
    if prompt.contents is not None and encoding.offsets is not None:
        for token, (start, end) in enumerate(encoding.offsets):
            inside = any(content.start < end and start < content.end for content in prompt.contents)
            special[token] |= not inside and start < len(prompt.text)
    return tuple(special)
