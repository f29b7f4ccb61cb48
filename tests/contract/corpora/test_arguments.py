"""An argument that a corpus run does not take is an error that names the right one."""

import pytest

from normxlogit import Explainer, NormXLogitError, Predictions, attribute, summarize


def test_every_door_says_so(tmp_path):
    explainer = Explainer.from_pretrained()
    calls = {
        "did you mean pair_column=": lambda: Predictions(text_pair="b"),
        "Predictions(text_column=...)": lambda: attribute(explainer, [], tmp_path / "out", text_column="body"),
        "attribute has no argument 'batch_size'": lambda: attribute(explainer, [], tmp_path / "out", batch_size=4),
        "did you mean gold=": lambda: summarize(tmp_path, golds="label"),
        "attribute: missing a required argument": lambda: attribute(explainer, []),
    }
    for advice, call in calls.items():
        with pytest.raises(NormXLogitError) as error:
            call()
        assert advice in str(error.value), advice
    assert not (tmp_path / "out").exists()
