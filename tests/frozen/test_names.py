"""The table of rules against torch's own list of differentiable operations."""

import re
from pathlib import Path

import pytest
import torchgen

from normxlogit.frozen.rules import RULES, TABLE

MADE_ELSEWHERE = {
    *next(row.operations for row in TABLE if "MatMul4BitBackward" in row.operations).split(),
    *("CopySlices", "CopyBackwards", "SafeSoftmax"),
    "GeneratedBackwardFor_transformers_grouped_mm_fallback_defaultBackward",
    *("GeLUFunctionBackward", "YosoCumulationBackward"),  # functions of Bloom and YOSO
}


@pytest.fixture(scope="module")
def operations():
    listed = Path(torchgen.__file__).parent / "packaged" / "autograd" / "derivatives.yaml"
    names = re.findall(r"^- name: (\w+)[.(]", listed.read_text(encoding="utf-8"), re.MULTILINE)
    return {"".join(word.title() for word in name.split("_")).removesuffix("Forward") for name in names}


def test_every_rule_is_of_an_operation_of_torch(operations):
    assert set(RULES) <= operations | MADE_ELSEWHERE


def test_every_attention_and_norm_of_torch_has_a_rule(operations):
    kinds = {
        name for name in operations if re.search(r"DotProduct.*Attention|Attention$|(Layer|Group|Rms|Batch)Norm$", name)
    }
    assert len(kinds) > 10
    assert kinds <= set(RULES)
