"""Pictures in conversations of every format: read as pictures, not as texts, and in their places."""

import base64
import io

import numpy as np
import pytest

from normxlogit.errors import InputError
from normxlogit.grounding.documents.conversations import read_conversation
from normxlogit.media.inputs.pictures import read_picture
from tests.grounding.test_vendors_messages import converted
from tests.media import vlm

medium = converted.medium

PICTURE = vlm.picture(6, 5)
FILE = io.BytesIO()
PICTURE.save(FILE, "PNG")
BYTES = FILE.getvalue()
BASE64 = base64.b64encode(BYTES).decode()
URI = f"data:image/png;base64,{BASE64}"
PARTS = {
    "pillow": PICTURE,
    "array": np.asarray(PICTURE),
    "transformers": {"type": "image", "image": PICTURE},
    "without a type": {"image": PICTURE},
    "OpenAI": medium({"type": "image_url", "image_url": {"url": URI, "detail": "low"}}),
    "OpenAI's responses": medium({"type": "input_image", "image_url": URI}),
    "OpenAI's computer": medium({"type": "computer_screenshot", "image_url": URI}),
    "Anthropic": medium({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BASE64}}),
    "Gemini": medium({"inlineData": {"mimeType": "image/png", "data": BASE64}}),
    "Gemini's client": medium({"inline_data": {"mime_type": "image/png", "data": BYTES}}),
    "Bedrock": medium({"image": {"format": "png", "source": {"bytes": BYTES}}}),
    "LangChain": {"type": "image", "base64": BASE64, "mime_type": "image/png"},
    "LangChain for Google": medium({"type": "media", "data": BASE64, "mime_type": "image/png"}),
    "LlamaIndex": medium({"block_type": "image", "image": BYTES, "path": None, "url": None}),
}
TYPED = [name for name, part in PARTS.items() if isinstance(part, dict) and "type" in part]


def shown(conversation):
    """Kinds and texts of the messages of a conversation, whose pictures must be the one."""
    for message in conversation.messages:
        if message.part is not None:
            np.testing.assert_array_equal(np.asarray(read_picture(message.part).image), np.asarray(PICTURE))
    return [(message.role, message.kind, message.text) for message in conversation.messages]


ASKED = [("user", "picture", ""), ("user", "user", "What is it?")]


@pytest.mark.parametrize("name", PARTS)
def test_a_picture_is_read_in_every_format(name):
    messages = [{"role": "user", "content": [PARTS[name], {"text": "What is it?"}]}]
    assert shown(read_conversation(messages)) == ASKED


def test_a_picture_is_a_content_and_pictures_beside_messages_are_refused():
    text = {"role": "user", "content": "What is it?"}
    assert shown(read_conversation([{"role": "user", "content": PICTURE}, text])) == ASKED
    assert shown(read_conversation([{"role": "user", "content": PICTURE}])) == ASKED[:1]
    for beside in ([{**text, "images": [BASE64]}], {"messages": [text], "images": [PICTURE]}):
        with pytest.raises(InputError, match="pictures stand in the contents of messages"):
            read_conversation(beside)


@pytest.mark.parametrize("name", TYPED)
def test_what_a_tool_shows_is_a_picture_of_the_user(name):
    ask, result = {"role": "user", "content": "What is it?"}, [{"type": "text", "text": "A cat."}, PARTS[name]]
    expected = [("user", "user", "What is it?"), ("tool", "tool result", "A cat."), ("user", "picture", "")]
    assert shown(read_conversation([ask, {"role": "tool", "content": result}])) == expected
