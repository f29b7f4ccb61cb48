"""In a corpus: a text that a chat template has rendered is read by the template's tokens alone."""

import numpy as np
import pandas
import pytest

from normxlogit import Explainer, attribute
from tests import tiny

from ..test_chat_template_strings import rendered, with_template


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_a_rendered_text_is_explained_as_alone(family, tmp_path) -> None:
    explainer = Explainer(tiny.model(family, num_labels=3, pad_token_id=0), with_template())
    text = rendered(explainer, answer_follows=False)
    attribute(explainer, [{"text": text}, {"text": "a cat"}], tmp_path / "run")
    (shard,) = tmp_path.glob("run/**/*.parquet")
    row = pandas.read_parquet(shard).iloc[0]
    np.testing.assert_allclose(row["scores"], explainer(text).scores, atol=1e-5)
