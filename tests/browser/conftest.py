"""A real browser that is watched: what it asks for, what it complains of, and what a reader with less sight misses."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 740}}


def chromium() -> str | None:
    """Return the browser to use: the one named in the environment, or the system's."""
    return os.environ.get("NORMXLOGIT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Seen:
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Watched:
    def __init__(self, browser):
        self.browser = browser

    @contextmanager
    def page(self, size="desktop", *, quiet=True, **options):
        """Open a page; when the block ends, it must have asked for nothing elsewhere and, if quiet, not complained."""
        seen = Seen()
        context = self.browser.new_context(viewport=SIZES[size], **options)
        context.set_default_timeout(90_000)
        page = context.new_page()
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("console", lambda m: seen.problems.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: seen.problems.append(str(error)))
        try:
            yield page
            local = ("file:", "http://127.0.0.1:", "data:", "blob:", "about:", "ws://127.0.0.1:")
            assert [url for url in seen.requests if not url.startswith(local)] == []
            assert not quiet or seen.problems == []
        finally:
            context.close()


@pytest.fixture(scope="module")
def watched():
    path = chromium()
    if path is None:
        pytest.skip("no Chromium on this machine: install it, or name one in NORMXLOGIT_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield Watched(browser)
        browser.close()


def violations(page) -> list[str]:
    """Return what axe finds serious or critical, each with the elements."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{v['id']}: {v['help']}: "
        + "; ".join(n["html"][:160] + str(n.get("failureSummary"))[:200] for n in v["nodes"][:3])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]


def wider_than_its_window(page) -> int:
    """Return by how many pixels a page must be scrolled sideways."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def write(folder: Path, name: str, content: str) -> str:
    path = folder / f"{name}.html"
    path.write_text(content, encoding="utf-8")
    return path.as_uri()


def end(process):
    """End a server: asked first, and by force where it waits for a page that is still open."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
