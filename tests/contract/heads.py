"""Every head of the cases, written out: the logits at one token, from the caller's own modules."""

import torch
from torch.nn import functional

from .cases import Case


def _pooled(classifier, pooler):
    return lambda model, h: getattr(model, classifier)(getattr(model, pooler)(h[:, None]))


def _direct(name):
    return lambda model, h: getattr(model, name)(h)


def _first(name):
    return lambda model, h: getattr(model, name)(h[:, None])


def _distilbert_words(model, h):
    return model.vocab_projector(model.vocab_layer_norm(functional.gelu(model.vocab_transform(h))))


HEADS = {
    ("bert", "SequenceClassification"): lambda m, h: m.classifier(m.bert.pooler(h[:, None])),
    ("roberta", "SequenceClassification"): _first("classifier"),
    ("electra", "SequenceClassification"): _first("classifier"),
    ("big_bird", "SequenceClassification"): _first("classifier"),
    ("distilbert", "SequenceClassification"): lambda m, h: m.classifier(m.pre_classifier(h).relu()),
    ("deberta-v2", "SequenceClassification"): _pooled("classifier", "pooler"),
    ("albert", "SequenceClassification"): lambda m, h: m.classifier(m.albert.pooler(h).tanh()),
    ("xlnet", "SequenceClassification"): _pooled("logits_proj", "sequence_summary"),
    ("modernbert", "SequenceClassification"): lambda m, h: m.classifier(m.head(h)),
    **{(family, "SequenceClassification"): _direct("score") for family in ("gpt2", "opt", "llama", "qwen2", "bloom")},
    **{(family, "SequenceClassification"): _direct("classification_head") for family in ("bart", "t5")},
    **{
        (family, "TokenClassification"): _direct("classifier")
        for family in ("bert", "deberta-v2", "xlnet", "gpt2", "bloom", "t5")
    },
    **{
        (family, "QuestionAnswering"): _direct("qa_outputs")
        for family in ("distilbert", "electra", "albert", "opt", "bart")
    },
    ("bert", "MaskedLM"): _direct("cls"),
    ("roberta", "MaskedLM"): _direct("lm_head"),
    ("deberta-v2", "MaskedLM"): _direct("cls"),
    ("modernbert", "MaskedLM"): lambda m, h: m.decoder(m.head(h)),
    ("distilbert", "MaskedLM"): _distilbert_words,
    **{(family, "CausalLM"): _direct("lm_head") for family in ("gpt2", "opt", "llama", "qwen2", "bloom", "mamba")},
}
"""(family, head) to a function of the model and of hidden states (N, H) that gives (N, C)."""


def read_tokens(case: Case, ids, **more):
    """Return of the caller's own model: input norms (T,), the head at each token (T, C), and its answer.

    The answer is (C,), or (T, C) of a head that answers at every token.
    """
    seen = []
    model = case.model
    trunk = model.get_decoder() if (case.family, case.head) == ("opt", "CausalLM") else model.base_model
    watch = trunk.register_forward_hook(lambda _, __, output: seen.append(output[0]))
    try:
        outputs = case.answer(ids, **more)
    finally:
        watch.remove()
    states = outputs.get("encoder_hidden_states") or outputs.get("hidden_states")
    embedded = model.get_input_embeddings()(torch.tensor([ids])) if case.family == "mamba" else states[0]
    logits = outputs.start_logits if case.head == "QuestionAnswering" else outputs.logits
    if case.head == "QuestionAnswering":
        logits = torch.stack((outputs.start_logits, outputs.end_logits), -1)
    with torch.no_grad():
        each = HEADS[case.family, case.head](model, seen[0][0])
    return embedded[0].norm(dim=-1).detach().numpy(), each.numpy(), logits[0].numpy()


def read_layers(case: Case, ids, **more):
    """Return the head at each token of each layer's output, (L, T, C), of a model without a norm before its head."""
    states = case.answer(ids, **more).hidden_states
    with torch.no_grad():
        return torch.stack([HEADS[case.family, case.head](case.model, state[0]) for state in states[1:]]).numpy()
