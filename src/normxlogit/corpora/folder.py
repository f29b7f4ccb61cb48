"""The output folder of a corpus run: shards, and a manifest of model, input and settings."""

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError, reason_of
from ..long_runs.identity import Identity
from ..long_runs.tables import arrow_module
from ..results.storage.columns import METADATA, UNREADABLE, metadata_of, open_parquet
from ..results.storage.files import json_text, write_bytes
from ..results.storage.schema import Index, check, plain, same
from .rows.shards import WrittenShard, WrittenShards

FORMAT = "normxlogit corpus"
VERSION = 1
MANIFEST = "manifest.json"
"""The file that says what a run was asked for, and how far it came."""

LOCK = ".lock"
"""The file that a run locks, so that no other one writes into its folder."""

SHARDS = "shards"
"""The folder of the files with results."""

ERRORS = "errors"
"""The folder of the files with rows that have no result."""

READERS = 16
"""Files that are opened at once to see which shards are written."""

REPAIR = "remove the file and start `normxlogit attribute` again with the same arguments, which writes it again"
"""Advice for a damaged file of a folder."""


@dataclass(frozen=True)
class Manifest:
    """The model, input and settings that a folder was made with."""

    input: tuple[str, ...]  # the names of what is read; the shards' digests tell whether the rows are the same
    model: str  # its name
    identity: Identity  # the identity of the model
    settings: Mapping[str, Any]  # the settings, by the names that a user knows
    shards: Index = 0  # how many shards the input makes; 0 until it is read to its end
    complete: bool = False  # whether it was read to its end

    @property
    def digest(self) -> str:
        """Return a digest of everything that results depend on except the model's behaviour; each shard holds it."""
        state = json.dumps([self.input, self.model, self.identity.digest, self.settings], sort_keys=True)
        return hashlib.blake2b(state.encode(), digest_size=12).hexdigest()

    def refuse_changes(self, now: "Manifest", folder: str) -> None:
        """Refuse to resume a run with another model, input or settings.

        Args:
            now: The manifest of the call that resumes.
            folder: The folder, for the error.

        Raises:
            DataError: If something differs that results depend on.
        """
        changes = []
        if self.model != now.model:
            changes.append(f"by model {self.model!r}, not {now.model!r}")
        for name in [*self.settings, *now.settings]:  # of either; a change that is found twice is said once
            old, new = self.settings.get(name), now.settings.get(name)
            if not same(old, new):
                changes.append(f"with {name} {json.dumps(old)}, not {json.dumps(new)}")
        if not self.identity.is_same(now.identity):
            differences = "weights, settings, active adapters, hooks, labels or another tokenizer"
            changes.append(f"by model {self.model!r} with other {differences}")
        for old, new in zip_longest(self.input, now.input, fillvalue="no further input"):
            if old != new:
                changes.append(f"of {old}, not {new}")
        if changes:
            raise DataError(f"{folder} was made {changes[0]}; give another --output, or the same as before")


class _ShardFile(NamedTuple):
    """What the file of a shard with results says of itself."""

    shard: WrittenShard
    columns: Sequence[str]  # the names of its columns


