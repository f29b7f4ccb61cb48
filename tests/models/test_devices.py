"""Names of devices, on machines that have an accelerator and on those that have none."""

import pytest
import torch

from normxlogit import InputError
from normxlogit.models.devices import device_name, device_named, synchronise


def accelerator(monkeypatch, there, name="meta"):
    """Let the machine have an accelerator or none, and note what it is asked to wait for."""
    waited = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: there)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device(name))
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waited.append(1))
    return waited


@pytest.mark.parametrize("there", [True, False])
def test_the_accelerator_where_there_is_one_else_the_cpu(monkeypatch, there):
    waited = accelerator(monkeypatch, there)
    assert device_named("auto") == torch.device("meta" if there else "cpu")
    synchronise()
    assert len(waited) == there


@pytest.mark.parametrize("device", ["nonsense", "xpu:99", 2.5, 10**30, "hpu"])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(monkeypatch, device):
    accelerator(monkeypatch, True)
    with pytest.raises(InputError, match=r"there is no device '.*' here: this machine has cpu and meta$"):
        device_named(device)
    accelerator(monkeypatch, False)
    with pytest.raises(InputError, match=r"this machine has cpu$"):
        device_named(device)
    assert device_named(torch.device("meta")).type == "meta"


def test_a_card_is_called_by_its_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"a card, {device}")
    assert device_name(torch.device("cpu")) == "cpu"
    assert device_name(torch.device("cuda:0")) == "a card, cuda:0"
