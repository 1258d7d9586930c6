"""Clocks that jump by years and disks that are full: nothing is lost, nothing is wrong, and no pad is used twice. All
that must hold is checked on the way, as in test_fault_injection.py."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from prirec.device.ledger import LedgerStore
from prirec.privacy.ledger import Budget
from prirec.protocols.party import Stage
from prirec.types import DAY
from support.cities import change
from support.deployment import NOW
from support.fault_injection import Body, FaultyDeployment, Plan, few_people
from support.faults import NO_FAULTS, FaultSource

ROUNDS = 8
YEARS = (-120, -30, -1, 0, 1, 30, 200)


def jumping(luck: FaultSource) -> Callable[[], float]:
    """Each look at the clock shows another year: from 1907 to 2227."""
    return lambda: NOW + 365 * DAY * luck.one_of(YEARS)


def test_a_clock_that_jumps_by_years_does_no_harm(folder: Path, monkeypatch):
    def budget(at: int) -> Budget:
        return Budget(epsilon=2.4, period_days=30) if at < 3 else Budget(epsilon=50.0)

    plan = Plan(clock=jumping, budget=budget)
    chaos = FaultyDeployment(folder, few_people(iterations=ROUNDS), people=9, seed=1, patch=monkeypatch, plan=plan)
    asyncio.run(chaos.run(rounds=ROUNDS, rates=NO_FAULTS))
    assert chaos.ends()[Stage.OPENED] == 2 + ROUNDS
    ledgers = [LedgerStore(body.store, body.double.budget).ledger().entries for body in chaos.bodies]
    assert {len(ledger) for ledger in ledgers[3:]} == {2 + ROUNDS}  # for life: the clock has no part in it
    assert all(len(ledger) >= 2 for ledger in ledgers)
    days = [one.day for one in ledgers[0]]
    assert days == sorted(days)  # a charge is dated with the latest day that was seen


@pytest.mark.long
def test_a_budget_that_a_jump_takes_back_before_masking_leaves_the_device_out_of_the_sum(folder: Path, monkeypatch):
    """It enters each round in a later year, in which what it spent counts no more, and is back when it would mask."""
    chaos, refused = None, list[str]()

    def to_and_fro() -> float:
        with chaos.bodies[0].store.reading() as rows:
            entered = rows.execute("SELECT count(*) FROM rounds WHERE stage = ?", (Stage.ENTERED,)).fetchone()[0]
            rounds = rows.execute("SELECT count(*) FROM rounds").fetchone()[0]
        return NOW if entered else NOW + 365 * DAY * (1 + rounds)

    def budget(at: int) -> Budget:
        return Budget(epsilon=50.0) if at else Budget(epsilon=2.5, period_days=30)

    plan = Plan(clock=lambda luck: to_and_fro, budget=budget)
    chaos = FaultyDeployment(folder, few_people(iterations=ROUNDS), people=9, seed=2, patch=monkeypatch, plan=plan)
    body, turn = chaos.bodies[0], chaos.turn

    async def watched() -> None:
        await turn()
        refused.append("" if body.agent is None else str(body.agent.rounds.declined))

    monkeypatch.setattr(chaos, "turn", watched)
    asyncio.run(chaos.run(rounds=ROUNDS, rates=NO_FAULTS))
    assert any("another release" in one for one in refused)  # the ledger's own words, when it would mask


def fill(body: Body, *, room: int = 0) -> None:
    """No room for more pages than that: SQLite itself says so."""
    rows = body.store._connection
    rows.execute("VACUUM")
    rows.execute(f"PRAGMA max_page_count={rows.execute('PRAGMA page_count').fetchone()[0] + room}")


def test_devices_whose_disk_is_full_wait_for_room_and_lose_nothing(folder: Path, monkeypatch):
    # with vectors that need pages of their own
    wide = change(few_people(iterations=ROUNDS), features={"areas": 20, "words": 40})
    chaos = FaultyDeployment(folder, wide, people=9, seed=3, patch=monkeypatch)
    turn, declined, hindered = chaos.turn, list[str](), list[str]()

    async def now_and_then_full() -> None:
        for body in chaos.bodies:
            luck = chaos.luck.rng.random() if chaos.under_way else 1.0
            if body.agent is not None and luck < 0.05:
                fill(body)
            elif "disk" in str(body.agent and body.agent.problem) and (luck < 0.2 or not chaos.under_way):
                fill(body, room=2**20)
        await turn()
        declined.extend(str(body.agent.rounds.declined) for body in chaos.bodies)
        hindered.extend(str(body.agent.problem) for body in chaos.bodies)

    monkeypatch.setattr(chaos, "turn", now_and_then_full)
    asyncio.run(chaos.run(rounds=ROUNDS, rates=NO_FAULTS))
    assert sum("does not fit on the disk" in one for one in hindered) > 4  # while the log is followed
    assert any("does not fit on the disk" in one for one in declined)  # within a round
    assert {body.lives for body in chaos.bodies} == {1}  # no agent has ended
    assert chaos.ends()[Stage.OPENED] > 2  # of ten: in some rounds, too


def test_a_recommender_whose_disk_is_full_goes_on_where_it_was(folder: Path, monkeypatch):
    chaos = FaultyDeployment(folder, few_people(iterations=ROUNDS), people=9, seed=4, patch=monkeypatch)
    asyncio.run(chaos.run(rounds=ROUNDS, rates=replace(NO_FAULTS, server_full=0.05)))
    assert chaos.luck.happened["server_full"] > 5
    assert chaos.leases == 1  # it was the same conductor all the time
    assert chaos.ends()[Stage.OPENED] > ROUNDS
