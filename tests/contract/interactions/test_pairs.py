"""Pairs of units: their effects, what is measured of them, and how they are drawn and kept."""

import itertools
import re
from importlib.util import find_spec

import numpy as np
import pytest
import torch

import normxlogit
from normxlogit import ALL, Explainer, InputError, TargetError, UnsupportedModelError
from tests import tiny
from tests.commands import run

pytest.importorskip("normxlogit.interactions", reason="the wing is not there")

TEXT = "the movie is not good"
LONG = "a great film with charm and wit , but maybe mediocre plot !"
PROMPT = "the cat sat . the film is bad . a good plot . the movie is not good ."


@pytest.fixture(scope="module")
def sentiment() -> Explainer:
    return Explainer.from_pretrained()


@pytest.fixture(scope="module")
def negated(sentiment):
    return sentiment.pairs("not bad at all")


def log_odds_of_masks(explainer: Explainer, text: str, target: int) -> dict[tuple[bool, ...], float]:
    """The log-odds of a label for every mask of the words, which are one token each."""
    ids = explainer.tokenizer(text)["input_ids"]
    odds = {}
    for present in itertools.product((False, True), repeat=len(ids) - 2):
        kept = (True, *present, True)
        masked = [i if keep else explainer.tokenizer.mask_token_id for i, keep in zip(ids, kept, strict=True)]
        logits = tiny.logits_of(explainer.model, masked).double()
        others = torch.cat([logits[:target], logits[target + 1 :]])
        odds[present] = float(logits[target] - others.logsumexp(0))
    return odds


def test_a_reader_sees_why_not_bad_at_all_is_positive(sentiment, negated) -> None:
    (pair,) = negated.pairs
    assert [negated.units[unit] for unit in pair.units] == ["not", "bad"]
    assert (pair.kind, negated.attribution.prediction.label) == ("turns round", "positive")
    without_not, without_bad = pair.verified.single
    assert without_not.prediction.label == without_bad.prediction.label == "negative"
    assert pair.verified.together.prediction.label == "positive"
    shown = str(negated)
    assert '"not" and "bad" turn each other round: without "not" negative' in shown
    assert "without both positive" in shown
    masked = sentiment("[MASK] bad at all")
    assert without_not.prediction.probability == pytest.approx(masked.prediction.probability, abs=1e-5)


def test_effects_of_few_units_are_exact_and_add_up() -> None:
    explainer = tiny.explainer("bert")
    result = explainer.pairs(TEXT, target=1)
    assert result.exact
    assert result.passes == 2 ** len(result.units)
    odds = log_odds_of_masks(explainer, TEXT, 1)
    units = range(len(result.units))

    def mean_over_orders(members: tuple[int, ...]) -> float:
        """The interaction of some units, averaged over the orders of all units in which these come as one."""
        others = [unit for unit in units if unit not in members]
        differences = []
        for order in itertools.permutations(["them", *others]):
            before = set(order[: order.index("them")])
            total = 0.0
            for size in range(len(members) + 1):
                for some in itertools.combinations(members, size):
                    mask = tuple(unit in before or unit in some for unit in units)
                    total += (-1) ** (len(members) - size) * odds[mask]
            differences.append(total)
        return float(np.mean(differences))

    np.testing.assert_allclose(result.single, [mean_over_orders((unit,)) for unit in units], rtol=1e-4, atol=1e-5)
    for first, second in itertools.combinations(units, 2):
        assert result.joint[first, second] == pytest.approx(mean_over_orders((first, second)), rel=1e-4, abs=1e-5)
    whole, empty = odds[(True,) * len(units)], odds[(False,) * len(units)]
    assert result.k_shapley().sum() + result.joint.sum() / 2 == pytest.approx(whole - empty, rel=1e-4)


