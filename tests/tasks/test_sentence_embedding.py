"""The steps from a trunk's states to a vector: each on numbers worked out by hand, and read from files and modules."""

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from normxlogit.errors import HeadMismatchError, InputError, UnsupportedModelError
from normxlogit.tasks import model_files as room
from normxlogit.tasks.sentence_embedding import (
    SentenceEmbedding,
    Steps,
    is_embedding_folder,
    is_sentence_transformer,
    pooled,
    sentence_embedding,
    steps_from_files,
)
from tests import tiny

STATES = torch.tensor([[[1.0, 10], [2, 20], [4, 40], [8, 80]], [[3.0, 30], [5, 50], [7, 70], [9, 90]]])
MASK = torch.tensor([[0, 1, 1, 1], [1, 1, 0, 0]])


@pytest.mark.parametrize(
    ("mode", "first", "second"),
    [
        ("cls", 2, 3),
        ("lasttoken", 8, 5),
        ("mean", 14 / 3, 4),
        ("mean_sqrt_len_tokens", 14 / 3**0.5, 8 / 2**0.5),
        ("weightedmean", (2 + 2 * 4 + 3 * 8) / 6, (3 + 2 * 5) / 3),
    ],
)
def test_each_way_to_pool_reads_the_real_tokens_only(mode, first, second):
    wanted = torch.tensor([[first, 10 * first], [second, 10 * second]]).float()
    torch.testing.assert_close(pooled(STATES, MASK, mode), wanted)
    if mode not in ("cls", "lasttoken"):
        assert not pooled(STATES, torch.zeros_like(MASK), mode).any(), "nothing of nothing, and no NaN"


def bare():
    return tiny.model("bert").base_model


def test_a_trunk_with_its_steps():
    trunk, layer = bare(), nn.Linear(64, 3)
    model = SentenceEmbedding(trunk, Steps(("mean", "cls"), (layer, nn.Tanh())))
    assert (model.config, model.trunk) == (trunk.config, trunk)
    assert model.get_input_embeddings() is trunk.get_input_embeddings()
    assert model.get_output_embeddings() is None
    assert not model.training
    assert SentenceEmbedding(trunk.train(), Steps()).training
    trunk.eval()
    ids = torch.tensor([[2, 7, 8, 3]])
    with torch.no_grad():
        found = model(input_ids=ids, output_hidden_states=True)
        states = trunk(input_ids=ids).last_hidden_state
        wanted = torch.tanh(layer(torch.cat([states.mean(1), states[:, 0]], -1)))
    torch.testing.assert_close(found.logits, wanted)
    assert len(found.hidden_states) == 4
    with torch.no_grad():
        torch.testing.assert_close(model(ids, torch.ones_like(ids)).logits, wanted)
    assert sentence_embedding(model) is model


# --- files ----------------------------------------------------------------------------------------------------------

CLS = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


def files(folder, *steps, **more):
    """Write what sentence-transformers writes beside a trunk: (kind, configuration, weights) each."""
    modules = [{"type": "sentence_transformers.models.Transformer", "path": ""}]
    for place, (kind, config, *weights) in enumerate(steps, start=1):
        path = f"{place}_{kind}"
        modules.append({"type": f"sentence_transformers.models.{kind}", "path": path})
        (folder / path).mkdir()
        if config is not None:
            (folder / path / "config.json").write_text(json.dumps(config))
        for one in weights:
            save_file(one, folder / path / "model.safetensors")
    (folder / "modules.json").write_text(json.dumps(modules))
    for name, content in more.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return str(folder)


