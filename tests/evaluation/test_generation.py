"""The measurement of sources: its definitions on numbers known beforehand, and the command on a tiny model."""

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso

from normxlogit import DataError, Explainer, InputError
from normxlogit.evaluation import context_cite, generation
from normxlogit.evaluation.generation import evaluate_sources, summarise
from normxlogit.evaluation.questions import Asked, load_questions, qnli_questions
from normxlogit.methods import method_named
from normxlogit.pipeline.ablations import Ablations
from normxlogit.pipeline.cite import ask
from normxlogit.pipeline.completion import explain_completion
from normxlogit.pipeline.options import Options
from normxlogit.pipeline.sources import explain_sources
from normxlogit.results.spans import prompt_sources
from tests import tiny
from tests.commands import run
from tests.pipeline.test_cite import TEMPLATE

DOCUMENT = "The movie is good. The cat sat on the mat. A plot with charm and wit! This was never bad."
WORDS = re.compile(r"\w+|[^\w\s]")
METHODS = ["frozen-gradient", "normxlogit", "lime:samples=8"]


WORTH = generation.MATTERS, generation.TOKEN_MATTERS


def made():
    tokenizer = tiny.tokenizer_for("llama")
    tokenizer.model_max_length = 200
    return tiny.model("llama", "CausalLM"), tokenizer


@pytest.fixture(scope="module")
def explainer():
    return Explainer(*made())


@pytest.fixture(autouse=True)
def _any_source_matters(monkeypatch):
    monkeypatch.setattr(generation, "MATTERS", -1e9)
    monkeypatch.setattr(generation, "TOKEN_MATTERS", -1e9)


def test_what_is_measured_on_a_prompt(explainer):
    model = explainer._language_model
    question = Asked("is this good?", {"text": DOCUMENT})
    state = generation.measure_prompt(model, question, [method_named(m) for m in METHODS], 6, 12, 0)
    completed = ask(model, question.question, question.documents, max_new_tokens=6)
    measure = Ablations(model, completed, prompt_sources(completed.sequenced(), completed.named))

    def total(out):
        kept = np.ones((1, 4), bool)
        kept[0, list(out)] = False
        return measure(kept).sum()

    removed = [total([]) - total([i]) for i in range(4)]
    np.testing.assert_allclose(state["leave_one_out"], removed, rtol=1e-5, atol=1e-5)
    excess = [f"{name} (excess)" for name in METHODS[:2]]
    assert set(state["methods"]) == {"occlusion", "random", "length", *METHODS, *excess}
    found = explain_sources(
        model, completed, Options(method=method_named("frozen-gradient")), completed.named, merge="excess"
    )
    np.testing.assert_allclose(state["methods"][excess[0]]["scores"], found.scores, rtol=1e-3, atol=1e-4)
    for name, found in state["methods"].items():
        order = np.argsort(-np.array(found["scores"]), kind="stable")
        for k in (1, 3, 5):
            assert found["drops"][str(k)] == pytest.approx(total([]) - total(order[:k]), rel=1e-5, abs=1e-5), name
        assert found["agrees"] == float(order[0] == int(np.argmax(removed)))
        assert found["best"] == pytest.approx(max(removed))
    assert state["methods"]["occlusion"]["spearman"] == pytest.approx(1)
    assert state["methods"]["length"]["scores"] == [5, 7, 7, 5]
    assert [state["methods"][m]["passes"] for m in (*METHODS, "occlusion")] == [3, 1, 8, 5]


