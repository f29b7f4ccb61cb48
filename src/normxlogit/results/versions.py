"""Versions of the file format: version 4 is written, versions 1 to 3 are converted when they are read."""

from collections.abc import Mapping
from typing import Any

from ..errors import DataError
from .schema import FloatArray, check, plain, shortened

FORMAT_VERSION = 4
"""Version of the files that are written; raised when a reader of the old one would misread the new."""

RENAMED = {"named": "named_sources", "own": "state_cosines", "own_matrix": "state_cosine_matrix"}
"""Names of fields until version 3, and what they are called now."""


def check_version(state: Any) -> int:
    """Return the format version of a JSON document."""
    if not isinstance(state, Mapping):
        raise DataError(f"no result of normxlogit: expected fields with values, got {shortened(state)}")
    version = state.get("format_version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise DataError(f"cannot read format version {shortened(version)}; this version reads 1 to {FORMAT_VERSION}")
    return version


def current(state: Any) -> Mapping[str, Any]:
    """Return the fields of a result as the current version writes them."""
    version = check_version(state)
    try:
        state = _from_version_1(state) if version == 1 else state
        return _with_bias(_renamed(state))
    except ValueError as error:
        raise DataError(f"not an attribution of format version {version}: {error}") from None


def current_metadata(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the common values in a Parquet file's metadata in the form of the current version."""
    schema = metadata.get("schema_version")
    if schema is None:
        check_version(metadata)
        return metadata
    if schema != 1:
        raise DataError(f"a corpus of schema version {shortened(schema)}; this library reads 1")
    converted = {**metadata, "format_version": 2}
    if "kind" not in metadata:  # texts with scores of their tokens
        target = {"kind": "target_kind", "contrast": "contrast", "contrast_id": "contrast_id"}
        converted |= {"kind": "text", "target": {name: metadata[old] for name, old in target.items()}}
        converted |= {"word_ids": None, "token_predictions": None}
    return converted


def _from_version_1(state: Mapping[str, Any]) -> dict[str, Any]:
    """Add what version 1 did not have: the kind, how words are merged, and chat messages and named sources."""
    if "kind" in state:
        raise ValueError("it has a kind, which results of that version had not")
    kinds = {"generated": "generation", "times": "audio", "rows": "image"}
    kind = next((kinds[name] for name in kinds if name in state), "text")
    return {"diagnostics": {}, "messages": None, "named": {}, **state, "kind": kind, "merge": "sum"}


def _renamed(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the fields that had other names until version 3 their names of today."""
    return {RENAMED.get(name, name): value for name, value in state.items()}


def _with_bias(state: Mapping[str, Any]) -> dict[str, Any]:
    """Add `bias`, `sink`, `sinks`, `images` and `audio` to a file written before results had them.

    Its diagnostics have the bias of the last layer. Scores and bias add up to the same at every layer, which gives the
    other biases. Texts that were read in several windows have the bias of one window, which is left out.
    """
    blank = {"sink": None, "sinks": (), "images": (), "audio": ()}
    converted = {**blank, **state, "format_version": FORMAT_VERSION}
    diagnostics = state.get("diagnostics", {})
    if "bias" in state or not isinstance(diagnostics, Mapping):
        return converted
    measured = dict(diagnostics)
    bias = measured.pop("bias", None)
    if any("windows; scores are the mean" in str(note) for note in state.get("notes") or ()):
        bias = None
    if bias is not None and state.get("layers") is not None:
        array = check(FloatArray)
        sums = array(state.get("scores")).sum(-1)  # (..., L)
        bias = plain((sums[..., -1] + array(bias))[..., None] - sums)
    return converted | {"diagnostics": measured, "bias": bias}
