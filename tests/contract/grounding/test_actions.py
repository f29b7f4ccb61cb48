"""Calls of tools as answers: the parts of the call in any chat template, and which of what was said they rest on."""

import json
from functools import partial

import numpy as np
import pytest
import torch

import normxlogit
from normxlogit import Explainer, InputError
from normxlogit.grounding import Citations
from tests import tiny
from tests.contract.compare import refused
from tests.contract.grounding.test_conversations import NATIVE, TEMPLATES, TRACE, sources_of

ARGUMENTS = {"movie": 'the "cat"', "charm": 42, "here": True, "keys": ["here", {"there": None}], "empty": ""}
CALL = {"type": "function", "function": {"name": "search", "arguments": ARGUMENTS}}
AGENT = [*TRACE[:4], {"role": "assistant", "content": None, "tool_calls": [CALL]}]
RESULTS_ALONE = NATIVE.replace("m.tool_calls or []", "[]")
REPEATED = "{% for m in messages %}{{ m.content * 2 }}{% endfor %}"
PYTHON = NATIVE.replace("c.function.arguments | tojson", "c.function.arguments")


HERMES = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
LLAMA = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}"
    "{{ raise_exception('one call at once') }}{% endif %}{% set f = m.tool_calls[0].function %}"
    '{"name": "{{ f.name }}", "parameters": {{ f.arguments | tojson }}}{% else %}{{ m.content }}{% endif %}<|eot|>'
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
MISTRAL = (
    "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }}[/INST]{% elif m.tool_calls %}[TOOL_CALLS] "
    '[{% for c in m.tool_calls %}{{ (c.function | tojson)[:-1] }}, "id": "{{ c.id }}"}{{ \', \' if not loop.last }}'
    "{% endfor %}]</s>{% elif m.role == 'tool' %}[TOOL_RESULTS] {{ m.content }}[/TOOL_RESULTS]"
    "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
)
BEGINNINGS = {HERMES: '<tool_call>\n{"name":', LLAMA: '{"name":', MISTRAL: '[TOOL_CALLS] [{"name":'}
"""What templates of well-known models write before the name of a tool."""


def made(template, scale=4.0):
    """Return a model whose tokens are characters and a mark, so that every part of a call has its own."""
    tokenizer = tiny.letters()
    tokenizer.add_special_tokens({"additional_special_tokens": ["[TOOL_CALLS]"]})
    tokenizer.chat_template = template
    model = tiny.model("llama", "CausalLM", vocab_size=100, max_position_embeddings=1200, scale=scale)
    return Explainer(model, tokenizer)


def parts_of(cited):
    return {target.name: cited.text[slice(*target.span)] for target in cited.attribution.targets}


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_parts_of_a_call_are_its_name_and_the_values_of_its_arguments(name):
    template, plain = TEMPLATES[name]
    cited = made(template).cite(messages=AGENT, verify=0)
    values = {"movie": 'the \\"cat\\"', "charm": "42", "here": "true", "keys": '["here", {"there": null}]'}
    beginning = {"a call": "("} if "( search" in cited.answer else {}
    assert parts_of(cited) == {**beginning, "search": "search", **values}
    assert cited.answer.strip(" \n(,").startswith("search")
    assert cited.answer.rstrip(")} ").endswith('"empty": ""')
    named = sources_of(cited)
    assert named["user:1"] == "Was the movie good?"
    assert named["tool result search:plot"] == '"plot": "very good"'
    assert not any('"cat\\"' in text for text in named.values())
    rendered = [note for note in cited.notes if "plain text" in note]
    assert bool(rendered) == (plain is not None or name == "one tool call")


