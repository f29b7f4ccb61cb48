"""Errors for arguments that a function does not take, which name the right one."""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from textwrap import fill
from typing import Annotated, Any, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from ..errors import InputError, MethodError, nearest
from ..methods import list_methods

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class", bound=type)

PAIR = "a pair of texts is a tuple: explainer((text, text_pair))"
BATCHES = "Explainer(..., batch_tokens=...) says how many tokens are read at once"
LONG = "long_text= says what to do with long texts, and encode(texts, max_length=...) cuts them"
FIRST = "what is explained comes first, without a name: explainer(texts)"

SYNONYMS = {
    "layer": ("layers",),
    "label": ("target",),
    "labels": ("target",),
    "class_index": ("target",),
    "text_pair": ("pair_column",),
    "tokens": ("max_new_tokens",),
    "context": ("documents",),
    "contexts": ("documents",),
    "docs": ("documents",),
    "passages": ("documents",),
    "query": ("question",),
}
"""Argument names of other libraries, and the names of ours to suggest: the first that the function takes."""

ADVICE = {
    "text_pair": PAIR,
    "pair": PAIR,
    "batch_size": BATCHES,
    "max_length": LONG,
    "truncation": LONG,
    "padding": "texts of any length may stand in one list, and are padded by the explainer",
    "text": FIRST,
    "texts": FIRST,
    "device": "Explainer.from_pretrained(name, device=...) or model.to(device) says where the model is",
    "candidate_labels": "Explainer(pipeline, labels=[...]) takes the labels of a zero-shot pipeline",
    "top_k": "a result's top(k) gives its strongest tokens",
    "merge": "a result's words(merge=...) says how tokens are merged",
}
"""Advice for names of settings that are not arguments of a call."""

CHAT = "a prompt with it is a mapping: {'messages': messages, 'tools': tools, 'documents': documents}"
ADVICE |= {"tools": CHAT, "documents": CHAT, "chat_template_kwargs": CHAT, "messages": CHAT}
ADVICE["enable_thinking"] = (
    "a prompt with it is a mapping: {'messages': messages, 'chat_template_kwargs': {'enable_thinking': False}}"
)

SELF_NAMES = {"self", "cls"}

NEVER_PASSED_ON = (
    "layer",
    "batch_size",
    "text_pair",
    "targets",
    "tools",
    "documents",
    "chat_template_kwargs",
    "enable_thinking",
)
"""Arguments that functions with `**kwargs` refuse too, instead of passing them on to transformers."""


