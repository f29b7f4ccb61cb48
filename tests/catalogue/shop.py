"""What the rows of the catalogue act on: tiny models, their folders, broken copies of these, and files of all kinds."""

import copy
import functools
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from safetensors.torch import load_file, save_file
from transformers import BertModel

from normxlogit import Explainer
from tests import tiny

STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What steers a terminal, turns a line around or is half a character: none of it stands in a message."""

LONGEST = 1000
"""Characters of a message."""

KINDS = {
    "bert": ("bert", "SequenceClassification", {"num_labels": 3}),
    "many": ("bert", "SequenceClassification", {"num_labels": 10_000, "hidden_size": 8, "num_attention_heads": 2}),
    "regression": ("bert", "SequenceClassification", {"num_labels": 1}),
    "tagger": ("bert", "TokenClassification", {"num_labels": 3}),
    "masked": ("bert", "MaskedLM", {}),
    "reader": ("bert", "QuestionAnswering", {}),
    "choice": ("bert", "MultipleChoice", {}),
    "gpt": ("gpt2", "CausalLM", {}),
}


@functools.cache
def explainer(name: str) -> Explainer:
    family, kind, options = KINDS[name]
    return Explainer(tiny.model(family, kind, **options), tiny.tokenizer_for(family), name=name)


def listing(folder: Path) -> dict[Path, int]:
    """Return the files of a folder with their sizes, and the folders in it."""
    return {path: path.stat().st_size if path.is_file() else -1 for path in folder.rglob("*")}


def saved(folder: Path, name: str) -> Path:
    model = explainer(name)._arguments
    copy.deepcopy(model["model"]).save_pretrained(folder / name)  # which writes into the configuration
    model["tokenizer"].save_pretrained(folder / name)
    return folder / name


def changed(**fields: object) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps(json.loads(content) | fields).encode()


WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
BROKEN: dict[str, tuple[str, Callable[[bytes], bytes] | bytes | None]] = {
    "truncated-weights": (WEIGHTS, lambda content: content[:5000]),
    "empty-weights": (WEIGHTS, b""),
    "pointer-weights": (WEIGHTS, b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1234\n"),
    "no-weights": (WEIGHTS, None),
    "empty-config": (CONFIG, b""),
    "no-config": (CONFIG, None),
    "one-based-labels": (CONFIG, changed(id2label={"1": "a", "2": "b", "3": "c"}, label2id=None)),
    "wide-config": (CONFIG, changed(hidden_size=64)),
    "deep-config": (CONFIG, changed(num_hidden_layers=5)),
    "nan-config": (CONFIG, changed(layer_norm_eps=math.nan)),
    "null-labels": (CONFIG, changed(id2label={"0": None, "1": "b", "2": "c"}, label2id=None)),
    "twin-labels": (CONFIG, changed(id2label={"0": "a", "1": "a", "2": "b"}, label2id=None)),
    "steering-labels": (CONFIG, changed(id2label={"0": "\x1b[31mr\x07", "1": "\u202e", "2": "c"})),
    "steering-class": (CONFIG, changed(architectures=["\x1b]0;x\x07Model"])),
    "other-class": (CONFIG, changed(architectures=["BertForCookingClasses"])),
    "no-class": (CONFIG, changed(architectures=None)),
    "unknown-type": (CONFIG, changed(model_type="cookery")),
    "empty-tokenizer": (TOKENIZER, b""),
    "truncated-tokenizer": (TOKENIZER, lambda content: content[:300]),
}
"""Name of a folder to the file in it that is broken, and its new content: none, or what becomes of the old one."""


def fill(root: Path) -> None:
    whole = saved(root, "bert")
    saved(root, "gpt")
    saved(root, "masked")
    for name, (file, content) in BROKEN.items():
        path = Path(shutil.copytree(whole, root / name)) / file
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content(path.read_bytes()) if callable(content) else content)
    shutil.copytree(whole, root / "no-tokenizer")
    for file in (root / "no-tokenizer").glob("tokenizer*"):
        file.unlink()
    shutil.copytree(whole, root / "headless")
    weights = load_file(root / "headless/model.safetensors")
    kept = {name: value for name, value in weights.items() if "classifier" not in name}
    save_file(kept, root / "headless/model.safetensors", {"format": "pt"})
    BertModel(tiny.model("bert").config).save_pretrained(root / "bare")
    (root / "empty-folder").mkdir()
    (root / "docs").mkdir()
    (root / "docs/a.txt").write_text("the cat sat . it was good .")
    files = {
        "texts.txt": b"the cat\nbad\n",
        "latin.txt": b"fine\ncaf\xe9\n",
        "rows.jsonl": b'{"text": "the cat"}\n{"text": "bad"}\n',
        "labelled.jsonl": b'{"sentence": "the cat", "label": 0}\n{"sentence": "bad", "label": 1}\n',
        "junk.parquet": b"PAR1 and nothing more",
        "list.json": b"[1, 2]",
        "chat.json": b'[{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}]',
        "future.json": b'{"format_version": 99, "kind": "text"}',
    }
    for name, content in files.items():
        (root / name).write_bytes(content)
    result = explainer("bert")("the cat")
    result.save(root / "result.json")
    state = result.to_dict()
    (root / "short.json").write_text(json.dumps(state | {"scores": state["scores"][:-1]}))
    (root / "huge.json").write_text(json.dumps(state).replace('"scores": [', '"scores": [1e999, ', 1))
