"""The command that opens the page in a browser."""

import webbrowser
from typing import Annotated

import typer

from ..cli import options
from ..cli.console import quiet, write


def app(
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FOLDER",
            help="Name or folder of the model to start with; the small sentiment model by default.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            callback=options.check_method,
            metavar="METHOD",
            help="Method chosen at first, see `normxlogit methods`; may be repeated.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Address to serve at; 0.0.0.0 lets every machine in the network open the page."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port to serve at; 0 takes one that is free.")
    ] = 7860,
    browse: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    device: options.Device = options.AUTO,
    dtype: options.DType = None,
    gguf_file: options.GGUFFile = None,
    trust_remote_code: options.TrustRemoteCode = False,
) -> None:
    """Explain, generate and cite on a page in the browser, served from this machine.

    Example: normxlogit app --model FOLDER --port 8000
    """
    with quiet():
        from ..explainer import Explainer
        from .server import LOOPBACK, address_of, listen, make, serve

        def load(name: str | None) -> Explainer:
            return Explainer.from_pretrained(
                name, **options.loading(device, dtype, gguf_file if name == model else None, trust_remote_code)
            )

    with listen(host, port) as listening:
        with quiet():
            application = make(model, method, host=host, load=load)
        if host not in LOOPBACK:
            write("everyone who reaches this machine can use the app, and load any model by its name or folder\n")
        write(f"{address_of(listening)}  (Ctrl+C ends it)\n")
        if browse:
            webbrowser.open(address_of(listening))
        serve(application, listening)
