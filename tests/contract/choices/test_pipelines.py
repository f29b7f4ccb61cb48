"""A zero-shot pipeline's own answer is explained."""

import pytest

from normxlogit import Explainer
from tests.contract.test_pipelines import TEXT, of_texts


def test_what_a_zero_shot_pipeline_answers_is_explained() -> None:
    for independent in (True, False):
        settings = {"candidate_labels": ["cat", "movie"], "multi_label": independent, "hypothesis_template": "a {}"}
        pipeline = of_texts("zero-shot-classification", "bert", "SequenceClassification", **settings)
        answer, a = pipeline(TEXT), Explainer(pipeline)(TEXT)
        assert a.prediction.label == answer["labels"][0]
        assert a.prediction.probability == pytest.approx(answer["scores"][0], abs=1e-5)
