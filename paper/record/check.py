"""Runs the commands that pages name and says which figures differ."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from normxlogit.errors import InputError
from normxlogit.results.storage.files import write_text

from ..tables import published
from .compare import Difference, compare
from .marks import Block, blocks_of, commands_in, is_command, pages_of
from .printed import Printed, read_printed

__all__ = ["Outcome", "Ran", "Run", "check", "unmarked"]

_FILES = ("--output", "--after")
WRONG = ("differs", "failed", "without a command")


@dataclass(frozen=True)
class Ran:
    """What became of a command.

    Attributes:
        code: Its exit code.
        printed: Its standard output.
        errors: Its standard error.
    """

    code: int
    printed: str
    errors: str = ""


Run = Callable[[Sequence[str], Path], Ran]
"""Runs a command, given as words with the program's name, in a folder."""


@dataclass(frozen=True)
class Outcome:
    """What was found out about one block.

    Attributes:
        block: The block.
        state: "same", "differs", "failed" (a command), "skipped", "without a command", or the kind of a mark that
            compares nothing.
        note: Why it was skipped, how the command failed, or the reason in the mark.
        differences: Its figures that differ.
    """

    block: Block
    state: str
    note: str = ""
    differences: Sequence[Difference] = ()

    @property
    def wrong(self) -> bool:
        """Whether the check fails for it."""
        return self.state in WRONG


def unmarked(places: Sequence[Path]) -> list[Block]:
    """Return the blocks with figures that have neither a command nor a mark."""
    blocks = [block for page in pages_of(places) for block in blocks_of(page)]
    return [b for b in blocks if b.mark is None and b.figures and not b.printed]


