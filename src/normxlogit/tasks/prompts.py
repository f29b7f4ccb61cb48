"""The part of a task that encodes prompts and completions, for models that generate."""

from typing import Any

from ..inputs.append_tokens import append_tokens
from ..inputs.chat import ReadPrompt
from ..inputs.encoding import Encoding
from .model import Model


class ReadsPrompts:
    """How prompts are read."""

    tokenizer: Any

    def read_prompt(self, model: Model, prompt: ReadPrompt, *, special: bool) -> Encoding:
        """Encode a prompt as the side of the model that generates reads it; `special` adds special tokens."""
        raise NotImplementedError

    def read_completion(
        self, model: Model, prompt: ReadPrompt, before: Encoding, completion: str, *, special: bool
    ) -> tuple[Encoding, int]:
        """Encode a prompt, of which `read_prompt` made `before`, with a completion.

        Returns:
            Both, and how many of the tokens are the prompt's.

        Raises:
            InputError: If the completion is empty or cannot be told from the prompt.
        """
        raise NotImplementedError

    def appended(self, model: Model, before: Encoding, ids: list[int]) -> Encoding:
        """Return a prompt and the tokens that follow it."""
        return append_tokens(self.tokenizer, before, ids)
