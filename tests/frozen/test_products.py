"""Which factor of a product is held, by the criterion that decides, whichever stands on the left."""

import pytest
import torch
from torch.nn import functional as F

from tests.frozen.slopes import slope_of

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(2))
A = torch.linspace(-1, 1, 16).reshape(4, 4)
B = torch.linspace(2, -1, 16).reshape(4, 4).sin()
C = torch.linspace(1, 3, 16).reshape(4, 4).cos()


def moves_alone(moving, held, product=torch.mul):
    """Return whether a product of two functions of x has the slope that it has where the second one is a number."""
    value = held(X)
    slopes = slope_of(lambda x: product(moving(x), held(x)), X), slope_of(lambda x: product(moving(x), value), X)
    return torch.allclose(*slopes, atol=1e-4, rtol=1e-4)


def both_ways(moving, held, product=torch.mul):
    return moves_alone(moving, held, product) and moves_alone(moving, held, lambda x, y: product(y, x))


def swish(x):
    return x * torch.sigmoid(x)


def tanh_unit(x):
    return 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x**3)))


ELEMENTWISE = {
    "a gate": (lambda x: x @ A, lambda x: torch.sigmoid(x @ B)),
    "a gate, reshaped": (lambda x: x @ A, lambda x: torch.sigmoid(x @ B).T.contiguous().T),
    "a gate with constants": (lambda x: x @ A, lambda x: 1 - torch.sigmoid(x @ B) * 2),
    "a gate before another activation": (lambda x: torch.tanh(x @ A), lambda x: torch.sigmoid(x @ B)),
    "an activation": (lambda x: x @ A, lambda x: F.silu(x @ B)),
    "an activation that is written out": (lambda x: x @ A, lambda x: swish(x @ B)),
    "one that is written out by a tanh": (lambda x: x @ A, lambda x: tanh_unit(x @ B)),
    "a relu, its first half": (lambda x: (x @ A)[:, :2], lambda x: F.relu(x @ B)[:, :2]),
    "what is computed from the other": (lambda x: x * 1, lambda x: torch.sigmoid(x @ B).sum(-1, keepdim=True)),
    "what is computed from the other, reshaped": (lambda x: x.T.contiguous().T * 2, lambda x: x @ B),
    "a column": (lambda x: x @ A, lambda x: (x @ B).mean(-1, keepdim=True)),
    "a row": (lambda x: x @ A, lambda x: (x @ B).mean(0)),
    "a constant": (lambda x: x @ A, lambda _: B[:3]),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_of_two_values_one_is_held_on_either_side(name):
    assert both_ways(*ELEMENTWISE[name])


UNDECIDED = {
    "two sums": (lambda x: x @ A, lambda x: x @ B),
    "two activations": (lambda x: F.silu(x @ A), lambda x: F.relu(x @ B)),
    "two gates": (lambda x: torch.sigmoid(x @ A), lambda x: F.softplus(x @ B)),
    "a product of two is no activation": (lambda x: x @ A, lambda x: (x @ B) * (x @ C)),
    "a sum with an activation is none": (lambda x: x @ A, lambda x: x @ B + F.silu(x @ C)),
    "an activation that a matrix mixes is none": (lambda x: x @ A, lambda x: F.silu(x @ B) @ C),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_where_nothing_decides_the_left_one_is_held(name):
    first, second = UNDECIDED[name]
    assert moves_alone(first, second, lambda x, y: y * x)
    assert moves_alone(second, first, lambda x, y: y * x)


def row_of(matrix):
    return lambda x: (x @ matrix)[:1]  # (1, 4)


def column_of(matrix):
    return lambda x: (x @ matrix)[:1].T  # (4, 1)


def of(matrix):
    return lambda x: x @ matrix  # (3, 4)


def square(matrix):
    return lambda x: x.T @ X @ matrix  # (4, 4), in which x is one factor alone


def test_a_matrix_is_read_with_a_single_vector():
    """As a query reads the state of a recurrent layer: the vector is held, the state moves."""
    assert moves_alone(square(A), row_of(B), lambda state, row: row @ state)
    assert moves_alone(square(A), column_of(B), lambda state, column: state @ column)
    assert moves_alone(square(A), lambda x: (x @ B)[0], lambda state, vector: vector @ state)
    assert moves_alone(square(A), lambda x: (x @ B)[0], lambda state, vector: state @ vector)
    assert moves_alone(lambda x: square(A)(x)[None], lambda x: row_of(B)(x)[None], lambda state, row: row @ state)


def test_of_two_matrices_or_two_vectors_the_left_one_is_held():
    assert moves_alone(square(A), of(B), lambda state, rows: rows @ state)
    assert moves_alone(row_of(A), column_of(B), lambda row, column: column @ row)
    assert moves_alone(column_of(A), row_of(B), lambda column, row: row @ column)
    assert moves_alone(lambda x: (x @ A)[0], lambda x: (x @ B)[1], lambda left, right: right @ left)
    assert moves_alone(lambda x: (x @ A)[:, :1], square(B), lambda column, state: state[:3, :3] @ column[:3]) is False


def test_of_matrices_a_gate_alone_decides():
    """Weights @ activated values: the values move, but a gate is held on either side."""
    assert moves_alone(lambda x: F.silu(x @ A), lambda x: x @ B @ X.T, lambda values, weights: weights @ values)
    assert moves_alone(lambda x: x @ A, lambda x: torch.sigmoid(x @ B @ X.T), lambda values, gates: gates @ values)
    assert moves_alone(lambda x: x @ A @ X.T, lambda x: torch.sigmoid(x @ B), lambda values, gates: values @ gates)