def test_labels_that_hold_side_by_side_are_compared_by_their_logits() -> None:
    explainer = tiny.explainer("bert", problem_type="multi_label_classification", num_labels=3)
    result = explainer.pairs("good movie", target=0, contrast=1)
    ids, mask = explainer.tokenizer("good movie")["input_ids"], explainer.tokenizer.mask_token_id
    logits = {
        (first, second): tiny.logits_of(explainer.model, [ids[0], *row, ids[3]])[:2].double()
        for first, second in itertools.product((0, 1), repeat=2)
        for row in [[ids[1] if first else mask, ids[2] if second else mask]]
    }
    values = {present: float(row[0] - row[1]) for present, row in logits.items()}
    first = (values[1, 0] - values[0, 0] + values[1, 1] - values[0, 1]) / 2
    joint = values[1, 1] - values[1, 0] - values[0, 1] + values[0, 0]
    assert (result.single[0], result.joint[0, 1]) == pytest.approx((first, joint), rel=1e-3, abs=1e-6)


def test_the_budget_is_kept_and_every_input_is_asked_once() -> None:
    explainer = tiny.explainer("bert")
    explainer(LONG)  # parts are found
    read = []
    handle = explainer.model.get_input_embeddings().register_forward_hook(lambda *call: read.append(len(call[2])))
    try:
        explainer(LONG)
        alone = sum(read)
        read.clear()
        result = explainer.pairs(LONG, budget=40)
    finally:
        handle.remove()
    assert result.passes <= 40
    assert not result.exact
    assert sum(read) - alone <= 40


def test_the_measured_joint_effect_is_that_of_the_four_answers(sentiment, negated) -> None:
    (pair,) = negated.pairs
    texts = ["not bad at all", "[MASK] bad at all", "not [MASK] at all", "[MASK] [MASK] at all"]
    logits = [sentiment(text, target=ALL).bias + sentiment(text, target=ALL).scores.sum(-1) for text in texts]
    odds = [float(positive - negative) for negative, positive in logits]
    assert pair.tested == pytest.approx(odds[0] - odds[1] - odds[2] + odds[3], abs=1e-3)
    assert pair.joint * pair.tested > 0


def test_pairs_are_the_same_alone_and_among_others(sentiment, negated) -> None:
    first, second = sentiment.pairs(["a fine film", "not bad at all"])
    assert first.units == ("a", "fine", "film")
    assert second.units == negated.units
    np.testing.assert_allclose(second.joint, negated.joint, atol=1e-4)


def test_results_come_back_from_files(negated, tmp_path) -> None:
    for name in ("pairs.json", "pairs.parquet"):
        negated.save(tmp_path / name)
        assert normxlogit.load(tmp_path / name) == negated
    table = negated.to_pandas()
    assert table.loc[0, ["first", "second", "kind"]].tolist() == ["not", "bad", "turns round"]


def test_pages_have_an_arc_and_escape_what_is_written(sentiment, negated) -> None:
    page = negated.to_html()
    assert len(re.findall("<path d=", page)) == len(negated.pairs)
    assert "turn each other round" in page
    hostile = sentiment.pairs("<script>alert(1)</script> not bad", units=["<script>alert(1)</script>", "not", "bad"])
    assert "<script>alert" not in hostile.to_html()


def test_units_of_the_callers_choice(sentiment) -> None:
    result = sentiment.pairs("The plot is thin. The cast is superb. I was never bored.", units="sentence")
    assert result.units == ("The plot is thin.", "The cast is superb.", "I was never bored.")
    named = sentiment.pairs("not bad at all", units=["not", "bad"])
    assert named.units == ("not", "bad")
    assert named.passes == 4


def test_pairs_of_texts_have_units_of_both() -> None:
    result = tiny.explainer("bert").pairs(("the movie", "is not good"))
    assert result.units == ("the", "movie", "is", "not", "good")


def test_spans_of_a_prompt() -> None:
    explainer = tiny.explainer("llama", "CausalLM")
    spans = {name: (PROMPT.index(name), PROMPT.index(name) + len(name)) for name in re.findall(r"[\w ]+ \.", PROMPT)}
    result = explainer.pairs(PROMPT, " the cat", units=spans)
    assert len(result.units) == 4
    assert (result.quantity, result.removed_by) == ("log-probability", "deleted")
    assert result.pairs
    for pair in result.pairs:
        names = [result.units[unit] for unit in pair.units]
        without = explainer.without(PROMPT, names, completion=" the cat", sources=spans)
        assert pair.verified.together.value == pytest.approx(without.value, abs=1e-4)


