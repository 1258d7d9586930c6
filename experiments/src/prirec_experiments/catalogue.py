"""All experiments by name, in the order of the paper."""

from collections.abc import Mapping

from prirec_experiments.experiment import Experiment
from prirec_experiments.figure7 import FIGURE7
from prirec_experiments.figures import BEYOND, FIGURE4, FIGURE5, FIGURE6
from prirec_experiments.tables import TABLE2, TABLE3, TABLE4, TABLE5

EXPERIMENTS: Mapping[str, Experiment] = {
    one.name: one for one in (TABLE2, TABLE3, TABLE4, TABLE5, FIGURE4, FIGURE5, FIGURE6, FIGURE7, BEYOND)
}
