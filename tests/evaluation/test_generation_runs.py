"""Measuring sources on many prompts: what each prompt is asked for, what is kept, and which of it is measured again."""

import json

import pytest

from normxlogit import DataError, Explainer, InputError
from normxlogit.evaluation import generation
from normxlogit.evaluation.generation import evaluate_sources, summarise
from normxlogit.evaluation.questions import Asked
from tests import tiny

QUESTIONS = [Asked(f"q{number}?", {"text": "a cat"}) for number in range(3)]
PUBLISHED = "package context-cite:samples=4"


@pytest.fixture(scope="module")
def explainer():
    return Explainer(tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama"))


@pytest.fixture
def prompts(monkeypatch):
    """Stands in for the measurement of a prompt; `asked` is what it was asked, `answers` and `matters` what it says."""

    class Prompts:
        asked, answers, matters = [], {}, {}

        def __call__(self, model, question, methods, most, ablations, seed, context_cite, tokens):
            self.asked.append(
                (question.question, [m.spec for m in methods], most, ablations, seed, context_cite, tokens)
            )
            names = ["occlusion", "random", "length", *(m.spec for m in methods)]
            names += [PUBLISHED] if context_cite else []
            return {
                "answer": self.answers.get(question.question, "yes"),
                "matters": (matters := self.matters.get(question.question, True)),
                "methods": {name: figures(len(name) + seed) for name in names} if matters else {},
            }

    found = Prompts()
    monkeypatch.setattr(generation, "measure_prompt", found)
    return found


def figures(worth):
    return {"drops": dict.fromkeys("135", worth), "agrees": 1.0, "best": 9.0, "spearman": 0.5, "lds": 0.5, "passes": 1}


def test_each_prompt_is_asked_with_a_seed_of_its_own(explainer, prompts):
    told = []
    results, matter = evaluate_sources(explainer, QUESTIONS, ["logat"], on_progress=lambda *step: told.append(step))
    assert prompts.asked == [(f"q{number}?", ["logat"], 40, 32, number, 0, 0) for number in range(3)]
    assert told == [("prompts", 1, 3), ("prompts", 2, 3), ("prompts", 3, 3)]
    assert matter == 3
    names = ["occlusion", "random", "length", "logat"]
    assert results == [summarise(name, [figures(len(name) + n) for n in range(3)], 0) for name in names]
    prompts.asked.clear()
    results, _ = evaluate_sources(explainer, QUESTIONS, ["logat"], max_new_tokens=5, ablations=6, tokens=2, seed=10)
    assert prompts.asked == [(f"q{number}?", ["logat"], 5, 6, 10 + number, 0, 2) for number in range(3)]
    assert results == [summarise(name, [figures(len(name) + 10 + n) for n in range(3)], 10) for name in names]


def test_prompts_on_which_nothing_matters_do_not_count(explainer, prompts):
    prompts.matters = {"q0?": False, "q2?": False}
    results, matter = evaluate_sources(explainer, QUESTIONS, ["logat"])
    assert matter == 1
    assert [r.prompts for r in results] == [1] * 4
    prompts.matters["q1?"] = False
    with pytest.raises(DataError, match=r"no source is worth 2.0 nats on any of 3 prompts"):
        evaluate_sources(explainer, QUESTIONS, ["logat"])


def test_rows_stand_in_the_order_of_the_methods_with_the_package_behind(explainer, prompts):
    methods = ["normxlogit", "random", "logat"]
    results, _ = evaluate_sources(explainer, QUESTIONS, methods, context_cite=4)
    assert [r.method for r in results] == ["occlusion", "random", "length", "normxlogit", "logat", PUBLISHED]
    with pytest.raises(InputError, match="measured on sentences"):
        evaluate_sources(explainer, QUESTIONS, methods, context_cite=4, tokens=2)


def test_what_is_kept_is_not_measured_again(explainer, prompts, tmp_path):
    folder = tmp_path / "new" / "out"
    prompts.matters = {"q1?": False}
    options = {"max_new_tokens": 5, "ablations": 6, "folder": folder, "context_cite": 4}
    first = evaluate_sources(explainer, QUESTIONS, ["logat"], **options)
    assert sorted(path.name for path in folder.iterdir()) == [f"prompt-0-{number}.json" for number in range(3)]
    prompts.asked.clear()
    assert evaluate_sources(explainer, QUESTIONS, ["logat"], **options) == first
    assert not prompts.asked


def test_more_methods_are_measured_alone(explainer, prompts, tmp_path):
    options = {"max_new_tokens": 5, "ablations": 6, "folder": tmp_path}
    prompts.matters = {"q1?": False}
    evaluate_sources(explainer, QUESTIONS, ["logat"], **options)
    prompts.asked.clear()
    found, _ = evaluate_sources(explainer, QUESTIONS, ["logat", "normxlogit"], **options)
    assert [(asked[0], asked[1], asked[5]) for asked in prompts.asked] == [
        ("q0?", ["normxlogit"], 0),
        ("q2?", ["normxlogit"], 0),
    ], "where nothing matters there is nothing to measure"
    assert [r.method for r in found] == ["occlusion", "random", "length", "logat", "normxlogit"]
    prompts.asked.clear()
    found, _ = evaluate_sources(explainer, QUESTIONS[:1], ["logat", "normxlogit"], **options, context_cite=4)
    assert [(asked[1], asked[5]) for asked in prompts.asked] == [([], 4)]
    assert [r.method for r in found] == ["occlusion", "random", "length", "logat", "normxlogit", PUBLISHED]


def test_what_belongs_to_another_answer_is_measured_anew(explainer, prompts, tmp_path):
    evaluate_sources(explainer, QUESTIONS[:1], ["logat"], folder=tmp_path, context_cite=4)
    prompts.answers, prompts.asked[:] = {"q0?": "no"}, []
    evaluate_sources(explainer, QUESTIONS[:1], ["logat", "normxlogit"], folder=tmp_path, context_cite=4)
    assert [(asked[1], asked[5]) for asked in prompts.asked] == [(["normxlogit"], 0), (["logat", "normxlogit"], 4)]
    (path,) = tmp_path.iterdir()
    state = json.loads(path.read_text())
    assert (state["answer"], set(state["methods"])) == (
        "no",
        {"occlusion", "random", "length", "logat", "normxlogit", PUBLISHED},
    )


@pytest.mark.parametrize("change", [{"max_new_tokens": 6}, {"ablations": 7}, {"tokens": 2}, {"seed": 1}])
def test_a_run_with_other_settings_measures_all(explainer, prompts, tmp_path, change):
    options = {"max_new_tokens": 5, "ablations": 6, "folder": tmp_path}
    evaluate_sources(explainer, QUESTIONS, ["logat"], **options)
    prompts.asked.clear()
    evaluate_sources(explainer, QUESTIONS, ["logat", "normxlogit"], **options | change)
    assert [asked[1] for asked in prompts.asked] == [["logat", "normxlogit"]] * 3, "and each of them once"
    prompts.asked.clear()
    evaluate_sources(explainer, [Asked("another?", {"text": "a cat"})], ["logat"], **options | change)
    assert len(prompts.asked) == 1


def test_how_many_tokens_are_explained_is_part_of_what_was_measured(explainer, prompts, tmp_path):
    for tokens, asked in ((2, 1), (2, 0), (3, 1), (0, 1), (0, 0)):
        prompts.asked.clear()
        evaluate_sources(explainer, QUESTIONS[:1], ["logat"], folder=tmp_path, tokens=tokens)
        assert len(prompts.asked) == asked


def test_a_real_run_goes_on_as_if_it_had_not_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(generation, "MATTERS", -1e9)
    tokenizer = tiny.tokenizer_for("llama")
    tokenizer.model_max_length = 200
    explainer = Explainer(tiny.model("llama", "CausalLM"), tokenizer)
    document = "The movie is good. The cat sat on the mat. This was never bad."
    questions = [Asked("is this good?", {"text": document}), Asked("was the cat bad?", {"text": document})]
    options, methods = {"max_new_tokens": 5, "ablations": 6}, ["logat", "context-cite:samples=8"]
    evaluate_sources(explainer, questions[:1], methods[:1], folder=tmp_path, **options)
    whole = evaluate_sources(explainer, questions, methods, **options)
    assert evaluate_sources(explainer, questions, methods, folder=tmp_path, **options) == whole


def test_what_another_model_of_the_name_gave_is_measured_anew(explainer, prompts, tmp_path):
    evaluate_sources(explainer, QUESTIONS[:1], ["logat"], folder=tmp_path)
    other = Explainer(tiny.model("llama", "CausalLM", seed=1), tiny.tokenizer_for("llama"))
    assert other.model.name == explainer._model.name
    prompts.asked.clear()
    evaluate_sources(other, QUESTIONS[:1], ["logat"], folder=tmp_path)
    assert len(prompts.asked) == 1


def test_a_prompt_is_kept_whole_or_not_at_all(explainer, prompts, tmp_path, monkeypatch):
    def killed(self, *arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            evaluate_sources(explainer, QUESTIONS[:1], ["logat"], folder=tmp_path)
    assert not list(tmp_path.iterdir())
    evaluate_sources(explainer, QUESTIONS[:1], ["logat"], folder=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text()[:50])
    with pytest.raises(DataError, match="not JSON"):
        evaluate_sources(explainer, QUESTIONS[:1], ["logat"], folder=tmp_path)
