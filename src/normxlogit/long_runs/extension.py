"""What long runs add to results: which predictions are right."""

from ..extending import Extension

EXTENSION = Extension(exports={"right answers": "normxlogit.long_runs.gold.reading:matches_gold"})
