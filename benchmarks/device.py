"""What explanations cost on a device, and whether their numbers are those of the CPU: a GPU is measured by one command.

Each section is a generator of rows. A section that raises an error is a row with its message, and the next one follows;
when the time is up, each section ends after its first row.
"""

import copy
import cProfile
import gc
import json
import pstats
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from transformers import BertForMaskedLM, PreTrainedModel

from normxlogit import Attribution, Explainer
from normxlogit.evaluation.timing import environment, in_turn
from normxlogit.loading.load import AUTO, device_named
from paper.costs.random_models import random_bert, reference_tokenizer
from tools.survey.base import build, stir, tokenizer_for
from tools.survey.signals import samples_for, unread

from .random_models import language_model

__all__ = ["SECTIONS", "Row", "Setup", "as_state", "heading", "line", "measure"]

METHODS = ("normxlogit", "frozen-gradient")
TEXTS = ["the movie is never bad , but the plot was awful !", "a great film"]
CONTINUATION = " never bad , but the plot was awful ."

TEXT_CLASSES = (
    ("sequence-classification", "bert"),
    ("sequence-classification", "deberta-v2"),
    ("sequence-classification", "t5gemma"),
    ("sequence-classification", "gpt2"),
    ("causal-lm", "llama"),
    ("causal-lm", "qwen3_moe"),
    ("causal-lm", "mamba"),
    ("causal-lm", "xlnet"),
)
SIGNAL_CLASSES = (
    ("image-classification", "resnet"),
    ("image-classification", "bit"),
    ("image-classification", "poolformer"),
    ("image-classification", "vit"),
    ("audio-classification", "wav2vec2-conformer"),
)
LLAMA_1B = {
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
}
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "hipStreamSynchronize")
COPIES = ("cudaMemcpyAsync", "hipMemcpyAsync")
ITEMS = ("aten::_local_scalar_dense", "aten::nonzero")
"""Operations that wait for the device on a GPU, and can be counted on any."""


@dataclass(frozen=True)
class Setup:
    """Sizes of the measurement; the defaults are for a GPU.

    Attributes:
        seconds: After so many, each section ends with its next row.
        classes: Classes of transformers that are compared with the CPU, (task, family).
        signals: The same of pictures and sounds.
        bert: Changes to the configuration of BERT-base.
        llama: The configuration of the causal language model.
        precisions: In which models are timed.
        shapes: Texts and tokens of each, as they are timed.
        prompts: Tokens of the prompts before a completion.
        generated: Tokens of the completion.
        texts: How many texts of a corpus.
        rounds: Counted rounds; one more comes before them.
    """

    seconds: float = 280
    classes: tuple[tuple[str, str], ...] = TEXT_CLASSES
    signals: tuple[tuple[str, str], ...] = SIGNAL_CLASSES
    bert: Mapping[str, Any] = field(default_factory=dict)
    llama: Mapping[str, Any] = field(default_factory=lambda: LLAMA_1B)
    precisions: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16)
    shapes: tuple[tuple[int, int], ...] = ((32, 128), (1, 502), (256, 128))
    prompts: tuple[int, ...] = (263, 1054)
    generated: int = 64
    texts: int = 4096
    rounds: int = 5

    @classmethod
    def small(cls) -> "Setup":
        """Return sizes that a CPU measures in seconds."""
        size = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48, "num_attention_heads": 2}
        return cls(
            classes=(("sequence-classification", "bert"), ("causal-lm", "llama")),
            signals=(("image-classification", "resnet"),),
            bert=size,
            llama=size | {"num_key_value_heads": 2},
            shapes=((4, 16), (1, 30)),
            prompts=(20,),
            generated=12,
            texts=24,
            rounds=1,
        )


@dataclass(frozen=True)
class Row:
    """One thing that was measured.

    Attributes:
        section: The section.
        case: What was run.
        figures: What was measured, by name.
        details: What only the file holds.
    """

    section: str
    case: str
    figures: Mapping[str, Any]
    details: Mapping[str, Any] = field(default_factory=dict)


