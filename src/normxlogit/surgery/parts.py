"""Finding the parts of a model by watching one small forward pass, and proving what was found."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..errors import HeadMismatchError, UnsupportedModelError
from .clone import clone
from .early_exit import EarlyExit, handing_layers
from .headpiece import Headpiece, answer_of
from .layer_outputs import LayerOutput, embedding_output, layer_outputs
from .layer_to_head import LayerToHead, before_layers, find_layer_to_head
from .memory import refuse_to_hide
from .non_finite import is_number, no_number
from .pool import private_clone
from .run import main_input
from .same_answer import EXCLUDED, apart, check_repeatable, prove_on_another, tolerance_for
from .token_pooling import TokenPooling
from .trace import Axes, Call, axes_of, embedded_of, hidden_of, states_of, tensor_of, trace

__all__ = ["EmbeddingTap", "Parts", "find_parts"]


@dataclass(frozen=True)
class EmbeddingTap:
    """A module that is given, or returns, the embedding layer's output.

    Attributes:
        path: Where the module is.
        given: Whether the module is given it; otherwise it returns it.
        axes: How the module holds what is (B, T, H).
    """

    path: str
    given: bool
    axes: Axes

    def listen(self, model: PreTrainedModel, seen: Callable[[Any], None]) -> None:
        """Let `seen` have what the module is given or returns, at every call."""
        module = model.get_submodule(self.path)
        if self.given:
            module.register_forward_pre_hook(lambda _, args, kwargs: seen(main_input(args, kwargs)), with_kwargs=True)
        else:
            module.register_forward_hook(lambda _, __, output: seen(output))

    def read(self, held: Tensor, length: int) -> Tensor:
        """Return the embedding layer's output, (B, T, H), T being `length`.

        Raises:
            UnsupportedModelError: If the layers read fewer positions than there are tokens.
        """
        embedded = held.permute(self.axes)[:, :length]  # (B, T, H)
        if embedded.shape[1] != length:
            raise UnsupportedModelError(
                f"the layers read {embedded.shape[1]} positions for {length} tokens, so a token has no embedding of "
                "its own; models that squeeze the input before their layers cannot be explained token by token"
            )
        return embedded


@dataclass(frozen=True)
class Parts:
    """Where the parts of a model are, as module paths.

    Attributes:
        proved_head: The head; where none reproduces the model's logits, the error that says so to what needs one.
        tokenwise: Whether the head on one token gives what it gives at that token in the text; heads that compare
            tokens with each other, such as Splinter's with the question's, answer only in the text.
        trunk: The module whose output the head reads; None without a head.
        trunk_gives_states: Whether the trunk's own output holds the layers' outputs, so that the head need not run.
        embedding_tap: Where the embedding layer's output passes by; None if it must be taken from `hidden_states`.
        states_late: Whether `hidden_states` begins with the first layer's output, as Mamba's does, and ends with the
            last layer's before and after the final norm.
        tail: What stands between the last layer and the head; None if the last layer's output is final.
        early_exit: How to read single layers where `hidden_states` cannot be brought to the head; None where they can.
        layers: Number of layers; None when they cannot be read either way.
        token_pooling: Which state stands for which token, of trunks that shorten it; None where each token has its own.
        outputs: Where each layer's output passes by; None where no kind of module returns them all.
        embedding_output: Where the embedding layer's output is returned; None where no module returns it.
    """

    proved_head: Headpiece | HeadMismatchError
    tokenwise: bool
    trunk: str | None
    trunk_gives_states: bool
    embedding_tap: EmbeddingTap | None
    states_late: bool
    tail: LayerToHead | None
    early_exit: EarlyExit | None
    layers: int | None
    token_pooling: TokenPooling | None
    outputs: tuple[LayerOutput, ...] | None
    embedding_output: LayerOutput | None

    @property
    def head(self) -> Headpiece:
        """The proved head.

        Raises:
            HeadMismatchError: If there is none.
        """
        if isinstance(self.proved_head, HeadMismatchError):
            raise self.lacks_head
        return self.proved_head

    @property
    def lacks_head(self) -> HeadMismatchError:
        """The error of a model without a proved head: a new one each time, for an error keeps its traceback."""
        return HeadMismatchError(*getattr(self.proved_head, "args", ()))

    def hidden(self, model: nn.Module, returned: Any) -> Tensor:
        """Return the hidden states in what the trunk returned, (B, T, H).

        Raises:
            HeadMismatchError: If there are none.
        """
        if (hidden := hidden_of(returned)) is None:
            raise HeadMismatchError(f"{self.trunk} of {type(model).__name__} returned no hidden states")
        return self.head.by_text(hidden)

    def embedded(self, held: Tensor | None, length: int) -> Tensor | UnsupportedModelError | None:
        """Return the embedding layer's output, (B, T, H), T being `length`, of what passed at the tap.

        Returns:
            None where nothing passed or there is no tap; the error where the layers read fewer positions than tokens.
        """
        if held is None or self.embedding_tap is None:
            return None
        try:
            return self.embedding_tap.read(held, length)
        except UnsupportedModelError as error:
            return error.with_traceback(None)

    def after(self, layer: int, states: tuple[Tensor, ...], inputs: Mapping[str, Any], length: int) -> Tensor:
        """Return a layer's output as the head would read it, (B, T, H).

        Args:
            layer: 1 to L - 1.
            states: The embedding layer's output and every layer's; not needed where layers are read by early_exit.
            inputs: The model's inputs.
            length: T.
        """
        if self.early_exit is not None:
            return self.by_token(self.head.by_text(self.early_exit(inputs, layer)), length)
        final = states[layer] if self.tail is None else self.tail(states[layer], inputs)
        return self.by_token(final, length)

    def by_token(self, hidden: Tensor, length: int) -> Tensor:
        """Return each token's state, (B, T, H), of a trunk that may give fewer states than T, its `length`, or more."""
        return hidden[:, :length] if self.token_pooling is None else self.token_pooling(hidden, length)


