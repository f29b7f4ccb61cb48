"""`quantity` names what was explained: by that name it is computed from the caller's own logits, and it is kept."""

import pytest

import normxlogit
from normxlogit import Attribution, Explainer
from tests import tiny
from tests.contract.compare import present

TEXT = "the movie is not good"

OF_LOGITS = {
    "logit": lambda logits, a: logits[a.target.id],
    "value": lambda logits, a: logits[a.target.id],
    "logit less the contrast's": lambda logits, a: logits[a.target.id] - logits[a.target.contrast_id],
    "logit less the vocabulary's mean": lambda logits, a: logits[a.target.id] - logits.mean(),
}
CASES = [
    ("bert", "SequenceClassification", {}, {}, "logit"),
    ("bert", "SequenceClassification", {}, {"target": 0, "contrast": 1}, "logit less the contrast's"),
    ("bert", "SequenceClassification", {"num_labels": 1}, {}, "value"),
    ("gpt2", "CausalLM", {}, {}, "logit less the vocabulary's mean"),
    ("gpt2", "CausalLM", {}, {"target": 9, "contrast": 10}, "logit less the contrast's"),
]


@pytest.mark.parametrize(("family", "kind", "settings", "options", "quantity"), CASES)
def test_scores_add_up_to_what_the_quantity_names(family, kind, settings, options, quantity, tmp_path):
    model = tiny.model(family, kind, **settings)
    e = Explainer(model, tiny.tokenizer_for(family))
    for method in present("frozen-gradient", "integrated-gradients"):
        a = e(TEXT, method=method, **options)
        logits = tiny.logits_of(model, a.token_ids)
        logits = logits if logits.ndim == 1 else logits[a.target.position]
        assert a.quantity == quantity
        own = OF_LOGITS[quantity](logits, a).item()
        assert a.scores.sum() + (a.sink or 0) + a.bias == pytest.approx(own, abs=1e-3)
        for file in ("a.json", "all.parquet"):
            (normxlogit.Attributions([a]) if file == "all.parquet" else a).save(tmp_path / file)
            loaded = normxlogit.load(tmp_path / file)
            assert (loaded if isinstance(loaded, Attribution) else loaded[0]).quantity == quantity


def test_methods_that_read_logits_or_odds_say_so():
    e = Explainer(tiny.model("gpt2", "CausalLM"), tiny.tokenizer_for("gpt2"))
    assert e(TEXT, method="logat").quantity == "logit"
    assert e(TEXT, method="occlusion").quantity == "logit less the vocabulary's mean"
    completion = e.explain_completion(TEXT, " a great film", method="normxlogit")
    assert completion.quantity == "logit"
    assert e.explain_completion(TEXT, " a great film").quantity == "logit less the vocabulary's mean"
    assert e.explain_completion(TEXT, " a great film", sources="word", method="occlusion").quantity == "log-probability"
