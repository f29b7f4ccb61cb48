"""Runs of the alignment experiment on models before and after fine-tuning, which can be stopped and gone on with."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from normxlogit.errors import UnsupportedModelError
from normxlogit.evaluation.options import Protocol
from normxlogit.evaluation.runs import OnProgress, Refused, ResultCache, under
from normxlogit.explainer import Explainer
from normxlogit.inputs.encoder import Encoder
from normxlogit.methods import Method, method_named
from normxlogit.model.task_model import TaskModel
from normxlogit.tasks import TaskName

from ..blimp import Counts
from ..minimal_pairs import Item
from ..tables import published
from .measures import METHODS, Alignment, accuracy, align, normalisation_of, title_of

__all__ = ["STATES", "Study", "paper_methods", "published_studies", "run_studies"]

STATES = ("pretrained", "fine-tuned")
"""What a model is called before and after."""

Shares = Mapping[str, tuple[float, ...]]
"""How often the target's logit is above the foil's, for "all" and each group, by layer."""

PairReader = Callable[[Encoder, TaskName], tuple[list[Item], Counts]]


@dataclass(frozen=True)
class Study:
    """The results on one model.

    Attributes:
        name: What to call it.
        alignments: One for each series of scores.
        missing: Series that the model does not allow, with the reason.
        accuracy: How often the target's logit is above the foil's, for "all" and each paradigm, by layer.
        counts: What became of the rows, by paradigm; empty for published figures.
    """

    name: str
    alignments: tuple[Alignment, ...]
    missing: Mapping[str, str]
    accuracy: Mapping[str, tuple[float, ...]]
    counts: Mapping[str, Any]


def paper_methods() -> list[Method]:
    """Return the paper's methods."""
    return [method_named(name) for name in METHODS]


def run_studies(
    models: Sequence[tuple[str, str]],
    methods: Sequence[Method],
    read: PairReader,
    *,
    folder: Path | None = None,
    words: Sequence[str] = (),
    protocol: Protocol = "default",
    on_progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> list[Study]:
    """Measure methods on models; results that are in the folder already are read from there.

    Args:
        models: What to call each model, and its name or folder.
        methods: What to measure.
        read: Encodes the pairs for a model: called with its encoder and its task.
        folder: Where finished results are kept, each written whole or not at all; None keeps nothing.
        words: See `paper.alignment.measures.align`.
        protocol: See `paper.alignment.measures.align`.
        on_progress: Called with a line that says what is running, sentences done and sentences in all.
        **options: Passed to `Explainer.from_pretrained`.

    Raises:
        DataError: If there is no data or no parser, or a model can read none of the pairs.
        TargetError: If a word is not one token of a model.
        UnsupportedModelError: If a model is not a language model, or has no mask.
    """
    studies = []
    for name, source in models:
        explainer = Explainer.from_pretrained(source, **options)
        model = explainer.task_model
        items, counts = read(model.encoder, model.task.name)
        shared = [_described(items), protocol]
        cache = ResultCache[tuple[Alignment, ...] | Refused](folder, model, shared, tuple[Alignment, ...] | Refused)
        alignments: list[Alignment] = []
        missing: dict[str, str] = {}
        for method in methods:
            step = under(name, on_progress)
            probes = list(words) if method.info.name == "logat" else []
            work = partial(_measured, model, items, method, probes, protocol, step)
            result = cache.cached(work, f"alignment-{method.info.name}", method.settings, probes)
            if step is not None:
                step(method.spec, len(items), len(items))
            if isinstance(result, Refused):
                missing[method.spec] = result.reason
            else:
                alignments += result
        right = ResultCache[Shares](folder, model, shared, Shares)
        shares = right.cached(partial(accuracy, model, items), "alignment-accuracy")
        studies.append(Study(name, tuple(alignments), missing, shares, counts.state()))
    return studies


def _measured(
    model: TaskModel,
    items: Sequence[Item],
    method: Method,
    words: Sequence[str],
    protocol: Protocol,
    on_progress: Callable[[str, int, int], None] | None,
) -> tuple[Alignment, ...] | Refused:
    """Return the series of one method, or why there is none (the paper's N/A)."""
    try:
        return tuple(align(model, items, method, words=words, protocol=protocol, on_progress=unfinished(on_progress)))
    except UnsupportedModelError as error:
        return Refused(method.spec, str(error))


def unfinished(on_progress: OnProgress | None) -> OnProgress:
    """Return a progress function that drops the last step, which is reported when the result is stored."""

    def step(what: str, done: int, total: int) -> None:
        if on_progress is not None and done < total:
            on_progress(what, done, total)

    return step


def published_studies() -> list[Study]:
    """Return the paper's figures of RoBERTa-base in the same form, as far as they were released."""
    released = published()["alignment_roberta_per_layer"]
    metrics = ("dot_product", "average_precision")
    studies = []
    for key, state in zip(("pretrained", "finetuned"), STATES, strict=True):
        series: dict[str, dict[str, tuple[float, ...]]] = {}
        for metric in metrics:
            for method, values in released[metric][key].items():
                series.setdefault(method, {})[metric] = tuple(values)
        alignments = [_released(method, values, tuple(range(1, 13))) for method, values in series.items()]
        if state == STATES[0]:
            norm, plural = released["input_norm_layer0"], released["logat_plural_layer7"]
            alignments.append(_released("input-norm", {m: (norm[m],) for m in metrics}, (0,)))
            alignments.append(_released("logat", {m: (plural[m],) for m in metrics}, (7,), "plural"))
        share = released["target_vs_foil_accuracy"][key]
        studies.append(Study(f"published, RoBERTa-base, {state}", tuple(alignments), {}, {"all": (share,)}, {}))
    return studies


def _released(
    method: str, values: Mapping[str, tuple[float, ...]], layers: tuple[int, ...], probe: str = ""
) -> Alignment:
    figures = {normalisation_of(method): values["dot_product"], "average_precision": values["average_precision"]}
    return Alignment(title_of(method, probe), method, layers, {"all": figures}, {}, {})


def _described(items: Iterable[Item]) -> list[Any]:
    return [[i.group, i.encoding.ids, i.encoding.position, i.target, i.foil, i.evidence] for i in items]
