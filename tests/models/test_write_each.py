"""Which prompts are continued together, and what of the rows that come back was written."""

from types import SimpleNamespace

import pytest
import torch
from transformers import GenerationConfig

from normxlogit.inputs.encoding import Encoding
from normxlogit.models import write_each as room
from normxlogit.models.proved_lengths import ProvedLengths
from normxlogit.models.task_model import TaskModel
from tests import tiny


@pytest.mark.parametrize(
    ("settings", "plain"),
    [
        ({"max_new_tokens": 4, "eos_token_id": 3, "top_k": 5, "temperature": 0.5}, True),
        ({"num_beams": 1, "repetition_penalty": 1.0, "do_sample": False}, True),
        ({"no_repeat_ngram_size": 0}, True),
        ({"do_sample": True}, False),
        ({"num_beams": 2}, False),
        ({"repetition_penalty": 0.5}, False),
        ({"repetition_penalty": 1.5}, False),
        ({"no_repeat_ngram_size": 1}, False),
        ({"forced_bos_token_id": 1}, False),
    ],
)
def test_greedy_settings_are_told_from_those_that_padding_may_matter_to(settings, plain):
    assert room._plain(GenerationConfig(**settings)) is plain


def test_a_row_ends_with_its_first_end_token():
    assert [room._ends(GenerationConfig(eos_token_id=ids)) for ids in (None, 3, [3, 4])] == [set(), {3}, {3, 4}]
    for ids, wanted in (([5, 3, 7, 3], [5, 3]), ([5, 6], [5, 6]), ([4, 3], [4]), ([], [])):
        assert room._until(ids, {3, 4}) == wanted


def prompts(*lengths):
    return [Encoding({"input_ids": [7] * n}, ("x",) * n, None, None, (0,) * n, (False,) * n) for n in lengths]


def test_prompts_of_one_length_go_together():
    given = prompts(3, 2, 3, 1)
    assert list(room._by_length(given)) == [[3], [1], [0, 2]]


@pytest.mark.parametrize(
    ("lengths", "reached", "trials", "last"),
    [((3, 2, 5), 9, [(2, 7), (3, 7)], 7), ((3, 5), 6, [(3, 5)], 5), ((4, 4), 9, [(7, 7)], 7)],
)
def test_the_shortest_is_tried_beside_a_text_as_long_as_was_reached(monkeypatch, lengths, reached, trials, last):
    tried, model = [], SimpleNamespace(filler=3)
    for same in (True, False):
        monkeypatch.setattr(
            room, "_same_beside", lambda _, ids, length, same=same: tried.append((len(ids), length)) or same
        )
        proved = ProvedLengths()
        for _ in range(2):
            tried.clear()
            assert room._same_as_alone(model, prompts(*lengths), reached, proved) is same
            if not same:
                break
        assert tried == ([] if same else trials[:1])
        assert proved.cover(min(lengths), last) is same
        assert proved.refuted is not same


def test_a_trial_without_memory_says_nothing(monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr(room, "_same_beside", full)
    proved = ProvedLengths()
    assert not room._same_as_alone(None, prompts(2, 3), 5, proved)
    assert not proved.refuted
    assert not proved.cover(2, 3)


def llama(**options):
    return TaskModel(tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama"), **options)


def test_the_trial_reads_the_first_two_steps_of_greedy_writing():
    model = llama()
    read = model.encoder(["the cat sat"])
    with torch.no_grad():
        first = model.caller_model(torch.tensor([read[0].ids])).logits[0, -1]
        second = model.caller_model(torch.tensor([[*read[0].ids, int(first.argmax())]])).logits[0, -1]
    found = room._first_logits(model, [read[0].ids])
    torch.testing.assert_close(found, torch.stack([first, second]), rtol=1e-4, atol=1e-4)
    model.caller_model.generation_config.eos_token_id = int(first.argmax())
    assert len(room._first_logits(model, [read[0].ids])) == 2, "an end is no end"


@pytest.mark.parametrize(("settings", "sizes"), [({}, [3, 1, 2, 1]), ({"num_beams": 2}, [1] * 4)])
def test_what_is_written_together_takes_the_memory_of_two_passes(monkeypatch, settings, sizes):
    model, seen, generated = llama(batch_tokens=24), [], room._generated
    monkeypatch.setattr(room, "_generated", lambda m, some, *more: seen.append(len(some)) or generated(m, some, *more))
    config = GenerationConfig(max_new_tokens=3, pad_token_id=0, do_sample=False, **settings)
    read = model.encoder(["the cat sat here"] * 4)
    written = room.write_each(model, read, config, {})
    assert seen == sizes
    with torch.no_grad():
        own = model.caller_model.generate(torch.tensor([read[0].ids]), generation_config=config)[0, 4:].tolist()
    assert written == [own] * 4
