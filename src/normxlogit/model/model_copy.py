"""Structural copies of the caller's model at one moment, compared with it, and the parts found in them."""

import threading
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from ..copies.answer_form import AnswerForm
from ..copies.arithmetic import finite_or_excluded
from ..copies.clone import clone, is_wrapped, register_recorders, unwrapped
from ..copies.forward_arguments import IDS
from ..copies.module_io import TensorInputs
from ..copies.pool import Pool, private_clone
from ..copies.run import Pass, Replacements, Site, run
from ..copies.snapshot import Snapshot
from ..errors import HeadMismatchError
from ..inputs.batches import Batch
from ..inputs.encoder import Encoder
from ..parts.embeddings import WordEmbeddings
from ..parts.headpiece import answer_of
from ..parts.model_parts import Parts
from ..parts.model_proofs import FirstText
from ..parts.proofs import beyond_rounding, proof, quantises_by_batch
from ..results.storage.schema import Strings
from ..tasks import Task
from .model_errors import input_errors
from .proved_lengths import ProvedLengths

MAX_TOKENS = 64  # most tokens of a text in the proof of a vocabulary head, whose logits are as wide as the vocabulary


class ModelCopy:
    """Structural copies of one model, and all that is learned about it, until the model changes.

    Args:
        caller_model: The caller's model as a task model: with the head that an embedding model is given.
        watched: The model as the caller passed it, whose changes end the use of these copies.
    """

    config: PretrainedConfig  # this and the four that follow are set by `version.read_model`
    task: Task  # what it is for, with everything that differs by it, and what makes encodings of texts
    encoder: Encoder
    pad_left: bool  # whether padding stands before a text
    pad_id: int  # the token id for padding

    def __init__(self, caller_model: nn.Module, watched: nn.Module) -> None:
        self.caller_model = caller_model
        # The snapshot is taken first, so that a change during the copying is noticed.
        self._snapshot = Snapshot(watched)
        unwrapped_model = unwrapped(caller_model)
        register_recorders(unwrapped_model)
        self.unmodified = cast(PreTrainedModel, clone(unwrapped_model))  # answers as the caller's: no task adapts it
        # A copy of what the caller calls: the adapter with the model in it.
        self.wrapped = clone(caller_model) if is_wrapped(caller_model) else self.unmodified
        # The copy that is explained, which a task may adapt; passes run private copies of it, see `run`.
        self.module = cast(PreTrainedModel, clone(unwrapped_model))
        self.is_adapted = self.wrapped is not self.unmodified  # whether `module` must be compared with `wrapped`
        self.form = AnswerForm()
        self.notes: Strings = ()  # for all results on it, and on proofs that could not be run
        self.outputs: int | None = None  # the number of outputs of a plain module; others' configurations tell it
        self.main_input = IDS  # the name of the input that holds what is explained
        self.decoder_limit: float | None = None  # the most tokens of a decoder beside an encoder, inf for any number
        self.pool = Pool(self.module)
        self.recording_pool = Pool(self.module)  # for passes with all layers: transformers' hooks for them slow others
        self.parts: Parts | None = None  # these two are found with the first batch
        self.first_text: FirstText | None = None
        self.proved_alone = False  # whether the model answers that text alone as beside another
        self.padding = ProvedLengths()  # of texts that keep their states in one batch, padded
        self.generates_batched = ProvedLengths()  # of prompts that are continued in one batch as alone, padded
        self.causal = ProvedLengths()  # of texts whose later tokens leave the states of earlier ones alone
        self.causal_with_media = ProvedLengths()
        self.cache_proved = False  # whether `generate` answers with its cache as without
        self.lock = threading.RLock()

    @property
    def current(self) -> bool:
        """Whether the caller's model is unchanged since it was copied."""
        return self._snapshot.unchanged()

    @cached_property
    def mixes_texts(self) -> bool:
        """Whether activations are quantised by the maximum of a batch, so that texts affect each other's logits."""
        return quantises_by_batch(self.module)

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        record: Iterable[Site] = (),
        replace: Replacements | None = None,
        stop: Site | None = None,
        states: bool = False,
    ) -> Pass:
        """Run one pass of the model that is explained, see `copies.run`.

        Args:
            inputs: The arguments of its forward, of B texts.
            record: The modules whose input or output is recorded.
            replace: What takes the place of a module's input or output.
            stop: Where the pass ends; None for the whole model.
            states: Whether the model returns the outputs of all layers, (B, T, H) each.

        Raises:
            InputError: If the model cannot read the inputs; with gradients on, its own error.
        """
        # A pass that returns states leaves transformers' hooks for them on its copy, which slow others.
        pool = self.recording_pool if states else self.pool
        inputs = {**inputs, "output_hidden_states": True} if states else inputs
        gradients = torch.is_grad_enabled()
        with input_errors(self.module, inputs, self.main_input, gradients=gradients), pool.lease() as copy:
            return run(copy, inputs, record=record, replace=replace, stop=stop)

    @cached_property
    def embeddings(self) -> WordEmbeddings:
        """The word embeddings of `module`."""
        return WordEmbeddings(self.module, () if self.parts is None else self.parts.tables)


