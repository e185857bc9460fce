"""One verdict on a buffer. The first rule that applies decides; the rules are printed with it."""

from __future__ import annotations

from dataclasses import dataclass

from sibling_replay.diagnostics.summary import Summary

FEW_WITH_SIBLINGS = 0.10  # of draws
FEW_WITH_OUTCOMES = 0.01  # of draws
FEW_REPEATED = 0.50  # of entries with siblings
SMALL_TV, LARGE_TV = 0.01, 0.05
SMALL_SHIFT, LARGE_SHIFT = 0.05, 0.25  # in standard deviations of a group's targets

RULES = (
    f"mostly singletons: under {FEW_WITH_SIBLINGS:.0%} of PER's draws fall in groups of at least "
    "2 siblings",
    f"little outcome variability: under {FEW_WITH_OUTCOMES:.0%} of them fall in groups with at "
    "least 2 different outcomes",
    "no priorities: all entries have the same mass",
    f"distorted: mass-weighted outcome TV of at least {LARGE_TV:g}, or a mass-weighted absolute "
    f"shift before IS of at least {LARGE_SHIFT:g} standard deviations of a group's targets",
    f"faithful: TV under {SMALL_TV:g} and shift under {SMALL_SHIFT:g} standard deviations",
    "mildly distorted: everything else",
    f"TV is left out of the rules where outcomes hardly repeat (under {FEW_REPEATED:.0%} of the "
    "entries with siblings share their outcome with one): there it only says that entries are "
    "drawn unequally",
)


@dataclass(frozen=True)
class Verdict:
    """What PER does to a buffer: a name, and a sentence that says what it means.

    Examples:
        >>> names = ("obs", "action", "next_obs", "reward", "terminated", "truncated")
        >>> columns = {name: np.zeros(4) for name in names}
        >>> columns["reward"][3] = 8.0
        >>> findings = examine_transitions(columns, masses=[1.0, 1.0, 1.0, 5.0])
        >>> judge(summarize(findings)).meaning[:9]
        '37.5% of '
    """

    name: str
    meaning: str


def judge(found: Summary) -> Verdict:
    """The verdict on PER in this buffer, by `RULES`.

    Examples:
        >>> names = ("obs", "action", "next_obs", "reward", "terminated", "truncated")
        >>> columns = {name: np.zeros(4) for name in names}
        >>> columns["reward"][3] = 8.0
        >>> findings = examine_transitions(columns, masses=[1.0, 1.0, 1.0, 5.0])
        >>> judge(summarize(findings)).name
        'distorted'
    """
    if found.draws_with_siblings < FEW_WITH_SIBLINGS:
        return Verdict(
            "mostly singletons",
            f"only {_percent(found.draws_with_siblings)} of PER's draws fall in groups of at "
            "least 2 siblings, so there is next to nothing to correct. A coarser grouping "
            "may find siblings.",
        )
    if found.draws_with_outcomes < FEW_WITH_OUTCOMES:
        return Verdict(
            "little outcome variability",
            f"only {_percent(found.draws_with_outcomes)} of PER's draws fall in groups where "
            "different outcomes are stored. Siblings show the same outcome whichever is drawn, so "
            "SAMPLE would change next to nothing.",
        )
    if found.equal_masses:
        return Verdict(
            "no priorities",
            "all entries have the same mass, as where priorities were never refreshed (uniform "
            "replay) or alpha is 0. So this says nothing about PER: train with it, or give TD "
            "errors.",
        )
    tv_counts = found.repeated >= FEW_REPEATED
    tv = found.tv if tv_counts else 0.0
    what = "reward" if found.rewards_as_targets else "target"
    sizes = [
        f"a group's mean {what} is off by {found.shift:.3g} on average "
        f"({found.shift_in_spreads:.2g} of its standard deviation), and by "
        f"{found.corrected_shift:.3g} after unnormalised IS at beta = {found.beta:g}"
    ]
    if tv_counts:
        sizes.insert(0, f"{_percent(found.tv)} of PER's draws show an outcome too often")
    else:
        sizes.append("outcomes hardly repeat, so this verdict rests on the shift alone")
    measured = "; ".join(sizes)
    if tv >= LARGE_TV or found.shift_in_spreads >= LARGE_SHIFT:
        return Verdict(
            "distorted",
            f"{measured}. SAMPLE makes these zero and keeps how often each group is replayed.",
        )
    if tv < SMALL_TV and found.shift_in_spreads < SMALL_SHIFT:
        return Verdict(
            "faithful", f"PER replays outcomes about as often as they are stored: {measured}."
        )
    return Verdict(
        "mildly distorted",
        f"{measured}. SAMPLE makes these zero and keeps how often each group is replayed.",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
