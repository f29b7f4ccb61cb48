import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
import transformers
from PIL import Image

import normxlogit
from normxlogit import Completions, DataError, Explainer, Predictions, attribute
from tests.abilities import image_processor
from tests.media import test_signals as signals
from tests.media import vlm

from .corpora import errors, results

NAMES = ["cat", "dog", "bird"]
OPTIONS = {"num_hidden_layers": 2, "id2label": dict(enumerate(NAMES)), "label2id": {n: i for i, n in enumerate(NAMES)}}
RATE = 1000


@pytest.fixture(scope="module")
def vit():
    processor = image_processor("ViTImageProcessor", size={"height": 16, "width": 16})
    return Explainer(signals.vit(image_size=16, **OPTIONS), processor, name="vit")


@pytest.fixture(scope="module")
def wav2vec2():
    convolutions = {"conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 4), "num_feat_extract_layers": 2}
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=RATE)
    return Explainer(signals.wav2vec2(**convolutions, **OPTIONS), extractor, name="wav2vec2")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder, chance = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for i in range(11):
        levels = chance.integers(0, 256, [(20, 24, 3), (16, 16, 3), (9, 31, 3)][i % 3], dtype=np.uint8)
        Image.fromarray(levels).save(folder / f"{i:02}.{'png' if i % 2 else 'jpg'}")
    return folder


@pytest.fixture(scope="module")
def talks(tmp_path_factory):
    folder, chance = tmp_path_factory.mktemp("talks"), np.random.default_rng(1)
    for i in range(7):
        soundfile.write(folder / f"{i}.wav", chance.normal(size=300 + 90 * (i % 3)).astype(np.float32) * 0.1, RATE)
    return folder


def files(folder):
    return sorted(folder.iterdir())


def same(row, result):
    assert row["scores"] == pytest.approx(result.scores.ravel().tolist(), rel=1e-4, abs=1e-4)
    assert row["shape"] == list(result.scores.shape)
    assert (row["prediction"], row["target"]) == (result.prediction.label, [target.name for target in result.targets])
    assert row["probability"] == pytest.approx(result.prediction.probability, abs=1e-5)


def test_rows_are_what_the_explainer_gives_alone_in_their_order(tmp_path, vit, wav2vec2, photos, talks):
    for explainer, folder, column in ((vit, photos, "path"), (wav2vec2, talks, "where")):
        out, paths = tmp_path / column, files(folder)
        done = attribute(explainer, [{column: str(p)} for p in paths], out, Predictions(column), shard_rows=4)
        rows = results(out).to_pylist()
        assert done.rows == len(paths) == len(rows)
        assert [row["row"] for row in rows] == list(range(len(paths)))
        assert [row["id"] for row in rows] == [str(p) for p in paths], "a path is its row's name"
        for row, path in zip(rows, paths, strict=True):
            same(row, explainer(path))


def test_whatever_holds_a_picture_it_is_the_same(tmp_path, vit, photos):
    import datasets

    paths = files(photos)[:4]
    alone = vit(paths)
    dataset = datasets.Dataset.from_dict({"image": list(map(str, paths))})
    dataset = dataset.cast_column("image", datasets.Image())
    inside = datasets.Dataset.from_list([{"image": {"bytes": p.read_bytes(), "path": None}} for p in paths])
    pq.write_table(pa.table({"image": [p.read_bytes() for p in paths]}), tmp_path / "bytes.parquet")
    (tmp_path / "list.txt").write_text("\n".join(map(str, paths)) + "\n")
    forms = {
        "a data set of paths": dataset,
        "a stream of bytes": inside.cast_column("image", datasets.Image()).to_iterable_dataset(),
        "parquet of bytes": tmp_path / "bytes.parquet",
        "a text file": tmp_path / "list.txt",
        "arrays": [{"image": np.asarray(Image.open(p))} for p in paths],
        "a pattern": str(photos / "0[0-3].*"),
    }
    for number, (name, form) in enumerate(forms.items()):
        attribute(vit, form, tmp_path / str(number))
        for row, result in zip(results(tmp_path / str(number)).to_pylist(), alone, strict=True):
            assert row["scores"] == pytest.approx(result.scores.tolist(), rel=1e-4, abs=1e-4), name


