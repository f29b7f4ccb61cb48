import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from normxlogit import TargetError
from normxlogit.tasks import Task
from normxlogit.tasks.language import CausalLM
from normxlogit.tasks.targets import BatchTargets, index_of, resolve
from tests import tiny


def test_a_token_is_the_start_of_a_word_where_there_is_one():
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "good": 1, "Ġgood": 2, "ly": 3}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    task = CausalLM(tokenizer=PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]"))
    assert [index_of(task, text, 4) for text in ("good", " good", "ly")] == [2, 2, 3], "ly begins no word"


LOGITS = torch.tensor([[1.0, 2, 4, 8], [10, 20, 40, 80], [100, 200, 400, 800]])
WORDS = CausalLM(tokenizer=tiny.tokenizer_for("llama"))


def test_a_target_reads_its_logits_less_the_contrasts_of_its_own_text():
    ids, others = torch.tensor([[0, 3], [2, 1]]), torch.tensor([1, 3])
    plain, less = (BatchTargets(ids, contrast, None, True, WORDS) for contrast in (None, others))
    assert plain.select(LOGITS[:2]).tolist() == [[1, 8], [40, 20]]
    assert less.select(LOGITS[:2]).tolist() == [[-1, 6], [-40, -60]]
    texts = torch.tensor([1, 0, 1])
    assert plain.select(LOGITS, texts).tolist() == [[4, 2], [10, 80], [400, 200]]
    assert less.select(LOGITS, texts).tolist() == [[-4, -6], [-10, 60], [-400, -600]]


def test_names_of_tokens():
    task, _, run = tiny.task_run("llama", "CausalLM")
    assert task.output_count == tiny.SIZE
    assert task.task.outputs.name_of(7) == "movie"
    assert index_of(task.task, "##ly", tiny.SIZE) == tiny.VOCABULARY["##ly"], "a piece by its own name"
    for text, said in [("cats", "'cats' is not one token for this model but 'cat', '##s'"), ("zzz", r"but '\[UNK\]'")]:
        with pytest.raises(TargetError, match=said):
            index_of(task.task, text, tiny.SIZE)
    assert resolve(task.task, run, "movie", "film").contrast.tolist() == [8, 8, 8]


def test_a_target_has_its_kind_name_and_index_and_those_of_its_contrast():
    found = tiny.explainer(num_labels=3)("a cat", target=[0, 2], contrast="LABEL_1", method="logat").targets
    assert [tuple(t[:6]) for t in found] == [("label", f"LABEL_{i}", i, "LABEL_1", 1, None) for i in (0, 2)]


def test_a_task_has_at_most_twenty_members():
    members = {"name", *dir(Task), *vars(WORDS)}
    assert len([member for member in members if not member.startswith("_")]) <= 20


def test_the_pieces_of_a_word_are_those_in_a_text():
    for kind, family in (("CausalLM", "llama"), ("MaskedLM", "bert")):  # whose tokenizer puts tokens around a text
        outputs = tiny.task_run(family, kind, [tiny.MASKED])[0].task.outputs
        for name in ("cats", "good movie", "films are"):
            assert outputs.ids_of(name) == tiny.tokenizer(specials=False)(name).input_ids
        assert outputs.ids_of("movie") == [tiny.VOCABULARY["movie"]]


@pytest.mark.parametrize("name", ["\ud800", "a\udbff", "\udfff!"])
def test_half_a_character_is_no_target(name):
    with pytest.raises(TargetError, match="half a character"):
        WORDS.outputs.ids_of(name)
    assert WORDS.outputs.ids_of("\uff01"), "which stands behind them"
