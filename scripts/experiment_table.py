"""Write the table of the paper's experiments on its page: python scripts/experiment_table.py."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # `paper` is not installed

from paper.experiments import experiments_table  # noqa: E402

PAGE = ROOT / "docs" / "reproduction.md"
BEGIN, END = "<!-- experiments: begin -->", "<!-- experiments: end -->"


def written() -> str:
    """Return the page with its table renewed."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n\n{experiments_table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
