"""Time of explanations beside the forward pass that the model runs anyway, with the bounds that it should keep."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import BertForMaskedLM, PreTrainedModel

from normxlogit import ALL
from normxlogit.errors import InputError
from normxlogit.evaluation.timing import Timing, in_turn
from normxlogit.explainer import Explainer
from normxlogit.inputs.batches import batches
from normxlogit.loading.load import AUTO, device_named, load
from paper.costs.random_models import random_bert, random_ids, reference_tokenizer

from .random_models import LLAMA2_7B, MINILM, SMOLLM2, language_model, random_texts
from .ratios import Row, row

__all__ = ["GROUPS", "LANGUAGE_MODELS", "Setup", "measure"]

PIPELINE_BATCH = 32
SHORT_PROMPT = 7
"""Tokens of a short prompt, where the first call's own work weighs most."""

STEPS = 50
"""Of Integrated Gradients, the paper's number."""

LANGUAGE_MODELS: Mapping[str, Mapping[str, Any]] = {
    "smollm2-135m": {},
    "llama-2-7b": {"llama": LLAMA2_7B, "prompt": 2048, "generated": 256},
}
"""Shapes of the causal language model and the lengths that go with them: what differs from `Setup`'s defaults."""


@dataclass(frozen=True)
class Setup:
    """Sizes of the measurement; the defaults are the ones that the bounds are given for.

    Attributes:
        rounds: Counted rounds.
        warmup: Rounds before them.
        lengths: Tokens of one text.
        bert: Changes to the configuration of BERT-base.
        minilm: Changes that make it MiniLM.
        llama: The configuration of the causal language model, SmolLM2-135M's by default.
        vocabulary: Vocabulary of the masked language model.
        masked_length: Tokens of its text.
        prompt: Tokens before the generated ones.
        generated: Generated tokens.
        short: Tokens where gradients and `from_outputs` are compared.
        long: Tokens where DecompX is compared.
        texts: A corpus of short texts; None makes one of random words with the lengths of SST-2's sentences.
        tell: Told which round is running.
    """

    rounds: int = 7
    warmup: int = 1
    lengths: tuple[int, ...] = (40, 120, 360, 512)
    bert: Mapping[str, Any] = field(default_factory=dict)
    minilm: Mapping[str, Any] = field(default_factory=lambda: MINILM)
    llama: Mapping[str, Any] = field(default_factory=lambda: SMOLLM2)
    vocabulary: int = 50_000
    masked_length: int = 128
    prompt: int = 256
    generated: int = 64
    short: int = 120
    long: int = 360
    texts: Sequence[str] | None = None
    tell: Callable[[str], None] | None = None

    def turns(self, *, before: Callable[[], Any] | None = None, **sides: Callable[[], Any]) -> dict[str, Timing]:
        """Time the sides in turn; `before` is called ahead of each round."""

        def on_round(number: int, count: int) -> None:
            if before is not None:
                before()
            if self.tell is not None:
                self.tell(f"round {number} of {count}")

        return in_turn(sides, rounds=self.rounds, warmup=self.warmup, on_round=on_round)


def measure(
    setup: Setup, names: Iterable[str] | None = None, *, on_progress: Callable[[str, int, int], None] | None = None
) -> Iterator[Row]:
    """Measure groups of rows, one after the other.

    Args:
        setup: Sizes and rounds.
        names: Which groups of `GROUPS`; all by default.
        on_progress: Called with what is running, groups done and groups in all.

    Raises:
        InputError: If there is no such group.
    """
    groups = list(GROUPS if names is None else names)
    for name in groups:
        if name not in GROUPS:
            raise InputError(f"no rows named {name!r}; there are {', '.join(GROUPS)}")
    show = on_progress or (lambda *_: None)
    for finished_groups, name in enumerate(groups):

        def tell(text: str, name: str = name, finished_groups: int = finished_groups) -> None:
            show(f"{name}, {text}", finished_groups, len(groups))

        torch.manual_seed(0)
        yield from GROUPS[name](replace(setup, tell=tell))
    show("done", len(groups), len(groups))


