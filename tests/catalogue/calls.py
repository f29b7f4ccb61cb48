"""Bad calls from Python: what is called, the type of the error, and a piece of its message."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import normxlogit
from normxlogit import (
    ALL,
    DataError,
    Explainer,
    InputError,
    MethodError,
    NormXLogitError,
    Predictions,
    TargetError,
    UnsupportedModelError,
    attribute,
    summarize,
)
from normxlogit.decompositions import IntegratedGradients
from normxlogit.methods import FrozenGradient
from tests import tiny

from .shop import explainer

HALF_A_CHAT = [{"role": "user", "content": "the cat \ud83d"}, {"role": "assistant", "content": "sat"}]


@dataclass(frozen=True)
class Call:
    """A bad call.

    Attributes:
        name: What is bad about it.
        do: The call, in a folder that holds the files of `shop`.
        error: Type of the error, exactly.
        says: A piece of the message.
    """

    name: str
    do: Callable[[], Any]
    error: type[NormXLogitError]
    says: str


def texts(name: str, error: type[NormXLogitError], says: str, *inputs: Any, on: str = "bert", **options: Any) -> Call:
    """Return the row of a call of an explainer."""
    return Call(f"{on} {name}", lambda: explainer(on)(*inputs, **options), error, says)


def ids(name: str, says: str, **inputs: Any) -> Call:
    """Return the row of a call with token ids."""
    return Call(f"ids {name}", lambda: explainer("bert")(inputs), InputError, says)


def outputs(name: str, says: str, error: type[NormXLogitError] = InputError, **changes: Any) -> Call:
    """Return the row of a forward pass that was already run and then changed."""

    def do() -> Any:
        made = explainer("bert")
        inputs = {"input_ids": torch.tensor([[2, 5, 6, 3]])}
        with torch.no_grad():
            found = dict(made.model(**inputs, output_hidden_states=True))
        return made.from_outputs(inputs, found | changes)

    return Call(f"outputs {name}", do, error, says)


def completion(name: str, says: str, *args: Any, error: type[NormXLogitError] = InputError, **options: Any) -> Call:
    """Return the row of a completion to explain."""
    return Call(f"completion {name}", lambda: explainer("gpt").explain_completion(*args, **options), error, says)


def writing(name: str, says: str, *args: Any, error: type[NormXLogitError] = InputError, **options: Any) -> Call:
    """Return the row of a prompt to continue."""
    options = {"max_new_tokens": 2} | options
    return Call(f"generate {name}", lambda: explainer("gpt").generate(*args, **options), error, says)


def making(name: str, error: type[NormXLogitError], says: str, *args: Any, call: Any = None, **options: Any) -> Call:
    """Return the row of an explainer that cannot be made of this."""

    def do() -> Any:
        made = Explainer(*args, **options)
        return made if call is None else made(call)

    return Call(f"Explainer {name}", do, error, says)


def loading(name: str, says: str, *args: Any, error: type[NormXLogitError] = InputError, **options: Any) -> Call:
    """Return the row of a model that cannot be loaded."""
    return Call(f"from_pretrained {name}", lambda: Explainer.from_pretrained(*args, **options), error, says)


def corpus(
    name: str, error: type[NormXLogitError], says: str, inputs: Any, output: Any = "out", **options: Any
) -> Call:
    """Return the row of a corpus run."""
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
    texts("spaces", InputError, "is empty", "   "),
    texts("an index", InputError, "cannot read texts from a int", 7),
    texts("a set", InputError, "a set has no order", {"the cat", "bad"}),
    texts("columns", InputError, "several columns", np.array([["the", "cat"], ["a", "b"]])),
    texts("bytes", InputError, "not bytes", ["fine", b"\xff"]),
    texts("a number among them", InputError, "input 1 must be", ["fine", 3]),
    texts("a missing value", InputError, "input 1 must be", ["fine", float("nan")]),
    texts("a list as a pair", InputError, "not list (a pair is a tuple", ["fine", ["a", "b"]]),
    texts("half a pair", InputError, "input 1 is a tuple of one string", ["fine", ("only",)]),
    texts("no text in a tuple", InputError, "not an empty tuple", ()),
    texts("pairs in a tuple", InputError, "not a tuple of tuple, tuple", (("a", "b"), ("c", "d"))),
    texts("an empty pair", InputError, "input 1 is empty", ["fine", ("", " ")]),
    texts("half a character", InputError, "half a character", HALF),
    texts("nothing left of it", InputError, "empty after tokenisation", "\u0301"),
    texts("one of many is empty", InputError, "input 1 is empty", ["fine", "\u2028"]),
    texts("too long", InputError, "tokens and the model reads 40", "the " * 100, long_text="error"),
    texts("a way that is none", InputError, "long_text must be", "x", long_text=True),
    texts("a truth value that is none", InputError, "token_predictions must be", "x", token_predictions="yes"),
    texts("a triple", InputError, "not a tuple of str, str, str", ("a", "b", "c"), on="gpt"),
    texts("no mask", TargetError, "stands there nowhere", "the cat", on="masked"),
    texts("two masks", TargetError, "2 times", "[MASK] [MASK]", on="masked"),
    texts("no context", InputError, "input 0 must be (prompt, [choices])", "the", on="choice"),
    texts("one choice", InputError, "two choices or more", ("the", ["a"]), on="choice"),
    texts("choices that are no texts", InputError, "must be a string or a pair", ("the", [1, 2]), on="choice"),
    texts("half a choice", InputError, "half a character", ("the", [HALF, "a"]), on="choice"),
    texts("ids for choices", InputError, "must be (prompt, [choices])", {"input_ids": [[1]]}, on="choice"),
]

TARGETS = [
    texts("an unknown label", TargetError, "no label 'nope'", "x", target="nope"),
    texts("an unknown label of 10,000", TargetError, "and 9980 more", "x", target="nope", on="many"),
    texts("a label without end", TargetError, "no label 'yyyy", "x", target=LONG),
    texts("half a token", TargetError, "half a character", "a [MASK]", target=HALF, on="masked"),
    texts("an empty token", TargetError, "is not one token", "a [MASK]", target="", on="masked"),
    texts("50,000 tokens", TargetError, "is not one token", "a [MASK]", target="the " * 50_000, on="masked"),
    texts("a vocabulary", TargetError, "the whole vocabulary", "a [MASK]", target=ALL, on="masked"),
    texts("a huge index", TargetError, "is outside the model's 3 outputs", "x", target=10**30),
    texts("a word of every label", TargetError, "no label 'all'", "x", target="all"),
    texts("an index as a name", TargetError, "no label '1'", "x", target="1"),
    texts("an index below", TargetError, "index -1 is outside", "x", target=-1),
    texts("a truth value", TargetError, "not bool", "x", target=True),
    texts("numpy's truth value", TargetError, "not bool", "x", target=np.True_),
    texts("a fraction", TargetError, "not float", "x", target=1.0),
    texts("a tensor of a fraction", TargetError, "not Tensor", "x", target=torch.tensor(1.0)),
    texts("a tensor of two", TargetError, "not Tensor", "x", target=torch.tensor([0, 1])),
    texts("bytes", TargetError, "not bytes", "x", target=b"LABEL_1"),
    texts("an empty list", TargetError, "the list of targets is empty", "x", target=[]),
    texts("a list with nothing in it", TargetError, "a name or an index, not NoneType", "x", target=[0, None]),
    texts("every label as the contrast", TargetError, "a contrast is a name or an index", "x", contrast=ALL),
    texts("digits of a vocabulary", TargetError, "'7' is not one token", "a [MASK]", target="7", on="masked"),
    texts("an entry beyond", TargetError, "outside the model's 64 outputs", "a [MASK]", target=64, on="masked"),
    texts("one input without a mask", TargetError, "input 1", ["a [MASK]", "the cat"], on="masked"),
    texts("one for all and each", TargetError, "not both", ["x", "y"], target=0, targets=[0, 1]),
    texts("too many", TargetError, "3 targets for 2 inputs", ["x", "y"], targets=[0, 1, 0]),
    texts("letters", TargetError, "one target for each input", ["x", "y"], targets="ab"),
    texts("a number for each", TargetError, "one target for each input", ["x", "y"], targets=0),
    texts("every label for each", TargetError, "not All", ["x", "y"], targets=[0, ALL]),
    texts("nothing for one", TargetError, "not NoneType", ["x", "y"], targets=[0, None]),
    texts("an index beyond for one", TargetError, "index 7 is outside", ["x", "y"], targets=[0, 7]),
    texts("every choice", TargetError, "explain one at a time", ("a", ["b", "c"]), target=ALL, on="choice"),
    texts("several choices", TargetError, "explain one at a time", ("a", ["b", "c"]), target=[0, 1], on="choice"),
    texts("itself", TargetError, "the target 'LABEL_1' is also the contrast", "x", target=1, contrast="LABEL_1"),
    texts("itself among others", TargetError, "target 2 is also", "x", target=["LABEL_0", "LABEL_2"], contrast=2),
    texts("one text's itself", TargetError, "target 1 is also", ["x", "y"], targets=[0, "LABEL_1"], contrast=1),
    texts("a token itself", TargetError, "'are' is also", "a [MASK]", target="are", contrast="are", on="masked"),
    texts("a contrast of ends", TargetError, "leave out contrast=", ("a", "b"), contrast="end", on="reader"),
    texts("a middle", TargetError, "no label 'middle'", ("a", "b"), target="middle", on="reader"),
    texts("a choice that is none", TargetError, "no choice 'z'", ("a", ["b", "c"]), target="z", on="choice"),
    texts("a sixth choice", TargetError, "there is no choice 5", ("a", ["b", "c"]), target=5, on="choice"),
    *(texts(f"verify {n!r}", InputError, "verify", "x", verify=n) for n in (-1, 1.5, "all", True, [2])),
]

LAYERS = [
    texts("a word for layers", MethodError, "not 'last'", "x", layers="last"),
    texts("a set of layers", MethodError, "not {1}", "x", layers={1}),
    texts("bytes for layers", MethodError, "not b'", "x", layers=b"\x01"),
    texts("fractions for layers", MethodError, "layers must be", "x", layers=np.array([1.5])),
    texts("a truth value for layers", MethodError, "not True", "x", layers=True),
    texts("no layers", MethodError, "the list of layers is empty", "x", layers=[]),
    texts("layer 0", MethodError, "no layer 0; the model has layers 1 to 3", "x", layers=0),
    texts("layers of a method that has none", MethodError, "for single layers", "x", method="input-norm", layers=1),
    texts("a place in a question", InputError, "position=", ("a", ["b", "c"]), position=0, on="choice"),
    texts("windows of choices", InputError, "long_text", ("a", ["b", "c"]), long_text="window", on="choice"),
    texts("a huge layer", MethodError, "the model has layers 1 to 3", "x", layers=10**30),
    texts("layers of choices", MethodError, "no layer 9", ("a", ["b", "c"]), layers=9, on="choice"),
    texts("a place beyond", InputError, "outside the text's", "the [MASK]", position=99, on="masked"),
    texts("a place between", InputError, "a position is a token's index", "the [MASK]", position=1.5, on="masked"),
    texts("a place that is not there", InputError, "0 times", "the [MASK]", position="zzz", on="masked"),
    texts("a span before the text", InputError, "not a span of the text", "the [MASK]", position=(-1, 3), on="masked"),
    texts("a span backwards", InputError, "not a span of the text", "the [MASK]", position=(5, 2), on="masked"),
    texts("a span beyond", InputError, "not a span of the text", "the cat", position=(4, 99), on="tagger"),
    texts("several places", InputError, "2 positions for 1 inputs", "the [MASK]", position=[1, 2], on="masked"),
    texts("a place in a whole text", InputError, "position= chooses a token", "the", position=0),
]

METHODS = [
    texts("a number for a method", MethodError, "method", "x", method=3),
    texts("an unknown method", MethodError, "no method named 'nope'", "x", method="nope"),
    texts("a method without end", MethodError, "no method named", "x", method=LONG),
    texts("an unknown setting", MethodError, "has no setting 'colour'", "x", method="lime:colour=red"),
    texts("another method's setting", MethodError, "norm_of", "x", method="logat:norm_of=word_embedding"),
    texts("a value that is none", MethodError, "word_embedding", "x", method="normxlogit:norm_of=words"),
    texts("a word for a number", MethodError, "samples must be a whole number", "x", method="lime:samples=many"),
    texts("no samples", MethodError, "samples", "x", method="lime:samples=0"),
    texts("no steps", MethodError, "steps", "x", method="integrated-gradients:steps=0"),
    texts("a huge seed", MethodError, "must be", "x", method="random:seed=99999999999999999999"),
    texts("a layer to read at", MethodError, "layers 1 to 3", "x", method="frozen-gradient:read_at=99"),
    texts("a point beyond", MethodError, "point lies above 0", "x", method="frozen-gradient:point=2.0"),
    Call("settings a word", lambda: IntegratedGradients(steps="many"), MethodError, "steps must be a whole number"),
    Call("settings a fraction", lambda: IntegratedGradients(steps=2.5), MethodError, "not 2.5"),
    Call("settings nan", lambda: FrozenGradient(point=float("nan")), MethodError, "point must be"),
    Call("compare with a number", lambda: explainer("bert").compare(["a", 3]), InputError, "input 1"),
    Call("compare nothing", lambda: explainer("bert").compare("a", methods=[]), MethodError, "a list of one method"),
    Call("compare a number", lambda: explainer("bert").compare("a", methods=3), MethodError, "takes a list"),
    Call("compare targets", lambda: explainer("bert").compare("a", target=[0, 1]), TargetError, "on one target"),
]

IDS = [
    ids("a huge id", "holds token id 1000000000000000000000000000000", input_ids=[[10**30]]),
    ids("beyond", "holds token id 1000000000", input_ids=[[10**9]]),
    ids("of an object", "must hold rows of whole numbers", input_ids=np.array([["a"]])),
    ids("too long", "has 100 tokens and the model reads 40", input_ids=[[5] * 100]),
    ids("of a third text", "cannot read a text of 3 tokens", input_ids=[[2, 5, 3]], token_type_ids=[[0, 7, 0]]),
    ids("of a place beyond", "cannot read a text of 3 tokens", input_ids=[[2, 5, 3]], position_ids=[[0, 1, 999]]),
    ids("of vectors", "none of texts", inputs_embeds=torch.zeros(1, 2, 32)),
    ids("beside a shorter field", "'token_type_ids' has 2 values", input_ids=[[2, 5, 3]], token_type_ids=[[0, 0]]),
    Call("encode at no length", lambda: explainer("bert").encode("x", max_length=0), InputError, "max_length must"),
    Call("encode at a word", lambda: explainer("bert").encode("x", max_length="3"), InputError, "not '3'"),
    outputs("with a number for states", "output_hidden_states=True", hidden_states=3),
    outputs("with a word for logits", "output_hidden_states=True", logits="x"),
    outputs("of more labels", "logits of shape (1, 7), not (1, 3)", logits=torch.zeros(1, 7)),
    outputs("of another width", "do not come from these inputs", hidden_states=(torch.zeros(1, 4, 8),) * 4),
]

WRITING = [
    writing("a number", "a prompt is a string", 3),
    writing("nothing", "empty", ""),
    writing("half a character", "half a character", HALF),
    writing("a chat without a template", "chat template", [{"role": "user", "content": "x"}]),
    writing("no token", "max_new_tokens must be a positive whole number", "the", max_new_tokens=0),
    writing("a fraction of tokens", "not 1.5", "the", max_new_tokens=1.5),
    writing("an unknown option", "cannot continue a text of 1 tokens", "the", colour="red"),
    writing("a cold temperature", "temperature", "the", do_sample=True, temperature=-1.0),
    writing("settings that are none", "generation_config must be", "the", generation_config="greedy"),
    writing("two at once", "do not support `num_return_sequences`", "the", num_return_sequences=2),
    writing("itself", "the target 'cat' is also", "the", target="cat", contrast="cat", error=TargetError),
    writing("several targets", "one token for all places", "the", target=["a"], error=TargetError),
    Call("generate with a classifier", lambda: explainer("bert").generate("x"), UnsupportedModelError, "write text"),
    completion("nothing", "a completion is a text or a row of token ids", "the", None),
    completion("empty", "the completion is empty", "the", ""),
    completion("bytes", "not bytes", "the", b" cat"),
    completion("words for ids", "a completion is a text or a row", "the", ["cat"]),
    completion("fractions for ids", "a completion is a text or a row", "the", [1.5]),
    completion("rows of ids", "not Tensor", "the", torch.tensor([[5, 6], [6, 5]])),
    completion("an id beyond", "holds token id 1000000000", "the", [10**9]),
    completion("an id below", "holds token id -1", "the", [-1]),
    completion("half a character", "half a character", "the", HALF),
    completion(
        "too many targets", "2 targets for 1 generated tokens", "the", " cat", targets=[1, 2], error=TargetError
    ),
    completion("a source beyond", "not a span of the prompt", "the", " cat", sources={"a": (0, 99)}),
    completion("sources without names", "sources are named spans", "the", " cat", sources=[(0, 1)]),
    Call("cite no question", lambda: explainer("gpt").cite(" ", ["a"]), InputError, "the question is empty"),
    Call("cite no document", lambda: explainer("gpt").cite("who?", []), InputError, "no document with a text"),
    Call("cite a number", lambda: explainer("gpt").cite("who?", [1]), InputError, "got int"),
    Call("cite a system", lambda: explainer("gpt").cite("who?", ["a."], system=3), InputError, "system message"),
    Call("cite no messages", lambda: explainer("gpt").cite(messages=[]), InputError, "got an empty list"),
    Call("cite a number as messages", lambda: explainer("gpt").cite(messages=3), InputError, "a list of messages"),
    Call("cite numbers as messages", lambda: explainer("gpt").cite(messages=[1]), InputError, "a list of messages"),
    Call("cite half a character", lambda: explainer("gpt").cite(messages=HALF_A_CHAT), InputError, "half a character"),
    Call("cite by a classifier", lambda: explainer("bert").cite("who?", ["a."]), UnsupportedModelError, "write text"),
    *(
        Call(
            f"cite and verify {n!r}", lambda n=n: explainer("gpt").cite("who?", ["a."], verify=n), InputError, "verify"
        )
        for n in ("all", -1, 1.5, True)
    ),
]

MODELS = [
    making("of a name", InputError, "Explainer.from_pretrained takes a name", "gpt2"),
    making("of a class", InputError, "takes a model or a pipeline", type(BERT), TOKENIZER),
    making("without a tokenizer", InputError, "the model needs its tokenizer", BERT),
    making("with a tokenizer's name", InputError, "not a str", BERT, "bert"),
    making("with a tokenizer's class", InputError, "not the class", BERT, type(TOKENIZER)),
    making("for cooking", InputError, "task must be one of", BERT, TOKENIZER, task="cooking"),
    making("without room", InputError, "batch_tokens must be", BERT, TOKENIZER, batch_tokens=0),
    making("with a word for room", InputError, "batch_tokens must be", BERT, TOKENIZER, batch_tokens="8"),
    making("of a bare encoder", UnsupportedModelError, "is a bare encoder", BERT.bert, TOKENIZER),
    making(
        *("of a layer", UnsupportedModelError, "cannot read token ids", torch.nn.Linear(2, 2), TOKENIZER),
        task="sequence-classification",
    ),
    loading("nowhere", "no such model folder", "./nowhere"),
    loading("a file", "no such model folder", "texts.txt"),
    loading("a model", "not a Linear; Explainer(model, tokenizer) takes one", torch.nn.Linear(2, 2)),
    loading("half a name", "cannot load", HALF),
    loading("a name without end", "no such model folder", "/" + LONG),
    loading("a precision", "no dtype 'half-empty'", "bert", dtype="half-empty"),
    loading("whole numbers", "torch.int8", "bert", dtype="int8"),
    loading("a number for a precision", "cannot load", "bert", dtype=3),
    loading("a device", "there is no device 'nowhere'", "bert", device="nowhere"),
    loading("a task", "no task 3", "bert", task=3),
    loading("another task", "its answers would come from random", "bert", task="causal-lm"),
    loading("an option", "cannot load", "bert", colour="red"),
    loading("no room", "batch_tokens must be", "bert", batch_tokens=-1),
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
    Call("compare with spaces", lambda: embedder().similarity("a", "  "), InputError, "empty"),
    Call("compare with no text", lambda: embedder().similarity("a", []), InputError, "no text"),
]

FILES = [
    Call("load a folder", lambda: normxlogit.load("docs"), DataError, "cannot read docs"),
    Call("load Latin-1", lambda: normxlogit.load("latin.txt"), DataError, "not JSON"),
    Call("load a NUL", lambda: normxlogit.load("a\0b"), DataError, r"a\x00b"),
    Call("load a list", lambda: normxlogit.load("list.json"), DataError, "got a list"),
    Call("load the future", lambda: normxlogit.load("future.json"), DataError, "cannot read format version 99"),
    Call("load the deep", lambda: normxlogit.load("deep.json"), DataError, "nested too deeply"),
    Call("load NaN", lambda: normxlogit.load("nan.json"), DataError, "format version"),
    Call("load too few scores", lambda: normxlogit.load("short.json"), DataError, "not of shape"),
    Call("load huge scores", lambda: normxlogit.load("huge.json"), DataError, "scores"),
    Call("load a table", lambda: normxlogit.load("x.csv"), DataError, "holds scores only"),
    Call("save into nothing", lambda: explainer("bert")("x").save("no/a.json"), DataError, "cannot write no/a.json"),
    Call("save over a folder", lambda: explainer("bert")("x").save("docs"), DataError, "must end in"),
    Call("save at a NUL", lambda: explainer("bert")("x").save("a\0.json"), DataError, r"a\x00.json"),
    Call("save as a sheet", lambda: explainer("bert")(["x"]).save("out.xlsx"), DataError, "must end in"),
    Call("draw into nothing", lambda: explainer("bert")("x").to_html("no/a.html"), DataError, "cannot write"),
    corpus("nowhere", DataError, "nowhere.jsonl", "nowhere.jsonl"),
    corpus("junk", DataError, "junk.parquet", "junk.parquet"),
    corpus("a number", DataError, "int", 3),
    corpus("to nowhere", DataError, "is not a folder or URL", "rows.jsonl", ""),
    corpus("to nothing", DataError, "is not a folder or URL", "rows.jsonl", None),
    corpus("to half a name", DataError, "not UTF-8", "rows.jsonl", HALF),
    corpus("by a method", MethodError, "no method named", "rows.jsonl", method="nope"),
    corpus("of a label that is none", TargetError, "no label 'nope'", "rows.jsonl", job=Predictions(target="nope")),
    corpus(
        "against a label that is none",
        TargetError,
        "is outside the model's 3",
        "rows.jsonl",
        job=Predictions(contrast=3),
    ),
    corpus(
        "of a label against itself",
        TargetError,
        "also the contrast",
        "rows.jsonl",
        job=Predictions(target=1, contrast=1),
    ),
    corpus("at a layer that is none", MethodError, "no layer 99", "rows.jsonl", job=Predictions(layers=[1, 99])),
    corpus("in no shards", InputError, "shard_rows must be", "rows.jsonl", shard_rows=0),
    corpus("in fractions", InputError, "shard_rows must be", "rows.jsonl", shard_rows=1.5),
    Call("merged by nothing", lambda: Predictions(words=True, merge="median"), InputError, "merge must be"),
    corpus("with a setting of a job", InputError, "Predictions(words=...)", "rows.jsonl", words=True),
    corpus("by a job that is none", InputError, "job= is one of Predictions", "rows.jsonl", job="words"),
    corpus("on Spark", InputError, "engine must be", "rows.jsonl", engine="spark"),
    corpus("keeping nothing that is there", DataError, "no column 'nope'", "rows.jsonl", keep="nope"),
    corpus("of XML", DataError, "xml", "rows.jsonl", input_format="xml"),
    Call("summarize nowhere", lambda: summarize("nowhere"), DataError, "no corpus run there"),
    Call("summarize nothing", lambda: summarize(""), DataError, "is not a folder or URL"),
    Call("summarize a file", lambda: summarize(Path("texts.txt")), DataError, "texts.txt"),
]

CALLS = [*TEXTS, *TARGETS, *LAYERS, *METHODS, *IDS, *WRITING, *MODELS, *VECTORS, *FILES]
