"""The app in a browser, started by its command."""

import os
import shutil
import subprocess
import sys

import pytest

import normxlogit
from normxlogit import Explainer
from tests import tiny
from tests.browser.conftest import end, violations, wider_than_its_window

TEXT = "The movie is mediocre, maybe even bad."
HOSTILE = "<script>alert(1)</script> ${1+1} {{value}} </iframe>\"'><img src=x onerror=alert(2)> bad"


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("writer")
    return str(tiny.save(folder, "llama", "CausalLM", length=400, max_position_embeddings=400))


@pytest.fixture(scope="module")
def address(tmp_path_factory, writer):
    """The app, served by the command in a process of its own, with a model among the downloaded ones."""
    downloads = tmp_path_factory.mktemp("downloads")
    folder = downloads / "models--someone--tiny"
    shutil.copytree(writer, folder / "snapshots" / "1")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("1")
    command = [sys.executable, "-c", "from normxlogit.cli import main; main()", "app", "--no-open", "--port", "0"]
    environment = os.environ | {"HF_HUB_CACHE": str(downloads)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("http://127.0.0.1:"), line
            yield line.split()[0]
        finally:
            end(process)


def result(page, where):
    page.locator(f"#{where} iframe").wait_for()
    return page.frame_locator(f"#{where} iframe")


def explained(page, text):
    """Wait for the explanation of a text, and return its frame: the page opens on that of another one."""
    page.wait_for_function(
        "text => JSON.parse(document.querySelector('#explained iframe')?.dataset.json || '{}')"
        ".attributions?.[0].text === text",
        arg=text,
    )
    return page.frame_locator("#explained iframe")


def told(page, where):
    page.locator(f"#{where} [role=alert]").wait_for()
    return page.locator(f"#{where} [role=alert]").inner_text()


def saved(page, button):
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    return download.value


@pytest.mark.parametrize("text", ["An awful film with a great cast.", HOSTILE])
def test_a_text_is_typed_explained_and_saved(watched, address, tmp_path, text):
    with watched.page() as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.goto(address)
        page.locator("#text textarea").fill(text)
        page.locator("#explain").click()
        shown = explained(page, text)
        body = shown.locator("body").inner_text()
        assert text in body
        assert shown.locator("img").count() == 0
        assert "frozen-gradient" in body
        assert "Without " in body
        path = tmp_path / saved(page, "Save as JSON").suggested_filename
        saved(page, "Save as JSON").save_as(path)
        loaded = normxlogit.load(path)
        assert [a.method for a in loaded] == ["frozen-gradient"]
        assert loaded[0].text == text
        saved(page, "Save as HTML").save_as(tmp_path / "why.html")
        page.goto((tmp_path / "why.html").as_uri())
        assert text in page.locator("body").inner_text()


def test_a_click_strikes_a_word_out_and_the_model_answers_again(watched, address):
    text, without = "An awful film with a great cast.", "An film with a great cast."
    answers = [a.prediction.label for a in Explainer.from_pretrained()([text, without])]
    expect = pytest.importorskip("playwright.sync_api").expect
    with watched.page() as page:
        page.goto(address)
        page.locator("#text textarea").fill(text)
        page.locator("#explain").click()
        shown = explained(page, text)
        back = page.get_by_role("button", name="Put the last word back")
        assert answers[0] in shown.locator("h2").first.inner_text()
        assert not back.is_visible()
        shown.locator(".nxl-mark", has_text="awful").first.click()
        expect(page.locator("#text textarea")).to_have_value(without)
        expect(page.locator("#explained iframe").content_frame.locator(".nxl-text").first).to_have_text(without)
        assert answers[1] in page.locator("#explained iframe").content_frame.locator("h2").first.inner_text()
        back.click()
        expect(page.locator("#explained iframe").content_frame.locator(".nxl-text").first).to_have_text(text)
        expect(back).to_be_hidden()
        page.locator("#explained iframe").content_frame.locator(".nxl-mark", has_text="cast").first.click()
        expect(page.locator("#text textarea")).to_have_value("An awful film with a great.")
        page.locator("#text textarea").press_sequentially("x")  # another text: nothing is put back into it
        expect(back).to_be_hidden()


def test_generation_and_citation(watched, address, writer):
    with watched.page() as page:
        page.goto(address)
        page.get_by_role("tab", name="Generate").click()
        page.locator("#generate-model input, #generate-model textarea").first.fill("normxlogit/no-such-model")
        page.locator("#generate").click()
        assert "no-such-model" in told(page, "generated")
        assert "Error" not in told(page, "generated")
        page.locator("#generate-model input, #generate-model textarea").first.fill(writer)
        page.locator("#prompt textarea").fill("once upon a time")
        page.locator("#generate-tokens input[type=number]").fill("3")
        page.locator("#generate").click()
        shown = result(page, "generated")
        assert shown.locator("[data-part]").count() == 3
        shown.locator("[data-part]").first.hover()
        assert "rests on" in shown.locator(".nxl-status").inner_text()
        page.get_by_role("tab", name="Cite").click()
        page.locator("#cite-model input, #cite-model textarea").first.fill(writer)
        page.locator("#question input, #question textarea").first.fill("the cat is here ?")
        page.locator("#documents textarea").fill("the cat sat on the mat .\n---\na film is good .")
        page.locator("#cite-tokens input[type=number]").fill("4")
        page.locator("#cite").click()
        assert "a film is good" in result(page, "cited").locator("body").inner_text()


def test_on_a_phone_and_for_everyone(watched, address):
    for size in ("desktop", "phone"):
        with watched.page(size) as page:
            page.goto(address)
            page.locator("#explain").wait_for()
            for tab in ("Generate", "Cite", "Explain"):
                page.get_by_role("tab", name=tab).click()
                assert violations(page) == []
            page.locator("#text textarea").fill(f"{TEXT} On a {size}.")  # the page opens with another text's result
            page.locator("#explain").click()
            explained(page, f"{TEXT} On a {size}.").locator("h2").first.wait_for()
            page.locator("#explained .pending").wait_for(state="detached")  # gray while the model answers
            page.wait_for_function(
                "document.querySelector('#explained iframe').getBoundingClientRect().top < innerHeight / 2"
            )
            assert wider_than_its_window(page) <= 0
            assert violations(page) == []
