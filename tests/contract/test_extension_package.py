"""A package adds a task, a part of messages, a method, a call with its result, and a command: `examples/extension`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "extension"

USE = """
import sys
import numpy as np
import torch
from torch import nn
from normxlogit import Explainer, InputError, load
from normxlogit.inputs.message_parts import part_of_file
from tests import tiny

class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = tiny.model("bert").bert
        self.head = nn.Linear(self.encoder.config.hidden_size, 2)

    def forward(self, input_ids, attention_mask):
        return self.head(self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state[:, 0])

torch.manual_seed(0)
explainer = Explainer(Module().eval(), tiny.tokenizer_for("bert"), task="form-classification", labels=["no", "yes"])
form = {"the cat": "sat on the mat", "a film": "is not good"}
a = explainer(form, method="distance-to-mean:p=1")
assert a.text == "the cat: sat on the mat\\na film: is not good"
inputs = tiny.tokenizer_for("bert")(a.text, return_tensors="pt")
hidden = explainer.model.encoder(**inputs).last_hidden_state[0].detach()  # (T, H)
np.testing.assert_allclose(a.scores, (hidden - hidden.mean(0)).abs().sum(-1), rtol=1e-4)
answer = explainer.model(inputs["input_ids"], inputs["attention_mask"]).softmax(-1)[0]
np.testing.assert_allclose(a.prediction.probability, float(answer.max().detach()), rtol=1e-4)
both = explainer([form, {"a": "b"}])
assert len(both) == 2
both.save(sys.argv[1])
assert load(sys.argv[1])[1].text == "a: b"
try:
    explainer("a text")
except InputError as error:
    assert "expected a form" in str(error)
else:
    raise AssertionError("a text is not a form")

with open(sys.argv[1] + ".csv", "w") as file:
    file.write("a,film\\nis,good\\n")
content = [{"type": "text", "text": "the cat"}, part_of_file(file.name)]
template = "{% for m in messages %}{% for part in m['content'] %}{{ part['text'] }} . {% endfor %}{% endfor %}"
g = tiny.writer(template=template).generate([{"role": "user", "content": content}], max_new_tokens=1)
assert g.text.startswith("the cat . a | film\\nis | good . "), g.text
"""

CALL = """
import inspect
import sys
from normxlogit import Attributions, DataError, Explainer, InputError, load
explainer = Explainer.from_pretrained()
assert "stability" in dir(explainer)
assert list(inspect.signature(explainer.stability).parameters) == ["text", "method"]
text = "The movie is <b>mediocre</b>."
stable = explainer.stability(text, method="normxlogit")
assert stable.labels == tuple(explainer(t).prediction.label for t in (text.lower(), text.upper(), text + "."))
assert stable.attribution == explainer(text, method="normxlogit")
assert "one more full stop" in str(stable) and "one more full stop" in stable.to_html()
assert "<b>mediocre" not in stable.to_html() and "<table" in stable._repr_html_()
for name in ("one.json", "one.parquet"):
    stable.save(f"{sys.argv[1]}/{name}")
    assert load(f"{sys.argv[1]}/{name}") == stable
many = Attributions([stable, explainer.stability("A fine film.")])
many.save(f"{sys.argv[1]}/many.json")
assert load(f"{sys.argv[1]}/many.json") == many
assert many.to_html().count("one more full stop") == 2
words = stable.attribution.words()
assert stable.attribution.export("markdown", digits=1).splitlines()[2] == f"| {words[0].text} | {words[0].score:.1f} |"
try:
    explainer.stability(text, metod="normxlogit")
except InputError as error:
    assert "did you mean method=" in str(error)
try:
    stable.plot()
except AttributeError:
    pass
broken = stable.to_dict() | {"labels": ["negative"]}
try:
    type(stable).from_dict(broken)
except DataError as error:
    assert "labels: not one for each spelling" in str(error)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Lay the package out as an installer would, and return the environment of a program that finds it."""
    folder = tmp_path_factory.mktemp("site-packages")
    (folder / "normxlogit_example").symlink_to(EXAMPLE / "normxlogit_example", target_is_directory=True)
    metadata = folder / "normxlogit_example-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: normxlogit-example\nVersion: 1.0\n")
    project = (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    group, entries = re.search(r'^\[project\.entry-points\."(.+)"\]\n((?:.+\n)+)', project, re.M).groups()
    (metadata / "entry_points.txt").write_text(f"[{group}]\n" + entries.replace('"', ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}


def run(environment, *arguments):
    program = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", *map(str, arguments)], capture_output=True, env=environment
    )
    return program.returncode, program.stdout.decode(), program.stderr.decode()


def test_its_inputs_are_read_and_its_method_scores_them(installed, tmp_path):
    code, _, error = run(installed, "-c", USE, tmp_path / "both.json")
    assert code == 0, error


def test_its_call_returns_a_result_that_is_drawn_saved_and_exported(installed, tmp_path):
    pytest.importorskip("pyarrow")
    code, _, error = run(installed, "-c", CALL, tmp_path)
    assert code == 0, error


def test_its_command_is_a_command(installed):
    pytest.importorskip("normxlogit.cli")
    code, out, error = run(installed, "-m", "normxlogit", "strongest", "A dull film.", "--method", "distance-to-mean")
    assert (code, out.partition("\t")[0]) == (0, "negative"), error


def test_a_broken_package_costs_its_own_abilities_only(installed, tmp_path):
    pytest.importorskip("normxlogit.cli")
    package = tmp_path / "normxlogit_broken-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: normxlogit-broken\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[normxlogit.extensions]\nbroken = no_such_package:EXTENSION\n")
    environment = installed | {"PYTHONPATH": os.pathsep.join([str(tmp_path), installed["PYTHONPATH"]])}
    program = subprocess.run([sys.executable, "-m", "normxlogit", "methods"], capture_output=True, env=environment)
    assert (program.returncode, b"distance-to-mean" in program.stdout) == (0, True)
    assert b"no_such_package" in program.stderr
