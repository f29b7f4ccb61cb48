"""`explainer.cite`: the sentences of documents, or of a conversation, that an answer rests on."""

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from typing_extensions import Unpack

from ..errors import InputError
from ..explainer import Explainer
from ..leave_out.picking import Verify
from ..methods.defaults import named_or_default
from ..pipeline.keywords import ByMethod, OfReasoning
from ..pipeline.options import Options
from ..pipeline.progress import progress_bar
from .checkers import checker_of
from .citations.cite import cite_answered
from .citations.cited_answer import read_answered
from .citations.ranked import with_ranking
from .result import Citations


class Cite(TypedDict, total=False):
    """Keywords of `explainer.cite`; each is None unless it is passed."""

    messages: Annotated[Any, "The messages of a conversation, as chat templates take them, or the path of their file."]
    turn: Annotated[
        int | None,
        "Which of the assistant's texts in the conversation is the answer, counted from 0; None for the last.",
    ]
    answer: Annotated[str | None, "The answer to be cited; None lets the model write one."]
    action: Annotated[
        int | str | Mapping[str, Any] | None,
        "The call of a tool in the conversation that is explained instead of a text: its place among the calls, from "
        "0, the name of the tool, whose last call is taken, or the call itself, which then follows the messages. None "
        "for a text, or for the call with which the conversation ends.",
    ]
    contrast: Annotated[
        str | Mapping[str, Any] | None,
        "What the call of a tool is explained against: an answer in words, or another call as a mapping. It is then "
        "the first token in which the two differ that is explained, and how much likelier it is than the other one.",
    ]
    reasoning: OfReasoning
    system: Annotated[str | None, "The system message; by default what the model's chat template puts there."]
    checker: Annotated[
        Any,
        "A second opinion: a `normxlogit.grounding.Checker`, or an explainer or a pipeline of a model whose labels say "
        "what they mean (entailment, supported, consistent, ...).",
    ]
    rank: Annotated[
        bool,
        "Whether to order the sentences as well, the most doubtful first: see `Citations.ranking`. The model reads a "
        "passage of the documents after each sentence, about four prompts' worth of tokens for ten sentences.",
    ]
    progress: Annotated[
        bool | None, "Whether to show progress on standard error; by default after a second, in a log after ten."
    ]
    method: ByMethod


ASKED = ("messages", "turn", "answer", "action", "contrast", "reasoning", "system")
"""The keywords that say whose answer is cited."""


def cite(
    explainer: Explainer,
    question: str | None = None,
    documents: Any = None,
    *,
    max_new_tokens: int = 200,
    verify: Verify = "auto",
    **options: Unpack[Cite],
) -> Citations:
    """Cite the sentences of documents that an answer rests on: the model's own answer, or a given one.

    Of a conversation (`messages`) the last answer is cited, and what was said before it are the sources, but the
    question. The default method takes one forward pass over the answer and two backward passes for each of its
    sentences.

    Args:
        question: The question.
        documents: Texts by name, a list of texts, files (`pathlib.Path`) or a retriever's documents: see
            `normxlogit.grounding.documents.documents`; pictures among them where the model reads them. None with a
            conversation.
        max_new_tokens: Most tokens of the model's own answer.
        verify: Measure for this many of the first sources what each sentence loses without them, one at a time;
            "auto" measures sources until the others can no longer come first, and the first one of each sentence, eight
            at most; "sentence" measures each, "paragraph" and "message" each paragraph and each document or message, 0
            none; a list names sources, documents or messages. But for 0, each sentence is also measured after each of
            the first documents alone, see `Citations.top_documents`. What it gains from all sources is measured in any
            case, and the verdicts follow.
        **options: Whose answer is cited and how, see `Cite`.

    Raises:
        InputError: If there is no question, document or answer, or they leave no room for an answer.
        MethodError: If the method does not exist or does not score sources.
        UnsupportedModelError: If the model is not a language model, or the method does not work on it.
    """
    checker, rank = checker_of(options.get("checker")), options.get("rank", False)
    model = explainer.language_model
    settings = Options(method=named_or_default(options.get("method"), "completions"), verify=verify)
    # None: how much there is to do is known only behind the answer, so steps are shares of the work.
    with progress_bar(None, options.get("progress"), "answering") as update:
        asked: dict[str, Any] = {name: value for name, value in options.items() if name in ASKED}
        answered = read_answered(model, question, documents, max_new_tokens=max_new_tokens, **asked)
        # Only now: whether the answer is a call is known when the conversation is read.
        if answered.prompt.call is not None and (checker is not None or rank):
            raise InputError("checker= and rank= are about sentences, and the answer is a call of a tool")
        if rank and answered.completed.encoding.media:
            raise InputError("rank= orders sentences by the words of their sources, and pictures and sounds have none")
        cited = cite_answered(model, answered, settings, checker, update)
        if rank:
            update(description="ordering the sentences")
            cited = with_ranking(model, cited)
    return cited
