"""Popularity taken by real members over a wire is what simulate/popularity.py simulates, exactly in whole numbers, with
the members' own shares of noise in the place of the simulated ones."""

from collections.abc import Sequence

import numpy as np
import pytest

from prirec.config import Settings
from prirec.data.prepare import Prepared
from prirec.engines.protocol import Wire
from prirec.features.popularity import OwnCounts
from prirec.privacy.norm import clipped
from prirec.privacy.plan import Kind, Release, plan_for
from prirec.privacy.weighted_popularity import NoisySums, weighted
from prirec.protocols.messages import AnyMessage, Boxes, Masked, Round, Terms
from prirec.protocols.terms import double_masks, draw_noise
from prirec.sharing.fixed_point import FixedPoint
from prirec.simulate import popularity
from prirec.simulate.setup import set_up
from support.cities import SMALL_PRIVATE, change, small_city
from support.rounds import DEPLOYMENT, Gathering, gather

PEOPLE, PLACES = 60, 12
CITY = small_city(people=PEOPLE, places=PLACES, records=240)


def counted(prepared: Prepared, settings: Settings, added: np.ndarray, monkeypatch) -> tuple[NoisySums, int]:
    """noisy_sums with this noise, and how many it says survive."""
    told = []

    def given(wanted: int, count: int, *, survivors: int, **rest: object) -> np.ndarray:
        told.append(survivors)
        return added.copy()

    monkeypatch.setattr(popularity, "simulated_noise", given)
    return popularity.noisy_sums(prepared, settings), told[0]


def survivors_of(found: NoisySums, many: int, values: np.ndarray) -> list[int]:
    """Whoever added something; the rest are some of those who had nothing to add, and all of these are alike."""
    gave = np.unique(found.own.pairs // found.own.places).tolist()
    empty = np.flatnonzero(~values.any(axis=1)).tolist()
    return sorted(gave + empty[: many - len(gave)])


def on_devices(prepared: Prepared, release: Release) -> np.ndarray:
    """What each device makes of its own training visits alone: privacy.norm.clipped, (I, J) in the ring."""
    train = prepared.train.take(prepared.train.label > 0)
    rows = np.zeros((PEOPLE, PLACES), dtype=np.int64)
    for person in range(PEOPLE):
        places = np.unique(train.place[train.person == person]).astype(np.int64)
        mine = weighted({"visitors": OwnCounts(PLACES, places, np.ones(len(places)))})["visitors"]
        rows[person, places] = clipped(mine.counts, release.norm)
    return rows.view(np.uint64)


def terms_for(release: Release, settings: Settings) -> Terms:
    code = FixedPoint(summands=PEOPLE, bound=release.norm.sensitivity, fraction_bits=release.norm.fraction_bits)
    agreed = {"length": PLACES, "floor": settings.floor, "noise": release.wanted_whole}
    return double_masks(code, sums=settings.sums, **agreed)


def run_without(gathering: Gathering, lost: Sequence[int]) -> Wire:
    """Every other of the lost falls silent before its boxes, the rest before their vectors."""
    silent = {gathering.names[i]: (Boxes, Masked)[n % 2] for n, i in enumerate(lost)}

    def fate(message: AnyMessage) -> Sequence[int]:
        return () if isinstance(message, silent.get(message.sender, ())) else (0,)

    return gathering.run(fate)


@pytest.mark.parametrize("dropout", [0.0, 0.08])
def test_the_sum_that_members_open_is_the_one_that_is_simulated(dropout, monkeypatch):
    setup = set_up(CITY, change(SMALL_PRIVATE, participation={"dropout": dropout}))
    settings, prepared = setup.settings, setup.prepared
    release = plan_for(settings, people=PEOPLE, pois=PLACES).release(Kind.POPULARITY)
    bare, many = counted(prepared, settings, np.zeros(PLACES, dtype=np.uint64), monkeypatch)
    terms, values = terms_for(release, settings), on_devices(prepared, release)
    survivors = survivors_of(bare, many, values)
    assert len(survivors) == many
    assert (many == PEOPLE) is (dropout == 0)

    gathering = gather(PEOPLE, terms, of=Round(DEPLOYMENT, "popularity", 0), values=values)
    wire = run_without(gathering, sorted(set(range(PEOPLE)) - set(survivors)))
    opened = wire.finished[gathering.collector.name]
    assert opened.summands == many

    shares = sum(draw_noise(terms, PEOPLE, seed=gathering.members[i]._noise_seed) for i in survivors)
    assert opened.total.tolist() == (values[survivors].sum(axis=0, dtype=np.uint64) + shares).tolist()
    simulated, _ = counted(prepared, settings, shares, monkeypatch)
    unit = 2.0**-release.norm.fraction_bits
    assert simulated.sums.tolist() == (opened.total.view(np.int64) * unit).tolist()
    assert np.abs(shares.view(np.int64)).max() * unit > simulated.sigma / 10  # noise there is


def test_the_terms_of_popularity_hide_as_much_as_the_plan_counts():
    settings = set_up(CITY, SMALL_PRIVATE).settings
    release = plan_for(settings, people=PEOPLE, pois=PLACES).release(Kind.POPULARITY)
    terms = terms_for(release, settings)
    assert terms.noise >= release.wanted
    assert terms.bound >= release.norm.units
    assert release.of.releases == 1
