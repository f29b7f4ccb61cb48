"""Explain the cosine of two texts by their tokens."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from ..copies.clone import unwrapped
from ..errors import InputError, MethodError, UnsupportedModelError
from ..inputs.encoding import Encoding
from ..inputs.texts import with_distinct_names
from ..leave_out.outcomes import Answer, Outcomes, in_batches
from ..leave_out.picking import Verify, picked
from ..leave_out.removable import removable
from ..leave_out.removal import TextRemoval, Tokens, tokens_removed
from ..leave_out.search import run_searches
from ..methods import Method, Request, Scores, check_finite, run_method
from ..methods.frozen import FrozenGradient
from ..model.batch_attempts import results_in_batches
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..pipeline.options import provenance
from ..pipeline.progress import VERIFYING
from ..results.collection import Attributions
from ..results.storage.schema import FloatArray, Strings
from ..results.targets import Prediction, Target
from ..results.units.kinds import Merge
from ..results.units.media import Medium
from ..results.units.units import Units
from ..tasks.base import Task
from .result import Similarity
from .tasks.embedding import Direction


@runtime_checkable
class Embeds(Protocol):
    """A task whose model embeds texts, or what else is compared, as vectors.

    It, or the task of each of its parts, has a method `encode_each(model, items)` that returns the items' encodings.
    """

    def items_compared(self, items: Any, prompt_name: str | None = None) -> tuple[list[Any], bool]:
        """Return the items whose vectors are compared, and whether a single one was given.

        Args:
            items: A text or a picture, or several.
            prompt_name: The name of the prompt that is put before each; None for the model's own.
        """
        ...

    def comparison_notes(self, lengths: tuple[float, float], *, prompted: bool) -> Strings:
        """Return notes about how the model itself compares two vectors, where that is not their cosine.

        Args:
            lengths: The lengths of the two vectors.
            prompted: Whether the caller has named prompts.
        """
        ...

    def part_for(self, model: nn.Module, item: Any) -> tuple[nn.Module, Any] | None:
        """Return the part of a model that embeds an item, with its tokenizer or processor; None for the whole model.

        Args:
            model: The model.
            item: A text or a picture.
        """
        ...


class Side(NamedTuple):
    """One text or picture with its vector and those of its tokens."""

    encoding: Encoding
    vector: Tensor  # the model's vector, normalised to length 1, (C,)
    length: float  # of the vector before
    token_vectors: Tensor  # what the head makes of each token alone, normalised, (T, C); NaN if it reads none alone


def explain_similarity(
    model: TaskModel,
    first: Any,
    second: Any,
    method: Method,
    *,
    matrix: bool,
    verify: Verify,
    prompts: tuple[str, str] | None,
) -> Similarity | Attributions[Similarity]:
    """Explain the cosine of a text with another, or with each of several.

    The cosine is <p, q> / (|p| |q|), with p and q the two vectors. With the frozen network p is a sum over tokens of
    its text and a bias, p = sum_i u_i + u_0, and q = sum_j v_j + v_0; with the lengths held constant, the contributions
    of one text's tokens are <u_i, q> / (|p| |q|), from one backward pass, and those of pairs of tokens are
    <u_i, v_j> / (|p| |q|). Computing all u_i takes one backward pass for each of the C dimensions of the vector. The
    pairs then take one backward pass through each second text for every token of the first text.

    Args:
        model: A model that embeds.
        first: A text or a picture.
        second: Another, or several.
        method: The method.
        matrix: Whether pairs of tokens are scored.
        verify: How many words or regions are left out; None for none.
        prompts: The names of the prompts of the first text and of the others; None for the model's own.

    Returns:
        One result, or several in the order of the second texts.

    Raises:
        InputError: If there is nothing to compare with, or texts and pictures are mixed.
        MethodError: If the method scores no pairs of tokens, and `matrix` asks for them.
        UnsupportedModelError: If the model does not embed.
    """
    task = embedding_task(model)
    first_prompt, second_prompt = (None, None) if prompts is None else _two_names(prompts)
    second_items, single = task.items_compared(second, second_prompt)
    if not second_items:
        raise InputError("there is no text or picture to compare with")
    (first_item,), _ = task.items_compared([first], first_prompt)
    if matrix and not isinstance(method, FrozenGradient):
        raise MethodError(f"pairs of tokens are scored by frozen-gradient, and not by {method.info.name}")
    model.refresh()
    sides = _embedded_sides(model, first_item, second_items)
    comparison_notes = partial(task.comparison_notes, prompted=prompts is not None)
    results = _explained(sides, method, matrix=matrix, comparison_notes=comparison_notes)
    if verify is not None:
        results = _verified(sides, results, verify)
    return results[0] if single else Attributions(results)


class Sides(NamedTuple):
    """A query and K documents that are compared with it, each with the model or the tower that embeds it."""

    query_tower: TaskModel
    document_tower: TaskModel
    query: Side
    documents: list[Side]


def _embedded_sides(model: TaskModel, first_item: Any, second_items: Sequence[Any]) -> Sides:
    """Return an item and those that it is compared with, embedded, each with its tower."""
    query_tower, *document_towers = (tower_for(model, item) for item in (first_item, *second_items))
    document_tower = document_towers[0]
    if any(tower is not document_tower for tower in document_towers):
        raise InputError("compare with texts or with pictures, one kind at a time")
    if document_tower is query_tower:  # encoded together, as pictures without a name are numbered
        query_encoding, *encodings = encoded(query_tower, [first_item, *second_items])
    else:
        (query_encoding,) = encoded(query_tower, [first_item])
        encodings = encoded(document_tower, second_items)
    (query,) = _embed(query_tower, [query_encoding])
    return Sides(query_tower, document_tower, query, _embed(document_tower, encodings))


def _explained(
    sides: Sides, method: Method, *, matrix: bool, comparison_notes: Callable[..., Strings]
) -> list[Similarity]:
    """Return the contributions of the tokens of both sides to the cosine of each of K documents with the query."""
    query_tower, document_tower, query, documents = sides
    vectors = torch.stack([document.vector for document in documents])[None]  # (1, K, C)
    (query_scores,) = _score(query_tower, [query], method, vectors)
    directions = query.vector[None]  # (1, C), for the cosine
    if matrix:  # and for each token of the query and its bias
        token_directions = _token_directions(query_tower, query, method)
        directions = torch.cat([directions, token_directions.to(directions)])  # (1 + T1 + 1, C)

    def score(indices: list[int]) -> list[Scores]:
        """Score the tokens of some documents for the directions."""
        expanded = directions.expand(len(indices), -1, -1)
        return _score(document_tower, [documents[index] for index in indices], method, expanded)

    encodings = [document.encoding for document in documents]
    results = []
    document_scores = results_in_batches(document_tower, encodings, score, method.memory)
    for index, (document, scores) in enumerate(zip(documents, document_scores, strict=True)):
        query_half = _half(query_tower.task, query, query_scores, target=index, sequence=0)
        document_half = _half(document_tower.task, document, scores, target=0, sequence=1)
        result = _result(
            provenance(query_tower, method),
            (query, document),
            (query_half, document_half),
            method.word_merge,
            comparison_notes((query.length, document.length)),
        )
        if matrix:  # the first row is for the cosine
            result = replace(result, pairs=_to_numpy(_with_bias(scores)[1:]))
        results.append(result)
    return results


def _token_directions(tower: TaskModel, query: Side, method: Method) -> Tensor:
    """Return what each token of a query, and the bias, adds to its vector at length 1, (T1 + 1, C).

    The scores for a unit vector along a dimension are the contributions to that number of the vector.
    """
    unit_vectors = torch.eye(len(query.vector), dtype=query.vector.dtype, device=query.vector.device)  # (C, C)
    (scores,) = _score(tower, [query], method, unit_vectors[None])
    return _with_bias(scores).T


def _two_names(prompts: Any) -> tuple[str, str]:
    """Return the names of the prompts of the two texts."""
    names = prompts if isinstance(prompts, tuple | list) else ()
    if len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise InputError(
            'prompts= are two names, of the prompt of the first text and of the others: ("query", "document")'
        )
    return names[0], names[1]


def _verified(sides: Sides, results: Sequence[Similarity], verify: Verify) -> list[Similarity]:
    """Return the results verified: the cosine is measured without the words or regions of the highest scores."""
    origins = [_origin_of_units(sides.query, document) for document in sides.documents]
    query_vectors = _vectors_without(sides.query_tower, [sides.query])
    document_vectors = _vectors_without(sides.document_tower, sides.documents)

    def tokens_of(place: int, units: Sequence[int], side: int) -> Tokens:
        """Return the tokens of the query (side 0) or the document (side 1) that some units of a result are."""
        tokens = [origins[place][unit] for unit in units]
        return tuple(token for side_of_token, token in tokens if side_of_token == side)

    def cosines_without(removals: list[TextRemoval]) -> list[Answer]:
        """Return the cosines of documents with the query, without some units of either."""
        queries = query_vectors(TextRemoval(0, tokens_of(place, units, 0)) for place, units in removals)
        documents = document_vectors(TextRemoval(place, tokens_of(place, units, 1)) for place, units in removals)
        cosines = [float(q.double() @ d.double()) for q, d in zip(queries, documents, strict=True)]
        return [Answer(prediction=None, value=cosine, outcome=None) for cosine in cosines]

    removables = [
        picked(a, removable(a)._replace(target="the cosine", quantity="cosine", may_be_empty=True), verify)
        for a in results
    ]
    return cast(list[Similarity], run_searches(results, removables, cosines_without))


def _vectors_without(model: TaskModel, sides: Sequence[Side]) -> Outcomes[TextRemoval, Tensor]:
    """Return a table that computes the vector, (C,), of a text or a picture without some of its tokens, once each."""

    def measure(encodings: list[Encoding], _: object) -> Iterable[Tensor]:
        """Return the vectors of shortened texts or pictures."""
        return [side.vector for side in _embed_batch(model, encodings)]

    without = tokens_removed(model, [side.encoding for side in sides], masked=False)
    known = {TextRemoval(place, ()): side.vector for place, side in enumerate(sides)}
    return Outcomes(in_batches(model, without, measure), VERIFYING, known)


def _embed(model: TaskModel, encodings: Sequence[Encoding]) -> list[Side]:
    """Compute the vectors of texts or pictures and of their tokens, in batches."""
    return results_in_batches(model, encodings, lambda places: _embed_batch(model, [encodings[i] for i in places]))


def _embed_batch(model: TaskModel, encodings: list[Encoding]) -> list[Side]:
    """Compute the vectors of B texts in one batch, and those of each of their N tokens alone."""
    batch = model.batch(encodings)
    with torch.inference_mode():
        run = model.run(batch)
        vectors = _normalised(run.logits)  # (B, C)
        if isinstance(run.final, Tensor):
            token_vectors = _normalised(model.head_logits(run.hidden, batch))  # (N, C)
        else:  # no head reads a single token
            token_vectors = vectors.new_full((int(batch.mask.sum()), vectors.shape[1]), torch.nan)  # (N, C)
    # Cloned outside inference mode, as later code backpropagates through the model.
    vectors_by_text = token_vectors.clone().split([len(encoding) for encoding in encodings])  # (T, C) each
    model.check_finite(vectors.cpu().numpy(), batch)
    lengths = run.logits.float().norm(dim=-1).tolist()
    return [Side(*fields) for fields in zip(encodings, vectors.clone(), lengths, vectors_by_text, strict=True)]


def _score(model: TaskModel, sides: list[Side], method: Method, vectors: Tensor) -> list[Scores]:
    """Score the tokens of B texts for their cosines with K vectors each.

    Args:
        model: The model or the tower that embeds them.
        sides: The texts or pictures.
        method: The method.
        vectors: The vectors, (B, K, C).

    Returns:
        The scores of each text, (K, 1, T); what attention sinks contribute is in the bias.
    """
    batch = model.batch([side.encoding for side in sides])
    with torch.inference_mode(not method.needs_grad):
        run: ForwardPass = method.forward(model, batch)
    request = Request(model, run, Direction.of(model.task, vectors), ())
    scores = run_method(method, request)
    bias = scores.bias  # (B, K, 1)
    if bias is not None and scores.sink is not None:
        bias = bias.float() + scores.sink.float()
    text_scores = []
    for row, mask in enumerate(batch.mask):
        values = scores.values[row].detach()[..., mask].float()  # (K, 1, T)
        check_finite(method, request, values.cpu().numpy())
        bias_of_text = None if bias is None else bias[row].detach().to(values)  # (K, 1)
        sinks = None if scores.sinks is None else scores.sinks[row][mask]
        text_scores.append(Scores(values, bias=bias_of_text, sinks=sinks))
    return text_scores


def _with_bias(scores: Scores) -> Tensor:
    """Return the scores of a text with the bias as a last column, (K, T + 1)."""
    return torch.cat([scores.values[:, 0], cast(Tensor, scores.bias)], 1)


def _result(
    origin: Mapping[str, Any],
    sides: tuple[Side, Side],
    halves: tuple["Half", "Half"],
    merge: Merge,
    notes_on_comparison: Strings,
) -> Similarity:
    """Return the similarity of two texts or pictures with the contributions of both.

    Args:
        origin: The fields on the model and the method.
        sides: The query and the document.
        halves: What each contributes.
        merge: How tokens make words.
        notes_on_comparison: The notes of the model on how it compares.
    """
    (query, document), (left, right) = sides, halves
    cosine = float(query.vector.double() @ document.vector.double())
    first, second = sorted(halves, key=lambda half: bool(half.media))  # beside a picture, the text comes first
    shifted = (replace(medium, first=medium.first + len(first.units)) for medium in second.media)
    sinks = ", ".join(map(repr, [*left.sinks, *right.sinks]))
    note = (f"attention sink: {sinks}; what a sink contributes is in the bias",) if sinks else ()
    biases = None if left.bias is None or right.bias is None else torch.stack([left.bias, right.bias])
    return Similarity(
        scores=np.concatenate([first.scores, second.scores]),
        units=first.units + second.units,
        media=tuple(with_distinct_names((*first.media, *shifted))),
        text="" if query.encoding.signal else query.encoding.text,
        text_pair=document.encoding.text,
        predictions=(Prediction("cosine", 0, cosine, None),),
        targets=(Target("cosine", "the cosine", 0),),
        token_predictions=_token_cosines(query, document),
        **{**origin, "quantity": "cosine"},
        notes=tuple(dict.fromkeys((*query.encoding.notes, *document.encoding.notes, *note, *notes_on_comparison))),
        merge=merge,
        bias=None if biases is None else _to_numpy(biases),
    )


def _token_cosines(query: Side, document: Side) -> tuple[Prediction, ...] | None:
    """Return the cosine of each token alone with the other text; None of pictures, or where no head reads a token."""
    cosines = torch.cat([query.token_vectors @ document.vector, document.token_vectors @ query.vector])  # (T1 + T2,)
    if query.encoding.signal is not None or document.encoding.signal is not None or bool(cosines.isnan().all()):
        return None
    return tuple(Prediction("cosine", 0, cosine, None) for cosine in cosines.tolist())


class Half(NamedTuple):
    """One of two texts or pictures with its contributions to the cosine."""

    units: Units
    media: tuple[Medium, ...]  # the picture, if it is one
    scores: FloatArray  # float32, (U,)
    bias: Tensor | None  # (); None if the method reports none
    sinks: list[str]  # its tokens that are attention sinks


def _half(task: Task, side: Side, scores: Scores, *, target: int, sequence: int) -> Half:
    """Return the contributions of a text's tokens, or of a picture's patches, to one cosine.

    Args:
        task: The task of the tower that embeds it.
        side: The text or the picture.
        scores: Its scores for K vectors, (K, 1, T).
        target: Which of these vectors it is compared with.
        sequence: 0 for the query, 1 for the document.
    """
    units, media = task.units(side.encoding)
    sinks = () if scores.sinks is None else scores.sinks.nonzero()[:, 0].tolist()
    return Half(
        units=replace(units, sequence=(sequence,) * len(units)),  # special tokens too: each text adds up to the cosine
        media=media,
        scores=_to_numpy(scores.values[target, 0]),
        bias=None if scores.bias is None else scores.bias[target, 0],
        sinks=[side.encoding.tokens[token] for token in sinks],
    )


def _origin_of_units(query: Side, document: Side) -> list[tuple[int, int]]:
    """Return each unit's side, 0 for the query and 1 for the document, and its index among that side's tokens.

    As in a result, a text comes before a picture.
    """
    sides = sorted(enumerate((query.encoding, document.encoding)), key=lambda side: side[1].signal is not None)
    return [(side, token) for side, encoding in sides for token in range(len(encoding))]


def _normalised(vectors: Tensor) -> Tensor:
    """Return vectors brought to length 1, in float32."""
    return torch.nn.functional.normalize(vectors.float(), dim=-1)


def _to_numpy(values: Tensor) -> FloatArray:
    """Return a tensor as an array of float32 of its own, row by row in memory."""
    return np.array(values.detach().float().cpu().numpy(), np.float32, order="C")


def embedding_task(model: TaskModel) -> Embeds:
    """Return the task of a model that embeds; refuse any other model.

    Args:
        model: The model.

    Raises:
        UnsupportedModelError: If it does not embed.
    """
    if not isinstance(model.task, Embeds):
        raise UnsupportedModelError(
            f"{model.name} is a model for {model.task.name}; similarity needs one that embeds texts: load it with "
            "task='embedding', or pass a SentenceTransformer. A reranker, which reads both texts at once, is a "
            "classifier: explain the pair (query, document)"
        )
    return model.task


def tower_for(model: TaskModel, item: Any) -> TaskModel:
    """Return the model that embeds an item: the model itself, or one of its two towers.

    Args:
        model: A model that embeds.
        item: A text or a picture.
    """
    tower = embedding_task(model).part_for(unwrapped(model.caller_model), item)
    return model if tower is None else model.side(*tower)


def encoded(model: TaskModel, items: Sequence[Any]) -> list[Encoding]:
    """Return the encodings of items.

    Args:
        model: The model, or the tower, that embeds them.
        items: Texts or pictures.
    """
    task: Any = model.task
    return task.encode_each(model, items)
