import pickle

import pytest
import torch

from normxlogit.copies.clone import clone
from normxlogit.copies.run import Pool, run
from normxlogit.model.task_model import TaskModel
from normxlogit.parts.find_parts import find_parts
from normxlogit.parts.main_input import MainInput
from tests import plain, tiny
from tools.survey.base import build

INPUTS = {"input_ids": torch.tensor([[2, 5, 6, 7], [2, 8, 9, 7]]), "attention_mask": torch.ones(2, 4, dtype=torch.long)}
TRUNKS = {"bert": "bert", "gpt2": "transformer", "llama": "model", "opt": "model", "distilbert": "distilbert"}
TRUNKS["xlnet"] = "transformer"  # its states have time before texts


@pytest.mark.parametrize("family", TRUNKS)
def test_trunk_layers_and_embedding_output(family):
    model = clone(tiny.model(family))
    parts, _ = find_parts(Pool(model), INPUTS, MainInput("input_ids", 3))
    assert parts.trunk == TRUNKS[family]
    assert parts.layers == 3
    assert parts.tokenwise
    assert not parts.states_lack_embeddings
    assert pickle.loads(pickle.dumps(parts)) == parts, "plain data"
    site = parts.embedding_site
    with torch.no_grad():
        done = run(model, INPUTS | {"output_hidden_states": True}, record=[site])
    torch.testing.assert_close(parts.embedded(done.last(site), 4), done.output.hidden_states[0])


def test_a_table_of_positions_that_is_called_with_token_ids_is_none_of_words():
    parts, _ = find_parts(Pool(clone(build("causal-lm", "bigbird_pegasus"))), INPUTS, MainInput("input_ids", 3))
    assert parts.tables == ("model.decoder.embed_tokens",)


class ByWord(plain.Recurrent):
    """Tags each word by its embedding alone, the first module that is called."""

    def forward(self, input_ids, attention_mask=None):
        return self.out(self.words(input_ids))


@pytest.mark.parametrize(
    ("kind", "trunk", "layers"), [(plain.Transformer, "norm", 3), (plain.Tagger, "norm", 3), (ByWord, "words", None)]
)
def test_the_trunk_of_a_plain_module_is_what_its_last_step_reads(kind, trunk, layers):
    task = "sequence-classification" if kind is plain.Transformer else "token-classification"
    model = TaskModel(plain.grown(kind()), tiny.tokenizer(), task=task).module
    parts, _ = find_parts(Pool(model), INPUTS, MainInput("input_ids", 3))
    assert (parts.trunk, parts.layers) == (trunk, layers)
    assert (parts.early_exit is not None) == (layers is not None)
