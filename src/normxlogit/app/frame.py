"""Frames: a page of the library inside the app's page, with buttons that save it."""

from html import escape
from pathlib import Path

from ..errors import InputError, MethodError, TargetError, UnsupportedModelError
from ..results.units.characters import safe
from .explanations import Shown

FOLDER = Path(__file__).parent

HEAD = f"<script>\n{(FOLDER / 'page.js').read_text(encoding='utf-8')}</script>"
"""What the app's page runs."""

CSS = (FOLDER / "page.css").read_text(encoding="utf-8")
"""The style of the app's page, beside Gradio's."""

_IN_FRAME = (
    "<style>body { padding: 1rem; } main { max-width: none; } .nxl-text .nxl-mark { cursor: pointer; } "
    "#nxl-strike, #nxl-unit { font-size: .9rem; opacity: .85; margin: .5rem 0 1rem; }</style>\n"
    f"<script>\n{(FOLDER / 'frame.js').read_text(encoding='utf-8')}</script>"
)
"""Fits the library's page into the app."""

DOCUMENTS_FILE = """<label class="nxl-file">Documents from files
<input id="documents-file" type="file" multiple accept=".txt,.md,.markdown,.rst,.csv,.html,text/plain"></label>"""
"""The field of text files, which the browser reads into the field of documents."""


def framed(drawn: Shown, title: str = "Explanation") -> str:
    """Return a page in a frame, with buttons that save it.

    The frame can neither reach the app nor the network: `sandbox` allows its scripts alone.
    """
    # `data-page`, which is saved, is the library's own page; the page in the frame has hints and a script as well.
    hints = f'<p id="nxl-strike">{escape(drawn.hint)}</p><p id="nxl-unit">{escape(drawn.unit)}</p>'
    page_in_frame = drawn.page.replace("</body>", f"<template>{hints}</template>\n{_IN_FRAME}\n</body>")
    notes = "".join(_panel("Left out", note) for note in drawn.notes)
    return (
        f'<div class="nxl-result">{notes}<div class="nxl-buttons">'
        '<button type="button" data-nxl-save="html">Save as HTML</button>'
        '<button type="button" data-nxl-save="json">Save as JSON</button>'
        '<button type="button" data-nxl-back>Put the last word back</button></div>'
        f'<iframe class="nxl-page" title="{escape(title)}" sandbox="allow-scripts" '
        f'data-page="{escape(drawn.page)}" data-json="{escape(drawn.json)}" srcdoc="{escape(page_in_frame)}"></iframe>'
        "</div>"
    )


HEADINGS: dict[type[BaseException], str] = {
    UnsupportedModelError: "This model cannot do that",
    MethodError: "Please change the method",
    TargetError: "Please change the label to explain",
    InputError: "Please change what is typed",
}
"""What a reader can do about an error, by its kind."""


def message(error: BaseException) -> str:
    """Return an error as HTML: a heading that says what to do, and the message, in which typed text is escaped."""
    heading = next((text for kind, text in HEADINGS.items() if isinstance(error, kind)), "That did not work")
    return _panel(heading, safe(str(error)))


def missing_writer(command: str) -> str:
    """Return as HTML what a tab shows if no language model can write its answers: the command that installs one.

    Args:
        command: The command, as it is typed in a shell.
    """
    return (
        '<div class="nxl-message nxl-missing"><strong>This tab needs a language model</strong>'
        "<p>Name one under \u201cLanguage model\u201d, or install a small one (90 MB) and start the app again:</p>"
        f"<p><code>{escape(command)}</code></p></div>"
    )


def busy(text: str) -> str:
    """Return a text as HTML, in the place of a result."""
    return f'<p class="nxl-wait">{escape(text)}</p>'


def _panel(heading: str, text: str) -> str:
    """Return a message with its heading as HTML."""
    return f'<div class="nxl-message" role="alert"><strong>{escape(heading)}</strong><p>{escape(text)}</p></div>'
