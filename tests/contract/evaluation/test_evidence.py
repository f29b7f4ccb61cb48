"""Known evidence: a linear module, of which every word's share is known, and all orders of equal scores by a loop."""

import itertools
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from normxlogit import DataError, Explainer, TargetError
from normxlogit.evaluation.evidence import Known, auroc, evaluate_evidence, found_among, load_evidence
from normxlogit.methods import method_named
from tests import commands, plain, tiny
from tests.contract.compare import refused

EXACT = ["frozen-gradient", "occlusion"]
WEIGHTS = {"good": 2.0, "great": 3.0, "bad": -2.0, "awful": -3.0}
"""What each word adds to "yes" and takes from "no"; other words add nothing."""


@pytest.fixture(scope="module")
def linear():
    module = plain.Bag(2).eval()
    with torch.no_grad():
        module.words.weight.zero_()
        module.head.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        module.head.bias.copy_(torch.tensor([0.1, 0.0]))
        for word, weight in WEIGHTS.items():
            module.words.weight[tiny.VOCABULARY[word], 0] = weight
    return Explainer(module, tiny.tokenizer_for("bert"), task="sequence-classification", labels=["no", "yes"])


def measured(explainer, *cases, methods=EXACT):
    results, counts = evaluate_evidence(explainer, cases, [method_named(method) for method in methods])
    return {result.method: result for result in results}, counts


def test_the_words_that_decide_a_linear_module_come_first(linear):
    results, counts = measured(
        linear,
        Known(("good",), "the movie is good and here", target="yes"),
        Known(((4, 8), "awful"), "the bad film was awful", target=0),
    )
    assert counts == {"inputs": 2}
    for method in EXACT:
        result = results[method]
        assert result.first == result.first_two == result.auroc == (1, 1), method
    last, _ = measured(linear, Known(("movie",), "great movie good"), Known(("bad",), "good bad great"))
    for method in EXACT:
        assert last[method].first == last[method].auroc == (0, 0), "words that add nothing come last"
    random = results["random"]
    assert random.first == pytest.approx((1 / 6, 2 / 5))
    assert random.first_two == pytest.approx((2 / 6, 1 - 3 / 5 * 2 / 4))
    assert random.auroc == (0.5, 0.5)


@pytest.mark.parametrize("written", ["ＧＯＯＤ", "**good**", "go\u00adod", "go-\nod", "“Good”"])
def test_evidence_is_found_in_whatever_way_it_is_written(linear, written):
    text = f"the movie is {written} and here"
    _, counts = measured(linear, Known(("good",), text), methods=["occlusion"])
    assert counts == {"inputs": 1}
    with pytest.raises(DataError, match="is not in the text"):
        measured(linear, Known(("goo",), text))


def test_a_contrast_is_explained_and_its_answer_checked(linear):
    results, counts = measured(
        linear,
        Known(("bad",), "the bad film", target="no", contrast="yes"),
        Known(("bad",), "the bad film", target="yes", contrast="no"),
    )
    assert counts == {"inputs": 1, "answered otherwise": 1}
    assert results["frozen-gradient"].first == (1,)
    layered = "frozen-gradient:read_at=1"
    results, _ = measured(linear, Known(("bad",), "a bad plot"), methods=[layered, "occlusion"])
    assert not hasattr(results[layered], "first"), "a method that does not work has no figures"
    assert results["occlusion"].first == (1,)


def test_what_speaks_for_the_target_rather_than_the_contrast_comes_first():
    """Of "yes" the good says most; of yes rather than maybe nothing, as it speaks for both alike."""
    module = plain.Bag(2).eval()
    module.head = torch.nn.Linear(2, 3)
    module.words.weight.data.zero_()
    module.head.weight.data.copy_(torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    module.words.weight.data[tiny.VOCABULARY["good"], :2] = 3
    module.words.weight.data[tiny.VOCABULARY["great"], 0] = 2
    labels = ["no", "maybe", "yes"]
    explainer = Explainer(module, tiny.tokenizer_for("bert"), task="sequence-classification", labels=labels)
    alone = Known(("great",), "the good great film", target="yes")
    results, _ = measured(explainer, alone, replace(alone, contrast="maybe"))
    for method in EXACT:
        assert results[method].first == (0, 1), method


def test_words_that_all_sentences_share_with_the_other_text_tell_less(linear):
    document = "The was here. Bad movie. The was good. The was fine."
    case = Known(("Bad movie.",), "the was bad", text_pair=document, among=(document,), units="sentence")
    results, counts = measured(linear, case, methods=[])
    assert counts == {"inputs": 1}
    assert results["lexical overlap"].first == (1,)


def test_evidence_in_the_second_text_of_a_pair(linear):
    results, _ = measured(linear, Known(("great",), "the cat sat", text_pair="a great film sat", target="yes"))
    assert results["frozen-gradient"].first == results["occlusion"].first == (1,)
    assert results["random"].first == pytest.approx((1 / 7,)), "not the word at its characters in the first text"
    assert results["last"].first == (0,)
    overlap = results["lexical overlap"]
    assert overlap.first == overlap.first_two == (0,), "the word in both texts is another"


def test_the_mask_that_is_explained_is_not_ranked_in_either_text():
    masked = tiny.explainer("bert", "MaskedLM")
    for text, text_pair in (("the cat sat", "a [MASK] film"), ("a [MASK] film", "the cat sat")):
        results, _ = measured(masked, Known(("cat",), text, text_pair=text_pair), methods=("random",))
        assert results["random"].first == pytest.approx((1 / 5,))


def test_rankings_that_read_no_model(linear):
    """The highest token id, which has "here"; the longest, which are "movie" and "great"; and the last."""
    text = "the movie here was great"
    assert max(text.split(), key=lambda word: tiny.VOCABULARY[word]) == "here"
    results, _ = measured(linear, *(Known((word,), text) for word in ("here", "movie", "great")), methods=[])
    assert results["rarest token"].first == (1, 0, 0)
    assert results["longest"].first == (0, 1 / 2, 1 / 2)
    assert results["last"].first == (0, 0, 1)


@pytest.mark.parametrize("seed", range(6))
def test_equal_scores_count_as_the_mean_over_all_their_orders(seed):
    draw = np.random.default_rng(seed)
    scores, is_evidence = draw.integers(3, size=5).astype(float), np.arange(5) < 1 + seed % 3
    every = itertools.permutations(range(5))
    orders = [order for order in every if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))]
    for count in (1, 2):
        expected = np.mean([any(is_evidence[i] for i in order[:count]) for order in orders])
        assert found_among(count, scores, is_evidence) == pytest.approx(expected)
    pairs = list(itertools.product(np.flatnonzero(is_evidence), np.flatnonzero(~is_evidence)))
    in_order = np.mean([order.index(a) < order.index(b) for order in orders for a, b in pairs])
    assert auroc(scores, is_evidence) == pytest.approx(in_order)


