"""Other packages add a method, a text task, a kind of input, and a call with all that it needs: `examples/extensions`.

Their code is that of docs/extending.md, see tests/test_docs.py.
"""

import pytest

START = """
import inspect
import sys
import numpy as np
import torch
from torch import nn
from normxlogit import Attributions, DataError, Explainer, InputError, load
from tests import tiny

def check_drawn_and_saved(result, *drawn):
    assert result.scored.verified is not None and len(result.scored.verified.single) == 3
    page = result.to_html()
    for text in drawn:
        assert text in page, (text, page)
        assert text in str(result), (text, str(result))
    for name in ("one.json", "one.parquet"):
        result.save(f"{sys.argv[1]}/{name}")
        assert load(f"{sys.argv[1]}/{name}") == result

torch.manual_seed(0)
"""

PROGRAMS = {
    "a method": """
explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
a = explainer("the cat is not good", method="distance-to-mean:p=1", verify=3)
inputs = explainer.tokenizer("the cat is not good", return_tensors="pt")
hidden = explainer.model.bert(**inputs).last_hidden_state[0].detach()  # (T, H)
np.testing.assert_allclose(a.scores, (hidden - hidden.mean(0)).abs().sum(-1), rtol=1e-4)
assert a.settings == {"p": 1.0}
check_drawn_and_saved(a, "distance-to-mean")
""",
    "a text task": """
class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = tiny.model("bert").bert
        self.head = nn.Linear(self.encoder.config.hidden_size, 2)

    def forward(self, input_ids, attention_mask):
        return self.head(self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state[:, 0])

explainer = Explainer(Module().eval(), tiny.tokenizer_for("bert"), task="form-urgency")
form = {"the cat": "sat on the mat", "a film": "is not good"}
a = explainer(form, verify=3)
assert a.text == "the cat: sat on the mat\\na film: is not good"
inputs = explainer.tokenizer(a.text, return_tensors="pt")
answer = explainer.model(inputs["input_ids"], inputs["attention_mask"]).softmax(-1)[0]
np.testing.assert_allclose(a.prediction.probability, float(answer.max().detach()), rtol=1e-4)
assert a.prediction.label == ("can wait", "urgent")[int(answer.argmax())]
check_drawn_and_saved(a, a.prediction.label)
assert [b.text for b in explainer([form, {"a": "b"}])] == [a.text, "a: b"]
try:
    explainer("a text")
except InputError as error:
    assert "expected a form" in str(error)
else:
    raise AssertionError("a text is not a form")

from normxlogit.inputs.message_parts import part_of_file
with open(sys.argv[1] + "/rows.csv", "w") as file:
    file.write("a,film\\nis,good\\n")
content = [{"type": "text", "text": "the cat"}, part_of_file(file.name)]
template = "{% for m in messages %}{% for part in m['content'] %}{{ part['text'] }} . {% endfor %}{% endfor %}"
g = tiny.writer(template=template).generate([{"role": "user", "content": content}], max_new_tokens=1)
assert g.text.startswith("the cat . a | film\\nis | good . "), g.text
""",
    "a kind of input": """
class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(1, 16)
        self.places = nn.Parameter(torch.randn(64, 16))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0) for _ in range(2)
        )
        self.out = nn.Linear(16, 2)

    def forward(self, values):
        states = self.embed(values) + self.places[: values.shape[1]]
        for layer in self.layers:
            states = layer(states)
        return self.out(states.mean(1))

module = Module().eval()
numbers = np.sin(np.arange(12)).astype(np.float32)
a = Explainer(module, task="series-classification", labels=["calm", "storm"])(numbers, verify=3)
logits = module(torch.tensor(numbers)[None, :, None])[0]
np.testing.assert_allclose(a.scores.sum() + a.bias, logits.max().item(), atol=1e-4)
check_drawn_and_saved(a)
assert 'class="steps"' in a.to_html() and "series, strongest: " in str(a)
assert (a.verified.unit, a.verified.removed_by) == ("step", "flattened")
""",
    "a call": """
explainer = Explainer.from_pretrained()
assert "stability" in dir(explainer)
assert list(inspect.signature(explainer.stability).parameters) == ["text", "spellings", "method", "verify"]
text = "The movie is <b>mediocre</b>."
stable = explainer.stability(text, method="normxlogit", verify=3)
assert stable.labels == tuple(explainer(t).prediction.label for t in (text.lower(), text.upper(), text + "."))
assert stable.attribution == explainer(text, method="normxlogit", verify=3)
check_drawn_and_saved(stable, "one more full stop")
assert "<b>mediocre" not in stable.to_html() and "<table" in stable._repr_html_()
many = Attributions([stable, explainer.stability("A fine film.")])
many.save(f"{sys.argv[1]}/many.json")
assert load(f"{sys.argv[1]}/many.json") == many
assert many.to_html().count("one more full stop") == 2
words = stable.attribution.words()
assert stable.attribution.export("markdown", digits=1).splitlines()[2] == f"| {words[0].text} | {words[0].score:.1f} |"
assert explainer.without(text, "mediocre", spellings=["upper case"]).units == ("mediocre",)
for wrong, said in (({"metod": "normxlogit"}, "did you mean method="), ({"verify": [3.5]}, "3.5")):
    try:
        explainer.stability(text, **wrong)
    except InputError as error:
        assert said in str(error), error
    else:
        raise AssertionError(wrong)
assert repr(stable) == f"Stability({stable.share:.0%} of 3 spellings)"
state = stable.to_dict()
shortened = state["attribution"] | {"scores": state["attribution"]["scores"][1:]}
for damaged, said in (({"labels": ["negative"]}, "labels: not one for each"), ({"attribution": shortened}, "scores")):
    try:
        type(stable).from_dict(state | damaged)
    except DataError as error:
        assert said in str(error), error
    else:
        raise AssertionError(damaged)
""",
}


