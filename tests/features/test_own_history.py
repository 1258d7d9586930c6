"""Features of a person's own history: what they are, and what they may not know."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from prirec.data.dataset import Dataset, Visits
from prirec.errors import StateError
from prirec.evaluate.leaks import check
from prirec.features import history as module
from prirec.features.encoding import Affinity, Closeness, Density, Encoding, Log, Nearest, Words, from_json
from prirec.features.history import History, only_earlier
from prirec.features.samples import assemble
from prirec.model.scoring import FactorizationModels
from prirec.protocols.prediction import Moment
from prirec.simulate.recommend import Advisor
from prirec.simulate.setup import Setup, set_up
from prirec.util.geography import haversine_km, unit_vectors
from prirec.util.jit import in_numpy
from support import messages
from support.cities import SMALL_ROUNDS, change, same_bits, small_city, without_coordinates

SETTINGS = change(SMALL_ROUNDS, features={"own_history": True})
CITY: Dataset = small_city(records=1500)
SETUP: Setup = set_up(CITY, SETTINGS)
LATER: Setup = set_up(CITY, change(SETTINGS, data={"split": "time"}))
NAMES = SETUP.encoding.names()
FIRST = SETUP.samples.people.shape[1] + SETUP.samples.places.shape[1]  # in the samples' context
OWN = np.flatnonzero([" own visits" in f" {name}" for name in NAMES]) - FIRST

NEAR = Encoding(
    place=(Words(column="kind", words=("bar", "park")), Log(column="price")),
    context=(
        Nearest(column="near", shift=0.0, scale=1.0),
        Density(column="dense", scales_km=(1.0, 4.0), shift=0.0, spread=1.0),
        Affinity(column="kinds", of="kind", shares=(0.5, 0.25)),
        Closeness(column="prices", of="price", shift=0.0, scale=1.0),
    ),
)
LOCATION = np.array([[35.0, 139.0], [35.0, 139.01], [35.02, 139.0], [np.nan, np.nan]])
PLACES = np.array([[1, 0, -1], [1, 1, 0.5], [0, 1, 2], [1, 0, 0]], dtype=np.float32)  # bar, park, price; 0: unknown


def visits(person: list[int], place: list[int], label: list[int], time: list[int] | None = None) -> Visits:
    when = None if time is None else np.array(time, dtype=np.int64)
    columns = (np.array(values, dtype=np.int32) for values in (person, place))
    return Visits(*columns, np.array(label, dtype=np.int8), when)


def of(known: Visits, *, encoding: Encoding = NEAR, people: int = 1) -> History:
    return History.of(encoding, known, people=people, features=PLACES, points=unit_vectors(LOCATION))


def encoded(own: History, place: int, *, person: int = 0, before: int | None = None) -> np.ndarray:
    one = np.array([person], dtype=np.int32), np.array([place], dtype=np.int32)
    return np.hstack(own.encode(*one, before=None if before is None else np.array([before])))[0]


def spelled_out(setup: Setup, side: str, row: int) -> list[float]:
    """All features of one record in plain words, without a kernel, a sum over people or a sorted array."""
    prepared, encoding = setup.prepared, setup.encoding
    rows, train, X = getattr(prepared, side), prepared.train, setup.samples.places
    person, place, location = rows.person[row], rows.place[row], prepared.dataset.places.location
    counted = (train.person == person) & (train.label > 0) & (train.place != place)
    if side == "train" and only_earlier(setup.settings.data):
        counted &= train.time < rows.time[row]
    others = sorted(set(train.place[counted].tolist()))
    km, found = haversine_km(location[others], location[place]), list[float]()
    for block in encoding.history:
        if isinstance(block, Nearest):
            found.append((np.log1p(km.min()) - block.shift) / block.scale if others else 0.0)
        elif isinstance(block, Density):
            means = [np.exp(-km / scale).mean() if others else 0.0 for scale in block.scales_km]
            found += [(np.log(mean + 1e-3) - block.shift) / block.spread if others else 0.0 for mean in means]
        elif isinstance(block, Affinity):
            named = dict(zip(encoding.place_columns(block.of), block.shares, strict=True))
            has, n = {at: b for at, b in named.items() if X[place, at]}, len(others)
            ratios = [np.log((X[others, at].sum() + 5 * b) / ((n + 5) * b)) for at, b in has.items()]
            found.append(float(np.mean(ratios)) if ratios else 0.0)
        else:
            (at,) = encoding.place_columns(block.of)
            prices = [float(X[other, at]) for other in others if X[other, at]]
            known = bool(prices) and X[place, at] != 0
            found.append((block.shift - abs(X[place, at] - np.mean(prices))) / block.scale if known else 0.0)
    return found


@pytest.mark.parametrize("side", ["train", "test"])
@pytest.mark.parametrize("setup", [SETUP, LATER], ids=["random records", "later records"])
def test_all_features_are_what_their_definitions_say(setup: Setup, side: str):
    records, rows = getattr(setup.samples, side), getattr(setup.prepared, side)
    row_of = {name: at for at, name in enumerate(setup.prepared.dataset.people.ids)}
    person = np.array([row_of[name] for name in setup.samples.ids])[records.person]
    order = np.argsort(
        [setup.samples.ids.index(setup.prepared.dataset.people.ids[i]) for i in rows.person], kind="stable"
    )
    assert rows.person[order].tolist() == person.tolist()
    some = range(0, len(records), 7)
    expected = [spelled_out(setup, side, order[at]) for at in some]
    np.testing.assert_allclose(records.context[list(some)][:, OWN], expected, atol=2e-4)
    assert (np.abs(expected).max(axis=0) > 0.1).all()  # each of them says something


def test_the_place_of_the_record_makes_no_difference():
    with_it, without = of(visits([0, 0, 0], [0, 1, 0], [1, 1, 1])), of(visits([0], [1], [1]))
    assert same_bits(encoded(with_it, 0), encoded(without, 0))


def test_a_place_visited_twice_counts_once():
    assert same_bits(
        encoded(of(visits([0] * 3, [1, 2, 2], [1] * 3)), 0), encoded(of(visits([0, 0], [2, 1], [1, 1])), 0)
    )


def test_ignored_places_and_other_peoples_visits_do_not_count():
    own = of(visits([0, 0, 1], [1, 2, 1], [-1, 1, 1]), people=3)
    assert same_bits(encoded(own, 0, person=0), encoded(of(visits([0], [2], [1])), 0))
    assert same_bits(encoded(own, 0, person=1), encoded(of(visits([0], [1], [1])), 0))
    assert not encoded(own, 0, person=2).any()


def test_what_is_unknown_is_0():
    own = of(visits([0, 0], [1, 3], [1, 1]))
    near, dense, wide, kinds, prices = encoded(own, 3)  # no coordinates, no price
    assert (near, dense, wide, prices) == (0, 0, 0, 0)
    assert kinds == pytest.approx(np.log((1 + 2.5) / (6 * 0.5)))
    assert encoded(of(visits([0], [3], [1])), 0)[[0, 1, 2, 4]].tolist() == [0, 0, 0, 0]
    assert not encoded(of(visits([], [], [])), 0).any()


def test_more_visits_of_the_same_kind_do_not_change_the_density():
    """A sum would: then a visit, which leaves itself out, could be told from a place that was not visited."""
    dense, nothing = Encoding(context=NEAR.context[1:2]), np.zeros((5, 0), dtype=np.float32)
    points = unit_vectors(np.repeat(LOCATION[:2], [1, 4], axis=0))
    one, four = (
        History.of(dense, visits([0] * n, list(range(1, n + 1)), [1] * n), people=1, features=nothing, points=points)
        for n in (1, 4)
    )
    np.testing.assert_allclose(encoded(one, 0), encoded(four, 0), rtol=1e-6)


def test_with_a_time_only_earlier_visits_count_each_place_from_the_first_visit_on():
    own = of(visits([0, 0, 0], [1, 2, 1], [1, 1, 1], [50, 60, 10]))
    assert not encoded(own, 0, before=10).any()  # a record and its negatives have one time: neither sees the other
    assert same_bits(encoded(own, 0, before=11), encoded(of(visits([0], [1], [1])), 0))
    assert same_bits(encoded(own, 0, before=61), encoded(own, 0))
    assert not encoded(of(visits([0], [1], [1])), 0, before=99).any()  # no time: not known to be earlier


def test_later_visits_are_left_out_where_the_test_is_of_later_records_and_only_there():
    for setup, leaves_out in ((SETUP, False), (LATER, True)):
        prepared, known = setup.prepared, {"encoding": setup.encoding, "popularity": setup.popularity}
        made = [
            assemble(prepared.dataset, train=prepared.train, test=prepared.test, earlier=earlier, **known)
            for earlier in (leaves_out, not leaves_out)
        ]
        assert same_bits(made[0].train.context, setup.samples.train.context)
        assert not same_bits(made[1].train.context, setup.samples.train.context)
        assert same_bits(made[1].test.context, setup.samples.test.context)


def test_a_city_without_coordinates_has_likeness_alone():
    kinds = [type(block) for block in set_up(without_coordinates(CITY), SETTINGS).encoding.history]
    assert kinds == [Affinity, Affinity, Closeness, Closeness]
    assert set_up(CITY, change(SMALL_ROUNDS, features={"own_history": False})).encoding.history == ()


def test_test_visits_are_not_looked_at():
    prepared = SETUP.prepared
    more = replace(prepared.train, label=np.where(np.arange(len(prepared.train)) % 9 == 0, 1, prepared.train.label))
    known = {"encoding": SETUP.encoding, "popularity": SETUP.popularity}
    one = assemble(prepared.dataset, train=prepared.train, test=prepared.test, **known)
    other = assemble(prepared.dataset, train=prepared.train, test=prepared.test.take(np.arange(5)), **known)
    peeked = assemble(prepared.dataset, train=more, test=prepared.test, **known)
    assert same_bits(one.train.context, other.train.context)
    assert not same_bits(one.train.context, peeked.train.context)


@pytest.mark.parametrize("setup", [SETUP, LATER], ids=["random records", "later records"])
def test_the_leak_checker_passes_these_features_and_finds_those_computed_from_test_visits(setup: Setup):
    assert [one for one in check(setup) if one.severity == "refused"] == []
    prepared, known = setup.prepared, {"encoding": setup.encoding, "popularity": setup.popularity}
    both = Visits(*(np.concatenate([getattr(one, name) for one in (prepared.train, prepared.test)])
                    for name in ("person", "place", "label", "time")))  # fmt: skip
    seen = assemble(
        prepared.dataset, train=both, test=prepared.test, **known | {"popularity": replace(setup.popularity, own={})}
    )
    context = setup.samples.test.context.copy()
    context[:, OWN] = seen.test.context[:, OWN]
    leaky = replace(setup, samples=replace(setup.samples, test=replace(setup.samples.test, context=context)))
    assert any(one.severity == "refused" for one in check(leaky))


def test_a_candidate_is_seen_as_a_test_record_is():
    """By the code that a device runs: the same place, the same features."""
    samples, untimed = SETUP.samples, np.zeros((1, SETUP.samples.features + 1))
    advisor = Advisor.of(SETUP, FactorizationModels(untimed, np.zeros((samples.features, 1))))
    popular = samples.popularity.shape[1]
    for row in range(0, len(samples.test), 40):
        person, place = int(samples.test.person[row]), samples.test.place[row : row + 1]
        context, _ = advisor.context(person, place, Moment())
        assert same_bits(context[0, OWN - popular], samples.test.context[row, OWN])


@pytest.mark.parametrize("timed", [False, True])
def test_few_distances_by_numpy_are_those_of_the_kernel_to_the_last_bit(monkeypatch, timed: bool):
    train, location = SETUP.prepared.train, SETUP.prepared.dataset.places.location.copy()
    location[::7] = np.nan
    location[1] = -location[0]  # as far as can be
    own = History.of(
        SETUP.encoding, train, people=len(CITY.people), features=SETUP.samples.places, points=unit_vectors(location)
    )
    found = []
    for few in (0, 10**9):
        monkeypatch.setattr(module, "FEW", few)
        found.append(own._distances(train.person, train.place, train.time if timed else None, scales=(0.5, 2.0, 8.0)))
    assert np.isnan(found[0][0]).any()
    assert all(same_bits(a, b) for a, b in zip(*found, strict=True))
    monkeypatch.setattr(module, "FEW", 1_000)  # in many parts
    with in_numpy():
        parts = own._distances(train.person, train.place, train.time if timed else None, scales=(0.5, 2.0, 8.0))
    assert all(same_bits(a, b) for a, b in zip(found[0], parts, strict=True))


def test_nothing_is_computed_where_it_is_no_feature(monkeypatch):
    """Distances of everyone's records took half of the time of a recommendation, and loaded the compiler."""
    monkeypatch.setattr(History, "_distances", None)
    bare = of(visits([0, 0], [1, 2], [1, 1]), encoding=Encoding(place=NEAR.place))
    assert len(bare.places) == 0
    assert bare.encode(np.zeros(2, dtype=np.int32), np.zeros(2, dtype=np.int32)) == []


