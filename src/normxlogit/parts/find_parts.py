"""Find the parts of a model by recording one small forward pass, and prove them."""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..copies.arithmetic import finite_or_excluded
from ..copies.module_io import Form, Inputs, States, embedded_of, states_of
from ..copies.non_finite import non_finite_error
from ..copies.pool import ModelPool
from ..copies.run import Site
from ..copies.trace import BATCH_FIRST, Axes, Call, Paths, axes_of, path_of
from ..errors import HeadMismatchError
from .early_exit import find_early_exit
from .embeddings import table_of
from .find_head import ProvedHead, find_head
from .headpiece import Headpiece
from .layer_outputs import (
    LayerOutput,
    LayerOutputs,
    chained_layers,
    chained_outputs,
    embedding_output,
    layer_outputs,
)
from .layer_to_head import find_tail, first_layer_input
from .main_input import MainInput
from .model_parts import Parts
from .model_proofs import FirstText, on_every_path
from .traced import Traced, trace_beside_another
from .trunk_candidates import is_time_first, plain_trunk_candidates, trunk_candidates


class _ShownStates(NamedTuple):
    """The states of a model's layers that are known from a recorded pass; None where they are not."""

    states: States | None = None  # the embedding layer's output and each layer's, (B, T, H)
    embedded: Tensor | None = None  # the embedding layer's output, (B, T, H); a plain module may show it alone
    lack_embeddings: bool = False  # whether the states that the model returned begin with the first layer's output


def find_parts(
    pool: ModelPool,
    text: Inputs,
    main_input: MainInput,
    further: tuple[str, ...] = (),
    *,
    over_vocabulary: bool = False,
) -> tuple[Parts, FirstText]:
    """Record a copy's pass over a text beside another, and find and prove the parts of the model.

    Args:
        pool: Copies of the model.
        text: The inputs of a text, (1, T).
        main_input: The input that holds what is explained.
        further: The names of inputs beside the text, which the head may read, too.
        over_vocabulary: Whether the outputs are the vocabulary: then a head must answer at a token alone as in a text.

    Returns:
        The parts, with a head or with the reason why none was proved; and what the model answered to the text.

    Raises:
        UnsupportedModelError: If the model answers with NaN or infinity.
        HeadMismatchError: If it returns no logits.
    """
    traced, unverified = trace_beside_another(pool.model, text, main_input)
    if not finite_or_excluded(traced.logits):
        raise non_finite_error(pool.model, traced.inputs, traced.calls)
    finder = _PartsFinder(pool, main_input, traced)
    shown = finder.shown_states()
    parts = finder.parts_with_head(shown, further, over_vocabulary=over_vocabulary)
    if parts.headpiece is None and finder.are_latents(shown.embedded):
        shown = _ShownStates()  # no layer has a state for each token that could be scored
    outputs, embedding = finder.layer_outputs(parts.trunk, shown)
    if outputs and parts.layers not in (None, len(outputs)):
        outputs = None  # contributions are read at all layers that the head can read, or at none
    site, axes = finder.embedding_site(shown.embedded)
    parts = replace(
        parts,
        embedding_site=site,
        embedding_axes=axes,
        outputs=outputs,
        embedding_output=embedding,
        tables=finder.lookup_tables(),
        unverified=() if unverified is None else (unverified,),
    )
    # Texts of a batch that the model itself pads may change each other's answers.
    return parts, FirstText.of(text, traced, batched=not finder.pads_inside)