def test_values_are_found_as_the_template_writes_them():
    cited = made(PYTHON).cite(messages=AGENT[:2], action=CALL, verify=0)
    assert "{'movie': 'the \"cat\"'" in cited.answer
    assert parts_of(cited)["here"] == "True"
    text_alone = {"function": {"name": "search", "arguments": "the cat"}}
    cited = made(NATIVE).cite(messages=AGENT[:4], action=text_alone, verify=0)
    assert parts_of(cited) == {"a call": "(", "search": "search", "arguments": "the cat"}
    same_names = {"name": "keys", "arguments": {"keys": "QXZ", "Q": "ZXQ", "n": -1.5}}
    cited = made(NATIVE).cite(messages=AGENT[:4], action=same_names, verify=0)
    assert parts_of(cited) == {"a call": "(", "keys": "keys", "keys (2)": "QXZ", "Q": "ZXQ", "n": "-1.5"}
    hostile = {"name": "a\x1b[31m\nb", "arguments": {"\x1b]0;x\x07": "<b id>\u202e", "</s>": "</s>"}}
    cited = made(NATIVE).cite(messages=AGENT[:4], action=hostile, verify=1)
    assert "\x1b" not in str(cited)
    assert "<b id>" not in cited.to_html()


def test_a_call_is_named_by_its_place_its_tool_or_itself():
    explainer = made(NATIVE)
    said_later = [{"role": "tool", "content": "The cat is here."}, {"role": "assistant", "content": "The cat."}]
    cite = partial(explainer.cite, verify=0)
    last = cite(messages=AGENT)
    as_text = {"name": "search", "arguments": json.dumps(ARGUMENTS)}
    for messages, action in ((AGENT, -1), (AGENT, 1), (AGENT, "search"), (AGENT[:4], CALL), (AGENT[:4], as_text)):
        assert cite(messages=messages, action=action) == last
    earlier = cite(messages=[*AGENT, *said_later], action=-1)
    assert "messages after the call are not read (2)" in earlier.notes
    np.testing.assert_array_equal(earlier.attribution.scores, last.attribution.scores)
    assert cite(messages=[*AGENT, *said_later]).answer.strip() == "The cat."
    assert cite(messages=AGENT, answer="The cat.").answer.strip() == "The cat."
    first = cite(messages=AGENT, action=0)
    assert parts_of(first) == {"a call": "(", "search": "search", "movie": "the cat"}
    assert first.question == "Was the movie good?"
    text_before = [*AGENT[:2], {"role": "assistant", "content": "The keys.", "tool_calls": [CALL, CALL]}]
    both = cite(messages=text_before)
    assert {"assistant:1", "tool call search:charm"} <= set(both.names)
    refused(InputError, "no call 2: the conversation calls search, search", lambda: cite(messages=AGENT, action=2))
    refused(InputError, "no call 'find'", lambda: cite(messages=AGENT, action="find"))
    refused(InputError, "no call True", lambda: cite(messages=AGENT, action=True))
    refused(InputError, "a call is", lambda: cite(messages=AGENT, action={"name": "search", "args": {}}))
    refused(InputError, "a call is", lambda: cite(messages=AGENT, action={"name": " ", "arguments": {}}))
    shown = {"role": "user", "content": [{"type": "image", "image": "map.png"}]}
    refused(InputError, "before the (answer|call)", lambda: cite(messages=[shown, AGENT[-1]]))
    refused(InputError, "the call is the first message", lambda: cite(messages=AGENT[4:]))
    refused(InputError, "pass one of them", lambda: cite(messages=AGENT, action=0, turn=0))
    refused(InputError, "pass one of them", lambda: cite(messages=AGENT, action=0, answer="The cat."))
    refused(InputError, "pass messages= with it", lambda: cite("Is it?", ["The cat."], action=0))
    refused(InputError, "reasoning= is of an answer", lambda: cite(messages=AGENT, reasoning=[(0, 1)]))
    refused(InputError, "about sentences", lambda: cite(messages=AGENT, rank=True))
    refused(InputError, "the call of search once and as it is", lambda: made(REPEATED).cite(messages=AGENT))
    not_rendered = made(RESULTS_ALONE).cite(messages=AGENT, verify=0)
    assert parts_of(not_rendered) == {name: text for name, text in parts_of(last).items() if name != "a call"}
    assert any("does not render tool calls" in note for note in not_rendered.notes)