def test_rows_that_cannot_be_read_are_errors_and_cost_no_other(tmp_path, vit, photos, monkeypatch):
    good = files(photos)[1]
    (tmp_path / "text.png").write_text("no picture")
    monkeypatch.chdir(tmp_path)
    expected = {
        str(good): None,
        "none.png": "No such file",
        "text.png": "cannot be read as a picture",
        str(photos): "Is a directory",
        "https://example.org/a.png": "pictures are not fetched",
        None: "a NoneType; expected",
        "\ud800.png": "cannot be read as a picture",
    }
    rows = [*({"path": value} for value in expected), {"path": str(good)}]
    attribute(vit, rows, "out")
    assert results("out")["row"].to_pylist() == [0, len(expected)]
    reasons = errors("out")
    assert sorted(reasons) == list(range(1, len(expected)))
    assert all(reason is None or reason in reasons[row] for row, reason in enumerate(expected.values())), reasons


def test_questions_about_pictures(tmp_path, photos):
    model = vlm.llava()
    explainer, path = Explainer(model.model, model.processor), files(photos)[1]
    beside = [
        {"q": "what is on the left ?", "image": path, "a": "a cat"},
        {"q": "what is on the left ?", "image": path.read_bytes(), "a": "a cat"},
        {"q": "what is on the left ?", "image": photos / "none.png", "a": "a cat"},
        {"q": vlm.question(str(path)), "image": path, "a": "a cat"},
    ]
    attribute(explainer, beside, tmp_path / "beside", Completions("q", "a", image_column="image"), keep_text=True)
    inside = [{"q": vlm.question(str(path)), "a": "a cat"}, {"q": "what is it ?", "a": "a cat"}]
    attribute(explainer, inside, tmp_path / "inside", Completions("q", "a"), keep_text=True)
    about = explainer.explain_completion(vlm.question(str(path)), "a cat", sources="sentence")
    plain = explainer.explain_completion("what is it ?", "a cat", sources="sentence")
    assert about.settings != plain.settings
    for folder, expected in (("beside", [about, about]), ("inside", [about, plain])):
        read = normxlogit.load(tmp_path / folder / "shards" / "00000000.parquet")
        assert len(read) == len(expected)
        for one, alone in zip(read, expected, strict=True):
            np.testing.assert_allclose(one.scores, alone.scores, rtol=1e-4, atol=1e-5)
            assert one.settings == alone.settings
    assert (read[0].units.text[0], read[0].units.name[1]) == ("what is on the left ?", path.name)
    assert "No such file" in errors(tmp_path / "beside")[2]
    assert "hold their pictures and sounds themselves" in errors(tmp_path / "beside")[3]
    written = Completions("q", image_column="image", max_new_tokens=3, sources="word")
    attribute(explainer, beside[:2], tmp_path / "w", written)
    one, other = results(tmp_path / "w")["completion"].to_pylist()
    assert one == other == explainer.generate(vlm.question(str(path)), max_new_tokens=3).completion


def test_a_file_that_was_replaced_is_noticed(tmp_path, vit, photos):
    path = tmp_path / "a.png"
    path.write_bytes(files(photos)[1].read_bytes())
    rows = [{"path": path}]
    attribute(vit, rows, tmp_path / "out")
    assert attribute(vit, rows, tmp_path / "out").fresh == 0
    path.write_bytes(files(photos)[3].read_bytes())
    with pytest.raises(DataError, match="rows 0 to 0 of the input have changed"):
        attribute(vit, rows, tmp_path / "out")