class _PartsFinder:
    """Finds the parts of a model by what a recorded pass shows.

    Attributes:
        calls: The calls of all modules in the pass.
        is_plain: Whether the model is not one of transformers.
        layers: The calls of a plain module's layers, found by their structure; [] for models of transformers.
        ids: The token ids, (B, T).
        pads_inside: Whether the model itself pads texts.
    """

    def __init__(self, pool: ModelPool, main_input: MainInput, traced: Traced) -> None:
        self.pool = pool
        self.main_input = main_input
        self.traced = traced
        self.calls = traced.calls
        self.model: Any = pool.model
        self.is_plain = not isinstance(pool.model, PreTrainedModel)
        self.layers = chained_layers(traced.calls) if self.is_plain else []  # of a module whose trunk has no name
        self.ids: Tensor = traced.inputs["input_ids"]  # (B, T)
        self.pads_inside = self._model_pads_inside()

    def shown_states(self) -> _ShownStates:
        """Return the states that the model returns; of a plain module, what its first layer reads."""
        states = states_of(self.traced.output)
        layer_input = first_layer_input(self.calls, states) if states else None
        if states and layer_input is not None:
            # The states are each layer's output, and the last one's once more behind the final norm: this one goes.
            return _ShownStates((layer_input, *states[:-1]), layer_input, lack_embeddings=True)
        if not self.is_plain:
            return _ShownStates(states, embedded_of(self.traced.output))
        embedded = self.layers[0].main_input if self.layers else None  # a plain module names no embedding layer
        if embedded is not None and is_time_first(self.model, embedded, self.ids.shape):
            embedded = embedded.transpose(0, 1)  # (B, T, H)
        return _ShownStates(states, embedded)

    def are_latents(self, embedded: Tensor | None) -> bool:
        """Return whether the embedding layer returns latents, which belong to no token."""
        return embedded is not None and embedded.shape[1] != self.ids.shape[1] and not self.pads_inside

    # --- the head, and what depends on it ----------------------------------------------------------------------------

    def parts_with_head(self, shown: _ShownStates, further: tuple[str, ...], *, over_vocabulary: bool) -> Parts:
        """Return the parts with a proved head, or with the reason why there is none."""
        skipped = {call.path: Form.of(call.returned) for call in self.layers}
        # Each candidate's path and form are filled in for the trunk's.
        piece = Headpiece(trunk="", form=Form(None), main_input=self.main_input, skipped=skipped, further=further)
        parts = Parts(states_lack_embeddings=shown.lack_embeddings)
        try:
            if self.is_plain:
                logits, shape = self.traced.logits, self.ids.shape
                candidates = plain_trunk_candidates(self.model, self.calls, self.layers, logits, shape)
            else:
                candidates = trunk_candidates(self.model, self.calls, shown.states)
            proved = find_head(self.pool, candidates, self.traced, piece, over_vocabulary=over_vocabulary)
            self._check_states_of_tokens(proved)
        except HeadMismatchError as error:
            return replace(parts, head_error=str(error))
        parts = replace(
            parts,
            headpiece=proved.head.piece,
            tokenwise=proved.tokenwise,
            trunk=proved.trunk.path,
            trunk_gives_states=states_of(proved.trunk.returned) is not None,
        )
        return self._with_way_to_head(parts, proved.trunk, shown.states)

    def _check_states_of_tokens(self, proved: ProvedHead) -> None:
        """Refuse a trunk that returns fewer or more states than tokens, as one that pools neighbouring tokens does."""
        if self.pads_inside:  # then there may be states of its padding, too
            return
        hidden: Any = proved.trunk.hidden  # a tensor: `prove_head` refuses a trunk without hidden states
        state_count = proved.head.piece.swap_if_time_first(hidden).shape[1]  # of (B, T, H)
        token_count = self.ids.shape[1]
        if state_count != token_count:
            raise HeadMismatchError(
                f"the trunk of {type(self.model).__name__} gives {state_count} states for {token_count} tokens, so a "
                "token has no state of its own that the head could read"
            )

    def _with_way_to_head(self, parts: Parts, trunk: Call, states: States | None) -> Parts:
        """Return the parts with the way by which layers' outputs reach the head."""
        if states and len(states) > 1:
            try:
                tail = find_tail(self.pool, self.traced.inputs, self.calls, trunk, states)
                return replace(parts, tail=tail, layers=len(states) - 1)
            except LookupError:  # the layers are skipped instead, a pass for each
                pass
        layers = find_early_exit(self.pool, trunk, self.calls, self.traced.inputs)
        if not layers:
            return parts
        # Calls are counted, and not modules: layers may share one.
        return replace(parts, early_exit=tuple(dict.fromkeys(layers)), layers=len(layers))

    # --- the outputs of layers ---------------------------------------------------------------------------------------

    def layer_outputs(self, trunk: str | None, shown: _ShownStates) -> tuple[LayerOutputs | None, LayerOutput | None]:
        """Return where the outputs of the layers are returned, None if not all are, and that of the embedding layer."""
        states, embedded = shown.states, shown.embedded
        is_squeezed = embedded is not None and embedded.shape[1] < self.ids.shape[1]  # a state is of several tokens
        embedding = embedding_output(self.calls, None if is_squeezed else embedded)
        if self.is_plain and states is None:  # nothing to compare outputs with
            return self._outputs_by_structure(embedding)
        outputs = None
        if states and len(states) > 1 and not is_squeezed:
            outputs = layer_outputs(self.calls, trunk, states)
        return outputs, embedding

    def _outputs_by_structure(self, embedding: LayerOutput | None) -> tuple[LayerOutputs | None, LayerOutput | None]:
        """Return the outputs of a plain module's layers, None if they are not proved, and of its embeddings.

        Args:
            embedding: The output of the embeddings, which is proved if the layers are.
        """
        outputs = chained_outputs(self.layers, self.ids.shape)
        if not outputs or not on_every_path(self.pool, outputs, self.traced, self.main_input):
            return None, embedding
        bypassed = embedding is None or not on_every_path(self.pool, [embedding], self.traced, self.main_input)
        return outputs, None if bypassed else embedding

    # --- embeddings --------------------------------------------------------------------------------------------------

    def embedding_site(self, embedded: Tensor | None) -> tuple[Site | None, Axes]:
        """Find a module whose input or output is the embedding layer's output; return the order of its axes, too."""
        if embedded is None:  # not shown, or of another shape where layers pass several streams on: the word embeddings
            table = table_of(self.model)
            path = self._first_lookup() if table is None else path_of(self.model, table)
            return None if path is None else Site(path), BATCH_FIRST
        # A module that is given this very tensor is preferred to one with equal values.
        values: list[tuple[Site, Tensor | None]] = []
        for call in self.calls:
            if call.number == 1:  # a `Site` without a number is of the first call
                if call.main_input is embedded:
                    return Site(call.path, is_input=True), BATCH_FIRST
                values += [(Site(call.path, is_input=True), call.main_input), (Site(call.path), call.output)]
        for site, value in values:
            axes = axes_of(value, embedded)
            if axes is not None:
                return site, axes
        return None, BATCH_FIRST

    def lookup_tables(self) -> Paths:
        """Return the paths of the tables that looked up token ids; an adapter's path instead of the table it wraps."""
        tables = {
            path
            for path, module in self.model.named_modules()
            if isinstance(getattr(module, "base_layer", module), nn.Embedding)
        }
        paths = (call.path for call in self.calls if call.path in tables and self._looked_ids_up(call))
        return tuple(dict.fromkeys(path for path in paths if path.rpartition(".")[0] not in tables))

    def _looked_ids_up(self, call: Call) -> bool:
        """Return whether a table was called with the token ids and returned a vector for each."""
        vectors = call.output
        if not _same_ids(call.main_input, self.ids) or vectors is None or vectors.shape[:2] != self.ids.shape:
            return False
        # A table of positions may be called with the token ids, for their number: its vectors are those of any text.
        # With one text there is nothing to compare, and the table is taken for one of token ids.
        return len(self.ids) == 1 or not torch.equal(vectors[0], vectors[1])

    def _first_lookup(self) -> str | None:
        """Return the path of a plain module's first module without children that returns a vector for each id."""
        if not self.is_plain:
            return None
        for call in self.calls:
            is_leaf = not any(self.model.get_submodule(call.path).children())
            # The model may have put the axis of tokens first.
            reads_ids = _same_ids(call.main_input, self.ids) or _same_ids(call.main_input, self.ids.T)
            if is_leaf and reads_ids and call.hidden is not None and call.hidden.is_floating_point():
                return call.path
        return None

    def _model_pads_inside(self) -> bool:
        """Return whether the model itself pads texts, as BigBird does to fill its last block."""
        length = self.ids.shape[1]
        main_inputs = (call.main_input for call in self.calls if call.main_input is not None)
        longer = (values for values in main_inputs if values.ndim == 2 and values.shape[1] > length)
        return any(values.dtype == self.ids.dtype and torch.equal(values[:, :length], self.ids) for values in longer)


def _same_ids(indices: Tensor | None, ids: Tensor) -> bool:
    """Return whether a module was called with the token ids, (B, T)."""
    return indices is not None and indices.shape == ids.shape and torch.equal(indices, ids.to(indices.device))