def measure(setup: Setup, names: tuple[str, ...] = ()) -> Iterator[Row]:
    """Measure sections, one after the other.

    Args:
        setup: Sizes and rounds.
        names: Which of `SECTIONS`; all if none is named.
    """
    start = time.monotonic()
    for name in names or SECTIONS:
        began = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for row in SECTIONS[name](setup):
                    yield row
                    if time.monotonic() - start > setup.seconds:
                        yield Row(name, "not all measured", {"why": f"{setup.seconds:g} seconds are over"})
                        break
        except Exception as error:  # whatever it is, the other sections are measured
            yield _failed(name, "the section", error)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        yield Row(name, "took", {"seconds": round(time.monotonic() - began, 1)})


def heading() -> str:
    """Return the machine, and the head of the table."""
    described = ", ".join(f"{key}: {value}" for key, value in environment(device_named(AUTO)).items())
    return f"{described}\n\n| section | case | figures |\n|---|---|---|\n"


def line(row: Row) -> str:
    """Return a row of the table."""
    figures = ", ".join(f"{name} {_short(value)}" for name, value in row.figures.items())
    return f"| {row.section} | {row.case} | {figures} |"


def as_state(rows: list[Row]) -> dict[str, Any]:
    """Return the rows and the machine as plain values for JSON."""
    plain = json.loads(json.dumps([asdict(row) for row in rows], default=str))
    return {"environment": environment(device_named(AUTO)), "rows": plain}


def _short(value: Any) -> str:
    """Return a value as a cell of a Markdown table holds it."""
    return f"{value:.3g}" if isinstance(value, float) else str(value).replace("|", "/").replace("\n", " ")


def _failed(section: str, case: str, error: Exception) -> Row:
    """Return the row of an error, with its traceback as a detail."""
    message = f"{type(error).__name__}: {error}"
    return Row(section, case, {"error": message[:300]}, {"message": message, "traceback": traceback.format_exc()})


def _attempt(section: str, case: str, work: Callable[[], Mapping[str, Any] | tuple[Mapping[str, Any], ...]]) -> Row:
    """Return a row of the figures that some work returns, alone or with details, or of its error."""
    try:
        measured = work()
        return Row(section, case, *measured) if isinstance(measured, tuple) else Row(section, case, measured)
    except Exception as error:
        return _failed(section, case, error)


# --- the numbers ------------------------------------------------------------------------------------------------------


def _exactness(setup: Setup) -> Iterator[Row]:
    """Compare classes with the CPU: in float32 the scores, in bfloat16 their ranks."""
    device, threads = device_named(AUTO), torch.get_num_threads()
    torch.set_num_threads(min(4, threads))  # for tiny models more threads wait for each other
    try:
        for work, classes in ((_signal_class, setup.signals), (_text_class, setup.classes)):
            for task, family in classes:
                yield _attempt("exactness", f"{family}, {task}", partial(work, task, family, device))
    finally:
        torch.set_num_threads(threads)


def _text_class(task: str, family: str, device: torch.device) -> dict[str, Any]:
    """Compare explanations by a class of text models on a device with those on the CPU."""
    model, tokenizer = build(task, family), tokenizer_for(task, family)
    stir(model, 2.0)
    figures: dict[str, Any] = {}
    expected = _explanations(model, tokenizer, task)
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        for key, actual in _explanations(_moved(model, device, dtype), tokenizer, task).items():
            figures[f"{key} {name}"] = _compared(actual, expected[key], ranks=dtype is torch.bfloat16)
    return figures


def _signal_class(task: str, family: str, device: torch.device) -> dict[str, Any]:
    """Compare explanations by a class of models of pictures or sounds on a device with those on the CPU."""
    model = build(task, family)
    stir(model, 2.0)
    samples = samples_for(model)
    inputs = {model.main_input_name: samples}
    figures: dict[str, Any] = {}
    on_device = _moved(model, device)
    moved = {model.main_input_name: samples.to(device)}
    with torch.no_grad():
        figures["logits fp32"] = _difference(on_device(**moved).logits, model(**inputs).logits)
    for method in METHODS:
        expected = _result(lambda: Explainer(model, unread)(inputs, method=method)[0])  # noqa: B023
        actual = _result(lambda: Explainer(on_device, unread)(moved, method=method)[0])  # noqa: B023
        figures[f"{method} fp32"] = _compared(actual, expected, ranks=False)
    return figures


def _moved(model: Any, *place: Any) -> Any:
    """Return a copy of a model on a device or in a precision."""
    return copy.deepcopy(model).to(*place)


