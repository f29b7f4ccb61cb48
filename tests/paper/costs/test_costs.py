"""The measuring of costs: that every row is there and says what it compares. No clock is asked for its opinion."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transformers import BertModel, LlamaConfig, LlamaForCausalLM

from normxlogit import DataError, InputError
from normxlogit.cli import main
from normxlogit.paper.costs import memory, peers, speed
from normxlogit.paper.costs import tables as cost_tables
from normxlogit.paper.costs.memory import FORWARD, Job, Largest, Used
from normxlogit.paper.costs.peers import Compared
from normxlogit.paper.costs.random_models import random_texts
from normxlogit.paper.costs.speed import GROUPS, Row, Setup
from normxlogit.paper.costs.timing import Timing, in_turn, ratio

BERT = {"vocab_size": 8000, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT |= {"intermediate_size": 16}
LLAMA = BERT | {"num_key_value_heads": 2, "tie_word_embeddings": True}
TINY = Setup(
    rounds=2,
    warmup=1,
    lengths=(6, 8),
    bert=BERT,
    minilm=BERT,
    llama=LLAMA,
    vocabulary=8000,
    masked_length=8,
    prompt=6,
    generated=3,
    short=6,
    long=6,
    texts=["a good movie", "bad", "the plot was not very good"],
)


def written(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(map(str, arguments)))
    assert not stop.value.code
    return capsys.readouterr().out


# --- timing ---------------------------------------------------------------------------------------------------------


def test_sides_take_turns_and_change_their_order():
    order = []
    times = in_turn({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=2, warmup=1)
    assert "".join(order) == "abbaab"
    assert {name: len(t.seconds) for name, t in times.items()} == {"a": 2, "b": 2}


def test_a_ratio_is_taken_round_by_round():
    assert ratio(Timing("a", (2.0, 30.0, 9.0)), Timing("b", (1.0, 10.0, 3.0))) == 3.0


# --- rows -----------------------------------------------------------------------------------------------------------


def test_every_group_measures_its_rows():
    rows = {name: list(speed.measure(TINY, [name])) for name in GROUPS}
    counts = {name: len(found) for name, found in rows.items()}
    assert counts == {
        "one-text": 6,
        "masked-lm": 1,
        "next-token": 1,
        "generated": 1,
        "from-outputs": 1,
        "corpus": 4,
        "gradients": 2,
        "decompx": 1,
    }
    for row in (r for found in rows.values() for r in found):
        assert len(row.figures) == TINY.rounds
        assert all(f > 0 for f in row.figures)
        assert row.seconds


def test_bounds_are_those_of_the_issue():
    bounds = {row.name: (row.bound, row.at_least) for row in speed.measure(TINY)}
    assert bounds == {
        "one-text": (1.02, False),
        "all-labels": (1.03, False),
        "all-layers": (1.15, False),
        "masked-lm": (0.75, False),
        "next-token": (1.03, False),
        "generated": (1.05, False),
        "from-outputs": (0.02, False),
        "corpus": (0.95, True),
        "pipeline": (1.0, True),
        "gradient-x-input": (2, True),
        "integrated-gradients": (50, True),
        "decompx": (20, True),
    }


def test_a_row_passes_by_its_median_on_the_right_side():
    assert Row("x", "", (1.0, 1.01, 9.0), 1.02).passed
    assert not Row("x", "", (1.0, 1.03, 1.04), 1.02).passed
    assert Row("x", "", (1.0, 55.0, 60.0), 50, at_least=True).passed
    assert not Row("x", "", (1.0, 49.0, 60.0), 50, at_least=True).passed


def test_the_table_says_what_was_measured_and_whether_it_is_enough():
    rows = [Row("a", "work a", (1.0, 1.0123, 2.0), 1.02, seconds={"explain": 0.2}), Row("b", "b", (0.5,), 0.95, True)]
    first, second = speed.as_table(rows).splitlines()[2:]
    assert first == "| work a (explain 200 ms) | ≤ 1.02 | 1.012 | 1.000 to 2.000 | pass |"
    assert second == "| b | ≥ 0.95 | 0.500 | 0.500 to 0.500 | **fail** |"


def test_random_texts_have_the_lengths_of_short_reviews():
    tokenizer = SimpleNamespace(get_vocab=lambda: {"good": 1, "bad": 2, "##ly": 3, ".": 4})
    texts = random_texts(tokenizer, 400)
    lengths = [len(t.split()) for t in texts]
    assert texts == random_texts(tokenizer, 400)
    assert 15 < sum(lengths) / len(lengths) < 25
    assert set(" ".join(texts).split()) == {"good", "bad"}


def test_a_larger_language_model_is_a_choice(monkeypatch, capsys):
    setups = []
    monkeypatch.setattr(speed, "measure", lambda setup, names, on_progress: setups.append(setup) or [])
    written(capsys, "benchmark", "speed", "--language-model", "llama-2-7b")
    written(capsys, "benchmark", "speed")
    large, small = (LlamaConfig(**setup.llama) for setup in setups)
    assert [(s.prompt, s.generated) for s in setups] == [(2048, 256), (256, 64)]
    assert large.dtype == torch.bfloat16
    with torch.device("meta"):
        counts = [LlamaForCausalLM(config).num_parameters() for config in (large, small)]
    assert counts == [6_738_415_616, 134_515_008], "what the models of these names have"


def test_progress_names_every_group_and_round():
    said = []
    list(speed.measure(TINY, ["from-outputs", "masked-lm"], on_progress=lambda *step: said.append(step)))
    first = [(f"from-outputs, round {number} of 3", 0, 2) for number in (1, 2, 3)]
    assert said == first + [(f"masked-lm, round {number} of 3", 1, 2) for number in (1, 2, 3)] + [("done", 2, 2)]


def test_unknown_rows_are_named():
    with pytest.raises(InputError, match="no rows named 'magic'; there are one-text,"):
        list(speed.measure(TINY, ["magic"]))


def test_speed_from_the_command_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "Setup", lambda **options: TINY)
    path = tmp_path / "speed.json"
    out = written(capsys, "benchmark", "speed", "--rows", "from-outputs masked-lm", "--output", path)
    assert "threads: " in out
    assert "normxlogit: " in out
    state = json.loads(path.read_text())
    assert [row["name"] for row in state["rows"]] == ["from-outputs", "masked-lm"]
    assert {"figure", "figures", "passed", "bound", "seconds"} <= state["rows"][0].keys()
    assert "torch" in state["environment"]


# --- memory ---------------------------------------------------------------------------------------------------------


def test_memory_is_the_peak_of_a_call():
    wide = BERT | {"intermediate_size": 4096}
    small, large = (memory.measure(Job(FORWARD, batch, 64, wide)) for batch in (1, 64))
    layer = 64 * 64 * 4096 * 4  # bytes of one layer's inner states
    assert layer < large.added < 8 * layer
    assert small.added < layer
    assert large.before > 2**26, "the libraries at least"


def test_a_job_has_a_process_of_its_own_and_a_failing_one_says_why():
    with pytest.raises(DataError, match=r"measuring magic failed: .*no method named 'magic'"):
        memory.measure(Job("magic", 1, 6, BERT))


def test_a_batch_that_had_to_be_halved_does_not_fit(monkeypatch):
    forward = BertModel.forward

    def limited(self, input_ids, *args, **kwargs):
        if input_ids.numel() > 20:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, input_ids, *args, **kwargs)

    monkeypatch.setattr(BertModel, "forward", limited)
    for method in (FORWARD, "normxlogit"):
        assert memory._run(Job(method, 3, 6, BERT)) is not None
        assert memory._run(Job(method, 4, 6, BERT)) is None
    assert memory._run(Job("normxlogit", 1, 30, BERT)) is None


@pytest.fixture
def measured(monkeypatch):
    """Memory as if every text took 10 MiB, NormXLogit's one in fifty more, beside a model of 1 GiB."""
    jobs = []

    def measure(job):
        jobs.append(job)
        share = 10.2 if job.method == "normxlogit" else 10
        return Used(2**30, int(share * job.batch * 2**20), job.batch * 0.5)

    monkeypatch.setattr(memory, "measure", measure)
    return jobs