@pytest.mark.parametrize("added", PROGRAMS)
def test_what_it_adds_is_used_verified_drawn_and_saved(extensions_installed, added, tmp_path):
    pytest.importorskip("pyarrow")
    code, _, error = extensions_installed("-c", START + PROGRAMS[added], tmp_path)
    assert code == 0, error


def test_its_command_is_a_command_and_its_method_is_known_there(extensions_installed):
    pytest.importorskip("normxlogit.cli")
    command = ("-m", "normxlogit", "stability", "A dull film.", "--method", "distance-to-mean")
    code, out, error = extensions_installed(*command)
    assert code == 0, error
    assert "upper case" in out


def lay_out_package(folder, name, reference, code=""):
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[normxlogit.extensions]\nadded = {reference}\n")
    (folder / f"{name}.py").write_text(code)


SECOND_STABILITY = """
from normxlogit.extending import Extension
EXTENSION = Extension(FIELD={"stability": "normxlogit_second:stability"})
def stability(explainer): ...
"""


@pytest.mark.parametrize("field", ["calls", "commands"])
def test_a_name_of_two_packages_is_one_line_that_names_both(extensions_installed, field, tmp_path):
    pytest.importorskip("normxlogit.cli")
    code = SECOND_STABILITY.replace("FIELD", field)
    lay_out_package(tmp_path, "normxlogit_second", "normxlogit_second:EXTENSION", code)
    code, _, error = extensions_installed("-m", "normxlogit", "explain", "A dull film.", path=[tmp_path])
    packages = {"normxlogit_stability", "normxlogit_second"}
    assert (code, len(error.splitlines())) == (2, 1), error
    assert all(package in error for package in packages)
    assert f"both register 'stability' in {field}" in error


def test_a_broken_package_costs_its_own_abilities_only(extensions_installed, tmp_path):
    pytest.importorskip("normxlogit.cli")
    lay_out_package(tmp_path, "normxlogit_broken", "no_such_package:EXTENSION")
    code, out, error = extensions_installed("-W", "default", "-m", "normxlogit", "methods", path=[tmp_path])
    assert (code, "distance-to-mean" in out) == (0, True)
    assert "no_such_package" in error
