"""Where people who are new start: at the mean of what the cohorts of their own coarse cell opened last."""

from dataclasses import replace

import numpy as np
import pytest
from h3.api import basic_int as h3

from prirec.engines.train import start
from prirec.graph.cohorts import NO_CELL, cells_of, cohort_numbers
from prirec.rounds.newcomers import MOST, Starts, inhabitants, starts, starts_from
from support.cities import (
    SMALL_FM,
    SMALL_PAPER,
    SMALL_PRIVATE,
    after,
    change,
    same_bits,
    samples_of,
    small_city,
    without_coordinates,
)
from support.newcomers import PART, in_parts

PEOPLE = 137
CITY = small_city(people=PEOPLE, places=8, records=500)
SAMPLES = samples_of(CITY, SMALL_PRIVATE)
CELLS = cells_of(SAMPLES.home, PEOPLE, SMALL_PRIVATE)
FAR = h3.latlng_to_cell(-50.0, -120.0, 6)  # where nobody was
NOWHERE = np.array([NO_CELL, FAR], dtype=np.uint64)


def around(cell, resolution):
    """Who lives in a cell, or in the coarser one around it."""
    return np.array([h3.cell_to_parent(int(own), resolution) == cell for own in CELLS])


def opened(samples, settings=SMALL_PRIVATE):
    """A state in which every cohort has opened a mean of its own."""
    state, cohorts = start(samples, settings), int(cohort_numbers(samples, settings).max()) + 1
    state.means = in_parts(np.random.default_rng(0).normal(size=(cohorts, samples.features + 1)))
    return state


def test_a_start_for_each_cell_where_enough_people_live_and_one_for_everywhere_else():
    """The list is public: nothing on it may tell where few live."""
    state = opened(SAMPLES)
    found = starts(SAMPLES, SMALL_PRIVATE, linear=state.linear, means=state.means)
    assert found.cells[0] == NO_CELL
    assert (np.diff(found.cells) > 0).all()
    assert found.models.shape == (len(found.cells), SAMPLES.features + 1)
    for cell in found.cells[1:].tolist():
        assert around(cell, h3.get_resolution(cell)).sum() >= SMALL_PRIVATE.floor
    assert len({*CELLS.tolist()}) > len(found.cells) > 2


def test_a_newcomer_starts_at_the_mean_of_the_cohorts_of_the_cell():
    state, cohort = opened(SAMPLES), cohort_numbers(SAMPLES, SMALL_PRIVATE)
    found = starts(SAMPLES, SMALL_PRIVATE, linear=state.linear, means=state.means)
    used = set()
    for cell in np.unique(CELLS):
        outward = (h3.cell_to_parent(int(cell), resolution) for resolution in range(6, -1, -1))
        chosen = next(one for one in outward if around(one, h3.get_resolution(one)).sum() >= SMALL_PRIVATE.floor)
        expected = state.means[cohort[around(chosen, h3.get_resolution(chosen))]].mean(axis=0)
        np.testing.assert_allclose(found.for_cells(np.array([cell]))[0], expected, rtol=1e-12)
        used.add(chosen)
    assert len(used) > 1  # so that the city tells places apart


def test_where_nobody_was_one_starts_at_the_mean_of_everyones():
    state, cohort = opened(SAMPLES), cohort_numbers(SAMPLES, SMALL_PRIVATE)
    assert len({*np.bincount(cohort).tolist()}) > 1  # so that a mean over cohorts is another one than over people
    found = starts(SAMPLES, SMALL_PRIVATE, linear=state.linear, means=state.means).for_cells(NOWHERE)
    assert len(np.unique(found, axis=0)) == 1
    np.testing.assert_allclose(found[0], state.means[cohort].mean(axis=0), rtol=1e-12)


def test_a_crowded_cell_is_in_several_cohorts_and_has_the_mean_of_them():
    crowded = replace(SAMPLES, home=np.tile(SAMPLES.home[:1], (PEOPLE, 1)))
    state, cohort = opened(crowded), cohort_numbers(crowded, SMALL_PRIVATE)
    counts = np.bincount(cohort)
    assert len(counts) == 2
    found = starts(crowded, SMALL_PRIVATE, linear=state.linear, means=state.means)
    assert len(found.cells) == 8  # itself, and the six coarser ones around it
    np.testing.assert_allclose(found.models, np.tile(counts @ state.means / PEOPLE, (8, 1)), rtol=1e-12)


