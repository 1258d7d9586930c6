"""A question is a paid release: known again in any order, and new with any window, list, price or asker."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import PolicyError, StateError, UsageError
from prirec.privacy.answers import KIND, Asked
from prirec.privacy.ledger import Budget, Charge, Ledger, Paid, Verdict, admit, how_many_more, statement
from prirec.privacy.memo import Question, loss_per_user
from prirec.privacy.randomized_response import RandomizedResponse
from prirec.privacy.units import Adjacency, Unit
from support.patience import FEW

DEPLOYMENT, SECRET = bytes(16), bytes(range(32))
BIT = RandomizedResponse(epsilon_per_bit=0.125)
JUNE, JULY = Question("visited", 20_605, 20_634), Question("visited", 20_635, 20_665)  # of 2026
PLACES = ("the bakery", "a bar", "the café")
ASKED = Asked(DEPLOYMENT, JUNE, PLACES, BIT)
OTHERS = {
    "window": replace(ASKED, question=JULY),
    "a day more": replace(ASKED, question=Question("visited", 20_605, 20_635)),
    "feature": replace(ASKED, question=Question("liked", 20_605, 20_634)),
    "place more": replace(ASKED, places=(*PLACES, "a dance hall")),
    "place less": replace(ASKED, places=PLACES[:2]),
    "place for another": replace(ASKED, places=(*PLACES[:2], "the cafe")),
    "price": replace(ASKED, mechanism=RandomizedResponse(0.25)),
    "asker": replace(ASKED, deployment=b"\1" * 16),
}


def test_the_charge_is_for_the_person_and_says_what_for():
    charge = ASKED.charge
    assert (charge.deployment, charge.kind, charge.what) == (
        DEPLOYMENT,
        KIND,
        "answers about 2026-06-01 to 2026-06-30 (visited)",
    )
    assert charge.cost.local == (loss_per_user([JUNE], pois=3, mechanism=BIT),)
    assert (charge.cost.grains, charge.cost.unit, charge.cost.local[0].epsilon) == (0, Unit.USER, 0.375)
    assert charge.cost.local[0].adjacency is Adjacency.REPLACE_ONE
    assert all(0 <= one < 2**63 for one in (charge.number, charge.attempt))  # what SQLite calls an integer


@pytest.mark.parametrize(("days", "words"), [((0, 0), "1970-01-01"), ((-1, 0), "1969-12-31 to 1970-01-01")])
def test_a_window_is_told_in_dates(days, words):
    assert replace(ASKED, question=Question("visited", *days)).what == f"answers about {words} (visited)"


@given(order=st.permutations(PLACES))
@FEW
def test_the_same_in_another_order_is_the_same_release(order):
    again = replace(ASKED, places=tuple(order))
    assert again.charge == ASKED.charge
    assert [order[at] for at in again.order] == sorted(PLACES)


@pytest.mark.parametrize("name", OTHERS)
def test_anything_else_is_another_release_and_costs_in_full(name):
    other, budget = OTHERS[name], Budget(2.0, 1e-6, local=1.5)
    ledger = Ledger((Paid(ASKED.charge, 20_700),))
    assert admit(ledger, replace(ASKED).charge, budget=budget, day=20_800) is Verdict.KNOWN
    assert admit(ledger, other.charge, budget=budget, day=20_800) is Verdict.CHARGE
    both = Ledger((*ledger.entries, Paid(other.charge, 20_800)))
    spent = sum(loss.epsilon for loss in both.spent(budget).local)
    assert spent == 3 * 0.125 + len(other.places) * other.mechanism.epsilon_per_bit


@FEW
@given(
    one=st.lists(st.text(max_size=4), min_size=1, max_size=4, unique=True),
    other=st.lists(st.text(max_size=4), min_size=1, max_size=4, unique=True),
)
def test_two_lists_have_one_digest_only_if_they_are_one(one, other):
    same = sorted(one) == sorted(other)
    assert (replace(ASKED, places=tuple(one)).digest == replace(ASKED, places=tuple(other)).digest) is same


def test_fields_do_not_run_into_one_another():
    questions = [Question("visited1", 2, 3), Question("visited", 12, 13), Question("visited", 1, 23)]
    spelt = {replace(ASKED, question=question).digest for question in questions}
    assert len(spelt) == 3
    assert replace(ASKED, places=("ab", "c")).digest != replace(ASKED, places=("a", "bc")).digest


def test_a_name_that_was_paid_for_at_another_price_is_not_known():
    charge = ASKED.charge
    dearer = Charge(*charge.key, charge.what, replace(ASKED, mechanism=RandomizedResponse(0.2)).charge.cost)
    with pytest.raises(StateError, match="another price"):
        admit(Ledger((Paid(charge, 1),)), dearer, budget=Budget(2.0, 1e-6, local=1.5), day=1)


def test_only_the_purse_for_answers_pays():
    with pytest.raises(PolicyError, match=r"another release for answers about 2026-06-01 to 2026-06-30 \(visited\)"):
        admit(Ledger(), ASKED.charge, budget=Budget(50.0, 1e-6), day=20_800)
    some = Budget(1.0, 1e-6, local=0.8)
    assert how_many_more(Ledger(), ASKED.charge.cost, budget=some, day=20_800) == 2


def test_windows_are_lines_of_the_ledger_and_lists_of_one_window_stand_together():
    budget, grown = Budget(3.0, 1e-6, local=2.0), OTHERS["place more"]
    ledger = Ledger(tuple(Paid(one.charge, 20_700) for one in (ASKED, grown, OTHERS["window"])))
    june, july = statement(ledger, budget=budget, day=20_700).lines
    assert (june.what, june.releases, june.loss.unit) == (ASKED.what, 2, Unit.USER)
    assert june.loss.epsilon == pytest.approx(7 * 0.125, rel=1e-4)
    assert (july.what, july.releases) == ("answers about 2026-07-01 to 2026-07-31 (visited)", 1)


# The words behind the answers

MANY = tuple(f"place {j}" for j in range(400))
TRUTH = np.arange(400) % 5 == 0
LONG = Asked(DEPLOYMENT, JUNE, MANY, RandomizedResponse(1.0))


def said(asked: Asked, *, secret: bytes = SECRET, truth: np.ndarray = TRUTH) -> np.ndarray:
    return asked.answers(truth, today=20_800, secret=secret)


def test_answers_belong_to_places_and_not_to_rows():
    order = np.arange(400)[::-1]
    shuffled = replace(LONG, places=tuple(MANY[at] for at in order))
    assert said(shuffled, truth=TRUTH[order]).tolist() == said(LONG)[order].tolist()


@pytest.mark.parametrize(
    "other",
    [
        replace(LONG, question=JULY),
        replace(LONG, deployment=b"\1" * 16),
        replace(LONG, mechanism=RandomizedResponse(1.25)),
        replace(LONG, places=(*MANY[:-1], "place 400")),
    ],
    ids=["window", "asker", "price", "list"],
)
def test_every_release_has_words_of_its_own(other):
    """Secrets are fixed: no false alarm. Of places in common 0.35 to 0.39 answers differ, or with shared words 0.05."""
    assert 0.25 < (said(LONG)[:-1] != said(other)[:-1]).mean() < 0.5


def test_an_open_window_is_refused():
    assert said(LONG).shape == (400,)
    with pytest.raises(PolicyError, match="days that are over"):
        LONG.answers(TRUTH, today=JUNE.last_day, secret=SECRET)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: replace(ASKED, places=()),
        lambda: replace(ASKED, places=("a", "b", "a")),
        lambda: replace(ASKED, question=Question("x" * 65, 1, 2)),
        lambda: replace(ASKED, question=Question("visited\x1b[2J", 1, 2)),
        lambda: replace(ASKED, question=Question("visited", 1, 2**70)),
        lambda: replace(ASKED, question=Question("visited", -800_000, 1)),
    ],
)
def test_what_no_person_could_be_told_of_is_refused(wrong: Callable[[], Asked]):
    with pytest.raises(UsageError):
        wrong()
