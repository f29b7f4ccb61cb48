"""What the rows of the catalogue act on: tiny models, their folders, broken copies of these, and files of all kinds."""

import copy
import functools
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file, save_file
from transformers import BertModel

from normxlogit import Explainer
from tests import tiny
from tests.contract.untouched import fingerprint, tokenizer_state

STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What steers a terminal, turns a line around or is half a character: none of it stands in a message."""

LONGEST = 1000
"""Characters of a message."""

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1234\n"
KINDS = {
    "bert": ("bert", "SequenceClassification", {"num_labels": 3}),
    "many": ("bert", "SequenceClassification", {"num_labels": 10_000, "hidden_size": 8, "num_attention_heads": 2}),
    "regression": ("bert", "SequenceClassification", {"num_labels": 1}),
    "masked": ("bert", "MaskedLM", {}),
    "tagger": ("bert", "TokenClassification", {"num_labels": 3}),
    "reader": ("bert", "QuestionAnswering", {}),
    "choice": ("bert", "MultipleChoice", {}),
    "gpt": ("gpt2", "CausalLM", {}),
}


@functools.cache
def explainer(name: str) -> Explainer:
    family, kind, options = KINDS[name]
    return Explainer(tiny.model(family, kind, **options), tiny.tokenizer_for(family), name=name)


def state_of(made: Explainer) -> tuple[object, object]:
    """Return what must stay as it was: the caller's model and tokenizer."""
    given = made._arguments
    return fingerprint(given["model"]), tokenizer_state(given["tokenizer"])


def listing(folder: Path) -> dict[Path, int]:
    """Return the files of a folder with their sizes, and the folders in it."""
    return {path: path.stat().st_size if path.is_file() else -1 for path in folder.rglob("*")}


def saved(folder: Path, name: str) -> Path:
    model = explainer(name)._arguments
    copy.deepcopy(model["model"]).save_pretrained(folder / name)  # which writes into the configuration
    model["tokenizer"].save_pretrained(folder / name)
    return folder / name


@dataclass(frozen=True)
class Broken:
    """How a folder of a model is broken: a file's new content, None for none, or a change of its JSON or weights."""

    file: str
    content: bytes | None = None
    cut: int = 0
    changes: tuple[tuple[str, object], ...] = ()

    def apply(self, folder: Path) -> None:
        file = folder / self.file
        if self.cut:
            file.write_bytes(file.read_bytes()[: self.cut])
        elif self.changes:
            file.write_text(json.dumps(json.loads(file.read_text()) | dict(self.changes)))
        elif self.content is None:
            file.unlink()
        else:
            file.write_bytes(self.content)


BROKEN = {
    "truncated-weights": Broken("model.safetensors", cut=5000),
    "empty-weights": Broken("model.safetensors", b""),
    "pointer-weights": Broken("model.safetensors", LFS),
    "junk-weights": Broken("model.safetensors", b"\x93" * 2000),
    "no-weights": Broken("model.safetensors"),
    "empty-config": Broken("config.json", b""),
    "pointer-config": Broken("config.json", LFS),
    "latin-config": Broken("config.json", b'{"a": "\xe9"}'),
    "list-config": Broken("config.json", b"[]"),
    "no-config": Broken("config.json"),
    "one-based-labels": Broken(
        "config.json", changes=(("id2label", {"1": "a", "2": "b", "3": "c"}), ("label2id", None))
    ),
    "null-labels": Broken("config.json", changes=(("id2label", {"0": None, "1": "b", "2": "c"}), ("label2id", None))),
    "wide-config": Broken("config.json", changes=(("hidden_size", 64),)),
    "steering-labels": Broken("config.json", changes=(("id2label", {"0": "\x1b[31mr\x07", "1": "\u202e", "2": "c"}),)),
    "steering-class": Broken("config.json", changes=(("architectures", ["\x1b]0;x\x07Model"]),)),
    "other-class": Broken("config.json", changes=(("architectures", ["BertForCookingClasses"]),)),
    "no-class": Broken("config.json", changes=(("architectures", None),)),
    "unknown-type": Broken("config.json", changes=(("model_type", "cookery"),)),
    "no-heads": Broken("config.json", changes=(("num_attention_heads", 0),)),
    "empty-tokenizer": Broken("tokenizer.json", b""),
    "truncated-tokenizer": Broken("tokenizer.json", cut=300),
    "other-tokenizer": Broken("tokenizer.json", b'{"version": "1.0"}'),
    "strange-tokenizer": Broken("tokenizer_config.json", b'{"tokenizer_class": 3}'),
}
"""Name of a folder to how it is broken."""


def fill(root: Path) -> None:
    """Write everything that the rows name into a folder."""
    whole = saved(root, "bert")
    saved(root, "gpt")
    saved(root, "masked")
    for name, broken in BROKEN.items():
        shutil.copytree(whole, root / name)
        broken.apply(root / name)
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
        "zeros.txt": b"a\0b\n",
        "empty.txt": b"",
        "rows.jsonl": b'{"text": "the cat"}\n{"text": "bad"}\n',
        "broken.jsonl": b'{"text": "the cat"}\n{"text":\n',
        "labelled.jsonl": b'{"sentence": "the cat", "label": 0}\n{"sentence": "bad", "label": 1}\n',
        "junk.parquet": b"PAR1 and nothing more",
        "list.json": b"[1, 2]",
        "chat.json": b'[{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}]',
        "future.json": b'{"format_version": 99, "kind": "text"}',
        "deep.json": b"[" * 100_000,
        "nan.json": b'{"format_version": NaN}',
    }
    for name, content in files.items():
        (root / name).write_bytes(content)
    result = explainer("bert")("the cat")
    result.save(root / "result.json")
    state = result.to_dict()
    (root / "short.json").write_text(json.dumps(state | {"scores": state["scores"][:-1]}))
    (root / "huge.json").write_text(json.dumps(state).replace('"scores": [', '"scores": [1e999, ', 1))
    explainer("gpt").explain_completion("the cat", " sat").save(root / "generation.json")
