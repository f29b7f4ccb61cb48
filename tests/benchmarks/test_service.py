"""The service of the page under clients that ask without a pause."""

import re

from benchmarks import service
from benchmarks.service import Served
from tests.benchmarks.sizes import written


def test_answers_are_those_of_single_calls_and_times_are_beside_bare_passes():
    explained, bare = service.serve(["a good movie", "never bad !", "it is awful"], clients=4, seconds=2.0)
    assert (explained.calls, bare.calls) == ("explanation", "forward pass")
    for one in (explained, bare):
        assert (one.refused, one.wrong) == (0, 0)
        assert one.answers >= 4
        assert 0 < one.half <= one.most
        assert one.first > 100
        assert one.last > 100


def test_the_command_prints_a_row_for_each_kind_of_service(monkeypatch, capsys):
    asked = {}

    def serve(texts, model, **options):
        asked.update(options, texts=len(texts), model=model)
        return [Served("explanation", 60.0, 1200, 1, 0, 0.05, 0.2, 500.0, 501.0)]

    monkeypatch.setattr(service, "serve", serve)
    out = written(capsys, "service", "--minutes", "1", "--clients", "2")
    assert (asked["texts"], asked["model"], asked["clients"], asked["seconds"]) == (100, None, 2, 60)
    assert re.findall(r"^\| one .*", out, re.MULTILINE) == [
        "| one explanation | 1,200 | 1 | 0 | 20 | 50 ms | 200 ms | 500 to 501 MiB |"
    ]