class Folder:
    """A folder of shards, on a disk or wherever fsspec writes.

    Args:
        place: The folder or URL.

    Raises:
        DataError: If it is not a folder or URL that can be written.

    Attributes:
        location: The folder or URL as the caller wrote it.
        system: Its fsspec file system.
        path: Its path in that system.
        local: Whether it is on a disk of this machine, where files can be locked and renamed.
    """

    def __init__(self, place: str | Path) -> None:
        import fsspec

        if not isinstance(place, str | Path) or not str(place).strip():
            raise DataError(f"{place!r} is not a folder or URL")
        self.location = str(place)
        # In names of files Python writes bytes that are not UTF-8 as surrogates, which Arrow cannot open.
        has_surrogates = any("\ud800" <= character <= "\udfff" for character in self.location)
        if has_surrogates:
            raise DataError(f"the name of {self.location!r} is not UTF-8; give another --output")
        try:
            self.system, self.path = fsspec.core.url_to_fs(self.location)
        except (ImportError, ValueError) as error:  # a protocol whose package is missing, or that nobody knows
            raise DataError(f"cannot write {place}: {error}") from None
        self.local = type(self.system).__name__ == "LocalFileSystem"

    def refuse_inside(self, inputs: Any) -> None:
        """Refuse an output folder inside an input folder: its shards would be input rows of the next run."""
        if not self.local or not isinstance(inputs, Sequence | Path):  # tables and streams of rows are in no folder
            return
        names = [inputs] if isinstance(inputs, str | Path) else inputs
        paths = [Path(name).resolve() for name in names if isinstance(name, str | Path)]
        own_path = Path(self.path).resolve()
        for path in paths:
            if path.is_dir() and own_path.is_relative_to(path):
                raise DataError(f"{self.location} lies in {path}, which is read as a whole; give another --output")

    def create(self) -> None:
        """Make the folder."""
        with self._writing():
            for name in (SHARDS, ERRORS):
                self.system.makedirs(self._at(name), exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder while this run writes, and remove files that a killed run left unfinished."""
        if not self.local:  # an object store has no locks, and keeps nothing unfinished
            yield
            return
        with self._writing():
            lock = Path(self._at(LOCK)).open("w")  # noqa: SIM115  # closed below
        with lock:
            with self._writing(), suppress(ImportError):  # Windows has no such locks
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system unlocks it when the process ends
            for unfinished in Path(self.path).rglob(".writing-*"):  # the names that `write_bytes` gives them
                with suppress(OSError):
                    unfinished.unlink()
            yield

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest atomically."""
        state = {"format": FORMAT, "version": VERSION, **plain(manifest)}
        self._write(json_text(state).encode("utf-8", errors="replace"), self._at(MANIFEST))

    def write_shard(self, written: WrittenShard, results: Any, errors: Any) -> None:
        """Write a shard, the file of its errors first, so that the errors of an existing shard are complete.

        Args:
            written: What is said of the shard.
            results: The rows with results, an Arrow table.
            errors: The rows without, an Arrow table.
        """
        with self._writing():
            if len(errors):
                self._write(_parquet(errors), self._file(ERRORS, written.shard))
            else:  # this shard may have been written before, with errors
                self._remove(self._file(ERRORS, written.shard))
            self._write(_parquet(results), self._file(SHARDS, written.shard))

    def remove(self, shards: Iterable[int]) -> None:
        """Remove shards and their errors."""
        with self._writing():
            for path in (self._file(kind, index) for index in shards for kind in (SHARDS, ERRORS)):
                self._remove(path)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn errors inside the block into a `DataError` that names the folder."""
        try:
            yield
        except BlockingIOError:  # of the lock, which another process holds
            raise DataError(f"{self.location}: another run is writing there; wait for it or stop it") from None
        except (OSError, ValueError) as error:
            raise DataError(f"cannot write {self.location}: {reason_of(error)}") from None

    def _write(self, content: bytes, path: str) -> None:
        """Write a file atomically."""
        if self.local:
            write_bytes(content, path)
        else:
            self.system.pipe_file(path, content)  # an object store writes atomically

    def _remove(self, path: str) -> None:
        """Remove a file if it is there."""
        if self.system.exists(path):
            self.system.rm(path)

    def read_manifest(self) -> Manifest | None:
        """Return the folder's manifest, None if it is new."""
        path = self._at(MANIFEST)
        try:
            if not self.system.exists(path):
                if self.system.exists(self._at(SHARDS)) and self.system.ls(self._at(SHARDS), detail=False):
                    raise DataError(f"{self.location} holds shards without a manifest; give an empty folder")
                return None
            state = json.loads(self.system.cat_file(path))
            if state["format"] != FORMAT or state["version"] != VERSION:
                raise DataError(f"{self.location}: the manifest is of version {state['version']}, not {VERSION}")
            return check(Manifest)(state)
        except OSError as error:
            raise DataError(f"cannot read {self.location}: {reason_of(error)}") from None
        except UNREADABLE as error:
            raise DataError(f"{self.location}: {MANIFEST} is not one of a corpus: {error!r}") from None

    def written(self, manifest: Manifest) -> WrittenShards:
        """Return the shards that are written, in their order; one that cannot be read does not count."""
        return {index: file.shard for index, file in self._shard_files(manifest, refuse_broken=False).items()}

    def written_whole(self, manifest: Manifest) -> WrittenShards:
        """Return the shards that are written, in their order.

        Raises:
            DataError: If a shard cannot be read, or lacks a column that another has.
        """
        files = self._shard_files(manifest, refuse_broken=True)
        expected = dict.fromkeys(name for file in files.values() for name in file.columns)
        for index, file in files.items():
            missing = [name for name in expected if name not in file.columns]
            if missing:
                path = self._file(SHARDS, index)
                raise DataError(f"{path}: no column {missing[0]!r}, which other shards have; {REPAIR}")
        return {index: file.shard for index, file in files.items()}

    def _shard_files(self, manifest: Manifest, *, refuse_broken: bool) -> dict[int, "_ShardFile"]:
        """Return what the files of the shards say of themselves, by the numbers of the shards, in their order.

        Args:
            manifest: The manifest of the run; files of other runs are left out.
            refuse_broken: Whether a file that cannot be read is an error; otherwise it is left out.
        """

        def described(path: str) -> _ShardFile | None:
            """Return what a file says of itself; None if it is left out."""
            try:
                return self._shard_file(path, manifest.digest)
            except DataError:
                if refuse_broken:
                    raise
                return None

        files = self.system.ls(self._at(SHARDS), detail=False)
        # Files of other names are not of a run; sorted by name they are in the order of the shards.
        paths = sorted(path for path in files if path.endswith(".parquet") and Path(path).stem.isdecimal())
        with ThreadPoolExecutor(READERS) as readers:  # for object stores
            return {file.shard.shard: file for file in readers.map(described, paths) if file is not None}

    def _shard_file(self, path: str, run_digest: str) -> _ShardFile | None:
        """Return what the file of a shard says of itself; None if it is of another run, or under another name."""
        with self._reading(path) as file:
            schema = file.schema_arrow
            state = dict(json.loads(schema.metadata[METADATA])["shard"])
            shard: WrittenShard = check(WrittenShard)(state)
            is_of_run = str(state["run"]) == run_digest
            is_in_place = Path(path).name == _name_of(shard.shard)  # and not a copy of the file of another shard
        return _ShardFile(shard, schema.names) if is_of_run and is_in_place else None

    def failures(self, written: WrittenShards) -> Iterator[tuple[int, str, str]]:
        """Yield the number, the id and the reason of each row without a result, in their order."""
        for index in sorted(index for index, shard in written.items() if shard.errors):
            with self._reading(self._file(ERRORS, index)) as file:
                table = file.read(["row", "id", "reason"], use_threads=False)  # see `parquet_file`
            for row, name, reason in zip(*(column.to_pylist() for column in table.columns), strict=True):
                yield int(row), str(name), str(reason)

    def shard_files(self, indices: Iterable[int]) -> list[str]:
        """Return the paths of shards in their order, with the protocol if they are not on a disk, such as "s3://"."""
        paths = [self._file(SHARDS, index) for index in sorted(indices)]
        return paths if self.local else [str(self.system.unstrip_protocol(path)) for path in paths]

    def common(self, path: str) -> dict[str, Any]:
        """Return the values in a shard's metadata that all its rows share."""
        with self._reading(path) as file:
            return dict(metadata_of(file.schema_arrow))

    def check(self, path: str) -> None:
        """Read a file of the folder to its end, part by part; a damaged one raises `DataError`."""
        with self._reading(path) as file:
            for i in range(file.num_row_groups):
                file.read_row_group(i, use_threads=False).validate(full=True)

    def _reading(self, path: str) -> AbstractContextManager[Any]:
        """Open a Parquet file of the folder; errors become a `DataError` that names it."""
        return open_parquet(lambda: self.system.open(path, "rb"), path, REPAIR)

    def _at(self, name: str) -> str:
        """Return the path of a file or folder in this one."""
        return f"{self.path.rstrip('/')}/{name}"

    def _file(self, kind: str, index: int) -> str:
        """Return the path of the file of a shard, of its results (`SHARDS`) or its errors (`ERRORS`)."""
        return self._at(f"{kind}/{_name_of(index)}")


def _name_of(shard: int) -> str:
    """Return the name of the file of a shard by the number of the shard; names sort as the numbers do."""
    return f"{shard:08d}.parquet"


def _parquet(table: Any) -> bytes:
    """Return a table as the content of a Parquet file."""
    content = io.BytesIO()
    settings = {"compression": "zstd", "compression_level": 1, "write_page_checksum": True}
    arrow_module().parquet.write_table(table, content, **settings)
    return content.getvalue()
