"""Studies by name: ours, a file or folder each, and those that other packages announce."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import ModuleType

from sibling_replay.artefacts.entries import Section
from sibling_replay.running.runs import spelt
from sibling_replay.studies.study import Study

ENTRY_POINTS = "sibling_replay.studies"  # each a Study
_registered: dict[str, Study] = {}


def register_study(study: Study) -> Study:
    """Make a study of one's own known to the commands."""
    if not isinstance(study, Study):
        raise TypeError(f"a study is an instance of Study, not {study!r}")
    other = _own().get(study.name, _registered.get(study.name, study))
    if other is not study:
        raise ValueError(f"there is a study {study.name!r} already: {other!r}")
    _registered[study.name] = study
    return study


def all_studies() -> dict[str, Study]:
    """By name: ours first, then those of other packages."""
    return {**_own(), **_announced(), **_registered}


def study_named(name: str) -> Study:
    """A study, whatever the case of the letters."""
    known = all_studies()
    return known[spelt("study", name, known)]


def chapters() -> tuple[Section, ...]:
    """Of the report: those of every study, then those that are about several (SECTIONS)."""
    found = [section for study in all_studies().values() for section in study.sections]
    return (*found, *(each for module in _modules() for each in getattr(module, "SECTIONS", ())))


@cache
def _own() -> dict[str, Study]:
    """Whatever stands in this folder and has STUDIES."""
    return {study.name: study for module in _modules() for study in getattr(module, "STUDIES", ())}


@cache
def _modules() -> tuple[ModuleType, ...]:
    return tuple(import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))


@cache
def _announced() -> dict[str, Study]:
    found = {}
    for point in entry_points(group=ENTRY_POINTS):
        study = point.load()
        if not isinstance(study, Study):
            raise TypeError(f"entry point {point.name} of {ENTRY_POINTS} is no Study: {study!r}")
        found[study.name] = study
    return found