def check(
    places: Sequence[Path],
    run: Run,
    folder: Path,
    *,
    given: Mapping[str, Path] | None = None,
    slow: bool = False,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> list[Outcome]:
    """Check the figures of pages.

    Args:
        places: Markdown files, and folders of them.
        run: Runs a command.
        folder: Where commands run, each page's in a folder of its own.
        given: What stands for the names of folders and files in commands, such as DATA.
        slow: Whether commands run that are marked as slow.
        on_progress: Called with what is running, blocks done and blocks in all.

    Returns:
        An outcome for every block that has figures or a mark.

    Raises:
        DataError: If a page is not there.
        InputError: If a mark is not understood.
    """
    pages = [(page, blocks_of(page)) for page in pages_of(places)]
    todo = sum(_counts(block) for _, blocks in pages for block in blocks)
    outcomes: list[Outcome] = []
    done: dict[tuple[str, ...], Ran] = {}
    for number, (page, blocks) in enumerate(pages):
        bench = _Bench(run, folder / f"{number}-{page.stem}", dict(given or {}), slow, done)
        for block in filter(_counts, blocks):
            if on_progress is not None:
                on_progress(f"{page}:{block.line}", len(outcomes), todo)
            outcomes.append(bench.outcome(block))
    if on_progress is not None and todo:
        on_progress("done", todo, todo)
    return outcomes


def _counts(block: Block) -> bool:
    return block.mark is not None or block.figures > 0


class _MissingError(Exception):
    """A command cannot run here; says why."""


class _FailedError(Exception):
    """A command failed; says how."""


class _Bench:
    """The commands of one page, each run once."""

    def __init__(
        self, run: Run, folder: Path, given: dict[str, Path], slow: bool, everywhere: dict[tuple[str, ...], Ran]
    ) -> None:
        self.run, self.folder, self.given, self.slow = run, folder, given, slow
        self.done: dict[tuple[str, ...], Ran] = {}
        self.everywhere = everywhere  # what was run for any page

    def outcome(self, block: Block) -> Outcome:
        """Check one block."""
        if block.mark is None and not block.printed:
            return Outcome(block, "without a command", "no comment before it says where it is from")
        if block.mark is not None and block.mark.kind != "figures":
            return Outcome(block, block.mark.kind, block.mark.text)
        try:
            source = block.mark.text if block.mark else "above"
            if source == "above" or is_command(source):
                differences = compare(block, self._printed(block, source))
            else:
                differences = compare(block, _read(block, source), exact=True)
        except _MissingError as error:
            return Outcome(block, "skipped", str(error))
        except _FailedError as error:
            return Outcome(block, "failed", str(error))
        return Outcome(block, "differs" if differences else "same", "", differences)

    def _printed(self, block: Block, source: str) -> Printed:
        """Run a block's commands and return what they printed, or the file that its mark names."""
        keys = block.mark.keys if block.mark else {}
        commands = block.commands if source == "above" else commands_in(source)
        if all(words[0] == "echo" for words in commands):
            raise _FailedError("no command of normxlogit in the console block above")
        more = keys.get("with", "").split()
        commands = (*commands[:-1], (*commands[-1], *more))
        filled = [self._filled(words, keys.get("needs", "").split()) for words in commands]
        if "slow" in keys and not self.slow:
            raise _MissingError("slow: runs with --slow")
        text = "\n".join(self._once(words).printed for words in filled)
        if name := keys.get("file"):
            if not (self.folder / name).is_file():
                raise _FailedError(f"the commands wrote no {name}")
            text = (self.folder / name).read_text(encoding="utf-8")
        return read_printed(text)

    def _once(self, words: tuple[str, ...]) -> Ran:
        read = [word for before, word in pairwise(("", *words)) if before not in _FILES and self._written(word)]
        # The same command reads another file where one was written again.
        key = (*words, *(str((self.folder / name).stat().st_mtime_ns) for name in read))
        is_of_page = bool(read) or words[0] == "echo" or any(word.partition("=")[0] in _FILES for word in words)
        done = self.done if is_of_page else self.everywhere
        if key not in done:
            self.folder.mkdir(parents=True, exist_ok=True)
            if words[0] == "echo":
                write_text(words[1] + "\n", self.folder / words[-1])
                done[key] = Ran(0, "")
            else:
                done[key] = self.run(words, self.folder)
        ran = done[key]
        if ran.code:
            last = ran.errors.strip().splitlines()[-1:] or ["no message"]
            raise _FailedError(f"exit code {ran.code} of {' '.join(words)[:80]}: {last[0]}")
        return ran

    def _written(self, name: str) -> bool:
        """Return whether an earlier command of the page wrote a file or folder of this name."""
        try:
            return not os.path.isabs(name) and (self.folder / name).exists()
        except OSError:  # a word that is too long for a name
            return False

    def _filled(self, words: Sequence[str], needs: Sequence[str]) -> tuple[str, ...]:
        """Put what is given in the place of names such as DATA, and say which are not given."""
        missing: dict[str, None] = {}

        def fill(word: str) -> str:
            head, equals, value = word.rpartition("=")
            name, slash, tail_of_name = value.lstrip("$").partition("/")
            for variable, tail in ((value, ""), (name, slash + tail_of_name)):
                if variable in self.given:
                    return f"{head}{equals}{os.path.abspath(self.given[variable])}{tail}"
            named = name in needs or value in needs
            exists = self._written(value) or (value.isidentifier() and find_spec(value) is not None)
            if (named or re.fullmatch(r"[A-Z][A-Z0-9_]+", name)) and not exists:
                missing[value if value in needs else name] = None
            return word

        filled = tuple(fill(word) for word in words)
        if missing:
            raise _MissingError("not given: " + ", ".join(f"--given {name}=FOLDER" for name in missing))
        return filled


def _read(block: Block, source: str) -> Printed:
    """Return what stands in tables and printed lines of pages, those left out that are themselves taken from pages."""
    texts = []
    for name in (part.strip() for part in source.split(",")):
        if name == "published":
            texts.append(str(published()))
            continue
        page = block.page if name == "page" else block.page.parent / name
        if not page.is_file():
            raise InputError(f"{block.page}:{block.line}: no page {name!r}; a mark names commands, above, or pages")
        texts += [text for other in blocks_of(page) for text in _firm(other)]
    return Printed("\n".join(texts))


def _firm(block: Block) -> Iterator[str]:
    """Yield the text of a block whose figures have a source of their own."""
    mark = block.mark
    named = mark is not None and (mark.kind != "figures" or mark.text == "above" or is_command(mark.text))
    if named or block.printed:
        yield from block.lines
        yield from (cell for row in block.cells[1:] for cell in row)
