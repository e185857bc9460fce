"""Strategies with one mistake each, of the kinds that are easily made."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from sibling_replay import Draw, Needs, Refresh
from support.example_files import load_example
from support.numpy_strategies import NumPyAverage, NumPyModel, NumPySample, NumPyUniform, PlainPER

EvenGroups = load_example("strategies/even_groups.py").EvenGroups
RankBasedNumPy = load_example("strategies/rank_based.py").RankBasedNumPy
GroupMean = load_example("strategies/group_mean.py").GroupMean


class LastNeverDrawn(NumPyUniform):
    def draw(self, view, size, stream, beta):
        return Draw(slots=view.slots[(stream.take(size) * (view.size - 1)).astype(np.int64)])


class HalfWeights(NumPyUniform):
    def draw(self, view, size, stream, beta):
        return replace(super().draw(view, size, stream, beta), weights=np.full(size, 0.5))


class UniformRefreshes(NumPyUniform):
    refresh = PlainPER.refresh


class AlphaTwice(PlainPER):
    def refresh(self, view, draw, td_errors, signals):
        found = super().refresh(view, draw, td_errors, signals)
        return replace(found, priorities=found.priorities**self.alpha)


class AlphaTwiceInDraws(PlainPER):
    def anchors(self, view, size, stream):
        ends = np.cumsum(view.masses[view.slots] ** self.alpha)
        return view.slots[np.searchsorted(ends, stream.take(size) * ends[-1] * (1 - 1e-9))]


class OffByOneSlot(PlainPER):
    def anchors(self, view, size, stream):
        found = np.searchsorted(view.slots, super().anchors(view, size, stream))
        return view.slots[(found + 1) % view.size]


class UniformInstead(PlainPER):
    def anchors(self, view, size, stream):
        return view.slots[(stream.take(size) * view.size).astype(np.int64)]


class FirstDuplicateStays(PlainPER):
    def refresh(self, view, draw, td_errors, signals):
        found = PlainPER.refresh(self, view, draw, td_errors, signals)
        return Refresh(slots=found.slots[::-1], priorities=found.priorities[::-1])


class NoWeights(PlainPER):
    def weights(self, view, slots, beta):
        return np.ones(slots.size)


class WeightsAtBetaOne(PlainPER):
    def weights(self, view, slots, beta):
        return super().weights(view, slots, 1.0)


class SignedPriorities(PlainPER):
    """Refused by the buffer: priorities must be positive."""

    def refresh(self, view, draw, td_errors, signals):
        return Refresh(slots=draw.slots, priorities=td_errors)


class OwnRandomness(PlainPER):
    rng: ClassVar = np.random.default_rng(0)

    def anchors(self, view, size, stream):
        return view.find((np.arange(size) + self.rng.random(size)) * (view.total / size))


class StaleRowsWritten(PlainPER):
    """It remembers, by a number in the shift, what the buffer takes out: overwritten slots."""

    needs = Needs(shifts=True)
    drawn: ClassVar[list] = []

    def draw(self, view, size, stream, beta):
        found = super().draw(view, size, stream, beta)
        self.drawn.append(found.slots)
        return replace(found, shift=np.full(size, len(self.drawn) - 1.0))

    def refresh(self, view, draw, td_errors, signals):
        slots = self.drawn[int(draw.shift[0])]
        stale = np.intersect1d(np.setdiff1d(slots, draw.slots), view.slots)
        found = super().refresh(view, draw, td_errors, signals)
        return Refresh(
            slots=np.concatenate([found.slots, stale]),
            priorities=np.concatenate([found.priorities, np.full(stale.size, 3.0)]),
        )


class AnchorTrained(NumPySample):
    def siblings(self, view, anchors, stream):
        return anchors


class AnchorLessOften(NumPySample):
    def siblings(self, view, anchors, stream):
        found = super().siblings(view, anchors, stream)
        again = super().siblings(view, anchors, stream)
        return np.where(found == anchors, again, found)  # one more try


class AnchorRefreshed(NumPySample):
    def refresh(self, view, draw, td_errors, signals):
        live = draw.anchors >= 0  # so that only the rule is wrong
        return Refresh(slots=draw.anchors[live], priorities=np.abs(td_errors[live]) + self.epsilon)


class SampleWithWeightsOfPER(NumPySample):
    weights = PlainPER.weights


class SampleFirstStays(NumPySample):
    refresh = FirstDuplicateStays.refresh


class OutcomeOfTheAnchor(NumPyModel):
    siblings = AnchorTrained.siblings


class SourceRefreshed(NumPyModel):
    def refresh(self, view, draw, td_errors, signals):
        live = draw.outcome_slots >= 0
        return Refresh(
            slots=draw.outcome_slots[live], priorities=np.abs(td_errors[live]) + self.epsilon
        )


class ModelWithWeightsOfPER(NumPyModel):
    weights = PlainPER.weights


class SiblingTrained(NumPyModel):
    def draw(self, view, size, stream, beta):
        found = super().draw(view, size, stream, beta)
        return replace(found, slots=found.outcome_slots, anchors=found.slots)


class OutcomesOfOtherGroups(NumPyModel):
    """Each by itself has the right law: a sibling, but of another row's anchor."""

    def siblings(self, view, anchors, stream):
        again = self.anchors(view, anchors.size, stream)
        return super().siblings(view, again, stream)


