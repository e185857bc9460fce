"""The Q-network of a finite environment: one-hot -> H -> H -> A with ReLU, as compiled maths.

A one-hot input picks a row of the first layer, so the network is a function of an integer state. A
minibatch of 32 transitions meets few distinct states: each is evaluated once, errors are summed per
(state, action), and every layer is one small matrix product over the distinct states. That is the
gradient of the batch exactly, up to the order of additions. All parameters lie in one vector, so
clipping and Adam are single vectorised passes. Target values change only at target updates and are
kept as a table [S, A].

The maths follows the dtype of the parameters: float32 in every run, float64 where a test wants to
compare two implementations over thousands of chaotic steps.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sibling_replay.replay.inner import inner
from sibling_replay.training.adam import adam_pass, coefficients, squared_norm
from sibling_replay.training.initial import Layers

# Division by zero must not be a Python exception, or the loops do not vectorise; sums may be
# reassociated and fused, but infinities and NaN keep their meaning.
_FAST: dict[str, Any] = {"error_model": "numpy", "forceinline": True}
_FASTER: dict[str, Any] = {**_FAST, "fastmath": {"reassoc", "contract", "nsz"}}


class Network(NamedTuple):
    """Parameters, optimizer state and workspace. The named layers are views into the vectors.

    S states, A actions, H hidden units, R = the most distinct states an update can meet.
    """

    theta: NDArray[Any]  # [P] all parameters: first, bias1, second, bias2, third, bias3
    mean: NDArray[Any]  # [P] Adam's first moment
    square: NDArray[Any]  # [P] Adam's second moment
    grad: NDArray[Any]  # [P] zero outside `learn`, except where every update overwrites it
    first: NDArray[Any]  # [S, H] row s is the first layer's answer to state s
    bias1: NDArray[Any]  # [H]
    second: NDArray[Any]  # [H, H] input x output
    bias2: NDArray[Any]  # [H]
    third: NDArray[Any]  # [A, H] output x input
    bias3: NDArray[Any]  # [A]
    grad_first: NDArray[Any]  # [S, H]
    grad_bias1: NDArray[Any]  # [H]
    grad_second: NDArray[Any]  # [H, H]
    grad_bias2: NDArray[Any]  # [H]
    grad_third: NDArray[Any]  # [A, H]
    grad_bias3: NDArray[Any]  # [A]
    target: NDArray[Any]  # [S, A] values of the target network
    row_of: NDArray[np.int32]  # [S] row of a state in the workspace, -1 if it has none
    states: NDArray[np.int32]  # [R] the inverse of row_of
    hidden1: NDArray[Any]  # [R, H]
    hidden2: NDArray[Any]  # [R, H]
    values: NDArray[Any]  # [R, A]
    d_values: NDArray[Any]  # [R, A] loss gradient
    d_hidden2: NDArray[Any]  # [R, H]
    d_hidden1: NDArray[Any]  # [R, H]
    scratch: NDArray[Any]  # [H]


def new_network(layers: Layers, max_rows: int, dtype: DTypeLike = np.float32) -> Network:
    """A network with these weights, target table in step, room for `max_rows` distinct states."""
    (w1, b1), (w2, b2), (w3, b3) = layers
    pieces = [w1.T, b1, w2.T, b2, w3, b3]
    theta = np.concatenate([piece.ravel() for piece in pieces]).astype(dtype)
    grad = np.zeros_like(theta)
    n_states, hidden, n_actions = w1.shape[1], w2.shape[0], w3.shape[0]
    rows = min(max_rows, n_states)
    names = ("first", "bias1", "second", "bias2", "third", "bias3")
    arrays: dict[str, NDArray[Any]] = {
        "theta": theta,
        "mean": np.zeros_like(theta),
        "square": np.zeros_like(theta),
        "grad": grad,
        **dict(zip(names, _views(theta, pieces), strict=True)),
        **{f"grad_{n}": view for n, view in zip(names, _views(grad, pieces), strict=True)},
        "target": np.zeros((n_states, n_actions), dtype),
        "row_of": np.full(n_states, -1, np.int32),
        "states": np.zeros(rows, np.int32),
        **{name: np.zeros((rows, n_actions), dtype) for name in ("values", "d_values")},
        **{
            name: np.zeros((rows, hidden), dtype)
            for name in ("hidden1", "hidden2", "d_hidden1", "d_hidden2")
        },
        "scratch": np.zeros(hidden, dtype),
    }
    network = Network(**arrays)
    all_values(network, network.target)
    return network


def _views(vector: NDArray[Any], pieces: list[NDArray[Any]]) -> list[NDArray[Any]]:
    ends = np.cumsum([piece.size for piece in pieces])
    return [
        vector[end - piece.size : end].reshape(piece.shape)
        for end, piece in zip(ends, pieces, strict=True)
    ]


@inner(**_FAST)
def add_row(row_of, states, n, state):
    """Give a state a row of the workspace if it has none; the number of rows in use after it."""
    if row_of[state] < 0:
        row_of[state] = n
        states[n] = state
        n += 1
    return n


@inner(**_FAST)
def drop_rows(net, n):
    """Forget the first n rows."""
    for row in range(n):
        net.row_of[net.states[row]] = -1


@inner(**_FASTER)
def forward(net, n):
    """Hidden activations and values of the states of rows 0..n-1."""
    zero = net.theta.dtype.type(0)
    width = net.bias1.size
    for row in range(n):
        state = net.states[row]
        for j in range(width):
            net.hidden1[row, j] = max(net.first[state, j] + net.bias1[j], zero)
    np.dot(net.hidden1[:n], net.second, net.hidden2[:n])
    for row in range(n):
        for j in range(width):
            net.hidden2[row, j] = max(net.hidden2[row, j] + net.bias2[j], zero)
        for action in range(net.bias3.size):
            total = net.bias3[action]
            for j in range(width):
                total += net.hidden2[row, j] * net.third[action, j]
            net.values[row, action] = total


@inner(error_model="numpy")
def all_values(net, out):
    """Values [S, A] of every state, in as many passes as the workspace needs."""
    room = net.states.size
    for start in range(0, net.row_of.size, room):
        n = 0
        for state in range(start, min(start + room, net.row_of.size)):
            n = add_row(net.row_of, net.states, n, state)
        forward(net, n)
        for row in range(n):
            for action in range(out.shape[1]):
                out[start + row, action] = net.values[row, action]
        drop_rows(net, n)


@inner(**_FAST)
def first_largest(values):
    """The greedy action: of equal values the first wins, as in numpy and torch on a CPU."""
    best = 0
    for action in range(1, values.size):
        if values[action] > values[best]:
            best = action
    return best


@inner(**_FASTER)
def greedy(net, state):
    """The greedy action in one state, by a forward pass of its own over the active units."""
    zero = net.theta.dtype.type(0)
    width = net.bias1.size
    hidden = net.scratch
    for j in range(width):
        hidden[j] = net.bias2[j]
    for k in range(width):
        active = net.first[state, k] + net.bias1[k]
        if active > zero:
            for j in range(width):
                hidden[j] += active * net.second[k, j]
    best = 0
    best_value = -net.theta.dtype.type(np.inf)
    for action in range(net.bias3.size):
        total = net.bias3[action]
        for j in range(width):
            total += max(hidden[j], zero) * net.third[action, j]
        if total > best_value:
            best_value = total
            best = action
    return best


@inner(**_FASTER)
def backward(net, n):
    """The gradient of the loss, given its gradient with respect to the values of rows 0..n-1."""
    zero = net.theta.dtype.type(0)
    width = net.bias1.size
    net.grad_bias1[:] = zero
    net.grad_bias2[:] = zero
    net.grad_third[:] = zero
    net.grad_bias3[:] = zero
    for row in range(n):
        delta = net.d_hidden2[row]
        hidden = net.hidden2[row]
        for j in range(width):
            delta[j] = zero
        for action in range(net.bias3.size):
            d = net.d_values[row, action]
            if d != zero:
                net.grad_bias3[action] += d
                for j in range(width):
                    net.grad_third[action, j] += d * hidden[j]
                    delta[j] += d * net.third[action, j]
        for j in range(width):
            delta[j] = delta[j] if hidden[j] > zero else zero
            net.grad_bias2[j] += delta[j]
    np.dot(net.hidden1[:n].T, net.d_hidden2[:n], net.grad_second)
    np.dot(net.d_hidden2[:n], net.second.T, net.d_hidden1[:n])
    for row in range(n):
        state = net.states[row]
        for k in range(width):
            d = net.d_hidden1[row, k] if net.hidden1[row, k] > zero else zero
            net.grad_first[state, k] = d
            net.grad_bias1[k] += d


@inner(**_FAST)
def optimize(net, n, update, learning_rate, grad_clip):
    """Clip the gradient norm, take Adam step number `update` (from 1), clear rows 0..n-1."""
    dtype = net.theta.dtype.type
    norm = squared_norm(net.grad[net.first.size :])
    for row in range(n):
        norm += squared_norm(net.grad_first[net.states[row]])
    scale = coefficients(dtype, math.sqrt(norm), update, learning_rate, grad_clip)
    adam_pass(net.theta, net.mean, net.square, net.grad, scale)
    for row in range(n):
        net.grad_first[net.states[row]] = dtype(0)
