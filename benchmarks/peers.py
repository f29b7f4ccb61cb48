"""The same sentence, model and label through other packages, each in an environment of its own."""

import functools
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

import normxlogit
from normxlogit import Explainer, InputError
from normxlogit.evaluation.timing import Timing, in_turn, ratio
from normxlogit.loading.load import default_model_folder

from .peer import GRADIENT, INTEGRATED, STEPS, WORK
from .random_models import SMOLLM2, language_model

__all__ = ["OURS", "PEERS", "SENTENCE", "Compared", "as_table", "compare"]

SENTENCE = "The movie is mediocre, maybe even bad."
PEERS = tuple(WORK)
OURS = "normxlogit"
WRITERS = ("inseq",)
"""Packages that explain generated text only."""

BOUNDS = {"inseq": 50}
"""How many times faster than a package NormXLogit should be."""

CHECKOUT = Path(__file__).resolve().parents[1]
"""Where every environment finds this package."""

TIMEOUT = 1200
"""Seconds for an installation, and for a measurement."""


@dataclass(frozen=True)
class Compared:
    """One method of one package.

    Attributes:
        package: Its name.
        version: Its version, empty if it could not be installed.
        method: What it computed.
        work: On what.
        seconds: Median seconds, None if it does not run.
        forwards: The same in bare forward passes of the same process: what can be compared between processes.
        problem: Why it does not run.
    """

    package: str
    version: str
    method: str
    work: str
    seconds: float | None = None
    forwards: float | None = None
    problem: str = ""


@dataclass(frozen=True)
class _Task:
    """A model's folder and what it is to explain; with a completion, generated text."""

    folder: str
    text: str
    completion: str = ""
    name: str = field(default="")


def compare(
    packages: Sequence[str] = PEERS,
    *,
    model: str | Path | None = None,
    text: str = SENTENCE,
    rounds: int = 7,
    llama: dict[str, Any] | None = None,
    prompt: int = 256,
    generated: int = 64,
    on_progress: Callable[[str], None] | None = None,
) -> Iterator[Compared]:
    """Measure this package and others, one after the other.

    Args:
        packages: Which of `PEERS`.
        model: Folder of a sequence classifier; the model in the package by default.
        text: The sentence.
        rounds: Counted rounds; those of generated text are at most three.
        llama: Configuration of the language model for generated text, SmolLM2-135M's by default.
        prompt: Tokens before the generated ones.
        generated: Generated tokens.
        on_progress: Told what is being done.

    Yields:
        This package's rows first, on each of the two tasks as soon as it is needed.

    Raises:
        InputError: If there is no such package.
    """
    for package in packages:
        if package not in PEERS:
            raise InputError(f"no package {package!r} to compare with; there are {', '.join(PEERS)}")
    tell = on_progress or (lambda _: None)
    with tempfile.TemporaryDirectory() as model_folder:
        tasks: dict[bool, _Task] = {}  # by whether text is generated
        for package in packages:
            generates = package in WRITERS
            if generates not in tasks:
                tell("normxlogit")
                folder = str(model or default_model_folder())
                tasks[generates] = _Task(folder, text, name=f"{text!r}")
                if generates:
                    tasks[generates] = _generated_task(Path(model_folder), llama or SMOLLM2, prompt, generated)
                yield from _ours(tasks[generates], rounds)
            tell(package)
            yield from _theirs(package, tasks[generates], min(rounds, 3) if generates else rounds)


def _generated_task(folder: Path, llama: dict[str, Any], prompt: int, generated: int) -> _Task:
    """Write a language model of random weights into a folder, and return what it is to explain.

    Args:
        folder: The folder.
        llama: The model's configuration.
        prompt: Tokens before the generated ones.
        generated: Generated tokens.
    """
    model, tokenizer = language_model(llama | {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0})
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    name = f"{generated} generated tokens on {prompt}, SmolLM2-135M's shape"
    return _Task(str(folder), " ".join(["movie"] * (prompt - 1)), " ".join(["good"] * generated), name)


