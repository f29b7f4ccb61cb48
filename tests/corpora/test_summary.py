"""A summary against the same sums in Python."""

import json
from collections import defaultdict

import numpy as np
import pytest

from normxlogit import Predictions, attribute, summarize
from normxlogit.corpora.summaries.page import summary_page
from normxlogit.errors import DataError, InputError
from tests import tiny
from tests.commands import run as command

from .corpora import explainer, results, rows_of, texts


def places(folder):
    """Scores of each token by label, with the rows they are in."""
    found = defaultdict(list)
    for row in results(folder).to_pylist():
        for token, score, sequence in zip(row["units"], row["scores"], row["sequence_ids"], strict=True):
            if sequence is not None and any(c.isalnum() for c in token):
                found[row["target"][0], token.lower()].append((score, row))
    return found


def test_the_sums(tmp_path):
    attribute(explainer(), rows_of(texts(60)), tmp_path, shard_rows=16, keep_text=True)
    summary = summarize(tmp_path, top=1000, min_count=2)
    wanted = {key: values for key, values in places(tmp_path).items() if len(values) >= 2}
    positive = {key for key, values in wanted.items() if np.mean([score for score, _ in values]) > 0}
    assert {(u.label, u.text) for u in summary.highest} == positive < set(wanted), "no negative mean is a largest one"
    assert summary.rare == len(places(tmp_path)) - len(wanted)
    for unit in summary.highest:
        scores = np.array([score for score, _ in wanted[unit.label, unit.text]])
        assert unit.count == len(scores)
        assert unit.mean == pytest.approx(scores.mean(), rel=1e-4, abs=1e-4)
        assert unit.total == pytest.approx(scores.sum(), rel=1e-4, abs=1e-4)
        half = 1.96 * scores.std(ddof=1) / len(scores) ** 0.5
        assert unit.high - unit.mean == pytest.approx(half, rel=1e-2, abs=1e-2)
        assert unit.against == pytest.approx((scores < 0).mean())
        best = max(wanted[unit.label, unit.text], key=lambda place: place[0])
        assert any(row["id"] in unit.examples for s, row in wanted[unit.label, unit.text] if s == best[0])
    for label in {unit.label for unit in summary.highest}:
        surest = [unit.low for unit in summary.highest if unit.label == label]
        assert surest == sorted(surest, reverse=True)
    every = [
        (s, abs(v)) for r in results(tmp_path).to_pylist() for s, v in zip(r["sequence_ids"], r["scores"], strict=True)
    ]
    assert summary.special == pytest.approx(sum(v for s, v in every if s is None) / sum(v for _, v in every), rel=1e-4)


def test_words_of_wrong_answers_are_told_from_chance(tmp_path):
    """A word that stands in wrong answers alone is found among fifty that stand in both, and none where all do."""
    generator = np.random.default_rng(0)
    words = tiny.WORDS[:40]
    one, drawn = explainer(seed=0), [" ".join(generator.choice(words, 6)) for _ in range(80)]
    labels = list(one.model.config.id2label.values())
    rows = [{"text": t, "right": a.prediction.label} for t, a in zip(drawn, one(drawn), strict=True)]
    for row in rows:
        if "cat" in row["text"].split():
            row["right"] = next(label for label in labels if label != row["right"])
    attribute(one, rows, tmp_path / "cat", keep=["right"])
    summary = summarize(tmp_path / "cat", gold="right")
    assert summary.accuracy < 1
    assert summary.mistakes[0].text == "cat"
    assert summary.mistakes[0].right == 0
    assert summary.mistakes[0].chance < 0.05 / summary.tried

    for row in rows:
        row["right"] = labels[generator.integers(len(labels))]
    attribute(one, rows, tmp_path / "random", keep=["right"])
    summary = summarize(tmp_path / "random", gold="right")
    assert summary.mistakes == []
    assert "is more often in wrong answers than chance would have it" in summary_page(summary)


def test_a_run_that_was_killed_is_summed_up_as_far_as_it_is_written(tmp_path, capsys):
    rows = [{"text": None if i % 4 == 0 else t} for i, t in enumerate(texts(24))]
    attribute(explainer(), rows, tmp_path, shard_rows=8)
    assert "not finished" not in summary_page(summarize(tmp_path))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["shards"], manifest["complete"] = 0, False
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "shards/00000002.parquet").unlink()
    summary = summarize(tmp_path)
    assert (summary.rows, summary.errors, summary.complete) == (12, 4, False)
    assert "the run is not finished" in summary_page(summary)
    assert "the run is not finished" in command(capsys, "summarize", tmp_path)[1]


@pytest.mark.parametrize("words", [False, True])
def test_what_deleting_a_word_changes_is_what_the_callers_own_model_says(tmp_path, words):
    one = explainer(seed=0)
    rows = [{"text": text} for text in texts(60)]
    attribute(one, rows, tmp_path / "run", Predictions(words=words), keep_text=True, shard_rows=16)
    plain, summary = summarize(tmp_path / "run"), summarize(tmp_path / "run", verify=1000, explainer=one)
    assert [(u.label, u.text, u.mean) for u in plain.highest] == [(u.label, u.text, u.mean) for u in summary.highest]
    assert plain.highest[0].effect is None

    def logits(text):
        ids = one.tokenizer(text, return_tensors="pt")
        return one.model(**ids).logits[0].detach().numpy()

    for unit in [*summary.highest[:4], *summary.against[:2]]:
        changes, changed = [], []
        for row in results(tmp_path / "run").to_pylist():
            if row["target"] != [unit.label]:
                continue
            parts = row["text"].split()
            for place, part in enumerate(parts):
                if part.lower() == unit.text:
                    whole, without = logits(row["text"]), logits(" ".join(parts[:place] + parts[place + 1 :]))
                    label = one.model.config.label2id[unit.label]
                    changes.append(whole[label] - without[label])
                    changed.append(whole.argmax() != without.argmax())
        assert unit.effect.places == len(changes) == unit.count
        assert unit.effect.mean == pytest.approx(np.mean(changes), abs=1e-4)
        assert unit.effect.changed == pytest.approx(np.mean(changed))
        half = 1.96 * np.std(changes, ddof=1) / len(changes) ** 0.5
        assert unit.effect.high - unit.effect.mean == pytest.approx(half, abs=1e-4)
    few = summarize(tmp_path / "run", verify=2, explainer=one)
    assert {unit.effect.places for unit in few.highest} == {2}
    assert "deleting it takes" in summary_page(few)
    assert "deleting it takes" not in summary_page(plain)


def test_deleting_needs_the_runs_own_model_and_its_texts(tmp_path):
    one = explainer(seed=0)
    attribute(one, [{"text": text} for text in texts(20)], tmp_path / "bare", keep_text=False)
    with pytest.raises(DataError, match="keep-text"):
        summarize(tmp_path / "bare", verify=2, explainer=one)
    with pytest.raises(DataError, match="another state of it"):
        summarize(tmp_path / "bare", verify=2, explainer=explainer(seed=1))
    with pytest.raises(InputError, match="give both"):
        summarize(tmp_path / "bare", verify=2)
