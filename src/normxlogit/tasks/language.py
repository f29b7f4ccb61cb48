"""Language models: the outputs are the vocabulary, and the prediction at one token is explained."""

from collections.abc import Sequence
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import InputError, TargetError, UnsupportedModelError
from ..extending import ModelClasses
from ..inputs.batches import Batch
from ..inputs.chat import ReadPrompt
from ..inputs.decoded_tokens import readable_tokens
from ..inputs.encoder import LongText, private_tokenizer
from ..inputs.encoding import Encoding
from ..results.targets import Target
from ..text.same import unicode_forms
from .base import Generates, GenerateSettings, Task, of_prompt
from .task_outputs import MAX_LISTED_LABELS, AnswerPosition, AtToken, Outputs, with_chosen_positions

if TYPE_CHECKING:
    from ..model.task_model import TaskModel


class Vocabulary(Outputs):
    """The tokens of a vocabulary as outputs.

    Args:
        tokenizer: The tokenizer, which names them.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(kind="token")
        self.tokenizer = tokenizer

    def check(self, logits: Tensor, name: str, task: str) -> None:
        """Refuse logits with far fewer entries than the tokenizer has tokens."""
        count = logits.shape[-1]
        tokens = len(self.tokenizer)
        # Some vocabularies are larger than the head, by tokens that are only read.
        if count < tokens / 2:
            raise UnsupportedModelError(
                f"the head of {name} answers with {count} numbers and the tokenizer knows {tokens} tokens: it is not "
                f"the head of a {task} model"
            )

    def index_of(self, name: str) -> int:
        """Return the id of the token for a string, preferring the token that starts a word."""
        ids = self.ids_of(name)
        if len(ids) == 1 and ids[0] != self.tokenizer.unk_token_id:
            return ids[0]
        pieces = ", ".join(map(repr, self.tokenizer.convert_ids_to_tokens(ids[:MAX_LISTED_LABELS]))) or "nothing"
        raise TargetError(f"{name!r} is not one token for this model but {pieces}; choose a single-token word")

    def ids_of(self, name: str) -> list[int]:
        """Return the ids of a string's tokens where it follows another text.

        It is one token if there is one, preferably a token with which a word begins.

        Args:
            name: The string; if it begins with a space only this spelling is looked for.

        Raises:
            TargetError: If it is not a valid text.
        """
        tokenizer = self.tokenizer
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise TargetError(f"the target {name!r} holds half a character (a lone surrogate); it was decoded wrongly")
        spellings = [name] if name != name.lstrip() else [" " + name, name]
        # A copy: a call would set padding and truncation of the caller's own tokenizer.
        tokenized = partial(private_tokenizer(tokenizer).encode, add_special_tokens=False)
        for spelling in chain.from_iterable(map(unicode_forms, spellings)):
            pieces = tokenized(spelling)
            if len(pieces) == 1 and pieces[0] != tokenizer.unk_token_id:
                return list(pieces)
        token_id = tokenizer.convert_tokens_to_ids(name)  # a piece by its own name, such as "##ing" or "Ġthe"
        if isinstance(token_id, int) and token_id != tokenizer.unk_token_id:
            return [token_id]
        # Some tokenizers put a space before every text: the string is read behind another one, which is cut off.
        before: list[int] = tokenized("a")
        both: list[int] = tokenized("a" + spellings[0])
        is_merged = both[: len(before)] != before  # "a" and the string share a token, so it cannot be cut off
        return tokenized(spellings[0]) if is_merged else both[len(before) :]

    def name_of(self, index: int) -> str:
        """Return the token of an id in readable form."""
        return readable_tokens(self.tokenizer, [index])[0]


class AtLastToken(AtToken):
    """The next token is explained, which is predicted at the last one; of an encoder-decoder model the decoder's."""

    def __init__(self, *, left_to_right: bool) -> None:
        self.left_to_right = left_to_right

    def of_batch(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Return the last token, (B,)."""
        positions = torch.arange(batch.mask.shape[1], device=batch.mask.device)  # (T,)
        last_positions = (batch.mask * positions).argmax(-1)  # (B,), padding counts as position 0
        return with_chosen_positions(batch, last_positions)

    def removable(self, encoding: Encoding, positions: Sequence[int], *, masked: bool) -> list[int]:
        """Return the tokens up to the explained one, itself too; of a decoder beside an encoder the others."""
        if not self.left_to_right:  # of a decoder beside an encoder, see `stays`
            return super().removable(encoding, positions, masked=masked)
        return [index for index, special in enumerate(encoding.special) if not special and index <= positions[0]]

    def of_window(self, window: Encoding, tokens: Sequence[int], target: Target) -> Encoding:
        """Return the window as it is if it is continued at its end."""
        return window if self.left_to_right else super().of_window(window, tokens, target)

    def known(self, encoding: Encoding) -> int | None:
        """Return the last token."""
        return len(encoding) - 1 if encoding.position is None else encoding.position


class OverVocabulary(Task):
    """Tasks whose outputs are the tokens of a vocabulary."""

    @cached_property
    def outputs(self) -> Outputs:  # type: ignore[override]
        """The vocabulary of the tokenizer."""
        return Vocabulary(self.tokenizer)


class CausalLM(Generates, OverVocabulary):
    """Causal language models: the last token's prediction is explained, and they generate."""

    name = "causal-lm"
    models = ModelClasses(
        mapping="MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
        auto_class="AutoModelForCausalLM",
        peft_type="CAUSAL_LM",
        plain=True,
    )
    position = AtLastToken(left_to_right=True)

    def _encode_chat(self, model: "TaskModel", prompt: ReadPrompt, long_text: LongText | None) -> Encoding:
        """Encode chat messages whose next token is explained; they are not cut, so `long_text` has no effect."""
        if prompt.media:
            kind = prompt.media[0].kind
            self.check_reads(model, kind)  # a model that reads none says so; for others there are other calls
            raise InputError(f"what rests on a {kind} is explained by generate(messages) or explain_completion")
        return self.read_prompt(model, prompt)

    def read_prompt(self, model: "TaskModel", prompt: ReadPrompt) -> Encoding:
        """Encode a prompt without the special tokens that would end it."""
        return self._encode_opening(model, prompt, prompt.text)

    def read_completion(
        self,
        model: "TaskModel",
        prompt: ReadPrompt,
        before: Encoding,
        completion: str,
        settings: GenerateSettings,
    ) -> tuple[Encoding, int]:
        """Encode prompt and completion as one text; a token with characters of both belongs to the completion."""
        encoding = self._encode_opening(model, prompt, prompt.text + completion)
        prompt_tokens = len(before)
        if encoding.offsets is not None:
            of_completion = (token for token, (_, end) in enumerate(encoding.offsets) if end > len(prompt.text))
            prompt_tokens = next(of_completion, len(encoding))
        elif encoding.ids[:prompt_tokens] != before.ids:  # without characters, its tokens alone tell where it ends
            raise InputError("the tokenizer merges the end of the prompt with the completion; give it as token ids")
        return encoding, prompt_tokens

    def _encode_opening(self, model: "TaskModel", prompt: ReadPrompt, text: str) -> Encoding:
        """Encode a prompt, or a prompt with its completion; a chat template has added the special tokens already."""
        encoding = model.encoder.opening(text, special=prompt.contents is None)
        return of_prompt(self.tokenizer, encoding, prompt)


class MaskedLM(OverVocabulary):
    """Masked language models: the prediction at the mask is explained."""

    name = "masked-lm"
    models = ModelClasses(mapping="MODEL_FOR_MASKED_LM_MAPPING_NAMES", auto_class="AutoModelForMaskedLM", plain=True)

    @cached_property
    def position(self) -> AnswerPosition:  # type: ignore[override]
        """The mask."""
        return AtMask(self.tokenizer)

    def example_input(self, model: "TaskModel") -> Any:
        """Return a text with a mask."""
        return f"{super().example_input(model)} {self.tokenizer.mask_token}"


class AtMask(AtToken):
    """The prediction at a mask is explained: the only one, or the one that the caller chooses."""

    can_choose = True

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def stays(self, *, masked: bool) -> bool:
        """Return True: the mask is the question itself."""
        return True

    def every(self, encoding: Encoding) -> list[int]:
        """Return the masks."""
        masks = [token for token, token_id in enumerate(encoding.ids) if token_id == self.tokenizer.mask_token_id]
        if not masks:
            raise InputError("position=ALL explains the predictions at the masks, and the text holds none")
        return masks

    def of_batch(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Return the chosen position, or that of the mask, (B,)."""
        mask_id = self.tokenizer.mask_token_id
        if mask_id is None:
            raise TargetError("the tokenizer has no mask token, so there is no position to explain")
        is_mask = (batch.inputs["input_ids"] == mask_id) & batch.mask  # (B, T)
        counts = is_mask.sum(-1).tolist()  # B
        for index, count, encoding in zip(batch.indices, counts, batch.encodings, strict=True):
            if count != 1 and encoding.position is None:  # a caller's position need not be that of a mask
                raise self._error_for_count(index, count, encoding)
        return with_chosen_positions(batch, is_mask.int().argmax(-1))  # (B,)

    def _error_for_count(self, index: int, count: int, encoding: Encoding) -> TargetError:
        """Return the error for the input with an index that holds no mask, or several."""
        mask = self.tokenizer.mask_token
        if count:
            where = f"{count} times; choose one with position="
        elif mask in f"{encoding.text} {encoding.text_pair}":  # the text was truncated before it
            where = (
                f"behind the {len(encoding)} tokens that are read: shorten the text, or read it whole with "
                "long_text='window'"
            )
        else:
            where = "nowhere in what is read"
        return TargetError(f"input {index} must hold the mask token {mask} once; it stands there {where}")

    def known(self, encoding: Encoding) -> int | None:
        """Return the chosen position, or the mask if there is one."""
        mask_id = self.tokenizer.mask_token_id
        if encoding.position is None and encoding.ids.count(mask_id) == 1:
            return encoding.ids.index(mask_id)
        return encoding.position
