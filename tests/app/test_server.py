"""What the server answers and what it refuses, without Gradio."""

import asyncio

import pytest

from normxlogit.app.server import LOOPBACK, Guard


def ask(path, *, hosts=LOOPBACK, method="GET", chunks=(b"",), **headers):
    """Send a request through the guard; returns the status and how many chunks of the body are not read."""
    sent = []
    body = list(chunks)

    async def page(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]})
        await send({"type": "http.response.body", "body": b""})

    async def receive():
        return {"type": "http.request", "body": body.pop(), "more_body": bool(body)}

    async def send(message):
        sent.append(message)

    found = {"host": "127.0.0.1:7860"} | {name.replace("_", "-"): value for name, value in headers.items()}
    raw = [(name.encode(), value.encode()) for name, value in found.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": raw}
    asyncio.run(Guard(page, hosts, 1000)(scope, receive, send))
    return sent[0]["status"], len(body)


@pytest.mark.parametrize(("host", "hosts", "status"), [
    ("localhost:80", LOOPBACK, 200), ("[::1]:7860", LOOPBACK, 200), ("127.0.0.1", LOOPBACK, 200),
    ("evil.example", LOOPBACK, 400), ("", LOOPBACK, 400), ("server.example:7860", None, 200),
])  # fmt: skip
def test_a_loopback_server_has_no_other_name(host, hosts, status):
    assert ask("/", hosts=hosts, host=host)[0] == status


@pytest.mark.parametrize(("length", "status"), [("1000", 200), ("1001", 413), ("x", 413), ("-1", 413), (None, 413)])
def test_a_request_has_a_bound(length, status):
    headers = {} if length is None else {"content_length": length}
    assert ask("/gradio_api/queue/join", method="POST", **headers)[0] == status


def test_a_body_that_is_refused_is_read_before_the_answer_so_that_the_sender_sees_it():
    for path in ("/gradio_api/queue/join", "/gradio_api/upload"):
        status, chunks_left = ask(path, method="POST", chunks=[b"x" * 600] * 5, content_length="3000")
        assert status in (404, 413)
        assert chunks_left == 0
    endless = ask("/gradio_api/queue/join", method="POST", chunks=[b"x" * 2**22] * 9, content_length=str(9 * 2**22))
    assert endless[0] == 413
    assert endless[1] > 0
