"""Prompts, settings of generation, documents and rows as people have them, against the model's own answer."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import transformers

from normxlogit import Explainer, InputError, UnsupportedModelError
from tests import tiny
from tests.abilities import GREEDY_OR_OPEN, needs
from tests.contract.compare import present, refused, total
from tests.contract.test_containers import CONTAINERS

TEMPLATE = (
    "{% if tools %}{{ tools[0].function.name }} {% endif %}{% if documents %}{{ documents[0].text }} {% endif %}"
    "{% for m in messages %}! {{ '' + m['content'] }} . {% endfor %}{% if thinking %}never {% endif %}a cat :"
)
TOOL = {"type": "function", "function": {"name": "movie", "parameters": {}}}
QUESTION = [{"role": "user", "content": "is it good ?"}]


@pytest.fixture(scope="module")
def gpt2() -> Explainer:
    tokenizer = tiny.tokenizer_for("gpt2")
    tokenizer.chat_template = TEMPLATE
    return Explainer(tiny.model("gpt2", "CausalLM"), tokenizer)


class Dumped(SimpleNamespace):
    """A message that is iterated and dumped as pydantic's are."""

    def model_dump(self, **_):
        return dict(vars(self))

    def __iter__(self):
        return iter(vars(self).items())


@pytest.mark.parametrize(
    "message",
    [Dumped(**QUESTION[0], refusal=None, tool_calls=None), SimpleNamespace(**QUESTION[0]), QUESTION[0]],
    ids=["dumped, as OpenAI's", "of attributes", "a dictionary"],
)
def test_messages_are_read_as_objects_and_a_single_one_as_a_chat(gpt2, message) -> None:
    expected = gpt2.generate(QUESTION, max_new_tokens=2)
    for prompt in ([message], (message,), message, {"messages": [message]}):
        assert gpt2.generate(prompt, max_new_tokens=2) == expected
        assert gpt2.explain_completion(prompt, "the movie").prompt == expected.prompt
        assert gpt2(prompt).text == expected.prompt
    first, second = gpt2.generate([[message], QUESTION], max_new_tokens=2)
    assert first == second


TOOLS = (
    "{% for m in messages %}{{ m.role }} {{ m.content or '' }} {% for call in m.tool_calls or [] %}"
    "{{ call.function.name }} {{ call.function.arguments.plot }} {% endfor %}. {% endfor %}a cat :"
)
FUNCTION = {"name": "movie", "arguments": {"plot": "bad"}}
CALLED = [
    {"role": "user", "content": "is it good ?"},
    {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": FUNCTION}]},
    {"role": "tool", "name": "movie", "tool_call_id": "c", "content": "never"},
]


def test_calls_and_results_of_tools_are_written_by_the_template() -> None:
    tokenizer = tiny.tokenizer_for("gpt2")
    tokenizer.chat_template = TOOLS
    explainer = Explainer(tiny.model("gpt2", "CausalLM"), tokenizer)
    for messages in (CALLED, [Dumped(**{"content": None, **message}) for message in CALLED]):
        expected = tokenizer.apply_chat_template(CALLED, tokenize=False)
        assert explainer.generate(messages, max_new_tokens=2).prompt == expected


@pytest.mark.parametrize(
    ("beside", "prompt"),
    [
        ({"tools": [TOOL]}, "movie ! is it good ? . a cat :"),
        ({"documents": [{"title": "x", "text": "bad plot"}]}, "bad plot ! is it good ? . a cat :"),
        ({"chat_template_kwargs": {"thinking": True}}, "! is it good ? . never a cat :"),
    ],
)
def test_what_a_template_is_given_beside_messages_is_read(gpt2, beside, prompt) -> None:
    conversation = {"messages": QUESTION, **beside}
    text = gpt2.tokenizer.apply_chat_template(
        QUESTION, tokenize=False, add_generation_prompt=True, **beside.get("chat_template_kwargs", beside)
    )
    assert text == prompt
    one, other = gpt2.generate([conversation, {"messages": QUESTION}], max_new_tokens=2)
    assert (one.prompt, other.prompt) == (prompt, "! is it good ? . a cat :")
    assert gpt2(conversation).text == prompt
    assert gpt2.explain_completion(conversation, "the movie").prompt == prompt
    assert gpt2.explain_completion(conversation, "the movie", sources="message").units.name[:-2] == ("user",)
    for name in ("tools", "documents", "chat_template_kwargs"):
        refused(InputError, "a prompt with it is a mapping", partial(gpt2.generate, QUESTION, **{name: []}))
    tool = {"messages": QUESTION, "tool": []}
    refused(InputError, "tools, documents, chat_template_kwargs", lambda: gpt2.generate(tool))


def test_messages_of_text_parts_and_spans_in_them(gpt2) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "the movie is good . is it ?"}]}]
    plain = [{"role": "user", "content": "the movie is good . is it ?"}]
    np.testing.assert_array_equal(
        gpt2.generate(parts, max_new_tokens=2).scores, gpt2.generate(plain, max_new_tokens=2).scores
    )
    given = {"sources": {"film": (0, 0, 19)}}
    by_parts = gpt2.explain_completion(parts, "it is good .", **given)
    assert by_parts.units.names[0] == "film"
    np.testing.assert_array_equal(by_parts.scores, gpt2.explain_completion(plain, "it is good .", **given).scores)


