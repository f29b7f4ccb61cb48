"""Bad calls from Python: what is called, the type of the error, and a piece of its message."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import normxlogit
from normxlogit import ALL, Attribution, Attributions, Explainer, Predictions, attribute, summarize
from normxlogit.errors import (
    DataError,
    HeadMismatchError,
    InputError,
    MethodError,
    NormXLogitError,
    TargetError,
    UnsupportedModelError,
)
from normxlogit.methods import FrozenGradient, IntegratedGradients
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
    texts("columns", InputError, "several columns", np.array([["the", "cat"], ["a", "b"]])),
    texts("half a character", InputError, "half a character", HALF),
    texts("a way to cut that is none", InputError, "long_text must be", "x", long_text=True),
    texts("windows of choices", InputError, "long_text", ("a", ["b", "c"]), long_text="window", on="choice"),
    texts("no choices", InputError, "must be (prompt, [choices])", "the", on="choice"),
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
    texts("digits", TargetError, "no label '1'", "x", target="1"),
    texts("a truth value", TargetError, "not bool", "x", target=True),
    texts("a tensor of two", TargetError, "not Tensor", "x", target=torch.tensor([0, 1])),
    texts("an empty list", TargetError, "list of targets is empty", "x", target=[]),
    texts("an index above", TargetError, "index 3 is outside", "x", target=3),
    texts("an entry above", TargetError, "outside the model's 64", "a [MASK]", target=64, on="masked"),
    texts("a set for each", TargetError, "a list with one target for each input", ["x", "y"], targets={0, 1}),
    texts("a mapping for each", TargetError, "a list with one target", ["x", "y"], targets={0: 1, 1: 0}),
    texts("one that is missing", TargetError, "targets[1]", ["x", "y"], targets=[0, None]),
    texts("one above", TargetError, "targets[1]: index 7", ["x", "y"], targets=[0, 7]),
    texts("fractions for each", TargetError, "targets[0]", ["x", "y"], targets=np.array([0.0, 1.0])),
    texts("itself", TargetError, "is also the contrast", "x", target=1, contrast="LABEL_1"),
    texts("itself among several", TargetError, "is also the contrast", "x", target=["LABEL_0", 2], contrast=2),
    texts("a contrast above", TargetError, "index 7 is outside", "x", contrast=7),
    texts("a contrast of all", TargetError, "a contrast is a name or an index", "x", contrast=ALL),
    texts("a contrast of a value", TargetError, "no alternatives", "x", contrast=0, on="regression"),
    *(texts(f"verify {n!r}", InputError, "verify", "x", verify=n) for n in (-1, "all", 1.5, True, [])),
]

LAYERS = [
    texts("a word for layers", MethodError, "not 'last'", "x", layers="last"),
    texts("layer 0", MethodError, "no layer 0; the model has layers 1 to 3", "x", layers=0),
    texts("layers of a method that has none", MethodError, "for single layers", "x", method="input-norm", layers=1),
    texts("a place in a question", InputError, "position=", ("a", ["b", "c"]), position=0, on="choice"),
    texts("a place beyond", InputError, "outside the text's", "the [MASK]", position=99, on="masked"),
    texts("a span backwards", InputError, "not a span of the text", "the [MASK]", position=(5, 2), on="masked"),
    texts("a place in a whole text", InputError, "position= chooses a token", "the", position=0),
    texts("no layers", MethodError, "list of layers is empty", "x", layers=[]),
    texts("a truth value for layers", MethodError, "not True", "x", layers=True),
    texts("fractions for layers", MethodError, "not 1.5", "x", layers=np.array([1.5])),
    texts("a place between", InputError, "a position is a token's index", "the [MASK]", position=1.5, on="masked"),
    texts("several places", InputError, "2 positions for 1 inputs", "the [MASK]", position=[1, 2], on="masked"),
    texts("a span before the text", InputError, "not a span of the text", "the [MASK]", position=(-1, 3), on="masked"),
    texts("a span beyond", InputError, "not a span of the text", "the cat", position=(4, 99), on="tagger"),
    texts("a piece that is not there", InputError, "0 times", "the [MASK]", position="zzz", on="masked"),
    texts("a piece that is there twice", InputError, "2 times", "the cat the", position="the", on="tagger"),
]

METHODS = [
    texts("an unknown method", MethodError, "no method named 'nope'", "x", method="nope"),
    texts("an unknown setting", MethodError, "has no setting 'colour'", "x", method="lime:colour=red"),
    texts("a value that is none", MethodError, "word_embedding", "x", method="normxlogit:norm_of=words"),
    texts("no samples", MethodError, "samples", "x", method="lime:samples=0"),
    texts("a layer to read at", MethodError, "layers 1 to 3", "x", method="frozen-gradient:read_at=99"),
    texts("a point beyond", MethodError, "point lies above 0", "x", method="frozen-gradient:point=2.0"),
    texts("a point of a layer", MethodError, "read_at=0", "x", method="frozen-gradient:point=0.5,read_at=1"),
    texts("a sink below the median", MethodError, "above 1", "x", method="frozen-gradient:sink_threshold=0.5"),
    texts("no window", MethodError, "window must be positive", "x", method="occlusion:window=0"),
    texts("no steps", MethodError, "steps must be positive", "x", method="integrated-gradients:steps=0"),
    texts("a fraction of samples", MethodError, "samples must be", "x", method="lime:samples=2.5"),
    texts("a setting given twice", MethodError, "samples is given twice", "x", method="lime:samples=9,samples=20"),
    Call("settings NaN", lambda: FrozenGradient(point=float("nan")), MethodError, "point must be a number"),
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
    ids("in fractions", "whole numbers", input_ids=torch.tensor([[2.0, 5.5, 3.0]])),
    ids("of true and false", "true or false", input_ids=torch.tensor([[True, False]])),
    ids("of a place beyond", "cannot read a text of 3 tokens", input_ids=[[2, 5, 3]], position_ids=[[0, 1, 999]]),
    ids("with a hole", "has a hole", input_ids=[[2, 5, 6, 3]], attention_mask=[[1, 0, 1, 1]]),
    ids("half hidden", "1 at tokens and 0", input_ids=[[2, 5, 6, 3]], attention_mask=[[1, 0.5, 1, 1]]),
    ids("hidden", "no real token", input_ids=[[2, 5, 3]], attention_mask=[[0, 0, 0]]),
    ids("of two texts and one mask", "a row for each", input_ids=[[2, 5, 3], [2, 6, 3]], attention_mask=[[1, 1, 1]]),
    Call("encode at no length", lambda: explainer("bert").encode("x", max_length=0), InputError, "max_length must"),
    outputs("with a number for states", "output_hidden_states=True", hidden_states=3),
    outputs("of more labels", "logits of shape (1, 7), not (1, 3)", logits=torch.zeros(1, 7)),
    outputs("of another width", "do not come from these inputs", hidden_states=(torch.zeros(1, 4, 8),) * 4),
    outputs("of two layers", "hold 2 hidden states", hidden_states=(torch.zeros(1, 4, 32),) * 2),
    outputs("of a shorter text", "are of shape (1, 3, 32)", hidden_states=(torch.zeros(1, 3, 32),) * 4),
    outputs("of two texts", "are of shape (2, 3)", logits=torch.zeros(2, 3)),
    outputs("of NaN", "NaN or infinite", logits=torch.full((1, 3), torch.nan)),
    outputs("of another head", "differ from these outputs'", error=HeadMismatchError, logits=torch.ones(1, 3)),
]

WRITING = [
    writing("a number", "a prompt is a string", 3),
    writing("a chat without a template", "chat template", [{"role": "user", "content": "x"}]),
    writing("sources of what it writes", "a result's sources", "the", sources="sentence"),
    writing("an unknown option", "cannot continue a text of 1 tokens", "the", colour="red"),
    writing("a cold temperature", "temperature", "the", do_sample=True, temperature=-1.0),
    writing("settings that are none", "generation_config must be", "the", generation_config="greedy"),
    writing("two at once", "do not support `num_return_sequences`", "the", num_return_sequences=2),
    writing("a temperature without samples", "is for sampling", "the", temperature=0.5),
    writing("a fraction of tokens", "max_new_tokens must be", "the", max_new_tokens=1.5),
    writing("no room", "leaves no room", "the cat sat", max_new_tokens=None, max_length=2),
    writing("ids beside the prompt", "is made of the prompt", "the", input_ids=torch.tensor([[5]])),
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
    completion("true for an id", "a row of token ids", "the", [True]),
    completion("fractions for ids", "a row of token ids", "the", [1.5]),
    completion("empty", "the completion is empty", "the", ""),
    completion("too long", "have 101 tokens and the model reads 40", "the", " cat" * 100),
    completion("one for two", "1 of completion for 2 prompts", ["the", "a"], [" cat"]),
    completion("a text for two", "a list with one for each", ["the", "a"], " cat"),
    completion("a set for two", "a list with one for each", ["the", "a"], {" cat", " sat"}),
    completion("overlapping sources", "overlap", "the cat", " sat", sources={"a": (0, 5), "b": (2, 7)}),
    completion("a reasoning beyond", "ends after 4", "the cat", " sat", reasoning=[(0, 99)]),
    completion("a reasoning in fractions", "takes spans", "the cat", " sat.", reasoning=[(0.5, 2.9)]),
    completion("parts of a contrast", "leave out parts=", "the cat", " sat", parts="word", contrast=" bad"),
    completion(
        *("two sources at once", "window must be 1", "the cat . it", " sat"),
        sources={"a": (0, 3), "b": (4, 7)},
        method="occlusion:window=2",
        error=MethodError,
    ),
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
    making(
        "of two labels",
        InputError,
        "3 outputs and 2 labels",
        tiny.model("bert", num_labels=3),
        TOKENIZER,
        labels=["a", "b"],
    ),
    making("of a set of labels", InputError, "in the order of the outputs", BERT, TOKENIZER, labels={"a", "b"}),
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
    corpus("of a label itself", TargetError, "also the contrast", "rows.jsonl", job=Predictions(target=1, contrast=1)),
    corpus("at a layer that is none", MethodError, "no layer 99", "rows.jsonl", job=Predictions(layers=[1, 99])),
    corpus("in no shards", InputError, "shard_rows must be", "rows.jsonl", shard_rows=0),
    corpus("with a setting of a job", InputError, "Predictions(words=...)", "rows.jsonl", words=True),
    corpus("by a job that is none", InputError, "job= is one of Predictions", "rows.jsonl", job="words"),
    corpus("keeping nothing that is there", DataError, "no column 'nope'", "rows.jsonl", keep="nope"),
    corpus("of XML", DataError, "xml", "rows.jsonl", input_format="xml"),
    Call("summarize nowhere", lambda: summarize("nowhere"), DataError, "no corpus run there"),
    Call("summarize a file", lambda: summarize(Path("texts.txt")), DataError, "texts.txt"),
]


def changed(name: str, says: str, **fields: Any) -> Call:
    """Return the row of a result whose file has other fields."""
    return Call(
        f"load {name}", lambda: Attribution.from_dict(explainer("bert")("the cat").to_dict() | fields), DataError, says
    )


def result(name: str, error: type[NormXLogitError], says: str, do: Callable[[Attribution], Any]) -> Call:
    return Call(f"result {name}", lambda: do(explainer("bert")("the cat", target=[0, 1], layers=[1, 2])), error, says)


def sources(name: str, says: str, spans: Any) -> Call:
    written = functools.partial(explainer("gpt").explain_completion, "the cat . it was", " good")
    return Call(f"result {name}", lambda: written().group(spans), InputError, says)


def several(name: str, says: str, do: Callable[[Attributions[Attribution]], Any], on: str = "bert") -> Call:
    return Call(f"results {name}", lambda: do(explainer(on)(["the cat", "bad", "a key"])), InputError, says)


RESULTS = [
    changed("a bias of two", "not of the scores' shape", bias=[1.0, 2.0]),
    changed("truth values for scores", "expected a number, got True", scores=[True] * 4),
    changed("scores of layers", "not the axes of its targets and layers", layers=[1, 2]),
    changed("no target", "targets", targets=[]),
    changed("another quantity", "quantity: expected", quantity="furlongs"),
    result("of no such layer", MethodError, "no layer 7 among (1, 2)", lambda a: a.layer(7)),
    result("of no such name", TargetError, "no target 'nope'", lambda a: a["nope"]),
    result("of no such place", TargetError, "no target 7", lambda a: a[7]),
    result("of several, its strongest", DataError, "one score for each unit", lambda a: a.top()),
    result("of labels, their sum", DataError, "not parts of one answer", lambda a: a.whole()),
    result("of labels, their parts", DataError, "of generated tokens", lambda a: a.group_targets("sentence")),
    result("less than none", InputError, "k must be", lambda a: a[0].layer(1).top(-1)),
    result("words of sentences", InputError, "already sentences", lambda a: a.group("sentence").group("word")),
    sources("by chapters", "sources are", "chapter"),
    sources("by spans that overlap", "overlap", {"a": (0, 5), "b": (3, 8)}),
    sources("by a span backwards", "is not a span", {"a": (5, 2)}),
    sources("by a span beyond", "is not a span", {"a": (0, 99)}),
    sources("by a span of no token", "no token begins", {"a": (1, 2)}),
    several("by a short mask", "a mask of 2 for 3", lambda many: many[[True, False]]),
    several("by fractions", "chosen by a number", lambda many: many[[0.5]]),
    several("against too few", "2 gold labels for 3", lambda many: many.filter(gold=[0, 1])),
    several("against a set", "one label for each result", lambda many: many.filter(gold={0, 1, 2})),
    several("against a mapping", "one label for each result", lambda many: many.filter(gold={0: 1, 1: 2, 2: 0})),
    several("against an index below", "-1' (1)", lambda many: many.filter(gold=[-1, 1, 2])),
    several("against lists as texts", "is a list as text", lambda many: many.filter(gold=["[0, 1]", "[1]", "[2]"])),
    several("against nothing", "needs the right labels", lambda many: many.filter(correct=False)),
    several("of values", "no right and wrong", lambda many: many.filter(gold=[1, 0, 1]), on="regression"),
]

CALLS = [*TEXTS, *TARGETS, *LAYERS, *METHODS, *IDS, *WRITING, *MODELS, *VECTORS, *FILES, *RESULTS]