def test_what_is_measured_on_tokens_by_the_words_of_the_prompt(explainer, monkeypatch):
    model = explainer._language_model
    question, methods = (
        Asked("the cats is good?", {"text": DOCUMENT}),
        ["frozen-gradient", "normxlogit", "lime:samples=8"],
    )
    monkeypatch.setattr(generation, "TOKEN_MATTERS", 0.05)
    state = generation.measure_prompt(model, question, [method_named(m) for m in methods], 6, 12, 0, tokens=3)
    completed = ask(model, question.question, question.documents, max_new_tokens=6)
    sequence = completed.sequenced()
    words = prompt_sources(sequence, "word")
    assert [w.name for w in words] == list(
        WORDS.findall(f"{DOCUMENT} the cats is good?")
    )  # "Question:" is unknown to it
    tokens = generation.sampled_tokens(sequence, 3, np.random.default_rng(0))
    assert len(tokens) == len(set(tokens)) == 3
    measure, count = Ablations(model, completed, words), len(words)

    def said(out):
        kept = np.ones((1, count), bool)
        kept[0, list(out)] = False
        return measure(kept)[0, tokens]

    removed = np.array([said([]) - said([i]) for i in range(count)]).T
    np.testing.assert_allclose(state["leave_one_out"], removed, atol=1e-5)
    assert [len(w.tokens) for w in words if w.name == "cats"] == [2]
    counted = [k for k in range(3) if removed[k].max() >= 0.05]
    assert counted
    gradient = explain_completion(model, completed, Options(method=method_named("frozen-gradient")))
    norms = explain_completion(model, completed, Options(method=method_named("normxlogit")))
    wanted = {
        "frozen-gradient": gradient.sources("word", tokens).table,
        "normxlogit": norms.sources("word", tokens, merge="max").table,
        "length": [[len(w.name) for w in words]] * 3,
        "occlusion": removed,
    }
    for name, table in wanted.items():
        np.testing.assert_allclose(state["methods"][name]["scores"], table, atol=1e-3)
    for name, found in state["methods"].items():
        orders = [np.argsort(-np.array(found["scores"][k]), kind="stable") for k in counted]
        for top in (1, 3, 5):
            drops = [(said([]) - said(order[:top]))[k] for k, order in zip(counted, orders, strict=True)]
            assert found["drops"][str(top)] == pytest.approx(np.mean(drops), abs=1e-4), name
        first = [order[0] == removed[k].argmax() for k, order in zip(counted, orders, strict=True)]
        assert found["agrees"] == pytest.approx(np.mean(first))
    assert state["methods"]["occlusion"]["spearman"] == pytest.approx(1)
    passes = [state["methods"][m]["passes"] for m in ("frozen-gradient", "normxlogit", "lime:samples=8", "occlusion")]
    assert passes == [7, 1, 8, count + 1]
    assert not any("excess" in name for name in state["methods"])


def test_words_of_the_template_and_special_tokens_are_never_ranked(explainer):
    model, tokenizer = made()
    tokenizer.chat_template = TEMPLATE
    chatting = Explainer(model, tokenizer)
    state = generation.measure_prompt(
        chatting._language_model, Asked("is this good?", {"text": "A cat."}), [], 6, 4, 0, tokens=2
    )
    assert len(state["leave_one_out"][0]) == len(WORDS.findall("A cat. is this good?"))
    completed = ask(explainer._language_model, "is this good?", {"text": "A cat."}, max_new_tokens=6)
    sequence = completed.sequenced()
    special = replace(sequence, special=[True] * len(sequence.special))
    with pytest.raises(InputError, match="no token of the answer"):
        generation.sampled_tokens(special, 2, np.random.default_rng(0))


def test_a_linear_answer_has_the_best_linear_datamodelling_score(explainer, monkeypatch):
    worth = np.array([3.0, -1.0, 0.5, 2.0])

    class Linear(Ablations):
        def __call__(self, kept):
            return np.outer(np.asarray(kept) @ worth / 6, np.ones(6))

    monkeypatch.setattr(generation, "Ablations", Linear)
    question = Asked("is this good?", {"text": DOCUMENT})
    state = generation.measure_prompt(explainer._language_model, question, [], 6, 12, 0)
    np.testing.assert_allclose(state["leave_one_out"], worth)
    assert state["methods"]["occlusion"]["lds"] == pytest.approx(1)
    assert state["methods"]["length"]["lds"] < 1
    assert state["methods"]["occlusion"]["drops"] == pytest.approx({"1": 3.0, "3": 5.5, "5": 4.5})


def test_prompts_on_which_no_source_matters_do_not_count(explainer, monkeypatch):
    questions = [Asked("is this good?", {"text": DOCUMENT})]
    monkeypatch.setattr(generation, "MATTERS", 1e9)
    with pytest.raises(DataError, match="on any of 1 prompts"):
        evaluate_sources(explainer, questions, ["normxlogit"], max_new_tokens=4)


@pytest.mark.parametrize(("best", "tokens"), [(1.9, 0), (2.1, 0), (0.9, 2), (1.1, 2)])
def test_a_source_must_be_worth_two_nats_and_a_word_one(explainer, monkeypatch, best, tokens):
    def of_this_worth(measure, weights):
        removed = np.abs(left_out(measure, weights))  # (K, S)
        return removed * best / removed.max()

    left_out = generation.leave_one_out
    monkeypatch.setattr(generation, "leave_one_out", of_this_worth)
    monkeypatch.setattr(generation, "MATTERS", WORTH[0])
    monkeypatch.setattr(generation, "TOKEN_MATTERS", WORTH[1])
    question = Asked("is this good?", {"text": DOCUMENT})
    state = generation.measure_prompt(explainer._language_model, question, [], 6, 4, 0, tokens=tokens)
    assert state["matters"] == (best > (1 if tokens else 2))


