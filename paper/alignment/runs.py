"""Runs of the alignment experiment on models before and after fine-tuning, which can be stopped and gone on with."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from normxlogit.errors import UnsupportedModelError
from normxlogit.evaluation.faithfulness import Protocol
from normxlogit.evaluation.runs import ResultCache, under
from normxlogit.explainer import Explainer
from normxlogit.inputs.encoder import Encoder
from normxlogit.methods import Method, method_named
from normxlogit.models.model_digest import model_digest
from normxlogit.models.task_model import TaskModel
from normxlogit.tasks import TaskName

from ..blimp import Counts
from ..minimal_pairs import Item
from ..tables import published
from .measures import METHODS, Alignment, accuracy, align, normalisation_of, title_of

__all__ = ["STATES", "Study", "paper_methods", "published_studies", "run_studies"]

STATES = ("pretrained", "fine-tuned")
"""What a model is called before and after."""

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
        model = explainer._model
        items, counts = read(model.encoder, model.task.name)
        cache = ResultCache(folder, [model_digest(explainer._model), _described(items), protocol], Alignment)
        alignments: list[Alignment] = []
        missing: dict[str, str] = {}
        for method in methods:
            step = under(name, on_progress)
            probes = list(words) if method.info.name == "logat" else []
            key = (f"alignment-{method.info.name}", method.settings, probes)
            state = cache.get(*key)
            if state is not None and step is not None:
                step(method.spec, len(items), len(items))
            if state is None:
                state = cache.put(_measured(model, items, method, probes, protocol, step), *key)
            if "missing" in state:
                missing[method.spec] = state["missing"]
            alignments += [_alignment(entry) for entry in state.get("series", ())]
        right = cache.get("alignment-accuracy")
        if right is None:
            measured = {group: list(shares) for group, shares in accuracy(model, items).items()}
            right = cache.put(measured, "alignment-accuracy")
        shares = {group: tuple(values) for group, values in right.items()}
        studies.append(Study(name, tuple(alignments), missing, shares, counts.state()))
    return studies


def _measured(
    model: TaskModel,
    items: Sequence[Item],
    method: Method,
    words: Sequence[str],
    protocol: Protocol,
    on_progress: Callable[[str, int, int], None] | None,
) -> dict[str, Any]:
    """Return the series of one method, or why there is none (the paper's N/A)."""
    try:
        alignments = align(model, items, method, words=words, protocol=protocol, on_progress=on_progress)
    except UnsupportedModelError as error:
        if on_progress is not None:
            on_progress(method.spec, len(items), len(items))
        return {"missing": str(error)}
    return {"series": [asdict(a) for a in alignments]}


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


def _alignment(state: Mapping[str, Any]) -> Alignment:
    return Alignment(
        state["title"],
        state["method"],
        tuple(state["layers"]),
        _tuples(state["figures"]),
        _tuples(state["errors"]),
        state["count"],
    )


def _tuples(table: Mapping[str, Mapping[str, Iterable[float]]]) -> dict[str, dict[str, tuple[float, ...]]]:
    return {group: {metric: tuple(values) for metric, values in metrics.items()} for group, metrics in table.items()}


def _described(items: Iterable[Item]) -> list[Any]:
    return [[i.group, i.encoding.ids, i.encoding.position, i.target, i.foil, i.evidence] for i in items]
