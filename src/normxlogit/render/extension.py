"""What drawing adds to results."""

from ..extending import Extension

EXTENSION = Extension(
    drawers={
        "attribution": "normxlogit.render.cards:blocks_of_attribution",
        "unexplained": "normxlogit.render.cards:blocks_of_unexplained",
    },
    exports={name: f"normxlogit.render.exports:{name}" for name in ("html", "notebook", "terminal")},
)
