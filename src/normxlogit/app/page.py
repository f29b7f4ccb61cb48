"""The page of the app, in Gradio: three tabs of fields, each with a result beside them."""

import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import gradio as gr
from gradio.themes import Base

from ..errors import NormXLogitError
from ..methods import MethodInfo, list_methods
from ..methods.defaults import DEFAULTS
from ..methods.registry import describe
from ..render.describe import model_text
from .explanations import INSTALL_SMALL_MODEL, App, Shown
from .frame import DOCUMENTS_FILE, busy, framed, message, missing_writer

TITLE = "normxlogit: what a model's answer rests on"

EXAMPLES = (
    "The movie is mediocre, maybe even bad.",
    "The plot is thin and the jokes are old, but the two leads have such charm that I left smiling.",
    "It is not a bad film, just a very long one.",
    "An absolute delight from the first frame to the last!",
)

PACKAGED = "The model in the package judges English film reviews: positive or negative. Any other can be named below."
PROMISE = "Everything is computed on the machine that serves this page; nothing goes elsewhere."
QUESTION = "When was the swimming pool built?"
TOO_HARD = "When is the swimming pool open?"
DOCUMENTS = (
    "The swimming pool was built in 1974 by Karl Brenner. It is open from May to September.\n---\n"
    "The town library opens at 9 a.m. on weekdays. It is closed on Sundays."
)

MODEL_HINT = "A folder or a name on the hub, by default the app's own model"
"""What a field for a model says; weights are read as safetensors, and no code of a model is run."""

