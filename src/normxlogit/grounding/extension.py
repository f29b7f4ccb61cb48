"""What the documents of an answer add."""

from ..extending import Extension

EXTENSION = Extension(
    calls={"cite": "normxlogit.grounding.call:cite"},
    without={"documents": "cite", "messages": "cite"},
    commands={
        "calibrate": "normxlogit.grounding.evaluation.calibrate:calibrate",
        "cite": "normxlogit.grounding.cite_command:cite",
        "evaluate generation": "normxlogit.grounding.evaluation.generation_command:generation",
    },
    results={"citations": "normxlogit.grounding.result:Citations"},
    drawers={"citations": "normxlogit.grounding.drawing:citation_blocks"},
)
