"""Siblings where observations never repeat: SB3 on classic control, by key maps."""

from sibling_replay.studies.keys.study import KeyStudy

STUDIES = (KeyStudy(),)
