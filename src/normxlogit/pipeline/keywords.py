"""Keyword arguments of the explainer's methods, for `arguments.checked_arguments`; each is None unless it is passed."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from ..inputs.encoder import LongText
from ..leave_out.picking import Verify
from ..methods import Method
from ..results.units.kinds import SourceKind
from ..results.units.spans import PartSpec
from ..tasks.targets import Choice, Layers, Position, TargetSpec

Contrast = Annotated[Choice | None, "A label or token whose logit is subtracted."]
OfLayers = Annotated[
    Layers, "`ALL`, a layer's number (1 to L) or a list of them; None for the model's answer as it is."
]
ByMethod = Annotated[
    str | Method | None,
    'A method\'s name, with settings as "name:setting=value,setting=value", or a method; by default as '
    "`normxlogit methods` says.",
]
AtPosition = Annotated[
    Position,
    'The token whose label is explained (by default the first other than "O"), or the mask: its index, a piece of the '
    "text, or a span (start, end) of characters, for all inputs or a list with one for each; `ALL` explains the label "
    "of every word, or the token at every mask, as the targets of one result.",
]
OfLongText = Annotated[
    LongText | None,
    'Of a text beyond the model\'s length "truncate" (the default) explains the first window and notes it, "window" '
    'explains it whole from overlapping windows, "error" raises.',
]

OfVerify = Annotated[
    Verify,
    "Run the model again without some of what it read, one at a time and together, and without as many others: the "
    "result is in `verified`. A number removes the words (regions of pictures, moments of sounds) of the highest "
    'scores; "auto" five of them, and looks among all for a set whose removal changes the prediction; "sentence", '
    '"paragraph" or "message" each of these; "reasoning" each sentence of the reasoning of a completion, '
    "for what follows it; a list what it names: words, spans (start, end) of characters, boxes of "
    "pictures (left, top, right, bottom), sources; a mapping such spans by name. None, the default, runs nothing.",
]

OfReasoning = Annotated[
    Sequence[tuple[int, int]] | tuple[str, str] | Sequence[Sequence[tuple[int, int]]] | None,
    'Where the answer reasons: what stands before and behind it, such as ("<think>", "</think>"), or spans (start, '
    "end) of a given answer's characters; by default as the tokenizer declares.",
]

ExtraInputs = Annotated[
    Mapping[str, Any] | None,
    "What the model reads beside the texts, by the names in the explainer's `extra_inputs`: a value for each text, or "
    "the value of a single one.",
]


class Generate(TypedDict, total=False):
    """Keywords of `Explainer.generate`."""

    target: Annotated[
        Choice | None,
        "A token (without a leading space it starts a word) or its index, explained at every position; None for each "
        "generated token itself.",
    ]
    contrast: Annotated[
        Choice | Sequence[int | str] | None,
        "Another answer (its text or token ids; of several completions one for each), which the whole one is explained "
        "against: the prompt's scores add up, with sink and bias, to the difference of what is explained of both. With "
        "a target, and as an index, a token that is subtracted at every place.",
    ]
    layers: OfLayers
    method: ByMethod
    verify: OfVerify
    parts: Annotated[
        PartSpec,
        'What of the completion is explained: each "token", "word", "sentence" or "paragraph", "all" of it, or as in '
        "`Attribution.group_targets`; by default each token, with `sources` the whole. Frozen gradient takes a "
        "backward pass for each part.",
    ]
    reasoning: OfReasoning


class ExplainCompletion(Generate, total=False):
    """Keywords of `Explainer.explain_completion`."""

    targets: Annotated[
        Sequence[Choice] | Sequence[Sequence[Choice]] | None,
        "One target for each token of the completion, instead of `target`.",
    ]
    sources: Annotated[
        SourceKind | Mapping[str, Sequence[int]] | Sequence[Mapping[str, Sequence[int]]] | None,
        'What of the prompt has a score, in the place of tokens: each "word", "sentence", "paragraph" or "message", or '
        "named spans (start, end) of its characters, in a list of messages (message, start, end), and regions of "
        "pictures as in `Attribution.group`. Perturbation methods leave out sources instead of tokens.",
    ]
    decoder_start_token_id: Annotated[int | None, "The decoder's first token, as in `generate`."]
    forced_bos_token_id: Annotated[
        int | None, "The token that `generate` forces behind it, such as the language of a translation."
    ]


class OfForwardPass(TypedDict, total=False):
    """Keywords of all calls that explain a forward pass."""

    target: Annotated[
        TargetSpec,
        "The name or index of a label, a token (without a leading space it starts a word) or a choice, the next words "
        "of a causal language model (of several tokens the sum is explained), `ALL` labels, "
        '"start" or "end" (of an answer), or a list of these; None for the prediction.',
    ]
    targets: Annotated[
        Sequence[Choice] | None,
        "One target for each input, instead of `target`. A column of a data set names its classes; its plain list is "
        "of the model's indices.",
    ]
    contrast: Contrast
    layers: OfLayers
    method: ByMethod
    position: AtPosition
    token_predictions: Annotated[
        bool | None, "Also report the head's prediction at each token; by default where the method reads it."
    ]


class Explain(OfForwardPass, total=False):
    """Keywords of a call, `explainer(inputs, ...)`."""

    verify: OfVerify
    long_text: OfLongText
    extra_inputs: ExtraInputs
    on_error: Annotated[
        Literal["raise", "keep"] | None,
        'Of several texts of which one cannot be explained "raise", the default, raises its error, and "keep" explains '
        "the others: in its place stands an `Unexplained`, whose `error` says what is wrong. The error is raised where "
        "it is of all texts.",
    ]
    progress: Annotated[
        bool | None, "Whether to show progress on standard error; by default after a second, in a log after ten."
    ]


OF_CORE = Explain.__optional_keys__ | ExplainCompletion.__optional_keys__ | {"completion"}
"""Arguments of the core's calls: no extension may name one as that by which `Explainer.without` knows its call."""


class Compare(TypedDict, total=False):
    """Keywords of `Explainer.compare`."""

    target: Annotated[Choice | None, "The name or index of a label or a token; None for the prediction."]
    contrast: Contrast
    position: AtPosition
    long_text: OfLongText
    extra_inputs: ExtraInputs
