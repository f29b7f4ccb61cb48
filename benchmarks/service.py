"""The service of examples/service.py under concurrent clients: its answers, times and memory, beside bare passes."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from normxlogit import Explainer
from normxlogit.evaluation.report import markdown_table
from paper.costs.peak import Peak

__all__ = ["Served", "as_table", "serve"]

SERVICE = Path(__file__).parent.parent / "examples/service.py"
SLICES = 10
"""Parts of a run of which each has a peak of memory."""

TOLERANCE = 1e-4
"""By how much a score may differ from that of a single call."""


@dataclass(frozen=True)
class Served:
    """What clients saw of a service.

    Attributes:
        calls: "explanation", or "forward pass" for the service with nothing but the model's prediction.
        seconds: How long they asked.
        answers: Requests that were answered.
        refused: Requests that were not.
        wrong: Answers with another label than that of a single call, or another score.
        half: Seconds within which half of the requests were answered.
        most: The same of 99 in 100.
        first: Most memory of the process in the first tenth of the time, in MiB.
        last: The same in the last tenth.
    """

    calls: str
    seconds: float
    answers: int
    refused: int
    wrong: int
    half: float
    most: float
    first: float
    last: float


def serve(
    texts: Sequence[str],
    model: str | None = None,
    *,
    clients: int = 16,
    seconds: float = 600.0,
    on_progress: Callable[[str], None] | None = None,
) -> list[Served]:
    """Let clients ask the example's service without a pause, and again with bare passes for a fifth of the time.

    Args:
        texts: What they ask about, drawn at random.
        model: Folder of a classifier; the packaged one by default.
        clients: How many ask at once.
        seconds: How long.
        on_progress: Called with what is run next.
    """
    service = _of_example(model)
    explainer = service["explainer"]
    expected = {text: _words(explainer(text)) for text in texts}
    measured = []
    for name, calls, duration in (
        ("explanation", explainer, seconds),
        ("forward pass", _bare(explainer), seconds / 5),
    ):
        if on_progress is not None:
            on_progress(name)
        service["explainer"] = calls
        measured.append(asyncio.run(_ask(service, name, expected, clients, duration)))
    return measured


def as_table(measured: Sequence[Served]) -> str:
    """Return what clients saw in Markdown, a row for each kind of service."""
    columns = ["each request is", "answers", "refused", "wrong", "a second", "half within", "99% within", "memory"]
    rows = [
        [
            f"one {served.calls}",
            f"{served.answers:,}",
            f"{served.refused:,}",
            f"{served.wrong:,}",
            f"{served.answers / served.seconds:.0f}",
            f"{1000 * served.half:.0f} ms",
            f"{1000 * served.most:.0f} ms",
            f"{served.first:.0f} to {served.last:.0f} MiB",
        ]
        for served in measured
    ]
    return markdown_table(columns, rows)


def _of_example(model: str | None) -> dict[str, Any]:
    """Run the example's file for a model, and return what it defines, by name."""
    names: dict[str, Any] = {}
    if model is not None:
        os.environ["MODEL"] = model
    exec(compile(SERVICE.read_text(encoding="utf-8"), str(SERVICE), "exec"), names)  # noqa: S102
    return names


def _bare(explainer: Explainer) -> Callable[[Sequence[str]], list[Any]]:
    """Return what predicts texts in one forward pass, as results with a prediction and no words."""
    module: Any = explainer.model
    tokenizer = explainer.tokenizer

    def predict(texts: Sequence[str]) -> list[Any]:
        """Return what the service reads of an explanation."""
        with torch.inference_mode():
            logits = module(**tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")).logits
        probabilities, label_ids = logits.softmax(-1).max(-1)  # (B,) each
        results = []
        for probability, label_id in zip(probabilities.tolist(), label_ids.tolist(), strict=True):
            prediction = SimpleNamespace(label=module.config.id2label[label_id], probability=probability)
            results.append(SimpleNamespace(prediction=prediction, words=list, notes=()))  # `words()` is []
        return results

    return predict


def _words(result: Any) -> tuple[str, list[float]]:
    """Return the label of a result, and the scores of its words."""
    return result.prediction.label, [float(word.score) for word in result.words()]


async def _ask(
    service: dict[str, Any], calls: str, expected: dict[str, tuple[str, list[float]]], clients: int, seconds: float
) -> Served:
    """Let clients ask until the time is over, and compare what is answered.

    Args:
        service: What the example defines.
        calls: As in `Served`.
        expected: The label and the scores of a single call, by text.
        clients: How many ask at once.
        seconds: How long.
    """
    import httpx

    texts = list(expected)
    times: list[float] = []  # seconds of each answer
    tallies = {"refused": 0, "wrong": 0}
    peaks: list[float] = []  # of memory in each slice of the time, in MiB
    transport = httpx.ASGITransport(app=service["app"], raise_app_exceptions=False)

    async def client(number: int, http: httpx.AsyncClient, end: float) -> None:
        """Ask about one text after the other until a moment."""
        draw = random.Random(number)  # noqa: S311
        while time.monotonic() < end:
            text = draw.choice(texts)
            start = time.perf_counter()
            answer = await http.post("/explain", json={"text": text})
            if answer.status_code != 200:
                tallies["refused"] += 1
                continue
            times.append(time.perf_counter() - start)
            label, scores = expected[text]
            state = answer.json()
            answered_scores = [word["score"] for word in state["words"]]
            is_same = calls != "explanation" or (
                len(answered_scores) == len(scores) and np.allclose(answered_scores, scores, TOLERANCE, TOLERANCE)
            )
            tallies["wrong"] += not (is_same and state["label"] == label)

    async def ask(http: httpx.AsyncClient, end: float) -> None:
        """Let all clients ask until a moment."""
        await asyncio.gather(*(client(number, http, end) for number in range(clients)))

    lifespan = service["lifespan"](service["app"])
    async with lifespan, httpx.AsyncClient(transport=transport, base_url="http://service", timeout=60) as http:
        await ask(http, time.monotonic() + min(seconds / SLICES, 10.0))  # memory that the first requests take
        times.clear()
        tallies.update(refused=0, wrong=0)
        start = time.monotonic()
        for part in range(1, SLICES + 1):
            with Peak() as peak:
                await ask(http, start + seconds * part / SLICES)
            peaks.append((peak.before + peak.added) / 2**20)
        seconds_taken = time.monotonic() - start
    half, most = np.percentile(times, (50, 99)).tolist()
    return Served(
        calls,
        seconds=seconds_taken,
        answers=len(times),
        refused=tallies["refused"],
        wrong=tallies["wrong"],
        half=half,
        most=most,
        first=peaks[0],
        last=peaks[-1],
    )
