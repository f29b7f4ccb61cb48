"""The checks on a fixed part of every mapping, and on all of them with `-m slow`."""

import pytest
import transformers

from tools.survey.base import MAPPINGS, MEDIA, SIGNALS
from tools.survey.calls import call_all
from tools.survey.checks import check
from tools.survey.known import BROKEN_BEFORE, PADDING, REFUSED, SKIPPING
from tools.survey.outcomes import kind
from tools.survey.page import COLUMNS, IN_MAPPING, column_of_data, version_of_data
from tools.survey.workers import every_pair, families, survey

PART = {
    "sequence-classification": (
        "albert bart deberta-v2 distilbert falcon flaubert funnel gpt2 ibert llama "
        "modernbert mt5 opt perceiver qwen3_next squeezebert t5 xlm xlnet xmod"
    ),
    "masked-lm": "bart bert convbert funnel ibert mobilebert perceiver reformer xlm",
    "causal-lm": (
        "blt deepseek_v4 falcon_h1 gemma3n_text gpt_neo jamba llama mamba mamba2 mllama musicgen opt "
        "recurrent_gemma rwkv xlnet xlstm zamba2"
    ),
    "token-classification": "bert bros canine deberta-v2 gpt2 mt5",
    "question-answering": "bart big_bird bert lxmert splinter t5 xlnet",
    "multiple-choice": "bert canine funnel longformer mra xlnet",
    "image-classification": "clip deit swin vit",
    "audio-classification": "sew wav2vec2 whisper",
}
"""One family of each kind of trunk and head, and some that are refused."""

REFUSALS = {
    ("sequence-classification", "perceiver"): ("HeadMismatchError", "256 states for 18 tokens"),
    ("masked-lm", "perceiver"): ("HeadMismatchError", "256 states for 18 tokens"),
    ("causal-lm", "musicgen"): ("InputError", "shape '"),  # transformers' own reason, of inputs that are no text
    ("token-classification", "bros"): ("InputError", "bbox"),
    ("question-answering", "lxmert"): ("InputError", "visual_feats"),
    ("multiple-choice", "canine"): ("HeadMismatchError", "could not be applied by itself"),
    ("image-classification", "swin"): ("HeadMismatchError", "no state for each patch"),
    ("audio-classification", "sew"): ("UnsupportedModelError", "no embedding of its own"),
}
"""How the refused ones of these are refused: the error and a piece of its message."""

CASES = [(task, family) for task, names in PART.items() for family in names.split()]
AT_LEAST = 0.97


@pytest.mark.filterwarnings("ignore")  # transformers' own, of many families
@pytest.mark.parametrize(("task", "family"), CASES)
def test_a_family_is_exact(task, family):
    if family not in families(task):
        pytest.skip(f"transformers {transformers.__version__} has no {family} for {task}")
    if family in REFUSED[task]:
        name, said = REFUSALS[task, family]
        with pytest.raises(Exception, match=said) as refusal:
            check(task, family)
        assert refusal.type.__name__ == name
        return
    facts = check(task, family)
    assert facts["layers"] > 0 or task in SIGNALS
    assert facts["resting"] == (family in SKIPPING)
    assert facts["padding"] == "same" or family in PADDING


@pytest.mark.parametrize("task", MAPPINGS)
def test_the_data_are_of_this_version_and_name_every_family(task):
    written, here = version_of_data(), transformers.__version__
    if written.split(".")[:2] != here.split(".")[:2]:
        pytest.skip(f"the data are of transformers {written}, this is {here}")
    assert set(column_of_data(task, "Class")) == set(families(task)), "run: python -m tools.survey"
    for title in IN_MAPPING.get(task, COLUMNS):
        if task == "causal-lm" or title not in ("Generation", "Completion", "Sources"):
            assert "error" not in column_of_data(task, title).values(), title


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_call_works_or_is_refused():
    results = survey([pair for pair in every_pair() if pair[0] not in MEDIA], processes=2)
    same_version = version_of_data().split(".")[:2] == transformers.__version__.split(".")[:2]
    wrong: dict[str, object] = {}
    broken = {} if same_version else BROKEN_BEFORE
    for (task, family), result in results.items():
        outcomes = result.get("calls", {}) | {"head": result.get("head", f"error: {result.get('error')}")}
        errors = {name: outcome for name, outcome in outcomes.items() if kind(outcome) == "error"}
        works = kind(outcomes["head"]) == "yes"
        if errors:
            wrong[f"{task} {family}"] = errors
        elif works == (family in REFUSED[task]) and family not in broken.get(task, ()):
            wrong[f"{task} {family}"] = f"{outcomes['head']}, and in `known.py` it is otherwise"
        elif works:
            # Another version's code may see padding elsewhere; such a family is found and batched all the same.
            unknown_padding = same_version and result["padding"] != "same" and family not in PADDING
            if result["resting"] != (family in SKIPPING) or unknown_padding:
                wrong[f"{task} {family}"] = result
            if not result["layers"] and task not in SIGNALS:
                wrong[f"{task} {family}"] = "gives no layers"
    assert not wrong
    for task in set(MAPPINGS) - set(SIGNALS) - set(MEDIA):
        runs = [family for family in families(task) if family not in broken.get(task, ())]
        exact = [family for family in runs if kind(results[task, family].get("head", "error")) == "yes"]
        # Of what an older version runs, a single class may be over 3%.
        one_of_fewer = not same_version and len(runs) - len(exact) == 1
        assert one_of_fewer or len(exact) / len(runs) >= AT_LEAST, task


MEDIA_PART = {
    "image-text-to-text": "blip-2 internvl llava llava_next",
    "audio-text-to-text": "qwen3_asr",
    "speech-seq2seq": "moonshine",
    "ctc": "lasr_ctc",
    "zero-shot-image": "chinese_clip siglip2",
}
"""Families with tiles and padding, with a Q-former, and that read waveforms or windows of spectra, of which no other
test has a model."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("task", "family"), [(task, f) for task, names in MEDIA_PART.items() for f in names.split()])
def test_a_family_that_reads_pictures_or_sounds_adds_up_or_is_refused(task, family):
    if family not in families(task):
        pytest.skip(f"transformers {transformers.__version__} has no {family} for {task}")
    result = call_all(task, family, ["generate", "similarity"])
    if result["head"] != "yes" and version_of_data() != transformers.__version__:
        pytest.skip("this version's processor is made otherwise")
    (outcome,) = result["calls"].values()
    assert kind(outcome) == ("refused" if family in ("blip-2", "siglip2") else "yes"), outcome


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("task", MEDIA)
def test_models_that_read_pictures_or_sounds_are_explained_or_refused(task):
    results = survey([(task, family) for family in families(task)], processes=2)
    outcomes = {
        f"{family} {name}": outcome
        for (_, family), r in results.items()
        for name, outcome in r.get("calls", {}).items()
    }
    assert outcomes
    assert not {name: outcome for name, outcome in outcomes.items() if kind(outcome) == "error"}
