"""Strategies by name: those built in, those registered, those that installed packages announce."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TypeVar

from sibling_replay.strategies.api import Strategy

ENTRY_POINTS = "sibling_replay.strategies"
"""The group of entry points in which a package announces its strategies, name = class."""

_KINDS: dict[str, type[Strategy]] = {}
Kind = TypeVar("Kind", bound=type[Strategy])


def register(kind: Kind) -> Kind:
    """Make a strategy known by its `name`: to files, which then can be loaded, and to commands.

    Use it as a decorator. A name belongs to one class; the same class defined again (in a notebook,
    say) takes its own place.

    Examples:
        >>> @register
        ... class Mine(Prioritized):
        ...     pass
        ...
        >>> find_strategy("Mine") is Mine
        True
    """
    if not (isinstance(kind, type) and issubclass(kind, Strategy)):
        raise TypeError(f"only a class derived from Strategy can be registered, not {kind!r}")
    known = _KINDS.get(kind.name)
    if known is not None and _place(known) != _place(kind):
        raise ValueError(f"the name {kind.name!r} belongs to {_place(known)}: choose another")
    _KINDS[kind.name] = kind
    return kind


def _place(kind: type[Strategy]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def registered() -> dict[str, type[Strategy]]:
    """All that have been registered, by name. Nothing is imported to find them."""
    return dict(_KINDS)


def require_strategy(given: object) -> None:
    """Raise if what was given as a strategy is none."""
    if not isinstance(given, Strategy):
        raise TypeError(f"strategy must be one of {', '.join(_KINDS)} (an instance), not {given!r}")


def find_strategy(name: str) -> type[Strategy]:
    """A strategy by name, or by place as `module:Class`; packages that announce one of that name
    are imported if need be, and so is the module of a place. So the name must be the user's, not
    that of a file.

    Examples:
        >>> find_strategy("SiblingSample")().alpha
        0.6
    """
    if ":" in name:
        return _by_place(name)
    if name not in _KINDS:
        for point in entry_points(group=ENTRY_POINTS, name=name):
            kind = point.load()
            if getattr(kind, "name", None) != name:
                raise ValueError(f"entry point {name!r} gives {kind!r}, which has another name")
            register(kind)
    if name not in _KINDS:
        raise LookupError(f"no strategy is called {name!r}: known are {', '.join(sorted(_KINDS))}")
    return _KINDS[name]


def _by_place(place: str) -> type[Strategy]:
    module, _, attribute = place.partition(":")
    try:
        kind: type[Strategy] = getattr(import_module(module), attribute)
        return register(kind)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise LookupError(f"no strategy is found at {place!r}: {error}") from error
