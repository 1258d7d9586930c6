"""The rules of a person's privacy ledger: what was spent, and whether more may be (stored by device/ledger.py).

- A charge is made before what it pays for is sent, and nothing is ever refunded: not for a drop-out, not for a round
  that was burnt, not on enrolling again.
- It is identified by deployment, kind, number and attempt. The same once more is a resend of the same bytes and costs
  nothing. A new attempt at a number is a new release with new noise, and costs in full.
- All entries count together, by the accountant: the rounds of one plan cost exactly the plan's ε.
- Only noisy sums are charged. A recommender may set a price after it has seen earlier outputs: Σ 1/σ² is bounded
  whatever came out. Earlier versions could also give local answers (randomised response). Those that are in a ledger
  count for ever: noisy sums get what the answers left of the budget. New ones are refused, because a recommender
  that may choose between the two kinds after seeing an output can double δ.
- A budget is for life; with a period, it holds for any so many days in a row, and the total spent is shown beside it.
- A loss per user bounds the loss per day or event, so it may be charged to a smaller unit's budget; never the reverse.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

from prirec.errors import PolicyError, StateError, UsageError
from prirec.privacy.accountant import MOST_GRAINS, Spent, affordable, total
from prirec.privacy.units import Adjacency, PrivacyLoss, Unit

_SIZES = tuple(Unit)  # from the smallest to the largest
_MOST = 2**16  # releases that `how_many_more` looks ahead


@dataclass(frozen=True, slots=True)
class Budget:
    """A person's privacy budget: (ε, δ) over everything ever sent, or over any `period_days` days in a row."""

    epsilon: float = 1.0
    delta: float = 1e-6
    period_days: int | None = None
    unit: Unit = Unit.USER

    def __post_init__(self) -> None:
        affordable(self.epsilon, self.delta)  # raises for an ε or δ that cannot be a budget
        if self.period_days is not None and self.period_days < 1:
            raise UsageError("a budget's period has at least one day")


@dataclass(frozen=True, slots=True)
class Charge:
    """The price of one release, and what identifies the release."""

    deployment: bytes
    kind: str
    number: int
    attempt: int
    what: str  # in plain words, for the person
    cost: Spent

    def __post_init__(self) -> None:
        if len(self.cost.local) > 1 or self.cost.grains > MOST_GRAINS or self.cost == Spent(unit=self.cost.unit):
            # a local loss is in charges of earlier versions only, see `admit`
            raise UsageError("a charge is for one release: Gaussian, with at most one local loss, and not for nothing")

    @property
    def key(self) -> tuple[bytes, str, int, int]:
        return self.deployment, self.kind, self.number, self.attempt


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A charge that was made, and the day (since 1970) on which it was."""

    charge: Charge
    day: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything that was ever charged to one person."""

    entries: tuple[LedgerEntry, ...] = ()

    def spent(self, budget: Budget, *, since: int | None = None) -> Spent:
        """The cost of everything, or of everything charged on this day and later, in the budget's unit."""
        paid = (one for one in self.entries if since is None or one.day >= since)
        return total((_in_unit(one.charge.cost, budget.unit) for one in paid), budget.unit)

    def counted(self, budget: Budget, *, day: int) -> Spent:
        """What a charge on this day adds to. Entries of later days count too: the clock may have been set back, and
        must not free a budget."""
        return self.spent(budget, since=None if budget.period_days is None else day - budget.period_days + 1)


class Verdict(StrEnum):
    CHARGE = "charge"  # new: write it down, then send
    KNOWN = "known"  # paid for already: send the same again


def admit(ledger: Ledger, charge: Charge, *, budget: Budget, day: int) -> Verdict:
    """Whether a release may be sent. PolicyError if it would overspend; StateError if it was charged at another price.

    A release at a new price would be another release under the same name, with less noise."""
    for one in ledger.entries:  # before the budget: a resend stays allowed when nothing is left
        if one.charge.key == charge.key:
            if one.charge.cost != charge.cost:
                raise StateError("this release was charged at another price before; it is not made at this one")
            return Verdict.KNOWN
    if charge.cost.local:
        raise UsageError("a charge for a local answer is not accepted any more: only noisy sums are paid for")
    if not fits(ledger.counted(budget, day=day) + _in_unit(charge.cost, budget.unit), budget):
        raise PolicyError(
            f"this person's privacy budget ({_words(budget)}) does not cover another release for {charge.what}; "
            "nothing is sent. Recommending and learning on the device go on"
        )
    return Verdict.CHARGE


def how_many_more(ledger: Ledger, cost: Spent, *, budget: Budget, day: int) -> int:
    """How many releases at this price the budget still covers, up to 2^16."""
    if cost.local:
        return 0  # `admit` refuses charges for local answers
    counted, one = ledger.counted(budget, day=day), _in_unit(cost, budget.unit)
    low, high = 0, _MOST
    while low < high:
        middle = (low + high + 1) // 2
        many = Spent(one.grains * middle, unit=one.unit)
        low, high = (middle, high) if fits(counted + many, budget) else (low, middle - 1)
    return low


@dataclass(frozen=True, slots=True)
class Line:
    """What was spent on one purpose, had it been the only one."""

    what: str
    releases: int
    loss: PrivacyLoss


@dataclass(frozen=True, slots=True)
class Statement:
    """A ledger in figures for the person: each purpose by itself, and the total, which is less than their sum."""

    lines: tuple[Line, ...]
    lifetime: PrivacyLoss
    lifetime_replace_one: PrivacyLoss
    period: PrivacyLoss | None  # of the days that count today, if the budget has a period
    budget: Budget


def statement(ledger: Ledger, *, budget: Budget, day: int) -> Statement:
    """What was spent on what, per unit, and in total."""
    delta, spent = budget.delta, ledger.spent(budget)
    period = None if budget.period_days is None else ledger.counted(budget, day=day).loss(delta)
    replaced = spent.loss(delta, Adjacency.REPLACE_ONE)
    return Statement(tuple(_lines(ledger.entries, delta)), spent.loss(delta), replaced, period, budget)


def _lines(entries: Iterable[LedgerEntry], delta: float) -> Iterable[Line]:
    def by(charge: Charge) -> tuple[str, Unit]:
        return charge.what, charge.cost.unit

    for (what, unit), group in groupby(sorted((one.charge for one in entries), key=by), key=by):
        charges = list(group)
        yield Line(what, len(charges), total((one.cost for one in charges), unit).loss(delta))


def fits(spent: Spent, budget: Budget) -> bool:
    """Whether the noisy sums stay within what the budget leaves beside the local answers of earlier versions."""
    answers = math.fsum(loss.epsilon for loss in spent.local)
    if answers > budget.epsilon or any(loss.delta for loss in spent.local):  # answers never had a δ: not our row
        return False
    return spent.grains <= affordable(budget.epsilon, budget.delta, local=answers).grains


def _in_unit(cost: Spent, unit: Unit) -> Spent:
    """A loss per larger unit bounds the loss per smaller one."""
    if _SIZES.index(cost.unit) < _SIZES.index(unit):
        raise UsageError(f"a loss per {cost.unit} says too little about a {unit}; convert it with times")
    return Spent(cost.grains, tuple(replace(loss, unit=unit) for loss in cost.local), unit)


def _words(budget: Budget) -> str:
    days = "" if budget.period_days is None else f" in any {budget.period_days} days"
    return f"epsilon = {budget.epsilon:g}, delta = {budget.delta:g} per {budget.unit}{days}"