FONTS = ("ui-sans-serif", "system-ui", "-apple-system", "Segoe UI", "DejaVu Sans", "sans-serif")
CODE_FONTS = ("ui-monospace", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")
"""Fonts of the system, of which the first that is installed is taken, so that none is downloaded."""

GREY_TEXT = ("body_text_color_subdued", "block_info_text_color", "input_placeholder_color")
"""Gradio's names for the colours of hints and placeholders, which are too pale to read in its own theme."""

LOG = logging.getLogger(__name__)


def theme() -> Base:
    """Return Gradio's plain theme with fonts of the system, and with colours that stand out from the background."""
    grey_in_light_mode: Any = dict.fromkeys(GREY_TEXT, "*neutral_600")
    grey_in_dark_mode: Any = dict.fromkeys([f"{name}_dark" for name in GREY_TEXT], "*neutral_300")
    return Base(primary_hue="indigo", font=FONTS, font_mono=CODE_FONTS).set(
        color_accent="*primary_700",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_dark="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_background_fill_hover_dark="*primary_700",
        block_title_text_color="*neutral_700",
        **grey_in_light_mode,
        **grey_in_dark_mode,
    )


class Form(NamedTuple):
    """The fields of a tab."""

    fields: dict[str, Any]  # by the names of the arguments of `work`
    triggers: list[Any]  # events at which it is called
    work: Callable[..., Shown]
    result_id: str  # the id of the element with its result
    title: str  # of the result
    initial: str  # what is shown before the first result


def blocks(app: App, methods: Sequence[str]) -> gr.Blocks:
    """Build the page.

    Args:
        app: What answers the page's requests.
        methods: The methods that are chosen at first.
    """
    limits = app.limits
    forms = {"Explain": partial(_explain_form, app, methods), "Generate": partial(_generate_form, app)}
    forms["Cite"] = partial(_cite_form, app)
    with gr.Blocks(title=TITLE, analytics_enabled=False) as page:
        introduction = f"{PACKAGED} " if not app.model_name else ""
        gr.Markdown(f"# What a model's answer rests on\n{introduction}{PROMISE}")
        for name, build in forms.items():
            with gr.Tab(name), gr.Row(equal_height=False, elem_classes="nxl-tab"):
                with gr.Column(scale=2, min_width=300, elem_classes="nxl-form"):
                    form = build()  # Gradio puts fields where they are made: in this column
                with gr.Column(scale=3, min_width=300, elem_classes="nxl-shown"):
                    result = gr.HTML(form.initial, elem_id=form.result_id)
            # A click while the last one is worked on counts: the result shown last is of the fields as they are.
            answer = partial(_answered, form)
            gr.on(form.triggers, answer, list(form.fields.values()), result, trigger_mode="always_last", **_queue(app))
    page.queue(max_size=limits.waiting, default_concurrency_limit=limits.at_once, api_open=False)
    return page


def _answered(form: Form, *values: Any) -> str:
    """Return the result for the values of a form's fields, or the error as a message."""
    return shown(lambda: form.work(**dict(zip(form.fields, values, strict=True))), form.title)


def _described(method: MethodInfo) -> str:
    """Return what a method does, what it costs, and its name."""
    # `passes` is such as "1 forward, 1 backward", or "T + 2 forward" with T tokens.
    count = sum(map(int, re.findall(r"\d+", method.passes)))
    cost = "1 pass" if count == 1 else f"{count} passes"
    if re.search(r"\bT\b", method.passes):
        cost = "a pass for each token"
    return f"{method.title or method.summary}, {cost} ({method.name})"


def _explain_form(app: App, initial_methods: Sequence[str]) -> Form:
    """Build the fields of a text to explain."""
    labels = app.labels(None)
    text = gr.Textbox(
        label="Text",
        value=EXAMPLES[0],
        lines=3,
        max_lines=12,
        elem_id="text",
    )
    button = gr.Button("Explain", variant="primary", elem_id="explain")
    examples = gr.Examples(list(EXAMPLES), text, label="Examples", cache_examples=False, api_visibility="private")
    with _options():
        methods = _choice(
            "Methods, with their cost",
            [(_described(method), method.name) for method in list_methods()],
            "methods",
            value=list(initial_methods),
            info="One, or several side by side. With settings: occlusion:window=2",
            multiselect=True,
        )
        used = model_text(app.model_name) if app.model_name else "small sentiment model"
        model = _model_field("model", "Model", f"{MODEL_HINT}.", used)
        target = _choice(
            "Label to explain", labels, "target", info="Labels or tokens; the prediction if empty", multiselect=True
        )
        contrast = _choice("Rather than", ["", *labels], "contrast", info="A label or token to subtract", value="")
        words = gr.Radio([("words", True), ("tokens", False)], value=True, label="Show", elem_id="words")
        layers = gr.Checkbox(label="Every layer", elem_id="layers")
        with gr.Accordion("Second text, for models of pairs", open=False):
            pair = gr.Textbox(label="Second text", lines=2, max_lines=12, elem_id="pair")
    # An example that is clicked is explained at once.
    examples.load_input_event.then(None, js="() => document.getElementById('explain').click()")

    def relabel(model: str | None) -> tuple[Any, Any]:
        """Return the labels of another model; none where it cannot be loaded, which a click on the button says."""
        try:
            labels = app.labels(model)
        except Exception:
            labels = []
        # What was chosen may be no label of this model.
        return gr.update(choices=labels, value=[]), gr.update(choices=["", *labels], value="")

    name_is_typed = [model.blur, model.submit]  # not `change`: each letter would be looked up as the name of a model
    gr.on(name_is_typed, relabel, model, [target, contrast], show_progress="minimal", **_queue(app))
    # The example is explained when the page is built and not when it opens, so that no answer to it can come late.
    initial = busy("Nothing explained yet.")
    if not app.model_name:
        initial = shown(partial(app.explain, EXAMPLES[0], methods=initial_methods), "Explanation")
    fields = {
        "text": text,
        "pair": pair,
        "model": model,
        "methods": methods,
        "targets": target,
        "contrast": contrast,
        "every_layer": layers,
        "words": words,
    }
    return Form(
        fields,
        triggers=[button.click, text.submit],
        work=app.explain,
        result_id="explained",
        title="Explanation",
        initial=initial,
    )


def _generate_form(app: App) -> Form:
    """Build the fields of a prompt."""
    _say_what_is_missing(app)
    prompt = gr.Textbox(label="Prompt", value="Once upon a time", lines=3, max_lines=12, elem_id="prompt")
    button = gr.Button("Generate and explain", variant="primary", elem_id="generate")
    with _options():
        common = _common_fields(app, tab="generate", new_tokens=20)
        chat = gr.Checkbox(label="The prompt is a chat message", elem_id="chat")
    fields = {"prompt": prompt, **common, "chat": chat}
    return Form(
        fields,
        triggers=[button.click],
        work=app.generate,
        result_id="generated",
        title="Generated text and what it rests on",
        initial=busy("Nothing written yet."),
    )


def _cite_form(app: App) -> Form:
    """Build the fields of a question about documents."""
    _say_what_is_missing(app)
    question = gr.Textbox(label="Question", value=QUESTION, elem_id="question")
    documents = gr.Textbox(
        label="Documents",
        info="Texts, with a line of --- between two",
        value=DOCUMENTS,
        lines=6,
        max_lines=20,
        elem_id="documents",
    )
    gr.HTML(DOCUMENTS_FILE)
    answer = gr.Textbox(
        label="Answer to check", info="Empty: the model answers", lines=2, max_lines=12, elem_id="answer"
    )
    button = gr.Button("Answer and cite", variant="primary", elem_id="cite")
    gr.Examples(
        [QUESTION, TOO_HARD],
        question,
        label="Examples",
        example_labels=[QUESTION, f"{TOO_HARD} (small models fail)"],
        cache_examples=False,
        api_visibility="private",
    )
    with _options():
        common = _common_fields(app, "cite", new_tokens=40)
        verify = gr.Checkbox(True, label="Test it: leave sources out and ask again", elem_id="verify")
    fields = {"question": question, "documents": documents, "answer": answer, **common, "verify": verify}
    return Form(
        fields,
        triggers=[button.click],
        work=app.cite,
        result_id="cited",
        title="An answer and its sources",
        initial=busy("Nothing answered yet."),
    )


def _say_what_is_missing(app: App) -> None:
    """Say above a form which command installs a language model, where there is none for it."""
    if not app.writer:
        gr.HTML(missing_writer(app.install_command))


def _common_fields(app: App, tab: str, *, new_tokens: int) -> dict[str, Any]:
    """Return the fields of model, method and length, by the names of the arguments of `App.generate` and `App.cite`.

    Args:
        app: What answers the page's requests.
        tab: With what the ids of the fields begin.
        new_tokens: The first value of the most tokens to generate.
    """
    default_method = DEFAULTS["completions"].methods[0]
    by_default = f"If empty: {describe(default_method).title} ({default_method})"
    hint = f"{MODEL_HINT}, or a small one: {INSTALL_SMALL_MODEL}"
    used = model_text(app.writer) if app.writer else ""
    return {
        "model": _model_field(f"{tab}-model", "Language model", hint, used),
        "method": gr.Textbox(label="Method", info=by_default, elem_id=f"{tab}-method"),
        "new_tokens": gr.Slider(
            1, app.limits.new_tokens, new_tokens, step=1, label="Most tokens to generate", elem_id=f"{tab}-tokens"
        ),
    }


def _choice(label: str, choices: list[Any], element_id: str, **options: Any) -> gr.Dropdown:
    """Return a field of choices in which others may be typed."""
    return gr.Dropdown(label=label, choices=choices, allow_custom_value=True, elem_id=element_id, **options)


def _model_field(element_id: str, label: str, hint: str, used_if_empty: str) -> gr.Textbox:
    """Return a field for the name or folder of a model, which shows what is used if it is empty."""
    return gr.Textbox(label=label, info=hint, placeholder=used_if_empty, elem_id=element_id)


def _options() -> gr.Column:
    """Return the container of rarely changed options, which page.css puts below the form or below the result."""
    return gr.Column(elem_classes="nxl-options")


def _queue(app: App) -> dict[str, Any]:
    """Return Gradio's options for the events of all tabs: one queue (`concurrency_id`), without an API endpoint."""
    return {"concurrency_id": "work", "concurrency_limit": app.limits.at_once, "api_visibility": "private"}


def shown(work: Callable[[], Shown], title: str) -> str:
    """Return the HTML of a function's result in a frame, or of its error; an unexpected error is logged as well."""
    try:
        return framed(work(), title)
    except NormXLogitError as error:
        return message(error)
    except Exception:
        LOG.exception("the app could not answer")
        return message(RuntimeError("the app could not answer; where it was started, its log has the details"))
