"""The workflow for those who fork: its commands are the README's and the repository's own."""

import shlex
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
WORKFLOW = ROOT / ".github/workflows/ci.yml"
if not WORKFLOW.exists():
    pytest.skip("an sdist has no workflow", allow_module_level=True)
JOBS = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]


def commands(job):
    lines = [step["run"] for step in JOBS[job]["steps"] if "run" in step]
    return [part for line in lines for part in line.split(" && ")]


def test_the_commands_of_the_workflow_are_those_of_the_readme_and_of_this_repository():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in commands("readme"):
        assert command in readme or command == "normxlogit doctor"
    scripts = [word for job in JOBS for command in commands(job) for word in shlex.split(command) if "/" in word]
    assert scripts == [".ci/run", "scripts/versions.py"]
    assert all((ROOT / script).is_file() for script in scripts)
