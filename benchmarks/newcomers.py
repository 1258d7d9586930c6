"""How well people who join after training are served: from public starting models, before and after they learn on
their own records."""

from dataclasses import dataclass, replace

import numpy as np
from prirec.model.block_steps import mix_model

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.data.prepare import drop_unused
from prirec.engines.plain import Rounds
from prirec.errors import UsageError
from prirec.metrics import auc
from prirec.model.scoring import Models, scores
from prirec.simulate.saved_runs import set_up_later, to_run
from prirec.simulate.setup import Setup, run, set_up
from prirec.types import BoolArray
from prirec.util.keyed_random import person_keys


@dataclass(frozen=True, slots=True)
class Served:
    """AUC on newcomers' test records: from the start alone, and after learning from their own training records."""

    at_once: float
    after_learning: float


def newcomers(dataset: Dataset, settings: Settings, *, share: float = 0.1, passes: int = 5) -> dict[str, Served]:
    """Trains without this share of the people, then tests on them, from each of three starting models.

    Who is left out is drawn by a hash of the person's name, so it is the same people for every seed of the settings."""
    if not 0 < share < 1:
        raise UsageError("the share of newcomers is between 0 and 1")
    late = person_keys(dataset.people.ids) < np.uint64(int(share * 2**64))
    there = drop_unused(dataset.with_visits(dataset.visits.take(~late[dataset.visits.person])))
    saved = to_run(run(set_up(there, settings)), "people who were there")
    setup, models = set_up_later(dataset, saved)
    own_cell = models.linear
    new = ~np.isin(setup.samples.keys, saved.people)
    starts = {
        "zero": np.zeros_like(own_cell),
        "the mean of all cohorts": np.array(np.broadcast_to(saved.starts.models[0], own_cell.shape), order="C"),
        "the mean of the own cell's cohorts": own_cell,
    }
    return {
        name: Served(
            _auc(setup, replace(models, linear=start), new),
            _auc(setup, _learnt(setup, replace(models, linear=start), new, passes), new),
        )
        for name, start in starts.items()
    }


def _auc(setup: Setup, models: Models, new: BoolArray) -> float:
    test = setup.samples.test
    theirs = new[test.person]
    return auc(test.label[theirs], scores(models, setup.samples, test)[theirs])


def _learnt(setup: Setup, start: Models, new: BoolArray, passes: int) -> Models:
    """Each newcomer alone, `passes` times: mix with the starting model, as members mix with their cohort's mean, then
    one local step."""
    samples, settings = setup.samples, setup.settings
    device = Rounds(samples, settings)
    latent = None if start.latent is None else start.latent._replace(vectors=start.latent.vectors.copy())
    models = replace(start, linear=np.array(start.linear), latent=latent)
    shared = device.shared(models)
    for i in np.flatnonzero(new):
        w, u = models.of(int(i))
        for iteration in range(passes):
            mix_model(w, start.linear[i], device.gamma[i])
            device.learn(w, u, shared, int(i), iteration)
    return models
