"""The server of the app, which refuses all requests but those for the page, its files and its queue."""

import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from ..errors import DataError, InputError, reason_of
from ..explainer import Explainer
from ..methods.defaults import default_methods, use_of
from .answers import App
from .frame import CSS, HEAD
from .limits import LIMITS, Limits
from .models import LoadedModels

LOOPBACK = ("127.0.0.1", "localhost", "::1")

POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; frame-src 'self'; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
"""The content security policy of the page, which allows no other address."""

OPEN = (
    "/assets/",
    "/static/",
    "/svelte/",
    "/config",
    "/theme.css",
    "/favicon.ico",
    "/manifest.json",
    "/robots.txt",
    "/gradio_api/queue/",
    "/gradio_api/run/",
    "/gradio_api/heartbeat/",
    "/gradio_api/startup-events",
    "/gradio_api/theme.css",
    "/gradio_api/app_id",
    "/gradio_api/info",
    "/gradio_api/cancel",
    "/gradio_api/reset",
)
"""The paths that the page requests, without Gradio's routes for files, uploads, proxies and recordings."""

ASGIMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[ASGIMessage]]
Send = Callable[[ASGIMessage], Awaitable[None]]


class Guard:
    """Answers only for the page and its queue, asked under the server's own name, and adds the page's policy.

    Args:
        app: The ASGI application.
        hosts: Names that a browser may know the server by; a page elsewhere that calls its own name this machine's
            address is refused. None for a server that others reach, whose names are not known.
        max_body_bytes: Most bytes of a request.
    """

    def __init__(self, app: Any, hosts: Sequence[str] | None, max_body_bytes: int) -> None:
        self.app = app
        self.hosts = hosts
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: ASGIMessage, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        length = headers.get(b"content-length", "" if scope["method"] == "POST" else "0")
        path = scope["path"]
        if self.hosts is not None and _name(headers.get(b"host", "")) not in self.hosts:
            await _refuse(receive, send, 400, "this server is reached under another name")
        elif path != "/" and not path.startswith(OPEN):
            await _refuse(receive, send, 404, "there is no such page")
        elif not (length.isdecimal() and int(length) <= self.max_body_bytes):  # a body of unknown length has no bound
            await _refuse(receive, send, 413, "more than this app takes")
        else:
            await self.app(scope, receive, _with_policy(send))


def _name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    return host[1:].split("]")[0] if host.startswith("[") else host.split(":")[0]


def _with_policy(send: Send) -> Send:
    async def sending(message: ASGIMessage) -> None:
        if message["type"] == "http.response.start":
            added = (
                (b"content-security-policy", POLICY.encode()),
                (b"referrer-policy", b"no-referrer"),
                (b"x-content-type-options", b"nosniff"),
            )
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return sending


async def _discard_body(receive: Receive, max_bytes: int = 16 * 2**20) -> None:
    """Read up to `max_bytes` of a body and drop them: a client that is still sending would not see the answer."""
    discarded = 0
    while discarded < max_bytes:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            return
        discarded += len(message.get("body", b""))


async def _refuse(receive: Receive, send: Send, status: int, reason: str) -> None:
    await _discard_body(receive)
    await send(
        {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain; charset=utf-8")]}
    )
    await send({"type": "http.response.body", "body": reason.encode()})


def make(
    model: str | None = None,
    methods: Sequence[str] | None = None,
    *,
    host: str = "127.0.0.1",
    limits: Limits = LIMITS,
    load: Callable[[str | None], Explainer] = Explainer.from_pretrained,
) -> Any:
    """Make the app, with its model loaded.

    Args:
        model: Name or folder; None for the model in the package.
        methods: The methods that are chosen at first; by default those that are shown to people.
        host: The address that it will be served at.
        limits: The limits of a request.
        load: Loads a model by its name or folder.

    Returns:
        An ASGI application.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported
    try:
        import gradio
        from fastapi import FastAPI
    except ImportError as error:
        raise DataError(f"the app needs {error.name}: pip install 'normxlogit[app]'") from None
    from .page import blocks, theme

    app = App(LoadedModels(model, limits.models, load), limits)
    task = app.models(None).task_model.task
    names = [method.spec for method in (limits.chosen(methods) if methods else default_methods(use_of(task))[:1])]
    logging.getLogger("httpx").setLevel(logging.WARNING)
    served = gradio.mount_gradio_app(
        FastAPI(docs_url=None, redoc_url=None, openapi_url=None),
        blocks(app, names),
        path="/",
        footer_links=[],
        run_history=False,
        allowed_paths=[],
        blocked_paths=["/"],
        show_error=False,
        max_file_size=0,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
        theme=theme(),
        css=CSS,
        head=HEAD,
    )
    max_body_bytes = 8 * limits.characters + 100_000  # characters of up to 8 bytes in JSON, and the rest of a request
    return Guard(served, LOOPBACK if host in LOOPBACK else None, max_body_bytes)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = reason_of(error)
    raise InputError(f"cannot listen at {host}, port {port}: {reason}; choose another --port or --host")


def address_of(listening: socket.socket) -> str:
    """Return the address of a page that is served at a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def serve(application: Any, listening: socket.socket) -> None:
    """Serve the app until it is interrupted; who asks before it is up waits."""
    import uvicorn

    config = uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=1)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
