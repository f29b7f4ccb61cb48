"""What pairs of units add."""

from ..extending import Extension

EXTENSION = Extension(
    calls={"pairs": "normxlogit.interactions.call:pairs"},
    results={"pairs": "normxlogit.interactions.result:Pairs"},
    drawers={"pairs": "normxlogit.interactions.drawing:pairs_blocks"},
    commands={"pairs": "normxlogit.interactions.pairs_command:pairs"},
)
