"""`Parts`: what was found and proved of a model, and what can be read of it in a pass."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ..copies.module_io import hidden_of, tensor_of
from ..copies.run import Site
from ..copies.trace import BATCH_FIRST, Axes, Paths
from ..errors import HeadMismatchError, UnsupportedModelError
from .headpiece import Headpiece
from .layer_outputs import LayerOutput, LayerOutputs
from .layer_to_head import Tail


@dataclass(frozen=True)
class Parts:
    """The parts of a model, as module paths."""

    headpiece: Headpiece | None = None  # the proved head; None if none reproduces the model's logits
    head_error: str = ""  # why there is none, said to what needs one
    tokenwise: bool = False  # whether the head on one token gives what it gives there in the text (Splinter's does not)
    trunk: str | None = None  # the module whose output the head reads; None without a head
    trunk_gives_states: bool = False  # whether its output holds the layers' outputs: the head need not run
    embedding_site: Site | None = None  # of the embedding layer's output; None if it is in `hidden_states` alone
    embedding_axes: Axes = BATCH_FIRST  # how the module there holds what is (B, T, H)
    states_lack_embeddings: bool = False  # whether `hidden_states` begins with the first layer's output, as Mamba's
    tail: Tail | None = None  # the modules between the layers and the head; None if the last layer's output is final
    early_exit: Paths | None = None  # layers to skip where `hidden_states` cannot be brought to the head
    layers: int | None = None  # number of layers; None when they cannot be read either way
    outputs: LayerOutputs | None = None  # where each layer's output is returned, if all are
    embedding_output: LayerOutput | None = None  # where the embedding layer's output is returned, if it is
    tables: Paths = ()  # tables in which token ids were looked up, the word embeddings among them
    unverified: tuple[str, ...] = ()  # notes on proofs that could not be run, for results

    @property
    def head(self) -> Headpiece:
        """The proved head."""
        if self.headpiece is None:
            raise self.head_mismatch
        return self.headpiece

    @property
    def head_mismatch(self) -> HeadMismatchError:
        """A new error for a model without a proved head; errors are not reused, as they keep their traceback."""
        return HeadMismatchError(self.head_error)

    @property
    def trunk_site(self) -> Site | None:
        """The site of the trunk for `run`: its output at every call."""
        return None if self.trunk is None else Site(self.trunk, call=0)

    @property
    def sites(self) -> list[Site]:
        """The sites of the trunk and of the embedding layer's output, if they are known."""
        return [site for site in (self.trunk_site, self.embedding_site) if site is not None]

    def hidden(self, model: nn.Module, returned: Any) -> Tensor:
        """Return the hidden states in the trunk's output, (B, T, H).

        Args:
            model: The model, for errors.
            returned: What the trunk returned.

        Raises:
            HeadMismatchError: If it returned no hidden states.
        """
        if (hidden := hidden_of(returned)) is None:
            raise HeadMismatchError(f"{self.trunk} of {type(model).__name__} returned no hidden states")
        return self.head.swap_if_time_first(hidden)

    def embedded(self, recorded: Any, length: int) -> Tensor | UnsupportedModelError | None:
        """Return the embedding layer's output from what was recorded, (B, T, H).

        Args:
            recorded: What was recorded at `embedding_site`; None for nothing.
            length: The number of tokens, T.

        Returns:
            The states; None if they are not known; an error, which the caller may raise, for fewer positions than
            tokens.
        """
        tensor = tensor_of(recorded)
        if tensor is None:
            return None
        states = tensor.permute(self.embedding_axes)[:, :length]  # (B, T, H)
        if states.shape[1] == length:
            return states
        return UnsupportedModelError(
            f"the layers read {states.shape[1]} positions for {length} tokens, so a token has no embedding of its own; "
            "models that squeeze the input before their layers cannot be explained token by token"
        )
