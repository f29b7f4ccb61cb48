"""Bad calls from Python: what is called, the type of the error, and a piece of its message."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import normxlogit
from normxlogit import ALL, Explainer, Predictions, attribute, summarize
from normxlogit.decompositions import IntegratedGradients
from normxlogit.errors import DataError, InputError, MethodError, NormXLogitError, TargetError, UnsupportedModelError
from tests import tiny

from .shop import explainer


@dataclass(frozen=True)
class Call:
    """What is bad about a call, the call in a folder with the files of `shop`, its error and a piece of the message."""

    name: str
    do: Callable[[], Any]
    error: type[NormXLogitError]
    says: str


def texts(name: str, error: type[NormXLogitError], says: str, *inputs: Any, on: str = "bert", **options: Any) -> Call:
    return Call(f"{on} {name}", lambda: explainer(on)(*inputs, **options), error, says)


def ids(name: str, says: str, **inputs: Any) -> Call:
    return Call(f"ids {name}", lambda: explainer("bert")(inputs), InputError, says)


def outputs(name: str, says: str, error: type[NormXLogitError] = InputError, **changes: Any) -> Call:
    def do() -> Any:
        made = explainer("bert")
        inputs = {"input_ids": torch.tensor([[2, 5, 6, 3]])}
        with torch.no_grad():
            found = dict(made.model(**inputs, output_hidden_states=True))
        return made.from_outputs(inputs, found | changes)

    return Call(f"outputs {name}", do, error, says)


def completion(name: str, says: str, *args: Any, error: type[NormXLogitError] = InputError, **options: Any) -> Call:
    return Call(f"completion {name}", lambda: explainer("gpt").explain_completion(*args, **options), error, says)


def writing(name: str, says: str, *args: Any, error: type[NormXLogitError] = InputError, **options: Any) -> Call:
    options = {"max_new_tokens": 2} | options
    return Call(f"generate {name}", lambda: explainer("gpt").generate(*args, **options), error, says)


def making(name: str, error: type[NormXLogitError], says: str, *args: Any, **options: Any) -> Call:
    return Call(f"Explainer {name}", lambda: Explainer(*args, **options), error, says)


def loading(name: str, says: str, *args: Any, error: type[NormXLogitError] = InputError, **options: Any) -> Call:
    return Call(f"from_pretrained {name}", lambda: Explainer.from_pretrained(*args, **options), error, says)


def corpus(
    name: str, error: type[NormXLogitError], says: str, inputs: Any, output: Any = "out", **options: Any
) -> Call:
    return Call(f"attribute {name}", lambda: attribute(explainer("bert"), inputs, output, **options), error, says)


HALF = "half \ud800"
LONG = "y" * 100_000
BERT, TOKENIZER = tiny.model("bert"), tiny.tokenizer()


@functools.cache
def embedder() -> Explainer:
    return Explainer(BERT.bert, TOKENIZER, task="embedding", pooling="mean")


TEXTS = [
    texts("nothing", InputError, "cannot read texts from a NoneType", None),
    texts("no character", InputError, "is empty", ""),
    texts("a set", InputError, "a set has no order", {"the cat", "bad"}),
    texts("bytes", InputError, "not bytes", ["fine", b"\xff"]),
    texts("a missing value", InputError, "input 1 must be", ["fine", float("nan")]),
    texts("a list as a pair", InputError, "not list (a pair is a tuple", ["fine", ["a", "b"]]),
    texts("an empty pair", InputError, "input 1 is empty", ["fine", ("", " ")]),
    texts("nothing left of it", InputError, "empty after tokenisation", "\u0301"),
    texts("too long", InputError, "reads 40; long_text='window'", "the " * 100, long_text="error"),
    texts("a truth value that is none", InputError, "token_predictions must be", "x", token_predictions="yes"),
    texts("a triple", InputError, "not a tuple of 3", ("a", "b", "c"), on="gpt"),
    texts("no mask", TargetError, "stands there nowhere", "the cat", on="masked"),
    texts("two masks", TargetError, "2 times", "[MASK] [MASK]", on="masked"),
    texts("one choice", InputError, "two choices or more", ("the", ["a"]), on="choice"),
    texts("choices that are no texts", InputError, "must be a string or a pair", ("the", [1, 2]), on="choice"),
]

TARGETS = [
    texts("an unknown label", TargetError, "no label 'nope'", "x", target="nope"),
    texts("an unknown label of 10,000", TargetError, "and 9980 more", "x", target="nope", on="many"),
    texts("a label without end", TargetError, "no label 'yyyy", "x", target=LONG),
    texts("an empty token", TargetError, "is not one token", "a [MASK]", target="", on="masked"),
    texts("a vocabulary", TargetError, "the whole vocabulary", "a [MASK]", target=ALL, on="masked"),
    texts("an index below", TargetError, "index -1 is outside", "x", target=-1),
    texts("a fraction", TargetError, "not float", "x", target=1.0),
    texts("one input without a mask", TargetError, "input 1", ["a [MASK]", "the cat"], on="masked"),
    texts("one for all and each", TargetError, "not both", ["x", "y"], target=0, targets=[0, 1]),
    texts("too many", TargetError, "3 targets for 2 inputs", ["x", "y"], targets=[0, 1, 0]),
    texts("every choice", TargetError, "explain one at a time", ("a", ["b", "c"]), target=ALL, on="choice"),
    texts("a token itself", TargetError, "'are' is also", "a [MASK]", target="are", contrast="are", on="masked"),
    texts("a contrast of ends", TargetError, "leave out contrast=", ("a", "b"), contrast="end", on="reader"),
    texts("a choice that is none", TargetError, "no choice 'z'", ("a", ["b", "c"]), target="z", on="choice"),
    *(texts(f"verify {n!r}", InputError, "verify", "x", verify=n) for n in (-1, "all")),
]

LAYERS = [
    texts("a word for layers", MethodError, "not 'last'", "x", layers="last"),
    texts("layer 0", MethodError, "no layer 0; the model has layers 1 to 3", "x", layers=0),
    texts("layers of a method that has none", MethodError, "for single layers", "x", method="input-norm", layers=1),
    texts("a place in a question", InputError, "position=", ("a", ["b", "c"]), position=0, on="choice"),
    texts("a place beyond", InputError, "outside the text's", "the [MASK]", position=99, on="masked"),
    texts("a span backwards", InputError, "not a span of the text", "the [MASK]", position=(5, 2), on="masked"),
    texts("a place in a whole text", InputError, "position= chooses a token", "the", position=0),
]

METHODS = [
    texts("an unknown method", MethodError, "no method named 'nope'", "x", method="nope"),
    texts("an unknown setting", MethodError, "has no setting 'colour'", "x", method="lime:colour=red"),
    texts("a value that is none", MethodError, "word_embedding", "x", method="normxlogit:norm_of=words"),
    texts("no samples", MethodError, "samples", "x", method="lime:samples=0"),
    texts("a layer to read at", MethodError, "layers 1 to 3", "x", method="frozen-gradient:read_at=99"),
    texts("a point beyond", MethodError, "point lies above 0", "x", method="frozen-gradient:point=2.0"),
    Call("settings a word", lambda: IntegratedGradients(steps="many"), MethodError, "steps must be a whole number"),
    Call("compare with a number", lambda: explainer("bert").compare(["a", 3]), InputError, "input 1"),
    Call("compare nothing", lambda: explainer("bert").compare("a", methods=[]), MethodError, "a list of one method"),
    Call("compare targets", lambda: explainer("bert").compare("a", target=[0, 1]), TargetError, "on one target"),
]

IDS = [
    ids("beyond", "holds token id 1000000000", input_ids=[[10**9]]),
    ids("too long", "has 100 tokens and the model reads 40", input_ids=[[5] * 100]),
    ids("of a third text", "cannot read a text of 3 tokens", input_ids=[[2, 5, 3]], token_type_ids=[[0, 7, 0]]),
    ids("beside a shorter field", "'token_type_ids' has 2 values", input_ids=[[2, 5, 3]], token_type_ids=[[0, 0]]),
    Call("encode at no length", lambda: explainer("bert").encode("x", max_length=0), InputError, "max_length must"),
    outputs("with a number for states", "output_hidden_states=True", hidden_states=3),
    outputs("of more labels", "logits of shape (1, 7), not (1, 3)", logits=torch.zeros(1, 7)),
    outputs("of another width", "do not come from these inputs", hidden_states=(torch.zeros(1, 4, 8),) * 4),
]

WRITING = [
    writing("a number", "a prompt is a string", 3),
    writing("a chat without a template", "chat template", [{"role": "user", "content": "x"}]),
    writing("sources of what it writes", "a result's sources", "the", sources="sentence"),
    writing("an unknown option", "cannot continue a text of 1 tokens", "the", colour="red"),
    writing("a cold temperature", "temperature", "the", do_sample=True, temperature=-1.0),
    writing("settings that are none", "generation_config must be", "the", generation_config="greedy"),
    writing("two at once", "do not support `num_return_sequences`", "the", num_return_sequences=2),
    writing("itself", "the target 'cat' is also", "the", target="cat", contrast="cat", error=TargetError),
    Call("generate with a classifier", lambda: explainer("bert").generate("x"), UnsupportedModelError, "write text"),
    completion("nothing", "a completion is a text or a row of token ids", "the", None),
    completion("an id beyond", "holds token id 1000000000", "the", [10**9]),
    completion("half a character", "half a character", "the", HALF),
    completion(
        "too many targets", "2 targets for 1 generated tokens", "the", " cat", targets=[1, 2], error=TargetError
    ),
    completion("a source beyond", "not a span of the prompt", "the", " cat", sources={"a": (0, 99)}),
    completion("sources without names", "sources are named spans", "the", " cat", sources=[(0, 1)]),
    Call("cite no question", lambda: explainer("gpt").cite(" ", ["a"]), InputError, "the question is empty"),
    Call("cite no document", lambda: explainer("gpt").cite("who?", []), InputError, "no document with a text"),
    Call("cite a system", lambda: explainer("gpt").cite("who?", ["a."], system=3), InputError, "system message"),
    Call("cite by a classifier", lambda: explainer("bert").cite("who?", ["a."]), UnsupportedModelError, "write text"),
    Call("cite and verify -1", lambda: explainer("gpt").cite("who?", ["a."], verify=-1), InputError, "verify must"),
]

MODELS = [
    making("of a name", InputError, "Explainer.from_pretrained takes a name", "gpt2"),
    making("without a tokenizer", InputError, "the model needs its tokenizer", BERT),
    making("for cooking", InputError, "task must be one of", BERT, TOKENIZER, task="cooking"),
    making("without room", InputError, "batch_tokens must be", BERT, TOKENIZER, batch_tokens=0),
    making("of a bare encoder", UnsupportedModelError, "is a bare encoder", BERT.bert, TOKENIZER),
    making(
        *("of a layer", UnsupportedModelError, "cannot read token ids", torch.nn.Linear(2, 2), TOKENIZER),
        task="sequence-classification",
    ),
    loading("nowhere", "no such model folder", "./nowhere"),
    loading("a model", "not a Linear; Explainer(model, tokenizer) takes one", torch.nn.Linear(2, 2)),
    loading("whole numbers", "torch.int8", "bert", dtype="int8"),
    loading("a device", "there is no device 'nowhere'", "bert", device="nowhere"),
    loading("another task", "its answers would come from random", "bert", task="causal-lm"),
    loading("an option", "cannot load", "bert", colour="red"),
]

VECTORS = [
    making("of vectors not pooled", InputError, "pooling='mean'", BERT.bert, TOKENIZER, task="embedding"),
    making("of a maximum", InputError, "pooling must be", BERT.bert, TOKENIZER, task="embedding", pooling="max"),
    making("pooled for no vectors", InputError, "task='embedding'", BERT, TOKENIZER, pooling="mean"),
    making(
        *("of vectors of a head", UnsupportedModelError, "bare encoder", tiny.model("bert", "MaskedLM"), TOKENIZER),
        task="embedding",
        pooling="mean",
    ),
    Call("compare by labels", lambda: explainer("bert").similarity("a", "b"), UnsupportedModelError, "reranker"),
    Call("explain a vector", lambda: embedder()("a"), UnsupportedModelError, "similarity"),
    Call(
        "compare pairs of tokens by the head",
        lambda: embedder().similarity("a", "b", method="logat", matrix=True),
        MethodError,
        "pairs of tokens",
    ),
    Call("compare with a pair", lambda: embedder().similarity("a", [("a", "b")]), InputError, "tuple"),
]

FILES = [
    Call("load a NUL", lambda: normxlogit.load("a\0b"), DataError, r"a\x00b"),
    Call("load the future", lambda: normxlogit.load("future.json"), DataError, "cannot read format version 99"),
    Call("load too few scores", lambda: normxlogit.load("short.json"), DataError, "not of shape"),
    Call("load huge scores", lambda: normxlogit.load("huge.json"), DataError, "scores"),
    Call("load a table", lambda: normxlogit.load("x.csv"), DataError, "holds scores only"),
    Call("save into nothing", lambda: explainer("bert")("x").save("no/a.json"), DataError, "cannot write no/a.json"),
    Call("save as a sheet", lambda: explainer("bert")(["x"]).save("out.xlsx"), DataError, "must end in"),
    corpus("nowhere", DataError, "nowhere.jsonl", "nowhere.jsonl"),
    corpus("junk", DataError, "junk.parquet", "junk.parquet"),
    corpus("by a method", MethodError, "no method named", "rows.jsonl", method="nope"),
    corpus("of a label that is none", TargetError, "no label 'nope'", "rows.jsonl", job=Predictions(target="nope")),
    Call("merged by nothing", lambda: Predictions(words=True, merge="median"), InputError, "merge must be"),
    corpus("with a setting of a job", InputError, "Predictions(words=...)", "rows.jsonl", words=True),
    corpus("by a job that is none", InputError, "job= is one of Predictions", "rows.jsonl", job="words"),
    corpus("keeping nothing that is there", DataError, "no column 'nope'", "rows.jsonl", keep="nope"),
    corpus("of XML", DataError, "xml", "rows.jsonl", input_format="xml"),
    Call("summarize nowhere", lambda: summarize("nowhere"), DataError, "no corpus run there"),
    Call("summarize a file", lambda: summarize(Path("texts.txt")), DataError, "texts.txt"),
]

CALLS = [*TEXTS, *TARGETS, *LAYERS, *METHODS, *IDS, *WRITING, *MODELS, *VECTORS, *FILES]
