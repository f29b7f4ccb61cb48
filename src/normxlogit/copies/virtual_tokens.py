"""Virtual tokens, which PEFT's prompt learning puts before a text, in copies of the model inside.

Prompt tuning and p-tuning put embeddings before those of the text. A copy looks them up like any other token's, by ids
that follow those of its vocabulary. Prefix tuning puts keys and values before those of every layer; these are constants
of a copy, as its biases are.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from ..errors import UnsupportedModelError
from .clone import override_forward, prompt_learner
from .trace import path_of

PREFIX_TYPES = ("PREFIX_TUNING", "CARTRIDGE")
"""PEFT's methods that put keys and values before the text, and not embeddings."""


class VirtualTokens:
    """The virtual tokens of an adapter that is active; none of any other model.

    Args:
        model: A clone of the caller's model, in which the adapter's weights are the caller's.

    Attributes:
        ids: The token ids of those that have embeddings.
        prefix: How many have keys and values alone.
        encoder: The module that makes them.
    """

    def __init__(self, model: nn.Module) -> None:
        self._adapter = prompt_learner(model)
        self.ids: tuple[int, ...] = ()
        self.prefix = 0
        self.encoder: nn.Module | None = None
        if self._adapter is None:
            return
        config = self._adapter.active_peft_config
        self.encoder = self._adapter.prompt_encoder[self._adapter.active_adapter]
        if config.peft_type in PREFIX_TYPES:
            self.prefix = config.num_virtual_tokens
        else:
            first = len(self._adapter.word_embeddings.weight)
            self.ids = tuple(range(first, first + config.num_virtual_tokens))

    def __len__(self) -> int:
        return len(self.ids) + self.prefix

    def stripped(self, ids: list[int]) -> list[int]:
        """Return token ids without those of virtual tokens, as the caller's model takes them."""
        count = len(self.ids)
        return ids[count:] if count and tuple(ids[:count]) == self.ids else ids

    def before(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return a model's inputs, (B, T) each, with the virtual tokens before every text, also before its padding."""
        values = {"input_ids": self.ids, "attention_mask": (1,) * len(self.ids)}
        blank = (0,) * len(self.ids)
        return {
            name: torch.cat((value.new_tensor(values.get(name, blank)).expand(len(value), -1), value), 1)
            for name, value in inputs.items()
        }

    def add_to(self, copy: PreTrainedModel) -> None:
        """Make a clone of the model inside read them as the adapter does."""
        if self.prefix:
            override_forward(copy.get_decoder(), self._with_prefix)
        elif self.ids:
            table = path_of(self._adapter.get_base_model(), self._adapter.word_embeddings)
            override_forward(copy.get_submodule(str(table)), self._look_up)

    def _look_up(self, table: Callable[..., Tensor], ids: Tensor) -> Tensor:
        """Return the embeddings of token ids, (B, T, H), those of virtual tokens as the adapter makes them."""
        indices = ids - self.ids[0]  # (B, T)
        rows = table(ids.masked_fill(indices >= 0, 0))  # (B, T, H)
        virtual = self._adapter.get_prompt(batch_size=1)[0].detach().to(rows)  # (V, H)
        return torch.where((indices >= 0)[..., None], virtual[indices.clamp(min=0)], rows)

    def _with_prefix(self, trunk: Callable[..., Any], *args: Any, **inputs: Any) -> Any:
        """Call a trunk with keys and values before those of the text."""
        parameters = inspect.signature(trunk).parameters
        inputs = dict(zip(parameters, args, strict=False)) | inputs
        states = inputs.get("input_ids")
        states = inputs["inputs_embeds"] if states is None else states  # (B, T) or (B, T, H)
        mask, positions = inputs.get("attention_mask"), inputs.get("position_ids")
        if mask is not None:
            inputs["attention_mask"] = torch.cat((mask.new_ones(len(mask), self.prefix), mask), 1)  # (B, V + T)
        if positions is not None:
            inputs["position_ids"] = positions + self.prefix
        cache_name = "cache" if "cache" in parameters else "past_key_values"  # before transformers 5.24
        return trunk(**inputs | {cache_name: self._keys_and_values(len(states))})

    def _keys_and_values(self, batch_size: int) -> Any:
        """Return the cache with the keys and values of the virtual tokens for a batch of `batch_size` texts.

        A layer's `update` returns them with those of a text, and does not keep these: a layer that runs again finds the
        virtual tokens alone.
        """
        cache = self._adapter.get_prompt(batch_size=1)
        layers = cast(Sequence[Any], cache.layers if isinstance(cache, Cache) else ())
        if not layers or any(getattr(layer, "keys", None) is None for layer in layers):
            raise UnsupportedModelError(
                f"PEFT does not give every layer of {type(self._adapter.get_base_model()).__name__} keys and values in "
                "the cache of transformers; virtual tokens of prompt tuning and p-tuning can be explained"
            )
        for layer in layers:
            keys, values = (states.detach().expand(batch_size, -1, -1, -1) for states in (layer.keys, layer.values))
            layer.update = partial(_put_behind, keys, values)
        return cache


def _put_behind(keys: Tensor, values: Tensor, new_keys: Tensor, new_values: Tensor, *_: Any, **__: Any) -> Any:
    """Return keys and values, (B, h, V, D), with those of a text, (B, h, T, D), behind them: a layer may run again."""
    return torch.cat((keys, new_keys), -2), torch.cat((values, new_values), -2)  # (B, h, V + T, D) each
