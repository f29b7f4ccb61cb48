"""Windows over conversations are compared with reading all of each."""

from benchmarks import windows
from normxlogit import Explainer
from tests import tiny


def test_a_reader_of_nearly_all_finds_what_a_reader_of_all_finds(monkeypatch):
    monkeypatch.setattr(windows, "ROUNDS", (2,))
    tokenizer = tiny.letters()
    tokenizer.model_max_length = 4000
    reader = Explainer(tiny.model("llama", "CausalLM", vocab_size=100, max_position_embeddings=4000), tokenizer)
    measured = list(windows.compare(reader, (1.0, 0.9)))
    assert [case.part for case in measured] == [1.0, 0.9] * 2
    for case in measured[::2]:  # all of it fits
        assert (case.kept, case.first_kept, case.same_first) == (case.sources, windows.FIRST, True)
    for case in measured[1::2]:  # what is left out is not what scores highest
        assert 0 < case.kept < case.sources
        assert (case.first_kept, case.same_first) == (windows.FIRST, True)
    assert tokenizer.model_max_length == 4000
    assert "| 100% | 2 | 100% | 1.00 | 1.00 |" in windows.as_table(measured)
