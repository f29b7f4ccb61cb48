"""The work of the app: from typed values to a page and a JSON document, without the browser."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from ..errors import InputError, NormXLogitError, UnsupportedModelError
from ..evaluation.deletion import DeletionCurve, deletion_curve
from ..explainer import Explainer
from ..loading.load import synchronise
from ..loading.local_models import SMALL
from ..methods import Method
from ..render.builders.collection import results_page
from ..render.builders.curves import Curve
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..results.storage.files import json_text
from ..tasks.targets import ALL, typed_targets
from .limits import LIMITS, Limits
from .models import LoadedModels

QUICK = 0.5
"""A method is timed again if it takes at most this many seconds, as the first run includes preparations."""

ROUNDS = 3
"""Runs of a method; the fastest one counts, as other users' requests may slow down some."""

VERIFIED = 5
"""Words that are removed to verify an explanation by one method."""

DIVIDER = "---"
"""The line between two documents."""


T = TypeVar("T")


class Shown(NamedTuple):
    """An answer for the browser.

    Attributes:
        page: A self-contained HTML page.
        json: The result as JSON, which the library loads.
        notes: Notes on what is not shown, such as a method that does not work on the model.
    """

    page: str
    json: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class App:
    """Everything that the page asks for.

    Attributes:
        models: The loaded models.
        limits: The limits of a request.
    """

    models: LoadedModels
    limits: Limits = LIMITS

    def labels(self, model: str | None) -> list[str]:
        """Return the labels of a model; none of a language model, whose targets are tokens."""
        task = self.models(model)._model.task
        return [] if task.vocabulary else list(task.labels)

    def explain(
        self,
        text: str | None,
        pair: str | None = None,
        *,
        model: str | None = None,
        methods: Sequence[str] = ("frozen-gradient",),
        targets: Sequence[str] = (),
        contrast: str | None = None,
        every_layer: bool = False,
        words: bool = True,
        leave_out: str | None = None,
    ) -> Shown:
        """Explain a text by one or several methods.

        Args:
            text: The text.
            pair: The second text of a pair; empty for none.
            model: Name or folder; empty for the app's own.
            methods: Names with settings.
            targets: Labels or tokens; empty for the prediction.
            contrast: A label or token to subtract; empty for none.
            every_layer: Whether to give scores for each layer.
            words: Whether to show words, where they can be told, or tokens.
            leave_out: Words to leave out, separated by commas; empty for those of the highest scores.

        Raises:
            NormXLogitError: If something typed does not fit; of several methods, if none works on the model.
        """
        method_list = self.limits.chosen(methods)
        model_input: Any = self.limits.text(text)
        if pair and pair.strip():
            model_input = (model_input, self.limits.text(pair, "second text"))
        explainer = self.models(model)
        task_model = explainer._model
        if not task_model.task.reads_one_text:
            raise UnsupportedModelError(f"the app explains texts, and {task_model.name} is for {_task(explainer)}")
        target_names = [target for target in targets if target.strip()]
        options: dict[str, Any] = typed_targets(task_model.task, target_names, contrast) | (
            {"layers": ALL} if every_layer else {}
        )
        results: list[Attribution] = []
        costs_by_method, curves, errors = [], [], {}
        forward_seconds = [_forward_seconds(explainer, model_input)]
        for method in method_list:
            try:
                result, seconds = _timed(partial(explainer, model_input, method=method, **options))
            except NormXLogitError as error:
                errors[method.spec] = error
                continue
            forward_seconds.append(_forward_seconds(explainer, model_input))
            if len(method_list) == 1 and not every_layer:  # verified in a second call, which is not timed
                named = [part.strip() for part in (leave_out or "").split(",") if part.strip()]
                result = explainer(model_input, **options | {"method": method, "verify": named or VERIFIED})
            results.append(result)
            costs_by_method.append((method.info.passes, seconds))
            if curve := _curve(explainer, result, method.spec):
                curves.append(curve)
        if not results:
            raise next(iter(errors.values()))
        fastest_forward = min(forward_seconds)
        costs = [
            f"{passes}; took {_short(taken)}, as long as {taken / fastest_forward:.1f} forward passes"
            for passes, taken in costs_by_method
        ]
        notes = tuple(f"{name}: {error}" for name, error in errors.items())
        page = results_page(Attributions(results), words=None if words else False, costs=costs, curves=curves)
        return Shown(page, json_text(Attributions(results).to_dict()), notes)

    def generate(
        self,
        prompt: str | None,
        *,
        model: str | None = None,
        new_tokens: float = 20,
        chat: bool = False,
        method: str | None = None,
    ) -> Shown:
        """Let a causal language model continue a text, and show what each token rests on.

        Args:
            prompt: The text.
            model: Name or folder of the model.
            new_tokens: Most tokens to generate.
            chat: Whether the text is a message for the model's chat template.
            method: Name with settings; empty for the default.

        Raises:
            NormXLogitError: If something typed does not fit.
        """
        explainer = self._writer(model)
        text = self.limits.text(prompt, "prompt")
        model_prompt: Any = [{"role": "user", "content": text}] if chat else text
        chosen_method = self._method(method)
        result = explainer.generate(model_prompt, max_new_tokens=self._new_tokens(new_tokens), method=chosen_method)
        return _shown(result)

    def cite(
        self,
        question: str | None,
        documents: str | None,
        *,
        model: str | None = None,
        new_tokens: float = 100,
        method: str | None = None,
        answer: str | None = None,
        verify: bool = True,
    ) -> Shown:
        """Answer a question from documents, and cite the sentences that the answer rests on.

        Args:
            question: The question.
            documents: The texts, with a line of "---" between two.
            model: Name or folder of the model.
            new_tokens: Most tokens to generate.
            method: Name with settings; empty for the default.
            answer: An answer that was written elsewhere; empty lets the model answer.
            verify: Whether sources are left out and words edited, to test what is cited.

        Raises:
            NormXLogitError: If something typed does not fit.
        """
        explainer = self._writer(model)
        checked_question = self.limits.text(question, "question")
        texts = split_documents(self.limits.text(documents, "field for documents"))
        chosen_method = self._method(method)
        result = explainer.cite(
            checked_question,
            {f"document {i}": text for i, text in enumerate(texts, 1)},
            answer=self.limits.text(answer, "answer") if (answer or "").strip() else None,
            max_new_tokens=self._new_tokens(new_tokens),
            method=chosen_method,
            verify="auto" if verify else 0,
        )
        return _shown(result)

    def picture(
        self,
        picture: str | None,
        text: str | None,
        *,
        model: str | None = None,
        new_tokens: float = 20,
        method: str | None = None,
    ) -> Shown:
        """Answer a question about a picture, classify it, or compare it with texts, whichever the model is for.

        Args:
            picture: Its file as a data URI.
            text: The question; for a model with two towers the texts, one on each line.
            model: Name or folder of the model.
            new_tokens: Most tokens to generate.
            method: Name with settings; empty for the default.

        Raises:
            NormXLogitError: If something typed does not fit.
        """
        image: Any = self.limits.picture(picture).convert("RGB")
        explainer = self.models(model)
        chosen_method = self._method(method)
        task = explainer._model.task
        if "picture" not in task.media:
            raise UnsupportedModelError(
                "choose a vision-language model, an image classifier, or a model with two towers such as CLIP: "
                f"{explainer._model.name} is for {_task(explainer)}"
            )
        result: Any
        if task.generates:
            question = {"type": "text", "text": self.limits.text(text, "question")}
            messages: Any = [{"role": "user", "content": [{"type": "image", "image": image}, question]}]
            result = explainer.generate(messages, max_new_tokens=self._new_tokens(new_tokens), method=chosen_method)
        elif task.labelled:
            result = explainer(image, method=chosen_method)
        else:
            compared = explainer.similarity(image, self.limits.lines(text), method=chosen_method)
            result = Attributions(sorted(compared, key=lambda s: -s.prediction.value))
        return _shown(result)

    def _writer(self, model: str | None) -> Explainer:
        """Return a model that generates text."""
        explainer = self.models(model)
        if not explainer._model.task.generates:
            model_name = "the model of this app" if not (model or "").strip() else explainer._model.name
            raise UnsupportedModelError(
                f"choose a causal language model: {model_name} does not generate text, it is for {_task(explainer)}. "
                f"A small one: {SMALL}"
            )
        return explainer

    def _new_tokens(self, count: float) -> int:
        if not 1 <= count <= self.limits.new_tokens:
            raise InputError(f"the app lets a model write 1 to {self.limits.new_tokens} tokens, not {count:g}")
        return int(count)

    def _method(self, method: str | None) -> Method | None:
        return self.limits.chosen([method])[0] if method and method.strip() else None