LINEAR = {
    "linear.weight": torch.tensor([[1.0, 2.0], [0.0, -1.0], [3.0, 0.0]]),
    "linear.bias": torch.tensor([0.5, 0, 1]),
}
DENSE = {"in_features": 2, "out_features": 3, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"}
VECTOR = torch.tensor([1.0, 0.25])


def test_all_that_files_say(tmp_path):
    source = files(
        tmp_path,
        ("Pooling", CLS),
        ("Dense", DENSE, LINEAR),
        ("Normalize", None),
        sentence_bert_config={"max_seq_length": 6, "do_lower_case": True},
        config_sentence_transformers={"prompts": {"q": "query: ", "d": "text: "}, "default_prompt_name": "q"},
    )
    assert is_embedding_folder(source)
    found = steps_from_files(source)
    assert (found.modes, found.normalize, found.max_length, found.lower, found.prompt) == (
        ("cls",), True, 6, True, "query: ",
    )  # fmt: skip
    torch.testing.assert_close(found.dense[0](VECTOR), torch.tensor([2.0, -0.25, 4.0]).tanh())
    assert not any(module.training for module in found.dense[0].modules())


def test_what_files_leave_out(tmp_path):
    dense = {"in_features": 2, "out_features": 3, "bias": False}
    weights = {"linear.weight": LINEAR["linear.weight"]}
    found = steps_from_files(
        files(tmp_path, ("Pooling", {}), ("Dense", dense, weights), config_sentence_transformers={})
    )
    assert (found.modes, found.normalize, found.max_length, found.lower, found.prompt) == (
        ("mean",), False, None, False, "",
    )  # fmt: skip
    torch.testing.assert_close(found.dense[0](VECTOR), torch.tensor([1.5, -0.25, 3.0]))


@pytest.mark.parametrize(
    ("config", "modes"),
    [
        ({"pooling_mode": "lasttoken"}, ("lasttoken",)),
        ({"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
        ({"pooling_mode_lasttoken": True, "pooling_mode_cls_token": True}, ("cls", "lasttoken")),
        ({"pooling_mode_weightedmean_tokens": True, "include_prompt": True}, ("weightedmean",)),
    ],
)
def test_ways_to_pool_of_all_versions(tmp_path, config, modes):
    assert steps_from_files(files(tmp_path, ("Pooling", config))).modes == modes


@pytest.mark.parametrize(
    ("steps", "more", "error", "message"),
    [
        ([("Pooling", CLS)], {"modules": "{"}, InputError, r"modules.json cannot be read as JSON"),
        ([("Pooling", CLS)], {"modules": [{"type": "a.Transformer"}]}, InputError, "is not a list of modules"),
        ([("Pooling", CLS)], {"modules": 5}, InputError, "is not a list of modules"),
        ([("Pooling", CLS)], {"modules": ["Pooling"]}, InputError, "is not a list of modules"),
        ([("Pooling", None)], {}, InputError, r"1_Pooling/config.json is missing"),
        ([("Pooling", CLS), ("Dense", DENSE)], {}, InputError, r"2_Dense has no model.safetensors"),
        ([("Pooling", {"pooling_mode_max_tokens": True})], {}, UnsupportedModelError, "pools by max,"),
        ([("Pooling", {"pooling_mode": "own"})], {}, UnsupportedModelError, "pools by own,"),
        ([("Pooling", {"include_prompt": False})], {}, UnsupportedModelError, "leaves its prompt out"),
        ([("Pooling", CLS), ("Dense", DENSE | {"use_residual": True}, LINEAR)], {}, UnsupportedModelError, "adds or"),
        ([("Pooling", CLS), ("Dense", DENSE | {"module_input_name": "x"}, LINEAR)], {},
         UnsupportedModelError, "adds or"),
        ([("Pooling", CLS), ("Dense", DENSE | {"activation_function": "own.Spline"}, LINEAR)], {},
         UnsupportedModelError, "activation Spline of a dense layer is none of torch's"),
        ([("Pooling", CLS), ("Dense", DENSE | {"activation_function": "torch.nn.functional"}, LINEAR)], {},
         UnsupportedModelError, "activation functional of a dense layer"),
        ([("Dense", DENSE, LINEAR), ("Pooling", CLS)], {}, UnsupportedModelError, "Transformer, Dense, Pooling;"),
        ([("Pooling", CLS), ("Normalize", {}), ("Dense", DENSE, LINEAR)], {}, UnsupportedModelError, "made of"),
        ([("Pooling", CLS), ("LayerNorm", {})], {}, UnsupportedModelError, "made of"),
    ],
)  # fmt: skip
def test_files_that_say_something_else(tmp_path, steps, more, error, message):
    with pytest.raises(error, match=message):
        steps_from_files(files(tmp_path, *steps, **more))


def test_a_file_that_cannot_be_opened(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError

    source = files(tmp_path, ("Pooling", CLS))
    monkeypatch.setattr(room.Path, "read_text", refuse)
    with pytest.raises(InputError, match=r"modules\.json cannot be read"):
        steps_from_files(source)


def test_where_there_are_no_files(tmp_path, monkeypatch):
    assert steps_from_files(str(tmp_path)) is None
    assert steps_from_files("nobody/no-such-model") is None
    assert not is_embedding_folder(str(tmp_path))
    asked = []
    monkeypatch.setattr(room, "cached_file", lambda *a, **k: asked.append((a, k)))
    assert steps_from_files("") is None
    assert not asked
    assert steps_from_files("a/b", revision="c", token="d", dtype="e") is None
    assert asked == [(("a/b", "modules.json"), {"revision": "c", "token": "d"})]


def test_what_the_caller_says_comes_before_the_files(tmp_path):
    source = files(tmp_path, ("Pooling", CLS))
    for pooling, mode in ((None, "cls"), ("mean", "mean"), ("first", "cls"), ("last", "lasttoken")):
        trunk = bare()
        trunk.config._name_or_path = source
        assert sentence_embedding(trunk, pooling).steps.modes == (mode,)
    with pytest.raises(InputError, match="nothing says how the states of BertModel become one vector"):
        sentence_embedding(bare())
    with pytest.raises(InputError, match="pooling must be 'mean', 'first' or 'last', not 'max'"):
        sentence_embedding(bare(), "max")
    for other in (tiny.model("bert", "MaskedLM"), nn.Linear(1, 1)):
        with pytest.raises(UnsupportedModelError, match=f"{type(other).__name__} is not a bare encoder"):
            sentence_embedding(other, "mean")


# --- modules --------------------------------------------------------------------------------------------------------


class Transformer(nn.Module):
    def __init__(self, trunk, name="auto_model", lower=False):
        super().__init__()
        setattr(self, name, trunk)
        self.name, self.do_lower_case = name, lower

    def forward(self, features):
        return features | {"states": getattr(self, self.name)(**features).last_hidden_state}


class Pooling(nn.Module):
    def __init__(self, says="cls", does=0):
        super().__init__()
        self.says, self.does = says, does

    def get_config_dict(self):
        return {"pooling_mode": self.says}

    def forward(self, features):
        return {"sentence_embedding": features["states"][:, self.does]}


class Dense(nn.Module):
    def __init__(self, **config):
        super().__init__()
        self.linear, self.activation_function, self.config = nn.Linear(32, 4), nn.Tanh(), config

    def get_config_dict(self):
        return self.config

    def forward(self, features):
        return {"sentence_embedding": self.activation_function(self.linear(features["sentence_embedding"]))}


class Normalize(nn.Module):
    def forward(self, features):
        return {"sentence_embedding": nn.functional.normalize(features["sentence_embedding"], dim=-1)}


@pytest.mark.parametrize("name", ["auto_model", "model"])
@pytest.mark.parametrize("more", [(), (Normalize,), (Dense,), (Dense, Normalize)])
def test_the_modules_of_a_sentence_transformer(name, more):
    trunk = bare()
    given = nn.Sequential(Transformer(trunk, name, lower=bool(more)), Pooling(), *(kind() for kind in more)).eval()
    given.max_seq_length, given.prompts, given.default_prompt_name = 7, {"q": "find "}, "q" if more else None
    assert is_sentence_transformer(given)
    found = sentence_embedding(given)
    assert found.trunk is trunk
    steps = found.steps
    assert (steps.modes, steps.normalize, len(steps.dense)) == (("cls",), Normalize in more, int(Dense in more))
    assert (steps.max_length, steps.lower, steps.prompt) == (7, bool(more), "find " if more else "")
    ids = torch.tensor([[2, 9, 3]])
    with torch.no_grad():
        own = given({"input_ids": ids, "attention_mask": torch.ones_like(ids)})["sentence_embedding"]
        vector = found(ids).logits
    torch.testing.assert_close(nn.functional.normalize(vector, dim=-1) if Normalize in more else vector, own)


def test_modules_that_do_something_else_are_refused():
    for made, error, message in [
        ((Transformer(bare()), Pooling("cls", does=1)), HeadMismatchError, r"differ from those .* by \d"),
        ((Transformer(bare()), Pooling(["cls", "mean"])), HeadMismatchError, "by inf"),
        ((Transformer(bare()), Pooling(), Dense(use_residual=True)), UnsupportedModelError, "adds or reads"),
        (
            (Transformer(bare()), Pooling(), Normalize(), Dense()),
            UnsupportedModelError,
            "made of Transformer, Pooling,",
        ),
        ((Transformer(nn.Linear(1, 1)), Pooling()), UnsupportedModelError, "holds no model of transformers"),
        ((Transformer(None), Pooling()), UnsupportedModelError, "holds no model of transformers"),
    ]:
        with pytest.raises(error, match=message):
            sentence_embedding(nn.Sequential(*made).eval())
    assert not is_sentence_transformer(nn.Sequential(Transformer(bare())))
    assert not is_sentence_transformer(nn.ModuleList([Pooling()]))
