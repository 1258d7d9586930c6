"""Popularity by counts that can be checked by eye."""

import numpy as np

from prirec.features.popularity import nothing_left_out, plain_counts
from support.cities import some_visits

DAY = 86_400


def counts(visits, *, places=3, recent_days=30):
    popularity = plain_counts(visits, places=places, recent_days=recent_days)
    return {name: values.tolist() for name, values in popularity.released.items()}


def test_visitors_are_distinct_and_ignored_places_do_not_count():
    visits = some_visits([0, 0, 1, 1, 2], [0, 0, 0, 1, 2], [1, 1, 1, 1, -1])
    assert counts(visits) == {"visitors": [2, 1, 0], "visits": [3, 1, 0]}


def test_visits_are_a_column_beside_visitors_only_where_somebody_came_twice():
    assert counts(some_visits([0, 1, 1], [0, 0, 1], [1, 1, 1])) == {"visitors": [2, 1, 0]}


def test_recent_visits_are_those_of_the_last_days_before_the_latest_record():
    latest = 1000 * DAY
    visits = some_visits(
        [0, 1, 2, 3, 4], [0, 0, 0, 1, 2], [1, 1, 1, 1, -1],
        [latest - 31 * DAY, latest - 30 * DAY, latest - 30 * DAY + 1, latest - DAY, latest],
    )  # fmt: skip
    assert counts(visits)["recent visits"] == [1, 1, 0]
    assert counts(visits, recent_days=31)["recent visits"] == [2, 1, 0]


def test_places_without_visits_count_0_and_no_positive_means_no_popularity():
    assert counts(some_visits([0], [1], [-1], [5]), places=2) == {"visitors": [0, 0]}
    assert counts(some_visits([], [], [])) == {"visitors": [0, 0, 0]}


def test_counts_do_not_depend_on_the_order_of_records():
    rng = np.random.default_rng(0)
    person, place = rng.integers(5, size=40).tolist(), rng.integers(3, size=40).tolist()
    label, time = rng.choice([-1, 1], size=40).tolist(), rng.integers(100 * DAY, size=40).tolist()
    visits = some_visits(person, place, label, time)
    assert counts(visits) == counts(visits.take(rng.permutation(40)))


def test_pairs_do_not_collide_in_large_cities():
    people, places = 1_000_000, 200_000
    visits = some_visits([people - 1, people - 2, 0], [places - 1, places - 1, 5], [1, 1, 1])
    found = plain_counts(visits, places=places, recent_days=30).released["visitors"]
    assert found[places - 1] == 2
    assert found[5] == 1
    assert found.sum() == 3


REVISITED = some_visits(
    [0, 0, 1, 1, 0, 2], [0, 0, 0, 1, 1, 1], [1, 1, 1, 1, -1, 1], [0, 90 * DAY, 90 * DAY, 1, 90 * DAY, 90 * DAY]
)


def test_a_record_sees_what_others_gave_the_place():
    popularity = plain_counts(REVISITED, places=3, recent_days=30)
    others = {name: seen.tolist() for name, seen in popularity.seen_by(REVISITED).items()}
    assert others == {
        "visitors": [1, 1, 1, 1, 2, 1],  # the fifth record ignored place 1, so its person added nothing there
        "visits": [1, 1, 2, 1, 2, 1],
        "recent visits": [1, 1, 1, 1, 1, 0],
    }


def test_with_nothing_left_out_everyone_sees_the_plain_count():
    popularity = plain_counts(REVISITED, places=3, recent_days=30)
    whole = nothing_left_out(popularity).seen_by(REVISITED)
    for name, counts in popularity.released.items():
        assert whole[name].tolist() == counts[REVISITED.place].tolist()


def test_a_place_that_is_considered_is_seen_like_one_that_was_learnt_from():
    popularity = plain_counts(REVISITED, places=3, recent_days=30)
    considered = some_visits([0, 1, 2, 2], [0, 2, 0, 1], [-1, 1, 1, -1], [95 * DAY] * 4)
    seen = {name: values.tolist() for name, values in popularity.seen_by(considered).items()}
    assert seen == {"visitors": [1, 0, 2, 1], "visits": [1, 0, 3, 1], "recent visits": [1, 0, 2, 0]}


def test_what_others_gave_is_the_count_of_a_city_without_the_person():
    rng = np.random.default_rng(1)
    visits = some_visits(
        rng.integers(6, size=80).tolist(), rng.integers(4, size=80).tolist(), rng.choice([-1, 1], size=80).tolist(),
        [*rng.integers(100 * DAY, size=79).tolist(), 100 * DAY],
    )  # fmt: skip
    popularity = plain_counts(visits, places=4, recent_days=30)
    recent = visits.time > 70 * DAY
    for row in range(80):
        others = (visits.person != visits.person[row]) & (visits.place == visits.place[row]) & (visits.label > 0)
        expected = {
            "visitors": len(np.unique(visits.person[others])),
            "visits": others.sum(),
            "recent visits": (others & recent).sum(),
        }
        assert {name: seen[row] for name, seen in popularity.seen_by(visits).items()} == expected


def test_what_a_device_added_does_not_print():
    assert "[" not in repr(plain_counts(REVISITED, places=3, recent_days=30))