def checked_arguments(advice: Mapping[str, str] = ADVICE) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for an error that names the right argument if a function does not take one.

    The function raises `InputError` if an argument is unknown or missing, and `MethodError` if it is a setting of a
    method. Its signature and docstring are those that `help` shows well. Names that it does not take have `advice`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature, description = _with_unpacked_options(function)
        owner = function.__qualname__.partition(".")[0]
        name = {"__init__": owner, "__call__": "an explainer's call"}.get(function.__name__, function.__name__)
        keywords = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
        keywords += [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        keywords = [name for name in keywords if name not in SELF_NAMES]
        accepted = signature.parameters.keys() - SELF_NAMES
        takes_any_keyword = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            refused = NEVER_PASSED_ON if takes_any_keyword else kwargs
            unknown = [key for key in kwargs if key in refused and key not in accepted]
            if unknown:
                raise _unknown_argument_error(name, unknown[0], keywords, kwargs, advice)
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise InputError(_missing_argument_message(name, signature, str(error))) from None
            return function(*args, **kwargs)

        vars(checked)["__signature__"], checked.__doc__ = _with_short_types(signature), description
        return checked

    return decorate


class _Type(str):
    """A type as `help` shows it."""

    def __repr__(self) -> str:
        return str(self)


def _with_short_types(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature whose types have no module names, so that it fits on a screen."""

    def spelled(annotation: Any) -> Any:
        if annotation is inspect.Signature.empty:
            return annotation
        return _Type(re.sub(r"\b(?:\w+\.)+(?=\w)", "", inspect.formatannotation(annotation).strip("'")))

    parameters = [p.replace(annotation=spelled(p.annotation)) for p in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=spelled(signature.return_annotation))


def checked_methods(kind: Class) -> Class:
    """Check the arguments of a class's public methods, its constructor and its call as `checked_arguments` does."""
    for name, member in list(vars(kind).items()):
        if isinstance(member, classmethod):
            setattr(kind, name, classmethod(checked_arguments()(member.__func__)))
        elif inspect.isfunction(member) and (name in ("__init__", "__call__") or not name.startswith("_")):
            setattr(kind, name, checked_arguments()(member))
    return kind


def _with_unpacked_options(function: Callable[..., Any]) -> tuple[inspect.Signature, str | None]:
    """Return a signature and a docstring in which the keys of an unpacked `TypedDict` are arguments like any other.

    `**options: Unpack[Keys]` takes these keys alone, and `**options: Annotated[Any, Keys]` others too.
    """
    signature, text = inspect.signature(function), inspect.getdoc(function)
    *parameters, last = signature.parameters.values()
    if text is None or last.kind is not last.VAR_KEYWORD or not get_args(last.annotation):
        return signature, text
    takes_others = [last.replace(annotation=Any)] if get_origin(last.annotation) is Annotated else []
    described = next(line for line in text.splitlines() if line.startswith(f"    **{last.name}: "))
    lines = []
    for key, hint in get_type_hints(get_args(last.annotation)[-1], include_extras=True).items():
        parameters.append(last.replace(name=key, kind=last.KEYWORD_ONLY, default=None, annotation=hint.__origin__))
        lines.append(fill(f"{key}: {hint.__metadata__[0]}", 112, initial_indent=" " * 4, subsequent_indent=" " * 8))
    lines += [described] if takes_others else []
    return signature.replace(parameters=[*parameters, *takes_others]), text.replace(described, "\n".join(lines))


def _unknown_argument_error(
    name: str, key: str, keywords: list[str], arguments: Mapping[str, Any], advice_by_name: Mapping[str, str]
) -> InputError | MethodError:
    """Return the error for an argument `key` that a function, called with `arguments`, has not among its keywords."""
    close = [keyword for keyword in SYNONYMS.get(key, ()) if keyword in keywords]
    close = close or ([] if key in advice_by_name else nearest(key, keywords, most=1))
    if close:
        advice = f"did you mean {close[0]}=?"
    elif key in advice_by_name:
        advice = advice_by_name[key]
    elif "method" in keywords and (setting := _method_setting(key, arguments)) is not None:
        return MethodError(f"{name} has no argument {key!r}, which is a setting of a method: method={setting!r}")
    else:
        advice = f"it has {', '.join(f'{keyword}=' for keyword in keywords)}"
    return InputError(f"{name} has no argument {key!r}: {advice}")


def _method_setting(key: str, arguments: Mapping[str, Any]) -> str | None:
    """Return `method:setting=value` for a setting of a method: the method of the call, or the first that has it."""
    owners = [info.name for info in list_methods() if key in info.defaults]
    method_name = str(arguments.get("method", "")).partition(":")[0]
    owner = method_name if method_name in owners else next(iter(owners), None)
    return None if owner is None else f"{owner}:{key}={arguments[key]}"


def _missing_argument_message(name: str, signature: inspect.Signature, problem: str) -> str:
    """Return the message for a missing argument, or for too many positional ones."""
    if "too many positional" not in problem:
        return f"{name}: {problem}"
    parameters = signature.parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in SELF_NAMES]
    pairs = f"; {PAIR}" if positional[0] in ("inputs", "text", "texts") else ""
    return f"{name} takes {' and '.join(positional)} without a name, and all others by name{pairs}"
