"""Explain the cosine of two texts by their tokens."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, MethodError
from ..inputs.texts import with_distinct_names
from ..leave_out.picking import Verify
from ..methods import Method, Request, Scores, check_finite, run_method
from ..methods.frozen import FrozenGradient
from ..model.batch_attempts import results_in_batches
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..pipeline.options import provenance
from ..results.collection import Attributions
from ..results.storage.schema import FloatArray, Strings
from ..results.targets import Prediction, Target
from ..results.units.kinds import Merge
from ..results.units.media import Medium
from ..results.units.units import Units
from ..tasks.base import Task
from .result import Similarity
from .sides import Side, Sides, embedded_sides, embedding_task
from .tasks.embedding import Direction
from .verification import verified_similarities


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
    sides = embedded_sides(model, first_item, second_items)
    comparison_notes = partial(task.comparison_notes, prompted=prompts is not None)
    results = _similarities(sides, method, matrix=matrix, comparison_notes=comparison_notes)
    if verify is not None:
        results = verified_similarities(sides, results, verify)
    return results[0] if single else Attributions(results)


def _similarities(
    sides: Sides, method: Method, *, matrix: bool, comparison_notes: Callable[[tuple[float, float]], Strings]
) -> list[Similarity]:
    """Return the contributions of the tokens of both sides to the cosine of each of K documents with the query.

    Args:
        sides: The query and the documents.
        method: The method.
        matrix: Whether pairs of tokens are scored, too.
        comparison_notes: Returns the notes of a result, from the lengths of the two vectors.
    """
    query = sides.query
    vectors = torch.stack([document.vector for document in sides.documents])[None]  # (1, K, C)
    (query_scores,) = _score(sides.query_tower, [query], method, vectors)
    directions = query.vector[None]  # (1, C), for the cosine
    if matrix:  # and for each token of the query and its bias
        token_directions = _token_directions(sides.query_tower, query, method)
        directions = torch.cat([directions, token_directions.to(directions)])  # (1 + T1 + 1, C)

    def score(indices: list[int]) -> list[Scores]:
        """Score the tokens of some documents for the directions."""
        expanded = directions.expand(len(indices), -1, -1)
        return _score(sides.document_tower, [sides.documents[index] for index in indices], method, expanded)

    encodings = [document.encoding for document in sides.documents]
    document_scores = results_in_batches(sides.document_tower, encodings, score, method.memory)
    origin = provenance(sides.query_tower, method)
    results = []
    for index, (document, scores) in enumerate(zip(sides.documents, document_scores, strict=True)):
        # The query is scored for the vector of each document, a document first for that of the query.
        query_half = _half(sides.query_tower.task, query, query_scores, vector=index, sequence=0)
        document_half = _half(sides.document_tower.task, document, scores, vector=0, sequence=1)
        notes = comparison_notes((query.length, document.length))
        result = _result(origin, query_half, document_half, method.word_merge, notes)
        if matrix:
            result = replace(result, pairs=_to_numpy(_with_bias(scores)[1:]))  # the first row is for the cosine
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
    with torch.inference_mode(not method.needs_grad):  # in which nothing can be backpropagated
        run: ForwardPass = method.forward(model, batch)
    request = Request(model, run, Direction.of(model.task, vectors))
    scores = run_method(method, request)
    bias = scores.bias  # (B, K, 1)
    if bias is not None and scores.sink is not None:  # a similarity has no field for what sinks contribute
        bias = bias.float() + scores.sink.float()
    text_scores = []
    for row, mask in enumerate(batch.mask):  # (T,), False at padding
        values = scores.values[row].detach()[..., mask].float()  # (K, 1, T)
        check_finite(method, request, values.cpu().numpy())
        bias_of_text = None if bias is None else bias[row].detach().to(values)  # (K, 1)
        sinks = None if scores.sinks is None else scores.sinks[row][mask]
        text_scores.append(Scores(values, bias=bias_of_text, sinks=sinks))
    return text_scores


def _with_bias(scores: Scores) -> Tensor:
    """Return the scores of a text by the frozen gradient, which has a bias, with it as a last column, (K, T + 1)."""
    return torch.cat([scores.values[:, 0], cast(Tensor, scores.bias)], 1)


class Half(NamedTuple):
    """One of two texts or pictures with its contributions to the cosine."""

    side: Side
    units: Units
    media: tuple[Medium, ...]  # the picture, if it is one
    scores: FloatArray  # float32, (U,)
    bias: Tensor | None  # (); None if the method reports none
    sinks: list[str]  # its tokens that are attention sinks


def _half(task: Task, side: Side, scores: Scores, *, vector: int, sequence: int) -> Half:
    """Return the contributions of a text's tokens, or of a picture's patches, to one cosine.

    Args:
        task: The task of the tower that embeds it.
        side: The text or the picture.
        scores: Its scores for K vectors, (K, 1, T).
        vector: The index of the vector among them that it is compared with.
        sequence: 0 for the query, 1 for the document.
    """
    units, media = task.units(side.encoding)
    sinks = () if scores.sinks is None else scores.sinks.nonzero()[:, 0].tolist()
    return Half(
        side=side,
        units=replace(units, sequence=(sequence,) * len(units)),  # special tokens too: each text adds up to the cosine
        media=media,
        scores=_to_numpy(scores.values[vector, 0]),
        bias=None if scores.bias is None else scores.bias[vector, 0],
        sinks=[side.encoding.tokens[token] for token in sinks],
    )


def _result(
    origin: Mapping[str, Any], query_half: Half, document_half: Half, merge: Merge, comparison_notes: Strings
) -> Similarity:
    """Return the similarity of two texts or pictures with the contributions of both.

    Args:
        origin: The fields of the result on the model and the method.
        query_half: What the query contributes.
        document_half: What the document contributes.
        merge: How tokens make words.
        comparison_notes: Notes on how the model itself compares.
    """
    query = query_half.side
    document = document_half.side
    cosine = float(query.vector.double() @ document.vector.double())
    # Beside a picture, the text comes first.
    first, second = sorted((query_half, document_half), key=lambda half: bool(half.media))
    media_of_second = (replace(medium, first=medium.first + len(first.units)) for medium in second.media)
    sinks = ", ".join(map(repr, [*query_half.sinks, *document_half.sinks]))
    sink_notes = (f"attention sink: {sinks}; what a sink contributes is in the bias",) if sinks else ()
    notes = (*query.encoding.notes, *document.encoding.notes, *sink_notes, *comparison_notes)
    biases = [half.bias for half in (query_half, document_half) if half.bias is not None]  # of both, or of none
    return Similarity(
        scores=np.concatenate([first.scores, second.scores]),
        units=first.units + second.units,
        media=tuple(with_distinct_names((*first.media, *media_of_second))),
        text="" if query.encoding.signal else query.encoding.text,  # of a picture: a `text_pair` stands behind a text
        text_pair=document.encoding.text,
        predictions=(Prediction("cosine", 0, cosine, None),),
        targets=(Target("cosine", "the cosine", 0),),
        token_predictions=_token_cosines(query, document),
        **{**origin, "quantity": "cosine"},
        notes=tuple(dict.fromkeys(notes)),
        merge=merge,
        bias=_to_numpy(torch.stack(biases)) if biases else None,
    )


def _token_cosines(query: Side, document: Side) -> tuple[Prediction, ...] | None:
    """Return the cosine of each token alone with the other text; None of pictures, or where no head reads a token."""
    cosines = torch.cat([query.token_vectors @ document.vector, document.token_vectors @ query.vector])  # (T1 + T2,)
    has_picture = query.encoding.signal is not None or document.encoding.signal is not None
    if has_picture or bool(cosines.isnan().all()):
        return None
    return tuple(Prediction("cosine", 0, cosine, None) for cosine in cosines.tolist())


def _to_numpy(values: Tensor) -> FloatArray:
    """Return a tensor as an array of float32 of its own, row by row in memory."""
    return np.array(values.detach().float().cpu().numpy(), np.float32, order="C")