def _explanations(model: PreTrainedModel, tokenizer: Any, task: str) -> dict[str, Attribution | str]:
    """Return explanations of a text that is beside another one, and of a completion, or why there is none."""
    explainer = Explainer(model, tokenizer)
    results = {method: _result(lambda: explainer(TEXTS, method=method)[0]) for method in METHODS}  # noqa: B023
    if task == "causal-lm":
        results["completion"] = _result(lambda: explainer.explain_completion("the movie is", CONTINUATION))
    return results


def _result(call: Callable[[], Attribution]) -> Attribution | str:
    """Return the explanation that a call gives, or its error."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:160]}"


def _compared(actual: Attribution | str, expected: Attribution | str, *, ranks: bool) -> Any:
    """Return how much scores differ relative to the largest, or the rank correlation; or the error of one side."""
    if isinstance(actual, str):
        return "refused as on the CPU" if actual == expected else actual
    if isinstance(expected, str):
        return f"on the CPU {expected}"
    compare = _rank_correlation if ranks else _difference
    return compare(actual.scores, expected.scores)


def _difference(actual: Any, expected: Any) -> float:
    """Return the largest difference of values, relative to the largest expected one."""
    left, right = (torch.as_tensor(values).detach().cpu().double() for values in (actual, expected))
    return float((left - right).abs().max() / right.abs().max())


def _rank_correlation(actual: Any, expected: Any) -> float:
    """Return Spearman's rank correlation of values."""
    left, right = (np.ravel(values).argsort().argsort().astype(float) for values in (actual, expected))
    return float(np.corrcoef(left, right)[0, 1])


@contextmanager
def _matmul_precision(name: str) -> Iterator[None]:
    """Set torch's precision of products of float32 matrices: "highest", or with TF32 "high" or "medium"."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _arithmetic(setup: Setup) -> Iterator[Row]:
    """Compare TF32 with the CPU's float32: neither may be taken for a model that reads texts by their batch."""
    device, tokenizer = device_named(AUTO), reference_tokenizer()
    size = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    torch.manual_seed(0)
    bert = random_bert(size | dict(setup.bert), device="cpu")
    llama = language_model(size | dict(setup.bert) | {"num_key_value_heads": 2})[0].cpu()
    for model in (bert, llama):
        stir(model, 2.0)
    texts = _texts(tokenizer, [40, 9, 23, 90])
    expected = {method: Explainer(bert, tokenizer)(texts, method=method) for method in METHODS}
    completed = Explainer(llama, tokenizer).explain_completion(texts[0], " " + texts[1])
    for precision in ("highest", "high", "medium"):
        with _matmul_precision(precision):
            explainer = Explainer(_moved(bert, device), tokenizer)
            for method in METHODS:

                def classified(method: str = method, explainer: Explainer = explainer) -> dict[str, Any]:
                    pairs = zip(explainer(texts, method=method), expected[method], strict=True)
                    differences = [_difference(actual.scores, on_cpu.scores) for actual, on_cpu in pairs]
                    return {"largest difference": max(differences)}

                yield _attempt("arithmetic", f"BERT, {precision}, {method}", classified)

            def completion() -> dict[str, Any]:
                moved = Explainer(_moved(llama, device), tokenizer)
                scores = moved.explain_completion(texts[0], " " + texts[1]).scores
                return {"largest difference": _difference(scores, completed.scores)}

            yield _attempt("arithmetic", f"Llama, {precision}, completion", completion)


# --- times ------------------------------------------------------------------------------------------------------------


def _texts(tokenizer: Any, lengths: list[int]) -> list[str]:
    """Draw texts of random words that are tokens, of some lengths in tokens with two special ones."""
    words = sorted(piece for piece in tokenizer.get_vocab() if piece.isalpha() and len(piece) > 2)
    draw = np.random.default_rng(0)
    return [" ".join(draw.choice(words, max(1, length - 2))) for length in lengths]


def _bert(setup: Setup, dtype: torch.dtype, kind: Any = None) -> Any:
    """Return a BERT of random weights on the device: a classifier, or of another class of transformers."""
    torch.manual_seed(0)
    model = random_bert(setup.bert) if kind is None else random_bert(setup.bert, kind)
    stir(model.cpu(), 1.0)
    return model.to(device_named(AUTO), dtype).requires_grad_(False)