def test_a_call_is_scored_and_tested_like_a_completion_in_these_parts():
    explainer = made(NATIVE)
    cited = explainer.cite(messages=AGENT, verify=99)
    prompt, shift = cited.text[: -len(cited.answer)], len(cited.text) - len(cited.answer)
    spans = dict(zip(cited.names, cited.spans, strict=True))
    parts = {target.name: (target.span[0] - shift, target.span[1] - shift) for target in cited.attribution.targets}
    same = explainer.explain_completion(prompt, cited.answer, sources=spans, parts=parts)
    occlusion = explainer.explain_completion(prompt, cited.answer, sources=spans, parts=parts, method="occlusion")
    assert [target.name for target in same.targets] == list(parts)
    if len(same.text) == len(cited.text):
        np.testing.assert_allclose(cited.attribution.scores, same.scores, rtol=1e-3, atol=1e-4)
    lost = occlusion.scores[:, occlusion.units.sources]
    np.testing.assert_allclose(cited.source_losses, lost, atol=1e-3)
    place = cited.names.index("user:1")
    assert cited.action.request == (place,)
    assert cited.action.request_loss == pytest.approx(float(lost[:, place].sum()), abs=1e-3)
    removed = explainer.without(None, ["user:1"], messages=AGENT)
    assert removed.original - removed.value == pytest.approx(cited.action.request_loss, abs=1e-3)


def test_what_is_said_of_a_call_was_measured():
    said = set()
    for scale, messages in ((8.0, AGENT), (6.0, AGENT), (8.0, [*AGENT[1:2], *AGENT[4:]])):
        explainer = made(NATIVE, scale=scale)
        cited = explainer.cite(messages=messages)
        first = cited.top(1)[0]
        assert f"{first.name} " in cited.summary
        assert f"({first.share:.0%} of the evidence)" in cited.summary
        is_cause = first.nats > 1
        losses = np.nan_to_num(cited.source_losses, nan=-np.inf)  # (parts of the call, sources)
        of_each = all(part[first.source] == part.max() for part in losses if part.max() > 1)
        assert ("is called because of" in cited.summary) == (is_cause and of_each)
        assert ("loses most without" in cited.summary) == (is_cause and not of_each)
        is_other = is_cause and first.source not in cited.action.request
        assert ("without the user's request" in cited.summary) == is_other
        assert all(support.judgement == "rests on" for support in cited.support)
        untested = explainer.cite(messages=messages, verify=0)
        assert "rests most on" in untested.summary
        assert np.isnan(untested.action.request_loss)
        said.add((is_cause, of_each))
    assert {(True, True), (True, False)} < said
    by_message = explainer.cite(messages=AGENT, verify="message")
    name, loss = max(by_message.losses.items(), key=lambda item: item[1])
    assert (f" {name} (" in by_message.summary) == (loss > 1)


def test_calls_are_saved_drawn_and_loaded(tmp_path):
    cited = made(NATIVE).cite(messages=AGENT)
    assert Citations.from_dict(json.loads(json.dumps(cited.to_dict()))) == cited
    for name in ("call.json", "call.parquet"):
        cited.save(tmp_path / name)
        assert normxlogit.load(tmp_path / name) == cited
    first = cited.to_dict()["sentences"][0]
    assert (first["part"], first["text"]) == ("a call", "(")
    for drawn in (str(cited), cited.to_html()):
        assert "What does each part of the call rest on?" in drawn
        assert "verdicts" not in drawn.splitlines()[0]
    assert "search" in cited.marked()


def log_probabilities(explainer, text):
    """Return the log-probabilities of the token behind each token of a text, (T, V), and the tokens."""
    ids = explainer.tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        return explainer.model(ids).logits[0].log_softmax(-1).double().numpy(), ids[0].tolist()


