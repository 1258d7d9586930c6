"""People who come after training: how well they are served from the public starts, without a record of theirs."""

from dataclasses import dataclass

import numpy as np

from prirec.data.dataset import Dataset
from prirec.data.filters import drop_unused
from prirec.engines.plain import Rounds
from prirec.engines.sums import InTheClear
from prirec.errors import UsageError
from prirec.evaluate.experiment import Setup, run, set_up
from prirec.evaluate.metrics import auc
from prirec.evaluate.saved_run import set_up_later, to_run
from prirec.keyed import person_keys
from prirec.model.public_half import public
from prirec.model.round_steps import mix_model
from prirec.model.scoring import scores
from prirec.settings import Settings
from prirec.types import BoolArray, RealArray


@dataclass(frozen=True, slots=True)
class Served:
    """AUC on newcomers' test records: from the start alone, and after learning from their own training records."""

    at_once: float
    after_learning: float


def newcomers(dataset: Dataset, settings: Settings, *, share: float = 0.1, passes: int = 5) -> dict[str, Served]:
    """Trained without a tenth of the people, then tested on them, from each of three starts."""
    if not 0 < share < 1:
        raise UsageError("the share of newcomers is between 0 and 1")
    late = person_keys(dataset.people.ids) < np.uint64(int(share * 2**64))
    there = drop_unused(dataset.with_visits(dataset.visits.take(~late[dataset.visits.person])))
    saved = to_run(run(set_up(there, settings)), "people who were there")
    setup, own_cell = set_up_later(dataset, saved)
    new = ~np.isin(setup.samples.keys, saved.people)
    starts = {
        "zero": np.zeros_like(own_cell),
        "the mean of all cohorts": np.broadcast_to(saved.starts.models[0], own_cell.shape),
        "the mean of the own cell's cohorts": own_cell,
    }
    return {
        name: Served(
            _auc(setup, start, saved.interaction, new),
            _auc(setup, _learnt(setup, start, saved.interaction, new, passes), saved.interaction, new),
        )
        for name, start in starts.items()
    }


def _auc(setup: Setup, linear: RealArray, interaction: RealArray, new: BoolArray) -> float:
    test = setup.samples.test
    theirs = new[test.person]
    return auc(test.label[theirs], scores(np.ascontiguousarray(linear), interaction, setup.samples, test)[theirs])


def _learnt(
    setup: Setup, start: RealArray, interaction: RealArray, new: BoolArray, passes: int
) -> RealArray:  # fmt: skip
    """Each newcomer by itself: mixed with the start as members are with their mean, then a local step, some times."""
    samples, settings = setup.samples, setup.settings
    device = Rounds(samples, settings, InTheClear(samples, settings))
    shared = public(interaction, device.rows, first=samples.people.shape[1])
    linear = np.array(start)
    for i in np.flatnonzero(new):
        for iteration in range(passes):
            mix_model(linear[i], start[i], device.gamma[i])
            device.learn(linear[i], shared, int(i), iteration)
    return linear
