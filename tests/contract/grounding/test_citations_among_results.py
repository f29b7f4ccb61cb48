"""Citations among other results: written, loaded, drawn, with prompts of any form, and without leaving a trace."""

import json

import pytest

import normxlogit
from normxlogit import Attribution, Attributions, Explainer
from normxlogit.grounding import Citations
from tests import tiny
from tests.commands import run
from tests.contract.compare import comes_back
from tests.contract.test_safe_output import HOSTILE, NAME, check_line, check_page
from tests.contract.test_unchanged_process import surroundings
from tests.contract.test_untouched_model import nothing_left_behind, training

DOCUMENTS = {"cats.txt": "the cat sat on the mat . it is good .", "films.txt": "the movie is bad . a great film ."}


@pytest.fixture(scope="module")
def writer():
    return tiny.writer(length=400)


@pytest.fixture(scope="module")
def answers(writer):
    return [
        writer.cite("who sat on the mat ?", DOCUMENTS, max_new_tokens=6),
        writer.cite("is the movie good ?", list(DOCUMENTS.values()), max_new_tokens=4, verify=2),
    ]


@pytest.fixture(scope="module")
def sources(writer):
    return writer.explain_completion(" . ".join(DOCUMENTS.values()), " the cat is here", sources="sentence")


def test_results_of_any_kinds_are_one_page(sources, answers):
    page = Attributions([sources, *answers]).to_html()
    assert page.count("<article") == 3
    data = [json.loads(part.split("</script>")[0]) for part in page.split('class="nxl-data">')[1:]]
    assert [sorted(one) for one in data] == [["shares"], *[["shares", "verdicts"]] * 2]


def test_answers_are_saved_and_loaded(writer, sources, answers, tmp_path):
    numbered = writer.cite("who ?", ["the cat sat ."], answer="1.\n2. the cat")  # whose first sentence has no words
    for saved in (*answers, numbered, Attributions(answers), Attributions([sources, *answers])):
        comes_back(saved, tmp_path)
    assert {type(one) for one in normxlogit.load(tmp_path / "result.json")} == {Attribution, Citations}


def test_what_the_command_writes_is_loaded(tmp_path, capsys):
    tiny.save(tmp_path / "model", "llama", "CausalLM")
    (tmp_path / "a.txt").write_text("the cat sat . it was good .")
    words = ["cite", tmp_path / "a.txt", "--question", "a cat ?", "--model", tmp_path / "model"]
    code, _, err = run(capsys, *words, "--max-new-tokens", "3", "--output", tmp_path / "out.json")
    assert (code, err) == (0, f"wrote {tmp_path / 'out.json'}\n")
    loaded = normxlogit.load(tmp_path / "out.json")
    assert type(loaded) is Citations
    assert Citations.from_dict(loaded.to_dict()) == loaded


@pytest.mark.parametrize("documents", ["a list", "named"])
def test_a_cited_answer(documents):
    explainer = tiny.writer(length=1000, name=HOSTILE)
    texts = [f"the cat {NAME} sat .", "bad"]
    harmless = ["the cat sat .", "bad"]
    if documents == "named":
        texts, harmless = {NAME: texts[0], "b": "bad"}, {"a": harmless[0], "b": "bad"}
    cited = explainer.cite(f"a cat {NAME} ?", texts, max_new_tokens=3)
    plain = explainer.cite("a cat ?", harmless, max_new_tokens=3)
    check_page(cited.to_html(), plain.to_html())
    check_line(str(cited))
    check_line(repr(cited))


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_model_and_the_process_stay_as_they_were(family, tmp_path, capfd):
    model, tokenizer = training(family, "CausalLM")
    tokenizer.backend_tokenizer.no_truncation()
    Explainer(model, tokenizer).cite("a cat ?", ["the cat sat ."], max_new_tokens=2)
    before = surroundings()
    with nothing_left_behind(model, tokenizer):
        Explainer(model, tokenizer).cite("a cat ?", ["the cat sat ."], max_new_tokens=2)
    assert surroundings() == before
    assert capfd.readouterr() == ("", "")
