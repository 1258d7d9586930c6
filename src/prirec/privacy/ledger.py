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
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Any

from prirec.config import Settings
from prirec.errors import PolicyError, StateError, UsageError
from prirec.privacy.accountant import MOST_GRAINS, Adjacency, Spent, Unit, affordable, check_budget, total
from prirec.util.shown import Shown, Table, counted

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
        check_budget(self.epsilon, self.delta)
        if self.period_days is not None and self.period_days < 1:
            raise UsageError("a budget's period has at least one day")

    @classmethod
    def of(cls, settings: Settings) -> "Budget":
        """The budget that settings give each person. PolicyError where they promise nothing."""
        p = settings.privacy
        if p.epsilon_per_user is None:
            raise PolicyError(
                "these settings promise nothing: give privacy.epsilon_per_user, or use the preset 'private'"
            )
        return cls(p.epsilon_per_user, p.delta, p.period_days)

    @property
    def words(self) -> str:
        days = "for life" if self.period_days is None else f"in any {counted(self.period_days, 'day')}"
        return f"ε = {self.epsilon:g} and δ = {self.delta:g} per {self.unit}, {days}"


@dataclass(frozen=True, slots=True)
class Charge:
    """The price of one release, and what identifies the release."""

    deployment: bytes
    kind: str
    number: int
    attempt: int
    what: str  # in plain words, for the person
    cost: Spent
    at_worst: Spent | None = None  # if all other names of the roster were made up; None: not known

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
            f"this person's privacy budget ({budget.words}) does not cover another release for {charge.what}; "
            "nothing is sent. Recommending and learning on the device go on"
        )
    return Verdict.CHARGE


def how_many_more(ledger: Ledger, cost: Spent, *, budget: Budget, day: int) -> int:
    """How many releases at this price the budget still covers, up to 2^16."""
    if cost.local:
        return 0  # `admit` refuses charges for local answers
    spent, one = ledger.counted(budget, day=day), _in_unit(cost, budget.unit)
    low, high = 0, _MOST
    while low < high:
        middle = (low + high + 1) // 2
        many = Spent(one.grains * middle, unit=one.unit)
        low, high = (middle, high) if fits(spent + many, budget) else (low, middle - 1)
    return low


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


# --- The account of a person: a ledger against a budget ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """What was spent on one purpose, had it been the only one."""

    what: str
    unit: Unit
    releases: int
    epsilon: float
    epsilon_at_worst: float | None  # if all other names of the rosters were made up; None: not known
    # such releases that the budget still covers, at the last price, if nothing else is paid for; None: cannot be said,
    # or the releases are local answers of an earlier version, of which no more are made
    more: int | None


@dataclass(frozen=True, slots=True)
class Total:
    """Everything together, over a stretch of time."""

    days: int | None  # None: for life
    releases: int
    epsilon: float
    epsilon_replace_one: float
    epsilon_at_worst: float | None  # if all other names of the rosters were made up; None: not known


@dataclass(frozen=True, slots=True, repr=False)
class Account(Shown):
    """What a person has spent on what, and what is left of the budget. Prints with the verdict first."""

    budget: Budget  # per user
    counted_per: Unit  # the unit of the totals
    items: tuple[Item, ...]
    lifetime: Total
    period: Total | None  # where the budget has a period
    overspent: bool  # beyond what this budget allows: the device had another
    covered_again_in_days: int | None  # where nothing is left now, and a period will end
    by_two_operators: int = 0  # releases that need one honest operator and no honest device

    @property
    def nothing_left(self) -> bool:
        """Whether the budget covers no further release of any kind that was paid for before."""
        more = [item.more for item in self.items if item.more is not None]
        return bool(more) and not any(more)

    @property
    def notes(self) -> tuple[str, ...]:
        """That more was spent than this budget allows, where that is so."""
        if not self.overspent:
            return ()
        return ("more was spent than these settings allow; the device had another budget: name its settings",)

    @property
    def verdict(self) -> str:
        """One or two sentences: what was spent, and whether something is left."""
        budget = f"Budget: {self.budget.words}."
        if not self.items:
            return (
                "Nothing was spent: by this ledger, nothing computed from this person's records has left the device. "
                + budget
            )
        spent = f"Spent: ε = {(self.period or self.lifetime).epsilon:.3f}"
        if self.counted_per is not Unit.USER:
            return (
                f"{spent} per {self.counted_per}. Some of it was counted per {self.counted_per} only, which does not "
                "bound what is known about the person: a budget per user cannot cover it, and what is left cannot be "
                "said."
            )
        if not self.nothing_left:
            return f"{spent}. {budget} Something is left."
        again = self.covered_again_in_days
        when = f" A release is covered again in {counted(again, 'day')}." if again else ""
        return (
            f"{spent}. {budget} Nothing is left for any of these.{when} The device still downloads, trains locally and "
            "recommends; it sends nothing more for a sum."
        )

    def panels(self) -> Iterator[str | Table]:
        yield self.verdict
        if not self.items:
            return
        yield Table(("spent on", "per", ">releases", ">ε alone", ">at worst", ">more covered"), [
            (
                item.what, item.unit, f"{item.releases:,}", f"{item.epsilon:.3f}", _at_worst(item.epsilon_at_worst),
                _more(item),
            )
            for item in self.items
        ])  # fmt: skip
        totals = [("in all, ever", self.lifetime)]
        if self.period is not None:
            totals.append((f"in the last {counted(self.period.days or 0, 'day')}", self.period))
        rows = [
            (
                name, f"{of.releases:,}", f"{of.epsilon:.3f}", f"{of.epsilon_replace_one:.3f}",
                _at_worst(of.epsilon_at_worst),
            )
            for name, of in totals
        ]  # fmt: skip
        if self.counted_per is Unit.USER:
            rows.append(("budget", "", f"{self.budget.epsilon:.3f}", "", ""))
        title = f"Together, per {self.counted_per}, δ = {self.budget.delta:g}"
        yield Table(("", ">releases", ">ε", ">replace-one ε", ">at worst"), rows, title)
        yield f"{_ADJACENCY[self.counted_per is Unit.USER]} Together is less than the sum of each alone."
        if self.by_two_operators < self.lifetime.releases:
            yield ASSUMED
        if self.by_two_operators:
            yield ASSUMED_OF_TWO
        yield "More covered: releases at the last price that the budget still covers, if nothing else is paid for."

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        adjacency = {"epsilon": Adjacency.ZERO_OUT, "epsilon_replace_one": Adjacency.REPLACE_ONE}
        return {**asdict(self), "nothing_left": self.nothing_left, "adjacency": adjacency}


