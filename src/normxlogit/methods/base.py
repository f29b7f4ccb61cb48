"""The base class of methods, its input `Request` and its output `Scores`."""

import functools
import importlib
import inspect
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..copies.precision import without_autocast
from ..errors import MethodError
from ..inputs.batches import Batch
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..model.transfer import to_host
from ..results.storage.schema import Indices, Strings, setting_text
from ..results.targets import OutputQuantity, Quantity
from ..tasks import Task
from ..tasks.targets import BatchTargets, Layers
from .settings import Settings, check, settings_of, unknown_setting

if TYPE_CHECKING:
    from .registry import MethodInfo


WordMerge = Literal["sum", "max", "mean"]
"""How the scores of a word's tokens become the word's, see `Method`."""


@dataclass(frozen=True)
class Request:
    """The input of a method.

    Attributes:
        model: The model, taken apart. A method may use `model.module` (a copy of the caller's model that shares its
            weights: read it, do not change it), `model.head` (the proved head), `model.answer`, `model.measure`,
            `model.run`, `model.layer_as_final`, `model.head_logits`, `model.embeddings`, `model.batch`, `model.task`
            and `model.tokenizer`.
        forward: The forward pass over B texts, made without gradients.
        target: The targets, K for each text; see `BatchTargets.quantity`.
        layers: The requested layers, L of them, counted from 1; empty for the model's answer as it is.
    """

    model: TaskModel
    forward: ForwardPass
    target: BatchTargets
    layers: Indices = ()


