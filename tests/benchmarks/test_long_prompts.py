"""What a long prompt takes, beside the same with everything kept."""

from benchmarks import long_prompts
from tests.benchmarks.sizes import LLAMA

SHAPE = LLAMA | {"vocab_size": 31000, "num_hidden_layers": 16, "intermediate_size": 1024}


def test_running_layers_again_takes_less_memory():
    ((ours, everything),) = long_prompts.compare([1000], SHAPE)
    assert (ours.kept, everything.kept) == (False, True)
    assert 900 < ours.tokens == everything.tokens <= 1020
    assert 0 < ours.gibibytes < 0.8 * everything.gibibytes
    assert ours.seconds > 0
