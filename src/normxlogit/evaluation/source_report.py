"""How well methods find sources, as Markdown and JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ..results.files import write_json, write_text
from ..results.schema import plain
from .generation import TOP, SourceResult

__all__ = ["sources_table", "write_sources"]


def sources_table(results: Sequence[SourceResult], ranked: str = "source") -> str:
    """Return a Markdown table, leave-one-out (`occlusion`) first and the others by the drop without their first source.

    Args:
        results: One for each method.
        ranked: What the methods rank.
    """
    first, others = results[0], sorted(results[1:], key=lambda r: -r.drops[1][0])
    heads = [f"drop, top {k} ↑" for k in TOP]
    columns = ["method", "passes", f"first {ranked} as leave-one-out's ↑", "its nats ↑", *heads, "Spearman ↑", "LDS ↑"]
    lines = [
        f"| {' | '.join(columns)} |",
        "|---|---:|---:|---:|" + "---:|" * (len(TOP) + 2),
    ]
    for r in (first, *others):
        drops = " | ".join(_interval(r.drops[k], 1) for k in TOP)
        lines.append(
            f"| {r.method} | {r.passes:.3g} | {_interval(r.agrees, 2)} | {r.nats:.2f} | {drops} "
            f"| {_interval(r.spearman, 2)} | {_interval(r.lds, 2)} |"
        )
    return "\n".join(lines) + "\n"


def write_sources(
    folder: Path, results: Sequence[SourceResult], about: Mapping[str, str], ranked: str = "source"
) -> None:
    """Write `generation.json` and `generation.md`.

    Args:
        folder: Where.
        results: One for each method.
        about: What was measured, for the heading.
        ranked: What the methods rank.

    Raises:
        DataError: If a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json({"about": dict(about), "results": [plain(asdict(r)) for r in results]}, folder / "generation.json")
    heading = ", ".join(f"{key}: {value}" for key, value in about.items())
    write_text(f"{heading}\n\n{sources_table(results, ranked)}", folder / "generation.md")


def _interval(found: tuple[float, float, float], digits: int) -> str:
    mean, low, high = found
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
