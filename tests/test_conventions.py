import json
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_listed_mutations_are_of_the_code_as_it_is():
    """A change that no longer fits is never tried, and its test never judged."""
    listed = json.loads((ROOT / "scripts" / "listed_mutations.json").read_text(encoding="utf-8"))
    assert listed
    for one in listed:
        code = (ROOT / one["path"]).read_text(encoding="utf-8")
        assert code.count(one["old"]) == 1, f"{one['path']}: {one['breaks']}"
        assert all((ROOT / path).exists() for path in one["tests"].split()), one["tests"]