def test_several_sequences_are_the_models_own(gpt2) -> None:
    prompts, settings = ["the movie is", "a cat"], {"num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 3}
    results = gpt2.generate(prompts, **settings)
    expected = []
    for prompt in prompts:
        inputs = gpt2.tokenizer(prompt, return_tensors="pt")
        written = gpt2.model.generate(**inputs, **settings, do_sample=False, pad_token_id=0)
        expected += [row[row != 0].tolist() for row in written]
    assert [list(result.token_ids) for result in results] == expected
    assert len(gpt2.generate(prompts[0], **settings)) == 2
    bart = tiny.explainer("bart", "Seq2SeqLM")
    assert len({result.completion for result in bart.generate("the movie is bad", **settings)}) == 2


def test_max_length_and_a_generation_config_say_how_much_is_written(gpt2) -> None:
    config = transformers.GenerationConfig(max_new_tokens=3, eos_token_id=60, pad_token_id=0)
    assert len(gpt2.generate("the movie is", max_length=5, eos_token_id=60).targets) == 2
    assert len(gpt2.generate("the movie is", generation_config=config).targets) == 3
    assert len(gpt2.generate("the movie is", generation_config=config, max_new_tokens=1).targets) == 1
    refused(InputError, "max_length=3 leaves no room", lambda: gpt2.generate("the movie is", max_length=3))


def test_stop_strings_get_the_tokenizer() -> None:
    letters = tiny.letters()
    explainer = Explainer(tiny.model("gpt2", "CausalLM", vocab_size=len(letters)), letters)
    written = explainer.generate("a b", max_new_tokens=6, eos_token_id=None).completion
    stopped = explainer.generate("a b", max_new_tokens=6, eos_token_id=None, stop_strings=[written[:2]]).completion
    assert stopped == written[:2]
    explainer.model.generation_config.stop_strings = [written[:2]]
    config = transformers.GenerationConfig(max_new_tokens=6, eos_token_id=60, pad_token_id=0)
    for settings in ({"max_new_tokens": 6}, {"generation_config": config}):
        alone, batched = (explainer.generate(prompts, **settings) for prompts in ("a b", ["a b", "a b c d"]))
        assert alone.completion == batched[0].completion == stopped
    given = explainer.explain_completion("a b", written, method="input-norm")
    assert given.completion == written, "what somebody else has written is explained whole"


def test_settings_of_the_model_that_a_configuration_of_the_call_leaves_open() -> None:
    """They stay in force, in a batch as alone; what is drawn is said to be greedy."""
    model, tokenizer = tiny.model("gpt2", "CausalLM"), tiny.tokenizer_for("gpt2")
    texts = ["bad", "the movie is not good"]

    def written(text: str, **settings) -> list[int]:
        ids = tokenizer(text, return_tensors="pt")
        return model.generate(**ids, max_new_tokens=5, do_sample=False, pad_token_id=0, **settings)[0].tolist()

    padding = written(texts[0])[1]  # what is answered without a penalty
    tokenizer.pad_token_id = model.config.pad_token_id = padding
    for name, value in {"repetition_penalty": 50.0, "do_sample": True, "pad_token_id": padding}.items():
        setattr(model.generation_config, name, value)
    explainer, config = Explainer(model, tokenizer), transformers.GenerationConfig(max_new_tokens=5)
    results = explainer.generate(texts, generation_config=config, method="input-norm")
    assert [list(result.token_ids) for result in results] == list(map(written, texts))
    assert all("greedily" in result.notes[0] for result in results)
    assert explainer.generate(texts[0], generation_config=config, do_sample=False).notes == ()


@needs(GREEDY_OR_OPEN)
def test_a_configuration_that_says_greedily_needs_no_note() -> None:
    model = tiny.model("gpt2", "CausalLM")
    model.generation_config.do_sample = True
    config = transformers.GenerationConfig(max_new_tokens=5, do_sample=False, pad_token_id=0)
    written = Explainer(model, tiny.tokenizer_for("gpt2")).generate("bad", generation_config=config)
    assert written.notes == ()


def test_what_the_tokenizer_puts_behind_a_prompt_is_left_out_with_a_note(gpt2) -> None:
    ending = Explainer(gpt2.model, tiny.tokenizer())  # [CLS] ... [SEP]
    written = ending.generate("bad", max_new_tokens=2)
    expected = ending.model.generate(torch.tensor([written.token_ids[:2]]), max_new_tokens=2, do_sample=False)
    assert written.tokens[:2] == ("[CLS]", "bad")
    assert list(written.token_ids) == expected[0].tolist()
    given = ending.explain_completion("bad", " movie")
    assert all("[SEP]" in result.notes[0] for result in (written, given))
    assert gpt2.generate("bad", max_new_tokens=2).notes == ()


class Excluding(torch.nn.Linear):
    """A head that gives some entries of the vocabulary no chance."""

    value = -np.inf

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        logits = super().forward(states)
        return torch.cat([logits[..., :50], torch.full_like(logits[..., 50:], self.value)], -1)


@pytest.mark.parametrize("value", [-np.inf, -1e9])
def test_a_logit_counts_from_the_mean_of_the_entries_that_the_head_does_not_exclude(value) -> None:
    model, tokenizer = tiny.model("gpt2", "CausalLM"), tiny.tokenizer_for("gpt2")
    head = Excluding(32, 64, bias=False)
    head.weight, head.value = model.lm_head.weight, value
    model.lm_head = head
    with torch.no_grad():
        logits = model(**tokenizer("the movie is", return_tensors="pt")).logits[0, -1, :50]
    explainer = Explainer(model, tokenizer)
    results = [explainer("the movie is", method=method) for method in present("frozen-gradient", "kernel-shap")]
    for result in (*results, explainer.generate("the movie is", max_new_tokens=1)):
        assert total(result) == pytest.approx(float(logits.max() - logits.mean()), abs=1e-4)


def test_a_row_of_a_question_and_its_context(tmp_path) -> None:
    explainer = tiny.explainer("bert", "QuestionAnswering")
    row = {"id": "7", "title": "film", "question": "what is it ?", "context": "the movie is good", "answers": {}}
    expected = explainer((row["question"], row["context"]))
    (framed,) = explainer(pd.DataFrame([row]).drop(columns="answers"))
    for result in (explainer(row), explainer([row])[0], framed):
        np.testing.assert_array_equal(result.scores, expected.scores)


@pytest.mark.parametrize("given", ["the cat sat", ["what is it ?", "the movie is good"]])
def test_a_question_without_a_context_is_refused(given) -> None:
    message = r"does not tell question from context, .* pass a tuple \(question, context\)"
    refused(InputError, message, lambda: tiny.explainer("bert", "QuestionAnswering")(given))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"temperature": 0.7}, "temperature= is for sampling"),
        ({"top_p": 0.9, "do_sample": False}, "top_p= is for sampling"),
        ({"inputs_embeds": torch.zeros(1, 2, 32)}, "inputs_embeds= is made of the prompt"),
        ({"attention_mask": torch.ones(1, 2)}, "attention_mask= is made of the prompt"),
    ],
)
def test_settings_of_generate_that_would_be_ignored_are_refused(settings, reason) -> None:
    explainer = tiny.explainer("llama", "CausalLM")
    refused(InputError, reason, lambda: explainer.generate("the cat", **settings))
    two = partial(explainer.generate, "the cat", max_new_tokens=2)
    assert two(temperature=0.0, top_p=1.0).token_ids == two().token_ids
    assert len(two(temperature=0.7, do_sample=True).targets) <= 2


