"""A partitioned city that nobody holds whole is made ready and learnt from as the whole is: the same bits."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.data.folder import read_folder
from prirec.engines.shards import ShardDriver
from prirec.engines.train import make_engine, run_engine
from prirec.errors import DataError, PolicyError, UsageError
from prirec.simulate.partitioned import (
    deal_parts,
    partitioned_quality,
    save_partitioned,
)
from prirec.simulate.saved_runs import read_card, save_run, to_run
from prirec.simulate.setup import run, set_up
from prirec.util.geography import morton
from support import messages
from support.cities import (
    SMALL_PRIVATE,
    SMALL_ROUNDS,
    change,
    same_bits,
    same_state,
    small_city,
    with_idle_people,
    with_moods,
    without_coordinates,
)
from support.partitioned import made_ready, partitioned
from support.shards import InProcess

SHARES = [[0, 1], [2], [3, 4]]


def unlabelled(city):
    return replace(city.with_visits(city.visits.take(city.visits.label > 0)), labelled=False)


def homeless(city):
    """Where people live follows from what they visited in training."""
    return replace(city, people=replace(city.people, location=None))


def passed_through():
    """A city with a side where nobody has more than one record: a filter leaves nobody there."""
    city = small_city(people=400, records=3000)
    visits, many = city.visits, len(city.people)
    few = np.isin(np.arange(many), np.argsort(morton(city.people.location), kind="stable")[: many * 4 // 5])
    keep = ~few[visits.person]
    keep[np.unique(visits.person, return_index=True)[1]] = True
    return city.with_visits(visits.take(keep))


NOBODY_SOMEWHERE = change(SMALL_ROUNDS, data={"keep": "records", "at_least": 3})
CASES = {
    "a shard with nobody": (passed_through, NOBODY_SOMEWHERE),
    "rounds": (small_city, SMALL_ROUNDS),
    "private": (small_city, SMALL_PRIVATE),
    "private, some lost": (small_city, change(SMALL_PRIVATE, participation={"dropout": 0.1})),
    "a cap": (small_city, change(SMALL_PRIVATE, popularity={"cap": 2})),
    "the paper's filter of labelled data": (
        lambda: small_city(records=900), change(SMALL_ROUNDS, data={"keep": "paper", "at_least": 5})
    ),
    "the paper's filter of visits": (
        lambda: unlabelled(small_city(records=1200)), change(SMALL_ROUNDS, data={"keep": "paper", "at_least": 6})
    ),
    "visits alone, by time, nearby": (
        lambda: unlabelled(small_city(records=1200)),
        change(
            SMALL_ROUNDS, data={"split": "time", "negatives": "nearby", "ratio": 2}, features={"own_history": True}
        ),
    ),
    "homes from visits": (lambda: homeless(small_city()), SMALL_ROUNDS),
    "no coordinates": (lambda: without_coordinates(small_city()), SMALL_ROUNDS),
    "people without records": (lambda: with_idle_people(small_city()), SMALL_PRIVATE),
    "context columns": (lambda: with_moods(small_city(), np.random.default_rng(1)), SMALL_ROUNDS),
    "nothing left out, own history": (
        small_city, change(SMALL_ROUNDS, features={"own_left_out": False, "own_history": True})
    ),
    "home areas": (lambda: homeless(small_city()), change(SMALL_ROUNDS, features={"areas": 6})),
    "no popularity": (small_city, change(SMALL_PRIVATE, features={"dynamic": False})),
    "thinned": (small_city, change(SMALL_ROUNDS, data={"thin": 1})),
}  # fmt: skip


@pytest.mark.parametrize(("made", "settings"), CASES.values(), ids=CASES)
def test_parts_are_made_ready_and_learnt_from_as_the_whole_is(made, settings, tmp_path):
    folder = partitioned(made(), tmp_path)
    wanted = set_up(read_folder(folder).dataset, settings)
    shards, city = made_ready(folder, settings, SHARES)
    assert city.settings == wanted.settings
    assert city.encoding == wanted.encoding
    assert city.released.places == wanted.prepared.dataset.places.ids
    assert list(city.released.columns) == list(wanted.popularity.released)
    for name, values in wanted.popularity.released.items():
        assert city.released.columns[name] == values.tolist()
    whole = wanted.samples
    row = {key: at for at, key in enumerate(whole.keys.tolist())}
    assert sum(len(shard.samples.ids) for shard in shards) == len(whole.ids)
    for shard in shards:
        rows = [row[key] for key in shard.samples.keys.tolist()]
        assert same_bits(shard.samples.people, whole.people[rows])
        for side in ("train", "test"):
            assert_same_records(getattr(shard.samples, side), getattr(whole, side), rows)
    assert_same_rounds(shards, city, wanted)


def assert_same_records(found, whole, rows) -> None:
    for at, i in enumerate(rows):
        mine, his = slice(*found.offsets[at : at + 2]), slice(*whole.offsets[i : i + 2])
        assert np.array_equal(found.place[mine], whole.place[his])
        assert np.array_equal(found.label[mine], whole.label[his])
        assert same_bits(found.context[mine], whole.context[his])


def assert_same_rounds(shards, city, wanted) -> None:
    samples, settings = wanted.samples, wanted.settings
    oracle, driver = make_engine("plain", samples, settings), ShardDriver(InProcess(shards), city.rules)
    state, expected = driver.start(), oracle.start()
    for _ in range(2):
        assert driver.advance(state) == oracle.advance(expected)
    assert same_state(state, expected)


def test_a_shard_with_nobody_is_measured_and_saved_with_the_others(tmp_path):
    folder = partitioned(passed_through(), tmp_path)
    shards, city = made_ready(folder, NOBODY_SOMEWHERE, SHARES)
    crew, wanted = InProcess(shards), run(set_up(read_folder(folder).dataset, NOBODY_SOMEWHERE))
    assert 0 in [len(shard.samples.ids) for shard in shards]
    trained = run_engine(ShardDriver(crew, city.rules), city.settings)
    assert partitioned_quality(crew, trained.state).to_dict() == pytest.approx(wanted.quality.to_dict(), rel=1e-12)
    save_partitioned(tmp_path / "run", crew, city, trained.state, wanted.trained.history, source="here")
    save_run(tmp_path / "wanted", to_run(wanted, source="here"))
    found, expected = (read_card(tmp_path / name) for name in ("run", "wanted"))
    assert (found.files, found.rows) == (expected.files, expected.rows)


def test_what_needs_all_records_at_once_is_refused(tmp_path):
    folder = partitioned(small_city(), tmp_path)
    for changes in ({"features": {"averages": ("spend",)}}, {"popularity": {"mechanism": "randomized-response"}}):
        with pytest.raises(UsageError, match=messages.NOT_CARRIED_OVER_PARTS):
            made_ready(folder, change(SMALL_ROUNDS, **changes), SHARES)


def test_a_filter_that_leaves_nothing_and_a_city_below_the_floor_are_refused(tmp_path):
    folder = partitioned(small_city(), tmp_path)
    with pytest.raises(DataError, match=messages.filter_leaves_nothing("records", at_least=500)):
        made_ready(folder, change(SMALL_ROUNDS, data={"keep": "records", "at_least": 500}), SHARES)
    shards, city = made_ready(folder, change(SMALL_ROUNDS, floor=200), SHARES)
    with pytest.raises(PolicyError, match=messages.too_few_in_moments(150, floor=200)):
        ShardDriver(InProcess(shards), city.rules).start()


def test_parts_are_dealt_out_evenly_and_neighbours_together():
    assert deal_parts([5, 5, 5, 5, 5, 5], shards=3) == [[0, 1], [2, 3], [4, 5]]
    assert deal_parts([1, 1], shards=5) == [[0], [1]]
    assert deal_parts([10, 1, 1], shards=2) == [[0], [1, 2]]
