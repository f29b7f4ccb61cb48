"""Errors for arguments that a function does not take, which name the right one."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from textwrap import fill
from typing import Annotated, Any, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from ..errors import InputError, MethodError, nearest
from ..methods import list_methods

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class", bound=type)

SYNONYMS = {
    "layer": "layers",
    "label": "target",
    "labels": "target",
    "class_index": "target",
    "query": "question",
    "text_pair": "pair_column",
    "tokens": "max_new_tokens",
    **dict.fromkeys(("context", "contexts", "docs", "passages"), "documents"),
}
"""Argument names of other libraries, and ours to suggest where a function takes it."""

PAIR = "a pair of texts is a tuple: explainer((text, text_pair))"
LONG = "long_text= says what to do with long texts, and encode(texts, max_length=...) cuts them"
FIRST = "what is explained comes first, without a name: explainer(texts)"
CHAT = "a prompt with it is a mapping: {'messages': messages, 'tools': tools, 'documents': documents}"

ADVICE = {
    "text_pair": PAIR,
    "pair": PAIR,
    "batch_size": "Explainer(..., batch_tokens=...) says how many tokens are read at once",
    "max_length": LONG,
    "truncation": LONG,
    "padding": "texts of any length may stand in one list, and are padded by the explainer",
    "text": FIRST,
    "texts": FIRST,
    "device": "Explainer.from_pretrained(name, device=...) or model.to(device) says where the model is",
    "candidate_labels": "Explainer(pipeline, labels=[...]) takes the labels of a zero-shot pipeline",
    "top_k": "a result's top(k) gives its strongest tokens",
    "sources": "a result's sources(...) sums its scores by them, and explain_completion takes them",
    "merge": "a result's words(merge=...) says how tokens are merged",
    "enable_thinking": "a prompt with it is a mapping: {'messages': messages, 'chat_template_kwargs': "
    "{'enable_thinking': False}}",
    **dict.fromkeys(("tools", "documents", "chat_template_kwargs", "messages"), CHAT),
}
"""Advice for names of settings that are not arguments of a call."""

NEVER_PASSED = {
    "layer", "batch_size", "text_pair", "targets", "tools", "documents", "chat_template_kwargs", "enable_thinking",
    "sources",
}  # fmt: skip
"""Arguments that functions with `**kwargs` refuse too, instead of passing them on to transformers."""


def checked_arguments(
    advice: Mapping[str, str] = ADVICE,
    unwritten: Collection[str] = ("self", "cls"),
    never_passed: Collection[str] = NEVER_PASSED,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for an error that names the right argument, and a signature that `help` shows well.

    Args:
        advice: What to say of names that are not arguments.
        unwritten: Names of a first argument that a caller does not write.
        never_passed: Names that a function with `**kwargs` refuses, too.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature, description = _with_unpacked_options(function)
        check = _Check(function, signature, advice, unwritten, never_passed)

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            check(*args, **kwargs)
            return function(*args, **kwargs)

        vars(checked)["__signature__"] = _with_short_types(signature)  # `help` shows it in the place of the function's
        checked.__doc__ = description
        return checked

    return decorate


class _Check:
    """Checks the arguments of calls of one function; see `checked_arguments`.

    Attributes:
        name: What errors call the function.
        signature: Its arguments, with those of the `TypedDict` of its `**kwargs`.
        advice: What to say of names that are not arguments.
        keywords: The names of arguments that callers may write, keyword-only ones first, as errors list them.
        never_passed: The names that are refused where the function has `**kwargs`; None where it has not, which
            refuses all names but `keywords`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        signature: inspect.Signature,
        advice: Mapping[str, str],
        unwritten: Collection[str],
        never_passed: Collection[str],
    ) -> None:
        class_name = function.__qualname__.partition(".")[0]
        names = {"__init__": class_name, "__call__": "an explainer's call"}
        self.name = names.get(function.__name__, function.__name__)
        self.signature = signature
        self.advice = advice
        parameters = signature.parameters.values()
        keyword_only_first = sorted(parameters, key=lambda p: p.kind is p.POSITIONAL_OR_KEYWORD)
        named = [p.name for p in keyword_only_first if p.kind is not p.VAR_KEYWORD]
        self.keywords = [name for name in named if name not in unwritten]
        has_kwargs = len(named) < len(parameters)  # `named` lacks these alone
        self.never_passed = never_passed if has_kwargs else None

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Refuse arguments that the function does not take."""
        for key in kwargs:
            is_passed_on = self.never_passed is not None and key not in self.never_passed  # to transformers
            if key not in self.keywords and not is_passed_on:
                raise self._error_for_keyword(key, kwargs)
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            may_be_pair = "too many" in str(error) and "inputs" in self.keywords  # explainer(text, text_pair)
            pairs = f"; {PAIR}" if may_be_pair else ""
            raise InputError(f"{self.name}: {error}{pairs}") from None

    def _error_for_keyword(self, key: str, arguments: Mapping[str, Any]) -> InputError | MethodError:
        """Return the error for an argument `key` that the function, called with `arguments`, does not take."""
        problem = f"{self.name} has no argument {key!r}"
        close_keywords = self._close_keywords(key)
        if close_keywords:
            return InputError(f"{problem}: did you mean {close_keywords[0]}=?")
        methods_with_setting = [info.name for info in list_methods() if key in info.defaults]
        if key not in self.advice and "method" in self.keywords and methods_with_setting:
            # The method of the call is suggested if it has this setting, otherwise the first one that has.
            named_method = str(arguments.get("method", "")).partition(":")[0]
            method = named_method if named_method in methods_with_setting else methods_with_setting[0]
            setting = f"{method}:{key}={arguments[key]}"
            return MethodError(f"{problem}, which is a setting of a method: method={setting!r}")
        available = f"it has {', '.join(f'{keyword}=' for keyword in self.keywords)}"
        return InputError(f"{problem}: {self.advice.get(key, available)}")

    def _close_keywords(self, key: str) -> list[str]:
        """Return the keyword that a caller means by another name; none where there is advice on that name."""
        if SYNONYMS.get(key) in self.keywords:
            return [SYNONYMS[key]]
        return [] if key in self.advice else nearest(key, self.keywords, most=1)


def checked_methods(kind: Class) -> Class:
    """Check the arguments of a class's public methods, its constructor and its call as `checked_arguments` does.

    Methods with that decorator keep it.
    """
    for name, member in list(vars(kind).items()):
        is_public = name in ("__init__", "__call__") or not name.startswith("_")
        is_decorated = hasattr(member, "__wrapped__")
        if isinstance(member, classmethod):
            setattr(kind, name, classmethod(checked_arguments()(member.__func__)))
        elif inspect.isfunction(member) and is_public and not is_decorated:
            setattr(kind, name, checked_arguments()(member))
    return kind


class _Type(str):
    """The name of a type, as an annotation that `help` shows without quotation marks."""

    __repr__ = str.__str__


def _with_short_types(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature whose types have no module names, so that it fits on a screen."""
    parameters = [p.replace(annotation=_short_type(p.annotation)) for p in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=_short_type(signature.return_annotation))


