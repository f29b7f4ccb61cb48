"""A package that adds a call to normxlogit, with its result, drawer, export and command."""

from normxlogit.extending import Extension

EXTENSION = Extension(
    calls={"stability": "normxlogit_stability.call:stability"},
    results={"stability": "normxlogit_stability.result:Stability"},
    without={"spellings": "stability"},
    drawers={"stability": "normxlogit_stability.drawing:stability_blocks"},
    exports={"markdown": "normxlogit_stability.markdown:to_markdown"},
    commands={"stability": "normxlogit_stability.command:stability"},
)
