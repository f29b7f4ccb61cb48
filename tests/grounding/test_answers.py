"""Answers as clients return them, by hand-written examples as the packages' own objects are dumped."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from normxlogit.grounding.documents.answers import answer_text, piece_text, question_text

from tests.inputs.test_conversations import ANSWER, ANTHROPIC, COMPLETION, LANGCHAIN, LLAMA_INDEX, OTEL_OUTPUT, SAYS

THOUGHT = {"type": "thinking", "thinking": "It is cold."}


@dataclass
class TextContent:
    text: str


class HaystackMessage:
    def __init__(self, text: str) -> None:
        self.role, self._content, self.text = "assistant", [TextContent(text)], text


@pytest.mark.parametrize(
    "answer",
    [
        SAYS,
        COMPLETION,
        COMPLETION["choices"][0],
        {"output": [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}, {"content": ANSWER}]},
        ANTHROPIC[-1] | {"content": [THOUGHT, *ANTHROPIC[-1]["content"]]},
        ANTHROPIC[-1]["content"],
        LANGCHAIN[-1],
        LLAMA_INDEX[-1],
        {"message": LLAMA_INDEX[-1], "delta": "clear."},
        {"text": SAYS, "additional_kwargs": {}, "delta": "clear."},
        {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}, {"text": SAYS}], "role": "model"}}]},
        {"replies": [{"role": "assistant", "content": [{"text": SAYS}]}]},
        {"context": [{"page_content": "no"}], "input": "no", "answer": SAYS},
        SimpleNamespace(data=SAYS, query="no", documents=[]),
        OTEL_OUTPUT,
    ],
)
def test_the_text_of_an_answer(answer) -> None:
    assert answer_text(answer) == SAYS


def test_what_has_no_text_is_unchanged() -> None:
    for answer in (None, 3, [1, 2], np.array([1, 2]), torch.tensor([1, 2]), {"input_ids": [1]}, b"a", iter(["a"]), []):
        assert answer_text(answer) is answer
    assert piece_text(1) == 1


@pytest.mark.parametrize(
    "chunks",
    [
        [{"choices": [{"delta": delta}]} for delta in ({"role": "assistant", "content": ""}, {"content": "It "}, {})]
        + [{"choices": [{"delta": {"content": "is."}}]}, {"choices": [], "usage": {"total_tokens": 3}}],
        [
            {"type": "message_start", "message": {"role": "assistant", "content": []}},
            {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "It is."}},
            {"type": "text", "text": "It is.", "snapshot": "It is."},
            {"type": "message_stop", "message": {"role": "assistant", "content": [{"type": "text", "text": "It is."}]}},
        ],
        [
            {"type": "response.reasoning_summary_text.delta", "delta": "hm"},
            {"type": "response.output_text.delta", "delta": "It is."},
            {"type": "response.output_text.done", "text": "It is."},
            {"type": "response.completed", "response": {"output_text": "It is."}},
        ],
        [{"text": "It ", "delta": "It "}, {"text": "It is.", "delta": "is."}],
        [{"type": "AIMessageChunk", "content": "It "}, {"type": "AIMessageChunk", "content": "is."}],
        [SimpleNamespace(content="It ", meta={}), SimpleNamespace(content="is.", meta={})],
        ["It ", "is."],
    ],
    ids=["openai", "anthropic", "responses", "llamaindex", "langchain", "haystack", "texts"],
)
def test_the_texts_of_chunks_are_the_answer(chunks) -> None:
    assert "".join(map(piece_text, chunks)) == "It is."


def test_the_text_of_a_message_that_is_a_question() -> None:
    assert question_text(HaystackMessage("Is it?")) == "Is it?"
    for questions in (["a", "b"], ("a", "b"), None, "a", {"text": "a"}):
        assert question_text(questions) is questions
