"""Every setting in the files of an embedding model: what is explained is the cosine that sentence-transformers gives.

The lists are those of the installed version: a setting that is new there fails the first test.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import normalizers

import normxlogit
from normxlogit import Explainer, InputError, UnsupportedModelError
from tests import tiny
from tests.commands import run
from tests.contract.decided import Applied, Decision, Harmless, Refused, undecided
from tests.similarity.sentence_steps import steps_beside

sentence_transformers = pytest.importorskip("sentence_transformers", exc_type=ImportError)

TEXTS = ("the movie is Good", "a cat sat on the mat")

SIZE, MEANS = 32, {"embedding_dimension": 32, "pooling_mode": "mean"}
NARROW = {"in_features": SIZE, "out_features": 8, "bias": True}
LOADS = "it is for loading, and the weights stay the same but for precision"

FILES: Mapping[str, Mapping[str, Decision]] = {
    "Transformer": {
        "max_seq_length": Applied(5),
        "do_lower_case": Applied(True),
        "transformer_task": Refused("fill-mask"),
        "modality_config": Refused({"text": {"method": "get_text_features"}}, named="by get_text_features"),
        "module_output_name": Refused("sentence_embedding"),
        "processing_kwargs": Refused({"text": {"add_special_tokens": False}}),
        "unpad_inputs": Harmless("padding is not read in either way", False),
        "query_length": Refused(4),
        "document_length": Refused(4),
        "query_expansion": Refused({"length": 32}),
        "model_args": Harmless(LOADS, {"attn_implementation": "eager"}),
        "tokenizer_args": Refused({"add_prefix_space": True}),
        "tokenizer_name_or_path": Refused("another"),
    },
    "Pooling": {
        "embedding_dimension": Harmless("it is the width of the trunk"),
        "pooling_mode": Applied("cls"),
        "include_prompt": Refused(False),
    },
    "Dense": {
        "in_features": Harmless("it is the width of the vector"),
        "out_features": Harmless("it is the width of the vector"),
        "bias": Applied(False),
        "activation_function": Applied("torch.nn.modules.activation.ReLU"),
        "module_input_name": Refused("token_embeddings"),
        "module_output_name": Refused("other"),
        "use_residual": Refused(True),
    },
    "Normalize": {"module_input_name": Refused("token_embeddings"), "module_output_name": Refused("other")},
}
"""Settings of modules, by their class."""

OF_MODEL: Mapping[str, Decision] = {
    "__version__": Harmless("it says what wrote the files"),
    "model_type": Refused("SparseEncoder", named="SparseEncoder"),
    "prompts": Harmless("they are put before a text by their names, below", {"q": "a great film "}),
    "default_prompt_name": Applied("q", {"prompts": {"q": "a great film "}}),
    "similarity_fn_name": Harmless("the cosine is explained, and a note says so, below", "dot"),
    "truncate_dim": Applied(4),
    "requirements": Harmless("they are checked where the model is made"),
}
"""Settings of the whole model."""


def save_tokenizer(folder: Path) -> None:
    """Write a tokenizer that tells cases apart, so that a text in lower case is another one."""
    tokenizer = tiny.tokenizer_for("bert")
    tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.save_pretrained(folder)


def folder_of(where: Path, of: str = "", settings: Mapping[str, Any] | None = None) -> str:
    """Write the files of an embedding model, with settings of one of its modules, or of the whole model."""
    where.mkdir()
    tiny.model("bert").bert.save_pretrained(where)
    save_tokenizer(where)
    torch.manual_seed(0)
    weights = {"linear.weight": torch.randn(8, SIZE), "linear.bias": torch.randn(8)}
    configs = {"Pooling": MEANS, "Dense": NARROW, "Normalize": {}}
    configs = {kind: config | dict(settings or {}) if kind == of else config for kind, config in configs.items()}
    if configs["Dense"]["bias"] is False:
        del weights["linear.bias"]
    written = {"sentence_bert_config": settings} if of == "Transformer" else {}
    written |= {"config_sentence_transformers": settings} if of == "" and settings else {}
    steps = [("Pooling", configs["Pooling"]), ("Dense", configs["Dense"], weights), ("Normalize", configs["Normalize"])]
    if of == "" and "similarity_fn_name" in (settings or {}):
        steps = steps[:1]  # a vector of length 1 has the same product as cosine
    return steps_beside(where, *steps, **written)


def cosine(folder: str, texts: tuple[str, str] = TEXTS) -> float:
    """Return the cosine of two texts by sentence-transformers."""
    model = sentence_transformers.SentenceTransformer(folder, device="cpu")
    first, second = (model.encode(text, convert_to_tensor=True) for text in texts)
    return float(torch.nn.functional.cosine_similarity(first, second, dim=0))


def explained(model: Any, **options: Any) -> Any:
    explainer = Explainer.from_pretrained(model) if isinstance(model, str) else Explainer(model)
    return explainer.similarity(*TEXTS, **options)


def of(kind: type) -> list[tuple[str, str]]:
    """Return the settings, with what they are of, of which something is decided and can be tried."""
    tables = {**FILES, "": OF_MODEL}
    return [
        (module, name)
        for module, table in tables.items()
        for name, decision in table.items()
        if isinstance(decision, kind) and decision.value is not None
    ]


def settings_of(module: str, name: str) -> dict[str, Any]:
    decision: Any = {**FILES, "": OF_MODEL}[module][name]
    return {**decision.beside, name: decision.value}


def test_every_setting_is_decided(tmp_path) -> None:
    model = sentence_transformers.SentenceTransformer(folder_of(tmp_path / "made"), device="cpu")
    for module in model:
        keys = getattr(type(module), "config_keys", None) or module.get_config_dict()
        assert not undecided(keys, FILES[type(module).__name__])
    model.save_pretrained(str(tmp_path / "saved"))
    saved = json.loads((tmp_path / "saved" / "config_sentence_transformers.json").read_text())
    assert not undecided(saved, OF_MODEL)


@pytest.mark.parametrize(("module", "name"), of(Applied))
def test_a_setting_that_changes_the_cosine_changes_what_is_explained(module, name, tmp_path) -> None:
    folder = folder_of(tmp_path / "made", module, settings_of(module, name))
    expected = cosine(folder)
    assert expected != pytest.approx(cosine(folder_of(tmp_path / "usual")), abs=1e-4)
    for model in (folder, sentence_transformers.SentenceTransformer(folder, device="cpu")):
        assert explained(model).prediction.value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("module", "name"), of(Harmless))
def test_other_settings_change_nothing(module, name, tmp_path) -> None:
    folder = folder_of(tmp_path / "made", module, settings_of(module, name))
    assert explained(folder).prediction.value == pytest.approx(cosine(folder), abs=1e-5)


@pytest.mark.parametrize(("module", "name"), of(Refused))
def test_a_setting_that_is_not_applied_is_refused_by_its_name(module, name, tmp_path) -> None:
    decision: Any = {**FILES, "": OF_MODEL}[module][name]
    with pytest.raises(UnsupportedModelError, match=decision.named or name) as refusal:
        explained(folder_of(tmp_path / "made", module, settings_of(module, name)))
    assert "\n" not in str(refusal.value)


PROMPTS = {"prompts": {"query": "a great film ", "document": "bad awful "}}


def test_queries_and_documents_have_their_own_prompts(tmp_path) -> None:
    folder = folder_of(tmp_path / "made", "", PROMPTS)
    model = sentence_transformers.SentenceTransformer(folder, device="cpu")
    for given in (folder, model):
        plain, prompted = explained(given), explained(given, prompts=("query", "document"))
        assert plain.prediction.value == pytest.approx(cosine(folder), abs=1e-5)
        assert any("query and document" in note for note in plain.notes)
        vectors = model.encode_query(TEXTS[0]), model.encode_document(TEXTS[1])
        assert prompted.prediction.value == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)
        assert prompted.text.startswith("a great film ")
        assert not any("prompt" in note for note in prompted.notes)
    with pytest.raises(InputError, match="no prompt 'passage'"):
        explained(folder, prompts=("query", "passage"))
    with pytest.raises(InputError, match="two names"):
        explained(folder, prompts="query")


def test_prompts_are_named_on_the_command_line(tmp_path, capsys) -> None:
    folder, of_texts = folder_of(tmp_path / "made", "", PROMPTS), ("--prompts", "query", "document")
    code, _, _ = run(capsys, "similarity", *TEXTS, "--model", folder, *of_texts, "--output", tmp_path / "of.json")
    (of_command,) = normxlogit.load(tmp_path / "of.json")
    expected = explained(folder, prompts=("query", "document"))
    assert code == 0
    assert of_command.prediction.value == pytest.approx(expected.prediction.value)


@pytest.mark.parametrize("name", ["dot", "euclidean"])
def test_another_comparison_than_the_cosine_is_said_with_its_scale(name, tmp_path) -> None:
    folder = folder_of(tmp_path / "made", "", {"similarity_fn_name": name})
    model = sentence_transformers.SentenceTransformer(folder, device="cpu")
    first, second = (model.encode(text, convert_to_tensor=True) for text in TEXTS)
    for given in (folder, model):
        (note,) = (note for note in explained(given).notes if "the cosine is explained" in note)
        if name == "dot":
            scale = float(note.partition("times ")[2].partition(",")[0])
            cosine_explained = explained(given).prediction.value
            assert scale * cosine_explained == pytest.approx(float(model.similarity(first, second)), rel=1e-4)
        else:
            assert name in note


def test_routers_and_sparse_encoders_are_refused_by_their_names(tmp_path) -> None:
    from sentence_transformers.models import Pooling, Router, Transformer

    folder = folder_of(tmp_path / "made")
    sides = [[Transformer(folder), Pooling(SIZE)] for _ in range(2)]
    routed = sentence_transformers.SentenceTransformer(modules=[Router.for_query_document(*sides)], device="cpu")
    routed.save_pretrained(str(tmp_path / "routed"))
    for given in (routed, str(tmp_path / "routed")):
        with pytest.raises(UnsupportedModelError, match="made of Router"):
            explained(given)
    tiny.model("bert", "MaskedLM").save_pretrained(tmp_path / "masked")
    tiny.tokenizer_for("bert").save_pretrained(tmp_path / "masked")
    sparse = sentence_transformers.SparseEncoder(str(tmp_path / "masked"), device="cpu")
    with pytest.raises(UnsupportedModelError, match="SpladePooling"):
        explained(sparse)
