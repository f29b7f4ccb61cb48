"""From a question and documents to an answer with citations."""

from dataclasses import replace
from typing import Any

from ...errors import InputError
from ...leave_out.units import Together, Verify
from ...methods import Method
from ...model.task_model import TaskModel
from ...pipeline.completions.completed_prompts import Completed
from ...pipeline.completions.leave_out import with_completion_verification
from ...pipeline.completions.sources import explain_sources
from ...pipeline.options import Options
from ..result import Citations, of_targets
from .answers import Answered, read_answered
from .checking import checker_of, checks
from .losses import tested
from .reading import SentencesAfterPrompt
from .windows import read_in_windows

UNTESTED_MEDIA = (
    "the share of a picture or a sound does not tell whether an answer rests on it: verify= asks the model without it"
)
"""The note of citations with pictures or sounds that were not tested; measured in docs/results-pointing.md."""


def cite(
    model: TaskModel,
    question: str | None,
    documents: Any,
    *,
    method: Method,
    verify: Verify = 0,
    checker: Any = None,
    **arguments: Any,
) -> Citations:
    """Find the sentences of documents, or of a conversation, that each sentence of an answer rests on.

    The arguments are those of `Explainer.cite`; those that are not named here go to `read_answered`.
    """
    options = Options(method=method, verify=verify)
    if checker is not None and not verify:
        raise InputError("checker= is a second opinion on verdicts, and verify=0 gives none")
    checking = None if checker is None else checker_of(checker)
    cited = cite_answered(model, read_answered(model, question, documents, **arguments), options)
    return replace(cited, checks=checks(checking, cited)) if checking and cited.readings else cited


def cite_answered(model: TaskModel, answered: Answered, options: Options) -> Citations:
    """Find the sources that each sentence of an answer rests on, and verify them if the options ask for it.

    Args:
        model: A causal language model.
        answered: The question with its sources and the answer.
        options: How the sources are scored, and how many are left out to test them; `Together` asks only what the
            answer loses without these sources together.
    """

    def explain(completed: Completed, read: SentencesAfterPrompt) -> Citations:
        sources, count = completed.named_sources, len(read.sentences)
        explained = explain_sources(model, completed, options, sources, "sentence", token_weights=read.gains())
        return Citations(
            question=answered.question,
            attribution=of_targets(explained, range(count)),
            weighted_scores=explained.scores[count:] if len(explained.targets) > count else None,  # (K, U)
            messages=answered.messages,
        )

    def score(completed: Completed) -> dict[str, float]:
        cited = explain(completed, SentencesAfterPrompt(model, [completed], "sentence"))
        return dict(zip(cited.names, cited.evidence.scores[:, cited.sources].sum(0).tolist(), strict=True))

    completed, limit, verify = answered.completed, model.encoder.limit, options.verify
    if limit is not None and len(completed.encoding) > limit:
        if isinstance(verify, Together):
            raise InputError(f"prompt and answer have {len(completed.encoding)} tokens and the model reads {limit}")
        completed = read_in_windows(completed, limit, score)
    read = SentencesAfterPrompt(model, [completed], "sentence")
    cited = explain(completed, read)
    if not cited.concluding:
        raise InputError("the answer is all reasoning; max_new_tokens= lets the model write more")
    # Behind a reasoning that repeats the sources, no sentence would need them any more.
    concluded = completed.without_reasoning()
    read = read if concluded is completed else SentencesAfterPrompt(model, [concluded], "sentence")
    attribution, is_of_texts = cited.attribution, not completed.encoding.media
    if verify is not None and is_of_texts and not isinstance(verify, Together):  # verdicts have seen texts only
        cited = replace(cited, readings=read.readings(cited.quotations))
    if verify == "reasoning":
        attribution = with_completion_verification(model, completed, attribution, "reasoning")
    elif verify is not None:
        attribution = replace(attribution, verified=tested(model, concluded, cited, verify, read))
    elif not is_of_texts:
        attribution = replace(attribution, notes=(*attribution.notes, UNTESTED_MEDIA))
    return replace(cited, attribution=attribution)
