"""A person whose budget does not cover a round takes no part in it: the device follows the log, recommends with a model
of its own like any other, and hands in nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from prirec.device.device import Device
from prirec.device.ledger import LedgerStore
from prirec.device.recommend import own_model, published
from prirec.device.sync import View
from prirec.errors import PolicyError
from prirec.privacy.ledger import Budget
from support.fault_injection import Body, FaultyDeployment, Plan, few_people
from support.faults import NO_FAULTS

ROUNDS = 4
SUMS = 2 + ROUNDS  # of visits, of moments, of gradients in each round
EPSILONS = (0.01, 1.5, 2.6)  # of those who cannot pay for all: a whole campaign costs 3


@pytest.fixture(scope="module")
def chaos(shared_folder: Path) -> Iterator[FaultyDeployment]:
    """A campaign with nothing amiss but for the budgets of three."""
    plan = Plan(budget=lambda at: Budget(epsilon=EPSILONS[at] if at < len(EPSILONS) else 200.0))
    with pytest.MonkeyPatch.context() as patch:
        chaos = FaultyDeployment(
            shared_folder, few_people(iterations=ROUNDS), people=10, seed=1, patch=patch, plan=plan
        )
        asyncio.run(chaos.run(rounds=ROUNDS, rates=NO_FAULTS))
        yield chaos


def paid_by(body: Body) -> list[str]:
    assert body.store is not None
    return [one.charge.kind for one in LedgerStore(body.store, body.double.budget).ledger().entries]


def said_by(chaos: FaultyDeployment, body: Body) -> set[tuple[str, int]]:
    """In which sums a device has said anything."""
    return {(of.kind, of.number) for name, of, _ in chaos.witness.said if name == body.double.name}


def test_a_device_without_budget_posts_no_vector(chaos: FaultyDeployment):
    assert not paid_by(chaos.bodies[0])
    assert not said_by(chaos, chaos.bodies[0])


def test_a_device_with_budget_for_some_sums_posts_vectors_for_those_alone(chaos: FaultyDeployment):
    for body in chaos.bodies[1:3]:
        assert 0 < len(paid_by(body)) < SUMS
        assert len(said_by(chaos, body)) == len(paid_by(body))
    assert {len(paid_by(body)) for body in chaos.bodies[3:]} == {SUMS}


def test_devices_follow_the_log_whatever_their_budget(chaos: FaultyDeployment):
    for body in chaos.bodies:
        assert body.agent.person.membership().head == chaos.store.head()
    assert all(isinstance(body.agent.rounds.declined, PolicyError) for body in chaos.bodies[:3])


def test_devices_recommend_with_own_models_whatever_their_budget(chaos: FaultyDeployment):
    for body in chaos.bodies:
        of = published(*View.of(body.agent.person).publication)
        assert not np.array_equal(own_model(body.agent.person, of), of.model.everyone)
        places = Device(body.store).recommend(k=3)
        assert len(places) == 3
        assert all(0 < place.probability < 1 for place in places)
