"""Write docs/proofs.md from the functions that prove: python scripts/proof_table.py."""

from pathlib import Path

from normxlogit.frozen import conservation  # noqa: F401  # enters its proofs, as the others do
from normxlogit.methods.decomposition import decompx  # noqa: F401
from normxlogit.parts import model_proofs  # noqa: F401
from normxlogit.parts.proofs import PROOFS

PAGE = Path(__file__).parent.parent / "docs" / "proofs.md"

HEAD = """# Proofs

Written by `python scripts/proof_table.py` from `parts/proofs.py` and the functions that are entered in its table.

Scores are returned only for a model that passed these checks, on your own input. A proof that fails is a typed error,
or the library takes a way that needs no such proof, such as batches without padding. What could not be tried is a note
on the result. "Rounding" is 1e-5 in float32, and 8 times the machine epsilon in half precision, times the largest
logit, or 1.

<!-- generated: python scripts/proof_table.py -->

| proof | what is compared | how far apart it may be | what would be wrong without it | when |
|---|---|---|---|---|
"""


def written() -> str:
    """Return the page."""
    rows = []
    for proof in sorted(PROOFS, key=lambda proof: (not proof.when.startswith("first call"), proof.name)):
        cells = (proof.compares, proof.tolerance, proof.why, proof.when)
        rows.append(" | ".join(["| " + proof.name.replace("_", " "), *cells]) + " |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
