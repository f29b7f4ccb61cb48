"""The command that opens the page in a browser."""

import webbrowser
from typing import Annotated

import typer

from ..cli import options
from ..cli.console import quiet, write


@options.loads_models
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
    loading: options.Loading = options.LOADING,
) -> None:
    """Explain, generate and cite on a page in the browser, served from this machine.

    Example: normxlogit app --model FOLDER --port 8000
    """
    with quiet():
        from ..explainer import Explainer
        from .server import LOOPBACK, address_of, listen, make, serve

        def load(name: str | None) -> Explainer:
            # A GGUF file is one of the model that the app starts with, and not of those that the page names.
            options_of_model = loading if name == model else loading._replace(gguf_file=None)
            return Explainer.from_pretrained(name, **options_of_model.arguments())

    with listen(host, port) as listening:  # first, so that a port that is taken is refused before a model is loaded
        with quiet():
            application = make(model, method, host=host, load=load)
        if host not in LOOPBACK:
            write("everyone who reaches this machine can use the app, and load any model by its name or folder\n")
        write(f"{address_of(listening)}  (Ctrl+C ends it)\n")
        if browse:
            webbrowser.open(address_of(listening))
        serve(application, listening)
