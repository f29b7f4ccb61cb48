"""What pairs of units add."""

from ..extending import Extension

EXTENSION = Extension(
    calls={"pairs": "normxlogit.interactions.call:pairs"},
    keywords={"pairs": "pairs.budget"},
    results={"pairs": "normxlogit.interactions.result:Pairs"},
    drawers={"pairs": "normxlogit.interactions.drawing:pairs_blocks"},
    commands={
        "evaluate interactions": "normxlogit.interactions.evaluation.interactions_command:interactions",
        "pairs": "normxlogit.interactions.pairs_command:pairs",
    },
)
