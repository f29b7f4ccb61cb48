"""Pictures and sounds among documents and in conversations, where they are read."""

import copy
from functools import partial

import numpy as np
import pytest
from PIL import Image

from normxlogit import Explainer, InputError
from normxlogit.grounding import Citations
from tests import tiny
from tests.contract.compare import refused

pytest.importorskip("normxlogit.media")

from tests.media import audio_lm, vlm
from tests.media.multimodal import QUESTION, explainer, made

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # PaliGemma's processor


def blank(picture):
    """A picture of the mean colour of another."""
    mean = np.asarray(picture).astype(float).mean((0, 1)).round().astype(np.uint8)
    return Image.new("RGB", picture.size, tuple(mean.tolist()))


def conversation(first, second):
    """A conversation with a picture in each message of the user."""
    said = "The cat is red. The tree is on the left."
    return [
        {"role": "user", "content": [{"type": "text", "text": said}, {"type": "image", "image": first}]},
        {"role": "assistant", "content": "yes ."},
        {"role": "user", "content": [{"type": "image", "image": second}, {"type": "text", "text": QUESTION}]},
    ]


def check_losses(name, cited, prompt, pictures):
    """Ask the own model for the answer with its pictures, by the names that they are cited by, and with each blank."""
    ids = list(explainer(name).explain_completion("the tree .", " the tree .").token_ids[-3:])
    whole = vlm.log_probability(made(name), prompt(*pictures.values()), ids)
    assert cited.verified.original.value == pytest.approx(whole, abs=1e-3)
    for removed in pictures:
        shown = [blank(picture) if picture_name == removed else picture for picture_name, picture in pictures.items()]
        loss = whole - vlm.log_probability(made(name), prompt(*shown), ids)
        assert cited.losses[removed] == pytest.approx(loss, abs=1e-2)


@pytest.mark.parametrize("name", ["llava", "qwen2_vl"])
def test_pictures_of_a_conversation_are_sources_of_its_answer(name):
    first, second = vlm.picture(), vlm.picture(seed=1)
    messages = conversation(first, second)
    cited = explainer(name).cite(messages=messages, answer="the tree .", verify=99)
    assert cited.names == ("user:1", "user:2", "assistant:1", "picture 1", "picture 2")
    refused(InputError, "rank=", lambda: explainer(name).cite(messages=messages, answer="the tree .", rank=True))
    assert cited.documents == ("user", "user", "assistant", "picture 1", "picture 2")
    assert [message.role for message in cited.messages] == ["user", "picture", "assistant", "picture", "user"]
    check_losses(name, cited, conversation, {"picture 1": first, "picture 2": second})
    assert "picture 2" in str(cited)
    assert Citations.from_dict(cited.to_dict()) == cited


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "idefics3", "gemma3", "qwen2_audio"])
def test_neighbours_of_one_name_are_told_apart(name, tmp_path):
    model, processor = made(name)
    template = processor.chat_template.replace(" {% endfor %}", "{% endfor %}")  # no space between pictures
    joined = Explainer(model, copy.deepcopy(processor))
    joined.tokenizer.chat_template = template
    if name == "qwen2_audio":
        kind, paths = "audio", [audio_lm.sound(), audio_lm.sound(1.7, seed=1)]
    else:
        kind, paths = "image", [tmp_path / "a" / "page.png", tmp_path / "b" / "page.png"]
        for seed, path in enumerate(paths):
            path.parent.mkdir()
            vlm.picture(seed=seed).save(path)
    messages = vlm.question(*paths, text="The tree is red. " + QUESTION, kind=kind)
    cited = joined.cite(messages=messages, answer="the cat .", verify=9)
    names = ("sound 1", "sound 2") if kind == "audio" else ("page.png", "page.png (2)")
    assert cited.names == cited.documents == names
    assert [message.name for message in cited.messages] == [*names, "user"]
    places = [cited.text[message.start : message.end] for message in cited.messages]
    assert places[0] == places[1] != ""
    assert len(cited.losses) == 2
    assert Citations.from_dict(cited.to_dict()) == cited


def test_a_question_about_a_picture_is_no_source_of_its_answer():
    cited = explainer("llava").cite(messages=vlm.question(vlm.picture()), answer="the cat .", verify=0)
    assert cited.names == ("picture 1",)
    assert "does not tell whether an answer rests on it" in cited.notes[-1]
    sound = explainer("qwen2_audio").cite(messages=audio_lm.question(audio_lm.sound()), answer="the cat .", verify=1)
    assert sound.names == ("sound 1",)
    unread = explainer("llava").cite(messages=audio_lm.question(audio_lm.sound()), answer="the cat .", verify=0)
    assert unread.names == ("user:1",)
    assert "part of type 'audio', which is not read" in unread.notes[0]


def test_pictures_among_documents_are_sources(tmp_path):
    first, second = vlm.picture(), vlm.picture(seed=1)
    second.save(tmp_path / "page.png")
    documents = [first, tmp_path / "page.png", "The cat is red. The tree is on the left."]
    cited = explainer("llava").cite(QUESTION, documents, answer="the tree .", verify=99)
    assert cited.documents == ("document 1", "document 1", "picture 1", "page.png")
    asked = partial(vlm.question, text=f"{documents[-1]}\n\nQuestion: {QUESTION}")
    check_losses("llava", cited, asked, {"picture 1": first, "page.png": second})
    by_name = explainer("llava").cite(QUESTION, {"scan": first, "page": tmp_path / "page.png"}, answer="the tree .")
    assert by_name.names == ("scan", "page")
    part = {"type": "image", "image": first}
    for one in (first, iter([first]), [part], [{"image": first}]):
        alone = explainer("llava").cite(QUESTION, one, answer="the tree .", verify=0)
        assert alone.names == ("picture 1",)
    named = explainer("llava").cite(QUESTION, {"page:1": first, "notes": "The cat is red."}, answer="the tree .")
    assert named.documents == ("notes", "page:1")
    with pytest.raises(InputError, match="document 1 is the name of a file; pathlib"):
        explainer("llava").cite(QUESTION, [str(tmp_path / "page.png")], answer="the tree .")


def test_pictures_among_documents_of_a_model_of_texts_are_refused():
    tokenizer = tiny.letters()
    reader = Explainer(tiny.model("llama", "CausalLM", vocab_size=100), tokenizer)
    refused(InputError, "no chat template", lambda: reader.cite(QUESTION, [vlm.picture()], answer="the tree ."))
    tokenizer.chat_template = tiny.CHAT_TEMPLATE
    with pytest.raises(InputError, match="reads texts alone, and a message holds a picture"):
        Explainer(reader.model, tokenizer).cite(QUESTION, [vlm.picture()], answer="the tree .")
