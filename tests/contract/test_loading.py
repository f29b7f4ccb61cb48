"""What people load a model by: objects of other libraries, adapters, GGUF files, modules of any kind."""

import json
import shutil
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from typer.testing import CliRunner

from normxlogit import ALL, Explainer, InputError, UnsupportedModelError
from tests import plain, tiny
from tests.adapters import learn
from tests.contract.compare import present, refused, total

TEXTS = ["the cat is on the mat", "a dog", "a cat is good"]


def logits(model, tokenizer, *texts):
    with torch.no_grad():
        return model(**tokenizer(*texts, return_tensors="pt")).logits[0]


class Transformer(nn.Module):
    def __init__(self, model, tokenizer):
        super().__init__()
        self.model, self.tokenizer = model, tokenizer

    def forward(self, features):
        return features | {"token_embeddings": self.model(**features).last_hidden_state}


class CrossEncoder(nn.Sequential):
    """As of sentence-transformers 5.2: a sequence of modules, here of one."""

    def __init__(self, model, tokenizer, *more, longest=40):
        super().__init__(Transformer(model, tokenizer), *more)
        self.tokenizer, self.max_seq_length = tokenizer, longest

    @property
    def transformers_model(self):
        return self[0].model

    def rank(self):
        raise NotImplementedError


def test_a_cross_encoder_is_its_classifier():
    model, tokenizer = tiny.model("bert", num_labels=1), tiny.tokenizer_for("bert")
    pair = ("a cat", "the cat is on the mat")
    old = SimpleNamespace(model=model, tokenizer=tokenizer, rank=len, max_length=512)  # before 4.0
    for given in (CrossEncoder(model, tokenizer), old):
        result = Explainer(given)(pair)
        assert result.prediction.value == pytest.approx(float(logits(model, tokenizer, *pair)), abs=1e-5)
        assert result.text_pair == pair[1]
    made, chance = CrossEncoder(model, tokenizer), float(logits(model, tokenizer, *pair).sigmoid())
    for activation, probability in ((nn.Identity(), None), (nn.Sigmoid(), chance)):
        made.__dict__["activation_fn"] = activation  # what `predict` applies
        assert Explainer(made)(pair).prediction.probability == pytest.approx(probability, abs=1e-6)
    assert len(Explainer(CrossEncoder(model, tokenizer, longest=6))(pair).units) == 6
    assert tokenizer.model_max_length == 40
    more = CrossEncoder(model, tokenizer, nn.Identity())
    refused(UnsupportedModelError, "modules or prompts around", lambda: Explainer(more))


