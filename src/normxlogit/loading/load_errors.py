"""Errors while a model is loaded: what is wrong with its files or packages, in one line."""

import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from ..compat import lacks_accelerate, lacks_tokenizer_file
from ..copies.memory import out_of_memory
from ..errors import InputError

TOKENIZER = "its tokenizer"
"""What errors call the tokenizer, a part of a model that is read."""

NO_TOKENIZER = (
    "{} has no tokenizer: its files (such as tokenizer.json) are missing, and every word would be unknown. Save the "
    "tokenizer beside the model: tokenizer.save_pretrained(folder)"
)

_LFS_POINTER = b"version https://git-lfs"
"""How a file begins that stands for a large one in a repository of git."""


@contextmanager
def one_line_error(source: str, part: str) -> Iterator[None]:
    """Turn any error while a part of a model is read into an `InputError` of one line with the cause."""
    try:
        yield
    except Exception as error:
        if out_of_memory(error):
            raise
        cause = _broken_file(source) or _cause(error, source, part)
        raise InputError(f"cannot load {source}: {cause}") from error


def _cause(error: Exception, source: str, part: str) -> str:
    """Return in one line the cause of an error of transformers, with advice if there is any.

    Args:
        error: The error.
        source: The folder or hub name that was read.
        part: The part of the model that was read, for the message.
    """
    known = _missing_package_or_permission(error)
    if known is None and part == TOKENIZER:
        known = _cause_of_tokenizer(error, source)
    if known is not None:
        return known
    lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
    line = " ".join(lines[: 2 if lines[0].endswith(":") else 1])  # the first line may be only a heading
    # Of a folder without pickled weights, the advice to read them would be in vain.
    if "safetensors" in line and _may_hold(source, "*.bin"):
        return f"{line}; allow_pickle=True would read weights that are not safetensors"
    if isinstance(error, OSError | ImportError):  # whose messages say what is missing, for a user to read
        return line
    return f"{part} cannot be read, a file is missing, broken or of another version ({type(error).__name__}: {line})"


def _missing_package_or_permission(error: Exception) -> str | None:
    """Return what an error of transformers means if it lacks a package or a permission; None for other errors."""
    if isinstance(error, ImportError) and "gguf" in str(error).casefold():
        return "GGUF files need the package gguf; run: pip install -U gguf"
    if lacks_accelerate(error):
        return "this transformers loads models by accelerate, which is not installed; run: pip install accelerate"
    if "custom code" in str(error) or "trust_remote_code" in str(error):
        return "its repository has code of its own: read it, and give trust_remote_code=True (--trust-remote-code)"
    if isinstance(error, pickle.UnpicklingError):  # whose own advice is to run the code
        return "its pickled weights are broken, or hold more than numbers"
    return None


def _cause_of_tokenizer(error: Exception, source: str) -> str | None:
    """Return why a tokenizer is not loaded if it has no file, or needs a package; None for other errors."""
    if Path(source).is_dir() and lacks_tokenizer_file(error):
        return NO_TOKENIZER.format(source)
    remedy = sentencepiece_remedy(error, source)
    return None if remedy is None else f"{TOKENIZER} cannot be read: {remedy}"


def _may_hold(source: str | Path, pattern: str) -> bool:
    """Return whether a folder holds a file of a pattern; a repository on the hub may."""
    return not Path(source).is_dir() or any(Path(source).glob(pattern))


def sentencepiece_remedy(error: Exception, source: str | Path) -> str | None:
    """Return advice to install sentencepiece if a tokenizer lacks it, which transformers takes for tiktoken's."""
    mentioned = re.search("sentencepiece|tiktoken|protobuf", str(error), re.IGNORECASE)
    if find_spec("sentencepiece") is not None or not mentioned or not _may_hold(source, "*.model"):
        return None
    return "its SentencePiece file needs a package that is not installed: pip install 'normxlogit[sentencepiece]'"


def _broken_file(source: str) -> str | None:
    """Return the first broken file of a folder and its defect, None if there is none."""
    for file in sorted(Path(source).glob("*")):
        if not file.is_file() or file.suffix not in (".json", ".safetensors", ".bin", ".model", ".txt", ".gguf"):
            continue
        with file.open("rb") as stream:
            start = stream.read(len(_LFS_POINTER))
        if not start and file.suffix != ".txt":
            return f"{file.name} is empty; download it again"
        if start == _LFS_POINTER:
            return f"{file.name} is a pointer of Git LFS and not the file itself; run git lfs pull, or download it"
    return None