def _short_type(annotation: Any) -> Any:
    """Return an annotation without the names of modules; none where there is none."""
    if annotation is inspect.Signature.empty:
        return annotation
    full_name = inspect.formatannotation(annotation).strip("'")  # an annotation may be a string, in quotation marks
    return _Type(re.sub(r"\b(?:\w+\.)+(?=\w)", "", full_name))


def _with_unpacked_options(function: Callable[..., Any]) -> tuple[inspect.Signature, str | None]:
    """Return a function's signature and docstring, with an argument for each key of the `TypedDict` of its `**kwargs`.

    Args:
        function: A function whose `**kwargs` are `Unpack[Keys]`, or `Annotated[Any, Keys]` if it takes other names,
            too; the hint of each key is `Annotated[type, description]`. Other functions stay as they are.
    """
    signature = inspect.signature(function)
    docstring = inspect.getdoc(function)
    *parameters, last = signature.parameters.values()
    if docstring is None or last.kind is not last.VAR_KEYWORD or not get_args(last.annotation):
        return signature, docstring
    kwargs_line = next(line for line in docstring.splitlines() if line.startswith(f"    **{last.name}: "))
    argument_lines = []
    typed_dict = get_args(last.annotation)[-1]
    for key, hint in get_type_hints(typed_dict, include_extras=True).items():
        annotation, *descriptions = get_args(hint)  # of `Annotated[type, description]`; a type may have its own before
        parameters.append(last.replace(name=key, kind=last.KEYWORD_ONLY, default=None, annotation=annotation))
        line = f"{key}: {descriptions[0]}"
        # `getdoc` has taken the method's indentation of 8 from lines of 120 characters.
        argument_lines.append(fill(line, 112, initial_indent=" " * 4, subsequent_indent=" " * 8))
    takes_other_names = get_origin(last.annotation) is Annotated
    if takes_other_names:
        parameters.append(last.replace(annotation=Any))
        argument_lines.append(kwargs_line)
    return signature.replace(parameters=parameters), docstring.replace(kwargs_line, "\n".join(argument_lines))
