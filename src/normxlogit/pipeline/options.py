"""`Options`: the checked arguments of an explanation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from .._version import __version__
from ..errors import InputError, MethodError, TargetError, check_choice
from ..inputs.encoded_media import EncodedMedium
from ..inputs.encoder import LongText
from ..inputs.label_names import class_names_of, with_class_names
from ..inputs.texts import is_column, positive_integer, whole_number
from ..leave_out.picking import Group, Together, Verify
from ..methods import Method
from ..methods.defaults import completion_methods, default_methods, named_or_default
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..results.targets import OutputQuantity
from ..results.units.spans import PartSpec
from ..tasks.targets import Choice, Layers, Position, TargetSpec, check_target, is_choice
from ..tasks.task_outputs import has_position_for_each

Results = Attribution | Attributions[Attribution]
"""The result of a single input, or the results of several."""


VERIFIED_KINDS = ("auto", "reasoning", *get_args(Group))
"""What `verify=` may be where it is a single name."""

CHOICES: Mapping[str, tuple[Any, ...]] = {
    "long_text": get_args(LongText),
    "on_error": ("raise", "keep"),
    "token_predictions": (True, False),
    "progress": (True, False),
}
"""What some options may be beside None."""


@dataclass(frozen=True)
class Options:
    """The checked arguments of one call; `keywords` describes those that callers write."""

    method: Method
    target: TargetSpec = None
    targets: Sequence[Choice] | None = None
    contrast: Choice | None = None
    layers: Layers = None
    position: Position = None
    long_text: LongText | None = None
    token_predictions: bool | None = None
    progress: bool | None = None
    media_method: Method | None = None  # for prompts with a picture or a sound; None for `method`
    verify: Verify = None
    parts: PartSpec = None
    sources: Any = None
    reasoning: Any = None
    other_answer: Any = None  # a text or token ids that the whole completion is explained against
    explained: OutputQuantity = "logit"  # of each token of a completion
    extra_inputs: Mapping[str, Any] | None = None
    on_error: Literal["raise", "keep"] | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        if self.layers is not None and not self.method.info.per_layer:
            raise MethodError(f"{self.method.info.name} gives no scores for single layers")
        for name, choices in CHOICES.items():  # None is allowed for each of them
            check_choice(name, getattr(self, name), choices)
        if self.contrast is not None and not is_choice(self.contrast):
            raise TargetError(f"a contrast is a name or an index, not {type(self.contrast).__name__}")
        object.__setattr__(self, "verify", checked_verify(self.verify))  # a frozen dataclass refuses assignments
        if self.other_answer is not None:
            self._check_whole_answer()
        if self.targets is not None:
            self._check_targets(self.targets)

    def _check_whole_answer(self) -> None:
        """Refuse what divides an answer, where another whole answer is the contrast."""
        if self.parts is not None:
            raise InputError("a contrast is another whole answer, and parts= divides the one: leave out parts=")
        if self.verify == "reasoning":
            raise InputError("verify='reasoning' measures what follows the reasoning of one answer: no contrast=")

    def _check_targets(self, targets: Sequence[Choice]) -> None:
        """Refuse targets that are not one for each input, and keep them as a sequence."""
        if self.target is not None:
            raise TargetError("give target= for all inputs or targets= with one for each, not both")
        if not is_column(targets) or isinstance(targets, set | frozenset):  # sets have no order
            raise TargetError("targets= takes a list with one target for each input; target= takes one for all")
        class_names = class_names_of(getattr(targets, "features", None))  # of a column of a data set
        object.__setattr__(self, "targets", with_class_names(targets, class_names))

    def check_target(self, model: TaskModel) -> None:
        """Refuse targets that are invalid on a model for every text, before any forward pass."""
        check_target(model.task, model.output_count, self.target, self.contrast, self.targets)

    @classmethod
    def of(cls, options: Mapping[str, Any], method: Method) -> "Options":
        """Return the options of a call with its method.

        Args:
            options: The arguments of the call by name.
            method: The method, in the place of the one that the call names.

        Raises:
            InputError: If an argument is not one of its choices, or two do not go together.
            TargetError: If targets are not one for each input, or the contrast is not one name or index.
            MethodError: If the method gives no scores for single layers, and `layers` asks for them.
        """
        return cls(**{**options, "method": method})

    @classmethod
    def of_completions(cls, options: Mapping[str, Any]) -> "Options":
        """Return the options of a call on completions, whose contrast is a token or another answer.

        It is a token beside a target, which is one, and where it is an index; otherwise another answer.

        Args:
            options: The arguments of the call by name.

        Raises:
            NormXLogitError: As `of` does.
        """
        fields = {**options, **completion_methods(options.get("method"))}
        names_tokens = any(fields.get(name) is not None for name in ("target", "targets"))
        is_index = whole_number(fields.get("contrast")) is not None
        if not names_tokens and not is_index:
            fields["other_answer"] = fields.pop("contrast", None)  # a text or token ids
        return cls(**fields)

    @property
    def explains_own_tokens(self) -> bool:
        """Whether a completion's own tokens are explained, alone and at the last layer: nothing else was asked for."""
        return self.target is None and self.targets is None and self.contrast is None and self.layers is None

    def for_media(self, media: Sequence[EncodedMedium]) -> "Options":
        """Return the options of a prompt with pictures or sounds, with the method for them.

        That one scores their parts, such as patches. Where it is not known which part is where, but which of the tokens
        that stand for them is, the method for texts scores these tokens.

        Args:
            media: The pictures and sounds of the prompt; may be empty where the prompt is a sound.
        """
        scores_tokens = any(medium.by_part is None and medium.by_token is not None for medium in media)
        if isinstance(self.verify, Together):  # nothing is scored, but the units are those that a method would score
            return replace(self, method=named_or_default(None, "completions" if scores_tokens else "media"))
        if scores_tokens or self.media_method is None:
            return self
        return replace(self, method=self.media_method)

    def only(self, index: int) -> "Options":
        """Return the options of one input, whose target is its own where each input has one."""
        return self if self.targets is None else replace(self, target=self.targets[index], targets=None)

    def of_some(self, indices: Sequence[int]) -> "Options":
        """Return the options of some of the inputs: what has a value for each input keeps the values of these.

        Args:
            indices: Which inputs.
        """

        def taken(values: Any) -> list[Any]:
            """Return the values of these inputs, from a list, an array or a column with one for each input."""
            of_all_inputs = list(values)
            return [of_all_inputs[index] for index in indices]

        changes: dict[str, Any] = {}
        if self.targets is not None:
            changes["targets"] = taken(self.targets)
        if has_position_for_each(self.position):
            changes["position"] = taken(self.position)
        if self.extra_inputs:
            changes["extra_inputs"] = {name: taken(values) for name, values in self.extra_inputs.items()}
        return replace(self, **changes)

    def check_count(self, inputs: int) -> None:
        """Refuse a list of targets that does not fit the inputs."""
        if self.targets is not None and len(self.targets) != inputs:
            raise TargetError(f"{len(self.targets)} targets for {inputs} inputs; targets= takes one for each")


