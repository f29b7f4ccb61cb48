"""Frames: a page of the library inside the app's page, with buttons that save it."""

from html import escape

from .answers import Shown

_GROW = """<style>body { padding: 1rem; } main { max-width: none; } .nxl-text .nxl-mark { cursor: pointer; }</style>
<script>
new ResizeObserver(() => parent.postMessage({nxlHeight: document.documentElement.getBoundingClientRect().height}, "*"))
  .observe(document.documentElement);
document.addEventListener("click", (event) => {
  const word = event.target.closest && event.target.closest(".nxl-text .nxl-mark");
  if (!word) return;
  const before = document.createRange();
  before.setStart(word.closest(".nxl-text"), 0);
  before.setEndBefore(word);
  parent.postMessage({nxlWord: word.textContent, nxlStart: before.toString().length}, "*");
});
</script>"""
"""Fits the page into the app, tells it how high the page is, so that it needs no second scroll bar, and which word was
clicked."""

HEAD = """<script>
addEventListener("message", (event) => {
  const height = Number(event.data && event.data.nxlHeight);
  const frame = [...document.querySelectorAll("iframe.nxl-page")].find((f) => f.contentWindow === event.source);
  if (frame && height > 0) frame.style.height = Math.min(Math.ceil(height), 6000) + "px";
});
// A click on a word of an explanation strikes it out of the text, and the model answers again.
const earlier = [];
function explainAgain(text) {
  const area = document.querySelector("#text textarea");
  area.value = text;
  area.dispatchEvent(new Event("input", {bubbles: true}));
  document.body.classList.toggle("nxl-struck", earlier.length > 0);
  setTimeout(() => document.getElementById("explain").click(), 50);
}
addEventListener("message", (event) => {
  const {nxlWord: word, nxlStart: start} = event.data || {};
  const frame = document.querySelector("#explained iframe.nxl-page");
  if (!word || !frame || frame.contentWindow !== event.source) return;
  const text = document.querySelector("#text textarea").value;
  if (text.slice(start, start + word.length) !== word) return;
  const before = text.slice(0, start), after = text.slice(start + word.length);
  const spare = /\\s$/.test(before) && (!after || /^[\\s.,;:!?)]/.test(after));  // a space that is left over
  const joined = (spare ? before.slice(0, -1) : before) + after;
  const left = before ? joined : after.trimStart();
  if (!left.trim()) return;
  earlier.push(text);
  explainAgain(left);
});
document.addEventListener("click", (event) => {
  const back = event.target.closest && event.target.closest("button[data-nxl-back]");
  if (back && earlier.length) explainAgain(earlier.pop());
});
document.addEventListener("input", (event) => {
  if (!event.isTrusted || !event.target.closest || !event.target.closest("#text")) return;
  earlier.length = 0;  // another text is typed
  document.body.classList.remove("nxl-struck");
});
// Chosen text files take the place of the documents.
document.addEventListener("change", async (event) => {
  if (event.target.id !== "documents-file" || !event.target.files.length) return;
  const texts = await Promise.all([...event.target.files].map((file) => file.text()));
  const area = document.querySelector("#documents textarea");
  area.value = texts.map((text) => text.trim()).filter(Boolean).join("\\n---\\n");
  area.dispatchEvent(new Event("input", {bubbles: true}));
});
// Where the window is narrow, a result is below its button. It is scrolled to at once: frames out of sight do not grow.
document.addEventListener("click", (event) => {
  const places = {explain: "explained", generate: "generated", cite: "cited", look: "looked"};
  const example = event.target.closest && event.target.closest(".nxl-tab:has(#explained) .gallery-item");
  if (example) {  // which is explained at once, and takes the place of a text with words struck out
    earlier.length = 0;
    document.body.classList.remove("nxl-struck");
  }
  const place = document.getElementById(example ? "explained" : places[event.target.id]);
  if (place && place.getBoundingClientRect().top > innerHeight / 2) place.scrollIntoView();
});
document.addEventListener("click", (event) => {
  const button = event.target.closest && event.target.closest("button[data-nxl-save]");
  if (!button) return;
  const frame = button.closest(".nxl-result").querySelector("iframe");
  const json = button.dataset.nxlSave === "json";
  const kind = json ? "application/json" : "text/html;charset=utf-8";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([json ? frame.dataset.json : frame.dataset.page], {type: kind}));
  link.download = json ? "normxlogit.json" : "normxlogit.html";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
});
</script>"""
"""What the app's page runs: frames grow with what is in them, results come into view, and buttons save them. Nothing is
written on the server."""

