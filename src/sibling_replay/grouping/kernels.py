"""The compiled part of the maps: one row at a time, each sum in one fixed order, no reassociation.

So the key of a row depends neither on the rest of its batch, nor on the number of threads, nor on
the width of the processor's vectors. (A product of matrices by a BLAS library depends on all three:
keys near a boundary would flip.) Rows are [n, d] of any dtype, in C order. What a kernel is given
beside them has been checked: compiled code follows any index.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def first_not_finite(x):
    """The place of the first value, in C order, that is NaN or infinite; -1 if none is."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if not abs(np.float64(x[i, j])) < np.inf:
                return i * x.shape[1] + j
    return -1


@njit(cache=True)
def as_truths(cells):
    """Make 1 of every byte that is not 0, as NumPy takes those for true as well."""
    for i in range(cells.size):
        cells[i] = np.uint8(cells[i] != 0)


@njit(cache=True)
def moments(x):
    """Mean and standard deviation of each column."""
    n, d = x.shape
    mean = np.zeros(d)
    squares = np.zeros(d)
    for i in range(n):
        for j in range(d):
            mean[j] += np.float64(x[i, j])
    for j in range(d):
        mean[j] /= n
    for i in range(n):
        for j in range(d):
            gap = np.float64(x[i, j]) - mean[j]
            squares[j] += gap * gap
    return mean, np.sqrt(squares / n)


# Keys of rows are written to `out` [n, words]. These kernels return -1, or the place of a value
# that is not finite. They are called for a batch of one as well: there is no second way to a key.


_FEW_EDGES = 128  # that a processor counts, several at a time, faster than it finds one's place


@njit(cache=True)
def grid_cells(x, columns, edges, out):
    """The bin of a column is how many of its edges are at or below the value; bins are the digits
    of a number of mixed radix.

    columns: [k, 3], of each chosen column its number, how many bins it has, and the word of `out`
        that its bin goes to; words in ascending order.
    edges: [k, most], ascending, filled up with infinity.
    """
    most = edges.shape[1]
    for i in range(x.shape[0]):
        code, word = np.int64(0), np.int64(0)
        for k in range(columns.shape[0]):
            value = np.float64(x[i, columns[k, 0]])
            if not abs(value) < np.inf:
                return i * x.shape[1] + columns[k, 0]
            digit = np.int64(0)
            if most <= _FEW_EDGES:
                for e in range(most):
                    digit += np.int64(edges[k, e] <= value)
            else:
                digit = _bin(value, edges[k])
            if columns[k, 2] != word:
                out[i, word] = code
                code, word = np.int64(0), columns[k, 2]
            code = code * columns[k, 1] + digit
        out[i, word] = code
    return -1


@njit(cache=True)
def _bin(value, edges):
    """How many of ascending edges are at or below a value, by halving."""
    low, high = np.int64(0), np.int64(edges.size)
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _project(row, weights, sums):
    """sums = row @ weights, column by column; many columns of images are zero. Returns 0, or -1
    minus the column of a value that is not finite."""
    for k in range(sums.size):
        sums[k] = 0.0
    for j in range(row.size):
        value = np.float64(row[j])
        if value != 0.0:
            if not abs(value) < np.inf:
                return -1 - j
            for k in range(sums.size):
                sums[k] += value * weights[j, k]
    return 0


@njit(cache=True)
def projections(x, weights, out):
    """out = x @ weights, of finite rows."""
    for i in range(x.shape[0]):
        _project(x[i], weights, out[i])


@njit(cache=True)
def _hash_row(row, weights, thresholds, sums):
    code = np.int64(_project(row, weights, sums))
    if code == 0:
        for k in range(sums.size):
            code |= np.int64(sums[k] >= thresholds[k]) << k
    return code


@njit(cache=True)
def hash_all(x, weights, thresholds, out):
    """Bit b: on which side of the b-th hyperplane a row lies."""
    sums = np.empty(thresholds.size)
    for i in range(x.shape[0]):
        out[i, 0] = _hash_row(x[i], weights, thresholds, sums)
        if out[i, 0] < 0:
            return i * x.shape[1] - 1 - out[i, 0]
    return -1


@njit(cache=True)
def _nearest_row(row, weights, bias, sums):
    wrong = np.int64(_project(row, weights, sums))
    if wrong < 0:
        return wrong
    best = np.int64(0)
    least = np.inf
    for k in range(sums.size):
        distance = bias[k] - sums[k]
        if distance < least:
            best, least = np.int64(k), distance
    return best


