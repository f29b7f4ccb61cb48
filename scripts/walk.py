"""Count the files that a second call enters, and how often a room calls one above it.

Usage: python scripts/walk.py [--list]
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import tomllib

from normxlogit import Explainer

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "normxlogit"
sys.path.insert(0, str(ROOT))  # for the tiny language model of the tests
TEXT = "The movie is mediocre, maybe even bad."
QUESTION, DOCUMENTS = "Is it good?", ["The movie was good in 1974. The plot was bad.", "It was never awful."]


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
    order, entered, upwards = heights(), {}, {}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_name.startswith("<"):
            return
        file = frame.f_code.co_filename
        if not file.startswith(str(PACKAGE)):
            return
        name = str(Path(file).relative_to(PACKAGE))
        entered.setdefault(name, None)
        caller = frame.f_back
        if caller is None or not caller.f_code.co_filename.startswith(str(PACKAGE)):
            return
        source = str(Path(caller.f_code.co_filename).relative_to(PACKAGE))
        low, high = (order.get(Path(path).parts[0].removesuffix(".py"), -1) for path in (source, name))
        if low >= 0 and high > low:
            upwards.setdefault((source, name), None)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(entered), list(upwards)


def main() -> None:
    """Print the numbers of four calls, each after one of its kind."""
    from tests import tiny

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the files, in the order in which they are entered")
    listed = parser.parse_args().list
    explainer, reader = Explainer.from_pretrained(), tiny.writer()
    calls: dict[str, Callable[[], Any]] = {
        "explainer(text, method='normxlogit')": lambda: explainer(TEXT, method="normxlogit"),
        "explainer(text)": lambda: explainer(TEXT),
        "explainer(text, verify=5)": lambda: explainer(TEXT, verify=5),
        "explainer.cite(question, documents)": lambda: reader.cite(QUESTION, DOCUMENTS, answer="It was good in 1980."),
    }
    for name, call in calls.items():
        call()
        files, upwards = walk(call)
        print(f"{name}: {len(files)} files, {len(upwards)} times upwards")
        if listed:
            print(*(f"  {file}" for file in files), *(f"  up: {low} -> {high}" for low, high in upwards), sep="\n")


if __name__ == "__main__":
    main()
