"""Negatives that a device draws for itself: never visited, evenly spread, and the same as long as they can be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prirec.device.person import Person
from prirec.device.records import draw_negatives, encode_records
from prirec.device.store import Store
from support.cities import SMALL_PRIVATE, change, same_bits
from support.device_city import town

SECRET = b"\5" * 32


def not_visited(visits: list[int], *, places: int, **changes: Any) -> tuple[np.ndarray, np.ndarray]:
    usual = {
        "rows": np.arange(places, dtype=np.int32),
        "location": np.random.default_rng(1).uniform(-1, 1, size=(places, 2)),
        "among": "uniform",
        "ratio": 1,
        "secret": SECRET,
    }
    ids = [f"visit {n}" for n in range(len(visits))]
    return draw_negatives(ids, np.array(visits, dtype=np.int32), **{**usual, **changes})


@given(
    visits=st.lists(st.integers(0, 29), max_size=40),
    ratio=st.integers(1, 4),
    among=st.sampled_from(["uniform", "nearby"]),
)
@settings(max_examples=60)
def test_negatives_are_never_visited_and_as_many_as_wanted(visits: list[int], ratio: int, among: str) -> None:
    of, place = not_visited(visits, places=30, ratio=ratio, among=among)
    left = 30 - len(set(visits))
    assert not set(place.tolist()) & set(visits)
    assert np.bincount(of, minlength=len(visits)).tolist() == [min(ratio, left)] * len(visits)
    assert len(set(zip(of.tolist(), place.tolist(), strict=True))) == len(of)


def test_negatives_follow_from_the_secret_alone() -> None:
    visits = list(range(20))
    a, b = (not_visited(visits, places=500)[1] for _ in range(2))
    other = not_visited(visits, places=500, secret=b"\6" * 32)[1]
    assert same_bits(a, b)
    assert (a != other).mean() > 0.8


def test_another_visit_leaves_the_negatives_of_the_others_as_they_were() -> None:
    before = not_visited(list(range(20)), places=500)[1]
    after = not_visited([*range(20), 499], places=500)[1]
    assert (after[:20] == before).sum() >= 19  # one may have been the place that is visited now


def test_places_that_come_change_few_negatives() -> None:
    before = not_visited(list(range(100)), places=500)[1]
    after = not_visited(list(range(100)), places=550)[1]
    assert 0.75 < (after == before).mean() < 1.0


@pytest.mark.statistical  # false alarm 1e-9; must notice a place in ten that is never drawn
def test_every_place_is_as_likely() -> None:
    drawn = [not_visited([0] * 10, places=11, secret=bytes([n]) * 32)[1] for n in range(100)]
    counts = np.bincount(np.concatenate(drawn), minlength=11)
    assert counts[0] == 0
    chi2 = ((counts[1:] - 100.0) ** 2 / 100.0).sum()
    assert chi2 < 64  # nine degrees of freedom; a place that is never drawn adds 100 and more


def test_nearby_negatives_are_among_the_closest_two_hundred() -> None:
    location = np.stack([np.linspace(0, 10, 1000), np.zeros(1000)], axis=1)
    location[999] = np.nan
    visits = [0, 500, 999]
    of, place = not_visited(visits, places=1000, among="nearby", ratio=150, location=location)
    assert place[of == 0].max() <= 200
    assert np.abs(place[of == 1] - 500).max() <= 101
    assert place[of == 2].max() > 700  # no coordinates: from anywhere


def test_without_any_coordinates_nearby_is_anywhere() -> None:
    nowhere = np.full((30, 2), np.nan)
    assert same_bits(
        not_visited([1, 2], places=30, among="nearby", location=nowhere)[1], not_visited([1, 2], places=30)[1]
    )


@pytest.mark.parametrize("ratio", [1, 3])
def test_a_person_with_visits_alone_learns_from_drawn_negatives_too(tmp_path: Path, ratio: int) -> None:
    here = town(settings=change(SMALL_PRIVATE, data={"ratio": ratio}))
    person = here.person(0, tmp_path)
    for visit in person.visits():
        if visit.label < 0:
            person.remove_visit(visit.id or "")
    person.set_labelled(labelled=False)
    visits, own = person.visits(), encode_records(person, here.campaign, here.known)
    assert own.label.tolist() == [1, *[-1] * ratio] * len(visits)
    timed = [at for at, name in enumerate(here.campaign.encoding.names()) if name.startswith("time:")]
    moments = own.context[:, [at - here.setup.samples.features for at in timed]]
    assert same_bits(np.repeat(moments[:: 1 + ratio], 1 + ratio, axis=0), moments)
    person.store.close()
    with Store.open(tmp_path / "device-0") as store:
        again = encode_records(Person(store), here.campaign, here.known)
    arrays = ("person", "place", "context", "label", "places")
    assert all(same_bits(getattr(own, name), getattr(again, name)) for name in arrays)


def test_an_ignored_place_draws_no_negative_and_may_be_drawn_as_one(tmp_path: Path) -> None:
    """Somebody said that visits do not tell what was ignored, and yet some do."""
    here = town()
    person = here.person(0, tmp_path)
    told = [visit.label for visit in person.visits()]
    person.set_labelled(labelled=False)
    own = encode_records(person, here.campaign, here.known)
    person.store.close()
    assert own.label.tolist() == [label for one in told for label in ([1, -1] if one > 0 else [-1])]
