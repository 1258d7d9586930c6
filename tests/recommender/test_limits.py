"""Rates, room and what is kept at hand: exact, and bounded in memory."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.recommender.limits import (
    FEWEST,
    BodyMemory,
    BodyReservation,
    DownloadSlots,
    Rate,
    RateLimiter,
    client_network,
)
from prirec.recommender.responses import RefusedError
from prirec.recommender.service import DocumentCache
from support import messages
from support.hypothesis_settings import PATIENT
from support.waiting import PATIENCE


def goes(buckets: RateLimiter[str], key: str = "a", *, now: float, many: int = 1) -> bool:
    try:
        buckets.take(key, now=now, many=many)
    except RefusedError:
        return False
    return True


def test_a_burst_goes_through_and_then_so_many_in_a_second() -> None:
    buckets = RateLimiter[str](Rate(2.0, 5), most=10)
    assert [goes(buckets, now=100.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [goes(buckets, now=101.0) for _ in range(3)] == [True, True, False]
    assert [goes(buckets, now=200.0) for _ in range(7)] == [True] * 5 + [False] * 2


def test_a_refusal_says_how_long_to_wait_and_that_is_long_enough() -> None:
    buckets = RateLimiter[str](Rate(0.1, 1), most=10)
    buckets.take("a", now=0.0)
    with pytest.raises(RefusedError) as refusal:
        buckets.take("a", now=2.5)
    assert refusal.value.status == 429
    wait = int(refusal.value.headers["retry-after"])
    assert wait == 8
    assert goes(buckets, now=2.5 + wait)


def test_a_refused_request_costs_nothing() -> None:
    buckets = RateLimiter[str](Rate(1.0, 1), most=10)
    assert goes(buckets, now=0.0)
    assert not any(goes(buckets, now=0.5) for _ in range(100))
    assert goes(buckets, now=1.0)


@PATIENT
@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 4)), max_size=60))
def test_no_window_ever_holds_more_than_the_burst_and_the_rate(steps: list[tuple[float, int]]) -> None:
    rate, now, taken = Rate(2.0, 6), 50.0, list[tuple[float, int]]()
    buckets = RateLimiter[str](rate, most=10)
    for pause, many in steps:
        now += pause
        if goes(buckets, now=now, many=many):
            taken.append((now, many))
    for at, (begun, _) in enumerate(taken):
        total = 0
        for ended, many in taken[at:]:
            total += many
            assert total <= rate.burst + rate.per_second * (ended - begun) + 1e-6


def test_one_device_does_not_use_up_what_another_may_ask_for() -> None:
    buckets = RateLimiter[str](Rate(1.0, 1), most=10)
    assert goes(buckets, "a", now=0.0)
    assert not goes(buckets, "a", now=0.0)
    assert goes(buckets, "b", now=0.0)


def test_memory_is_bounded_and_nobody_is_pushed_out_by_a_crowd() -> None:
    buckets = RateLimiter[str](Rate(0.01, 2), most=100)
    assert goes(buckets, "a", now=0.0)
    assert goes(buckets, "a", now=0.0)
    let_through = sum(goes(buckets, f"crowd {at}", now=0.5) for at in range(10_000))
    assert len(buckets) <= 101
    assert let_through == 99 + 2  # those for whom there was room, and the bucket that the others share
    assert not goes(buckets, "a", now=0.5)


def test_clients_at_full_allowance_are_dropped_from_memory_first() -> None:
    buckets = RateLimiter[str](Rate(1.0, 1), most=100)
    for at in range(100):
        assert goes(buckets, f"early {at}", now=0.0)
    assert all(goes(buckets, f"late {at}", now=10.0) for at in range(100))
    assert len(buckets) == 100


def test_clients_at_full_allowance_are_forgotten_as_others_come() -> None:
    buckets = RateLimiter[str](Rate(10.0, 100), most=100_000)
    assert all(goes(buckets, f"device {at}", now=at / 100) for at in range(20 * FEWEST))
    assert len(buckets) <= 2 * FEWEST


@pytest.mark.parametrize(("per_second", "burst"), [(0.0, 1), (-1.0, 1), (float("nan"), 1), (float("inf"), 1), (1.0, 0)])
def test_a_rate_that_lets_nothing_through_is_none(per_second: float, burst: int) -> None:
    with pytest.raises(UsageError):
        Rate(per_second, burst)


def test_bodies_share_one_room_and_give_it_back() -> None:
    room = BodyMemory(100)
    one, other = BodyReservation(room, b"one"), BodyReservation(room, b"other")
    one.take(60)
    one.take(20)
    with pytest.raises(RefusedError, match=messages.TOO_MANY_REQUESTS):
        other.take(21)
    other.take(20)
    one.give_back()
    one.give_back()
    assert room.taken == 20
    other.give_back()
    assert room.taken == 0


def test_a_device_holds_room_for_one_body_and_what_is_refused_takes_nobodys_place() -> None:
    room = BodyMemory(100)
    one, again = BodyReservation(room, b"eve"), BodyReservation(room, b"eve")
    one.take(1)
    with pytest.raises(RefusedError, match=messages.TOO_MANY_REQUESTS):
        again.take(1)
    again.give_back()
    one.take(1)
    with pytest.raises(RefusedError, match=messages.TOO_MANY_REQUESTS):
        BodyReservation(room, b"eve").take(1)
    one.give_back()
    again.take(1)


def test_an_address_has_a_limited_number_of_slots_and_the_next_request_waits() -> None:
    async def run() -> None:
        turns = DownloadSlots(2)
        first, second = await turns.take("a"), await turns.take("a")
        third, gone = asyncio.create_task(turns.take("a")), asyncio.create_task(turns.take("a"))
        other = await turns.take("b")
        assert not third.done()
        await asyncio.sleep(0)
        gone.cancel()
        first()
        last = await asyncio.wait_for(third, PATIENCE)
        assert gone.cancelled()
        for over in (second, other, last):
            over()
        assert len(turns) == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::"),
        ("testclient", "testclient"),
    ],
)
def test_a_network_of_the_sixth_version_counts_as_one_address(host: str, counted: str) -> None:
    assert client_network(host) == counted


def test_documents_at_hand_are_those_asked_for_last_and_no_more_than_fit() -> None:
    kept = DocumentCache(100)
    for name in "abcd":
        kept.put(name, bytes(25))
    assert kept.get("a") == bytes(25)
    kept.put("e", bytes(25))
    assert [name for name in "abcde" if kept.get(name) is not None] == ["a", "c", "d", "e"]
    kept.put("large", bytes(26))
    assert kept.get("large") is None
    assert kept.put("a", b"\0" * 25) is kept.get("a")  # those who asked at once share one
    assert [name for name in "abcde" if kept.get(name) is not None] == ["a", "c", "d", "e"]
