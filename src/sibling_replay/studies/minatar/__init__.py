"""The paper's MinAtar study: five games with latent siblings."""

from sibling_replay.studies.minatar.study import RATES, MinAtarStudy

STUDIES = (MinAtarStudy(), RATES)