def compared_methods(methods: Sequence[str | Method] | None, target: object) -> Sequence[str | Method]:
    """Return the methods of a comparison as a list, by default the default method and the paper's; check the target."""
    methods = default_methods("labels") if methods is None else methods
    if isinstance(methods, str | Method):
        methods = [methods]
    if not isinstance(methods, Sequence) or not methods:
        raise MethodError("methods= takes a list of one method or more, such as ['normxlogit', 'occlusion']")
    if target is not None and not is_choice(target):
        raise TargetError("methods are compared on one target: a name or an index")
    return methods


def checked_verify(verify: Verify) -> Verify:
    """Return the caller's `verify=` after checking it; None for no verification.

    Args:
        verify: A number of units, one of `VERIFIED_KINDS`, or the units themselves: a list of words and spans, or a
            mapping from the caller's names to them, one unit each. What these name is checked where they are removed.

    Raises:
        InputError: If it is another number or name, or there are no units.
    """
    verify = list(verify) if isinstance(verify, np.ndarray) else verify
    lists_units = isinstance(verify, list | tuple | Mapping)
    if isinstance(verify, str) and verify not in VERIFIED_KINDS:
        raise InputError(
            f"verify must be a number of units, {', '.join(map(repr, VERIFIED_KINDS))} or a list of words and spans, "
            f"not {verify!r}; one word is a list: verify=[{verify!r}]"
        )
    if lists_units and not verify:
        raise InputError("verify= is an empty list: name what is removed")
    if lists_units or isinstance(verify, str):
        return verify
    removes_nothing = not verify  # None, False or 0
    return None if removes_nothing else positive_integer(verify, "verify")


def provenance(
    model: TaskModel, method: Method, *, contrasted: bool = False, explained: OutputQuantity = "logit"
) -> dict[str, Any]:
    """Return the fields of a result on the model and the method that it comes from, and what was explained.

    Args:
        model: The model.
        method: The method.
        contrasted: Whether a contrast was subtracted.
        explained: What was explained of each token of a completion.
    """
    return {
        "method": method.info.name,
        "settings": method.settings,
        "model": model.name,
        "signed": method.signed_on(model.task),
        "version": __version__,
        "quantity": method.quantity_on(model.task, contrasted=contrasted, explained=explained),
    }
