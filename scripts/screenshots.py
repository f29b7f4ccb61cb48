"""Take the screenshots of the docs again: python scripts/screenshots.py [FOLDER OF A CAUSAL MODEL [GGUF FILE]].

It needs Chromium, which NORMXLOGIT_CHROMIUM may name, and draws what the library draws: nothing is painted over.
Without a causal language model the pictures of generation and citation stay as they are.
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from normxlogit import ALL, Explainer
from normxlogit.app.server import listen, make, served

IMAGES = Path(__file__).parent.parent / "docs" / "images"
NAMES = ("chromium", "chromium-browser", "google-chrome")

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
    """Start the app and a browser, and keep what they show."""
    chromium = os.environ.get("NORMXLOGIT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        app(browser)
        pages(browser)
        browser.close()


def app(browser: Browser) -> None:
    """Draw the app with two methods, at the width of a desk and of a phone."""
    with served(make(), listen("127.0.0.1", 0)) as (address, _):
        for name, width, height, scheme in (("app", 1180, 1480, "light"), ("app-phone", 390, 1500, "dark")):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(address)
            page.locator("#explain").click()
            page.frame_locator("#explained iframe").locator("polyline").first.wait_for()
            page.wait_for_timeout(500)  # the frame grows
            keep(page.screenshot(), name)
            page.close()


def pages(browser: Browser) -> None:
    """Draw pages that the library writes."""
    explainer = Explainer.from_pretrained()
    drawn = {
        "page-methods": explainer.compare(TEXTS[0], ["normxlogit", "frozen-gradient", "occlusion"]).to_html(),
        "page-batch": explainer(TEXTS, method="frozen-gradient").to_html(title="Six reviews"),
        "page-layers": explainer(TEXTS[2], layers=ALL, method="normxlogit").to_html(),
    }
    if len(sys.argv) > 1:
        options = {"gguf_file": sys.argv[2]} if len(sys.argv) > 2 else {}
        writer = Explainer.from_pretrained(sys.argv[1], **options)
        drawn["page-generation"] = writer.generate("Once upon a time, there was a", max_new_tokens=24).to_html()
        drawn["page-citation"] = writer.cite(QUESTION, DOCUMENTS, max_new_tokens=40, verify=3).to_html()
    with tempfile.TemporaryDirectory() as folder:
        command = Path(folder) / "explain.html"
        subprocess.run(["normxlogit", "explain", TEXTS[0], "--output", command], check=True)  # noqa: S603, S607
        drawn["explain"] = command.read_text(encoding="utf-8")
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
            keep(page.screenshot(full_page=True), name)
            page.close()


def keep(content: bytes, name: str) -> None:
    """Write a picture with a palette, a third of the size."""
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    picture.quantize(128, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)
    print(IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