def test_what_cannot_be_measured_is_counted_with_the_reason(linear):
    unread, nothing_else = "evidence not read, or where the answer is read", "nothing but evidence"
    for case, reason in (
        (Known(("good",), "the good film", target="no"), "answered otherwise"),
        (Known(((3, 4),), "the good film"), unread),
        (Known(("awful", "good"), "good " + "the " * 60 + "awful"), unread),
        (Known(("the good film",), "the good film"), nothing_else),
        (Known(("good",), "the good film", among=("good",)), nothing_else),
        (Known(("good",), "the good film", among=("film",)), unread),
    ):
        assert measured(linear, Known(("bad",), "a bad plot"), case)[1] == {"inputs": 1, reason: 1}
        refused(DataError, "nothing can be measured", partial(measured, linear, case))


def test_evidence_that_is_not_in_the_text_and_a_label_that_does_not_exist_are_refused(linear):
    message, good = r"row 1: .* is not in the text, which has 13 characters", Known(("bad",), "a bad plot")
    for part in ("goo", "film was", (4, 60), (5, 5)):
        refused(DataError, message, partial(measured, linear, good, Known((part,), "the good film")))
    refused(TargetError, "perhaps", lambda: measured(linear, replace(good, target="perhaps")))


@pytest.mark.parametrize("methods", [["frozen-gradient"], ["occlusion"], ["input-norm"]])
def test_sentences_and_messages_that_an_answer_rests_on(methods):
    writer = tiny.writer(template=tiny.CHAT_TEMPLATE)
    documents = "The cat sat here. A great film was never bad. The keys are here."
    messages = [{"role": "user", "content": f"{name} was here ."} for name in ("the cat", "the actor", "the film")]
    asked = {"completion": "here", "units": "sentence", "among": (documents,)}
    case = Known(("The cat sat here.",), f"{documents} Is the cat here?", **asked)
    chat = Known(("the actor was here .",), messages=messages, completion="here", units="message")
    results, counts = measured(writer, case, chat, replace(case, contrast="there"), methods=methods)
    assert counts == {"inputs": 3}
    assert results["random"].first == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert results["lexical overlap"].first[0] == 1, "both have the cat"
    for given, sources in ((case, "sentence"), (chat, "message")):
        scores = writer.explain_completion(given.inputs, "here", sources=sources, method=methods[0]).scores[0, :3]
        place = [0, 1][given is chat]
        assert results[methods[0]].first[place] == (scores.argmax() == place)


def test_the_command_reads_a_file_and_writes_the_table(tmp_path, capsys):
    rows = [
        {"text": "A fine film.", "evidence": ["fine"], "target": "positive", "kind": "of no use"},
        {"text": "A dull and boring film.", "evidence": [[2, 6], "boring"], "target": "negative"},
    ]
    path = tmp_path / "known.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ("evaluate", "evidence", path, "--methods", "frozen-gradient", "--output", tmp_path / "out")
    _, printed, _ = commands.run(capsys, *arguments)
    assert "inputs: 2" in printed
    assert "| random |" in printed
    state = json.loads((tmp_path / "out" / "evidence.json").read_text())
    assert state["results"][0]["method"] == "frozen-gradient"
    assert len(state["results"][0]["auroc"]) == 2


def test_a_row_of_another_form_is_refused_by_its_number(tmp_path):
    path, good = tmp_path / "known.jsonl", {"text": "a bad plot", "evidence": ["bad"]}
    for row, problem in (
        ({"text": "a bad plot"}, "evidence: expected words"),
        (good | {"evidence": "bad"}, "evidence: expected a list"),
        (good | {"evidence": [[3, 1.5]]}, "evidence: expected"),
        ({"evidence": ["bad"]}, "expected a text, or the messages"),
        (good | {"units": "letter"}, "units: expected"),
    ):
        path.write_text(json.dumps(good) + "\n" + json.dumps(row))
        refused(DataError, f"row 1: .*{problem}", partial(load_evidence, path))
