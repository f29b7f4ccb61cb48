"""What the server answers and what it refuses, without Gradio."""

import asyncio

import pytest

from normxlogit import InputError
from normxlogit.app.server import LOOPBACK, Guard, listen
from tests.commands import run


def ask(path, *, hosts=LOOPBACK, host="127.0.0.1:7860"):
    """Send a request through the guard; returns status and headers."""
    sent = []

    async def page(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]})
        await send({"type": "http.response.body", "body": b""})

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"host", host.encode())]}
    asyncio.run(Guard(page, hosts)(scope, None, send))
    return sent[0]["status"], dict(sent[0]["headers"])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/assets/index.js", 200),
        ("/gradio_api/queue/join", 200),
        ("/gradio_api/file=/etc/passwd", 404),
        ("/gradio_api/upload", 404),
        ("/gradio_api/proxy=https://example.com", 404),
        ("/monitoring", 404),
    ],
)
def test_only_the_page_is_there(path, status):
    assert ask(path)[0] == status


def test_pages_may_ask_nobody_else():
    policy = ask("/")[1][b"content-security-policy"].decode()
    assert "default-src 'self'" in policy
    assert "http" not in policy


@pytest.mark.parametrize(("host", "hosts", "status"), [
    ("localhost:80", LOOPBACK, 200), ("[::1]:7860", LOOPBACK, 200), ("127.0.0.1", LOOPBACK, 200),
    ("evil.example", LOOPBACK, 400), ("", LOOPBACK, 400), ("server.example:7860", None, 200),
])  # fmt: skip
def test_a_loopback_server_has_no_other_name(host, hosts, status):
    assert ask("/", hosts=hosts, host=host)[0] == status


def test_an_address_that_is_taken_is_an_error(capsys):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="choose another --port"):
            listen("127.0.0.1", port)
        code, out, err = run(capsys, "app", "--no-open", "--port", port)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "choose another --port" in err
    with pytest.raises(InputError, match="cannot listen at no such host"):
        listen("no such host", 0)