@njit(cache=True)
def nearest_all(x, weights, bias, out):
    """The centre of least squared distance, the first of several: |x - c|^2 / 2 is
    bias_c - x @ weights_c, but for what is the same for all centres."""
    sums = np.empty(bias.size)
    for i in range(x.shape[0]):
        out[i, 0] = _nearest_row(x[i], weights, bias, sums)
        if out[i, 0] < 0:
            return i * x.shape[1] - 1 - out[i, 0]
    return -1


@njit(cache=True)
def fold(mean, scale, centres):
    """What `nearest_all` takes, of rows as they come, for centres of (x - mean) * scale."""
    k, d = centres.shape
    weights = np.empty((d, k))
    bias = np.zeros(k)
    for c in range(k):
        for j in range(d):
            weights[j, c] = centres[c, j] * scale[j]
            bias[c] += 0.5 * centres[c, j] * centres[c, j] + mean[j] * weights[j, c]
    return weights, bias


@njit(cache=True)
def spread_centres(columns, uniforms):
    """Rows to start from (k-means++): each next one with probability in proportion to the squared
    distance to the nearest so far. Fewer than asked for, if there are fewer different rows.

    columns: [d, n], so that the distances of many rows are taken at a time.
    """
    d, n = columns.shape
    chosen = np.empty(uniforms.size, dtype=np.int64)
    nearest = np.full(n, np.inf)
    distances = np.empty(n)
    chosen[0] = min(np.int64(uniforms[0] * n), n - 1)
    for k in range(1, uniforms.size):
        distances[:] = 0.0
        for j in range(d):
            centre = columns[j, chosen[k - 1]]
            for i in range(n):
                gap = columns[j, i] - centre
                distances[i] += gap * gap
        total = 0.0
        for i in range(n):
            nearest[i] = min(nearest[i], distances[i])
            total += nearest[i]
        if not total > 0.0:
            return chosen[:k]
        target = uniforms[k] * total
        last = np.int64(-1)
        for i in range(n):
            if nearest[i] > 0.0:  # so never the same row twice, whatever rounding does
                last = i
                target -= nearest[i]
                if target < 0.0:
                    break
        chosen[k] = last
    return chosen


@njit(cache=True)
def lloyd(x, mean, scale, centres, rounds):
    """Move centres of (x - mean) * scale, in place, to the means of the rows nearest to them, until
    none moves. One without rows stays."""
    n, d = x.shape
    k = centres.shape[0]
    owner = np.full(n, -1)
    found = np.empty((n, 1), dtype=np.int64)
    for _ in range(rounds):
        weights, bias = fold(mean, scale, centres)
        nearest_all(x, weights, bias, found)
        moved = False
        for i in range(n):
            moved |= found[i, 0] != owner[i]
            owner[i] = found[i, 0]
        if not moved:
            return
        sums = np.zeros((k, d))
        counts = np.zeros(k)
        for i in range(n):
            counts[owner[i]] += 1.0
            for j in range(d):
                sums[owner[i], j] += np.float64(x[i, j])
        for c in range(k):
            if counts[c] > 0.0:
                for j in range(d):
                    centres[c, j] = (sums[c, j] / counts[c] - mean[j]) * scale[j]


@njit(cache=True)
def cell_means(images, after, rows, columns, out):
    """Means over a grid of windows: images [n, before, height, width * after], out [n, before,
    rows, columns, after]. Windows part the image without overlap. Lines of an image are added up
    first, which a processor does many values at a time."""
    n, before, height, line = images.shape
    width = line // after
    sums = np.empty(line)
    for i in range(n):
        for b in range(before):
            for r in range(rows):
                top, bottom = r * height // rows, (r + 1) * height // rows
                for k in range(line):
                    sums[k] = np.float64(images[i, b, top, k])
                for y in range(top + 1, bottom):
                    for k in range(line):
                        sums[k] += np.float64(images[i, b, y, k])
                for c in range(columns):
                    left, right = c * width // columns, (c + 1) * width // columns
                    area = np.float64((bottom - top) * (right - left))
                    for a in range(after):
                        total = 0.0
                        for x in range(left, right):
                            total += sums[x * after + a]
                        out[i, b, r, c, a] = total / area


@njit(cache=True)
def to_levels(means, low, high, levels, out):
    """Numbers from `low` to `high` as whole numbers from 0 to levels - 1; those outside go to the
    ends. Returns -1, or the place of one that is not finite."""
    step = (high - low) / levels
    for i in range(means.shape[0]):
        for j in range(means.shape[1]):
            if not abs(means[i, j]) < np.inf:
                return i * means.shape[1] + j
            level = np.int64(0)
            if step > 0.0:
                level = np.int64(np.floor(max(min((means[i, j] - low) / step, levels), -1.0)))
            out[i, j] = max(0, min(level, levels - 1))
    return -1