def test_a_stopped_run_goes_on(explainer, tmp_path, monkeypatch):
    questions = [Asked("is this good?", {"text": DOCUMENT}), Asked("was the cat bad?", {"text": DOCUMENT})]
    options = {"max_new_tokens": 5, "ablations": 6, "folder": tmp_path}
    first = evaluate_sources(explainer, questions, METHODS, **options)
    assert first[1] == 2
    assert [r.method for r in first[0]] == [
        *("occlusion", "random", "length", *METHODS),
        *(f"{name} (excess)" for name in METHODS[:2]),
    ]
    monkeypatch.setattr(generation, "measure_prompt", None)
    assert evaluate_sources(explainer, questions, METHODS, **options) == first


def test_what_another_model_of_the_name_gave_is_measured_anew(explainer, tmp_path, monkeypatch):
    questions = [Asked("is this good?", {"text": DOCUMENT})]
    options = {"max_new_tokens": 5, "ablations": 6, "folder": tmp_path}
    evaluate_sources(explainer, questions, METHODS[:1], **options)
    model, tokenizer = made()
    with torch.no_grad():
        model.lm_head.weight.copy_(model.lm_head.weight.roll(1, 0))
    other = Explainer(model, tokenizer)
    assert other.model.name == explainer.model.name
    found = evaluate_sources(other, questions, METHODS[:1], **options)
    assert found == evaluate_sources(other, questions, METHODS[:1], max_new_tokens=5, ablations=6)
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text()[:50])
    with pytest.raises(DataError, match="not JSON"):
        evaluate_sources(other, questions, METHODS[:1], **options)

    def killed(self, *arguments, **options):
        raise KeyboardInterrupt

    path.unlink()
    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        evaluate_sources(other, questions, METHODS[:1], **options)
    assert not list(tmp_path.iterdir())


def test_a_run_with_more_methods_measures_these_alone(explainer, tmp_path, monkeypatch):
    questions = [Asked("is this good?", {"text": DOCUMENT})]
    options = {"max_new_tokens": 5, "ablations": 6, "folder": tmp_path}
    evaluate_sources(explainer, questions, METHODS[:1], **options)
    measure, asked = generation.measure_prompt, []

    def counted(model, question, methods, *rest):
        asked.append([m.spec for m in methods])
        return measure(model, question, methods, *rest)

    monkeypatch.setattr(generation, "measure_prompt", counted)
    found, _ = evaluate_sources(explainer, questions, METHODS, **options)
    assert asked == [METHODS[1:]]
    assert found == evaluate_sources(explainer, questions, METHODS, max_new_tokens=5, ablations=6)[0]
    asked.clear()
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"answer": "another"}))
    evaluate_sources(explainer, questions, [*METHODS, "logat"], **options)
    assert asked == [["logat"], [*METHODS, "logat"]]


def test_means_have_bootstrap_intervals():
    prompt = {"agrees": 1.0, "best": 10.0, "spearman": 0.5, "lds": 0.25, "passes": 3.0}
    prompts = [prompt | {"drops": {"1": d, "3": 10.0, "5": 12.0}} for d in (10.0, 4.0)] * 10
    found = summarise("m", prompts)
    assert found.prompts == 20
    assert found.drops[1][0] == 7
    assert 4 < found.drops[1][1] < 7 < found.drops[1][2] < 10
    assert found.nats == pytest.approx(0.7)
    assert found.agrees == (1, 1, 1)
    assert (found.spearman[0], found.lds[0], found.passes) == (0.5, 0.25, 3)


def test_documents_are_made_of_the_sentence_that_answers_and_six_others():
    rows = [{"question": f"q{i}", "sentence": f"Sentence\n{i}.", "label": i % 2} for i in range(20)]
    found = qnli_questions(rows, 10, seed=1)
    assert len({asked.question for asked in found}) == 10
    for asked in found:
        sentences = asked.documents["text"].split("\n\n")
        assert len(set(sentences)) == 7
        assert asked.question.replace("q", "Sentence ") + "." in sentences
    assert found != qnli_questions(rows, 10, seed=2)
    assert {len(a.documents["text"].split("\n\n")) for a in qnli_questions(rows, 10, sentences=3)} == {3}
    assert {
        asked.documents["text"].split("\n\n").index(asked.question.replace("q", "Sentence ") + ".") for asked in found
    } != {0}
    with pytest.raises(DataError, match="label 0"):
        qnli_questions(rows[:5], 1)