def find_parts(model: PreTrainedModel, inputs: Mapping[str, Any], filler: int) -> Parts:
    """Watch a copy of the model answer `inputs` and find its trunk, head, embedding output and final norm.

    A model without a head that reproduces its logits has parts, too: what needs the logits only does not need it.

    Args:
        model: A structural clone in evaluation mode.
        inputs: A small batch.
        filler: See `Headpiece`.

    Raises:
        HeadMismatchError: If the model returns no logits.
        UnsupportedModelError: If its logits are NaN, or change when it is asked again or beside another text.
    """
    model = cast(PreTrainedModel, clone(model))
    if not isinstance(model, PreTrainedModel):  # of one text, the axes of texts and tokens can be told
        inputs = {name: value[:1] for name, value in inputs.items()}
    calls, outputs = trace(private_clone(model), inputs)  # what it leaves behind is left there
    logits = answer_of(outputs)
    if logits is None:
        raise HeadMismatchError(f"{type(model).__name__} returns no logits: it has no head to apply to a token")
    if not is_number(logits):
        raise no_number(model, calls, inputs)
    check_repeatable(model, inputs, logits)
    states, embedded = states_of(outputs), embedded_of(outputs)
    skipped: dict[str, Any] = {}
    if not isinstance(model, PreTrainedModel):  # nobody has named its trunk
        layers_found = handing_layers(calls)
        skipped = {call.path: call.returned for call in layers_found}
        embedded = layers_found[0].given if layers_found else None
        if embedded is not None and _time_first(model, embedded, inputs["input_ids"].shape):
            embedded = embedded.transpose(0, 1)  # (B, T, H)
        candidates = _latest_candidates(model, calls, layers_found, logits, inputs["input_ids"].shape)
    else:
        candidates = None
    first = before_layers(calls, states) if states else None
    if states and first is not None:
        states, embedded = (first, *states[:-1]), first
    count = inputs["input_ids"].shape[1]
    candidates = candidates or _trunk_candidates(model, calls, states)
    filled = _padded_inside(calls, inputs["input_ids"])
    own = None if filled else logits
    head: Headpiece | HeadMismatchError
    trunk: Call | None
    try:
        head, trunk, tokenwise = _proved_head(model, candidates, inputs, logits, filler, skipped)
        prove_on_another(model, head, inputs, own, tokenwise)
        token_pooling = None if filled else _find_token_pooling(model, head, trunk, calls, count, filler)
    except HeadMismatchError as error:
        head, trunk, tokenwise, token_pooling = error.with_traceback(None), None, False, None
        prove_on_another(model, None, inputs, own, tokenwise)
        if embedded is not None and embedded.shape[1] != count and not filled:  # latents, of which none is a token
            states, embedded = None, None
    tail, early_exit, layers = None, None, None
    if trunk is not None and states and len(states) > 1 and token_pooling is None:
        try:
            tail = find_layer_to_head(model, inputs, calls, trunk, states, tolerance_for(states[-1]))
            layers = len(states) - 1
        except LookupError:
            pass
    if trunk is not None and layers is None:
        early_exit = _find_early_exit(model, trunk, calls, inputs)
        layers = None if early_exit is None else early_exit.count
    gives = trunk is not None and states_of(trunk.returned) is not None
    path = None if trunk is None else trunk.path
    squeezed = embedded is not None and embedded.shape[1] < count  # fewer states than tokens are no token's
    found = layer_outputs(calls, path, states) if states and len(states) > 1 and not squeezed else None
    embedding_tap = _find_embedding_tap(model, calls, embedded)
    return Parts(
        proved_head=head,
        tokenwise=tokenwise,
        trunk=path,
        trunk_gives_states=gives,
        embedding_tap=embedding_tap,
        states_late=first is not None,
        tail=tail,
        early_exit=early_exit,
        layers=layers,
        token_pooling=token_pooling,
        outputs=None if found is not None and layers not in (None, len(found)) else found,
        embedding_output=None if squeezed else embedding_output(calls, embedded),
    )