def test_one_persons_records_do_not_load_the_compiler(monkeypatch):
    """A kernel that is not called is not compiled (tests/util/test_jit.py)."""
    monkeypatch.setattr(module, "_add", None)
    assert encoded(of(visits([0, 0], [1, 2], [1, 1])), 0)[:3].all()


def test_the_fading_is_an_exponential_function():
    x = np.linspace(0.0, 7.0, 1001)
    np.testing.assert_allclose(module._fade(x), np.exp(-x), rtol=1e-5)
    assert module._fade(1e300) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"place": NEAR.place[1:]},
        {"place": NEAR.place[:1]},
        {"place": (*NEAR.place, NEAR.place[0])},
        {"context": (Affinity(column="kinds", of="kind", shares=(0.5,)),)},
        {"context": (Affinity(column="kinds", of="price", shares=(0.5,)),)},
        {"context": (Closeness(column="kinds", of="kind", shift=0, scale=1),)},
        {"context": (NEAR.context[1], NEAR.context[1])},
    ],
)
def test_an_encoding_whose_parts_do_not_fit_together_is_not_read(changes: dict):
    assert from_json(NEAR.to_json()) == NEAR
    table = msgspec.json.decode(NEAR.to_json()) | msgspec.to_builtins(changes)
    with pytest.raises(StateError, match=messages.ENCODING_DAMAGED):
        from_json(msgspec.json.encode(table))