def test_extra_memory_is_over_that_of_the_forward_pass(measured, capsys):
    row = memory.extra_memory(batch=16, rounds=3, bert=BERT)
    assert row.figure == pytest.approx(0.02, abs=1e-6)
    assert [job.method for job in measured] == [FORWARD, "normxlogit"] * 3
    assert "| 0.020 | 0.020 to 0.020 | pass |" in written(capsys, "benchmark", "memory", "--batch", 2, "--rounds", 1)


def test_the_largest_batch_is_computed_from_what_a_text_adds(measured):
    found = memory.largest_batch("gradient-norm", budget=2, bert=BERT)
    assert found == Largest("gradient-norm", 102, 0.5, measured=False)  # (2 GiB - 1 GiB) / 10 MiB
    assert [job.batch for job in measured] == [1, 4]


def test_slow_methods_are_measured_on_fewer_texts(monkeypatch):
    jobs = []

    def measure(job):
        jobs.append(job.batch)
        return Used(2**30, 10 * job.batch * 2**20, job.batch * 61.0)

    monkeypatch.setattr(memory, "measure", measure)
    assert memory.largest_batch("decompx", budget=2, bert=BERT) == Largest("decompx", 102, 61.0, measured=False)
    assert jobs == [1, 2]


@pytest.mark.parametrize("fits", [0, 1, 2, 5, 8, 750])
def test_on_a_gpu_the_largest_batch_is_tried_out(monkeypatch, fits):
    jobs = []

    def measure(job):
        jobs.append(job)
        return Used(2**30, 2**20, job.batch * 0.25) if job.batch <= fits else None

    monkeypatch.setattr(memory, "measure", measure)
    monkeypatch.setattr(memory, "device", lambda: torch.device("cuda"))
    found = memory.largest_batch("normxlogit", budget=2, length=9, bert=BERT)
    assert (found.batch, found.measured) == (fits, True)
    assert {(job.budget, job.length) for job in jobs} == {(2**31, 9)}
    assert found.seconds == 0.25 or not fits