def _forward(model: PreTrainedModel, inputs: Mapping[str, Tensor], **options: Any) -> Callable[[], Any]:
    """Return a function that runs the bare forward pass."""

    @torch.inference_mode()
    def forward() -> Any:
        return model(**inputs, **options)

    return forward


def _forward_and_backward(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> Callable[[], Any]:
    """Return the model's own forward pass with the gradient of a logit by the word embeddings: the least work."""
    embeddings = model.get_input_embeddings()(inputs["input_ids"]).detach()
    others = {name: value for name, value in inputs.items() if name != "input_ids"}
    model.requires_grad_(False)

    def run() -> None:
        leaf = embeddings.clone().requires_grad_()
        torch.autograd.grad(model(inputs_embeds=leaf, **others).logits[0, 0], leaf)

    return run


def _sized(model: PreTrainedModel) -> str:
    """Return what a language model is called in the table, by its size."""
    count = model.num_parameters()
    return f"causal LM of {count / 1e9:.1f}B weights" if count >= 1e9 else f"causal LM of {count / 1e6:.0f}M weights"


# --- the rows ---------------------------------------------------------------------------------------------------------


def _one_text(setup: Setup) -> Iterator[Row]:
    """Compare explanations of one text of several lengths with the forward pass."""
    model = random_bert(setup.bert)
    explainer = Explainer(model, reference_tokenizer(), name="BERT-base, random weights")
    for length in setup.lengths:
        inputs = random_ids(length, model.config.vocab_size)
        times = setup.turns(
            forward=_forward(model, inputs),
            explain=partial(explainer, inputs, method="normxlogit"),
            labels=partial(explainer, inputs, method="normxlogit", target=ALL),
            layers=partial(explainer, inputs, method="normxlogit", layers=ALL),
            frozen=partial(explainer, inputs, method="frozen-gradient"),
            backward=_forward_and_backward(model, inputs),
        )
        text = f"one text of {length} tokens, BERT-base"
        yield row("one-text", f"{text}: NormXLogit / forward", times["explain"], times["forward"], 1.02)
        yield row("all-labels", f"{text}: all 3 labels / forward", times["labels"], times["forward"], 1.03)
        layers = f"{text}: all {model.config.num_hidden_layers} layers / forward"
        yield row("all-layers", layers, times["layers"], times["forward"], 1.15)
        yield row("frozen", f"{text}: frozen gradient / forward", times["frozen"], times["forward"], 2)
        plain = f"{text}: frozen gradient / forward and plain backward pass"
        yield row("frozen", plain, times["frozen"], times["backward"], 1.05)


def _masked(setup: Setup) -> Iterator[Row]:
    """Compare the explanation of one token of a masked language model with its pass, which computes all logits."""
    model = random_bert(dict(setup.bert) | {"vocab_size": setup.vocabulary}, BertForMaskedLM)
    tokenizer = reference_tokenizer()
    inputs = random_ids(setup.masked_length, setup.vocabulary)
    inputs["input_ids"][0, setup.masked_length // 2] = tokenizer.mask_token_id
    explainer = Explainer(model, tokenizer, name="BERT-base, random weights")
    state = torch.randn(1, model.config.hidden_size, device=model.device)  # (1, H)
    times = setup.turns(
        forward=_forward(model, inputs),
        explain=partial(explainer, inputs, target=setup.vocabulary // 3, method="normxlogit"),
        trunk=_forward(model.bert, inputs),
        prediction=torch.inference_mode()(partial(model.get_output_embeddings(), state)),
    )
    work = f"masked LM, vocabulary {setup.vocabulary}, {setup.masked_length} tokens: one target / forward"
    parts = times["trunk"], times["prediction"]
    yield row("masked-lm", work, times["explain"], times["forward"], 0.75, *parts)


def _next_token(setup: Setup) -> Iterator[Row]:
    """Compare the explanation of a next token with the forward pass that computes its logits alone."""
    model, tokenizer = language_model(setup.llama)
    explainer = Explainer(model, tokenizer, name="Llama, random weights")
    inputs = random_ids(setup.prompt, model.config.vocab_size)
    times = setup.turns(
        forward=_forward(model, inputs, logits_to_keep=1),
        explain=partial(explainer, inputs, method="normxlogit"),
        frozen=partial(explainer, inputs, method="frozen-gradient"),
    )
    work = f"{_sized(model)}, prompt of {setup.prompt} tokens: next token / forward with logits_to_keep=1"
    yield row("next-token", work, times["explain"], times["forward"], 1.03)
    yield row("next-token", f"{work}, frozen gradient", times["frozen"], times["forward"], 2)


def _generated(setup: Setup) -> Iterator[Row]:
    """Compare the explanation of all generated tokens with one forward pass over prompt and tokens."""
    model, tokenizer = language_model(setup.llama)
    explainer = Explainer(model, tokenizer, name="Llama, random weights")
    prompt = " ".join(["movie"] * (setup.prompt - 1))  # and the token that begins every text
    vocabulary = model.config.vocab_size
    written = torch.randint(vocabulary // 8, vocabulary // 2, (setup.generated,)).tolist()
    ids = torch.tensor(
        [explainer.explain_completion(prompt, written, method="normxlogit").token_ids], device=model.device
    )
    times = setup.turns(
        forward=_forward(model, {"input_ids": ids}),
        explain=lambda: explainer.explain_completion(prompt, written, method="normxlogit"),
    )
    tokens = f"{setup.generated} generated tokens on {setup.prompt}"
    work = f"{_sized(model)}, {tokens}: all explained / forward over the sequence"
    yield row("generated", work, times["explain"], times["forward"], 1.05)


def _first_call(setup: Setup) -> Iterator[Row]:
    """Measure the call that finds the parts of a model and proves them."""
    bert = random_bert(setup.bert)
    inputs = random_ids(min(setup.lengths), bert.config.vocab_size)
    name = f"BERT-base, {min(setup.lengths)} tokens"
    yield from _first_calls(setup, name, bert, reference_tokenizer(), inputs, {"normxlogit": 6, "frozen-gradient": 5})
    llama, tokenizer = language_model(setup.llama)
    inputs = random_ids(SHORT_PROMPT, llama.config.vocab_size)
    name = f"{_sized(llama)}, {SHORT_PROMPT} tokens"
    yield from _first_calls(setup, name, llama, tokenizer, inputs, {"normxlogit": 6, "frozen-gradient": 5})


def _first_calls(
    setup: Setup,
    name: str,
    model: PreTrainedModel,
    tokenizer: Any,
    inputs: Mapping[str, Tensor],
    bounds: dict[str, int],
) -> Iterator[Row]:
    """Compare the first call of methods on a model with the forward pass.

    Args:
        setup: Sizes and rounds.
        name: What the model and the input are called in the table.
        model: The model.
        tokenizer: Its tokenizer.
        inputs: What is explained.
        bounds: The methods, each with its bound.
    """

    def first(method: str) -> None:
        """Explain by a new explainer, which knows nothing of the model yet."""
        Explainer(model, tokenizer, name=name)(inputs, method=method)

    sides = {method: partial(first, method) for method in bounds}
    # Before each round, the copies of the model that earlier explainers made are freed.
    times = setup.turns(before=gc.collect, forward=_forward(model, inputs), **sides)
    for method, bound in bounds.items():
        work = f"first call of {method}, {name} / forward"
        yield row("first-call", work, times[method], times["forward"], bound)


def _from_outputs(setup: Setup) -> Iterator[Row]:
    """Compare `from_outputs` with the forward pass whose outputs it reads."""
    model = random_bert(setup.bert)
    explainer = Explainer(model, reference_tokenizer(), name="BERT-base, random weights")
    inputs = random_ids(setup.short, model.config.vocab_size)
    forward = _forward(model, inputs, output_hidden_states=True)
    outputs = forward()
    times = setup.turns(
        forward=forward, from_outputs=lambda: explainer.from_outputs(inputs, outputs, method="normxlogit")
    )
    work = f"`from_outputs`, {setup.short} tokens / the forward pass it follows"
    yield row("from-outputs", work, times["from_outputs"], times["forward"], 0.02)


def _corpus(setup: Setup) -> Iterator[Row]:
    """Compare the speed on many texts with bare passes, by the packaged model and by MiniLM."""
    yield from _texts(setup, "default model", *load(device=AUTO))
    yield from _texts(setup, "MiniLM", random_bert(setup.minilm), reference_tokenizer())


def _texts(setup: Setup, name: str, model: PreTrainedModel, tokenizer: Any) -> Iterator[Row]:
    """Compare the speed of one model on many texts with bare passes, and with transformers' pipeline."""
    from transformers import pipeline

    explainer = Explainer(model, tokenizer, name=name)
    texts = list(setup.texts) if setup.texts is not None else random_texts(tokenizer, 872)
    encodings = explainer.encode(texts)
    places_of_batches = batches(encodings, explainer.task_model.batch_tokens)
    groups = [[encodings[place] for place in places] for places in places_of_batches]
    inputs = [explainer.task_model.batch(group, list(range(len(group)))).inputs for group in groups]
    predict = pipeline("text-classification", model=model, tokenizer=tokenizer, device=device_named(AUTO))

    @torch.inference_mode()
    def forward() -> None:
        for batch in inputs:
            model(**batch)

    explainer(texts[0])  # the proof of the head
    states = torch.randn(sum(map(len, encodings)), model.config.hidden_size, device=model.device)  # (N, H)
    times = setup.turns(
        forward=forward,
        explain=partial(explainer, texts, method="normxlogit"),
        pipeline=partial(predict, texts, batch_size=PIPELINE_BATCH),
        tokenizer=partial(tokenizer, texts),
        head=torch.inference_mode()(partial(explainer.task_model.head.tokens, states)),
    )
    tokens = sum(map(len, encodings))
    note = f"{tokens / times['explain'].median:.0f} tokens/s"
    work = f"{len(texts)} texts, {name}: speed / "
    yield row(
        "corpus",
        f"{work}bare passes over the same batches",
        times["forward"],
        times["explain"],
        0.95,
        times["tokenizer"],
        times["head"],
        at_least=True,
        note=note,
    )
    pipeline_work = f"{work}pipeline that only predicts"
    yield row("pipeline", pipeline_work, times["pipeline"], times["explain"], 1.0, at_least=True)


def _gradients(setup: Setup) -> Iterator[Row]:
    """Compare gradient methods with NormXLogit."""
    yield from _methods(setup, setup.short, {"gradient-x-input": 2, f"integrated-gradients:steps={STEPS}": 50})


def _decompx(setup: Setup) -> Iterator[Row]:
    """Compare DecompX with NormXLogit."""
    yield from _methods(setup, setup.long, {"decompx": 20})


def _methods(setup: Setup, length: int, methods: Mapping[str, float]) -> Iterator[Row]:
    """Compare methods with NormXLogit on one text of a length, each with a lower bound of how much longer it takes."""
    model = random_bert(setup.bert)
    explainer = Explainer(model, reference_tokenizer(), name="BERT-base, random weights")
    inputs = random_ids(length, model.config.vocab_size)
    sides: dict[str, Callable[[], Any]] = {"NormXLogit": partial(explainer, inputs, method="normxlogit")}
    for name in methods:
        sides[name] = partial(explainer, inputs, method=name)
    times = setup.turns(**sides)
    for name, bound in methods.items():
        yield row(
            name.partition(":")[0],
            f"{name}, {length} tokens / NormXLogit",
            times[name],
            times["NormXLogit"],
            bound,
            at_least=True,
        )


GROUPS: dict[str, Callable[[Setup], Iterator[Row]]] = {
    "one-text": _one_text,
    "masked-lm": _masked,
    "next-token": _next_token,
    "generated": _generated,
    "first-call": _first_call,
    "from-outputs": _from_outputs,
    "corpus": _corpus,
    "gradients": _gradients,
    "decompx": _decompx,
}
"""Rows that are measured together, by the name that chooses them."""