@pytest.mark.parametrize("template", BEGINNINGS)
def test_that_a_tool_is_called_at_all_is_a_part_with_the_probability_of_what_stands_before_its_name(template):
    explainer = made(template)
    cited = explainer.cite(messages=AGENT, verify=2)
    assert parts_of(cited)["a call"] == BEGINNINGS[template]

    def nats(prompt):
        logs, ids = log_probabilities(explainer, prompt + BEGINNINGS[template])
        first = len(explainer.tokenizer(prompt, add_special_tokens=False)["input_ids"])
        return sum(logs[place - 1, ids[place]] for place in range(first, len(ids)))

    prompt = cited.text[: -len(cited.answer)]
    assert cited.tested.original.values[0] == pytest.approx(nats(prompt), abs=1e-3)
    source = cited.tested.single[0]
    start, end = cited.spans[cited.names.index(source.units[0])]
    assert source.values[0] == pytest.approx(nats(prompt[:start] + prompt[end:]), abs=1e-3)
    assert "that any tool is called has a probability of under 1%, under 1% without" in cited.summary
    assert "any tool" not in explainer.cite(messages=AGENT, verify=0).summary


OTHERS = {
    "The keys.": ("a call", 'search, not the answer "The keys."'),
    '{"name": "seal", "arguments": {}}': ("search", "search, not seal"),
    '{"name": "search", "arguments": {"movie": "the \\"dog"}}': ("movie", "search, not another call of search"),
}


@pytest.mark.parametrize("template", [NATIVE, *BEGINNINGS, tiny.CHAT_TEMPLATE, None])
@pytest.mark.parametrize("other", OTHERS)
def test_a_call_against_another_answer_is_explained_where_the_two_part(template, other):
    explainer, contrast = made(template), json.loads(other) if other.startswith("{") else other
    cited = explainer.cite(messages=AGENT, contrast=contrast, verify=1)
    part, names = OTHERS[other]
    has_beginning = template in (NATIVE, *BEGINNINGS)
    assert list(parts_of(cited)) == [part if has_beginning or part != "a call" else "search"]
    assert cited.summary.startswith(f"{names}: where they part (")
    own, others = cited.action.tokens
    assert own != others
    start = cited.attribution.targets[0].span[0]
    first = {"search": "r", "movie": "c"}.get(part) if isinstance(contrast, dict) else None
    place = cited.text.index(first, start) if first else start
    own_text = "[TOOL_CALLS]" if cited.text[place:].startswith("[TOOL_CALLS]") else cited.text[place]
    own_id, other_id = explainer.tokenizer.convert_tokens_to_ids([own_text, {"␣": " "}.get(others, others)])

    def odds(before):
        logs, _ = log_probabilities(explainer, before)
        return logs[-1, own_id] - logs[-1, other_id]

    before = cited.text[:place]
    assert cited.action.odds == pytest.approx(odds(before), abs=1e-3)
    (name, loss), *_ = cited.losses.items()
    first, last = cited.spans[cited.names.index(name)]
    odds_without = odds(before[:first] + before[last:])
    assert loss == pytest.approx(odds(before) - odds_without, abs=1e-3)
    assert (", because of" in cited.summary) == (loss > 1 and odds_without <= 0 < cited.action.odds)
    assert ("it loses most without" in cited.summary) == (loss > 1 and not odds_without <= 0 < cited.action.odds)
    assert Citations.from_dict(json.loads(json.dumps(cited.to_dict()))) == cited
    assert "What does the difference rest on?" in str(cited)


def test_the_scores_of_a_call_against_another_answer_are_those_of_the_two_tokens():
    explainer, contrast = made(NATIVE), {"name": "seal", "arguments": {}}
    cited = explainer.cite(messages=AGENT, contrast=contrast, verify=0)
    before = cited.text[: cited.text.rindex("search {") + 3]
    spans = dict(zip(cited.names, cited.spans, strict=True))
    same = explainer.explain_completion(before, "r", contrast="l", sources=spans)
    sources = same.scores[same.units.sources]
    np.testing.assert_allclose(cited.attribution.scores[0, cited.sources], sources, rtol=1e-3, atol=1e-4)
    assert "that rests most on" in cited.summary
    tested = explainer.cite(messages=AGENT, contrast=contrast, verify=99)
    left_out = explainer.cite(messages=AGENT, contrast=contrast, method="occlusion", verify=0)
    np.testing.assert_allclose(left_out.attribution.scores, tested.source_losses, atol=1e-3)
    by_norm = explainer.cite(messages=AGENT, contrast=contrast, method="normxlogit", verify=0)
    same = explainer.explain_completion(before, "r", contrast="l", sources=spans, method="normxlogit")
    sources = same.scores[same.units.sources]
    np.testing.assert_allclose(by_norm.attribution.scores[0, by_norm.sources], sources, rtol=1e-3, atol=1e-4)


