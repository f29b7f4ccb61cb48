"""AOPC and its relatives, recomputed by hand."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats

from normxlogit import DataError, Explainer, InputError, MethodError, UnsupportedModelError
from normxlogit.evaluation import faithfulness, gold_labels, perturbation
from normxlogit.evaluation.datasets import Example, load_examples, task_named
from normxlogit.evaluation.faithfulness import evaluate, run_methods
from normxlogit.evaluation.report import write_faithfulness
from normxlogit.methods import LogAt, method_named
from tests import adapters, tiny
from tests.commands import run as command
from tests.contract.compare import refused

TEXTS = [*tiny.TEXTS, "the cat sat on the mat here", "very awful !"]
EXAMPLES = [Example(text, label) for text, label in zip(TEXTS, [0, 1, 0, 1, 1], strict=True)]


def by_hand(model, tokenizer, explainer, method, protocol):
    """The definitions as one plain loop: no batching, no shared code."""
    drops, kept, right = [], [], []

    def ask(ids):
        return tiny.logits_of(model, ids).softmax(-1)

    for example in EXAMPLES:
        ids = tokenizer(example.text)["input_ids"]
        scores = explainer(example.text, method=method).scores
        before = ask(ids)
        label = int(before.argmax())
        row, keep, hits = [], [], []
        for tenths in range(1, 10):
            if protocol == "published":
                places = list(range(1, len(ids)))
                count = int(len(ids) * tenths / 10)
            else:
                places = list(range(1, len(ids) - 1))
                count = round(tenths / 10 * len(places))
            ranked = sorted(places, key=lambda i: (-scores[i], i))
            masked, only = (
                [tokenizer.mask_token_id if i in gone else index for i, index in enumerate(ids)]
                for gone in (ranked[:count], ranked[count:])
            )
            after = ask(masked)
            row.append(float(before[label] - after[label]))
            keep.append(float(before[label] - ask(only)[label]))
            hits.append(int(after.argmax()) == example.label)
        for values, of_text in ((drops, row), (kept, keep), (right, hits)):
            values.append(of_text)
    return np.mean(drops, 0), np.mean(kept), np.mean(right)


@pytest.mark.parametrize("protocol", ["default", "published"])
@pytest.mark.parametrize("method", ["normxlogit", "random"])
def test_equals_a_plain_loop(method, protocol):
    model, tokenizer = tiny.model("roberta"), tiny.tokenizer_for("roberta")
    explainer = Explainer(model, tokenizer)
    curve, sufficiency, accuracy = by_hand(model, tokenizer, explainer, method, protocol)
    (result,) = faithfulness.evaluate(explainer, EXAMPLES, [method], protocol=protocol)
    np.testing.assert_allclose(result.curves["aopc"], curve, atol=1e-5)
    assert result.aopc == pytest.approx(curve.mean(), abs=1e-5)
    assert result.sufficiency == pytest.approx(sufficiency, abs=1e-5)
    assert result.quality == pytest.approx(accuracy, abs=1e-9)
    assert result.quality_name == "accuracy"
    said = [int(model(**tokenizer(e.text, return_tensors="pt")).logits.argmax()) for e in EXAMPLES]
    assert result.whole_quality == np.mean([a == e.label for a, e in zip(said, EXAMPLES, strict=True)])
    low, high = result.aopc_interval
    assert low < result.aopc < high
    assert np.ptp(curve) > 0.01, "the model must react, or this test sees nothing"


def test_regression_gives_pearson_with_gold():
    model, tokenizer = tiny.model("bert", num_labels=1), tiny.tokenizer_for("bert")
    examples = [Example(tiny.PAIR, 4.5), Example(("bad film", "good film"), 1.0), Example(("a cat", "the keys"), 0.5)]
    explainer = Explainer(model, tokenizer)
    (result,) = faithfulness.evaluate(explainer, examples, ["input-norm"])

    def ask(inputs, gone):
        ids = [tokenizer.mask_token_id if i in gone else t for i, t in enumerate(inputs["input_ids"])]
        with torch.no_grad():
            types = torch.tensor([inputs["token_type_ids"]])
            return model(input_ids=torch.tensor([ids]), token_type_ids=types).logits.item()

    expected, changes, kept = [], [], []
    for tenths in range(1, 10):
        outputs = []
        for example in examples:
            inputs = tokenizer(*example.text, return_special_tokens_mask=True)
            scores = explainer(example.text, method="input-norm").scores
            places = [i for i, special in enumerate(inputs["special_tokens_mask"]) if not special]
            ranked = sorted(places, key=lambda i: (-scores[i], i))
            count = round(tenths / 10 * len(places))
            outputs.append(ask(inputs, ranked[:count]))
            changes.append(ask(inputs, ()) - outputs[-1])
            kept.append(ask(inputs, ()) - ask(inputs, ranked[count:]))
        expected.append(np.corrcoef(outputs, [4.5, 1.0, 0.5])[0, 1])
    np.testing.assert_allclose(result.curves["quality"], expected, atol=1e-4)
    assert result.aopc == pytest.approx(np.abs(changes).mean(), abs=1e-5)
    assert result.sufficiency == pytest.approx(np.abs(kept).mean(), abs=1e-5)
    assert min(changes) < -1e-3 < 1e-3 < max(changes), "the size of a change counts, whatever its sign"
    assert min(kept) < -1e-3
    assert result.quality_name == "pearson"
    whole = [ask(tokenizer(*example.text), ()) for example in examples]
    assert result.whole_quality == pytest.approx(np.corrcoef(whole, [4.5, 1.0, 0.5])[0, 1], abs=1e-4)


def test_ties_go_to_the_earlier_position():
    explainer = tiny.explainer("bert")
    (encoding,) = explainer.encode(["the movie is not good"])
    top, rest = perturbation.split(encoding, np.zeros(7), 0.4, "default")
    assert (top, rest) == ([1, 2], [3, 4, 5])
    top, _ = perturbation.split(encoding, np.zeros(7), 0.9, "published")
    assert top == [1, 2, 3, 4, 5, 6], "int(7 x 0.9), the closing token among them"


def test_scores_of_another_library():
    explainer, pairs = tiny.explainer("bert"), [Example(tiny.PAIR, 0), Example(("bad film", "good film"), 1)]
    for examples, options in ((EXAMPLES, {}), (pairs, {}), (EXAMPLES, {"protocol": "published"})):
        ours = explainer([e.text for e in examples], method="normxlogit")
        measured = faithfulness.measure_attributions(explainer, ours, [e.label for e in examples], **options)
        (direct,) = faithfulness.evaluate(explainer, examples, "normxlogit", **options)
        assert measured.aopc == pytest.approx(direct.aopc)


def test_a_paired_test_tells_methods_apart_and_constant_outputs_do_not_correlate():
    rng = np.random.default_rng(0)
    drops = rng.random(40)
    (measured,) = faithfulness.evaluate(tiny.explainer("bert"), EXAMPLES, "random")
    a = replace(measured, method="a", texts=40, per_text=tuple(drops))
    b = replace(measured, method="b", texts=40, per_text=tuple(drops + 0.1))
    assert faithfulness.paired_p_value(a, b) < 1e-6
    assert faithfulness.paired_p_value(b, a) == faithfulness.paired_p_value(a, b), "it has two sides"
    assert faithfulness.paired_p_value(a, a) == 1.0
    for one, other in ((a, replace(b, texts=39)), (replace(a, texts=39), b)):
        message = f"a was measured on {one.texts} texts, b on {other.texts}"
        refused(DataError, message, partial(faithfulness.paired_p_value, one, other))
    gold = np.arange(4.0)  # outputs that are all the same do not correlate
    assert perturbation.quality(np.ones(4), gold, regression=True) == 0
    assert perturbation.quality(gold, gold, regression=True) == pytest.approx(1)


def random_texts(count):
    draw = np.random.default_rng(0)
    return [" ".join(draw.choice(tiny.WORDS, size=8)) for _ in range(count)]


def test_a_method_that_is_worse_than_random_is_named_with_its_interval():
    explainer, texts = tiny.explainer("bert"), random_texts(24)
    labels = [0] * len(texts)
    ranked_well = explainer(texts, method="occlusion")
    ranked_badly = [replace(a, scores=-a.scores, bias=None) for a in ranked_well]
    attributions = {"good": ranked_well, "bad": ranked_badly, "random": explainer(texts, method="random")}
    results = [
        faithfulness.measure_attributions(explainer, scored, labels, method=name)
        for name, scored in attributions.items()
    ]
    good, bad, by_chance = results
    below = faithfulness.worse_than_random(results)
    assert list(below) == ["bad"]
    differences = np.subtract(bad.per_text, by_chance.per_text)
    expected = stats.ttest_rel(bad.per_text, by_chance.per_text).confidence_interval(0.95)
    assert below["bad"] == pytest.approx((differences.mean(), expected.low, expected.high))
    written = write_faithfulness(None, results, {"dataset": "made"})
    assert (
        f"bad is worse than random on this model**: over 24 texts its AOPC is {-differences.mean():.3f} lower"
        in written
    )
    assert f"(95% interval {-expected.high:.3f} to {-expected.low:.3f})" in written
    assert "good is worse" not in written
    assert "worse than random" not in write_faithfulness(None, [good, by_chance], {})
    assert faithfulness.worse_than_random([bad, good]) == {}, "nothing is said where random was not measured"
    level = replace(bad, per_text=tuple(np.add(by_chance.per_text, [0.1, -0.2] * 12)))
    assert faithfulness.worse_than_random([level, by_chance]) == {}, "lower, but not surely"
    one = replace(bad, texts=1, per_text=bad.per_text[:1])
    few = [one, replace(by_chance, texts=1, per_text=by_chance.per_text[:1])]
    assert faithfulness.worse_than_random(few) == {}, "a single text has no interval"


def test_the_command_measures_random_beside_the_methods_that_are_named(capsys, tmp_path):
    options = ["--methods", "input-norm", "--limit", 4, "--output", tmp_path / "out"]
    code, out, err = command(capsys, "evaluate", "faithfulness", *options)
    assert code == 0, err
    assert "| random |" in out.replace("**", "")
    assert "worse_than_random" in json.loads((tmp_path / "out" / "results.json").read_text())


def test_the_published_protocol_reads_ninety_tokens():
    tokenizer = tiny.tokenizer_for("bert")
    tokenizer.model_max_length = 120
    explainer = Explainer(tiny.model("bert", max_position_embeddings=120), tokenizer)
    examples = [Example("the cat " * count, 0) for count in (60, 44, 45)]
    texts = [example.text for example in examples]
    assert [len(e) for e in faithfulness.encode(explainer, texts, "published")] == [90, 90, 90]
    assert [len(e) for e in faithfulness.encode(explainer, texts, "default")] == [120, 90, 92]
    assert faithfulness.count_texts(explainer, examples, "published") == {"texts": 3, "of which cut": 2}
    assert faithfulness.count_texts(explainer, examples) == {"texts": 3, "of which cut": 1}
    assert faithfulness.count_texts(explainer, examples[1:2]) == {"texts": 1}


def test_labels_and_models_that_do_not_fit():
    explainer = tiny.explainer("bert")
    for labels, message in (
        ([0, 2], r"of the model \(LABEL_0, LABEL_1\) these gold labels mean .*: '2' "),
        ([], "no examples"),
        ([-1, 1], "'-1' "),
        ([0.5, 1], "'0.5' "),
        ([None, 1], "example 0 has no label"),
        ([[0, 1], [1]], r"example 0 has labels \[0, 1\]; the model answers with one label"),
    ):
        examples = [Example("fine", label) for label in labels]
        refused(DataError, message, partial(faithfulness.evaluate, explainer, examples))
    for kind, name in (("MaskedLM", "masked-lm"), ("TokenClassification", "token-classification")):
        other = tiny.explainer("bert", kind)
        on, needs = f"regression models, not on {name}", f"sst2 needs a model that classifies texts, .* for {name}"
        refused(UnsupportedModelError, on, partial(faithfulness.evaluate, other, EXAMPLES))
        refused(UnsupportedModelError, needs, partial(gold_labels.check_head, other.task_model, task_named("sst2")))
    message = "must be 'default' or 'published', not 'paper'"
    refused(InputError, message, lambda: faithfulness.evaluate(explainer, EXAMPLES, protocol="paper"))


@pytest.mark.parametrize(("task", "outputs"), [("sst2", 2), ("qnli", 2), ("mnli", 3), ("stsb", 1)])
def test_a_task_needs_a_head_of_as_many_labels(task, outputs):
    for given in (1, 2, 3):
        check = partial(gold_labels.check_head, tiny.explainer("bert", num_labels=given).task_model, task_named(task))
        has, needs = ("one value" if n == 1 else f"{n} labels" for n in (given, outputs))
        if given == outputs:
            check()
        else:
            refused(UnsupportedModelError, f"answers with {has}, and {task} needs {needs}", check)


FEELINGS = ("joy", "anger", "fear")
SPELLED = {"names": list, "zeros and ones": lambda names: [int(name in names) for name in FEELINGS]}


@pytest.mark.parametrize("spelled", SPELLED)
def test_the_accuracy_of_several_labels_is_the_share_of_answers_among_them(spelled):
    model = tiny.model("bert", num_labels=3, problem_type="multi_label_classification")
    explainer = Explainer(model, tiny.tokenizer_for("bert"), labels=FEELINGS)
    answers = [result.prediction.label for result in explainer(tiny.TEXTS)]
    others = [[name for name in FEELINGS if name != label] for label in answers]
    gold = [[others[i][0], label] if i % 2 else others[i] for i, label in enumerate(answers)]
    rows = [{"text": text, "label": SPELLED[spelled](names)} for text, names in zip(tiny.TEXTS, gold, strict=True)]
    examples = load_examples(rows, gold_labels=FEELINGS)
    (result,) = evaluate(explainer, examples, "input-norm")
    assert result.whole_quality == pytest.approx(np.mean([i % 2 for i in range(len(gold))]))
    with pytest.raises(DataError, match="answers with one label"):
        evaluate(Explainer(tiny.model("bert", num_labels=3), tiny.tokenizer_for("bert"), labels=FEELINGS), examples)


def test_a_regression_of_several_values_is_refused():
    model = tiny.model("bert", num_labels=3, problem_type="regression")
    with pytest.raises(UnsupportedModelError, match=r"one value, and .* answers with 3"):
        evaluate(Explainer(model, tiny.tokenizer_for("bert")), [Example("the movie", 1.0)], ["random"])


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # peft's call
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # torch's own
def test_measurements_of_one_adapter_are_not_those_of_another(tmp_path):
    pytest.importorskip("peft")
    examples = [Example("the movie is not good", 0), Example("a great film with charm", 1)]

    def measured(model, folder):
        explainer = Explainer(model, tiny.tokenizer(), name="tiny")
        (result,) = run_methods(explainer, examples, [method_named("occlusion")], folder=folder)
        return result.aopc

    model = adapters.adapted("bert", "other")
    first = measured(model, tmp_path)
    assert measured(model, tmp_path) == first
    assert len(list(tmp_path.iterdir())) == 1, "read, not measured again"
    model.set_adapter("other")
    assert measured(model, tmp_path) == measured(model, None) != first


def test_a_method_of_your_own_is_measured(explainer):
    class Unregistered(LogAt):
        """Not what its base is registered as."""

    examples = [Example(text, 0) for text in tiny.TEXTS]
    (result,) = evaluate(explainer, examples, LogAt())
    assert (result.method, result.texts) == ("logat", len(examples))
    refused(MethodError, "is not registered", lambda: evaluate(explainer, examples, Unregistered()))
