import numpy as np
import pytest
import torch
import transformers

from normxlogit import Explainer, InputError
from normxlogit.inputs.chat import ReadPrompt
from normxlogit.model.task_model import TaskModel
from tests import tiny

SOURCE = "the cat sat on the mat"
CONFIGS = {
    "t5": tiny.CONFIGS["t5"] | {"num_layers": 3, "decoder_start_token_id": 2},
    "bart": tiny.CONFIGS["bart"] | {"decoder_layers": 3, "decoder_start_token_id": 2},
}


def writer(family):
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **CONFIGS[family])
    model = transformers.AutoModelForSeq2SeqLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def begin(model, source):
    model.refresh()
    return model.task.read_prompt(model, ReadPrompt(source, None))


@pytest.mark.parametrize("family", list(CONFIGS))
def test_the_decoders_tokens_are_scored_by_a_loop_over_prefixes(family):
    model, tokenizer = writer(family), tiny.tokenizer()
    found = Explainer(model, tokenizer).generate(SOURCE, max_new_tokens=5, method="normxlogit")
    ids = list(found.token_ids)
    source = tokenizer(SOURCE, return_tensors="pt").input_ids
    assert ids[0] == 2
    assert found.prompt_tokens == 1
    assert found.offsets[0] == (0, 0), "the decoder's first token stands for no characters"
    for g in range(len(found)):
        with torch.inference_mode():
            out = model(input_ids=source, decoder_input_ids=torch.tensor([ids[: g + 1]]), output_hidden_states=True)
        norms = out.decoder_hidden_states[0][0].norm(dim=-1)
        wanted = norms * out.logits[0, :, ids[g + 1]]
        np.testing.assert_allclose(found.scores[g, : g + 1], wanted, rtol=2e-3, atol=1e-3)
        assert (found.scores[g, g + 1 :] == 0).all()
        assert found.generated[g].probability == pytest.approx(
            float(out.logits[0, -1].softmax(-1)[ids[g + 1]]), rel=1e-2
        )


@pytest.mark.parametrize("family", CONFIGS)
def test_sources_of_several_lengths_are_read_as_each_alone(family):
    model = Explainer(writer(family), tiny.tokenizer()).language_model
    begun = [begin(model, source) for source in (SOURCE, "a cat")]
    both, alone = model.batch(begun, [0, 1]).inputs, model.batch(begun[1:], [0]).inputs
    length = alone["source_mask"].shape[1]
    assert both["source_mask"][..., 0].sum(1).tolist() == [both["source_mask"].shape[1], length]
    torch.testing.assert_close(both["encoder_states"][1, :length], alone["encoder_states"][0], rtol=1e-4, atol=1e-5)


def test_a_text_begins_with_the_decoders_first_token_and_its_source():
    model = TaskModel(writer("t5"), tiny.tokenizer(), task="seq2seq-lm")
    first = begin(model, "the cat")
    assert (first.ids, first.tokens, first.special, first.sequence_ids) == ([2], ("[CLS]",), (True,), (None,))
    assert (first.text, first.offsets) == ("", ((0, 0),))
    assert first.source.ids == tiny.tokenizer()("the cat").input_ids
    model.caller_model.config.decoder_start_token_id = None
    model.caller_model.generation_config.decoder_start_token_id = 5
    assert begin(model, "the cat").ids == [5], "the settings of generation name one"
    for config in (model.caller_model.config, model.caller_model.generation_config):
        config.decoder_start_token_id = config.bos_token_id = None
    with pytest.raises(InputError, match="no decoder_start_token_id to begin with"):
        begin(model, "the cat")
