"""Devices that vanish at every step, in all combinations: the exact sum of exactly the survivors, or a clean end."""

from collections.abc import Iterable, Sequence
from itertools import combinations, product

import numpy as np
import pytest

from prirec.engines.protocol import Wire
from prirec.protocols.messages import (
    Agreement,
    Agreements,
    AnyMessage,
    Boxes,
    Delivery,
    Invitation,
    Keys,
    Masked,
    Partial,
    Participants,
    Receipt,
    Reveal,
    Roster,
    ShareOf,
    Survivors,
    Terms,
)
from prirec.protocols.party import State
from prirec.protocols.roster import fewest_survivors, graph_for
from support.cached_keys import remember
from support.rounds import Gathering, gather, terms_of

# What a device hears and says, in order. Vanishing at place p means that no message from p on arrives, either way:
# at an odd place what it says is lost, at an even one it was heard but hears no more, and after that it hears and is
# silent. So every "before, after, acknowledged" of every step is one of these places.
DOUBLE = (
    Invitation,
    Keys,
    Roster,
    Boxes,
    Delivery,
    Receipt,
    Participants,
    Masked,
    Survivors,
    Agreement,
    Agreements,
    Reveal,
)
PADS = (Invitation, Keys, Roster, Masked)
SHARES = (Invitation, Keys, Roster, ShareOf, Partial)
SAYING = (1, 3, 5, 7, 9, 11)
STAYS = len(DOUBLE)


Vanishing = Sequence[int]  # for each device its place; beyond the last, it stays