def _ours(task: _Task, rounds: int) -> Iterator[Compared]:
    """Measure this package's methods on a task, in this process."""
    kind = transformers.AutoModelForCausalLM if task.completion else transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(task.folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(task.folder)
    explainer = Explainer(model, tokenizer)
    inputs = tokenizer(f"{task.text} {task.completion}".strip(), return_tensors="pt")

    @torch.inference_mode()
    def forward() -> Any:
        return model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits

    def explain(method: str) -> Any:
        if task.completion:
            return explainer.explain_completion(task.text, f" {task.completion}", method=method)
        return explainer(task.text, method=method)

    methods = {OURS: OURS, "frozen gradient": "frozen-gradient"}
    if not task.completion:
        methods |= {GRADIENT: "gradient-x-input", INTEGRATED: f"integrated-gradients:steps={STEPS}"}
    sides = {name: functools.partial(explain, method) for name, method in methods.items()}
    times = in_turn({"forward": forward} | sides, rounds=rounds)
    for name in methods:
        passes = ratio(times[name], times["forward"])
        yield Compared(OURS, normxlogit.__version__, name, task.name, times[name].median, passes)


def _theirs(package: str, task: _Task, rounds: int) -> Iterator[Compared]:
    """Measure another package's methods on a task, in an environment of its own; or say why it does not run."""
    with tempfile.TemporaryDirectory() as folder:
        python, problem = _installed(package, Path(folder))
        if problem:
            yield Compared(package, "", "", task.name, problem=problem)
            return
        command = [python, "-m", f"{__package__}.peer", package, task.folder, task.text, task.completion, str(rounds)]
        state, problem = _output(command)
        if problem:
            yield Compared(package, "", "", task.name, problem=problem)
            return
    result = json.loads(state)
    bare = Timing("forward", tuple(result["forward"]))
    for method, seconds in result["methods"].items():
        times = Timing(method, tuple(seconds))
        yield Compared(package, result["version"], method, task.name, times.median, ratio(times, bare))


def _installed(package: str, folder: Path) -> tuple[str, str]:
    """Install a package beside this environment's torch and transformers, which the new one sees but does not hold.

    Returns:
        The new environment's Python, and what went wrong.
    """
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    site = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    outside = (sysconfig.get_path("purelib"), str(Path(normxlogit.__file__).resolve().parents[1]))
    (Path(site) / "outside.pth").write_text("\n".join(outside) + "\n", encoding="utf-8")
    pins = folder / "pins.txt"
    torch_version = torch.__version__.split("+")[0]
    pins.write_text(f"torch=={torch_version}\ntransformers=={transformers.__version__}\n", encoding="utf-8")
    _, problem = _output([str(python), "-m", "pip", "install", "-q", "-c", str(pins), package])
    return str(python), problem and f"cannot be installed: {problem}"


def _output(command: list[str]) -> tuple[str, str]:
    """Return the last line that a command prints, and the last line of its errors if it fails."""
    path = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    env = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads()), "PYTHONPATH": path}
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT, env=env)  # noqa: S603
    except subprocess.TimeoutExpired:
        return "", f"not done after {TIMEOUT} seconds"
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        return "", lines[-1].strip() if lines else f"exit code {ended.returncode}"
    return (ended.stdout.strip().splitlines() or [""])[-1], ""


def as_table(rows: Sequence[Compared]) -> str:
    """Return the rows in Markdown, beside this package on the same work."""
    lines = [
        "| package | method | on | time | forward passes | NormXLogit is faster by |",
        "|---|---|---|---:|---:|---:|",
    ]
    ours = {r.work: r.forwards for r in rows if r.method == OURS and r.forwards is not None}
    for r in rows:
        name = f"{r.package} {r.version}".strip()
        if r.seconds is None or r.forwards is None:
            lines.append(
                f"| {name} | does not run on transformers {transformers.__version__}: {r.problem} | {r.work} | | | |"
            )
            continue
        times = "" if r.package == OURS else f"{r.forwards / ours[r.work]:.1f}x"
        if (bound := BOUNDS.get(r.package)) is not None:
            times += f" (≥ {bound}: {'pass' if r.forwards / ours[r.work] >= bound else '**fail**'})"
        lines.append(f"| {name} | {r.method} | {r.work} | {r.seconds * 1e3:.4g} ms | {r.forwards:.2f} | {times} |")
    return "\n".join(lines) + "\n"
