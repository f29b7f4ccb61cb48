"""Text, tokens, labels and names are escaped in every page and stripped of control sequences in every line printed."""

import dataclasses
import json
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from normxlogit import Attributions, DataError, Explainer, InputError, MethodError, TargetError
from normxlogit.results import Prediction, Target
from tests import tiny
from tests.commands import run
from tests.factories import make_attribution, make_generation, pair

MARKUP = "</script></style><img src=x onerror=alert(1)><script>alert(1)</script>\"' onmouseover='x"
STEERING = "\x1b[31mred\x1b]0;title\x07\x9b2J\x00\r\x7f\x85\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ud800"
HOSTILE = MARKUP + STEERING
NAME = HOSTILE.replace("\0", "").replace("\ud800", "")
"""As a file or a document can be named."""

HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What steers a terminal, turns a line around, or is half a character."""

COLOURS = re.compile(r"\x1b\[[\d;]*m")
"""Colours are the only sequences that a terminal gets."""


class Tags(HTMLParser):
    """Collect the tags of a page with their attributes."""

    def __init__(self, content):
        super().__init__()
        self.tags = []
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def active(content):
    """Count the tags of a page that run, load or lead somewhere."""
    kinds = ("script", "iframe", "object", "embed", "base", "form", "img", "link", "a", "style", "svg", "meta")
    return Counter(tag for tag, _ in Tags(content).tags if tag in kinds)


def check_page(content, harmless):
    """Refuse a page with a character of the hostile text, or another active tag than one without it, the harmless."""
    assert not HIDDEN.search(content.replace("\r\n", "\n"))
    content.encode("utf-8")
    assert active(content) == active(harmless)
    assert not any(name.startswith("on") for _, attributes in Tags(content).tags for name in attributes)


def check_line(text):
    """Refuse text that holds a control character."""
    assert not HIDDEN.search(COLOURS.sub("", text))


def hostile_attribution():
    return make_attribution(
        (HOSTILE, "b"),
        (1.0, -1.0),
        text=f"{HOSTILE} b </style>",
        model=HOSTILE,
        method=HOSTILE,
        notes=(HOSTILE,),
        settings={HOSTILE: HOSTILE},
        prediction=Prediction(HOSTILE, 0, 1.0, 0.5),
        targets=(Target("label", HOSTILE, 0, contrast=HOSTILE, contrast_id=1),),
        token_predictions=(Prediction(HOSTILE, 0, 1.0, 0.5),) * 4,
        diagnostics={HOSTILE: 1.0},
    )


def hostile_pair():
    texts = {"text": HOSTILE, "text_pair": HOSTILE, "pair_pieces": (HOSTILE,)}
    return make_attribution((HOSTILE,), (1.0, 2.0), **texts, model=HOSTILE)


def hostile_generation():
    result = make_generation([f"{HOSTILE} "] * len(make_generation().tokens), model=HOSTILE, notes=(HOSTILE,))
    return dataclasses.replace(
        result,
        predictions=tuple(p._replace(id=p.id + 1) for p in result.predictions),
        targets=tuple(t._replace(contrast=HOSTILE) for t in result.targets),
    )


RESULTS = {
    "a text": (hostile_attribution, lambda: make_attribution(notes=("x",), settings={"x": "y"})),
    "a pair": (hostile_pair, pair),
    "generated text": (hostile_generation, make_generation),
}
"""Hostile results, and harmless ones of the same kind."""

kinds = pytest.mark.parametrize(("make", "plain"), RESULTS.values(), ids=RESULTS)


@kinds
def test_a_page_and_a_notebook_escape_everything(make, plain, tmp_path):
    result = make()
    check_page(result.to_html(), plain().to_html())
    result.to_html(tmp_path / "why.html")
    check_page((tmp_path / "why.html").read_text("utf-8"), plain().to_html())
    check_page(result._repr_html_(), plain()._repr_html_())


@kinds
def test_a_terminal_and_a_repr_get_no_control_sequences(make, plain, monkeypatch):
    result = make()
    for colour in ("1", ""):
        monkeypatch.setenv("FORCE_COLOR", colour)
        check_line(str(result))
    check_line(result.to_csv().replace("\r\n", "\n"))
    named = dataclasses.replace(result, method="normxlogit")
    check_line(repr(named))
    check_line(repr(Attributions([named])))
    check_line(repr(make_attribution(method=STEERING)))


def test_several_results_on_one_page_and_a_comparison_of_methods():
    def compared(first):
        return [first, dataclasses.replace(first, method=f"other {first.method}")]

    hostile, plain = hostile_attribution(), make_attribution()
    several = [hostile, hostile_pair(), plain], [plain, pair(), plain]
    for some, others in (several, (compared(hostile), compared(plain))):
        drawn, harmless = Attributions(some), Attributions(others)
        check_page(drawn.to_html(title=HOSTILE), harmless.to_html())
        check_page(drawn._repr_html_(), harmless._repr_html_())
        check_line(str(drawn))
        check_line(drawn.to_csv().replace("\r\n", "\n"))


@pytest.mark.parametrize("unit", ["word", "sentence"])
def test_sources(unit):
    sources = hostile_generation().sources(unit)
    check_page(sources.to_html(), make_generation().sources(unit).to_html())
    check_line(str(sources))
    check_line(repr(sources))


def test_json_shows_no_control_characters_and_comes_back(tmp_path):
    result = hostile_attribution()
    result.save(tmp_path / "why.json")
    content = (tmp_path / "why.json").read_text("utf-8")
    check_line(content)
    assert type(result).from_dict(json.loads(content)) == result


@pytest.fixture
def explainer():
    model = tiny.model("bert")
    model.config.id2label = {0: HOSTILE, 1: f"<b>{STEERING}"}
    return Explainer(model, tiny.tokenizer_for("bert"), name=HOSTILE)


def test_what_is_explained_of_a_hostile_model_and_text(explainer):
    harmless = tiny.explainer("bert")
    text = f"the cat {NAME}"
    result = explainer(text)
    check_page(result.to_html(), harmless(tiny.TEXTS[0]).to_html())
    check_line(str(result))
    check_line(repr(result))
    check_line(repr(explainer))
    comparison = explainer.compare(text, ["normxlogit", "logat"])
    check_page(comparison.to_html(), harmless.compare(tiny.TEXTS[0], ["normxlogit", "logat"]).to_html())
    check_line(str(comparison))


def test_an_error_shows_no_control_sequences(explainer):
    for error, call in (
        (TargetError, lambda: explainer("the cat", target=f"nope{HOSTILE}")),
        (MethodError, lambda: explainer("the cat", method=f"nope{HOSTILE}")),
        (InputError, lambda: explainer("the cat", long_text=HOSTILE)),
        (InputError, lambda: Explainer.from_pretrained(f"./{NAME}")),
        (DataError, lambda: explainer("the cat").save(f"{NAME}.xyz")),
        (TargetError, lambda: explainer("the cat")[HOSTILE]),
    ):
        with pytest.raises(error) as raised:
            call()
        check_line(str(raised.value))
        check_line(repr(raised.value))


def test_the_command_line_prints_no_control_sequences(explainer, capsys, tmp_path):
    folder = tmp_path / "model"
    model = tiny.model("bert")
    model.config.id2label = {0: STEERING.replace("\ud800", ""), 1: "\u202eb"}
    model.config.label2id = {name: index for index, name in model.config.id2label.items()}
    model.save_pretrained(folder)
    tiny.tokenizer_for("bert").save_pretrained(folder)
    text = f"the cat {STEERING}".replace("\x00", "").replace("\ud800", "")
    for options in ((), ("--format", "json"), ("--format", "csv")):
        code, out, err = run(capsys, "explain", text, "--model", folder, *options)
        assert code == 0
        check_line(out.replace("\r\n", "\n"))
        check_line(err)
    code, out, err = run(capsys, "explain", text, "--model", folder, "--target", f"x{text}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    check_line(err)
    code, out, _ = run(capsys, "explain", f"{text} {MARKUP}", "--model", folder, "--format", "html")
    assert code == 0
    check_page(out, run(capsys, "explain", "the cat", "--format", "html")[1])
