"""The page of the app, in Gradio: three tabs of fields, each with a result beside them."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gradio as gr
from gradio.themes import Base

from ..errors import NormXLogitError
from ..methods import list_methods
from ..methods.defaults import DEFAULTS
from ..render.describe import model_text
from ..results.units.characters import safe
from .answers import SMALL, App, Shown
from .frame import DOCUMENTS_FILE, busy, framed, message

TITLE = "normxlogit: what a model's answer rests on"

EXAMPLES = (
    "The movie is mediocre, maybe even bad.",
    "The plot is thin and the jokes are old, but the two leads have such charm that I left smiling.",
    "It is not a bad film, just a very long one.",
    "An absolute delight from the first frame to the last!",
)

PROMISE = "Everything is computed on the machine that serves this page; nothing goes elsewhere."
QUESTION = "When was the swimming pool built?"
TOO_HARD = "When is the swimming pool open?"
DOCUMENTS = (
    "The swimming pool was built in 1974 by Karl Brenner. It is open from May to September.\n---\n"
    "The town library opens at 9 a.m. on weekdays. It is closed on Sundays."
)

HINTS = {
    "Model": "A folder or a name on the hub, by default the app's own model.",
    "Language model": f"A folder or a name on the hub, by default the app's own model. A small one: {SMALL}",
}
"""What each field of a model says; weights are read as safetensors, and no code of a model is run."""

LOG = logging.getLogger(__name__)


def theme() -> Base:
    """Return a theme with system fonts, so that nothing is downloaded."""
    sans = ["ui-sans-serif", "system-ui", "-apple-system", "Segoe UI", "DejaVu Sans", "sans-serif"]
    return Base(
        primary_hue="indigo",
        font=sans,
        font_mono=["ui-monospace", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace"],
    ).set(
        color_accent="*primary_700",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_dark="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_background_fill_hover_dark="*primary_700",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        block_title_text_color="*neutral_700",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        input_placeholder_color="*neutral_600",
        input_placeholder_color_dark="*neutral_300",
    )


def blocks(app: App, methods: Sequence[str]) -> gr.Blocks:
    """Build the page.

    Args:
        methods: The methods that are chosen at first.
    """
    limits = app.limits
    with gr.Blocks(title=TITLE, analytics_enabled=False) as page:
        gr.Markdown(f"# What a model's answer rests on\n{PROMISE}")
        with gr.Tab("Explain"):
            _explain_tab(app, methods)
        with gr.Tab("Generate"):
            _generate_tab(app)
        with gr.Tab("Cite"):
            _cite_tab(app)
    page.queue(max_size=limits.waiting, default_concurrency_limit=limits.at_once, api_open=False)
    return page


def _explain_tab(app: App, initial_methods: Sequence[str]) -> None:
    """Build the tab that explains a text: its fields, its result, and what happens when a field is changed."""
    labels = app.labels(None)
    with gr.Row(equal_height=False, elem_classes="nxl-tab"):
        with gr.Column(scale=2, min_width=300, elem_classes="nxl-form"):
            text = gr.Textbox(
                label="Text",
                info="A click on a word of the explanation strikes it out, and the model answers again",
                value=EXAMPLES[0],
                lines=3,
                max_lines=12,
                elem_id="text",
            )
            button = gr.Button("Explain", variant="primary", elem_id="explain")
            examples = gr.Examples(
                list(EXAMPLES), text, label="Examples", cache_examples=False, api_visibility="private"
            )
            with _options():
                methods = gr.Dropdown(
                    label="Methods",
                    info="One, or several side by side. With settings: occlusion:window=2",
                    choices=[(f"{m.name} ({m.passes})", m.name) for m in list_methods()],
                    value=list(initial_methods),
                    multiselect=True,
                    allow_custom_value=True,
                    elem_id="methods",
                )
                model = _model_field(app, "model", "Model")
                target = gr.Dropdown(
                    label="Explain",
                    info="Labels or tokens; the prediction if empty",
                    choices=labels,
                    multiselect=True,
                    allow_custom_value=True,
                    elem_id="target",
                )
                contrast = gr.Dropdown(
                    label="Rather than",
                    info="A label or token to subtract",
                    choices=["", *labels],
                    value="",
                    allow_custom_value=True,
                    elem_id="contrast",
                )
                words = gr.Radio([("words", True), ("tokens", False)], value=True, label="Show", elem_id="words")
                layers = gr.Checkbox(label="Every layer", elem_id="layers")
                with gr.Accordion("Second text, for models of pairs", open=False):
                    pair = gr.Textbox(label="Second text", lines=2, max_lines=12, elem_id="pair")
        result = _result(_example(app, initial_methods), "explained")
    chosen = {"model": model, "methods": methods, "targets": target, "contrast": contrast, "every_layer": layers}
    fields = {"text": text, "pair": pair, **chosen, "words": words}
    _on_click(app, [button.click, text.submit], app.explain, fields, result, "Explanation")
    examples.load_input_event.then(None, js="() => document.getElementById('explain').click()")

    def relabel(model: str | None) -> tuple[Any, Any, Any]:
        try:
            labels = app.labels(model)
        except Exception as error:
            return gr.update(choices=[], value=[]), gr.update(choices=[""], value=""), _error_message(error)
        return gr.update(choices=labels, value=[]), gr.update(choices=["", *labels], value=""), gr.skip()

    model.change(relabel, model, [target, contrast, result], show_progress="minimal", **_queue(app))


def _example(app: App, methods: Sequence[str]) -> str:
    """Return the explained first example; a placeholder unless the app has the packaged model.

    It is explained when the page is built and not when it opens, so that no answer to it can come late.
    """
    if app.models.name:
        return busy("Nothing explained yet.")
    return shown(partial(app.explain, EXAMPLES[0], methods=methods), "Explanation")


def _generate_tab(app: App) -> None:
    """Build the tab that generates text."""
    with gr.Row(equal_height=False, elem_classes="nxl-tab"):
        with gr.Column(scale=2, min_width=300, elem_classes="nxl-form"):
            prompt = gr.Textbox(label="Prompt", value="Once upon a time", lines=3, max_lines=12, elem_id="prompt")
            button = gr.Button("Generate and explain", variant="primary", elem_id="generate")
            with _options():
                common = _common_fields(app, "generate", 20)
                chat = gr.Checkbox(label="The prompt is a chat message", elem_id="chat")
        result = _result(busy("Nothing written yet."), "generated")
    fields = {"prompt": prompt, **common, "chat": chat}
    _on_click(app, [button.click], app.generate, fields, result, "Generated text and what it rests on")


def _cite_tab(app: App) -> None:
    """Build the tab that answers a question from documents."""
    with gr.Row(equal_height=False, elem_classes="nxl-tab"):
        with gr.Column(scale=2, min_width=300, elem_classes="nxl-form"):
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
                common = _common_fields(app, "cite", 40)
                verify = gr.Checkbox(True, label="Test it: leave sources out, edit words", elem_id="verify")
        result = _result(busy("Nothing answered yet."), "cited")
    fields = {"question": question, "documents": documents, "answer": answer, **common, "verify": verify}
    _on_click(app, [button.click], app.cite, fields, result, "An answer and its sources")


def _common_fields(app: App, tab: str, tokens: int) -> dict[str, Any]:
    """Return the fields of model, method and length, by the names of the app's arguments."""
    default_method = DEFAULTS["completions"].methods[0]
    return {
        "model": _model_field(app, f"{tab}-model", "Language model"),
        "method": gr.Textbox(label="Method", placeholder=default_method, elem_id=f"{tab}-method"),
        "new_tokens": gr.Slider(
            1, app.limits.new_tokens, tokens, step=1, label="Most tokens to generate", elem_id=f"{tab}-tokens"
        ),
    }