def sample_of(batch: Batch, task: Task) -> dict[str, Tensor]:
    """Return the inputs for the proof of the head: the first text, of more than one token.

    Args:
        batch: The first texts that the model reads.
        task: The task of the model.

    Returns:
        The inputs by name, (1, T) where they have a value for each token. Of a prompt with media, the words alone.
    """
    tokenwise_names = list(filter(batch.along_tokens, batch.inputs))
    if batch.placeholder_mask is not None:
        words = ~batch.placeholder_mask[0]  # (T,), which may be few
        return {name: batch.inputs[name][:, words][:, :MAX_TOKENS] for name in tokenwise_names}
    sample = first_alone(batch)
    for name in tokenwise_names:
        value = sample[name]  # (1, T)
        if task.outputs.vocabulary:
            value = value[:, :MAX_TOKENS]
        if value.shape[1] == 1 and task.result_kind == "text":  # a token is repeated: its axis would be ambiguous
            repeated = value + 1 if name == "position_ids" else value
            value = torch.cat((value, repeated), 1)  # (1, 2)
        sample[name] = value
    return sample


def first_alone(batch: Batch) -> dict[str, Tensor]:
    """Return the inputs of the batch's first text, without padding."""
    mask = batch.mask
    return {
        name: value[:1][mask[:1]][None] if batch.along_tokens(name) else value[:1]
        for name, value in batch.inputs.items()
    }


@proof(
    compares="the copy that is explained and the model as its owner calls it, on the first text",
    tolerance="rounding",
    why="the copy was given another call or setting (an adapter, a choice, a decoder, a padding id)",
    when="first call, where something was changed; two passes",
)
def copy_answers_as_the_model(copy: ModelCopy, inputs: TensorInputs, caller_inputs: TensorInputs) -> Strings:
    """Compare the logits of the explained copy with the model's; return a note if they cannot be compared.

    Args:
        copy: The copies.
        inputs: The inputs of the one that is explained, (1, T).
        caller_inputs: Those of the caller's model, for the same text.

    Raises:
        HeadMismatchError: If they differ by more than rounding.
    """
    with torch.inference_mode():
        actual = answer_of(private_clone(copy.module)(**inputs))
        expected = answer_of(private_clone(copy.wrapped)(**caller_inputs))
    if actual is None:
        return ()  # `find_parts` raises the error
    if expected is None:
        name = type(copy.wrapped).__name__
        return (f"{name} returns no logits that the copy that is explained could be compared with",)
    # If one of both alone is not finite, they differ.
    if not (finite_or_excluded(actual) or finite_or_excluded(expected)):
        return ()  # both have NaN or infinity, for which `find_parts` raises the error
    if (difference := beyond_rounding(actual, expected)) is not None:
        raise HeadMismatchError(
            f"the copy of {type(copy.module).__name__} that is explained gives logits that differ from the model's "
            f"own by {difference:.2g}"
        )
    return ()
