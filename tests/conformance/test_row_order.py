"""In rounds, what a person learns does not depend on the row in which the person stands."""

import numpy as np
import pytest

from prirec.engines.train import models_of
from prirec.model.scoring import own_model
from support.cities import (
    SMALL_ROUNDS,
    after,
    change,
    in_another_order,
    same_bits,
    same_state,
    samples_of,
    small_city,
    with_idle_people,
    without_coordinates,
)

CITIES = {
    "coordinates": lambda: with_idle_people(small_city()),
    "no coordinates": lambda: without_coordinates(small_city()),
}


@pytest.mark.parametrize("engine", ["plain", "local"])
@pytest.mark.parametrize("made", CITIES.values(), ids=CITIES)
def test_people_in_other_rows_get_the_same_models(made, engine):
    settings = change(SMALL_ROUNDS, participation={"online": 0.8, "dropout": 0.2})
    city = made()
    order = np.random.default_rng(5).permutation(len(city.people))
    here, there = samples_of(city, settings), samples_of(in_another_order(city, order), settings)
    a, b = (after(engine, samples, settings, iterations=3) for samples in (here, there))
    models = models_of(a, here, settings)
    row = {person: at for at, person in enumerate(there.ids)}
    assert same_state(a, b)
    for at in range(0, len(here.ids), 9):
        assert same_bits(own_model(models, here, at), own_model(models, there, row[here.ids[at]]))
    if city.places.location is None:
        assert here.ids != there.ids
