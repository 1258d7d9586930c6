"""A dishonest recommender with as many made-up names as it likes reads a visit out of a sum with one operator. Here it
guesses, as often wrong as the price of the sum says.

It asks for one place alone, and knows every vector but one person's, and its own noise. That it cannot show this person
another log, and that a report tells nothing by when it comes, is in tests/device/test_windows.py and test_times.py."""

from math import exp

import numpy as np
import pytest

from prirec.config import PRIVATE
from prirec.privacy.noise import Stream
from prirec.privacy.plan import Kind, plan_for
from prirec.protocols.messages import Terms
from prirec.protocols.terms import RingCode, over_two_operators, privacy_cost
from prirec.protocols.two_operators import JointTask, operator_noise
from prirec.sharing.fixed_point import FixedPoint
from support.cities import change
from support.joint_sums import Meeting, entropy_of, honest, joint_task

SETTINGS = change(
    PRIVATE, sums={"operators": 2}, data={"keep": "all"},
    privacy={"popularity": 0.7, "moments": 0.1, "interaction": 0.2},
)  # fmt: skip
PEOPLE, DRAWS = 1000, 20_000
VICTIM = 0


@pytest.fixture(scope="module")
def task() -> JointTask:
    """The sum of visits of a catalogue of one place, at the price of the preset."""
    return joint_task(terms_of(1), people=PEOPLE)


def terms_of(places: int) -> Terms:
    release = plan_for(SETTINGS, people=PEOPLE, pois=places).release(Kind.POPULARITY)
    norm = release.norm
    ring = FixedPoint(summands=PEOPLE, bound=norm.sensitivity, fraction_bits=norm.fraction_bits)
    code = RingCode(ring, most=int(norm.units) ** 2, noise=release.wanted_whole)
    return over_two_operators(code, length=places, floor=SETTINGS.floor)


def price(terms: Terms) -> float:
    norm = plan_for(SETTINGS, people=PEOPLE, pois=1).release(Kind.POPULARITY).norm
    return privacy_cost(terms, norm=norm).epsilon(SETTINGS.privacy.delta)


def left_of_the_victim(task: JointTask, *, visited: bool) -> int:
    """What the recommender is left with when it has subtracted all that it knows: its noise, and everyone else."""
    names = SETTINGS.floor - 1
    values = np.zeros((names + 1, 1), np.int64)
    values[1:, 0] = np.random.default_rng(7).integers(-task.terms.bound, task.terms.bound + 1, names)
    values[VICTIM, 0] = task.terms.bound if visited else 0
    meeting = Meeting(task, many=names + 1)
    meeting.post([honest(task, at, values[at].view(np.uint64)) for at in range(names + 1)])
    meeting.close()
    assert meeting.finished[0] is not None
    known = operator_noise(task.terms).draw(Stream(entropy_of(0)[:32]), 1).astype(np.int64)
    return int((meeting.finished[0].total.view(np.int64) - known - values[1:].sum(axis=0))[0])


@pytest.mark.parametrize("visited", [True, False])
def test_what_is_left_of_one_person_is_under_all_of_the_helpers_noise(task: JointTask, visited: bool) -> None:
    helpers = int(operator_noise(task.terms).draw(Stream(entropy_of(1)[:32]), 1).astype(np.int64)[0])
    assert helpers
    assert left_of_the_victim(task, visited=visited) == helpers + (task.terms.bound if visited else 0)


def guessed(task: JointTask, noise: np.ndarray) -> float:
    """How often the best guess is right, for a visit as likely as none."""
    half = task.terms.bound / 2
    return float(((noise + task.terms.bound > half).mean() + (noise <= half).mean()) / 2)


def test_a_visit_is_guessed_no_better_than_its_price_allows(task: JointTask) -> None:
    """Six standard deviations of a share of 40,000 guesses, one in 10^9, are 0.015."""
    noise = operator_noise(task.terms).draw(Stream(bytes(32)), DRAWS).astype(np.int64)
    epsilon = price(task.terms)
    assert 0.5 < epsilon < 1
    allowed = exp(epsilon) / (1 + exp(epsilon))
    assert guessed(task, noise) < allowed + 0.015
    assert guessed(task, noise) > 0.5  # it is a guess, not nothing
    assert guessed(task, 0 * noise) == 1.0  # as it would be without the helper
    assert guessed(task, noise // 10) > allowed + 0.1  # and a tenth of the noise would be noticed
