import json
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats

from normxlogit import ALL, Explainer, Predictions, attribute, summarize
from normxlogit.corpora.pages.page import summary_page
from tests import tiny
from tests.commands import run as command

from .corpora import explainer, results, rows_of, texts


def means_in_texts(folder):
    """Return for each label and token its mean score in each text, with the row; each distinct text once."""
    means, seen = defaultdict(list), set()
    for row in results(folder).to_pylist():
        text = (tuple(row["units"]), tuple(row["target"]))
        if text in seen:
            continue
        seen.add(text)
        in_text = defaultdict(list)
        for token, score, sequence in zip(row["units"], row["scores"], row["sequence_ids"], strict=True):
            if sequence is not None and any(c.isalnum() for c in token):
                in_text[row["target"][0], token.lower()].append(score)
        for key, scores in in_text.items():
            means[key].append((np.mean(scores), row))
    return means


def test_the_sums(tmp_path):
    attribute(explainer(), rows_of(texts(60)), tmp_path, Predictions(words=False), shard_rows=16, keep_text=True)
    summary = summarize(tmp_path, top=1000, min_texts=2)
    means = means_in_texts(tmp_path)
    wanted = {key: values for key, values in means.items() if len(values) >= 2}
    positive = {key for key, values in wanted.items() if np.mean([score for score, _ in values]) > 0}
    assert {(u.label, u.text) for u in summary.highest} == positive < set(wanted), "no negative mean is a largest one"
    assert summary.rare == len(means) - len(wanted)
    for unit in summary.highest:
        scores = np.array([score for score, _ in wanted[unit.label, unit.text]])
        assert unit.texts == len(scores)
        interval = stats.ttest_1samp(scores, 0).confidence_interval(0.95)
        assert unit.mean == pytest.approx(scores.mean(), rel=1e-4, abs=1e-4)
        assert (unit.low, unit.high) == pytest.approx((interval.low, interval.high), rel=1e-2, abs=1e-2)
        best = max(wanted[unit.label, unit.text], key=lambda text: text[0])
        assert any(row["id"] in unit.examples for s, row in wanted[unit.label, unit.text] if s == best[0])
    for label in {unit.label for unit in summary.highest}:
        surest = [unit.low for unit in summary.highest if unit.label == label]
        assert surest == sorted(surest, reverse=True)


REPEATED = "awful charm plot " * 20
ORDINARY = ["the movie is good", "a great film with charm", "never a bad film", "the plot is mediocre", "a good cat"]


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("repeated", [[REPEATED], ["awful charm plot"] * 20], ids=["in a text", "in many rows"])
def test_what_is_repeated_counts_as_one_text(tmp_path, words, repeated):
    """Twenty places in a review, and twenty rows of a review, are evidence once, and have no interval."""
    model, job = explainer(), Predictions(words=words, target="LABEL_0")
    attribute(model, rows_of([*ORDINARY, *repeated]), tmp_path, job, method="input-norm")  # all scores are positive
    listed = {unit.text: unit for unit in summarize(tmp_path, top=100, min_texts=1).highest}
    assert (listed["awful"].texts, listed["charm"].texts) == (1, 2)
    assert all((unit.low is None) == (unit.texts == 1) for unit in listed.values())
    explained = model([ORDINARY[1], repeated[0]], method="input-norm", long_text="truncate")
    scores = [np.mean([word.score for word in a.words() if word.text == "charm"]) for a in explained]
    assert listed["charm"].mean == pytest.approx(np.mean(scores), rel=1e-4)
    assert "awful" not in {unit.text for unit in summarize(tmp_path, top=100, min_texts=2).highest}


def test_a_run_that_was_killed_is_summed_up_as_far_as_it_is_written(tmp_path, capsys):
    rows = [{"text": None if i % 4 == 0 else t} for i, t in enumerate(texts(24))]
    attribute(explainer(), rows, tmp_path, shard_rows=8)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["shards"], manifest["complete"] = 0, False
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "shards/00000002.parquet").unlink()
    summary = summarize(tmp_path)
    assert (summary.rows, summary.errors, summary.complete) == (12, 4, False)
    assert "the run is not finished" in command(capsys, "summarize", tmp_path)[1]


@pytest.mark.parametrize("words", [False, True])
def test_words_of_any_script_are_listed(tmp_path, words):
    """DuckDB's `\\w` knows English letters only, and its `lower` writes Σ and İ otherwise than Python's."""
    foreign = ["ΟΔΟΣ", "İzmir", "фильм", "电", "हमला", "ωρα", "\N{WATERMELON}", "٣"]
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    tokenizer.add_tokens(foreign)
    model.resize_token_embeddings(len(tokenizer))
    rows = [{"text": f"{word} movie {other} !"} for word in foreign for other in foreign]
    attribute(Explainer(model, tokenizer), rows, tmp_path, Predictions(words=words), keep_text=True)
    summary = summarize(tmp_path, top=100)
    listed = {unit.text for unit in (*summary.highest, *summary.against)}
    assert ("οδος" if words else "οδοσ") in listed  # the tokenizer writes tokens in small letters
    assert {"izmir", "фильм", "电", "हमला", "ωρα", "\N{WATERMELON}", "3", "movie"} <= listed
    assert "!" not in listed


@pytest.mark.parametrize("words", [False, True])
def test_of_several_layers_the_last_that_can_be_seen_counts(tmp_path, words):
    """By the default method all of the last layer's scores are on the token that the head reads."""
    reader, some = explainer(), texts(30)
    attribute(reader, [{"text": None}, *rows_of(some)], tmp_path, Predictions(layers=ALL, words=words), shard_rows=1)
    summary = summarize(tmp_path, top=1000, min_texts=1)
    shares = {layer: [] for layer in reader(some[0], layers=ALL).layers}
    scores = {layer: defaultdict(list) for layer in shares}
    for result in reader(list(dict.fromkeys(some)), layers=ALL):
        plain = ~np.array(result.units.special)
        for layer, values in zip(result.layers, np.abs(result.scores), strict=True):
            shares[layer].append((values[plain].sum(), values.sum()))
            in_text = defaultdict(list)
            for word in result.layer(layer).words():
                in_text[word.text].append(word.score)
            for word, of_word in in_text.items():
                scores[layer][result.targets[0].name, word].append(np.mean(of_word))
    visible = [layer for layer, sums in shares.items() if np.divide(*np.sum(sums, 0)) >= 0.1]
    assert summary.layer == visible[-1] < max(shares)
    means = {key: np.mean(values) for key, values in scores[summary.layer].items() if key[1].isalnum()}
    assert {(unit.label, unit.text): unit.mean for unit in summary.highest} == {
        key: pytest.approx(mean, abs=1e-4) for key, mean in means.items() if mean > 0
    }
    assert f'layer</span> <span class="nxl-value" dir="auto">{summary.layer}<' in summary_page(summary)


def test_notes_of_results_are_counted_by_what_they_say(tmp_path):
    long, unread = " ".join(["good"] * 90), "\u6211 \u4eec \u7684 \u4e66"
    rows = [{"text": text} for text in ("good", unread, long, f"{unread} {unread}", f"{long} bad")]
    attribute(explainer(), rows, tmp_path / "out", keep_text=True)
    summary = summarize(tmp_path / "out")
    noted = [(note.text.partition("tokens")[0], note.rows, note.examples) for note in summary.notes]
    assert noted == [("4 of 4 ", 2, ["1", "3"]), ("the text has 92 ", 2, ["2", "4"])]
    assert "4 of 4 tokens are unknown to the tokenizer" in summary_page(summary)
