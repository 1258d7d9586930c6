"""Training on a cluster of people who are all known to the driver: the same as engines.training.train, elsewhere."""

from collections.abc import Callable
from functools import partial

import numpy as np

from prirec.cluster.crew import RayCrew
from prirec.cluster.keeping import Shelf
from prirec.cluster.training import Run, kept_course, refuse_unfit
from prirec.cluster.worker import Given
from prirec.engines.checkpoint import identity
from prirec.engines.circles import cohort_numbers
from prirec.engines.cutting import Cut
from prirec.engines.state import Passed, State, start
from prirec.engines.training import Keeping, Trained
from prirec.features.samples import Samples
from prirec.privacy.budget import sized
from prirec.settings import Settings


def train(
    samples: Samples,
    settings: Settings,
    *,
    actors: int,
    keeping: Keeping | None = None,
    tell: Callable[[Passed], None] = lambda passed: None,
) -> Trained:
    """Rounds on the cluster that Ray is connected to, with the bits of engines/local. The checkpoint is a folder."""
    refuse_unfit(settings)
    settings = sized(settings, people=len(samples.ids), features=samples.features)
    cut = Cut.of(samples, cohort_numbers(samples, settings), shards=actors)
    shelf = None if keeping is None else Shelf(keeping.path, identity(samples, settings), len(cut.rows))
    kept_course(shelf, settings)  # what cannot be gone on from is refused before actors take seconds to start
    crew = RayCrew(lambda at: Given(cut.share(at)), len(cut.rows), settings, public=samples.places)
    try:
        every = 1 if keeping is None else keeping.every
        run = Run(crew, settings, cut.whole, bool(len(cut.split)), shelf, every, tell)
        course = run.finished()
        state = run.afterwards(partial(_whole, crew, cut, start(samples, settings), course.state))
    finally:
        crew.dismiss()
    return Trained(state, tuple(course.history))


def _whole(crew: RayCrew, cut: Cut, state: State, conducted: State) -> State:
    """Every model in its row, every cohort's mean in its own."""
    means = np.zeros((cut.whole.cohorts, state.linear.shape[1]))
    for at, rows in enumerate(cut.rows):
        models, numbers, own = crew.one(at, "told")
        state.linear[rows], means[numbers] = models, own
    return State(conducted.iteration, state.linear, conducted.interaction, conducted.moments, means)
