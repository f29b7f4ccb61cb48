"""Curves from support to probability, and the model that each belongs to."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from normxlogit import Explainer
from normxlogit.errors import DataError
from normxlogit.grounding.calibration import calibration_for, curve, fit, load, platt, save
from normxlogit.grounding.evaluation.calibration_quality import calibration_table
from tests import tiny

LABELS = np.arange(60) % 2 == 0
SUPPORTS = np.random.default_rng(0).normal(size=60) + LABELS


def tiny_model(seed=0):
    torch.manual_seed(seed)
    return Explainer(LlamaForCausalLM(LlamaConfig(**tiny.CONFIGS["llama"])).eval(), tiny.tokenizer()).language_model


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NORMXLOGIT_CACHE", str(tmp_path))
    return tmp_path / "calibrations"


def test_the_curve_is_the_likeliest_one_of_platts_targets():
    slope, intercept = platt(SUPPORTS, LABELS)
    count = LABELS.sum()
    targets = np.where(LABELS, (count + 1) / (count + 2), 1 / (len(LABELS) - count + 2))

    def loss(slope, intercept):
        probabilities = curve(SUPPORTS, slope, intercept)
        return -(targets * np.log(probabilities) + (1 - targets) * np.log(1 - probabilities)).sum()

    for a, b in ((0.05, 0), (-0.05, 0), (0, 0.05), (0, -0.05)):
        assert loss(slope + a, intercept + b) > loss(slope, intercept)


def test_a_few_sentences_without_a_mistake_give_no_certainty():
    slope, intercept = platt(np.where(LABELS, 1.0, 0.0), LABELS)
    assert 0.9 < curve(np.array(1.0), slope, intercept) < 0.99


def test_the_saved_calibration_is_found_for_its_model_alone(cache):
    model, changed = tiny_model(), tiny_model(1)
    fitted = fit(model, SUPPORTS, LABELS, "labels")
    path = save(fitted)
    assert path.parent == cache
    assert load(path) == fitted
    assert calibration_for(model) == fitted
    assert calibration_for(changed) is None


def test_a_calibration_is_lost_where_the_numbers_change_and_kept_where_other_settings_do():
    model, tokenizer = tiny.model("llama", "CausalLM"), tiny.tokenizer()
    save(fit(Explainer(model, tokenizer).language_model, SUPPORTS, LABELS, "labels"))
    model.config.id2label = {0: "no", 1: "yes"}
    tokenizer.truncation_side = "left"
    tokenizer.model_max_length = 39
    assert calibration_for(Explainer(model, tokenizer).language_model) is not None
    tokenizer.chat_template = tiny.CHAT_TEMPLATE
    assert calibration_for(Explainer(model, tokenizer).language_model) is None
    tokenizer.chat_template = None
    with torch.no_grad():
        model.lm_head.weight.mul_(1.1)
    assert calibration_for(Explainer(model, tokenizer).language_model) is None


def test_a_file_that_is_no_calibration_is_named(cache):
    cache.mkdir(parents=True)
    (cache / "broken.json").write_text('{"slope": "steep"}')
    with pytest.raises(DataError, match="not a calibration"):
        calibration_for(tiny_model())


def test_a_ranking_that_tells_nothing_has_no_calibration():
    with pytest.raises(DataError, match="there is no calibration"):
        fit(tiny_model(), -SUPPORTS, LABELS, "labels")
    with pytest.raises(DataError, match="20 of each"):
        fit(tiny_model(), SUPPORTS[:30], LABELS[:30], "labels")


def test_the_table_counts_every_sentence_once():
    table = calibration_table(SUPPORTS, LABELS, [str(place % 5) for place in range(60)])
    counts = [int(row.split("|")[2]) for row in table.splitlines()[2:6]]
    assert sum(counts) == 60
