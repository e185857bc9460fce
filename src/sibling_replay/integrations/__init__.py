"""Adapters for other libraries. Each module needs its own extra and holds no law of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def host(library: str, extra: str) -> Iterator[None]:
    """Around the imports of a host library: if it is missing, say what to install."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"this adapter needs {library}: pip install 'sibling-replay[{extra}]' ({error})"
        ) from error
