"""The bench: ways to replay side by side."""

from sibling_replay.studies.rivals.limits import LimitStudy
from sibling_replay.studies.rivals.networks import NetworkStudy
from sibling_replay.studies.rivals.sensitivity import SensitivityStudy
from sibling_replay.studies.rivals.study import RateStudy, RivalStudy

STUDIES = (RateStudy(), RivalStudy(), SensitivityStudy(), LimitStudy(), NetworkStudy())