def _times(rounds: int, sides: Mapping[str, Callable[[], Any]], unit: str) -> dict[str, Any]:
    """Time sides in turn and measure their memory: milliseconds, and multiples of one of them.

    Args:
        rounds: Counted rounds.
        sides: What is called, by name.
        unit: The name of the side whose time the others are multiples of.
    """
    peaks = {name: _peak(side) for name, side in sides.items()}
    working = {name: side for name, side in sides.items() if not isinstance(peaks[name], str)}
    seconds = {name: timing.median for name, timing in in_turn(working, rounds=rounds, warmup=1).items()}
    times = {f"{name} ms": 1e3 * value for name, value in seconds.items()}
    multiples = {f"{name} x": value / seconds[unit] for name, value in seconds.items() if name != unit}
    return times | multiples | {f"{name} MiB": value for name, value in peaks.items() if value is not None}


def _peak(side: Callable[[], Any]) -> int | str | None:
    """Return the memory that a second call takes beside what is there, in MiB; its error, or None if not counted."""
    try:
        side()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if not torch.cuda.is_available():
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    side()
    torch.cuda.synchronize()
    return round((torch.cuda.max_memory_allocated() - before) / 2**20)


def _classification(setup: Setup) -> Iterator[Row]:
    """Time explanations of a BERT beside the bare pass over tensors that are there, and the bare gradient."""
    tokenizer = reference_tokenizer()
    tokenizer.model_max_length = 512
    for dtype in setup.precisions:
        model = _bert(setup, dtype)
        explainer = Explainer(model, tokenizer)
        for count, length in setup.shapes:
            texts: Any = _texts(tokenizer, [length] * count)
            inputs = dict(tokenizer(texts, return_tensors="pt", padding=True).to(model.device))
            explained = texts[0] if count == 1 else texts
            sides: dict[str, Callable[[], Any]] = {
                "bare pass": partial(_forward, model, inputs),
                "bare gradient": partial(_gradient, model, inputs),
                **{method: partial(explainer, explained, method=method) for method in METHODS},
            }
            case = f"BERT-base, {_name(dtype)}, {count} x {inputs['input_ids'].shape[1]} tokens"
            yield _attempt("classification", case, partial(_times, setup.rounds, sides, "bare pass"))