def test_what_cannot_be_compared_with_a_call_is_refused_in_a_line():
    explainer = made(NATIVE)
    cite = partial(explainer.cite, verify=0)
    refused(InputError, "differ nowhere", lambda: cite(messages=AGENT, contrast=CALL))
    refused(InputError, "an answer in words, or a call", lambda: cite(messages=AGENT, contrast=" "))
    refused(InputError, "an answer in words, or a call", lambda: cite(messages=AGENT, contrast=1))
    refused(InputError, "a call is", lambda: cite(messages=AGENT, contrast={"tool": "search"}))
    refused(InputError, "the answer is a text", lambda: cite(messages=TRACE, contrast="The cat."))
    refused(InputError, "pass messages= with it", lambda: cite("Is it?", ["The cat."], contrast="The cat."))


def test_a_call_that_rests_on_the_reasoning_before_it_says_what_that_rests_on():
    explainer = made(HERMES, scale=8.0)
    last = {**AGENT[-1], "content": "The keys.", "reasoning_content": "Very good plot. The cat is there."}
    messages = [*AGENT[:-1], last]
    cited = explainer.cite(messages=messages, verify=["reasoning (2):2"])
    assert parts_of(cited)["a call"] == '<tool_call>\n{"name":'
    assert cited.text[: -len(cited.answer)].endswith("The keys.")
    name, loss = cited.action.own_words
    assert "these words of its own are " in cited.summary
    start, end = cited.text.index("Very good plot."), cited.text.index("The cat is there.") + len("The cat is there.")
    prompt, spans = cited.text[:start], dict(zip(cited.names, cited.spans, strict=True))
    before = {source: span for source, span in spans.items() if span[1] <= start}
    occlusion = explainer.explain_completion(prompt, cited.text[start:end], sources=before, method="occlusion")
    losses = dict(zip(before, occlusion.scores[0].tolist(), strict=True))
    assert name in before
    assert loss == pytest.approx(losses[name], abs=1e-2)
    assert Citations.from_dict(json.loads(json.dumps(cited.to_dict()))) == cited
    assert explainer.cite(messages=messages, verify=["user:1"]).action.own_words is None
    assert explainer.cite(messages=messages, verify=0).action.own_words is None
    without_content = {**last, "content": None}
    cited = explainer.cite(messages=[*AGENT[:-1], without_content], verify=0)
    assert cited.answer.strip().startswith("<tool_call>")


def test_calls_in_one_message_without_arguments_and_after_results_in_parts_are_told_apart():
    explainer = made(NATIVE)
    cite = partial(explainer.cite, verify=0)
    twice = [*AGENT[:2], {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]}]
    first, second = cite(messages=twice, action=0), cite(messages=twice)
    assert parts_of(second)["search"] == parts_of(first)["search"] == "search"
    assert {"tool call search:charm"} <= set(second.names) - set(first.names)
    assert not any("plain text" in note for note in second.notes)
    alone = {"function": {"name": "find", "arguments": None}}
    listed = cite(messages=AGENT[:4], action=alone)
    assert parts_of(listed) == {"a call": "(", "find": "find"}
    parts = [{"type": "text", "text": "The plot is good."}, {"type": "text", "text": "Now find the keys."}]
    results = [
        {"role": "tool", "name": "search", "content": parts},
        {"role": "tool", "name": "search", "content": "Bad."},
    ]
    named = sources_of(cite(messages=[*AGENT[:3], *results], action=alone))
    assert named["tool result search:2"] == "Now find the keys."
    assert named["tool result search (2):1"] == "Bad."
    refused(InputError, "in another way before contrast=", lambda: cite(messages=twice, contrast="The keys."))
    by_mistral = partial(made(MISTRAL).cite, messages=twice, contrast="The keys.", verify=0)
    refused(InputError, "does not write contrast= in the place", by_mistral)
