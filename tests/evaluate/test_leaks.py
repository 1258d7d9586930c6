"""Each fault that lets the test into training is seeded and caught; what is fair is left alone."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.config import Settings
from prirec.data.dataset import Category, Numbers
from prirec.errors import PolicyError, UsageError
from prirec.evaluate.leak_evidence import Finding, both
from prirec.evaluate.leaks import at_most, check, hits_and_chance, refuse
from prirec.features.location import homes
from prirec.features.popularity import OwnCounts, Popularity, plain_counts
from prirec.metrics import auc
from prirec.simulate.popularity import release_popularity
from prirec.simulate.setup import Setup, set_up
from support import messages
from support.cities import (
    SMALL_FM,
    SMALL_PAPER,
    SMALL_PRIVATE,
    SMALL_ROUNDS,
    change,
    small_city,
    with_idle_people,
    with_one_place,
    without_coordinates,
)
from support.leaky_setups import (
    again,
    avoiding,
    copied,
    set_up_with_people,
    timed_by_the_test,
    visited_city,
    with_all_learnt,
)

CITY = visited_city()
TINY = visited_city(people=12, places=30, each=5)
LISTS = small_city()
BY_TIME = change(SMALL_ROUNDS, data={"split": "time"})
RESPONSE = change(SMALL_ROUNDS, popularity={"mechanism": "randomized-response"})
RECORDS_ONLY = change(RESPONSE, popularity={"reporters": "those-with-a-record"})
SETTINGS = {
    "paper": SMALL_PAPER,
    "rounds": SMALL_ROUNDS,
    "private": SMALL_PRIVATE,
    "fm": SMALL_FM,
    "time": BY_TIME,
    "nearby": change(SMALL_ROUNDS, data={"negatives": "nearby"}),
    "nearby by time": change(BY_TIME, data={"negatives": "nearby"}),
    "response": RESPONSE,
    "records only": RECORDS_ONLY,
    "three negatives": change(SMALL_ROUNDS, data={"ratio": 3}),
    "nothing dynamic": change(SMALL_ROUNDS, features={"dynamic": False}),
    "nothing left out": change(SMALL_ROUNDS, features={"own_left_out": False}),
}
SAW = "dynamic features that saw the test"
BY_THE_SPLIT = {"labels anti-correlated by the split", "moments cut in two by the split"}


def refused(setup: Setup) -> list[str]:
    return [one.name for one in check(setup) if one.severity == "refused"]


def the(name: str, setup: Setup, **options: object) -> Finding:
    return next(one for one in check(setup, **options) if one.name == name)


# What is fair


CITIES = {"visits": CITY, "tiny": TINY, "lists": LISTS, "idle": with_idle_people(LISTS)}
FAIR = [(city, name) for city in CITIES for name in SETTINGS if (city, name) != ("tiny", "private")]


def test_a_noisy_sum_over_too_few_people_comes_to_no_evaluation():
    with pytest.raises(PolicyError, match=messages.too_few_devices(12, floor=50)):
        set_up(TINY, SETTINGS["private"])


@pytest.mark.parametrize(("city", "name"), FAIR)
def test_a_fair_set_up_has_no_finding_but_the_effect_of_the_split(city, name):
    city, settings = CITIES[city], SETTINGS[name]
    for seed in range(2):
        found = check(set_up(city, change(settings, seed=seed)))
        assert {one.name for one in found} <= BY_THE_SPLIT
        assert all(one.severity == "flagged" for one in found)
        refuse(found)


def test_a_fair_split_by_time_has_no_finding():
    assert check(set_up(CITY, BY_TIME)) == ()


@pytest.mark.parametrize("city", [without_coordinates(CITY), without_coordinates(LISTS), with_one_place(LISTS)])
def test_cities_without_coordinates_or_with_one_place_can_be_checked(city):
    assert not refused(set_up(city, SMALL_ROUNDS))


def test_a_city_whose_visits_have_contexts_can_be_checked():
    rng = np.random.default_rng(0)
    n = len(CITY.visits)
    context = {
        "mood": Numbers(rng.normal(size=n)),
        "with": Category(rng.integers(3, size=n, dtype=np.int32), tuple("abc")),
    }
    assert not refused(set_up(CITY.with_visits(replace(CITY.visits, context=context)), SMALL_ROUNDS))


# Dynamic features


@pytest.mark.parametrize("city", [CITY, TINY, LISTS], ids=["visits", "tiny", "lists"])
@pytest.mark.parametrize("settings", [SMALL_ROUNDS, RESPONSE, RECORDS_ONLY], ids=["plain", "response", "records only"])
def test_counts_of_training_and_test_are_refused_at_any_size(city, settings):
    setup = set_up(city, settings)
    leaky = again(setup, setup.prepared, release_popularity(with_all_learnt(setup.prepared), setup.settings))
    assert SAW in refused(leaky)


def test_a_noisy_sum_of_training_and_test_is_refused():
    setup = set_up(CITY, SMALL_PRIVATE)
    leaky = again(setup, setup.prepared, release_popularity(with_all_learnt(setup.prepared), setup.settings))
    assert refused(leaky)[0] == SAW


def test_one_leaking_column_among_honest_ones_is_found():
    setup = set_up(LISTS, SMALL_ROUNDS)
    leaky = release_popularity(with_all_learnt(setup.prepared), setup.settings)
    mixed = Popularity({**setup.popularity.released, "visits": leaky.released["visits"]}, setup.popularity.own)
    found = the(SAW, again(setup, setup.prepared, mixed))
    assert (found.severity, found.figure) == ("refused", 1)


def test_counts_of_the_test_alone_are_refused_by_their_evidence():
    setup = set_up(visited_city(people=300), SMALL_ROUNDS)
    tested = plain_counts(setup.prepared.test, places=60, recent_days=30)
    assert SAW in refused(again(setup, setup.prepared, Popularity(tested.released)))


def test_counts_from_elsewhere_are_flagged_when_they_were_declared_so():
    setup = set_up(CITY, SMALL_ROUNDS)
    leaky = release_popularity(with_all_learnt(setup.prepared), setup.settings).released
    shifted = {name: 3 * values + 7 for name, values in leaky.items()}
    outside = again(setup, setup.prepared, Popularity(shifted))
    assert the(SAW, outside).severity == "refused"
    assert the(SAW, outside, elsewhere=list(shifted)).severity == "flagged"


def test_own_parts_of_test_visits_are_refused():
    setup = set_up(CITY, SMALL_ROUNDS)
    all_visits = both(setup.prepared)
    own = OwnCounts.of(all_visits.take(all_visits.label > 0), places=len(CITY.places)).once()
    leaky = again(setup, setup.prepared, Popularity(setup.popularity.released, {"visitors": own}))
    found = the("own parts that saw the test", leaky)
    assert found.severity == "refused"
    assert found.figure == (setup.prepared.test.label > 0).sum()


def test_own_parts_with_the_test_visits_of_places_known_in_training_are_refused():
    repeated = CITY.visits.take(np.repeat(np.arange(len(CITY.visits)), 2))
    setup = set_up(CITY.with_visits(replace(repeated, time=None)), SMALL_ROUNDS)
    seen = both(setup.prepared)
    every = OwnCounts.of(seen.take(seen.label > 0), places=len(CITY.places))
    known = np.isin(every.pairs, setup.popularity.own["visits"].pairs)  # no pair that training does not have
    own = {**setup.popularity.own, "visits": OwnCounts(every.places, every.pairs[known], every.counts[known])}
    leaky = again(setup, setup.prepared, Popularity(setup.popularity.released, own))
    assert refused(leaky) == ["own parts that saw the test"]


# Negatives


@pytest.mark.parametrize("draw", ["uniform", "nearby"])
@pytest.mark.parametrize("split", ["record", "time"])
def test_negatives_that_avoid_the_test_are_refused(draw, split):
    setup = set_up(CITY, change(SMALL_ROUNDS, data={"negatives": draw, "split": split}))
    assert refused(avoiding(setup)) == ["negatives that knew the test"]
    assert the("negatives that knew the test", avoiding(setup)).figure == 0.0


def test_negatives_that_avoid_the_test_are_caught_from_fourteen_expected_hits_on():
    for people in (30, 60):
        setup = set_up(visited_city(people=people), SMALL_ROUNDS)
        expected = hits_and_chance(setup.prepared, setup.settings)[1]
        assert bool(refused(avoiding(setup))) == (expected > 13.9) == (people == 60)


def test_half_of_the_negatives_avoiding_the_test_is_enough_in_a_larger_city():
    setup = set_up(visited_city(people=500), SMALL_ROUNDS)
    assert refused(avoiding(setup, share=0.7)) == ["negatives that knew the test"]


def test_negatives_drawn_where_the_test_visits_are_are_refused_too():
    setup = set_up(CITY, SMALL_ROUNDS)
    train, test = setup.prepared.train, setup.prepared.test
    place, hidden = train.place.copy(), test.take(test.label > 0)
    for row in np.flatnonzero(train.label < 0)[::4]:
        theirs = hidden.place[hidden.person == train.person[row]]
        place[row] = theirs[0] if len(theirs) else place[row]
    leaky = again(setup, replace(setup.prepared, train=replace(train, place=place)))
    assert "negatives that knew the test" in refused(leaky)


@pytest.mark.statistical
@pytest.mark.parametrize("draw", ["uniform", "nearby"])
@pytest.mark.parametrize("split", ["record", "time"])
def test_blind_negatives_hit_as_often_as_chance_says(draw, split):
    """Ten cities of 500 places in which people stay near: false alarm 1e-6; notices a chance half as large again or
    half as small. Nearby draws have pools of 200 and hit so much more often that uniform chances are noticed too."""
    settings, hits, expected = change(SMALL_ROUNDS, data={"negatives": draw, "split": split}), 0, 0.0
    for seed in range(10):
        setup = set_up(visited_city(people=200, places=500, each=25, near=5.0, seed=seed), change(settings, seed=seed))
        more, by_chance = hits_and_chance(setup.prepared, setup.settings)
        hits, expected = hits + more, expected + by_chance
    assert at_most(hits, expected) > 1e-6
    assert max(at_most(hits, expected / 1.5), at_most(hits, 1.5 * expected)) < 1e-6
    others = change(settings, data={"negatives": "uniform" if draw == "nearby" else "nearby"})
    assert at_most(hits, 10 * hits_and_chance(setup.prepared, others)[1]) < 1e-6


def test_the_odds_of_no_hit_and_of_far_too_many_are_small_and_those_of_chance_are_not():
    assert at_most(0, 13.9) < 1e-6 < at_most(0, 13.8)
    assert at_most(45, 90.5) < 1e-6
    assert at_most(150, 90.0) < 1e-6
    assert at_most(90, 90.0) == 1.0
    assert at_most(0, 0.0) == 1.0
    assert at_most(1, 0.0) == 0.0


# Records and moments


@pytest.mark.parametrize("city", [CITY, TINY, LISTS], ids=["visits", "tiny", "lists"])
def test_a_single_test_record_in_training_is_refused(city):
    found = the("test records in training", copied(set_up(city, SMALL_ROUNDS), rows=1))
    assert (found.severity, found.figure) == ("refused", 1)


def test_a_place_visited_twice_is_no_copy():
    twice = CITY.visits.take(np.repeat(np.arange(len(CITY.visits)), 2))
    untimed = CITY.with_visits(replace(twice, time=None))
    assert "test records in training" not in refused(set_up(untimed, SMALL_ROUNDS))


def test_records_that_the_data_hold_twice_are_flagged():
    twice = CITY.with_visits(CITY.visits.take(np.repeat(np.arange(len(CITY.visits)), 2)))
    found = the("records that stand twice in the data", set_up(twice, SMALL_ROUNDS))
    assert found.severity == "flagged"
    assert found.figure == pytest.approx(0.32 * len(CITY.visits), rel=0.2)  # 2 · 0.8 · 0.2


@pytest.mark.parametrize("city", [CITY, TINY], ids=["visits", "tiny"])
def test_a_single_training_negative_with_the_time_of_a_test_visit_is_refused(city):
    found = the("moments of test visits in training", timed_by_the_test(set_up(city, SMALL_ROUNDS), rows=1))
    assert (found.severity, found.figure) == ("refused", 1)


def test_a_context_of_a_test_visit_is_a_moment_too():
    marks = {"mark": Numbers(np.arange(len(CITY.visits), dtype=np.float64))}
    setup = set_up(CITY.with_visits(replace(CITY.visits, time=None, context=marks)), SMALL_ROUNDS)
    train, test = setup.prepared.train, setup.prepared.test
    values = train.context["mark"].values.copy()
    row = np.flatnonzero(train.label < 0)[0]
    values[row] = test.context["mark"].values[(test.person == train.person[row]) & (test.label > 0)][0]
    leaky = replace(setup.prepared, train=replace(train, context={"mark": Numbers(values)}))
    assert the("moments of test visits in training", again(setup, leaky)).figure == 1


def test_training_records_after_the_test_are_refused_where_the_split_is_by_time():
    by_record = set_up(CITY, SMALL_ROUNDS)
    found = the("training after the test", replace(by_record, settings=BY_TIME))
    assert found.severity == "refused"
    assert found.figure > 100
    assert not refused(by_record)


# People


def test_homes_from_all_visits_are_refused_however_few(monkeypatch):
    for city in (CITY, TINY):
        honest = set_up(city, SMALL_ROUNDS)
        seen = homes(honest.prepared.dataset, both(honest.prepared))
        with monkeypatch.context() as patch:
            patch.setattr("prirec.features.samples.homes", lambda dataset, train, seen=seen: seen)
            leaky = again(honest, honest.prepared)
        assert refused(leaky) == ["homes that saw the test"]


@pytest.mark.parametrize("part", ["people", "places", "popularity"])
def test_features_that_do_not_follow_from_the_training_records_are_refused(part):
    setup = set_up(CITY if part != "places" else LISTS, SMALL_ROUNDS)
    other = getattr(setup.samples, part) + np.float32(0.1)
    assert refused(replace(setup, samples=replace(setup.samples, **{part: other}))) == ["features from elsewhere"]


def test_a_test_context_that_knows_its_label_is_refused():
    setup = set_up(CITY, SMALL_ROUNDS)
    test = setup.samples.test
    told = test.context.copy()
    told[:, 0] += 0.01 * test.label
    leaky = replace(setup, samples=replace(setup.samples, test=replace(test, context=told)))
    found = the("features from elsewhere", leaky)
    assert "test moments" in found.words


@pytest.mark.parametrize("shape", [np.asarray, np.log1p, lambda many: -many], ids=["as it is", "logarithm", "reversed"])
def test_a_table_that_counts_everyones_visits_is_refused(shape):
    uneven = LISTS.visits.label > 0
    many = np.bincount(LISTS.visits.person[uneven], minlength=len(LISTS.people)).astype(np.float64)
    columns = {**LISTS.people.columns, "outings": Numbers(shape(many))}
    assert refused(set_up_with_people(LISTS, SMALL_ROUNDS, columns=columns)) == ["tables that saw the test"]


def test_a_table_that_puts_people_in_the_middle_of_all_their_visits_is_refused():
    for middle in (np.median, np.mean):
        where = np.stack(
            [middle(CITY.places.location[CITY.visits.place[CITY.visits.person == i]], axis=0) for i in range(120)]
        )
        assert refused(set_up_with_people(CITY, SMALL_ROUNDS, location=where)) == ["tables that saw the test"]


def test_people_who_live_somewhere_are_not_suspected():
    where = np.random.default_rng(0).normal(size=(120, 2)) / 10 + CITY.places.location.mean(axis=0)
    assert not refused(set_up_with_people(CITY, SMALL_ROUNDS, location=where))


# What the split does


def test_the_anti_correlation_of_a_split_by_record_is_flagged_with_its_size():
    setup = set_up(CITY, SMALL_ROUNDS)
    found = the("labels anti-correlated by the split", setup)
    train, test = setup.samples.train, setup.samples.test
    rate = np.bincount(train.person, train.label > 0, len(CITY.people)) / train.counts()
    assert found.figure == pytest.approx(auc(test.label, -rate[test.person]))
    assert (found.severity, found.figure > 0.6) == ("flagged", True)
    assert "GAUC" in found.words


def test_lists_of_which_one_place_is_clicked_are_flagged_when_they_are_cut_in_two():
    rng, lists, length = np.random.default_rng(0), 300, 5
    label = np.full((lists, length), -1, dtype=np.int8)
    label[np.arange(lists), rng.integers(length, size=lists)] = 1
    visits = replace(
        LISTS.visits.take(np.arange(lists * length) % len(LISTS.visits)),
        person=np.repeat(np.arange(lists, dtype=np.int32) % 150, length),
        place=rng.integers(40, size=lists * length, dtype=np.int32),
        label=label.ravel(),
        time=np.repeat(np.arange(lists), length) * 1000,
    )
    found = the("moments cut in two by the split", set_up(LISTS.with_visits(visits), SMALL_ROUNDS))
    assert found.figure > 0.7
    assert "one side" in found.words


def test_a_visit_and_its_negative_on_two_sides_are_flagged_and_a_split_by_time_keeps_them_together():
    assert the("moments cut in two by the split", set_up(CITY, SMALL_ROUNDS)).figure > 0.7
    assert check(set_up(CITY, BY_TIME)) == ()


# What is said


def faults(settings: Settings = SMALL_ROUNDS) -> list[Setup]:
    setup = set_up(CITY, settings)
    leaky = release_popularity(with_all_learnt(setup.prepared), setup.settings)
    return [
        avoiding(setup),
        copied(setup, rows=3),
        timed_by_the_test(setup, rows=3),
        again(setup, setup.prepared, leaky),
        replace(setup, settings=BY_TIME),
    ]


def test_no_finding_names_anyone_or_any_place():
    found = [one for setup in faults() for one in check(setup)]
    assert len({one.name for one in found}) >= 6
    assert not any("secret" in text for one in found for text in (one.name, one.words))
    assert all(isinstance(one.to_dict()["figure"], int | float) for one in found)


def test_all_reasons_to_refuse_are_in_one_error_and_flags_raise_none():
    setup = faults()[-2]
    with pytest.raises(UsageError, match=messages.TEST_VISITS_IN_POPULARITY) as told:
        refuse(check(setup))
    assert "anti-correlated" not in str(told.value)
    refuse(check(set_up(CITY, SMALL_ROUNDS)))
    refuse(())
