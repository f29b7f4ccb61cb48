"""What the comparison of two models adds."""

from ..extending import Extension

EXTENSION = Extension(
    calls={"compare_models": "normxlogit.model_comparison.call:compare_models"},
    results={"model-difference": "normxlogit.model_comparison.result:ModelDifference"},
    drawers={"model-difference": "normxlogit.model_comparison.drawing:difference_blocks"},
    commands={"compare-models": "normxlogit.model_comparison.compare_models_command:compare_models"},
)