def test_a_traced_module_is_refused():
    module, ids = plain.grown(plain.Recurrent()), torch.tensor([[2, 5, 3]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [torch.jit.trace(module, ids, check_trace=False), torch.jit.script(module)]
    for given in made:
        with pytest.raises(UnsupportedModelError, match="pass the module that it was made of"):
            Explainer(given, tiny.tokenizer_for("bert"), task="sequence-classification")


@pytest.mark.parametrize("method", present("normxlogit", "frozen-gradient", "integrated-gradients"))
def test_a_model_that_was_loaded_in_inference_mode(method):
    tokenizer = tiny.tokenizer_for("bert")
    with torch.inference_mode():
        model = tiny.model("bert")
    ordinary = tiny.model("bert")
    explainer = Explainer(model, tokenizer)
    changes = lambda m: m, lambda m: m.classifier.weight.mul_(2.0), lambda m: m.double()  # which has other storage
    for change, tolerance in zip(changes, (1e-5, 1e-5, 1e-6), strict=True):
        with torch.inference_mode():
            change(model)
        with torch.no_grad():
            change(ordinary)
        wanted = Explainer(ordinary, tokenizer)(TEXTS[0], method=method).scores
        np.testing.assert_allclose(explainer(TEXTS[0], method=method).scores, wanted, atol=tolerance)
        assert all(weight.is_inference() for weight in model.parameters())


class TimeFirst(nn.Module):
    """Torch's own encoder, which works with time before texts unless it is told otherwise."""

    def __init__(self, answer, ids_turned):
        super().__init__()
        self.words = nn.Embedding(tiny.SIZE, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(16, tiny.SIZE if answer == "word" else 3)
        self.answer, self.ids_turned = answer, ids_turned

    def states(self, input_ids, attention_mask):
        x = self.words(input_ids.T) if self.ids_turned else self.words(input_ids).transpose(0, 1)  # (T, B, H)
        causal = None
        if self.answer == "word":
            causal = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        return self.encoder(x, mask=causal, src_key_padding_mask=attention_mask == 0)

    def forward(self, input_ids, attention_mask):
        x = self.states(input_ids, attention_mask)
        if self.answer == "mean":
            there = attention_mask.T[..., None].to(x.dtype)  # (T, B, 1)
            return self.out((x * there).sum(0) / there.sum(0))
        return self.out(x[0]) if self.answer == "first" else self.out(x).transpose(0, 1)


TASKS = {"mean": "sequence-classification", "first": "sequence-classification"}
TASKS |= {"each": "token-classification", "word": "causal-lm"}


@pytest.mark.parametrize("ids_turned", [True, False])
@pytest.mark.parametrize("answer", TASKS)
def test_time_before_texts(answer, ids_turned):
    module, tokenizer = plain.grown(TimeFirst(answer, ids_turned)), tiny.tokenizer_for("bert")
    explainer = Explainer(module, tokenizer, task=TASKS[answer])
    texts = [*TEXTS, "a", "cat", "dog"]  # three of three tokens each, among others
    methods = ("normxlogit", "frozen-gradient")
    for text, result, frozen in zip(texts, *(explainer(texts, method=method) for method in methods), strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            states = module.states(ids, torch.ones_like(ids))[:, 0]  # (T, H)
            own = module.out(states)[:, result.target.id] * module.words(ids[0]).norm(dim=-1)  # (T,)
            found = module(ids, torch.ones_like(ids))[0]
        np.testing.assert_allclose(result.scores, own, atol=1e-4)
        found = found if found.ndim == 1 else found[frozen.target.position]
        value = found[frozen.target.id] - (found.mean() if frozen.target.kind == "token" else 0)
        assert total(frozen) == pytest.approx(float(value), abs=1e-4)
    layers = explainer(texts, layers=ALL, method="normxlogit")
    np.testing.assert_allclose(layers[-1].scores[-1], result.scores, atol=1e-4)
    norms = explainer(texts, method="input-norm")[-1].scores
    np.testing.assert_allclose(norms, module.words(ids[0]).norm(dim=-1).detach(), atol=1e-5)


@pytest.mark.parametrize("given", [transformers.BertTokenizer, "bert-base-uncased", {"vocab": {}}], ids=str)
def test_a_tokenizer_that_was_not_loaded_is_refused(given):
    message = "tokenizer must be one that was loaded"
    refused(InputError, message, lambda: Explainer(tiny.model("bert"), given))


def adapted(base, task, targets=("query", "value"), **options):
    """A model of a checkpoint with an adapter that was trained."""
    peft = pytest.importorskip("peft")
    auto = getattr(transformers, {"SEQ_CLS": "AutoModelForSequenceClassification"}.get(task, "AutoModelForCausalLM"))
    config = peft.LoraConfig(task_type=task, target_modules=list(targets))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(auto.from_pretrained(base, **options), config)
    return learn(model, seed=1)


@pytest.mark.parametrize("tokenizer_beside", [True, False])
def test_an_adapter_of_a_classifier(tmp_path, tokenizer_beside):
    base, tokenizer = tiny.save(tmp_path / "base", "bert"), tiny.tokenizer_for("bert")
    model = adapted(base, "SEQ_CLS", num_labels=3, ignore_mismatched_sizes=True)  # the base has two
    model.save_pretrained(tmp_path / "adapter")
    if tokenizer_beside:
        for file in base.glob("tokenizer*"):
            file.rename(tmp_path / "adapter" / file.name)
    result = Explainer.from_pretrained(tmp_path / "adapter")(TEXTS[0], target=2, method="frozen-gradient")
    wanted = logits(model, tokenizer, TEXTS[0])
    assert result.prediction.value == pytest.approx(float(wanted.max()), abs=1e-5)
    assert result.scores.sum() + result.bias == pytest.approx(float(wanted[2]), abs=1e-4)
    named = Explainer.from_pretrained(tmp_path / "adapter", id2label={0: "a", 1: "b", 2: "c"})
    assert named(TEXTS[0]).prediction.label == "abc"[int(wanted.argmax())]


def test_an_adapter_of_a_language_model(tmp_path):
    base, tokenizer = tiny.save(tmp_path / "base", "gpt2", "CausalLM"), tiny.tokenizer_for("gpt2")
    model = adapted(base, "CAUSAL_LM", targets=["c_attn"])
    model.save_pretrained(tmp_path / "adapter")
    wanted = float(logits(model, tokenizer, "the cat is on")[-1].max())
    for folder, options in ((tmp_path / "adapter", {}), (tmp_path, {"subfolder": "adapter"})):
        result = Explainer.from_pretrained(folder, **options)("the cat is on")
        assert result.prediction.value == pytest.approx(wanted, abs=1e-4)


def test_the_base_of_an_adapter_may_be_beside_it(tmp_path, monkeypatch):
    for folder in ("base", "here"):  # of the same path from where the process is, and no model
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    model, adapter = adapted(tiny.save(tmp_path / "all" / "base", "bert"), "SEQ_CLS"), tmp_path / "all" / "adapter"
    model.save_pretrained(adapter)
    file = adapter / "adapter_config.json"
    written = json.loads(file.read_text())

    def load(base):
        file.write_text(json.dumps(written | {"base_model_name_or_path": base}))
        return Explainer.from_pretrained(adapter)

    wanted = float(logits(model, tiny.tokenizer_for("bert"), TEXTS[0]).max())
    assert load("../base")(TEXTS[0]).prediction.value == pytest.approx(wanted)
    message = "/nowhere/base: no such model folder"
    refused(InputError, message, lambda: load("/nowhere/base"))
    refused(InputError, "names no base_model_name_or_path", lambda: load(None))


def test_an_adapter_without_weights_or_on_a_head_that_is_random_is_refused(tmp_path):
    adapter = tmp_path / "adapter"
    base = tiny.save(tmp_path / "base", "bert", "MaskedLM")  # has no pooler
    adapted(base, "SEQ_CLS").save_pretrained(adapter)
    lacks = r"lacks bert\.pooler\.dense\.bias, bert\.pooler\.dense\.weight: its answers"
    refused(InputError, lacks, lambda: Explainer.from_pretrained(adapter))
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    refused(InputError, "allow_pickle=True would read the pickled", lambda: Explainer.from_pretrained(adapter))
    (adapter / "adapter_model.bin").unlink()
    refused(InputError, r"adapter_model\.safetensors, are missing", lambda: Explainer.from_pretrained(adapter))


@pytest.mark.parametrize("part", ["lora_A", "layer.1.attention.self.query.lora_B", "classifier"])
def test_weights_that_an_adapter_lacks_would_be_random(tmp_path, part):
    adapter = tmp_path / "adapter"
    adapted(tiny.save(tmp_path / "base", "bert"), "SEQ_CLS").save_pretrained(adapter)
    file = adapter / "adapter_model.safetensors"
    weights = load_file(file)
    save_file({name: weight for name, weight in weights.items() if part not in name}, file)
    refused(InputError, f"adapter .*{part}", lambda: Explainer.from_pretrained(adapter))


def write_gguf(file):
    """A llama of one layer whose tokens are the letters, in GGUF."""
    gguf = pytest.importorskip("gguf")
    letters = ["<s>", "</s>", "\u0120", "at", "he", *"abcdefghijklmnopqrstuvwxyz"]
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_name("tiny")  # which older versions of transformers read
    settings = {"context_length": 64, "embedding_length": 32, "block_count": 1, "feed_forward_length": 32}
    settings |= {"head_count": 4, "head_count_kv": 4, "rope_dimension_count": 8, "layer_norm_rms_eps": 1e-6}
    settings |= {"vocab_size": len(letters), "tokenizer_model": "gpt2", "tokenizer_pre": "default"}
    settings |= {"token_list": letters, "token_types": [3, 3, *[1] * (len(letters) - 2)]}
    settings["token_merges"] = ["a t", "h e"]  # transformers 4.51 does not read a single one as a list
    for name, value in (settings | {"bos_token_id": 0, "eos_token_id": 1}).items():
        getattr(writer, f"add_{name}")(value)
    numbers = np.random.default_rng(0)
    block = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"), (32, 32))
    shapes = {f"blk.0.{name}.weight": shape for name, shape in block.items()}
    shapes |= {"token_embd.weight": (len(letters), 32), "output.weight": (len(letters), 32)}
    for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"):
        writer.add_tensor(name, np.ones(32, np.float32))
    for name, shape in shapes.items():
        writer.add_tensor(name, numbers.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def test_a_gguf_file_by_its_path_or_in_its_folder(tmp_path):
    file = write_gguf(tmp_path / "tiny.gguf")
    wanted = Explainer.from_pretrained(tmp_path, gguf_file="tiny.gguf")("a cat")
    for given in (file, str(file), tmp_path):
        np.testing.assert_array_equal(Explainer.from_pretrained(given)("a cat").scores, wanted.scores)
    np.testing.assert_array_equal(Explainer.from_pretrained(gguf_file=str(file))("a cat").scores, wanted.scores)
    refused(InputError, "no such file", lambda: Explainer.from_pretrained(tmp_path / "other.gguf"))
    two = {"gguf_file": "other.gguf"}
    refused(InputError, "two GGUF files are named", lambda: Explainer.from_pretrained(file, **two))
    cli = pytest.importorskip("normxlogit.cli")
    for line in (["--model", str(file)], ["--model", str(tmp_path), "--gguf-file", "tiny.gguf"]):
        said = CliRunner().invoke(cli.app, ["explain", "a cat", "--method", "normxlogit", "--format", "json", *line])
        assert said.exit_code == 0, said.output
        assert json.dumps(wanted.prediction.label) in said.stdout


def test_converted_weights_of_a_gguf_file_are_kept_and_give_the_same_numbers(tmp_path, monkeypatch):
    file, cache = write_gguf(tmp_path / "tiny.gguf"), tmp_path / "kept"
    wanted = Explainer.from_pretrained(file)("a cat")
    same = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)  # weights lie elsewhere in memory
    assert not cache.exists()
    monkeypatch.setenv("NORMXLOGIT_CACHE", str(cache))
    first, second = (Explainer.from_pretrained(file)("a cat") for _ in range(2))
    (kept,) = (cache / "gguf").iterdir()
    assert (kept / "model.safetensors").is_file()
    for result in (first, second):
        same(result.scores, wanted.scores)
        assert (result.model, result.prediction.label) == (wanted.model, wanted.prediction.label)
    half = Explainer.from_pretrained(file, dtype="bfloat16").model
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    file.write_bytes(file.read_bytes() + b"\0")  # another file of the same name
    same(Explainer.from_pretrained(file)("a cat").scores, wanted.scores)
    assert len(list((cache / "gguf").iterdir())) == 2
    shutil.rmtree(cache)
    cache.write_text("a file where the folder would be")
    same(Explainer.from_pretrained(file)("a cat").scores, wanted.scores)
