"""What all commands share: output that any terminal can show, and quiet libraries."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet", "write"]


def write(text: str) -> None:
    """Write to standard output; characters that it cannot show become question marks."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding))
    sys.stdout.flush()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the progress bars and warnings of model loading off the terminal; all as before afterwards."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            with warnings.catch_warnings():  # said where the environment keeps the bars of downloads off
                warnings.simplefilter("ignore")
                logging.enable_progress_bar()
