"""The built-in strategies once more, in NumPy, and right: saboteurs have one mistake more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sibling_replay import Draw, Law, Needs, Refresh, Strategy, Terms, register


def own_law(view):
    masses = view.masses[view.slots]
    return masses / masses.sum()


def group_law(view, slots):
    """s_g / (S n_g) of some slots."""
    groups = view.groups(slots)
    return view.group_masses(groups) / (view.total * view.group_sizes(groups))


class NumPyUniform(Strategy):
    def draw(self, view, size, stream, beta):
        return Draw(slots=view.slots[(stream.take(size) * view.size).astype(np.int64)])

    def law(self, view, size):
        each = np.full(view.size, 1.0 / view.size)
        return Law(each, each, each)


@register
@dataclass(frozen=True, kw_only=True)
class PlainPER(Strategy):
    """Prioritized replay. `draw` is in steps, for saboteurs to change one."""

    name = "plain-per"

    def anchors(self, view, size, stream):
        return view.find((np.arange(size) + stream.take(size)) * (view.total / size))

    def weights(self, view, slots, beta):
        return self.importance_weights(view, view.masses[slots] / view.total, beta)

    def draw(self, view, size, stream, beta):
        slots = self.anchors(view, size, stream)
        return Draw(slots=slots, weights=self.weights(view, slots, beta))

    def refresh(self, view, draw, td_errors, signals):
        return Refresh(slots=draw.slots, priorities=np.abs(td_errors) + self.epsilon)

    def law(self, view, size):
        return Law(*[own_law(view)] * 3)


class NumPySample(PlainPER):
    needs = Needs(groups=True)

    def siblings(self, view, anchors, stream):
        return view.pick(view.groups(anchors), stream.take(anchors.size))

    def weights(self, view, slots, beta):
        if self.normalize == "buffer":
            weights = (view.size * group_law(view, slots)) ** -beta
            return weights / ((view.size * group_law(view, view.slots)) ** -beta).max()
        return self.importance_weights(view, group_law(view, slots), beta)

    def draw(self, view, size, stream, beta):
        anchors = self.anchors(view, size, stream)
        slots = self.siblings(view, anchors, stream)
        return Draw(slots=slots, anchors=anchors, weights=self.weights(view, slots, beta))

    def law(self, view, size):
        sibling = group_law(view, view.slots)
        return Law(own_law(view), sibling, sibling)


class NumPyModel(NumPySample):
    needs = Needs(groups=True, other_outcomes=True)

    def draw(self, view, size, stream, beta):
        anchors = self.anchors(view, size, stream)
        return Draw(
            slots=anchors,
            outcome_slots=self.siblings(view, anchors, stream),
            weights=self.weights(view, anchors, beta),
        )

    def law(self, view, size):
        return Law(own_law(view), own_law(view), group_law(view, view.slots))


@dataclass(frozen=True, kw_only=True)
class NumPyAverage(NumPyModel):
    needs = Needs(groups=True, other_outcomes=True, averages=True)
    max_siblings: int | None = None
    update_all_siblings: bool = False
    of: str = "targets"

    def averaged(self, view, anchor, stream):
        """The slots to average over."""
        members = view.members(int(view.groups(np.array([anchor]))[0]))
        most = self.max_siblings or members.size
        return members[np.argsort(stream.take(members.size))][:most]

    def shares(self, view, slots):
        return np.full(slots.size, 1.0 / slots.size)

    def draw(self, view, size, stream, beta):
        anchors = self.anchors(view, size, stream)
        rows = [self.averaged(view, anchor, stream) for anchor in anchors]
        terms = Terms(
            np.cumsum([0, *(row.size for row in rows)]),
            np.concatenate(rows),
            np.concatenate([self.shares(view, row) for row in rows]),
        )
        return Draw(slots=anchors, terms=terms, weights=self.weights(view, anchors, beta))

    def refreshed(self, draw, priorities):
        """Slots and proposed priorities."""
        if not self.update_all_siblings:
            return draw.slots, priorities
        return draw.terms.slots, np.repeat(priorities, np.diff(draw.terms.starts))

    def refresh(self, view, draw, td_errors, signals):
        slots, priorities = self.refreshed(draw, np.abs(td_errors) + self.epsilon)
        order = np.argsort(priorities, kind="stable")  # the last stays: the largest
        return Refresh(slots=slots[order], priorities=priorities[order])