@dataclass(frozen=True)
class Scores:
    """The output of a method.

    Attributes:
        values: Scores, (B, K, max(L, 1), T), of any value at padding.
        diagnostics: What the method measured of itself, such as an approximation error, by name: (B, K) each.
        bias: What belongs to no token, (B, K, max(L, 1)): with the scores of the text's tokens and the sink it adds up
            to what is explained. None if the scores do not add up.
        sink: What attention sinks contribute, which is in no token's score, (B, K, max(L, 1)); None without sinks.
        sinks: Which tokens are attention sinks, (B, T); None without sinks.
        parts: Scores of the N parts of pictures and sounds where they enter the model, (B, K, max(L, 1), N), which
            belong to the sum; None if what is read of them are the tokens that stand for them.
    """

    values: Tensor
    diagnostics: Mapping[str, Tensor] = field(default_factory=dict)
    bias: Tensor | None = None
    sink: Tensor | None = None
    sinks: Tensor | None = None
    parts: Tensor | None = None

    def _tensors(self) -> dict[str, Tensor]:
        """Return the tensors that are there, by their names as fields."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def map(self, change: Callable[[Tensor], Tensor]) -> "Scores":
        """Apply a function to every tensor, such as a move to another device or a slice of the axes (B, K)."""
        diagnostics = {name: change(value) for name, value in self.diagnostics.items()}
        # `sinks` has no axis of targets.
        changed = {name: change(value) for name, value in self._tensors().items() if name != "sinks"}
        return replace(self, **changed, diagnostics=diagnostics)

    def on_host(self) -> "Scores":
        """Return the scores as float32 on the host, all brought there in one transfer."""
        tensors = self._tensors()
        arrays = to_host(*(value.detach() for value in (*tensors.values(), *self.diagnostics.values())))
        on_host = map(torch.from_numpy, arrays)  # in the order of `tensors`, then of the diagnostics
        fields = {name: next(on_host) for name in tensors}
        # The transfer makes float32 of all tensors.
        if "sinks" in fields:
            fields["sinks"] = fields["sinks"].bool()
        return Scores(**fields, diagnostics={name: next(on_host) for name in self.diagnostics})


def remainder(request: Request, values: Tensor) -> Tensor:
    """Return the explained quantity minus the sum of token scores, (B, K, L, T), as (B, K, L).

    Args:
        request: What is explained.
        values: Scores of tokens, (B, K, L, T), of any value at padding.
    """
    masked = values * request.forward.batch.mask[:, None, None].to(values)  # (B, K, L, T)
    return request.target.quantity(request.forward.logits).to(values)[:, :, None] - masked.sum(-1)


def stacked(rows: Sequence[Scores]) -> Scores:
    """Concatenate the scores of texts of equal length to those of one batch.

    Sinks and parts are not: the methods that score beginnings of a text one by one have none.

    Args:
        rows: The scores of each text, with B = 1, by one method.
    """
    biases = [row.bias for row in rows if row.bias is not None]
    return Scores(
        torch.cat([row.values for row in rows]),
        diagnostics={name: torch.cat([row.diagnostics[name] for row in rows]) for name in rows[0].diagnostics},
        bias=torch.cat(biases) if len(biases) == len(rows) else None,
    )


class Method(ABC):
    """The base of all methods.

    The arguments of a subclass's constructor are its settings: each has a type and a default and is kept in an
    attribute of its own name. Values are checked against the types before the constructor sees them.

    Attributes:
        info: The arguments of `register`.
        needs_grad: Whether `score` is called with gradients allowed.
        reads_logits: Whether a language model's logits count as they are, and not less their mean.
        word_merge: How the scores of a word's tokens become the word's: "sum" where scores are parts of a whole,
            "max" (largest magnitude) where they would grow with the number of pieces.
        memory: How many times the memory of a plain pass the method's own takes, for batches that fit.
    """

    info: ClassVar["MethodInfo"]
    needs_grad: ClassVar[bool] = False
    reads_logits: ClassVar[bool] = False
    word_merge: ClassVar[WordMerge] = "sum"
    memory: int = 1

    def __init_subclass__(cls, **options: Any) -> None:
        """Check the settings of every subclass before its own constructor sees them."""
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            setattr(cls, "__init__", _with_checked_settings(cls.__init__))  # noqa: B010  # mypy knows no other way

    def __init__(self) -> None:  # noqa: B027  # a method without settings needs no constructor
        """Take no settings; a subclass declares its settings as arguments."""

    def forward(self, model: TaskModel, batch: Batch, layers: Layers = None, *, predict: bool = True) -> ForwardPass:
        """Run the one forward pass over a batch that the method needs.

        Args:
            model: The model.
            batch: B texts.
            layers: The caller's layers; None for the model's answer as it is.
            predict: Whether a language model's logits at the position explained are computed, too.
        """
        with torch.inference_mode():
            return model.run(batch, layers=layers is not None, predict=predict)

    @abstractmethod
    def score(self, request: Request) -> Scores:
        """Score the tokens of a batch."""

    def score_each(self, request: Request, places: Tensor, weights: Tensor | None = None) -> Scores | None:
        """Score the tokens for targets at several positions of a causal model, from one forward pass.

        Args:
            request: B texts with K targets, target k read at place k.
            places: Where the model answers, (B, K); negative where a text has fewer than K.
            weights: Sums of the K targets that are explained instead of each, (B, J, K).

        Returns:
            Scores, (B, K, max(L, 1), T), or of J sums, any value at tokens after a place; None if the method reads
            each beginning of the text by itself.
        """
        return None

    def notes_on(self, model: TaskModel) -> Strings:
        """Return what a reader of scores of this model should know of the method, after its first pass."""
        return ()

    def signed_on(self, task: Task) -> bool:
        """Return whether negative scores mean evidence against the target on a model of this task."""
        return self.info.signed

    def compares_answers_on(self, task: Task) -> bool:
        """Return whether scores of two answers of different lengths can be compared on a model of this task.

        They can be where they explain log-probabilities, and have a sign: a difference of magnitudes says nothing.
        """
        return self.signed_on(task) and not (self.reads_logits or self.info.tokenwise)

    def quantity_on(self, task: Task, *, contrasted: bool = False, explained: OutputQuantity = "logit") -> Quantity:
        """Return what the method explains on a model of a task, with a contrast or without; see `BatchTargets`.

        Args:
            task: The task.
            contrasted: Whether another target is subtracted.
            explained: Whether logits or log-probabilities are explained.
        """
        if task.outputs.kind == "value":
            return "value"
        # With a contrast, too: then it is that among the two alone, see `BatchTargets.quantity`.
        if explained == "log-probability":
            return explained
        if contrasted:
            return "logit less the contrast's"
        return "logit less the vocabulary's mean" if task.outputs.vocabulary and not self.reads_logits else "logit"

    @property
    def settings(self) -> Settings:
        """All settings by name."""
        return {name: getattr(self, name) for name in settings_of(type(self))}

    @property
    def spec(self) -> str:
        """The method as text: its name, and the settings that differ from their defaults."""
        defaults = settings_of(type(self))
        changed = [
            f"{name}={setting_text(value)}" for name, value in self.settings.items() if value != defaults[name].default
        ]
        return self.info.name + (":" + ",".join(changed) if changed else "")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"

    def __eq__(self, other: object) -> bool:
        """Return whether class and settings are equal."""
        return type(other) is type(self) and other.settings == self.settings

    def __hash__(self) -> int:
        return hash(self.spec)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings alone, from which the constructor makes everything else again."""
        return functools.partial(type(self), **self.settings), ()


def run_method(method: Method, request: Request) -> Scores:
    """Run a method, and refuse scores of a wrong shape; `check_finite` checks the values.

    Args:
        method: The method.
        request: What is explained.

    Raises:
        MethodError: If the scores are of another shape than the request has.
    """
    with torch.inference_mode(not method.needs_grad), without_autocast(request.forward.batch.inputs):
        scores = method.score(request)
    batch = request.forward.batch
    expected = (len(batch.mask), request.target.ids.shape[1], max(len(request.layers), 1), batch.mask.shape[1])
    for name, values, shape in (("scores", scores.values, expected), ("a bias", scores.bias, expected[:3])):
        if values is not None and tuple(values.shape) != shape:
            raise MethodError(f"{method.info.name} gives {name} of shape {tuple(values.shape)}, not {shape}")
    return scores


