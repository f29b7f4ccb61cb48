"""Texts in any container, by a model in any precision: read as what they are, or refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from normxlogit import Explainer
from tests import tiny
from tests.contract.compare import same

arrow, polars, datasets = (pytest.importorskip(name) for name in ("pyarrow", "polars", "datasets"))
soundfile = pytest.importorskip("soundfile")


CONTAINERS: dict[str, Callable[[list[Any], str], Any]] = {
    "list": lambda items, _: items,
    "generator": lambda items, _: (item for item in items),
    "array of objects": lambda items, _: np.array([*items, None], dtype=object)[:2],
    "pandas column": lambda items, _: pd.Series(items),
    "pandas frame": lambda items, key: pd.DataFrame({"label": [0, 1], key: items}, index=[1, 0]),
    "polars column": lambda items, _: polars.Series(items),
    "polars frame": lambda items, key: polars.DataFrame({"label": [0, 1], key: items}),
    "lazy polars frame": lambda items, key: polars.DataFrame({key: items}).lazy(),
    "Arrow array": lambda items, _: arrow.array(items),
    "Arrow in chunks": lambda items, _: arrow.chunked_array([items[:1], items[1:]]),
    "Arrow dictionary": lambda items, _: arrow.array(items).dictionary_encode(),
    "Arrow table": lambda items, key: arrow.table({"label": [0, 1], key: items}),
    "data set": lambda items, key: datasets.Dataset.from_dict({"label": [0, 1], key: items}),
    "column of a data set": lambda items, key: datasets.Dataset.from_dict({key: items})[key],
    "streamed data set": lambda items, key: datasets.Dataset.from_dict({key: items}).to_iterable_dataset(),
    "rows": lambda items, key: [{key: item, "label": 0} for item in items],
}

TABLES = {"polars", "lazy", "Arrow", "data", "column", "streamed"}
"""First words of containers that hold texts and numbers alone."""


TEXTS = ["the movie is not good", "a great film"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_texts_in_any_container_are_explained_as_in_a_list(explainer, container) -> None:
    same(explainer(CONTAINERS[container](TEXTS, "text")), explainer(TEXTS))


def test_rows_that_a_transform_makes_when_they_are_taken_are_read(explainer) -> None:
    texts = datasets.Dataset.from_dict({"sentence": TEXTS, "label": [0, 1]})
    texts = texts.with_transform(lambda rows: dict(tiny.tokenizer_for("bert")(rows["sentence"])))
    same(explainer(texts), explainer(TEXTS))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["text", "completion"])
def test_every_precision_is_explained_with_the_model_answer(kind, dtype) -> None:
    if kind == "text":
        explainer = Explainer(tiny.model("bert", num_labels=3).to(dtype), tiny.tokenizer_for("bert"))
        result = explainer(TEXTS[0])
        logits = tiny.logits_of(explainer.model, result.token_ids)
        assert result.prediction.value == pytest.approx(float(logits.max()), rel=0.02, abs=0.02)
    else:
        explainer = Explainer(tiny.model("llama", "CausalLM").to(dtype), tiny.tokenizer_for("llama"))
        result = explainer.generate(TEXTS[0], max_new_tokens=2)
    assert np.isfinite(result.scores).all()


@pytest.mark.filterwarnings("ignore:.*quantiz.*")
def test_weights_of_8_bits_are_explained_by_what_needs_no_gradient() -> None:
    model = torch.ao.quantization.quantize_dynamic(tiny.model("bert", num_labels=3), {torch.nn.Linear})
    result = Explainer(model, tiny.tokenizer_for("bert"))(TEXTS[0])
    logits = tiny.logits_of(model, result.token_ids)
    assert result.prediction.value == pytest.approx(float(logits.max()), abs=1e-4)
    assert result.method == "normxlogit"
    assert any("quantised" in note for note in result.notes)