def test_a_newcomer_without_a_cell_starts_at_the_mean_for_everywhere_else():
    some = np.arange(PEOPLE) % 4 == 0
    lost = replace(SAMPLES, home=np.where(some[:, None], np.nan, SAMPLES.home))
    state, cohort = opened(lost), cohort_numbers(lost, SMALL_PRIVATE)
    found = starts(lost, SMALL_PRIVATE, linear=state.linear, means=state.means)
    assert (found.cells == NO_CELL).sum() == 1
    np.testing.assert_allclose(found.for_cells(NOWHERE[:1])[0], state.means[cohort].mean(axis=0), rtol=1e-12)


def test_without_coordinates_there_is_one_start_for_all():
    bare = samples_of(without_coordinates(CITY), SMALL_PRIVATE)
    state, cohort = opened(bare), cohort_numbers(bare, SMALL_PRIVATE)
    found = starts(bare, SMALL_PRIVATE, linear=state.linear, means=state.means)
    assert found.cells.tolist() == [0]
    np.testing.assert_allclose(found.models[0], state.means[cohort].mean(axis=0), rtol=1e-12)


def test_where_no_cohort_ever_opened_one_starts_from_nothing():
    state = after("local", SAMPLES, change(SMALL_PRIVATE, participation={"dropout": 0.9}))
    assert not starts(SAMPLES, SMALL_PRIVATE, linear=state.linear, means=state.means).models.any()


@pytest.mark.parametrize("settings", [SMALL_PAPER, SMALL_FM], ids=["paper", "fm"])
def test_without_cohorts_one_starts_from_the_mean_of_the_models(settings):
    samples = samples_of(CITY, settings)
    state = after("local", samples, settings)
    found = starts(samples, settings, linear=state.linear, means=state.means)
    assert same_bits(found.models, state.linear.mean(axis=0, keepdims=True))
    assert same_bits(found.for_cells(CELLS), np.repeat(found.models, PEOPLE, axis=0))


def test_starting_models_follow_from_opened_means_alone():
    """Models on devices do not matter: another person's, or everyone's, changes no start."""
    state = opened(SAMPLES)
    other = replace(state, linear=state.linear + 5.0)
    assert same_bits(
        starts(SAMPLES, SMALL_PRIVATE, linear=state.linear, means=state.means).models,
        starts(SAMPLES, SMALL_PRIVATE, linear=other.linear, means=other.means).models,
    )


def test_starts_are_found_by_cell_whatever_the_order_of_asking():
    fine, coarse = int(CELLS[0]), h3.cell_to_parent(int(CELLS[0]), 3)
    beside = h3.cell_to_center_child(coarse, 6)
    known = sorted([(0, 0.0), (fine, 6.0), (coarse, 3.0)])
    found = Starts(np.array([cell for cell, _ in known], dtype=np.uint64), np.array([[value] for _, value in known]))
    asked = np.array([fine, FAR, beside, 0, fine], dtype=np.uint64)
    assert beside != fine
    assert found.for_cells(asked).ravel().tolist() == [6.0, 0.0, 3.0, 0.0, 6.0]
    assert found.for_cells(asked[:0]).shape == (0, 1)


def test_starts_do_not_print():
    state = opened(SAMPLES)
    assert "array" not in repr(starts(SAMPLES, SMALL_PRIVATE, linear=state.linear, means=state.means))


def test_means_are_counted_in_small_parts_and_none_is_beyond_what_is_learnt():
    means = np.array([[0.1, -1 / 3, 2 * MOST, -2 * MOST]])
    found = starts_from(inhabitants(np.array([NO_CELL]), np.zeros(1, dtype=np.int32), means), floor=1).models[0]
    assert np.abs(found[:2] - means[0, :2]).max() <= PART / 2
    assert found[2:].tolist() == [MOST, -MOST]
