import json
from pathlib import Path

import pytest

from tests.commands import run_python

PROGRAM = """
import gc, json, sys
import torch
from normxlogit import ALL, Explainer, TargetError
from tests import tiny

torch.set_num_threads(1)
tokenizer = tiny.tokenizer_for("bert")
model = tiny.model("bert").train()
explainer = Explainer(model, tokenizer)
words = " ".join(tiny.TEXTS).split()
given = tokenizer("the cat sat", return_tensors="pt")


def text(i):
    return " ".join((words * 2)[i % 7 : i % 7 + 1 + i % 13])


def refused(i):
    try:
        explainer(text(i), target="nobody knows")
    except TargetError:
        pass


def changed(i):
    handle = model.bert.encoder.layer[0].register_forward_hook(lambda *_: None)
    explainer(text(i))
    handle.remove()


def trained(i):
    model(**given, labels=torch.tensor([i % 2])).loss.backward()
    model.zero_grad()


def outputs(i):
    with torch.no_grad():
        explainer.from_outputs(given, model.eval()(**given, output_hidden_states=True))
    model.train()


RARE = [
    refused,
    changed,
    trained,
    outputs,
    lambda i: explainer(text(i), layers=ALL),
    lambda i: explainer(text(i), method="frozen-gradient"),
    lambda i: explainer([text(i), text(i + 1)], method="integrated-gradients:steps=2"),
    lambda i: explainer(text(i), method="lime:samples=4"),
    lambda i: explainer(text(i), method="decompx").to_html(),
]


def calls(count):
    for i in range(count):
        RARE[i // 10 % len(RARE)](i) if i % 10 == 0 else explainer(text(i))


def now():
    gc.collect()
    objects = gc.get_objects()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return {
        "memory": pages,
        "objects": len(objects),
        "tensors": sum(isinstance(o, torch.Tensor) for o in objects),
        "modules": sum(isinstance(o, torch.nn.Module) for o in objects),
        "hooks": sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()),
        "buffers": sum(1 for _ in model.buffers()),
    }


count = int(sys.argv[1])
calls(180)
before = now()
calls(count)
print(json.dumps([before, now()]))
"""


@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is read from Linux's /proc")
def test_five_hundred_calls():
    before, after = json.loads(run_python(PROGRAM, 540))  # whole rounds: some kinds of calls keep a copy of the model
    assert after["memory"] < 1.02 * before["memory"]
    assert after["objects"] < before["objects"] + 200
    for name in ("tensors", "modules", "hooks", "buffers"):
        assert after[name] == before[name], name
