"""Models of pictures: called like text models, read in their own units, followed when they change."""

import torch
import transformers

from normxlogit.model.task_model import TaskModel

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "num_labels": 3}


def vit():
    torch.manual_seed(0)
    config = transformers.ViTConfig(**SIZES, image_size=16, patch_size=8)
    model = transformers.ViTForImageClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def batch_of(model, count=2):
    """Pictures, and a batch of them."""
    values = torch.rand(count, 3, 16, 16)
    encodings, _ = model.task.encode(model, {"pixel_values": values})
    return values, model.batch(encodings, list(range(count)))


def test_a_changed_head_is_followed():
    owner = vit()
    model = TaskModel(owner, None)
    _, batch = batch_of(model)
    with torch.inference_mode():
        before = model.run(batch).logits
        owner.classifier = torch.nn.Linear(32, 3)
        pictures, batch = batch_of(model)
        after = model.run(batch).logits
        expected = owner(pictures).logits
    torch.testing.assert_close(after, expected)
    assert (after - before).abs().max() > 1e-3
