"""Our figures against the neighbours' own code, where the definitions agree; skipped where a neighbour is missing.

Ferret averages over shares of the tokens and Interpreto integrates over counts of them. On texts of ten tokens, shares
of 10% to 90% are counts of one to nine, and both can be compared with the nine levels here.
"""

import numpy as np
import pytest
import torch

from normxlogit import Explainer
from normxlogit.evaluation.faithfulness import measure_attributions
from tests import tiny

TEXTS = ["the film is bad and the plot is very long", "a great film with a good story and great charm"]


@pytest.fixture(scope="module")
def explainer():
    found = Explainer.from_pretrained()
    assert all(len(a.tokens) == 12 for a in found(TEXTS)), "ten tokens and two special ones"
    return found


@pytest.fixture(scope="module")
def ours(explainer):
    attributions = explainer(TEXTS, method="gradient-x-input")
    return attributions, measure_attributions(explainer, attributions, [0, 1])


@pytest.mark.filterwarnings("ignore")
def test_ferret(explainer, ours):
    measures = pytest.importorskip("ferret.evaluators.faithfulness_measures", exc_type=ImportError)
    from ferret.explainers.explanation import Explanation

    model, tokenizer = explainer.task_model.module, explainer.task_model.tokenizer

    class Helper:
        """Ferret asks its model by a helper that is made for transformers 4."""

        def _tokenize(self, text):
            return tokenizer(text, return_tensors="pt")

        def _forward(self, texts, **_):
            with torch.no_grad():
                return None, model(**tokenizer(texts, return_tensors="pt", padding=True)).logits

    class Neighbour:
        pass

    Neighbour.helper, Neighbour.tokenizer = Helper(), tokenizer
    removal = {"remove_tokens": False, "based_on": "perc", "thresholds": np.arange(0.1, 0.95, 0.1)}
    attributions, measured = ours
    for place, a in enumerate(attributions):
        positive = a.scores - a.scores.min() + 1  # it trips over numpy 2 where scores may be negative
        explanation = Explanation(a.text, a.tokens, positive, "ours", a.prediction.id)
        for name, found in (("Comprehensiveness", measured.drop), ("Sufficiency", measured.kept_drop)):
            compute = getattr(measures, f"AOPC_{name}_Evaluation").compute_evaluation
            Neighbour.SHORT_NAME = name
            theirs = compute(Neighbour(), explanation, a.prediction.id, removal_args=removal)
            assert theirs.score == pytest.approx(found[place].mean(), abs=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_interpreto(explainer, ours):
    """The area under the deletion curve from zero to ten tokens, by trapezoids, holds our nine levels and two ends."""
    metrics = pytest.importorskip("interpreto.attributions.metrics", exc_type=ImportError)
    from interpreto.attributions.base import AttributionOutput, ModelTask
    from interpreto.commons.granularity import Granularity

    model, tokenizer = explainer.task_model.module, explainer.task_model.tokenizer
    attributions, measured = ours
    for place, a in enumerate(attributions):
        output = AttributionOutput(
            attributions=torch.tensor(a.scores[1:-1])[None],
            elements=a.tokens[1:-1],
            model_inputs_to_explain=tokenizer(a.text, return_tensors="pt"),
            targets=torch.tensor([a.prediction.id]),
            model_task=ModelTask.CLASSIFICATION,
            granularity=Granularity.TOKEN,
        )
        area, _ = metrics.Deletion(model, tokenizer, n_perturbations=10).evaluate([output])
        curve = _curve(explainer, a)
        levels = a.prediction.probability - measured.drop[place]  # (9,)
        ends = a.prediction.probability - curve[[0, 10]]  # (2,)
        assert area == pytest.approx((levels.sum() + ends.sum() / 2) / 10, abs=1e-5)


def _curve(explainer, attribution):
    """The drop with the k best tokens masked, (11,), one text at a time."""
    model, tokenizer = explainer.task_model.module, explainer.task_model.tokenizer
    ranked = sorted(range(1, 11), key=lambda i: -attribution.scores[i])
    probabilities = []
    for count in range(11):
        ids = list(attribution.token_ids)
        for i in ranked[:count]:
            ids[i] = tokenizer.mask_token_id
        logits = tiny.logits_of(model, ids)
        probabilities.append(float(logits.softmax(-1)[attribution.prediction.id]))
    return probabilities[0] - np.array(probabilities)
