"""The command that shows and clears the cache of converted models."""

from typing import Annotated

import typer

from .console import write


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove everything that is kept.")] = False,
) -> None:
    """Show or clear the converted weights of GGUF files, which start faster than the files.

    Example: normxlogit cache --clear
    """
    from ..loading import gguf_cache

    folder = gguf_cache.cache_folder()
    if folder is None:
        write(f"nothing is kept: {gguf_cache.FOLDER_VARIABLE} is empty\n")
        return
    size = gguf_cache.clear() if clear else gguf_cache.kept_bytes()
    write(f"{'removed' if clear else folder}: {size / (1 << 20):.0f} MB\n")