READ = """async (_, ...others) => {
  const file = document.querySelector("#picture-file").files[0];
  if (!file) return ["", ...others];
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve([reader.result, ...others]);
    reader.onerror = () => resolve(["", ...others]);
    reader.readAsDataURL(file.size > MOST ? file.slice(0, MOST + 3) : file);
  });
}"""
"""Reads the chosen picture in the browser: what is too large is cut, so that the server says so; no file is stored."""

PICTURE_FILE = """<label class="nxl-file">Picture
<input id="picture-file" type="file" accept="image/png,image/jpeg,image/webp"></label>"""
"""The field of a picture. Gradio's own would write files on the server."""

DOCUMENTS_FILE = """<label class="nxl-file">Documents from files
<input id="documents-file" type="file" multiple accept=".txt,.md,.markdown,.rst,.csv,.html,text/plain"></label>"""
"""The field of text files, which the browser reads into the field of documents."""

CSS = """
.dark { --color-accent: #a5b4fc; }
.min_value, .max_value { color: var(--body-text-color-subdued); }
.nxl-result { margin: 0; }
@media (max-width: 48em) {
  .nxl-tab { flex-direction: column; align-items: stretch; overflow-anchor: none; }
  .nxl-tab > .nxl-form { display: contents; }
  .nxl-tab > .nxl-shown { order: 1; } .nxl-tab .nxl-options { order: 2; }
}
.nxl-page { display: block; width: 100%; height: 32rem; border: 0; border-radius: 12px; color-scheme: light dark; }
.nxl-buttons { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: 0 0 .75rem; }
.nxl-buttons button { margin: 0; font: inherit; color: inherit; padding: .35rem .9rem; cursor: pointer;
  border: 1px solid currentColor; border-radius: 8px; background: none; }
.nxl-buttons button:focus-visible { outline: 3px solid #6366f1; outline-offset: 2px; }
.nxl-buttons button[data-nxl-back] { display: none; }
.nxl-struck #explained .nxl-buttons button[data-nxl-back] { display: inline-block; }
.nxl-message { border-left: 4px solid #dc2626; padding: .75rem 1rem; border-radius: 0 8px 8px 0;
  background: rgb(220 38 38 / .08); overflow-wrap: anywhere; color: var(--body-text-color); }
.nxl-message p { margin: .2rem 0 0; }
@media (max-width: 48em) { .tab-container button { padding: 0 .6rem; font-size: .92rem; } }
.nxl-file { display: block; padding: .7rem .9rem; color: var(--body-text-color); font: inherit; cursor: pointer;
  border: 1px dashed var(--body-text-color-subdued); border-radius: 8px; }
.nxl-file:hover, .nxl-file:focus-within { border-color: var(--color-accent); }
label.nxl-file input[type=file] { display: block; width: 100%; margin-top: .35rem; padding: 0;
  border: 0; background: none; color: inherit; font-size: .92em; cursor: pointer; }
.nxl-file input::file-selector-button { margin-right: .8rem; padding: .35rem .9rem; font: inherit; color: inherit;
  background: none; border: 1px solid currentColor; border-radius: 8px; cursor: pointer; }
.nxl-wait { opacity: .85; color: var(--body-text-color); }
"""


def framed(shown: Shown, title: str = "Explanation") -> str:
    """Return a page in a frame that can neither reach the app nor the network, with buttons that save it."""
    inner = shown.page.replace("</body>", f"{_GROW}\n</body>")
    notes = "".join(_panel("Left out", note) for note in shown.notes)
    return (
        f'<div class="nxl-result">{notes}<div class="nxl-buttons">'
        '<button type="button" data-nxl-save="html">Save as HTML</button>'
        '<button type="button" data-nxl-save="json">Save as JSON</button>'
        '<button type="button" data-nxl-back>Put the last word back</button></div>'
        f'<iframe class="nxl-page" title="{escape(title)}" sandbox="allow-scripts" '
        f'data-page="{escape(shown.page)}" data-json="{escape(shown.json)}" srcdoc="{escape(inner)}"></iframe></div>'
    )


def message(error: BaseException) -> str:
    """Return an error as something to read: its kind and what it says, which may hold what somebody typed."""
    return _panel(type(error).__name__, str(error))


def busy(text: str) -> str:
    """Return the placeholder of a result."""
    return f'<p class="nxl-wait">{escape(text)}</p>'


def _panel(heading: str, text: str) -> str:
    return f'<div class="nxl-message" role="alert"><strong>{escape(heading)}</strong><p>{escape(text)}</p></div>'
