"""Views in kernels, beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from sibling_replay.replay.inner import inner
from sibling_replay.replay.views import part, view_as


@njit
def _words(block):
    return view_as(block, np.int64)


@njit
def _part(array, start, count):
    return part(array, start, count)


@njit
def _freed(count):
    """The array behind the view goes out of use before the view does."""
    numbers = np.empty(count)
    for i in range(count):
        numbers[i] = 1.5 * i
    words = part(view_as(numbers, np.int64), 1, count - 1)
    other = np.full(count, 7.0)  # would take the memory of the first
    return words.copy(), other


@inner(error_model="numpy")
def ratio(a, b):
    return a / b


@njit
def _ratio(a, b):
    return ratio(a, b)


def test_bytes_as_other_numbers() -> None:
    block = np.arange(20, dtype=np.uint8)
    words = _words(block)
    assert words.tolist() == block[:16].view(np.int64).tolist()
    words[1] = -1
    assert block[8:16].tolist() == [255] * 8 and block[16] == 16
    table = np.arange(6, dtype=np.uint32).reshape(3, 2)
    assert _words(table).tolist() == table.reshape(-1).view(np.int64).tolist()


def test_bytes_that_are_not_in_one_piece_have_no_such_view() -> None:
    with pytest.raises(TypingError, match="C-contiguous"):
        _words(np.arange(20, dtype=np.uint8)[::2])


@pytest.mark.parametrize("step", [1, 2, -1])
def test_a_part_is_a_slice(step: int) -> None:
    array = np.arange(20.0)[::step]
    view = _part(array, 2, 5)
    assert view.tolist() == array[2:7].tolist()
    view[0] = -1.0
    assert array[2] == -1.0


def test_a_view_keeps_its_array() -> None:
    words, other = _freed(1000)
    assert words.view(np.float64).tolist() == [1.5 * i for i in range(1, 1000)]
    assert (other == 7.0).all()


def test_an_inner_function_is_the_same_from_a_kernel_and_from_python() -> None:
    assert _ratio(1.0, 4.0) == ratio(1.0, 4.0) == 0.25
    assert _ratio(1.0, 0.0) == ratio(1.0, 0.0) == np.inf  # with the options it was given
    assert ratio.py_func(1.0, 2.0) == 0.5
