"""Print the way of a call through the rooms, and where a room calls one above it.

Usage: python scripts/walk.py [--list]

The way goes down through the rooms, in the order that import-linter holds. A room enters one above it by a callback
alone, a function that it was given: those of the calls below have names, and another one is marked.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import tomllib

from normxlogit import Explainer, attribute

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "normxlogit"
sys.path.insert(0, str(ROOT))  # for the tiny language model of the tests
TEXT = "The movie is mediocre, maybe even bad."
QUESTION, DOCUMENTS = "Is it good?", ["The movie was good in 1974. The plot was bad.", "It was never awful."]

CALLBACKS = {
    "copies/pool.py": "the context in which a copy is leased",
    "copies/run.py": "hooks of a forward pass",
    "leave_out/outcomes.py": "the function that measures removals, and what shows progress",
    "leave_out/search.py": "the function that measures removals",
    "model/batch_attempts.py": "the function that works on one batch",
    "parts/headpiece.py": "a function that runs the head under hooks",
    "parts/main_input.py": "a function that runs a module under hooks",
    "pipeline/arguments.py": "the function whose arguments are checked",
    "pipeline/by_halves.py": "the function that is tried again with half of its inputs",
}
"""Files that call a room above them, each with the function that it was given and calls."""


def heights() -> dict[str, int]:
    """Return how high each room stands in the order that import-linter holds; the lowest is 0."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers")
    return {
        room.strip().removeprefix("normxlogit."): height
        for height, layer in enumerate(reversed(layers))
        for room in layer.split("|")
    }


def walk(call: Callable[[], Any]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the files of the package that a call enters, and the pairs (caller, callee) that go to a higher room."""
    height_of_room = heights()
    entered: dict[str, None] = {}  # files, in the order in which they are entered
    upwards: dict[tuple[str, str], None] = {}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        """Record the entry of a function of the package; Python calls it at each event of a profiler."""
        if event != "call" or frame.f_code.co_name.startswith("<"):
            return
        file = frame.f_code.co_filename
        if not file.startswith(str(PACKAGE)):
            return
        name = str(Path(file).relative_to(PACKAGE))
        entered.setdefault(name, None)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(str(PACKAGE)):
            caller = caller.f_back  # through torch, such as to a hook
        if caller is None:
            return
        source = str(Path(caller.f_code.co_filename).relative_to(PACKAGE))
        # A file that is in none of the layers, such as __init__.py, has no height.
        low, high = (height_of_room.get(Path(path).parts[0].removesuffix(".py"), -1) for path in (source, name))
        if low >= 0 and high > low:
            upwards.setdefault((source, name), None)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(entered), list(upwards)


def room_of(file: str) -> str:
    """Return the room of a file."""
    return Path(file).parts[0].removesuffix(".py")


def print_way(name: str, call: Callable[[], Any], listed: bool) -> None:
    """Print the rooms that a call enters, in their order, and the callbacks of rooms above them."""
    files, upwards = walk(call)
    rooms = dict.fromkeys(map(room_of, files))
    print(f"{name}: {len(files)} files, {len(upwards)} times upwards")
    print(f"  {' > '.join(rooms)}")
    for low, high in upwards:
        print(f"  up: {low} -> {high}: {CALLBACKS.get(low, 'NOT NAMED')}")
    if listed:
        print(*(f"    {file}" for file in files), sep="\n")


def calls_to_walk(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the calls whose ways are printed; a corpus is written into another folder each time."""
    from tests import tiny

    explainer, reader, numbers = Explainer.from_pretrained(), tiny.writer(), count()
    rows = [{"text": TEXT}]
    return {
        "explainer(text, method='normxlogit')": lambda: explainer(TEXT, method="normxlogit"),
        "explainer(text)": lambda: explainer(TEXT),
        "explainer(text, verify=5)": lambda: explainer(TEXT, verify=5),
        "explainer.cite(question, documents)": lambda: reader.cite(QUESTION, DOCUMENTS, answer="It was good in 1980."),
        "attribute(explainer, rows, folder)": lambda: attribute(
            explainer, rows, folder / str(next(numbers)), progress=False
        ),
    }


def main() -> None:
    """Print the ways of five calls, each after one of its kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the files, in the order in which they are entered")
    listed = parser.parse_args().list
    with tempfile.TemporaryDirectory() as folder:
        for name, call in calls_to_walk(Path(folder)).items():
            call()
            print_way(name, call, listed)


if __name__ == "__main__":
    main()
