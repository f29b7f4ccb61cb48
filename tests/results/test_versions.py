"""Files of formats 1 to 3, written by the versions of the library that wrote them."""

import json
from pathlib import Path

import numpy as np
import pytest

from normxlogit import Attributions, DataError, GenerationAttribution
from normxlogit.results.versions import FORMAT_VERSION, current
from tests.factories import labels_and_layers, make_attribution, make_audio, make_generation, make_image, pair

FILES = Path(__file__).parents[1] / "data" / "formats"
PLAIN = [make_attribution(), pair(), labels_and_layers(), make_generation(), make_image(), make_audio()]


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_results_of_format_2_are_read(suffix, tmp_path):
    results = Attributions.load(FILES / f"2/texts.{suffix}")
    odd = results.pop(1)
    assert results == PLAIN
    assert {result.format_version for result in results} == {FORMAT_VERSION}
    assert (odd.bias, odd.sink, odd.sinks) == (0.5, -1.0, (0,))
    assert odd.settings == {"p": float("inf")}
    assert np.isnan(odd.diagnostics["error"])
    results.save(tmp_path / f"again.{suffix}")
    assert Attributions.load(tmp_path / f"again.{suffix}") == results


def test_sources_of_format_2_are_read():
    results = Attributions.load(FILES / "2/sources.parquet")
    assert results == Attributions.load(FILES / "2/sources.json")
    assert [result.kind for result in results] == ["sources", "citations"]


@pytest.mark.parametrize("name", ["corpus", "corpus-sources"])
def test_a_shard_of_schema_1_is_read_whatever_its_kept_columns_are_called(name):
    """Beside it the results of the same calls, as JSON."""
    shard = Attributions.load(FILES / f"2/{name}.parquet")
    expected = Attributions.load(FILES / f"2/{name}.json")
    assert len(shard) == len(expected) > 0
    for one, other in zip(shard, expected, strict=True):
        state, wanted = one.to_dict(), other.to_dict()
        for field in ("scores", "bias", "table", "rest", "written", "sink"):
            np.testing.assert_allclose(state.pop(field, 0) or 0, wanted.pop(field, 0) or 0, rtol=1e-4, atol=1e-5)
        for field in ("prediction", "word_ids", "token_predictions", "diagnostics"):
            state.pop(field, None), wanted.pop(field, None)
        assert state == wanted


def test_results_of_format_1_are_read():
    text, two, layers, generation = (
        Attributions.load(FILES / f"1/{name}.json")[0] for name in ("text", "pair", "layers", "generation")
    )
    assert two == pair()
    assert layers == labels_and_layers()
    assert text.bias == 0.5  # among the diagnostics then
    assert text.diagnostics == {"error": 0.25}
    assert isinstance(generation, GenerationAttribution)
    assert (generation.merge, generation.messages, generation.named_sources) == ("sum", None, {})


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_named_sources_of_format_3_are_read(suffix):
    (generation,) = Attributions.load(FILES / f"3/generation.{suffix}")
    assert generation == make_generation(named_sources={"dog": (0, 3)})


def test_the_bias_of_the_last_layer_gives_those_of_the_others():
    state = json.loads((FILES / "1/layers.json").read_text())
    state["diagnostics"] = {"bias": [1.0, 2.0]}
    bias = np.array(current(state)["bias"])  # (C, L)
    sums = labels_and_layers().scores.sum(-1)
    np.testing.assert_allclose(sums + bias, (sums[:, -1] + [1.0, 2.0])[:, None] * np.ones(3))
    several = state | {"notes": ["3 windows; scores are the mean where they overlap"]}
    assert current(several)["bias"] is None


@pytest.mark.parametrize("version", [0, 5, "4", True, None, 1.0])
def test_other_versions_are_refused(version):
    with pytest.raises(DataError, match="this version reads 1 to 4"):
        current(make_attribution().to_dict() | {"format_version": version})
