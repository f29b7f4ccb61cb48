import pytest
import torch

from normxlogit.errors import InputError, UnsupportedModelError
from normxlogit.model.task_model import TaskModel
from normxlogit.similarity.tasks.embedding import Direction
from normxlogit.similarity.tasks.sentence_embedding import SentenceEmbedding, pool_states
from normxlogit.similarity.tasks.steps import Steps, steps_from_files
from tests import tiny
from tests.similarity.sentence_steps import steps_beside

STATES = torch.tensor([[[1.0, 10], [2, 20], [4, 40], [8, 80]], [[3.0, 30], [5, 50], [7, 70], [9, 90]]])
MASK = torch.tensor([[0, 1, 1, 1], [1, 1, 0, 0]])


@pytest.mark.parametrize(
    ("mode", "first", "second"),
    [
        ("cls", 2, 3),
        ("lasttoken", 8, 5),
        ("mean", 14 / 3, 4),
        ("mean_sqrt_len_tokens", 14 / 3**0.5, 8 / 2**0.5),
        ("weightedmean", (2 + 2 * 4 + 3 * 8) / 6, (3 + 2 * 5) / 3),
    ],
)
def test_each_way_to_pool_reads_the_real_tokens_only(mode, first, second):
    wanted = torch.tensor([[first, 10 * first], [second, 10 * second]]).float()
    torch.testing.assert_close(pool_states(STATES, MASK, mode), wanted)
    if mode not in ("cls", "lasttoken"):
        assert not pool_states(STATES, torch.zeros_like(MASK), mode).any(), "nothing of nothing, and no NaN"


CLS = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
LINEAR = {
    "linear.weight": torch.tensor([[1.0, 2.0], [0.0, -1.0], [3.0, 0.0]]),
    "linear.bias": torch.tensor([0.5, 0, 1]),
}
DENSE = {"in_features": 2, "out_features": 3, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"}


@pytest.mark.parametrize(
    ("steps", "more", "error", "message"),
    [
        ([("Pooling", CLS)], {"modules": "{"}, InputError, r"modules.json cannot be read as JSON"),
        ([("Pooling", CLS)], {"modules": [{"type": "a.Transformer"}]}, InputError, "is not a list of modules"),
        ([("Pooling", None)], {}, InputError, r"1_Pooling/config.json is missing"),
        ([("Pooling", CLS), ("Dense", DENSE)], {}, InputError, r"2_Dense has no model.safetensors"),
        ([("Pooling", {"pooling_mode_max_tokens": True})], {}, UnsupportedModelError, "pools by max,"),
        ([("Pooling", {"include_prompt": False})], {}, UnsupportedModelError, "include_prompt=False"),
        ([("Pooling", CLS), ("Dense", DENSE | {"use_residual": True}, LINEAR)], {},
         UnsupportedModelError, "use_residual=True"),
        ([("Pooling", CLS), ("Dense", DENSE | {"activation_function": "own.Spline"}, LINEAR)], {},
         UnsupportedModelError, "activation Spline of a dense layer is none of torch's"),
        ([("Dense", DENSE, LINEAR), ("Pooling", CLS)], {}, UnsupportedModelError, "Transformer, Dense, Pooling;"),
        ([("Pooling", CLS), ("LayerNorm", {})], {}, UnsupportedModelError, "made of"),
    ],
)  # fmt: skip
def test_files_that_say_something_else(tmp_path, steps, more, error, message):
    with pytest.raises(error, match=message):
        steps_from_files(steps_beside(tmp_path, *steps, **more))


@pytest.mark.parametrize("last", [[], [("Normalize", None)]])
def test_a_vector_has_length_1_only_where_the_last_step_says_so(last, tmp_path):
    steps = steps_from_files(steps_beside(tmp_path, ("Pooling", CLS), ("Dense", DENSE, LINEAR), *last))
    assert steps.normalize == bool(last)
    vector = torch.tensor([[1.0, 2.0]])
    for step in steps.dense:
        vector = step(vector)
    torch.testing.assert_close(vector, torch.tanh(torch.tensor([[5.5, -2.0, 4.0]])))


def made(declared=10**30, **steps):
    tokenizer = tiny.tokenizer_for("bert")
    tokenizer.model_max_length = declared
    return TaskModel(SentenceEmbedding(tiny.model("bert").bert, Steps(**steps)), tokenizer)


@pytest.mark.parametrize(("max_length", "limit"), [(None, 40), (6, 6), (50, 40)])
def test_the_least_of_the_limits_counts(max_length, limit):
    assert made(max_length=max_length).encoder.limit == limit


def test_a_direction_is_the_cosine_with_the_own_length_held():
    vectors = torch.tensor([[[1.0, 0.0], [0.6, 0.8]], [[0.0, 1.0], [0.0, 2.0]]])  # (B, K, C)
    target = Direction.of(made().task, vectors)
    logits = torch.tensor([[3.0, 4.0], [0.3, 0.4]], requires_grad=True)
    cosines = target.select(logits)
    torch.testing.assert_close(cosines.detach(), torch.tensor([[0.6, 0.36 + 0.64], [0.8, 1.6]]))
    (slope,) = torch.autograd.grad(cosines[0, 0], logits)
    torch.testing.assert_close(slope, torch.tensor([[1 / 5, 0], [0, 0]]), msg="the length is no part of the slope")
    many = target.select(torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), torch.tensor([1, 0, 1]))
    torch.testing.assert_close(many, torch.tensor([[0.8, 1.6], [0.6, 1.0], [0.0, 0.0]]))
