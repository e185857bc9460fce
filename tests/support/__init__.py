"""Shared by the tests: a chi-square test, a naive twin of the buffer, ready-made buffers."""

from hypothesis import settings

_SUITE_EXAMPLES = 60  # of the profile "suite", see conftest.py


def examples(count: int, steps: int) -> settings:
    """Settings of a state machine: `count` examples in the suite, more in a deeper profile."""
    scale = settings.default.max_examples / _SUITE_EXAMPLES
    return settings(max_examples=max(1, round(count * scale)), stateful_step_count=steps)
