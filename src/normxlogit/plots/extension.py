"""What figures add to results."""

from ..extending import Extension

EXTENSION = Extension(
    figures={
        "attribution": "normxlogit.plots.plots:plot_attribution",
        "attributions": "normxlogit.plots.plots:plot_attributions",
    }
)
