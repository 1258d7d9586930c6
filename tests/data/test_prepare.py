"""What is learnt from knows nothing of what is tested on, and the paper's protocol is kept where it is asked for."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.data.dataset import Dataset, Numbers, People, Places, Visits
from prirec.data.prepare import Prepared, Recipe, prepare
from prirec.data.synthetic import CityPlan, make_city
from prirec.errors import DataError, UsageError
from support import messages


def dense(seed: int = 0, *, people: int = 60, places: int = 12, each: int = 6) -> Dataset:
    """Everyone visited half of a tiny catalogue, at different times; the context repeats the time."""
    rng = np.random.default_rng(seed)
    place = np.argsort(rng.random((people, places)), axis=1)[:, :each].astype(np.int32).ravel()
    person = np.repeat(np.arange(people, dtype=np.int32), each)
    time = rng.permutation(len(person)).astype(np.int64)
    location = np.column_stack([np.arange(places) / 100, np.zeros(places)])
    return Dataset(
        "dense",
        People(tuple(f"u{n}" for n in range(people)), None),
        Places(tuple(f"p{n}" for n in range(places)), location),
        Visits(person, place, np.ones(len(person), dtype=np.int8), time, {"at": Numbers(time.astype(np.float64))}),
        labelled=False,
    )


def pairs(visits: Visits, label: int) -> set[tuple[int, int]]:
    rows = visits.take(visits.label == label)
    return set(zip(rows.person.tolist(), rows.place.tolist(), strict=True))


def prepared(recipe: Recipe, seed: int = 0) -> Prepared:
    return prepare(dense(), recipe, np.random.default_rng(seed))


RECIPES = [Recipe(split=s, negatives=n, pool=6) for s in ("record", "time") for n in ("uniform", "nearby")]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: f"{r.split}-{r.negatives}")
class TestBlindness:
    def test_no_training_negative_is_a_training_positive(self, recipe: Recipe) -> None:
        done = prepared(recipe)
        assert not pairs(done.train, -1) & pairs(done.train, 1)

    def test_training_negatives_do_hit_test_positives(self, recipe: Recipe) -> None:
        done = prepared(recipe)
        assert pairs(done.train, -1) & pairs(done.test, 1)

    def test_no_test_negative_was_ever_visited(self, recipe: Recipe) -> None:
        done = prepared(recipe)
        assert not pairs(done.test, -1) & (pairs(done.train, 1) | pairs(done.test, 1))

    def test_training_does_not_change_when_only_the_test_places_do(self, recipe: Recipe) -> None:
        # everyone's test positives move to places of their own beyond the catalogue seen in training
        dataset = dense()
        wide = Places(
            tuple(f"p{n}" for n in range(24)), np.column_stack([np.arange(24) % 12 / 100, np.arange(24) // 12 * 1.0])
        )
        before = replace(dataset, places=wide)
        done = prepare(before, recipe, np.random.default_rng(5))
        tested = pairs(done.test, 1)
        moved = [(p, q) in tested for p, q in zip(before.visits.person, before.visits.place, strict=True)]
        place = np.where(moved, before.visits.place + 12, before.visits.place).astype(np.int32)
        after = prepare(before.with_visits(replace(before.visits, place=place)), recipe, np.random.default_rng(5))
        assert np.array_equal(done.train.place, after.train.place)
        assert not np.array_equal(done.test.place, after.test.place)

    def test_a_negative_has_a_moment_of_its_person_and_in_training_never_that_of_a_test_positive(
        self, recipe: Recipe
    ) -> None:
        done = prepared(recipe)
        for part in (done.train, done.test):
            assert np.array_equal(part.time, part.context["at"].values)
        owner = dict(zip(dense().visits.time.tolist(), dense().visits.person.tolist(), strict=True))
        assert all(owner[t] == p for t, p in zip(done.train.time.tolist(), done.train.person.tolist(), strict=True))
        assert not set(done.train.time) & set(done.test.time[done.test.label > 0])

    def test_training_does_not_change_when_only_the_test_moments_do(self, recipe: Recipe) -> None:
        done = prepared(recipe)
        time = dense().visits.time
        later = np.where(np.isin(time, done.test.time[done.test.label > 0]), time + 10_000, time)
        moved = replace(dense().visits, time=later, context={"at": Numbers(-later.astype(np.float64))})
        after = prepare(dense().with_visits(moved), recipe, np.random.default_rng(0))
        for name in ("person", "place", "label", "time"):
            assert np.array_equal(getattr(done.train, name), getattr(after.train, name))
        assert np.array_equal(done.train.context["at"].values, -after.train.context["at"].values)
        assert set(after.test.time[after.test.label > 0]) <= set(later[later >= 10_000])

    def test_rows_are_ordered_by_person_and_time(self, recipe: Recipe) -> None:
        done = prepared(recipe)
        for part in (done.train, done.test):
            assert np.array_equal(np.lexsort((part.time, part.person)), np.arange(len(part)))

    def test_a_seed_determines_the_prepared_records(self, recipe: Recipe) -> None:
        one, same, other = prepared(recipe, 1), prepared(recipe, 1), prepared(recipe, 2)
        assert np.array_equal(one.train.place, same.train.place)
        assert np.array_equal(one.test.place, same.test.place)
        assert not np.array_equal(one.train.place, other.train.place)


def test_by_record_positives_and_negatives_fall_independently_and_exactly() -> None:
    done = prepared(Recipe())
    assert len(done.train) == 576  # 0.8 of 2 x 360
    assert len(done.test) == 144
    together = set(done.train.take(done.train.label > 0).time) == set(done.train.take(done.train.label < 0).time)
    assert not together


def test_by_record_a_negative_keeps_the_moment_of_its_positive_unless_that_is_kept_from_it() -> None:
    done = prepared(Recipe())
    trained, drawn = (done.train.time[done.train.label == label].tolist() for label in (1, -1))
    tested, kept = (done.test.time[done.test.label == label].tolist() for label in (1, -1))
    assert len(set(kept)) == len(kept)
    assert set(kept) & set(tested)
    own = [t for t in trained if t not in set(kept)]  # their negatives are in training too
    assert set(own) <= set(drawn)
    assert len(drawn) > len(own)


def test_a_person_without_training_visits_gets_moments_of_others() -> None:
    done = prepare(dense(people=60, each=1), Recipe(train_share=0.5), np.random.default_rng(0))
    learnt, tested = (part.take(part.label > 0) for part in (done.train, done.test))
    alone = np.isin(done.train.person, tested.person) & (done.train.label < 0)
    assert alone.sum() > 5
    assert np.isin(done.train.time[alone], learnt.time).all()
    assert np.array_equal(done.train.time, done.train.context["at"].values)


@pytest.mark.parametrize("negatives", ["uniform", "nearby"])
def test_moments_of_others_do_not_depend_on_where_the_test_visits_were(negatives: str) -> None:
    dataset, recipe = dense(people=60, places=3, each=1), Recipe(train_share=0.5, negatives=negatives, pool=2)
    done = prepare(dataset, recipe, np.random.default_rng(0))
    tested = np.isin(dataset.visits.person, done.test.person[done.test.label > 0])
    for place in range(3):
        there = replace(dataset.visits, place=np.where(tested, np.int32(place), dataset.visits.place))
        after = prepare(dataset.with_visits(there), recipe, np.random.default_rng(0))
        assert np.array_equal(after.train.place, done.train.place)
        assert np.array_equal(after.train.time, done.train.time)


def test_negatives_without_any_training_positive_are_no_training_set() -> None:
    alone = dense(people=1, each=1)
    seeds = (np.random.default_rng(seed) for seed in range(20))
    refused = [rng for rng in seeds if _is_refused(alone, rng)]
    assert 0 < len(refused) < 20  # the visit or its negative falls into training


def _is_refused(dataset: Dataset, rng: np.random.Generator) -> bool:
    try:
        prepare(dataset, Recipe(train_share=0.5), rng)
    except DataError as refused:
        return "training set is empty" in str(refused)
    return False


def test_by_time_a_negative_goes_with_its_positive_and_the_test_is_later() -> None:
    done = prepared(Recipe(split="time"))
    for part in (done.train, done.test):
        assert sorted(part.time[part.label > 0]) == sorted(part.time[part.label < 0])
    for person in range(60):
        assert done.train.time[done.train.person == person].max() < done.test.time[done.test.person == person].min()


@pytest.mark.statistical  # 3,000 people: the two rates correlate at about -1 by record, and cannot by time
def test_by_record_a_persons_training_rate_is_anti_correlated_with_the_test_labels() -> None:
    dataset = dense(people=3000, places=200, each=10)

    def correlation(recipe: Recipe) -> float:
        done = prepare(dataset, recipe, np.random.default_rng(0))
        hit = np.bincount(done.train.person, done.train.label > 0, minlength=3000)
        rate = hit / np.maximum(np.bincount(done.train.person, minlength=3000), 1)
        return float(np.corrcoef(rate[done.test.person], done.test.label)[0, 1])

    assert correlation(Recipe()) < -0.2
    with np.errstate(invalid="ignore", divide="ignore"):
        balanced = correlation(Recipe(split="time"))
    assert np.isnan(balanced)  # everyone's rate is one half


def test_the_ratio_is_the_number_of_negatives_for_each_positive() -> None:
    done = prepare(dense(places=300), Recipe(ratio=3, split="time"), np.random.default_rng(0))
    for part in (done.train, done.test):
        assert np.mean(part.label > 0) == 0.25


def test_negatives_that_cannot_be_found_are_left_out_and_counted() -> None:
    done = prepare(dense(people=4, places=6, each=6), Recipe(split="time"), np.random.default_rng(0))
    assert not pairs(done.test, -1)
    assert len(done.test) == 4
    assert any("negatives left out" in note for note in done.notes)


def test_nearby_negatives_of_a_recipe_come_from_the_pool() -> None:
    done = prepare(
        dense(places=400, each=5), Recipe(negatives="nearby", split="time", pool=4), np.random.default_rng(0)
    )
    near = dict(zip(done.train.time[done.train.label > 0], done.train.place[done.train.label > 0], strict=True))
    ignored = done.train.take(done.train.label < 0)
    apart = [abs(int(near[t]) - int(q)) for t, q in zip(ignored.time, ignored.place, strict=True)]
    assert max(apart) <= 4  # at the end of the row of places all four stand on one side


@pytest.fixture(scope="module")
def city() -> Dataset:
    return make_city(CityPlan(people=300, places=100, records=3000), np.random.default_rng(0))


@pytest.mark.parametrize("split", ["record", "time"])
def test_labelled_records_are_split_and_none_is_lost_or_added(city: Dataset, split: str) -> None:
    done = prepare(city, Recipe(split=split), np.random.default_rng(0))
    both = [
        sorted(
            zip(v.person.tolist(), v.place.tolist(), v.time.tolist(), v.label.tolist(), strict=True)
        ) for v in (done.train, done.test, city.visits)
    ]  # fmt: skip
    assert sorted(both[0] + both[1]) == both[2]
    assert done.notes == ()


def test_thinning_comes_after_the_filter_and_before_the_split(city: Dataset) -> None:
    done = prepare(city, Recipe(filter="records", at_least=5, thin=1), np.random.default_rng(0))
    assert len(done.train) + len(done.test) == len(done.dataset.visits)
    assert np.mean(done.dataset.visits.label > 0) >= 0.5
    assert len(done.notes) == 2
    assert "thinning" in done.notes[1]


def test_thin_is_refused_where_nothing_was_ignored() -> None:
    with pytest.raises(UsageError, match=messages.THIN_WITHOUT_IGNORED_PLACES):
        prepared(Recipe(thin=3))


def test_a_filter_that_leaves_nothing_says_what_to_change() -> None:
    with pytest.raises(DataError, match=messages.filter_leaves_nothing("visitors", at_least=1000)):
        prepared(Recipe(filter="visitors", at_least=1000))


def test_an_empty_data_set_or_part_is_refused() -> None:
    one = dense(people=1, each=1)
    with pytest.raises(DataError, match=messages.TEST_SET_EMPTY):
        prepare(one, Recipe(split="time"), np.random.default_rng(0))
    with pytest.raises(DataError, match=messages.TRAINING_SET_EMPTY):
        prepare(one, Recipe(train_share=0.01), np.random.default_rng(0))
    with pytest.raises(DataError, match=messages.NO_RECORDS):
        prepare(one.with_visits(one.visits.take(np.array([], dtype=np.int64))), Recipe(), np.random.default_rng(0))


def test_thinning_without_a_click_is_refused(city: Dataset) -> None:
    ignored = city.with_visits(city.visits.take(city.visits.label < 0))
    with pytest.raises(DataError, match=messages.NO_CLICK):
        prepare(ignored, Recipe(thin=3), np.random.default_rng(0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"filter": "both"}, {"split": "person"}, {"negatives": "far"}, {"at_least": 0}, {"at_least": 1.5},
        {"ratio": 0}, {"ratio": True}, {"thin": 0}, {"pool": 0}, {"train_share": 1.0}, {"train_share": 0.0},
    ],
)  # fmt: skip
def test_an_impossible_recipe_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=messages.recipe_invalid(next(iter(wrong)))):
        Recipe(**wrong)
