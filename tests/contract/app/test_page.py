"""The app as it is served: the page is there for who calls it by its name, and nothing else is."""

import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

pytest.importorskip("gradio")


@pytest.fixture(scope="module")
def address():
    """The app, served by the command in a process of its own."""
    command = [sys.executable, "-m", "normxlogit", "app", "--no-open", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process.stdout.readline().split()[0]
        finally:
            process.terminate()


def status(address, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def test_the_page_opens_on_an_explained_text_and_may_ask_no_other_address(address):
    code, headers, page = status(address)
    assert (code, "The movie is mediocre" in page) == (200, True)
    assert "connect-src 'self'" in headers["content-security-policy"]


def test_nothing_but_the_page_is_served(address):
    assert status(f"{address}gradio_api/file=/etc/hostname")[0] == 404
    assert status(address, Host="elsewhere.example")[0] == 400


def test_an_address_that_is_taken_is_refused_in_one_line(address):
    command = [sys.executable, "-m", "normxlogit", "app", "--no-open", "--port", address.rstrip("/").rpartition(":")[2]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (run.returncode, run.stderr.count("\n")) == (2, 1), run.stderr
    assert "choose another --port" in run.stderr
