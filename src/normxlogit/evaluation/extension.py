"""What measuring methods adds."""

from ..extending import Extension

EXTENSION = Extension(
    commands={
        "evaluate": "normxlogit.evaluation.evaluate_commands:app",
        "evaluate faithfulness": "normxlogit.evaluation.evaluate_commands:faithfulness",
        "evaluate frontier": "normxlogit.evaluation.evaluate_commands:frontier",
        "evaluate evidence": "normxlogit.evaluation.evaluate_commands:evidence",
    },
)
