"""Importance weights of every strategy, in one formula.

Let m be the mean mass behind a trained slot: its own mass u_j for PER, the group's mean s_g / n_g
for the sibling strategies. Both laws are then m / S, so the importance ratio to uniform replay
is S / (N m) (eq. 10), and w = (S / (N m))^beta. Dividing by the largest weight replaces S / N by
the least m: of the minibatch, or of the whole buffer. So w = (reference / m)^beta, with no
overflow for any mass.
"""

from __future__ import annotations

import numpy as np

from sibling_replay.replay.inner import inner
from sibling_replay.strategies.power import write_powers

UNNORMALIZED, BY_BATCH, BY_BUFFER = range(3)
NORMALIZATIONS = {None: UNNORMALIZED, "batch": BY_BATCH, "buffer": BY_BUFFER}


@inner()
def write_weights(means, total, live, floor, beta, normalize, weights):
    """Weights from the mean masses of a minibatch. Overwrites `means`.

    `floor` is the least mean mass in the buffer.
    """
    if normalize == UNNORMALIZED:
        reference = total / live
    elif normalize == BY_BUFFER:
        reference = floor
    else:
        reference = np.inf
        for b in range(means.size):
            reference = min(reference, means[b])
    powers = np.empty(means.size)
    for b in range(means.size):
        means[b] = reference / means[b]
    write_powers(means, beta, powers)
    for b in range(means.size):
        weights[b] = powers[b]