def check_finite(method: Method, request: Request, values: npt.NDArray[np.floating[Any]]) -> None:
    """Refuse scores of real tokens on the host that are not finite.

    Args:
        method: The method, for errors.
        request: What is explained.
        values: Scores, with the L layers on the second of three axes: (K, L, T), for instance.

    Raises:
        MethodError: If a score is NaN or infinite; it names the layer.
    """
    finite = np.isfinite(values).all((0, 2))  # (L,)
    if not finite.all():
        layer_hint = f" at layer {request.layers[int(finite.argmin())]}" if request.layers else ""
        raise MethodError(
            f"{method.info.name} gives scores that are not finite{layer_hint}: a weight or a state of "
            f"{request.model.class_name} is NaN or infinite; float32 or bfloat16 may hold what float16 "
            "does not"
        )


def sink_note(tokens: Sequence[str], special: Sequence[bool], sinks: Sequence[int]) -> Strings:
    """Return a note that names attention sinks, if there are any but special tokens.

    Args:
        tokens: The tokens of a text.
        special: Which of them are special.
        sinks: The indices of attention sinks.
    """
    named_sinks = [repr(tokens[index]) for index in sinks if not special[index]]
    if not named_sinks:
        return ()
    names = ", ".join(named_sinks)
    return (f"attention sink: {names}; what it contributes as a sink is reported separately and in no score",)


def import_package(name: str) -> Any:
    """Import a package that a method needs, without changing Python's random state, from which scipy.stats draws."""
    state = random.getstate()
    try:
        importlib.import_module(name.partition(".")[0])  # the one to name if it is missing
        return importlib.import_module(name)
    finally:
        random.setstate(state)


def _with_checked_settings(constructor: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that checks its arguments by their type hints, and whose errors name the method.

    Args:
        constructor: The `__init__` of a class of methods, whose arguments are the settings.
    """
    signature = inspect.signature(constructor)

    @functools.wraps(constructor)
    def checked(self: Method, *args: Any, **kwargs: Any) -> None:
        if type(self).__init__ is not checked:  # called by a subclass's constructor, with values that it has checked
            constructor(self, *args, **kwargs)
            return
        # Its own alone: a class that is not registered would be called by the name of its base.
        info: MethodInfo | None = vars(type(self)).get("info")
        name = getattr(info, "name", type(self).__name__)
        try:
            types = settings_of(constructor)
            for key in kwargs:
                if key not in types:
                    raise MethodError(unknown_setting(name, key, types))
            arguments = signature.bind(self, *args, **kwargs).arguments  # by name, with `self`, which is no setting
            constructor(self, **{key: check(types[key], value) for key, value in arguments.items() if key in types})
        except ImportError as error:
            extra = getattr(info, "extra", "") or "all"
            raise MethodError(f"{name} needs the package {error.name}: pip install 'normxlogit[{extra}]'") from None
        except (TypeError, ValueError) as error:
            raise MethodError(f"{name}: {error}") from None

    return checked


setattr(Method, "__init__", _with_checked_settings(Method.__init__))  # noqa: B010  # the base class checks that methods without settings get none


Baseline = Literal["zero", "pad", "mask"]


def baseline_vectors(request: Request, vectors: Tensor, baseline: Baseline) -> Tensor:
    """Return the baseline of each token, (B, T, H), for word embeddings of that shape.

    Special tokens keep their own embeddings unless it is "zero", and so does the mask of a masked language model, at
    which the answer is read.

    Args:
        request: What is explained.
        vectors: The word embeddings, (B, T, H).
        baseline: "zero" vectors, or the embedding of the "pad" or "mask" token.

    Raises:
        MethodError: If the tokenizer has no mask token.
    """
    if baseline == "zero":
        return torch.zeros_like(vectors)
    model = request.model
    batch = request.forward.batch
    filler = model.pad_id if baseline == "pad" else model.tokenizer.mask_token_id
    if filler is None:
        raise MethodError("the tokenizer has no mask token; use baseline=zero or baseline=pad")
    ids = batch.inputs["input_ids"].clone()  # (B, T)
    for row, encoding in enumerate(batch.encodings):
        is_text = torch.tensor([not is_special for is_special in encoding.special], device=ids.device)
        columns = batch.mask[row].nonzero()[:, 0]  # where the encoding's tokens stand in the padded row
        ids[row, columns[is_text]] = filler
    positions = request.forward.positions
    if model.task.position.stays(masked=True) and positions is not None:
        rows = torch.arange(len(ids), device=ids.device)
        ids[rows, positions] = batch.inputs["input_ids"][rows, positions]
    with torch.no_grad():
        return model.embeddings(ids).to(vectors.dtype)
