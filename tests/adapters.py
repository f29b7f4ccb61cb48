"""Models with LoRA adapters that have learned something: their second factors start at zero and hide."""

import warnings

import pytest
import torch

from tests import tiny

TARGETS = {"bert": ["query", "value"], "llama": ["q_proj", "v_proj"]}
KINDS = {"bert": "SequenceClassification", "llama": "CausalLM"}


def learn(model, seed=0):
    """Draw the weights of adapters that are still zero."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name and not weight.any():
                weight.normal_(std=0.5)
    return model.eval()


def adapted(family="bert", *others, **settings):
    """A random model with an adapter that is active, and others by name."""
    peft = pytest.importorskip("peft")
    task = "CAUSAL_LM" if KINDS[family] == "CausalLM" else "SEQ_CLS"
    config = peft.LoraConfig(task_type=task, r=4, **{"target_modules": TARGETS[family]} | settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT asks transformers for a name that goes
        model = peft.get_peft_model(tiny.model(family, KINDS[family]), config)
    for name in others:
        model.add_adapter(name, config)
    return learn(model)
