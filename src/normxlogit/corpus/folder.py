"""The folder that a corpus run writes: shards that are whole or not there, and a manifest of what they were made of."""

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..results.columns import METADATA
from ..results.files import json_text, replacing, write_text
from ..results.tables import optional_module
from .formats import arrow_module
from .shards import Done

__all__ = ["Folder", "Manifest"]

FORMAT = "normxlogit corpus"
VERSION = 1
MANIFEST, LOCK, SHARDS, ERRORS = "manifest.json", ".lock", "shards", "errors"


@dataclass
class Manifest:
    """What a folder was made of.

    Attributes:
        input: Name and fingerprint of each part of the input.
        model: Name and digest of the model.
        settings: The settings, by the names that a user knows.
        done: The shards that are written.
        complete: Whether the input was read to its end.
    """

    input: list[dict[str, Any]]
    model: dict[str, Any]
    settings: dict[str, Any]
    done: dict[int, Done] = field(default_factory=dict)
    complete: bool = False

    @property
    def digest(self) -> str:
        """Return a digest of everything that results depend on; each shard carries it."""
        state = json.dumps([self.input, self.model, self.settings], sort_keys=True)
        return hashlib.blake2b(state.encode(), digest_size=12).hexdigest()

    def count(self, what: str) -> int:
        """Return the sum over all shards of "rows", "errors" or "tokens"."""
        return sum(getattr(done, what) for done in self.done.values())

    def refuse_changes(self, now: "Manifest", place: str) -> None:
        """Refuse to go on with something else than what the folder was made of.

        Raises:
            DataError: If something changed; names it.
        """
        advice = "give another --output, or the same as before"
        old_name, new_name = self.model["name"], now.model["name"]
        if old_name != new_name:
            raise DataError(f"{place} was made by model {old_name!r}, not {new_name!r}; {advice}")
        if self.model != now.model:
            raise DataError(
                f"{place} was made by model {old_name!r} with other weights, settings, active adapters, hooks, labels "
                f"or another tokenizer; {advice}"
            )
        for name in [*self.settings, *now.settings]:
            old, new = self.settings.get(name), now.settings.get(name)
            if old != new:
                raise DataError(f"{place} was made with {name} {json.dumps(old)}, not {json.dumps(new)}; {advice}")
        for old_part, new_part in zip(self.input, now.input, strict=False):
            if old_part["name"] != new_part["name"]:
                raise DataError(f"{place} was made of {old_part['name']}, not {new_part['name']}; {advice}")
            if old_part != new_part:
                raise DataError(f"{place} was made of {old_part['name']} as it was before it changed; {advice}")
        if len(self.input) != len(now.input):
            more = [part["name"] for part in (self.input + now.input)[min(len(self.input), len(now.input)) :]]
            raise DataError(
                f"{place} was made of {len(self.input)} inputs, not {len(now.input)} ({more[-1]}); {advice}"
            )


