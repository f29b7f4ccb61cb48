"""AttnLRP (Achtibat et al., ICML 2024), by its authors' package, beside methods of this package.

Its rules are patented and are not implemented here: the package `lxt` runs in an environment of its own, with the
transformers that it was made for, on the token ids of this package. What it returns is measured like any method.
"""

import json
import os
import subprocess
import sysconfig
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normxlogit import DataError, Explainer
from normxlogit.evaluation.datasets import Example
from normxlogit.evaluation.faithfulness import Faithfulness, measure_attributions, run_methods
from normxlogit.evaluation.gold_labels import checked_labels
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.statistics import mean_interval
from normxlogit.methods import Method

__all__ = ["NAME", "compare", "table"]

NAME = "attnlrp"
PACKAGES = ("lxt==2.1", "transformers==4.52.4", "tokenizers==0.21.4", "huggingface-hub==0.36.0")
AGREE = 1e-3
"""The largest difference of the logits with the package's rules and without them."""
CHECKOUT = Path(__file__).resolve().parents[1]


def compare(
    explainer: Explainer, folder: str, examples: Sequence[Example], methods: Sequence[Method], keep: Path | None = None
) -> list[Faithfulness]:
    """Measure the faithfulness of AttnLRP beside that of methods of this package.

    Args:
        explainer: The model, BERT with a classifier.
        folder: Where its files are.
        examples: Labelled texts.
        methods: The methods.
        keep: Where finished runs of these are kept.

    Raises:
        DataError: If the package cannot be installed or fails, or changes the model's logits.
    """
    results = run_methods(explainer, examples, methods, folder=keep)
    texts = [e.text for e in examples]
    plain = explainer(explainer.encode(texts))
    encodings = explainer.encode(texts)
    inputs_of_texts = [
        {"inputs": {name: list(values) for name, values in encoding.inputs.items()}, "label": result.prediction.id}
        for encoding, result in zip(encodings, plain, strict=True)
    ]
    with tempfile.TemporaryDirectory() as place:
        state = _computed(Path(place), folder, inputs_of_texts)
    difference = (torch.tensor(state["logits"]) - torch.tensor(state["plain logits"])).abs().max().item()
    if difference > AGREE:
        raise DataError(f"with lxt's rules the model has other logits: they differ by {difference:.2g}")
    scored = [
        replace(result, scores=np.array(scores, np.float32), method=NAME)
        for result, scores in zip(plain, state["scores"], strict=True)
    ]
    measured = measure_attributions(explainer, scored, checked_labels(explainer.task_model, examples), method=NAME)
    return [result for result in [*results, measured] if isinstance(result, Faithfulness)]


def table(results: Sequence[Faithfulness]) -> str:
    """Return a Markdown table of AOPC, and of the first method's less each other's, text by text.

    Args:
        results: What `compare` returns.
    """
    first = np.array(results[0].per_text)
    rows = []
    for result in results:
        mean, low, high = mean_interval(first - np.array(result.per_text))
        interval = "{:.3f} to {:.3f}".format(*result.aopc_interval)
        differences = [f"{mean:+.3f}", f"{low:+.3f} to {high:+.3f}"]
        rows.append([f"`{result.method}`", f"{result.aopc:.3f}", interval, *differences])
    columns = ["method", "AOPC ↑", "95% interval", f"`{results[0].method}` less it", "95% interval"]
    return markdown_table(columns, rows)


def _computed(place: Path, folder: str, texts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what `attnlrp_peer` writes, run in an environment that is made in a folder.

    Args:
        place: The folder.
        folder: Where the model's files are.
        texts: The inputs and the explained label of each text.
    """
    venv.create(place / "env", with_pip=True)
    python = str(place / "env/bin/python")
    site = Path(sysconfig.get_path("purelib", vars={"base": str(place / "env"), "platbase": str(place / "env")}))
    # torch, which is large, is not installed again: a .pth file adds this environment's packages behind the new ones.
    (site / "outside.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    _run([python, "-m", "pip", "install", "-q", "--no-deps", *PACKAGES])
    (place / "inputs.json").write_text(json.dumps(texts), encoding="utf-8")
    module = f"{__package__}.attnlrp_peer"
    _run([python, "-m", module, folder, str(place / "inputs.json"), str(place / "outputs.json")])
    outputs: dict[str, Any] = json.loads((place / "outputs.json").read_text(encoding="utf-8"))
    return outputs


def _run(command: list[str]) -> None:
    """Run a command.

    Raises:
        DataError: If it fails; it says the last line of its errors.
    """
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": str(torch.get_num_threads())}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603  # ours
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.strip()] or [f"exit code {ended.returncode}"]
        raise DataError(f"lxt: {lines[-1].strip()}")
