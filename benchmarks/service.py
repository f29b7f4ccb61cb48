"""The service of examples/service.py under concurrent clients: its answers, times and memory, beside bare passes."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
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
            f"one {one.calls}",
            f"{one.answers:,}",
            f"{one.refused:,}",
            f"{one.wrong:,}",
            f"{one.answers / one.seconds:.0f}",
            *(f"{1000 * part:.0f} ms" for part in (one.half, one.most)),
            f"{one.first:.0f} to {one.last:.0f} MiB",
        ]
        for one in measured
    ]
    return markdown_table(columns, rows)


def _of_example(model: str | None) -> dict[str, Any]:
    """Return the names of the example, for a model."""
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
        with torch.inference_mode():
            logits = module(**tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")).logits
        best, labels = logits.softmax(-1).max(-1)
        names = [module.config.id2label[i] for i in labels.tolist()]
        predictions = [SimpleNamespace(label=name, probability=p) for name, p in zip(names, best.tolist(), strict=True)]
        return [SimpleNamespace(prediction=prediction, words=list, notes=()) for prediction in predictions]

    return predict


def _words(result: Any) -> tuple[str, list[float]]:
    return result.prediction.label, [float(word.score) for word in result.words()]


async def _ask(
    service: dict[str, Any], calls: str, expected: dict[str, tuple[str, list[float]]], clients: int, seconds: float
) -> Served:
    """Let clients ask until the time is over, and compare what is answered."""
    import httpx

    texts, times, tallies = list(expected), [], dict.fromkeys(("refused", "wrong"), 0)
    peaks: list[float] = []
    transport = httpx.ASGITransport(app=service["app"], raise_app_exceptions=False)

    async def client(number: int, http: httpx.AsyncClient, end: float) -> None:
        draw = random.Random(number)  # noqa: S311
        for _ in count():
            if time.monotonic() >= end:
                return
            text, start = draw.choice(texts), time.perf_counter()
            answer = await http.post("/explain", json={"text": text})
            if answer.status_code != 200:
                tallies["refused"] += 1
                continue
            times.append(time.perf_counter() - start)
            label, scores = expected[text]
            state = answer.json()
            given = [word["score"] for word in state["words"]]
            is_same = calls != "explanation" or (
                len(given) == len(scores) and np.allclose(given, scores, TOLERANCE, TOLERANCE)
            )
            tallies["wrong"] += not (is_same and state["label"] == label)

    async def ask(http: httpx.AsyncClient, end: float) -> None:
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
        taken = time.monotonic() - start
    half, most = np.percentile(times, (50, 99)).tolist()
    return Served(calls, taken, len(times), tallies["refused"], tallies["wrong"], half, most, peaks[0], peaks[-1])
