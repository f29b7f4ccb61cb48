import pickle

import pytest
import torch
from torch import nn

from normxlogit.copies.clone import clone
from normxlogit.copies.pool import Pool
from normxlogit.copies.run import run
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


class PositionsOfIds(nn.Embedding):
    """A table of positions that is called with token ids, as BART's is in transformers 4.51."""

    def __init__(self, count, width, batched):
        super().__init__(count, width)
        self.batched = batched

    def forward(self, input_ids):
        positions = torch.arange(input_ids.shape[1])
        return super().forward(positions.expand(input_ids.shape) if self.batched else positions)


class PlacedByIds(plain.Transformer):
    def embed(self, input_ids):
        return self.words(input_ids) + self.places(input_ids)


@pytest.mark.parametrize("batched", [True, False])
def test_a_table_whose_vectors_are_those_of_any_text_is_none_of_words(batched):
    module = PlacedByIds()
    module.places = PositionsOfIds(40, 16, batched)
    model = TaskModel(plain.grown(module), tiny.tokenizer(), task="sequence-classification").module
    parts, _ = find_parts(Pool(model), INPUTS, MainInput("input_ids", 3))
    assert parts.tables == ("words",)


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


class Bypassed(plain.Transformer):
    """Adds the words to what the layers return."""

    def states(self, input_ids, attention_mask=None, causal=None):
        return super().states(input_ids, attention_mask, causal) + self.words(input_ids)


def test_the_layers_of_a_plain_module_are_found_by_structure():
    model = TaskModel(plain.grown(plain.Transformer()), tiny.tokenizer(), task="sequence-classification").module
    parts, _ = find_parts(Pool(model), INPUTS, MainInput("input_ids", 3))
    assert [(output.path, output.call) for output in parts.outputs] == [(f"blocks.{i}", 1) for i in range(3)]
    beside = plain.grown(Bypassed())
    model = TaskModel(beside, tiny.tokenizer(), task="sequence-classification").module
    parts, _ = find_parts(Pool(model), INPUTS, MainInput("input_ids", 3))
    assert parts.outputs is None, "a path to the answer leads around them"