ASSUMED = (
    "These ε hold if no more of each roster work with the operator than its campaign allows for: sums.corrupt, 5 % or "
    "more. At worst: if the operator made up all other names of the rosters, so that only this device's own share of "
    "the noise hides the person. The budget does not bound that."
)
ASSUMED_OF_TWO = (
    "Of a release whose ε at worst is the same: it holds while one of two operators is honest, whatever all other "
    "devices do."
)
_ADJACENCY = {
    True: "ε: how well anyone can tell whether this person took part with these records or with none (each "
    "contribution replaced by zero, the roster public); replace-one: with these or with any others.",
    False: "ε: how well anyone can tell whether one such record is in it or not; replace-one: that one or any other.",
}


def account(ledger: Ledger, *, budget: Budget, day: int) -> Account:
    """A ledger against a budget. A loss per event bounds nothing about a person, so where one was charged all is
    counted per event."""
    unit = min((one.charge.cost.unit for one in ledger.entries), key=_SIZES.index, default=Unit.USER)
    counting = replace(budget, unit=unit)
    prices = {  # of each purpose, the last one
        (one.charge.what, one.charge.cost.unit): one.charge.cost for one in ledger.entries if not one.charge.cost.local
    }
    whole = unit is Unit.USER
    more = {key: how_many_more(ledger, cost, budget=budget, day=day) for key, cost in prices.items()} if whole else {}

    def over(days: int | None) -> Total:
        since = None if days is None else day - days + 1
        spent = ledger.spent(counting, since=since)
        one, other = (spent.loss(budget.delta, adjacency).epsilon for adjacency in Adjacency)
        paid = [entry.charge for entry in ledger.entries if since is None or entry.day >= since]
        return Total(days, len(paid), one, other, _worst(paid, budget.delta))

    return Account(
        budget=budget,
        counted_per=unit,
        items=tuple(_items(ledger.entries, budget.delta, more)),
        lifetime=over(None),
        period=None if budget.period_days is None else over(budget.period_days),
        overspent=whole and not fits(ledger.counted(budget, day=day), budget),
        covered_again_in_days=_covered_again(ledger, budget, prices.values(), day=day) if whole else None,
        by_two_operators=sum(_needs_no_device(one.charge) for one in ledger.entries),
    )


def _items(entries: Iterable[LedgerEntry], delta: float, more: dict[tuple[str, Unit], int]) -> Iterator[Item]:
    def by(charge: Charge) -> tuple[str, Unit]:
        return charge.what, charge.cost.unit

    for (what, unit), group in groupby(sorted((one.charge for one in entries), key=by), key=by):
        charges = list(group)
        epsilon = total((one.cost for one in charges), unit).loss(delta).epsilon
        yield Item(what, unit, len(charges), epsilon, _worst(charges, delta), more.get((what, unit)))


def _worst(charges: Iterable[Charge], delta: float) -> float | None:
    """ε of these charges together if all other names of their rosters were made up; None if one's is not known."""
    known = [one.at_worst for one in charges]
    return None if None in known else total(one for one in known if one is not None).epsilon(delta)


def _needs_no_device(charge: Charge) -> bool:
    """Whether made-up names would change nothing: so it is for a sum over two operators. What is stored of the worst is
    rounded up in the last place."""
    return charge.at_worst is not None and charge.at_worst.grains <= charge.cost.grains * (1 + 2.0**-40) + 1


def _covered_again(ledger: Ledger, budget: Budget, prices: Iterable[Spent], *, day: int) -> int | None:
    """In how many days something that was paid for before is covered again; None if it is now, or never will be."""
    if budget.period_days is None or not ledger.entries:
        return None
    costs = set(prices)
    ends = sorted({paid.day + budget.period_days for paid in ledger.entries} | {day})
    for end in (end for end in ends if end >= day):
        if any(how_many_more(ledger, cost, budget=budget, day=end) for cost in costs):
            return end - day or None
    return None


def _at_worst(epsilon: float | None) -> str:
    return "-" if epsilon is None else f"{epsilon:,.1f}"


def _more(item: Item) -> str:
    if item.more is None:
        return "-"
    return f"{item.more:,}" if item.more < _MOST else f"{_MOST:,} or more"