@pytest.fixture(autouse=True)
def nothing_is_worked_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rounds of a test have the same keys."""
    remember(monkeypatch)


def run(gathering: Gathering, order: tuple[type, ...], vanishing: Vanishing) -> Wire:
    at = dict(zip(gathering.names, vanishing, strict=True))

    def fate(message: AnyMessage) -> tuple[int, ...]:
        place = order.index(type(message))
        return () if any(at.get(who, len(order)) <= place for who in (message.sender, message.receiver)) else (0,)

    return gathering.run(fate)


def heard(order: tuple[type, ...], vanishing: Vanishing, kind: type) -> list[int]:
    return [at for at, place in enumerate(vanishing) if place > order.index(kind)]


def expected(terms: Terms, vanishing: Vanishing) -> list[int] | None:
    """Who is in the sum, or None where it stays closed: counted from n, t and the fewest alone."""
    said = {kind: heard(DOUBLE, vanishing, kind) for kind in DOUBLE}
    n = len(said[Keys])
    if n < max(2, terms.floor):
        return None
    fewest, t = fewest_survivors(terms, n), graph_for(terms, n).threshold
    settled = all(len(said[kind]) >= fewest for kind in (Boxes, Receipt, Masked))
    return said[Masked] if settled and len(said[Agreement]) >= t and len(said[Reveal]) >= t else None


def assert_sum_or_nothing(gathering: Gathering, wire: Wire, *, inside: list[int] | None) -> None:
    collector = gathering.collector.name
    if inside is None:
        assert gathering.collector.state is State.BURNT
        assert collector in wire.aborted
        assert not wire.finished
        return
    assert gathering.collector.state is State.DONE
    assert not wire.aborted
    assert wire.finished.keys() == {collector}
    for found in wire.finished.values():
        assert found.summands == len(inside)
        assert found.total.tolist() == gathering.total(inside).tolist()


def check(terms: Terms, vanishing: Vanishing) -> bool:
    gathering = gather(len(vanishing), terms, seed=len(vanishing))
    inside = expected(terms, vanishing)
    wire = run(gathering, DOUBLE, vanishing)
    assert_sum_or_nothing(gathering, wire, inside=inside)
    return inside is not None


def subsets(many: int) -> Iterable[tuple[int, ...]]:
    return (chosen for size in range(many + 1) for chosen in combinations(range(many), size))


def all_subsets(terms: Terms, many: int, *, places: Iterable[int]) -> set[bool]:
    """Every set of devices vanishes at every one of these places; which outcomes were seen."""
    vanishings = {
        tuple(place if at in chosen else STAYS for at in range(many)) for place in places for chosen in subsets(many)
    }
    return {check(terms, vanishing) for vanishing in sorted(vanishings)}


@pytest.mark.parametrize("many", [2, 3, 4, 5])
def test_every_subset_may_vanish_at_every_place(many: int) -> None:
    assert all_subsets(terms_of("double"), many, places=range(STAYS)) == {True, False}


@pytest.mark.soak
def test_every_subset_of_six_may_vanish_at_every_place() -> None:
    assert all_subsets(terms_of("double"), 6, places=range(STAYS)) == {True, False}


def test_three_devices_may_each_vanish_at_any_place() -> None:
    terms = terms_of("double", length=1)
    assert {check(terms, vanishing) for vanishing in product(range(1, STAYS + 1), repeat=3)} == {True, False}


@pytest.mark.long
def test_four_devices_may_each_vanish_at_any_step() -> None:
    """All combinations of the steps; whether the device is silent or deaf at its step takes turns."""
    terms, outcomes = terms_of("double", length=1), []
    for turn, steps in enumerate(product((*SAYING, STAYS), repeat=4)):
        deaf = (turn * 7919) % 16
        vanishing = [place - (deaf >> at & 1) if place != STAYS else place for at, place in enumerate(steps)]
        outcomes.append(check(terms, vanishing))
    assert set(outcomes) == {True, False}


@pytest.mark.soak
@pytest.mark.parametrize("first", range(STAYS + 1))
def test_four_devices_may_each_vanish_at_any_place(first: int) -> None:
    terms = terms_of("double", length=1)
    for rest in product(range(STAYS + 1), repeat=3):
        check(terms, (first, *rest))


def sampled(many: int, *, rounds: int) -> set[bool]:
    """Most devices stay, so that both outcomes are common."""
    rng = np.random.default_rng(many)
    outcomes = set()
    for _ in range(rounds):
        stays = rng.random(many) < 0.75
        vanishing = np.where(stays, STAYS, rng.integers(0, STAYS, many)).tolist()
        outcomes.add(check(terms_of("double", length=1), vanishing))
    return outcomes


@pytest.mark.parametrize(("many", "rounds"), [(5, 60), (6, 60), (9, 15)])
def test_more_devices_may_vanish_at_places_of_their_own(many: int, rounds: int) -> None:
    assert sampled(many, rounds=rounds) == {True, False}


@pytest.mark.soak
@pytest.mark.parametrize(("many", "rounds"), [(5, 1000), (6, 1000), (10, 200)])
def test_many_more_devices_may_vanish_at_places_of_their_own(many: int, rounds: int) -> None:
    assert sampled(many, rounds=rounds) == {True, False}


def test_how_many_may_be_lost_after_their_boxes() -> None:
    lost, terms = DOUBLE.index(Masked), terms_of("double")
    for many, most in [(2, 0), (3, 0), (4, 1), (5, 1), (6, 1), (7, 2)]:
        assert check(terms, [lost] * most + [STAYS] * (many - most))
        assert not check(terms, [lost] * (most + 1) + [STAYS] * (many - most - 1))


def test_below_the_floor_nothing_is_opened() -> None:
    lost = DOUBLE.index(Masked)
    assert check(terms_of("double", floor=4), [lost, STAYS, STAYS, STAYS, STAYS])
    assert not check(terms_of("double", floor=5), [lost, STAYS, STAYS, STAYS, STAYS])
    assert not check(terms_of("double", floor=5), [0, STAYS, STAYS, STAYS, STAYS])


@pytest.mark.parametrize("place", range(STAYS))
def test_a_collector_that_hears_nobody_any_more_ends_without_a_sum(place: int) -> None:
    assert not check(terms_of("double"), [place] * 4)


@pytest.mark.parametrize("many", [2, 3, 4, 5])
@pytest.mark.parametrize(("method", "order"), [("pads", PADS), ("shares", SHARES)])
def test_under_pads_and_in_algorithm_1_everyone_must_stay(method: str, order: tuple[type, ...], many: int) -> None:
    for place in range(len(order)):
        for chosen in subsets(many):
            gathering = gather(many, terms_of(method))
            wire = run(gathering, order, [place if at in chosen else len(order) for at in range(many)])
            assert_sum_or_nothing(gathering, wire, inside=None if chosen else list(range(many)))


def test_a_single_lost_share_closes_algorithm_1() -> None:
    for sender, receiver in product(range(3), repeat=2):
        gathering = gather(3, terms_of("shares"))
        pair = (gathering.names[sender], gathering.names[receiver])
        wire = gathering.run(
            lambda message, pair=pair: (
                () if isinstance(message, ShareOf) and (message.sender, message.receiver) == pair else (0,)
            )
        )
        assert (gathering.collector.name in wire.finished) == (sender == receiver)