def test_weights_in_parts_are_refused() -> None:
    model = tiny.model("bert")
    model.__class__ = type("Sharded", (type("FSDPModule", (), {}), type(model)), {})
    refused(UnsupportedModelError, "fully_shard", lambda: Explainer(model, tiny.tokenizer_for("bert")))


PROMPTS, COMPLETIONS = ["the cat sat", "a dog"], [" on the mat", " is good"]
TABLES = ("Arrow table", "data set", "streamed data set")


def tables(items, key):
    """The same column as each library holds it, behind a column of numbers."""
    return [make(items, key) for name, make in CONTAINERS.items() if "frame" in name or name in TABLES]


def test_a_table_of_prompts_is_its_column_of_texts_and_not_the_names_of_its_columns():
    writer = tiny.writer()
    expected = writer.generate(PROMPTS, max_new_tokens=3)
    for table in (*tables(PROMPTS, "prompt"), CONTAINERS["rows"](PROMPTS, "prompt")):
        results = writer.generate(table, max_new_tokens=3)
        assert [g.completion for g in results] == [g.completion for g in expected], type(table)
    expected = writer.explain_completion(PROMPTS, COMPLETIONS)
    pairs = zip(tables(PROMPTS, "prompt"), tables(COMPLETIONS, "completion"), strict=True)
    for prompts, completions in pairs:
        for result, by_lists in zip(writer.explain_completion(prompts, completions), expected, strict=True):
            assert result.completion == by_lists.completion, type(completions)
            np.testing.assert_allclose(result.scores, by_lists.scores, atol=1e-6)


def test_a_table_of_chats_is_its_chats():
    writer = tiny.writer(template=tiny.CHAT_TEMPLATE)
    chats = [[{"role": "user", "content": text}] for text in PROMPTS]
    expected = [g.completion for g in writer.generate(chats, max_new_tokens=3)]
    for table in (*tables(chats, "messages"), *tables(chats, "prompt")):
        assert [g.completion for g in writer.generate(table, max_new_tokens=3)] == expected, type(table)


def test_each_prompt_of_a_batch_ends_where_it_ends_alone(gpt2) -> None:
    prompts = ["the movie is", "a cat", "bad plot and wit", "once upon a time"]
    alone = [gpt2.generate(prompt, max_new_tokens=8, method="input-norm") for prompt in prompts]
    written = [list(result.token_ids)[result.prompt_tokens :] for result in alone]
    lengths = set()
    for end in sorted({token for ids in written for token in ids}):
        expected = [ids[: ids.index(end) + 1] if end in ids else ids for ids in written]
        together = gpt2.generate(prompts, max_new_tokens=8, method="input-norm", eos_token_id=end)
        assert [list(result.token_ids)[result.prompt_tokens :] for result in together] == expected
        lengths.add(len({*map(len, expected)}))
    assert max(lengths) > 1
