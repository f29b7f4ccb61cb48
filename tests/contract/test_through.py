"""What an answer rests on through its own earlier words: sums stay, and nothing is left on the answer."""

from dataclasses import replace

import numpy as np
import pytest

import normxlogit
from normxlogit import DataError, InputError
from tests import tiny
from tests.contract.compare import comes_back, refused

PROMPT, ANSWER = "the cat sat on the mat . it was a day", " A good film. The plot was never bad. So it was good"


def passed_by_hand(scores, part_of_unit):
    """Solve the formula of the docs part by part, with plain loops over parts and units."""
    scores = scores.astype(np.float64)
    rests, result = [], []
    for k, row in enumerate(scores):
        total = np.array([0.0 if unit in part_of_unit else value for unit, value in enumerate(row)])
        for unit, j in part_of_unit.items():
            if j < k:
                total = total + row[unit] * rests[j]
        positive = np.maximum(total, 0)
        rests.append(positive / positive.sum())
        own = sum(row[unit] for unit, j in part_of_unit.items() if j == k)
        result.append(total + own * rests[k])
    return np.array(result)


@pytest.mark.parametrize("options", [{}, {"parts": "sentence"}, {"parts": "sentence", "sources": "sentence"}])
def test_scores_of_the_answer_are_passed_on_and_sums_stay(writer, options):
    direct = writer.explain_completion(PROMPT, ANSWER, **options)
    passed = direct.through()
    if options:
        parts = [(k, *target.span) for k, target in enumerate(direct.targets)]
        ends = [(unit, end) for unit, (_, end) in enumerate(direct.units.spans) if end > len(PROMPT)]
        part_of_unit = {unit: k for unit, end in ends for k, start, stop in parts if start < end <= stop}
    else:  # the targets are tokens
        part_of_unit = {unit: unit - direct.prompt_tokens for unit in range(direct.prompt_tokens, len(direct.units))}
    assert len(set(part_of_unit.values())) >= 2
    expected = passed_by_hand(direct.scores, part_of_unit)
    np.testing.assert_allclose(passed.scores, expected, atol=1e-6 * np.abs(direct.scores).max())
    np.testing.assert_allclose(passed.scores.sum(-1), direct.scores.sum(-1), atol=1e-5)
    assert not passed.scores[:, list(part_of_unit)].any()
    assert passed.bias == pytest.approx(direct.bias)
    assert passed.settings["through"] == "the answer"
    assert direct.scores[1:, list(part_of_unit)].any()  # the direct result is as it was


def test_a_conclusion_finds_what_its_reasoning_rests_on(writer):
    """The second sentence rests on the first alone, and the first on one sentence of the prompt."""
    direct = writer.explain_completion("The cat sat. It was a day.", ANSWER, parts="sentence", sources="sentence")
    kinds = direct.units.kind
    scores = np.zeros_like(direct.scores)
    scores[0, 1] = 2.0  # of the prompt, the second sentence
    scores[1, kinds.index("answer")], scores[2, kinds.index("answer") + 1] = 3.0, -4.0
    passed = replace(direct, scores=scores).through()
    np.testing.assert_allclose(passed.scores[:, 1], [2.0, 3.0, -4.0])
    assert np.count_nonzero(passed.scores) == 3
    scores = np.zeros_like(direct.scores)
    scores[0, 0], scores[1, kinds.index("answer")] = -1.0, 3.0
    passed = replace(direct, scores=scores).through()  # a part that rests on nothing keeps what is taken from it
    np.testing.assert_allclose(passed.scores.sum(-1), scores.sum(-1))
    assert passed.scores[1, kinds.index("answer")] == 3.0


@pytest.mark.parametrize("options", [{}, {"sources": "sentence"}])
def test_parts_are_passed_through_as_they_stand_in_the_text(writer, options):
    parts = [4, 0, -2]
    direct = writer.explain_completion(PROMPT, ANSWER, parts=parts, **options)
    in_order = writer.explain_completion(PROMPT, ANSWER, parts=[0, 4, -2], **options).through()
    passed = direct.through()
    np.testing.assert_allclose(passed.scores.sum(-1), direct.scores.sum(-1), atol=1e-5)
    prompt = [unit for unit, (_, end) in enumerate(direct.units.spans) if 0 < end <= len(PROMPT)]
    np.testing.assert_allclose(passed.scores[:, prompt], in_order.scores[[1, 0, 2]][:, prompt], atol=1e-5)


def test_only_the_reasoning_is_passed_through_and_files_keep_it(writer, tmp_path):
    answer = " A good film. </think> The plot was never bad. So it was good"
    direct = writer.explain_completion(PROMPT, answer, parts="sentence", sources="sentence")
    passed, by_span = direct.through("reasoning"), direct.through([(0, answer.index("</think>"))])
    np.testing.assert_array_equal(passed.scores, by_span.scores)
    direct.save(tmp_path / "direct.json")
    assert normxlogit.load(tmp_path / "direct.json").through("reasoning") == passed
    comes_back(passed, tmp_path)
    answer_units = [unit for unit, kind in enumerate(direct.units.kind) if kind == "answer"]
    assert not passed.scores[:, answer_units[0]].any()
    assert passed.scores[-1, answer_units[1:]].any()
    np.testing.assert_allclose(passed.scores.sum(-1), direct.scores.sum(-1), atol=1e-5)


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_an_encoder_decoder_passes_on_to_its_source(family):
    direct = tiny.explainer(family, "Seq2SeqLM").explain_completion(PROMPT, ANSWER)
    passed = direct.through()
    assert direct.scores[2, direct.prompt_tokens]  # a later token reads the first of the answer
    assert not passed.scores[:, direct.prompt_tokens :].any()
    np.testing.assert_allclose(passed.scores.sum(-1), direct.scores.sum(-1), atol=1e-5)


def test_every_layer_is_passed_on_by_itself(writer):
    layers = writer.explain_completion(PROMPT, ANSWER, parts="sentence", method="normxlogit", layers=[1, 2])
    passed = layers.through()
    for layer in (1, 2):
        alone = layers.layer(layer).through()
        np.testing.assert_allclose(passed.layer(layer).scores, alone.scores, atol=1e-6)


def test_what_cannot_be_passed_on_is_refused(writer):
    complete = writer.explain_completion
    grouped, classified = complete(PROMPT, ANSWER).group("sentence"), tiny.explainer("bert")("a good film")
    refused(DataError, "before they are grouped", grouped.through)
    refused(DataError, "parts='sentence'", classified.through)
    for other in ({"target": "cat"}, {"contrast": 5}):
        refused(DataError, "own words", complete(PROMPT, ANSWER, **other).through)
    parts = complete(PROMPT, ANSWER, parts="sentence")
    refused(InputError, "no reasoning", lambda: parts.through("reasoning"))
    refused(InputError, "reasoning", lambda: parts.through("thoughts"))
    refused(InputError, "lies there", lambda: parts.through([(len(ANSWER), len(ANSWER) + 1)]))
