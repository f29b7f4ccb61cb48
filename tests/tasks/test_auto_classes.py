"""Every class that transformers' auto classes load has a task, or a line that says why it has none."""

import pytest
import transformers

from normxlogit.tasks import TASKS, head_error, task_name

AUTO_CLASSES = sorted(name for name in dir(transformers) if name.startswith("AutoModelFor"))


def classes_of(name: str) -> list[str]:
    kinds = getattr(transformers, name)._model_mapping._model_mapping.values()
    return [kind for entry in kinds for kind in (entry if isinstance(entry, tuple) else (entry,))]


@pytest.mark.parametrize("name", AUTO_CLASSES)
def test_each_class_has_a_task_or_a_reason(name):
    for kind in classes_of(name):
        task = task_name(kind)
        if task is None:
            assert "\n" not in head_error(kind)
            assert head_error(kind)
        else:
            assert task in TASKS
