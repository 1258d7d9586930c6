"""Averages over visits on a device: which amounts it takes, what it adds to the sum of visits, and which documents it
follows. That the numbers are those of a simulation: test_rounds_equal_simulation.py."""

import asyncio
from pathlib import Path

import msgspec
import numpy as np
import pytest

from prirec.device.device import Device
from prirec.device.person import Visit
from prirec.device.rounds import contribution, visited_places, visits_vector
from prirec.device.sync import View, catch_up
from prirec.errors import DataError, Fault, PeerError, StateError
from prirec.features.encoding import Encoding, Range, from_json
from prirec.protocols.messages import Round
from prirec.wire.campaign import Campaign
from prirec.wire.documents import AverageOfCity, Counts, Edition, EditionWithAverages, Manifest, octets
from support import messages
from support.dishonest_operators import JOINT, Dishonest2, Sums, steps, target_of
from support.dishonest_recommender import ENCODING, IDS, OTHERS, TARGET, Target
from support.fault_injection import FEW
from support.low_floors import low_floor

SPENDING = msgspec.structs.replace(ENCODING, version=2, averages=(Range(column="spend", low=0.0, high=100.0),))
EVERYBODY = (TARGET.public, *(one.public for one in OTHERS))


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FEW)


def summing(path: Path, encoding: Encoding = SPENDING) -> tuple[Dishonest2, Campaign, Target]:
    """The window of the sum of visits is open."""
    recommender = Dishonest2()
    recommender.join()
    campaign = Campaign.of(recommender.charter(settings=JOINT, encoding=encoding))
    recommender.window(campaign)
    return recommender, campaign, target_of(recommender, path / "device")


def follow(target: Target) -> View:
    return asyncio.run(catch_up(target.person, target.line))  # type: ignore[arg-type]


def added(target: Target) -> np.ndarray:
    view = follow(target)
    assert view.campaign is not None
    return visits_vector(visited_places(target.person, view.campaign, view.known), view.campaign).view(np.int64)


def test_a_report_has_the_places_and_then_the_own_means_and_is_paid_for_by_name(tmp_path: Path) -> None:
    recommender, campaign, target = summing(tmp_path)
    device = Device(target.person.store)
    device.record_visit("a", time=0, context={"spend": 100.0})
    device.record_visit("a", time=1, context={"spend": 50.0})
    device.record_visit("b", time=2, context={"spend": 0})
    device.record_visit("c", time=3)
    (report,) = steps(target)
    view = View.of(target.person)
    assert view.window is not None
    operators = Sums(recommender, campaign.joint(view.window), EVERYBODY)
    operators.take(report)
    of = Round(view.member.deployment, "popularity", view.window.number)
    assert operators.total.tolist() == contribution(of, view, target.person).value.view(np.int64).tolist()
    # 1, 1, 1 of who was there; 0.5 at a, -1 at b and nothing at c of what was spent: a vector of norm 1
    whole = operators.total * 2.0**-campaign.visits_norm.fraction_bits
    assert np.allclose(whole, np.array([1, 1, 1, 0.5, -1, 0]) / np.sqrt(4.25), atol=0.003)
    (charge,) = (one.charge for one in target.paid.ledger().entries)
    assert (charge.kind, charge.what) == ("popularity", "how popular places are, and averages of spend")
    assert charge.cost.grains <= campaign.visits.each.grains


@pytest.mark.parametrize(
    ("amount", "problem"),
    [
        (float("nan"), messages.NOT_FINITE),
        (float("inf"), messages.NOT_FINITE),
        (-0.01, messages.outside_of(0, 100)),
        (100.01, messages.outside_of(0, 100)),
        ("4711", messages.NUMBER_EXPECTED),
        (["4711"], messages.NUMBER_EXPECTED),
    ],
    ids=str,
)
def test_an_amount_that_is_none_is_refused_and_not_repeated(tmp_path: Path, amount: object, problem: str) -> None:
    _, _, target = summing(tmp_path)
    follow(target)
    with pytest.raises(DataError, match=messages.in_column("spend", problem)) as refused:
        Device(target.person.store).record_visit("a", context={"spend": amount})  # type: ignore[dict-item]
    assert "4711" not in str(refused.value)
    assert not target.person.visits()


def test_an_amount_is_refused_where_nothing_is_averaged(tmp_path: Path) -> None:
    _, _, target = summing(tmp_path, ENCODING)
    follow(target)
    with pytest.raises(DataError, match=messages.in_column("spend", messages.NOT_A_FEATURE)):
        Device(target.person.store).record_visit("a", context={"spend": 5.0})