class AnchorAloneAveraged(NumPyAverage):
    def averaged(self, view, anchor, stream):
        return np.array([anchor])


class FirstTwoAveraged(NumPyAverage):
    def averaged(self, view, anchor, stream):
        return np.sort(view.members(int(view.groups(np.array([anchor]))[0])))[:2]


class SharesByMass(NumPyAverage):
    def shares(self, view, slots):
        return view.masses[slots] / view.masses[slots].sum()


class LastStays(NumPyAverage):
    def refresh(self, view, draw, td_errors, signals):
        slots, priorities = self.refreshed(draw, np.abs(td_errors) + self.epsilon)
        return Refresh(slots=slots, priorities=priorities)


class AverageWithWeightsOfPER(NumPyAverage):
    weights = PlainPER.weights


class OthersRefreshed(NumPyAverage):
    """The anchor instead of all siblings, or all instead of the anchor."""

    def refreshed(self, draw, priorities):
        other = replace(self, update_all_siblings=not self.update_all_siblings)
        return NumPyAverage.refreshed(other, draw, priorities)


class EntriesUniform(EvenGroups):
    def draw(self, view, size, stream, beta):
        slots = NumPyUniform.draw(self, view, size, stream, beta).slots
        each = 1.0 / (view.group_ids.size * view.group_sizes(view.groups(slots)))
        return Draw(slots=slots, weights=self.importance_weights(view, each, beta))


class EvenGroupsUnweighted(EvenGroups):
    def draw(self, view, size, stream, beta):
        return replace(super().draw(view, size, stream, beta), weights=None)


class EvenGroupsRefresh(EvenGroups):
    refresh = PlainPER.refresh


class RanksFromBelow(RankBasedNumPy):
    def rescore(self, view, values):
        found = super().rescore(view, values)
        return Refresh(slots=found.slots[::-1], priorities=found.priorities)


class RankedBySweepsAlone(RankBasedNumPy):
    """Refreshed entries keep their mass until the next ranking."""


class NeverRanked(RankBasedNumPy):
    def rescore(self, view, values):
        return None


class SignedErrorsNoted(RankBasedNumPy):
    def refresh(self, view, draw, td_errors, signals):
        return Refresh(slots=draw.slots, columns={"error": td_errors})


class SweptByHalf(RankBasedNumPy):
    def rescore(self, view, values):
        found = super().rescore(view, values)
        half = found.slots.size // 2
        return Refresh(slots=found.slots[:half], priorities=found.priorities[:half])


class MeanOfAbsolutes(GroupMean):
    def refresh(self, view, draw, td_errors, signals):
        return Refresh(slots=draw.slots, columns={"error": np.abs(td_errors)})


class EntriesOfScores(GroupMean):
    """Groups by their leaves, but always the same member."""

    def draw(self, view, size, stream, beta):
        found = super().draw(view, size, stream, beta)
        first = [view.members(group)[0] for group in view.groups(found.slots)]
        return replace(found, slots=np.array(first))


class ScoresOfTheFirst(GroupMean):
    def rescore(self, view, values):
        found = super().rescore(view, values)
        return replace(found, groups=found.groups[:1], scores=found.scores[:1])
