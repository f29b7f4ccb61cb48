"""What the comparison of two models adds."""

from ..extending import Extension

EXTENSION = Extension(
    results={"model-difference": "normxlogit.model_comparison.result:ModelDifference"},
    commands={"compare-models": "normxlogit.model_comparison.command:compare_models"},
)