def test_sentences_are_the_units_of_a_prompt_by_default() -> None:
    explainer = tiny.explainer("llama", "CausalLM")
    result = explainer.pairs("A cat. A dog. A film. A plot. A cast.", " the cat")
    assert result.units == ("A cat.", "A dog.", "A film.", "A plot.", "A cast.")


def test_sentences_of_the_same_words_are_one_unit() -> None:
    result = tiny.explainer("llama", "CausalLM").pairs("A cat. A dog. A cat. A plot. The film.", " the movie")
    assert result.units == ("A cat.", "A dog.", "A plot.", "The film.")


def test_the_next_token_of_a_prompt() -> None:
    result = tiny.explainer("llama", "CausalLM").pairs("the cat sat on the mat")
    assert result.quantity == "log-probability"


def test_a_regression_has_no_answer_that_goes() -> None:
    result = tiny.explainer("bert", num_labels=1).pairs(TEXT)
    assert result.quantity == "value"
    assert {pair.kind for pair in result.pairs} <= {"together"}


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        (("good",), {}, InputError, "two units"),
        (([TEXT, "good"],), {}, InputError, "input 1: a pair needs two units"),
        ((LONG,), {"budget": 5}, InputError, "from 20"),
        ((LONG,), {"budget": 10**6}, InputError, "from 20"),
        ((LONG,), {"budget": "many"}, InputError, "budget"),
        ((TEXT,), {"target": [0, 1]}, TargetError, "one target"),
        ((TEXT,), {"target": ALL}, TargetError, "one target"),
        ((TEXT, "good"), {"target": 1}, InputError, "target="),
        (([TEXT], ["good", "bad"]), {}, InputError, "2 completions for 1"),
    ],
)
def test_refusals(arguments, options, error, words) -> None:
    with pytest.raises(error, match=words):
        tiny.explainer("bert").pairs(*arguments, **options)


@pytest.mark.skipif(find_spec("normxlogit.grounding") is not None, reason="the wing that reads documents is there")
def test_documents_without_the_wing_that_reads_them_are_refused() -> None:
    with pytest.raises(InputError, match=r"documents=.*normxlogit/grounding.*pip install"):
        tiny.writer().pairs("is it good", " the cat sat", documents={"one": "The movie is good."})


def test_an_answer_that_is_a_span_is_refused() -> None:
    explainer = tiny.explainer("bert", "QuestionAnswering")
    with pytest.raises(UnsupportedModelError, match="span"):
        explainer.pairs(("is it good", TEXT))


def test_words_that_stand_twice_are_told_apart(sentiment) -> None:
    result = sentiment.pairs("not bad , not bad at all", budget=128)
    assert result.units[:2] == result.units[3:5] == ("not", "bad")
    (pair,) = (pair for pair in result.pairs if pair.units == (1, 4))
    assert '"bad" or "bad (2)" will do' in str(pair)
    assert ["bad", "bad (2)"] in result.to_pandas()[["first", "second"]].values.tolist()
    assert "bad + bad (2)" in str(result)


def test_a_keyword_of_the_call_is_the_budget(sentiment, negated) -> None:
    assert sentiment("not bad at all", pairs=64) == negated
    assert sentiment("not bad at all", pairs=None) == sentiment("not bad at all")
    with pytest.raises(InputError, match="pairs= is budget= of pairs"):
        sentiment("not bad at all", pairs=64, budget=32)
    with pytest.raises(InputError, match="pairs has no argument 'verify'"):
        sentiment("not bad at all", pairs=64, verify=2)


def test_command(tmp_path, capsys) -> None:
    code, _, errors = run(capsys, "pairs", "not bad at all", "--output", tmp_path / "pairs.json")
    assert code == 0, errors
    assert normxlogit.load(tmp_path / "pairs.json").pairs[0].kind == "turns round"
