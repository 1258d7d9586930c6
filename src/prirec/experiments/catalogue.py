"""All experiments by name, in the order of the paper."""

from collections.abc import Mapping

from prirec.experiments import beyond, figure4, figure5, figure6, figure7, table2, table3, table4, table5
from prirec.experiments.experiment import Experiment

EXPERIMENTS: Mapping[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (table2, table3, table4, table5, figure4, figure5, figure6, figure7, beyond)
}