# --- the paper's tables ---------------------------------------------------------------------------------------------


def test_the_table_of_time_stands_beside_the_published_one(tmp_path):
    setup = Setup(rounds=2, warmup=0, lengths=(40,), bert=BERT)
    said = []
    text = cost_tables.cost_table("table-time", tmp_path, setup=setup, on_progress=lambda *step: said.append(step))
    assert said == [("40 tokens, round 1 of 2", 0, 1), ("40 tokens, round 2 of 2", 0, 1), ("done", 1, 1)]
    line = next(line for line in text.splitlines() if "| integrated-gradients |" in line)
    assert line.endswith("| 0.82 | 2.3 |")
    assert (tmp_path / "table-time.md").read_text() == text
    state = json.loads((tmp_path / "table-time.json").read_text())
    assert len(state["figures"]["40"]["decompx"]) == 2
    with pytest.raises(DataError, match="no table named 'table9'"):
        cost_tables.cost_table("table9", tmp_path)


def test_the_table_of_memory_says_that_it_was_computed(measured, tmp_path, capsys):
    out = written(capsys, "reproduce", "table-memory", "--output", tmp_path, "--methods", "normxlogit decompx")
    assert "computed from the measured peaks" in out
    assert "| normxlogit | 4718 | 0.5000 | 750 | 0.0005 |" in out
    assert "| decompx | 4812 | 0.5000 | 1 | 2.3625 |" in out


# --- other packages -------------------------------------------------------------------------------------------------


@pytest.fixture
def no_installation(monkeypatch):
    monkeypatch.setattr(peers, "_installed", lambda package, folder: (sys.executable, ""))


def test_a_peer_is_measured_on_the_same_sentence(no_installation):
    ours, *theirs = peers.compare(["captum"], rounds=1)
    assert [r.method for r in theirs] == ["gradient x input", "integrated gradients, 50 steps"]
    assert {r.work for r in theirs} == {ours.work} == {repr(peers.SENTENCE)}
    assert all(r.seconds > 0 and r.forwards > 0 and r.version for r in [ours, *theirs])


def test_a_package_that_does_not_run_is_a_row_that_says_why(no_installation, capsys, monkeypatch):
    ours = Compared("normxlogit", "1", "normxlogit", "", 0.5, 2.0)
    monkeypatch.setattr(peers, "_ours", lambda task, rounds: replace(ours, work=task.name))
    monkeypatch.setattr(peers, "_output", lambda command: ("", "No module named 'interpreto'"))
    out = written(capsys, "benchmark", "peers", "--packages", "interpreto", "--rounds", 1)
    assert "| normxlogit 1 | normxlogit | 'The movie is mediocre, maybe even bad.' | 500 ms | 2.00 |  |" in out
    assert "| interpreto | does not run on transformers 5" in out
    assert "No module named 'interpreto'" in out


def test_generated_text_is_compared_where_a_package_explains_no_other(monkeypatch):
    seen = []
    monkeypatch.setattr(
        peers, "_theirs", lambda package, task, rounds: iter(seen.append((package, task, rounds)) or ())
    )
    (ours,) = peers.compare(["inseq"], rounds=9, llama=LLAMA, prompt=6, generated=3)
    ((package, task, rounds),) = seen
    assert (package, task.completion, rounds) == ("inseq", "good good good", 3)
    assert ours.work.startswith("3 generated tokens on 6")


@pytest.mark.parametrize(("forwards", "said"), [(99.0, "49.5x (≥ 50: **fail**)"), (100.0, "50.0x (≥ 50: pass)")])
def test_a_bound_on_a_package_is_judged(forwards, said):
    rows = [Compared(name, "1", "m", "w", 1.0, f) for name, f in (("normxlogit", 2.0), ("inseq", forwards))]
    assert peers.as_table(rows).splitlines()[-1].endswith(f"| {forwards:.2f} | {said} |")


def test_unknown_packages_are_named():
    with pytest.raises(InputError, match="no package 'magic' to compare with; there are captum, inseq,"):
        list(peers.compare(["magic"]))


def test_a_failed_installation_gives_its_last_line():
    command = [sys.executable, "-c", "import sys; sys.stderr.write('ERROR: wants transformers<5\\n\\n'); sys.exit(1)"]
    assert peers._output(command) == ("", "ERROR: wants transformers<5")