def test_questions_are_read_of_a_file(tmp_path):
    path = tmp_path / "q.jsonl"
    rows = [{"question": "a?", "documents": ["x", "y"]}, {"question": "b?", "documents": {"n": "z"}}]
    path.write_text("\n \n".join(map(json.dumps, rows)) + "\n\n")
    assert load_questions(path, 9) == [Asked("a?", {"document 1": "x", "document 2": "y"}), Asked("b?", {"n": "z"})]
    assert len(load_questions(path, 1)) == 1
    path.write_text('{"question": "a\u2028?", "documents": ["x\x85y"]}\n', encoding="utf-8")
    assert load_questions(path, 9) == [Asked("a\u2028?", {"document 1": "x\x85y"})]
    pair = {"question": "a?", "sentence": "b.", "label": 0}
    path.write_text("\n".join(map(json.dumps, [*rows, pair])))
    with pytest.raises(DataError, match="give them in two files"):
        load_questions(path, 9)
    for content, message in (
        ('{"question": "a"}', "line 1"),
        ('{"question": "a", "documents": [3]}', "line 1"),
        ("nonsense", "line 1"),
        ("", "empty"),
    ):
        path.write_text(content)
        with pytest.raises(DataError, match=message):
            load_questions(path, 9)
    with pytest.raises(DataError, match="cannot be read"):
        load_questions(tmp_path / "none", 9)


def test_the_command_prints_the_table_and_writes_it(tmp_path, capsys):
    model, tokenizer = made()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    data = tmp_path / "q.jsonl"
    data.write_text(json.dumps({"question": "is this good?", "documents": [DOCUMENT]}))
    words = ["--data", data, "--model", tmp_path / "model", "--max-new-tokens", 5, "--ablations", 6]
    code, out, err = run(
        capsys,
        "evaluate",
        "generation",
        *words,
        "--methods",
        "frozen-gradient normxlogit",
        "--output",
        tmp_path / "out",
    )
    assert code == 0, err
    assert "of them some source matters in: 1" in out
    lines = out.splitlines()
    assert lines[4].startswith("| occlusion | 5 | 1.00")
    assert sorted(line.split(" | ")[0] for line in lines[4:]) == sorted(
        f"| {m}" for m in ("occlusion", "random", "length", *METHODS[:2], *(f"{m} (excess)" for m in METHODS[:2]))
    )
    drops = [float(line.split(" | ")[4].split()[0]) for line in lines[5:]]
    assert drops == sorted(drops, reverse=True), "behind leave-one-out, the best first"
    code, tokens, err = run(capsys, "evaluate", "generation", *words, "--methods", "frozen-gradient", "--tokens", 2)
    assert code == 0, err
    assert "some word matters in: 1" in tokens
    assert "first word as leave-one-out's" in tokens
    assert "| frozen-gradient | 5 |" in tokens
    code, _, err = run(capsys, "evaluate", "generation", *words, "--tokens", 2, "--context-cite", 4)
    assert code == 2
    assert "measured on sentences" in err
    written = json.loads((tmp_path / "out" / "generation.json").read_text())
    assert written["results"][0]["method"] == "occlusion"
    assert out.split("\n\n")[1] in (tmp_path / "out" / "generation.md").read_text()
    for bad, message in (([], "--model"), (["--model", "x"], "--data")):
        code, out, err = run(capsys, "evaluate", "generation", *bad)
        assert (code, out) == (2, "")
        assert message in err


def test_the_published_package_is_a_row_where_it_is_installed(explainer):
    question = Asked("is this good?", {"text": DOCUMENT})
    if importlib.util.find_spec("context_cite") is None:
        with pytest.raises(DataError, match="pip install context-cite"):
            evaluate_sources(explainer, [question], ["random"], max_new_tokens=4, context_cite=4)
        return
    results, _ = evaluate_sources(explainer, [question], ["logat"], max_new_tokens=4, ablations=4, context_cite=16)
    found = next(r for r in results if r.method == "package context-cite:samples=16")
    assert found.passes == 16
    model = explainer._language_model
    completed = ask(model, question.question, question.documents, max_new_tokens=4)
    sources = prompt_sources(completed.sequenced(), completed.named)
    masks = np.stack([np.random.RandomState(s).choice([False, True], size=4, p=[0.5, 0.5]) for s in range(16)])
    measure, own = Ablations(model, completed, sources), context_cite.published_context_cite
    presence = masks.astype(float)
    answers = measure(masks).sum(1)
    logits = answers - np.log(-np.expm1(answers))
    scaled = (presence - presence.mean(0)) / presence.std(0)
    wanted = Lasso(alpha=0.01).fit(scaled, logits / 4).coef_ / presence.std(0) * 4
    np.testing.assert_allclose(own(model, completed, sources, 16), wanted, rtol=1e-2, atol=1e-3)
