"""The default methods, by what is explained."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .registry import method_named

if TYPE_CHECKING:
    from .base import Method

Use = Literal["labels", "signals", "tokens", "completions", "media", "similarity", "recorded"]
"""What is explained: labels of texts, of pictures and sounds, predicted tokens, completions and their sources, those of
prompts with pictures or sounds, the cosine of two texts, or a forward pass that was run elsewhere."""


@dataclass(frozen=True)
class Default:
    """The default of one use.

    Attributes:
        calls: Its entry points, for a reader.
        methods: The default method, and those of which the next takes the place of one that does not work.
        passes: Its cost in passes of the model.
        why: What it was chosen for, with the figure.
        page: The page of the documentation with that figure.
    """

    calls: str
    methods: tuple[str, ...]
    passes: str
    why: str
    page: str


ANSWER_METHODS = ("frozen-gradient", "normxlogit")
"""The default of what explains answers to inputs, labels and tokens alike, and the method that takes its place."""

DEFAULTS: dict[Use, Default] = {
    "labels": Default(
        "explainer(inputs), explain, attribute, compare, app: classification, tagging, question answering, "
        "multiple choice",
        ANSWER_METHODS,
        "2",
        "AOPC 0.663 on held-out SST-2 (normxlogit, the paper's method and half the price: 0.427)",
        "frontier.md",
    ),
    "signals": Default(
        "explainer(inputs): pictures, sounds",
        ANSWER_METHODS,
        "2",
        "scores and bias add up to the logit, also where no head reads a state for each patch",
        "pictures-and-sounds.md",
    ),
    "tokens": Default(
        "explainer(texts), explain, attribute: masked and causal language models",
        ANSWER_METHODS,
        "2",
        "finds leave-one-out's first token on 0.77 of 200 texts (normxlogit: 0.26)",
        "results-language.md#the-next-token",
    ),
    "completions": Default(
        "generate, explain_completion, cite, attribute --sources",
        ("frozen-gradient",),
        "1 + 1 for each part",
        "finds leave-one-out's first source on 0.87 of 79 prompts, verified on 0.97",
        "results-language.md",
    ),
    "media": Default(
        "generate, explain_completion: prompts with pictures or sounds",
        ("frozen-gradient:read_at=0",),
        "1 + 1 for each part",
        "the strongest patch or moment lies on known evidence in 0.98 to 1.00 (occlusion: 0.84 to 0.99)",
        "results-pointing.md",
    ),
    "similarity": Default(
        "similarity",
        ("frozen-gradient",),
        "2",
        "scores and bias of either text add up to the cosine",
        "how-to-similarity.md",
    ),
    "recorded": Default(
        "from_outputs", ("normxlogit",), "0", "reads recorded hidden states, without another pass", "your-model.md"
    ),
}
"""The default methods by use."""


def default_methods(use: Use) -> list["Method"]:
    """Return the methods of a use, the first one first."""
    return [method_named(method) for method in DEFAULTS[use].methods]


def named_or_default(method: "str | Method | None", use: Use) -> "Method":
    """Return the caller's method, or the first default of a use if there is none.

    Args:
        method: The method's text or the method; None for the default.
        use: What is explained.

    Raises:
        MethodError: If there is no such method or setting.
    """
    return method_named(DEFAULTS[use].methods[0] if method is None else method)


def completion_methods(method: "str | Method | None") -> dict[str, "Method"]:
    """Return the methods for completions of text prompts, and of prompts with pictures or sounds."""
    return {"method": named_or_default(method, "completions"), "media_method": named_or_default(method, "media")}
