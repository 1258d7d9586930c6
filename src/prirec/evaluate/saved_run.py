"""A run saved, and a saved run set up again on its data or on data that have grown."""

from collections.abc import Callable
from functools import partial

import numpy as np

from prirec.data.dataset import Dataset
from prirec.engines.circles import cells_of
from prirec.engines.run_folder import Released, Run, rows_of
from prirec.engines.starts import starts
from prirec.engines.state import fits
from prirec.errors import DataError, StateError
from prirec.evaluate.catalogue import place_keys, refuse_another_city
from prirec.evaluate.experiment import Outcome, Setup, set_up
from prirec.features.popularity import Popularity
from prirec.model.latent import Latent
from prirec.model.models import Models
from prirec.types import OffsetArray


def to_run(outcome: Outcome, source: str) -> Run:
    """What is saved of it."""
    state = outcome.trained.state
    return Run(
        settings=outcome.setup.settings,
        encoding=outcome.setup.encoding,
        interaction=state.interaction,
        linear=state.linear,
        people=outcome.setup.samples.keys,
        released=_released(outcome.setup),
        starts=starts(outcome.setup.samples, outcome.setup.settings, state),
        history=outcome.trained.history,
        source=source,
        rows=rows_of(outcome.setup.samples),
        catalogue=place_keys(outcome.setup.prepared.dataset.places),
        latent=state.latent,
    )


def set_up_again(dataset: Dataset, saved: Run) -> Setup:
    """The set-up of a saved run on the same data, to test it: with other records it may have learnt from the test."""
    setup = _with_encoding_of(saved, dataset)
    if rows_of(setup.samples) != saved.rows:
        raise StateError(
            "this run was trained on other records than these, so it cannot be tested on them; train again"
        )
    if not fits(saved.models, setup.samples, saved.settings):
        raise StateError("the models of this run have not the size or kind that its settings and data call for")
    return setup


def set_up_later(dataset: Dataset, saved: Run) -> tuple[Setup, Models]:
    """A saved run on data that have grown since, to recommend from: everyone's own model, found by key.

    Whoever is new starts where the cohorts of the own cell ended, and without a latent vector: it is 0, as are the
    factors of a place that is new. A centralised model serves everyone as it is.
    What a mechanism released is used again: to collect once more would cost everyone's budget once more.
    """
    refuse_another_city(saved, dataset.places)
    noisy = saved.settings.popularity.mechanism != "plain" and saved.settings.features.dynamic
    setup = _with_encoding_of(saved, dataset, release=partial(_released_before, saved.released) if noisy else None)
    samples, shared = setup.samples, len(saved.linear) == 1
    if not shared and len(saved.people) != len(saved.linear):
        raise StateError("the models of this run are not as many as its people")
    order = np.argsort(saved.people)
    place = np.minimum(np.searchsorted(saved.people, samples.keys, sorter=order), len(order) - 1)
    known = saved.people[order[place]] == samples.keys
    if not known.any():
        raise StateError("nobody of this run is in these data; it was trained on other people")
    if not saved.starts.fit(saved.linear):
        raise StateError("the models and starts of this run have not the size or kind that belongs together")
    fresh = saved.starts.for_cells(cells_of(samples.home, len(samples.ids), saved.settings))
    linear = saved.linear if shared else np.where(known[:, None], saved.linear[order[place]], fresh)
    latent = None if saved.latent is None else _aligned(saved, saved.latent, setup, order[place], known)
    models = Models(np.ascontiguousarray(linear), saved.interaction, latent)
    if not fits(models, samples, saved.settings):
        raise StateError("the models of this run have not the size or kind that its settings and data call for")
    return setup, models


def _aligned(saved: Run, latent: Latent, setup: Setup, row: np.ndarray, known: np.ndarray) -> Latent:
    """Vectors by the rows of people who were there, factors by the ids of places."""
    if len(latent.vectors) != len(saved.people) or len(latent.factors) != len(saved.released.places):
        raise StateError("the latent vectors or factors of this run are not as many as its people or places")
    at = _rows_before(saved.released, setup.prepared.dataset)
    nowhere = np.zeros((1, latent.factors.shape[1]))
    return Latent(np.where(known[:, None], latent.vectors[row], 0.0), np.concatenate([latent.factors, nowhere])[at])


def _with_encoding_of(saved: Run, dataset: Dataset, release: Callable[[Dataset], Popularity] | None = None) -> Setup:
    try:
        return set_up(dataset, saved.settings, encoding=saved.encoding, release=release)
    except DataError as error:
        raise StateError(f"this run does not fit these data: {error}") from None


def _released(setup: Setup) -> Released:
    columns = {name: values.tolist() for name, values in setup.popularity.released.items()}
    return Released(places=setup.prepared.dataset.places.ids, columns=columns)


def _released_before(released: Released, dataset: Dataset) -> Popularity:
    """The saved release for the places of these data; a place that is new has what places have on average."""
    at, many = _rows_before(released, dataset), len(released.places)
    if any(len(values) != many for values in released.columns.values()):
        raise StateError("the popularity that this run released has not one value for each place")
    return Popularity(
        {name: np.append(values, np.mean(values) if values else 0.0)[at] for name, values in released.columns.items()}
    )


def _rows_before(released: Released, dataset: Dataset) -> OffsetArray:
    """(J,): the row that each place of these data had in the run; one beyond the last for a place that is new."""
    row = {place: at for at, place in enumerate(released.places)}
    return np.array([row.get(place, len(row)) for place in dataset.places.ids], dtype=np.int64)
