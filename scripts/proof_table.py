"""Print the table of proofs from the functions that prove: python scripts/proof_table.py."""

from normxlogit.decompositions import decompx, value_zeroing  # noqa: F401
from normxlogit.frozen import frozen_model  # noqa: F401  # enters its proofs, as the others do
from normxlogit.media.tasks import signals  # noqa: F401
from normxlogit.parts import model_proofs  # noqa: F401
from normxlogit.parts.proofs import PROOFS
from normxlogit.similarity.tasks import sentence_embedding  # noqa: F401

HEAD = """| proof | what is compared | how far apart it may be | what would be wrong without it | when |
|---|---|---|---|---|
"""


def table() -> str:
    """Return the table in Markdown."""
    rows = []
    for proof in sorted(PROOFS, key=lambda proof: (not proof.when.startswith("first call"), proof.name)):
        cells = (proof.compares, proof.tolerance, proof.why, proof.when)
        rows.append(" | ".join(["| " + proof.name.replace("_", " "), *cells]) + " |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    print(table(), end="")