@torch.inference_mode()
def _forward(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> Tensor:
    """Return the logits of a bare forward pass."""
    logits: Tensor = model(**inputs).logits
    return logits


def _gradient(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> None:
    """Backpropagate from the largest logit of each text to its word embeddings."""
    leaf = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
    others = {name: value for name, value in inputs.items() if name != "input_ids"}
    logits = model(inputs_embeds=leaf, **others).logits
    torch.autograd.grad(logits.float().amax(-1).sum(), leaf)


def _name(dtype: torch.dtype) -> str:
    """Return the short name of a precision."""
    return {"float32": "fp32", "bfloat16": "bf16"}[str(dtype).removeprefix("torch.")]


def _completions(setup: Setup) -> Iterator[Row]:
    """Time the explanation of a completion beside one bare pass over prompt and completion."""
    device = device_named(AUTO)
    dtype = torch.bfloat16 if device.type != "cpu" else torch.float32
    torch.manual_seed(0)
    changes = {"vocab_size": 32000, **setup.llama, "dtype": str(dtype).removeprefix("torch.")}
    model: Any
    model, tokenizer = language_model(changes)
    model.requires_grad_(False)
    explainer = Explainer(model, tokenizer)
    words = _texts(tokenizer, [setup.generated // 3] * 3)
    completion = " " + " ".join(f"{part} ." for part in words)
    for length in setup.prompts:
        prompt = _texts(tokenizer, [length])[0]
        explained = explainer.explain_completion(prompt, completion, method="normxlogit")
        ids = torch.tensor([explained.token_ids], device=device)
        generated = len(explained.targets)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        before = {name: value[:, :-generated] for name, value in inputs.items()}
        new = {"do_sample": False, "max_new_tokens": generated, "min_new_tokens": generated}
        sides: dict[str, Callable[[], Any]] = {
            "bare pass": partial(_forward, model, inputs),
            "bare generate": partial(model.generate, **before, **new, pad_token_id=0),
            "next token": partial(explainer, prompt, method="frozen-gradient"),
            "generate": partial(explainer.generate, prompt, **new),
            "normxlogit": partial(explainer.explain_completion, prompt, completion, method="normxlogit"),
        }
        for name, parts in (("tokens", None), ("sentences", "sentence")):
            sides[name] = partial(explainer.explain_completion, prompt, completion, parts=parts)
        case = f"Llama 1B, {_name(dtype)}, {generated} tokens after {ids.shape[1] - generated}"
        yield _attempt("completions", case, partial(_times, min(setup.rounds, 3), sides, "bare pass"))
        counted = {name: _passes(model, sides[name]) for name in ("next token", "generate", "normxlogit")}
        yield Row("completions", f"{case}: forward passes", counted)


def _passes(model: PreTrainedModel, side: Callable[[], Any]) -> Any:
    """Count how often the layers of a model are run in a call: every copy of it shares the modules' classes."""
    layer = type(model.get_decoder().layers[0])
    calls = 0
    forward = layer.forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        """Count a call of a layer, and call it."""
        nonlocal calls
        calls += 1
        return forward(*args, **kwargs)

    layer.forward = counted
    try:
        side()
    except Exception as error:
        return type(error).__name__
    finally:
        layer.forward = forward
    return calls / len(model.get_decoder().layers)


def _corpora(setup: Setup) -> Iterator[Row]:
    """Measure texts a second beside bare passes over batches that are tokenised, padded and warm."""
    tokenizer = reference_tokenizer()
    tokenizer.model_max_length = 512
    device = device_named(AUTO)
    dtype = torch.bfloat16 if device.type != "cpu" else torch.float32
    model = _bert(setup, dtype)
    lengths = np.random.default_rng(0).integers(20, 128, setup.texts).tolist()
    texts = _texts(tokenizer, lengths)
    ordered = [texts[place] for place in np.argsort(lengths)]  # so that batches have little padding
    step = min(64, len(texts))

    def tokenise() -> list[dict[str, Tensor]]:
        """Return the inputs of each batch."""
        parts = (ordered[start : start + step] for start in range(0, len(ordered), step))
        return [dict(tokenizer(part, padding=True, return_tensors="pt")) for part in parts]

    groups = tokenise()

    def bare() -> None:
        """Pass all batches through the model."""
        for group in groups:
            _forward(model, {name: value.to(device) for name, value in group.items()}).cpu()

    explainer = Explainer(model, tokenizer)
    for method in (None, *METHODS):  # the parts and proofs of each
        explainer(texts[: 2 * step], method=method)
    rates = {}
    sides: dict[str, Callable[[], Any]] = {"bare pass": bare, "tokenizer": tokenise}
    sides |= {method: partial(explainer, texts, method=method) for method in METHODS}
    for name, side in sides.items():
        rounds = 2 if name == "bare pass" else 1
        rates[name] = len(texts) / in_turn({name: side}, rounds=1, warmup=rounds - 1)[name].median
    case = f"BERT-base, {_name(dtype)}, {len(texts)} texts of 20 to 127 tokens"
    shares = {f"{name} / bare pass": rates[name] / rates["bare pass"] for name in METHODS}
    yield Row("corpora", case, {f"{name} texts/s": rate for name, rate in rates.items()} | shares)


# --- where the time goes ----------------------------------------------------------------------------------------------


def _profiles(setup: Setup) -> Iterator[Row]:
    """Count launches, copies and waits of one call, and the share of its time in which the device works."""
    tokenizer = reference_tokenizer()
    tokenizer.model_max_length = 512
    device = device_named(AUTO)
    dtype = torch.bfloat16 if device.type != "cpu" else torch.float32
    model = _bert(setup, dtype)
    explainer = Explainer(model, tokenizer)
    for count, length in setup.shapes[:2]:
        texts = _texts(tokenizer, [length] * count)
        inputs = dict(tokenizer(texts, return_tensors="pt", padding=True).to(device))
        sides: dict[str, Callable[[], Any]] = {
            "bare pass": partial(_forward, model, inputs),
            "bare gradient": partial(_gradient, model, inputs),
            **{method: partial(explainer, texts, method=method) for method in METHODS},
        }
        for name, side in sides.items():
            yield _attempt("profile", f"{name}, BERT-base, {_name(dtype)}, {count} x {length}", partial(_profile, side))
    torch.manual_seed(0)
    model, tokenizer = language_model({**setup.llama, "dtype": str(dtype).removeprefix("torch.")})
    explainer = Explainer(model.requires_grad_(False), tokenizer)
    prompt, completion = _texts(tokenizer, [setup.prompts[0], setup.generated])
    case = f"completion, Llama 1B, {_name(dtype)}, {setup.generated} tokens after {setup.prompts[0]}"
    side = partial(explainer.explain_completion, prompt, f" {completion}")
    yield _attempt("profile", case, partial(_profile, side))


def _profile(side: Callable[[], Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return figures and details of one call, by the profilers of torch and Python and by torch's warnings of waits."""
    for _ in range(2):
        side()
    wall = in_turn({"side": side}, rounds=3, warmup=1)["side"].median
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
    with profile(activities=activities) as profiled:
        side()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    events = profiled.key_averages()
    counts = Counter({event.key: event.count for event in events})
    kernels = [event for event in events if str(event.device_type).endswith(("CUDA", "HIP"))]
    busy = sum(event.self_device_time_total for event in kernels) / 1e6  # microseconds
    launches = sum(count for key, count in counts.items() if "Launch" in key and key.startswith(("cu", "hip")))
    figures = {
        "wall ms": 1e3 * wall,
        "device ms": 1e3 * busy,
        "device busy": busy / wall,
        "launches": launches,
        "copies": sum(counts[key] for key in COPIES),
        "waits": sum(counts[key] for key in WAITS),
        "item() and nonzero": sum(counts[key] for key in ITEMS),
        "operations": sum(count for key, count in counts.items() if key.startswith("aten::")),
    }
    python = cProfile.Profile()
    python.runcall(side)
    details = {
        "waits at": _waits(side),
        "kernels": _largest(kernels, lambda event: event.self_device_time_total),
        "operations": _largest(events, lambda event: event.self_cpu_time_total),
        "python": _functions(python),
    }
    return figures, details


def _largest(events: Any, size: Callable[[Any], float], most: int = 15) -> list[tuple[str, float, int]]:
    """Return the events that take longest, with milliseconds and calls."""
    ordered = sorted(events, key=size, reverse=True)[:most]
    return [(event.key[:80], round(size(event) / 1e3, 3), event.count) for event in ordered]


def _functions(python: cProfile.Profile, most: int = 30) -> list[tuple[str, int, float, float]]:
    """Return the Python functions that take longest by themselves: calls, own and whole milliseconds."""
    stats: dict[Any, Any] = pstats.Stats(python).stats  # type: ignore[attr-defined]
    ordered = sorted(stats.items(), key=lambda item: -item[1][2])[:most]
    return [
        (f"{'/'.join(path.split('/')[-2:])}:{number} {name}", calls, round(1e3 * own, 2), round(1e3 * whole, 2))
        for (path, number, name), (_, calls, own, whole, _) in ordered
    ]


def _waits(side: Callable[[], Any]) -> dict[str, int]:
    """Return the lines at which a call waits for the device, with how often."""
    if not torch.cuda.is_available():
        return {}
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            side()
    finally:
        torch.cuda.set_sync_debug_mode(before)
    places = Counter(
        f"{'/'.join(w.filename.split('/')[-2:])}:{w.lineno}" for w in caught if "synchron" in str(w.message)
    )
    return dict(places.most_common())


def _first_calls(setup: Setup) -> Iterator[Row]:
    """Measure the first call, which finds the parts of a model and proves them, beside the bare pass."""
    tokenizer = reference_tokenizer()
    for kind in (None, BertForMaskedLM):
        model = _bert(setup, torch.float32, kind)
        text = "the movie is [MASK] bad" if kind else "the movie is never bad"
        inputs = dict(tokenizer(text, return_tensors="pt").to(model.device))
        sides: dict[str, Callable[[], Any]] = {"bare pass": partial(_forward, model, inputs)}
        for method in METHODS:
            sides[method] = partial(_explain_anew, model, tokenizer, text, method)
        case = f"{type(model).__name__}, {inputs['input_ids'].shape[1]} tokens"
        yield _attempt("first call", case, partial(_times, setup.rounds, sides, "bare pass"))


def _explain_anew(model: Any, tokenizer: Any, text: str, method: str) -> Any:
    """Explain a text by a new explainer, which knows nothing of the model yet."""
    return Explainer(model, tokenizer)(text, method=method)


SECTIONS: dict[str, Callable[[Setup], Iterator[Row]]] = {
    "arithmetic": _arithmetic,
    "classification": _classification,
    "profile": _profiles,
    "completions": _completions,
    "corpora": _corpora,
    "exactness": _exactness,
    "first call": _first_calls,
}
"""Sections by name, in the order in which they are measured."""
