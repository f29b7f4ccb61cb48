"""A call is of one state of the model, whatever another thread makes of it meanwhile."""

import threading

import numpy as np
import pytest

from normxlogit import ALL, Explainer, InputError
from normxlogit.model.model_copy import input_errors
from normxlogit.model.task_model import TaskModel
from tests import tiny
from tests.contract.test_changed_models import TEXT, head_replaced


@pytest.mark.parametrize("layers", [None, ALL])
def test_a_change_in_another_thread_waits_for_the_next_call(layers, monkeypatch):
    """The first call has run its trunk when the other thread copies the changed model: it ends as it began."""
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    expected = Explainer(model, tokenizer)(TEXT, target=0, layers=layers).scores
    explainer, finish, found = Explainer(model, tokenizer), TaskModel.finish, []

    def changed(*_):
        head_replaced(model)
        found.append(explainer(TEXT, target=0, layers=layers).scores)

    def meanwhile(self, *args, **options):
        if not found:
            found.append(None)
            thread = threading.Thread(target=changed)
            thread.start()
            thread.join()
        return finish(self, *args, **options)

    monkeypatch.setattr(TaskModel, "finish", meanwhile)
    np.testing.assert_allclose(explainer(TEXT, target=0, layers=layers).scores, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(explainer(TEXT, target=0, layers=layers).scores, found[1])
    assert np.abs(found[1] - expected).max() > 1e-3


def test_a_fault_of_this_package_is_not_the_inputs():
    model = tiny.model("bert")
    model.bert.pooler.register_forward_hook(lambda _, __, output: output.no_such_attribute)
    with pytest.raises(InputError, match="no_such_attribute"):
        Explainer(model, tiny.tokenizer_for("bert"))(tiny.TEXTS[0])
    missing_in = compile("copy_of.no_such_attribute", "own", "eval")
    with pytest.raises(AttributeError), input_errors(model, {}):
        eval(missing_in, {"__name__": "normxlogit.frozen.rules", "copy_of": model})