def _on_click(
    app: App,
    triggers: Sequence[Any],
    work: Callable[..., Shown],
    fields: dict[str, Any],
    result: Any,
    what: str,
) -> None:
    """Connect a button: it calls a function with the fields as its keyword arguments, and shows the result.

    A click while the last one is worked on counts: what is shown at the end belongs to the fields as they are then.
    """

    def answer(*values: Any) -> str:
        return shown(lambda: work(**dict(zip(fields, values, strict=True))), what)

    gr.on(triggers, answer, list(fields.values()), result, trigger_mode="always_last", **_queue(app))


def _queue(app: App) -> Any:
    """Return the event options of all tabs: one queue, without an API endpoint."""
    return {"concurrency_id": "work", "concurrency_limit": app.limits.at_once, "api_visibility": "private"}


def shown(work: Callable[[], Shown], what: str) -> str:
    """Return the result of a function in a frame, or its error as a message.

    Args:
        work: Does it.
        what: The title of the frame.
    """
    try:
        return framed(work(), what)
    except Exception as error:
        return _error_message(error)


def _error_message(error: Exception) -> str:
    """Return an error as a message; an unexpected one is logged as well."""
    if isinstance(error, NormXLogitError):
        return message(type(error)(safe(str(error))))
    LOG.exception("the app could not answer")
    return message(RuntimeError(f"the app could not answer ({type(error).__name__}); its log has the details"))


def _options() -> gr.Column:
    """Return the container of rarely changed options: below the form, or below the result in a narrow window."""
    return gr.Column(elem_classes="nxl-options")


def _result(content: str, name: str) -> gr.HTML:
    """Return the container of a result: beside the form, or below its button in a narrow window."""
    with gr.Column(scale=3, min_width=300, elem_classes="nxl-shown"):
        return gr.HTML(content, elem_id=name)


def _model_field(app: App, name: str, label: str) -> gr.Textbox:
    """Return the field of a model.

    Args:
        name: The field's id.
        label: The label of the field, a key of `HINTS`.
    """
    own_model = model_text(app.models.name) if app.models.name else "small sentiment model"
    return gr.Textbox(label=label, info=HINTS[label], placeholder=own_model, elem_id=name)