def test_an_amount_from_before_the_catalogue_that_does_not_fit_counts_as_unknown(tmp_path: Path) -> None:
    _, _, target = summing(tmp_path)
    for place, amount in zip(IDS, (50.5, 4711.0, "much"), strict=True):
        target.person.record_visits([Visit(place, context={"spend": amount})])
    vector = added(target)
    assert np.count_nonzero(vector[:3]) == 3
    assert np.flatnonzero(vector[3:]).tolist() == [0]
    assert len(follow(target).known.ids) == 3


def test_an_amount_may_be_called_as_the_places_are(tmp_path: Path) -> None:
    called = msgspec.structs.replace(SPENDING, averages=(Range(column="visitors", low=0.0, high=100.0),))
    _, _, target = summing(tmp_path, called)
    target.person.record_visits([Visit("a", context={"visitors": 0.0}), Visit("b")])
    vector = added(target)
    assert np.flatnonzero(vector).tolist() == [0, 1, 3]
    assert (np.sign(vector[[0, 1, 3]])).tolist() == [1, 1, -1]


def test_ignored_places_have_no_amount(tmp_path: Path) -> None:
    _, _, target = summing(tmp_path)
    target.person.record_visits([Visit("a", label=-1, context={"spend": 99.0}), Visit("b")])
    assert np.flatnonzero(added(target)).tolist() == [1]


# What is published


CITY = AverageOfCity(0.25, 0.1, 0.01, 0.2)


def edition(
    recommender: Dishonest2, campaign: Campaign, cities: tuple[AverageOfCity, ...], *, sums: int = 2 * len(IDS)
) -> None:
    """Without a feature of popularity."""
    n, none = len(IDS), octets(np.zeros(len(IDS)), np.float64)
    counts = recommender.put(Counts(0, b"", octets(np.zeros(sums), np.float64), octets(np.ones(n), np.float64), none))
    manifest = recommender.put(Manifest(5, (recommender._region(SPENDING, None, counts=counts),)))
    said = Edition(campaign.name, SPENDING.to_json(), manifest, 0.0, 1.0)
    if cities:
        said = EditionWithAverages(**msgspec.structs.asdict(said), averages=cities)
    recommender.say("edition", said)


def test_an_edition_has_as_many_averages_as_the_campaign(tmp_path: Path) -> None:
    recommender, campaign, target = summing(tmp_path)
    edition(recommender, campaign, (CITY,))
    view = follow(target)
    assert [(one.column, one.city.middle) for one in view.known.counted.averages] == [("average spend", 0.25)]


@pytest.mark.parametrize("cities", [(), (CITY, CITY)], ids=["none", "one more"])
def test_another_number_of_averages_is_refused(tmp_path: Path, cities: tuple[AverageOfCity, ...]) -> None:
    recommender, campaign, target = summing(tmp_path)
    edition(recommender, campaign, cities)
    with pytest.raises(PeerError) as refused:
        _ = follow(target).known
    assert refused.value.fault is Fault.PARAMS_MISMATCH


def test_sums_of_another_size_are_refused(tmp_path: Path) -> None:
    recommender, campaign, target = summing(tmp_path)
    edition(recommender, campaign, (CITY,), sums=len(IDS))
    with pytest.raises(PeerError) as refused:
        _ = follow(target).known
    assert refused.value.fault is Fault.DECODE


@pytest.mark.parametrize(
    "averages",
    [
        (Range(column="spend", low=1.0, high=1.0),), (Range(column="spend", low=2.0, high=1.0),),
        (Range(column="spend", low=0.0, high=1e10),), (),
    ],
    ids=["no range", "upside down", "beyond all use", "version 2 without any"],
)  # fmt: skip
def test_an_encoding_with_averages_of_no_use_is_refused(averages: tuple[Range, ...]) -> None:
    text = msgspec.json.encode({"version": 2, "averages": [msgspec.to_builtins(one) for one in averages]})
    with pytest.raises(StateError, match=messages.ENCODING_DAMAGED):
        from_json(text)


def test_an_encoding_without_averages_is_written_as_before_there_were_any() -> None:
    assert msgspec.json.decode(ENCODING.to_json()).keys() == {"version", "person", "place", "popularity", "context"}
    assert from_json(ENCODING.to_json()) == ENCODING
    assert msgspec.json.decode(SPENDING.to_json())["version"] == 2
    assert from_json(SPENDING.to_json()) == SPENDING
