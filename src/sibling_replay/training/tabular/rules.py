"""How the compiled trainer of tables carries a strategy out: its recipe, and what rivals add.

As in `strategies.recipe`, compiled code branches on codes, never on strategies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from sibling_replay.strategies.recipe import (
    ANCHOR,
    BY_MASS,
    GROUP_MEAN,
    NO_WEIGHTS,
    NOTHING,
    UNIFORM,
    Recipe,
)

# Anchors: as the recipe says; a group by its leaf n_g^kappa v_g^alpha and a uniform member of it;
# the newest entry in the first row and uniform ones in the others; by age.
BY_RECIPE, BY_GROUP, NEWEST, BY_AGE = range(4)

# Weights, beside those of a recipe: by the leaf of the group over its members.
LEAF = 3

# Refreshes, beside those of a recipe: the score of the group; the target, for the control variate.
SCORED, REMEMBERED = range(5, 7)

# What a priority is made of: the error, as the recipe says; the drop of the squared error from the
# target network to the online one, relu(d^2 - d'^2) + epsilon, or of Huber's loss.
OF_ERROR, SQUARED_DROP, HUBER_DROP = range(3)

# What a group's score is made of: |mean error| of its members, or their root mean square.
MEAN, NEYMAN = range(2)
SCORES = {"mean": MEAN, "neyman": NEYMAN}


class TableRule(NamedTuple):
    """The choices of a strategy in tables."""

    recipe: Recipe
    anchors: int = BY_RECIPE
    priority: int = OF_ERROR
    score: int = MEAN
    kappa: float = 0.0
    rescored_every: int = 0  # updates from one rescoring of all groups to the next; 0: never
    candidates: int = 1  # rows drawn for each that is trained
    least: float = 0.0  # added to |d| where trained rows are chosen among candidates
    pull: float = 0.0  # lambda of the control variate
    decay: float = 0.0  # of BY_AGE

    @property
    def uniforms(self) -> int:
        """Random numbers a row takes, as a recipe's; the second stage takes one a trained row."""
        return 2 if self.anchors == BY_GROUP else self.recipe.uniforms


def rule_of(strategy: Any) -> TableRule | None:
    """How a strategy is carried out in tables; None if it cannot be."""
    if getattr(strategy, "of", "targets") == "residuals":
        strategy = replace(strategy, of="targets")  # equal where groups are exact
    if strategy.name in _RIVALS:
        return _RIVALS[strategy.name](strategy)
    return None if strategy.recipe is None else TableRule(strategy.recipe)


def counts_outcomes(rule: TableRule) -> bool:
    """Whether it goes by how often a group's outcomes are stored."""
    return rule.recipe.trained == GROUP_MEAN or rule.rescored_every > 0


def _group_prioritized(strategy: Any) -> TableRule | None:
    whole = strategy.trains == "average"
    if strategy.score not in SCORES or (whole and (strategy.k, strategy.score) != (None, "mean")):
        return None
    return TableRule(
        Recipe(trained=GROUP_MEAN if whole else ANCHOR, weights=LEAF, refreshed=SCORED),
        anchors=BY_GROUP,
        score=SCORES[strategy.score],
        kappa=strategy.kappa,
        rescored_every=strategy.rescore_every,
    )


_PLAIN = Recipe(anchors=UNIFORM, weights=NO_WEIGHTS, refreshed=NOTHING)
_BY_SCORE = Recipe(weights=LEAF, refreshed=SCORED)
_RIVALS: dict[str, Callable[[Any], TableRule | None]] = {
    "ReLo": lambda strategy: TableRule(
        Recipe(), priority=HUBER_DROP if strategy.of == "huber" else SQUARED_DROP
    ),
    "LaBER": lambda strategy: TableRule(
        _PLAIN, candidates=strategy.candidates, least=strategy.epsilon
    ),
    "Stratified": lambda strategy: TableRule(_PLAIN._replace(anchors=BY_MASS), anchors=BY_GROUP),
    "ExpectedTD": lambda strategy: TableRule(_BY_SCORE, anchors=BY_GROUP, kappa=1.0),
    "GroupPrioritized": _group_prioritized,
    "ControlVariate": lambda strategy: (
        TableRule(_PLAIN._replace(refreshed=REMEMBERED), pull=strategy.lam)
        if strategy.alpha == 0.0
        else None
    ),
    "Combined": lambda strategy: TableRule(_PLAIN, anchors=NEWEST),
    "AgeDecayed": lambda strategy: (
        TableRule(_PLAIN, anchors=BY_AGE, decay=strategy.decay)
        if strategy.decay > 0.0
        else TableRule(_PLAIN)
    ),
}
"""By the strategy's name."""