def split_documents(text: str) -> list[str]:
    """Split a text into documents at lines of "---", without empty ones."""
    documents: list[list[str]] = [[]]
    for line in text.replace("\r\n", "\n").split("\n"):
        if line.strip() == DIVIDER:
            documents.append([])
        else:
            documents[-1].append(line)
    return [document for lines in documents if (document := "\n".join(lines).strip())]


def _shown(result: Any) -> Shown:
    return Shown(result.to_html(), json_text(result.to_dict()))


def _task(explainer: Explainer) -> str:
    return explainer._model.task.name.replace("-", " ")


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """Run a function up to `ROUNDS` times; return its result and the seconds of the fastest run."""
    times: list[float] = []
    while True:
        synchronise()
        start = time.perf_counter()
        result = work()
        synchronise()
        times.append(time.perf_counter() - start)
        if len(times) == ROUNDS or times[0] >= QUICK:
            return result, min(times)


def _forward_seconds(explainer: Explainer, model_input: Any) -> float:
    """Return the seconds of a plain forward pass over the text."""
    model = explainer._model
    batch = model.batch(explainer.encode([model_input]), indices=[0])
    model.prepare(batch)
    with torch.inference_mode():
        model.module(**batch.inputs)  # the first pass after another one may be slower
        return _timed(lambda: model.module(**batch.inputs))[1]


def _short(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _curve(explainer: Explainer, result: Attribution, name: str) -> Curve | None:
    """Return the deletion curve of a result, for the first label and the last layer with scores."""
    if result.has_target_axis:
        result = result[0]
    is_ordinary = ~np.array(result.units.special)
    if result.layers is not None:
        scored = [layer for layer, row in zip(result.layers, result.scores, strict=True) if row[is_ordinary].any()]
        if not scored:
            return None
        result, name = result.layer(scored[-1]), f"{name}, layer {scored[-1]}"
    try:
        curve: DeletionCurve = deletion_curve(explainer, result)
    except NormXLogitError:  # a model that is not a classifier: the scores are there, the curve is not
        return None
    unit = "words" if result.has_words else "tokens"
    verb = "masked" if curve.masked else "deleted"
    is_probability = curve.quantity == "probability"
    kind = f"probability of {curve.target}" if is_probability else curve.target
    return Curve(
        name, kind, curve.shares, curve.highest_first, curve.lowest_first, curve.gap, unit, verb, is_probability
    )