def _padded_inside(calls: list[Call], ids: Tensor) -> bool:
    """Return whether the model itself puts padding behind the text, as BigBird does to fill its last block."""
    given = (call.given for call in calls if call.given is not None and not call.given.is_floating_point())
    longer = (found for found in given if found.ndim == 2 and found.shape[1] > ids.shape[1])
    return any(torch.equal(found[:, : ids.shape[1]], ids) for found in longer)


def _find_token_pooling(
    model: PreTrainedModel, head: Headpiece, trunk: Call, calls: list[Call], count: int, filler: int
) -> TokenPooling | None:
    """Return which state stands for which token; None where the trunk gives a state for each.

    Raises:
        HeadMismatchError: If it gives more or fewer, and they cannot be told.
    """
    hidden = trunk.hidden
    if hidden is None or head.by_text(hidden).shape[1] == count:
        return None
    try:
        found = TokenPooling(model, trunk, calls, filler)
        found(hidden, count)
    except Exception as error:  # the trunk without its layers may fail in any way
        refuse_to_hide(error)
        raise HeadMismatchError(
            f"the trunk of {type(model).__name__} gives {hidden.shape[1]} states for {count} tokens, and which of them "
            f"stands for a token cannot be told: {error}"
        ) from error
    return found


def _find_early_exit(
    model: PreTrainedModel, trunk: Call, calls: list[Call], inputs: Mapping[str, Any]
) -> EarlyExit | None:
    """Return the way to single layers by letting the later ones rest if it ends in what the head read."""
    hidden = trunk.hidden
    if hidden is None:
        return None
    try:
        with torch.inference_mode():
            early_exit = EarlyExit(model, trunk, calls, inputs)
            whole, less = early_exit(inputs, early_exit.count), early_exit(inputs, early_exit.count - 1)
            if less.shape != hidden.shape or torch.equal(less, hidden):
                return None
            return early_exit if apart(whole, hidden) <= tolerance_for(hidden) else None
    except Exception as error:  # a layer may be of any form; without a way its model's layers are refused
        refuse_to_hide(error)
        return None


def _find_embedding_tap(model: PreTrainedModel, calls: list[Call], embedded: Tensor | None) -> EmbeddingTap | None:
    """Return where the embedding layer's output can be had for nothing."""
    if embedded is None:  # several streams from the start: what they were made of is the embedding itself
        words = model.get_input_embeddings()
        path = next((path for path, module in model.named_modules() if module is words), None)
        return None if path is None else EmbeddingTap(path, False, (0, 1, 2))
    begun = {call.path: call for call in reversed(calls)}
    first = [call for call in calls if begun[call.path] is call]  # a hook reads a module's first call
    for call in first:
        if call.given is embedded:
            return EmbeddingTap(call.path, True, (0, 1, 2))
    for call in first:
        for given, held in ((True, call.given), (False, tensor_of(call.returned))):
            axes = axes_of(held, embedded)
            if axes is not None:
                return EmbeddingTap(call.path, given, axes)
    return None


