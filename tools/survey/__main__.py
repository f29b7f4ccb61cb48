"""Make the user's calls on every model class of transformers' auto mappings, and write docs/architectures.md.

`python -m tools.survey` from the repository's root goes on where it was stopped: outcomes are kept in
build/architectures.jsonl. `--mapping` and `--family` make the calls again on a part; `--again error` makes them again
where a call ended in an error. What is an error, or other than it is listed in `known.py`, is printed. Remove the file
to begin anew, as after a change of the library. The page says of a call that was not made that it was not.
"""

import argparse
import json
from typing import Any

from tools.survey.base import MAPPINGS
from tools.survey.known import differences
from tools.survey.page import write
from tools.survey.workers import ROOT, Pair, every_pair, survey

KEPT = ROOT / "build" / "architectures.jsonl"


def read_kept() -> dict[Pair, dict[str, Any]]:
    """Return the outcomes of earlier runs, the last of each class."""
    if not KEPT.exists():
        return {}
    found: dict[Pair, dict[str, Any]] = {}
    for line in KEPT.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        pair = row.pop("task"), row.pop("family")
        if row.pop("only", False):  # some calls of a class, made again
            row = found.get(pair, {}) | row | {"calls": found.get(pair, {}).get("calls", {}) | row.get("calls", {})}
        found[pair] = row
    return found


def _keep(pair: Pair, result: dict[str, Any]) -> None:
    """Append the outcomes of a class, and print those that are not "yes"."""
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a", encoding="utf-8") as file:
        print(json.dumps({"task": pair[0], "family": pair[1]} | result), file=file)
    print(*pair, result.get("seconds", ""), flush=True)
    for name, outcome in result.get("calls", {}).items():
        if outcome.startswith("fails"):
            print(f"    {name}: {outcome}", flush=True)
    for line in differences(*pair, result):
        print(f"    {line}", flush=True)


def main() -> None:
    """Make the calls that are missing or asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--mapping", action="append", choices=MAPPINGS, help="only these; may be given several times")
    parser.add_argument("--family", action="append", help="only these model types; may be given several times")
    parser.add_argument("--call", action="append", help="make only these calls again, such as 'frozen-gradient'")
    parser.add_argument("--again", help="make the calls again where an outcome begins with this, such as 'error'")
    arguments = parser.parse_args()
    pairs, kept = every_pair(), read_kept()
    chosen = [
        (task, family)
        for task, family in pairs
        if task in (arguments.mapping or MAPPINGS) and (not arguments.family or family in arguments.family)
    ]

    def missing(pair: Pair) -> bool:
        if pair not in kept or arguments.family or arguments.call:
            return True
        row = kept[pair]
        outcomes = [*row.get("calls", {}).values(), row.get("head", ""), "error" if "error" in row else ""]
        return arguments.again is not None and any(outcome.startswith(arguments.again) for outcome in outcomes)

    def keep(pair: Pair, result: dict[str, Any]) -> None:
        _keep(pair, result | ({"only": True} if arguments.call else {}))

    todo = [pair for pair in chosen if missing(pair)]
    survey(todo, arguments.processes, keep, only=arguments.call or ())
    kept = read_kept()
    write({pair: kept.get(pair, {}) for pair in pairs})


if __name__ == "__main__":
    main()
