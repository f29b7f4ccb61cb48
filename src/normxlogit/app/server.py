"""The server of the app, which refuses all requests but those for the page, its files and its queue."""

import contextlib
import logging
import os
import re
import socket
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import DataError, InputError, reason_of
from ..explainer import Explainer
from ..methods.defaults import ANSWER_METHODS
from .explanations import App
from .frame import CSS, HEAD
from .limits import Limits

LOOPBACK = ("127.0.0.1", "localhost", "::1")

HEADERS = {
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; frame-src 'self'; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'",
}
"""The headers of the page, whose content security policy allows no other address."""

TURNED_OFF = ("run_history", "show_error", "ssr_mode", "pwa", "mcp_server", "enable_monitoring")
"""Arguments of `gradio.mount_gradio_app` for what Gradio can do beside the page."""

ALLOWED_PATHS = re.compile(
    r"/$|/(assets|static|svelte|gradio_api/(queue|run|heartbeat))/"
    r"|/(config|theme\.css|favicon\.ico|manifest\.json|robots\.txt)$"
    r"|/gradio_api/(startup-events|theme\.css|app_id|info|cancel|reset)"
)
"""The paths that the page requests, without Gradio's routes for files, uploads, proxies and recordings."""


class Guard:
    """An ASGI application in front of the app: it refuses all other requests, and adds `HEADERS` to the answers.

    Args:
        app: The ASGI application.
        hosts: The names of the server that a request may have in its Host header. Others are refused, since a page
            elsewhere can let its own name point to this machine's address (DNS rebinding). None allows every name, for
            a server that others reach, whose names are not known.
    """

    def __init__(self, app: Any, hosts: Sequence[str] | None) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        from starlette.datastructures import Headers, MutableHeaders
        from starlette.responses import PlainTextResponse

        async def send_with_headers(message: Any) -> None:
            """Send a message of the answer, the first one with the headers."""
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] != "http":  # such as the start of the server
            await self.app(scope, receive, send)
        elif self.hosts is not None and _host_name(Headers(scope=scope).get("host", "")) not in self.hosts:
            await PlainTextResponse("this server is reached under another name", 400)(scope, receive, send)
        elif not ALLOWED_PATHS.match(scope["path"]):
            await PlainTextResponse("there is no such page", 404)(scope, receive, send)
        else:
            await self.app(scope, receive, send_with_headers)


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    if host.startswith("["):  # an address of IPv6 has colons of its own
        return host[1:].split("]")[0]
    return host.split(":")[0]


def make(
    model: str | None = None,
    methods: Sequence[str] | None = None,
    *,
    host: str = "127.0.0.1",
    limits: Limits | None = None,
    load: Callable[[str | None], Explainer] = Explainer.from_pretrained,
) -> Any:
    """Return the app as an ASGI application, with its model loaded.

    Args:
        model: Name or folder; None for the model in the package.
        methods: The methods that are chosen at first; None for the default method.
        host: The address that it will be served at. At one of `LOOPBACK`, `Guard` refuses other names.
        limits: How long texts may be, and how many requests may wait; None for the default limits.
        load: Loads a model by its name or folder.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported
    try:
        import gradio
        from fastapi import FastAPI
    except ImportError as error:
        raise DataError(f"the app needs {error.name}: pip install 'normxlogit[app]'") from None
    from .page import blocks, theme

    app = App(model, limits, load)
    method_specs = [method.spec for method in app.limits.allowed_methods(methods or ANSWER_METHODS[:1])]
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request of gradio
    served = gradio.mount_gradio_app(
        FastAPI(docs_url=None, redoc_url=None, openapi_url=None),
        blocks(app, method_specs),
        path="/",
        footer_links=[],
        # No file of this machine is served, and none is taken.
        allowed_paths=[],
        blocked_paths=["/"],
        max_file_size=0,
        **dict.fromkeys(TURNED_OFF, False),
        theme=theme(),
        css=CSS,
        head=HEAD,
    )
    return Guard(served, LOOPBACK if host in LOOPBACK else None)


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
    host, port = listening.getsockname()[:2]  # an address of IPv6 has two more entries, and stands in brackets
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def serve(application: Any, listening: socket.socket) -> None:
    """Serve the app until it is interrupted; requests that came since the socket listens are answered, too."""
    import uvicorn

    config = uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=1)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