class Folder:
    """A folder of shards, on a disk or wherever fsspec writes.

    Args:
        place: Its path or URL.
    """

    def __init__(self, place: str | Path) -> None:
        import fsspec

        if not isinstance(place, str | Path) or not str(place).strip():
            raise DataError(f"{place!r} is no folder or URL")
        self.place = str(place)
        if any("\ud800" <= character <= "\udfff" for character in self.place):  # Arrow knows no such names
            raise DataError(f"the name of {self.place!r} is not UTF-8; give another --output")
        try:
            self.system, self.path = fsspec.core.url_to_fs(self.place)
        except (ImportError, ValueError) as error:
            raise DataError(f"cannot write {place}: {error}") from None
        self.local = type(self.system).__name__ == "LocalFileSystem"

    def create(self) -> None:
        """Make the folder.

        Raises:
            DataError: If that cannot be done.
        """
        try:
            for name in (SHARDS, ERRORS):
                self.system.makedirs(self._at(name), exist_ok=True)
        except (OSError, ValueError) as error:
            raise DataError(f"cannot write {self.place}: {getattr(error, 'strerror', None) or error}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out while this one writes, and remove what a killed one left half written.

        The system frees the lock of a killed run.

        Raises:
            DataError: If another run is writing.
        """
        if not self.local:
            yield
            return
        try:
            import fcntl
        except ImportError:  # Windows
            self._tidy()
            yield
            return
        with ExitStack() as stack:
            try:
                file = stack.enter_context(Path(self._at(LOCK)).open("w"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataError(f"{self.place}: another run is writing there; wait for it or stop it") from None
            except OSError as error:
                raise DataError(f"cannot write {self.place}: {error.strerror}") from None
            self._tidy()
            yield

    def _tidy(self) -> None:
        """Remove what is half written; another run's, where one is at work."""
        for name in ("", SHARDS, ERRORS):
            for left in Path(self._at(name)).glob(".writing-*"):
                with suppress(OSError):
                    left.unlink()

    def read_manifest(self) -> Manifest | None:
        """Return what the folder was made of, None if it is new.

        Raises:
            DataError: If there is something else.
        """
        path = self._at(MANIFEST)
        try:
            if not self.system.exists(path):
                if any(self.system.ls(self._at(SHARDS), detail=False)):
                    raise DataError(f"{self.place} holds shards without a manifest; give an empty folder")
                return None
            state = json.loads(self.system.cat_file(path))
            if state["format"] != FORMAT or state["version"] != VERSION:
                raise DataError(f"{self.place}: the manifest is of version {state['version']}, not {VERSION}")
            return _manifest(state)
        except OSError as error:
            raise DataError(f"cannot read {self.place}: {error.strerror or error}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{self.place}: {MANIFEST} is not one of a corpus: {error!r}") from None

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest, whole or not at all."""
        shards = [vars(manifest.done[i]) for i in sorted(manifest.done)]
        sums = {what: manifest.count(what) for what in ("rows", "errors", "tokens")}
        state = {
            "format": FORMAT,
            "version": VERSION,
            "complete": manifest.complete,
            **sums,
            "input": manifest.input,
            "model": manifest.model,
            "settings": manifest.settings,
            "shards": shards,
        }
        if self.local:
            write_text(json_text(state), self._at(MANIFEST))
        else:
            self.system.pipe_file(self._at(MANIFEST), json_text(state).encode())

    def written(self, manifest: Manifest) -> dict[int, Done]:
        """Return the shards that are there: those of the manifest, and those that a killed run did not note.

        On a disk what cannot be read, or is not what the manifest says, is not there.
        """
        there = {
            int(Path(path).stem): path
            for path in self.system.ls(self._at(SHARDS), detail=False)
            if path.endswith(".parquet") and Path(path).stem.isdecimal()
        }
        found = {} if self.local else {i: done for i, done in manifest.done.items() if i in there}
        for index, path in there.items():
            if index not in found:
                about = self._about(path)
                if about is not None and about.pop("run", None) == manifest.digest:
                    found[index] = Done(**about)
        return found

    def refuse_inside(self, inputs: Any) -> None:
        """Refuse a place in a folder that is read: the shards would be rows of the next run.

        Raises:
            DataError: If it is there.
        """
        if not self.local:
            return
        for name in [inputs] if isinstance(inputs, str | Path) else inputs if isinstance(inputs, Sequence) else ():
            if not isinstance(name, str | Path) or "\0" in str(name):
                continue
            read = Path(name).resolve()
            if read.is_dir() and Path(self.path).resolve().is_relative_to(read):
                raise DataError(f"{self.place} lies in {name}, which is read as a whole; give another --output")

    def first_error(self, manifest: Manifest) -> tuple[int, str]:
        """Return the first row without a result, and why it has none; there must be one."""
        parquet = optional_module("pyarrow.parquet", "")
        index = min(i for i, done in manifest.done.items() if done.errors)
        with self.system.open(self._at(f"{ERRORS}/{index:08d}.parquet"), "rb") as file:
            table = parquet.read_table(file, columns=["row", "reason"])
        return int(table["row"][0].as_py()), str(table["reason"][0].as_py())

    def remove(self, shards: Iterable[int]) -> None:
        """Remove shards and their errors.

        Raises:
            DataError: If that cannot be done.
        """
        try:
            for index in shards:
                for kind in (SHARDS, ERRORS):
                    if self.system.exists(path := self._at(f"{kind}/{index:08d}.parquet")):
                        self.system.rm(path)
        except OSError as error:
            raise DataError(f"cannot write {self.place}: {error.strerror or error}") from None

    def exists(self) -> bool:
        """Return whether the folder is there."""
        return bool(self.system.exists(self._at(MANIFEST)))

    def shard_files(self, done: Iterable[int]) -> list[str]:
        """Return where shards are, in their order, as other programs name them."""
        paths = [self._at(f"{SHARDS}/{index:08d}.parquet") for index in sorted(done)]
        return paths if self.local else [str(self.system.unstrip_protocol(path)) for path in paths]

    def common(self, path: str) -> dict[str, Any]:
        """Return the values in a shard's metadata that all its rows share."""
        parquet = optional_module("pyarrow.parquet", "")
        with self.system.open(path, "rb") as file:
            found: dict[str, Any] = json.loads(parquet.read_schema(file).metadata[METADATA])
        return found

    def _about(self, path: str) -> dict[str, Any] | None:
        """Return the metadata that a file holds of its shard, None if it cannot be read."""
        try:
            found: dict[str, Any] | None = self.common(path)["shard"]
        except (KeyError, TypeError, ValueError, OSError, arrow_module().ArrowException):
            return None
        return found

    def write_shard(self, done: Done, results: Any, errors: Any) -> None:
        """Write a shard: its errors first, so that a shard that is there is all there.

        Raises:
            DataError: If it cannot be written.
        """
        name = f"{done.shard:08d}.parquet"
        beside = self._at(f"{ERRORS}/{name}")
        try:
            if len(errors):
                self._write(errors, beside)
            elif self.system.exists(beside):
                self.system.rm(beside)
            self._write(results, self._at(f"{SHARDS}/{name}"))
        except OSError as error:
            raise DataError(f"cannot write {self.place}: {error.strerror or error}") from None

    def _write(self, table: Any, path: str) -> None:
        parquet = optional_module("pyarrow.parquet", "")
        if self.local:
            with replacing(path) as beside:
                parquet.write_table(table, beside, compression="zstd", compression_level=1)
            return
        content = io.BytesIO()
        parquet.write_table(table, content, compression="zstd", compression_level=1)
        self.system.pipe_file(path, content.getvalue())  # an object store shows it whole or not at all

    def _at(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}" if name else self.path


def _manifest(state: Any) -> Manifest:
    """Return a manifest from its JSON.

    Raises:
        KeyError: If something is missing.
        TypeError: If something is not what it must be.
    """
    done = {one["shard"]: Done(**one) for one in state["shards"]}
    numbers = [v for one in done.values() for name, v in vars(one).items() if name != "digest"]
    parts = [state["model"], state["settings"], *state["input"]]
    names = [state["model"]["name"], *(part["name"] for part in state["input"])]
    right = all(type(n) is int for n in numbers) and all(isinstance(part, dict) for part in parts)
    if not right or not all(isinstance(name, str) for name in names) or type(state["complete"]) is not bool:
        raise TypeError("a field of another type")
    return Manifest(state["input"], state["model"], state["settings"], done, state["complete"])
