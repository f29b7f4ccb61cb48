"""What the server answers and what it refuses, without Gradio."""

import asyncio

import pytest

from normxlogit.app.server import LOOPBACK, Guard

pytest.importorskip("starlette")


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


@pytest.mark.parametrize(("host", "hosts", "status"), [
    ("localhost:80", LOOPBACK, 200), ("[::1]:7860", LOOPBACK, 200), ("127.0.0.1", LOOPBACK, 200),
    ("evil.example", LOOPBACK, 400), ("", LOOPBACK, 400), ("server.example:7860", None, 200),
])  # fmt: skip
def test_a_loopback_server_has_no_other_name(host, hosts, status):
    assert ask("/", hosts=hosts, host=host)[0] == status
