"""A multilayer perceptron of any depth and its descent, as compiled maths over two vectors.

All parameters lie in one vector, so clipping and Adam are single passes; the target network is a
second one. Layers are [inputs, outputs] matrices: a batch goes through each as one matrix product,
a single observation as a sum of rows, which is faster than a product for so little. The maths
follows the dtype of the parameters. Compiled functions get a network as its `handle` and its
parameters: ten arrays take as long to hand over as a small network takes to act.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray

from sibling_replay.replay.arrays import I64
from sibling_replay.replay.handles import handle_of, open_table, open_vector
from sibling_replay.training.adam import adam_pass, coefficients, squared_norm
from sibling_replay.training.initial import Layers
from sibling_replay.training.losses import PAL, size_above_one, slope_and_loss

# As in the table's network: no Python exception for a division, sums may be reassociated and fused.
_ENTRY: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
_INNER: dict[str, Any] = {**_ENTRY, "no_cpython_wrapper": True}
_FAST: dict[str, Any] = {**_INNER, "fastmath": {"reassoc", "contract", "nsz"}}
_FEW = 6  # columns, as the actions and observations of small tasks have


class Perceptron(NamedTuple):
    """Parameters, optimizer state and workspace of L layers for R rows."""

    sizes: NDArray[np.int64]  # [L + 1] inputs, hidden units, actions
    theta: NDArray[Any]  # [P] each layer's matrix, then its bias
    target: NDArray[Any]  # [P] the target network's
    mean: NDArray[Any]  # [P] Adam's first moment
    square: NDArray[Any]  # [P] Adam's second moment
    grad: NDArray[Any]  # [P]
    rows: NDArray[Any]  # [R, inputs] entries, then outcomes
    online: NDArray[Any]  # activations of all layers, [R, units] each, layer after layer
    aside: NDArray[Any]  # the same for the target network and for a single observation
    slopes: NDArray[Any]  # the loss's gradient with respect to `online`

    @property
    def handle(self) -> I64:
        """Where its arrays are; it must be kept alive as long as that is used."""
        return handle_of(self)


@njit(**_INNER)
def _opened(handle, theta):
    """The network of a handle with these parameters."""
    sizes = open_vector(handle, 0, np.int64)
    return Perceptron(
        sizes,
        theta,
        open_vector(handle, 2, theta.dtype),
        open_vector(handle, 3, theta.dtype),
        open_vector(handle, 4, theta.dtype),
        open_vector(handle, 5, theta.dtype),
        open_table(handle, 6, sizes[0], theta.dtype),
        open_vector(handle, 7, theta.dtype),
        open_vector(handle, 8, theta.dtype),
        open_vector(handle, 9, theta.dtype),
    )


def new_perceptron(layers: Layers, rows: int, dtype: DTypeLike) -> Perceptron:
    """A network with these weights ([outputs, inputs], as torch has them), target in step."""
    sizes = [layers[0][0].shape[1], *(bias.size for _, bias in layers)]
    pieces = [piece for weight, bias in layers for piece in (weight.T.ravel(), bias)]
    theta = np.concatenate(pieces).astype(dtype)
    units = rows * sum(sizes[1:])
    return Perceptron(
        sizes=np.array(sizes, np.int64),
        theta=theta,
        target=theta.copy(),
        mean=np.zeros_like(theta),
        square=np.zeros_like(theta),
        grad=np.zeros_like(theta),
        rows=np.zeros((rows, sizes[0]), dtype),
        online=np.zeros(units, dtype),
        aside=np.zeros(units, dtype),
        slopes=np.zeros(units, dtype),
    )


def layers_of(network: Perceptron) -> Layers:
    """Weights [outputs, inputs] and biases (copies)."""
    found, start = [], 0
    for inputs, outputs in zip(network.sizes[:-1], network.sizes[1:], strict=True):
        end = start + inputs * outputs
        weight = network.theta[start:end].reshape(inputs, outputs).T.copy()
        found.append((weight, network.theta[end : end + outputs].copy()))
        start = end + outputs
    return found


@njit(**_FAST)
def _product(a, b, out):
    """out = a @ b. A call of BLAS has a fixed cost, which so few columns do not repay."""
    if b.shape[1] > _FEW:
        np.dot(a, b, out)
        return
    columns = np.ascontiguousarray(b.T)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = b.dtype.type(0)
            for k in range(a.shape[1]):
                total += a[i, k] * columns[j, k]
            out[i, j] = total


@njit(**_FAST)
def _transposed_product(a, b, out):
    """out = a.T @ b, by sums of rows where a has few columns."""
    if a.shape[1] > _FEW:
        np.dot(a.T, b, out)
        return
    out[:] = b.dtype.type(0)
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[k, j] += a[i, k] * b[i, j]


@njit(**_FAST)
def _forward(sizes, theta, rows, activations, room):
    """Activations of every layer for these rows, in a workspace with room for so many. Returns the
    values [n, A]."""
    zero = theta.dtype.type(0)
    n = rows.shape[0]
    last = sizes.size - 2
    inputs = rows
    start = place = 0
    for layer in range(last + 1):
        fan_in, fan_out = sizes[layer], sizes[layer + 1]
        weight = theta[start : start + fan_in * fan_out].reshape(fan_in, fan_out)
        bias = theta[start + fan_in * fan_out : start + (fan_in + 1) * fan_out]
        found = activations[place : place + n * fan_out].reshape(n, fan_out)
        _product(inputs, weight, found)
        for row in range(n):
            if layer < last:
                for j in range(fan_out):
                    found[row, j] = max(found[row, j] + bias[j], zero)
            else:
                for j in range(fan_out):
                    found[row, j] += bias[j]
        start += (fan_in + 1) * fan_out
        place += room * fan_out
        inputs = found
    return inputs


@njit(**_FAST)
def _values_of_one(sizes, theta, obs, units):
    """The values of a single observation, by sums of rows, four at a time: with one at a time most
    of the time goes to loading and storing the sums. Four inactive units are passed over."""
    zero = theta.dtype.type(0)
    last = sizes.size - 2
    inputs = obs
    start = place = 0
    for layer in range(last + 1):
        fan_in, fan_out = sizes[layer], sizes[layer + 1]
        rows = theta[start : start + (fan_in + 1) * fan_out].reshape(fan_in + 1, fan_out)
        found = units[place : place + fan_out]
        for j in range(fan_out):
            found[j] = rows[fan_in, j]  # the bias
        fours = fan_in - fan_in % 4
        for k in range(0, fours, 4):
            a, b, c, d = inputs[k], inputs[k + 1], inputs[k + 2], inputs[k + 3]
            if a != zero or b != zero or c != zero or d != zero:
                for j in range(fan_out):
                    found[j] += (
                        a * rows[k, j]
                        + b * rows[k + 1, j]
                        + c * rows[k + 2, j]
                        + d * rows[k + 3, j]
                    )
        for k in range(fours, fan_in):
            for j in range(fan_out):
                found[j] += inputs[k] * rows[k, j]
        if layer < last:
            for j in range(fan_out):
                found[j] = max(found[j], zero)
        start += (fan_in + 1) * fan_out
        place += fan_out
        inputs = found
    return inputs


@njit(**_ENTRY)
def greedy(handle, theta, obs):
    """The action of largest value; of equal ones the first."""
    net = _opened(handle, theta)
    row = net.rows[0]
    for k in range(row.size):
        row[k] = obs[k]
    return np.argmax(_values_of_one(net.sizes, net.theta, row, net.aside))


@njit(**_ENTRY)
def values_of(handle, theta, rows):
    """Values [n, A] of any number of rows under online or target parameters (a copy)."""
    net = _opened(handle, theta)
    n = rows.shape[0]
    room = net.rows.shape[0]
    found = np.empty((n, net.sizes[-1]), theta.dtype)
    for start in range(0, n, room):
        part = rows[start : start + room]
        found[start : start + room] = _forward(net.sizes, theta, part, net.aside, room)
    return found


@njit(**_INNER)
def _write_targets(net, obs, next_obs, reward, terminated, truncated, gamma, through, targets):
    """Go forward with the entries [B] and the outcomes [M] of a batch, and write each outcome's
    Double-DQN target (eq. 11): r + gamma (1 - d) Q_target(s', argmax_a Q(s', a)). A truncated
    outcome is an end (d = 1) unless targets go `through` time limits."""
    size, outcomes = obs.shape[0], next_obs.shape[0]
    for b in range(size):
        for k in range(obs.shape[1]):
            net.rows[b, k] = obs[b, k]
    for m in range(outcomes):
        for k in range(obs.shape[1]):
            net.rows[size + m, k] = next_obs[m, k]
    room = net.rows.shape[0]
    used = net.rows[: size + outcomes]
    values = _forward(net.sizes, net.theta, used, net.online, room)
    beyond = _forward(net.sizes, net.target, used[size:], net.aside, room)
    for m in range(outcomes):
        best = 0
        for action in range(1, values.shape[1]):
            if values[size + m, action] > values[size + m, best]:
                best = action
        targets[m] = reward[m]
        if not (terminated[m] or (truncated[m] and not through)):
            targets[m] += net.theta.dtype.type(gamma) * beyond[m, best]


@njit(**_FAST)
def _backward(net, size):
    """The gradient of the loss, given its gradient with respect to the values of the entries."""
    zero = net.theta.dtype.type(0)
    room = net.rows.shape[0]
    end, place = net.theta.size, net.online.size
    for layer in range(net.sizes.size - 2, -1, -1):
        fan_in, fan_out = net.sizes[layer], net.sizes[layer + 1]
        start = end - (fan_in + 1) * fan_out
        place -= room * fan_out
        slope = net.slopes[place : place + size * fan_out].reshape(size, fan_out)
        of_weight = net.grad[start : start + fan_in * fan_out].reshape(fan_in, fan_out)
        of_bias = net.grad[start + fan_in * fan_out : end]
        of_bias[:] = zero
        for row in range(size):
            for j in range(fan_out):
                of_bias[j] += slope[row, j]
        if layer == 0:
            _transposed_product(net.rows[:size], slope, of_weight)
            return
        before = place - room * fan_in
        inputs = net.online[before : before + size * fan_in].reshape(size, fan_in)
        weight = net.theta[start : start + fan_in * fan_out].reshape(fan_in, fan_out)
        earlier = net.slopes[before : before + size * fan_in].reshape(size, fan_in)
        _transposed_product(inputs, slope, of_weight)
        np.dot(slope, weight.T, earlier)
        for row in range(size):
            for k in range(fan_in):
                earlier[row, k] = earlier[row, k] if inputs[row, k] > zero else zero
        end = start


@njit(**_INNER)
def _descend(
    net, action, targets, weights, shift, kind, number, update, learning_rate, grad_clip, errors
):
    """One step of Adam (number `update`, from 1) on the entries of the last `_write_targets`.

    `errors` receives target minus value from before the step. The loss is mean_b w_b f(error_b +
    shift_b), with f the loss of this `kind` and `number`, as `losses` has it (two numbers: a tuple
    takes as long to hand over as eight arrays). Returns the mean loss; NaN, with nothing changed,
    if the gradient's norm is not finite.
    """
    dtype = net.theta.dtype.type
    size, n_actions = action.size, net.sizes[-1]
    room = net.rows.shape[0]
    place = net.online.size - room * n_actions
    values = net.online[place : place + size * n_actions].reshape(size, n_actions)
    slope = net.slopes[place : place + size * n_actions].reshape(size, n_actions)
    slope[:] = dtype(0)
    scale_of_loss = 0.0
    for b in range(size):
        errors[b] = dtype(targets[b]) - values[b, action[b]]
        if kind == PAL:
            pull = errors[b] + dtype(shift[b]) if shift.size else errors[b]
            scale_of_loss += size_above_one(pull, number) / size
    total = 0.0
    for b in range(size):
        pull = errors[b] + dtype(shift[b]) if shift.size else errors[b]
        weight = dtype(weights[b])
        force, one = slope_and_loss(pull, kind, number, scale_of_loss)
        total += weight * one
        slope[b, action[b]] = -weight * dtype(force) / dtype(size)
    _backward(net, size)
    norm = math.sqrt(squared_norm(net.grad))
    if not norm < np.inf:
        return np.nan
    scale = coefficients(net.theta.dtype.type, norm, update, learning_rate, grad_clip)
    adam_pass(net.theta, net.mean, net.square, net.grad, scale)
    return total / size


@njit(**_ENTRY)
def write_targets(
    handle, theta, obs, next_obs, reward, terminated, truncated, gamma, through, targets
):
    """The targets of outcomes, where each entry has several; `descend` on their means follows."""
    net = _opened(handle, theta)
    _write_targets(net, obs, next_obs, reward, terminated, truncated, gamma, through, targets)


@njit(**_ENTRY)
def descend(
    handle, theta, action, targets, weights, shift, kind, number, update, learning_rate, grad_clip,
    errors,
):  # fmt: skip
    """One step of Adam toward the means of the targets that were written last."""
    net = _opened(handle, theta)
    return _descend(
        net, action, targets, weights, shift, kind, number, update, learning_rate, grad_clip, errors
    )


@njit(**_ENTRY)
def learn(
    handle, theta, obs, action, reward, next_obs, terminated, truncated, weights, shift,
    gamma, through, kind, number, update, learning_rate, grad_clip, targets, errors,
):  # fmt: skip
    """Both at once, where each entry has one outcome."""
    net = _opened(handle, theta)
    _write_targets(net, obs, next_obs, reward, terminated, truncated, gamma, through, targets)
    return _descend(
        net, action, targets, weights, shift, kind, number, update, learning_rate, grad_clip, errors
    )


@njit(**_ENTRY)
def move_target(handle, theta, share):
    """target += share (online - target); a share of one copies."""
    net = _opened(handle, theta)
    part = net.theta.dtype.type(share)
    if share == 1.0:
        net.target[:] = net.theta
        return
    for i in range(net.theta.size):
        net.target[i] += part * (net.theta[i] - net.target[i])