def _trunk_candidates(model: PreTrainedModel, calls: list[Call], states: tuple[Tensor, ...] | None) -> Iterator[Call]:
    """Yield the calls whose output could be what the head reads, likely ones first.

    Only those that end after the last layer: the model goes on correctly from any module, the embeddings included.
    """
    last = states[-2] if states and len(states) > 1 else None
    after = max((call.end for call in calls if last is not None and call.given is last), default=-1)
    called = {call.path: call for call in calls if call.path and call.hidden is not None and call.end >= after}
    base = model.base_model
    first = next((path for path, module in model.named_modules() if module is base and path), None)
    order = [first, *(path for path, call in called.items() if isinstance(call.returned, ModelOutput))]
    order += [path for path in called if path.count(".") <= 1]
    for path in dict.fromkeys(order):
        if path in called:
            yield called[path]


def _latest_candidates(
    model: nn.Module, calls: list[Call], layers: list[Call], logits: Tensor, shape: torch.Size
) -> Iterator[Call]:
    """Yield the calls of a plain module that could be its trunk's: the last ones first, for the head is what is left.

    A call whose output is the answer itself comes last: what is found then is a head that does nothing.
    """
    start = layers[-1].end if layers else -1
    hidden = ((call, call.hidden) for call in sorted(calls, key=lambda call: call.end, reverse=True))
    after = [(call, h) for call, h in hidden if h is not None and call.path and call.end >= start]
    turned = [(call, h.transpose(0, 1) if _time_first(model, h, shape) else h) for call, h in after]
    fitting = [(call, h) for call, h in turned if h.shape[:2] == shape and h.is_floating_point()]
    named = {path for path, module in model.named_modules() if module is getattr(model, "base_model", None)}
    order = sorted(fitting, key=lambda found: (found[1].shape == logits.shape, found[0].path not in named))
    yield from (call for call, _ in order)


def _time_first(model: nn.Module, states: Tensor, shape: torch.Size) -> bool:
    """Return whether a plain module holds states as (T, B, H), where its token ids are of a shape of (B, T)."""
    return not isinstance(model, PreTrainedModel) and states.shape[:2] == shape[::-1] != shape


def _proved_head(
    model: PreTrainedModel,
    candidates: Iterator[Call],
    inputs: Mapping[str, Any],
    logits: Tensor,
    filler: int,
    skipped: Mapping[str, Any],
) -> tuple[Headpiece, Call, bool]:
    tolerance = tolerance_for(logits)
    tried = []
    for call in candidates:
        hidden = call.hidden
        if hidden is None:
            continue
        time_first = "input_ids" in inputs and _time_first(model, hidden, inputs["input_ids"].shape)
        try:
            with torch.inference_mode():
                head = Headpiece(model, call.path, call.returned, filler, skipped, time_first=time_first)
                hidden = head.by_text(hidden)
                found = head.whole(hidden, inputs)
                difference = apart(found, logits)
                each = head.prove_tokens(hidden[0])  # (T, C)
                tokenwise = logits.ndim == 2 or _agree(each, logits[0], tolerance)
                if difference <= tolerance and model.get_output_embeddings() is not None and logits.ndim == 3:
                    if not tokenwise:
                        tried.append(f"{call.path}: the vocabulary's logits at a token depend on other tokens")
                        continue
                    head.prove_rows(hidden[0], logits[0], tolerance)
        except Exception as error:  # a wrong guess may fail in any way; the next one is tried
            refuse_to_hide(error)
            tried.append(f"{call.path}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            continue
        if difference <= tolerance:
            return head, call, tokenwise
        tried.append(f"{call.path}: logits differ by {difference:.2g}")
    raise HeadMismatchError(
        f"the head of {type(model).__name__} could not be applied by itself: no trunk was found with which it "
        f"reproduces the model's logits. Tried {'; '.join(tried) or 'nothing: no module returns hidden states'}"
    )


def _agree(each: Tensor, logits: Tensor, tolerance: float) -> bool:
    """Return whether the head says of each token alone, (T, C), what it says in the text, if anything."""
    if each.shape != logits.shape:
        return False
    kept = logits.abs() < EXCLUDED
    return apart(each[kept], logits[kept]) <= tolerance if kept.any() else apart(each, logits) <= tolerance
