"""The figures behind prirec privacy ledger."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from prirec.errors import PolicyError
from prirec.privacy.accountant import Spent
from prirec.privacy.ledger import Budget, Ledger, fits, how_many_more, statement
from prirec.privacy.units import Adjacency, Unit
from prirec.settings import Settings

MOST = 2**16  # how_many_more looks no further


@dataclass(frozen=True, slots=True)
class Item:
    """What was spent on one thing, had it been the only one."""

    what: str
    unit: Unit
    releases: int
    epsilon: float
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


@dataclass(frozen=True, slots=True)
class Account:
    """A person's ledger against a budget."""

    budget: Budget  # per user, as the settings have it
    counted_per: Unit  # the unit of the totals
    items: tuple[Item, ...]
    lifetime: Total
    period: Total | None  # where the budget has a period
    overspent: bool  # beyond what this budget allows: the device had another
    covered_again_in_days: int | None  # where nothing is left now, and a period will end

    @property
    def nothing_left(self) -> bool:
        more = [item.more for item in self.items if item.more is not None]
        return bool(more) and not any(more)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        told = asdict(self)
        adjacency = {"epsilon": Adjacency.ZERO_OUT, "epsilon_replace_one": Adjacency.REPLACE_ONE}
        return {**told, "nothing_left": self.nothing_left, "adjacency": adjacency}


def budget_of(settings: Settings) -> Budget:
    """The budget that settings give each person."""
    p = settings.privacy
    if p.epsilon_per_user is None:
        raise PolicyError("these settings promise nothing: give privacy.epsilon_per_user, or use the preset 'private'")
    return Budget(p.epsilon_per_user, p.delta, p.period_days)


def account(ledger: Ledger, *, budget: Budget, day: int) -> Account:
    """A loss per event bounds nothing about a person, so where one was charged all is counted per event."""
    unit = _smallest(one.charge.cost.unit for one in ledger.entries)
    counting = replace(budget, unit=unit)
    prices = {  # the last one stays
        (one.charge.what, one.charge.cost.unit): one.charge.cost for one in ledger.entries if not one.charge.cost.local
    }
    more = {
        key: how_many_more(ledger, cost, budget=budget, day=day) if unit is Unit.USER else None
        for key, cost in prices.items()
    }
    lines = statement(ledger, budget=counting, day=day).lines
    return Account(
        budget=budget,
        counted_per=unit,
        items=tuple(
            Item(line.what, line.loss.unit, line.releases, line.loss.epsilon, more.get((line.what, line.loss.unit)))
            for line in lines
        ),
        lifetime=_total(ledger, counting, since=None, days=None),
        period=_period(ledger, counting, day=day),
        overspent=unit is Unit.USER and not fits(ledger.counted(budget, day=day), budget),
        covered_again_in_days=_again(ledger, budget, prices.values(), day=day) if unit is Unit.USER else None,
    )


def _period(ledger: Ledger, budget: Budget, *, day: int) -> Total | None:
    days = budget.period_days
    return None if days is None else _total(ledger, budget, since=day - days + 1, days=days)


def _total(ledger: Ledger, budget: Budget, *, since: int | None, days: int | None) -> Total:
    spent = ledger.spent(budget, since=since)
    one, other = (spent.loss(budget.delta, adjacency).epsilon for adjacency in Adjacency)
    releases = sum(since is None or paid.day >= since for paid in ledger.entries)
    return Total(days, releases, one, other)


def _again(ledger: Ledger, budget: Budget, prices: Iterable[Spent], *, day: int) -> int | None:
    """In how many days something that was paid for before is covered again; None if it is now, or never will be."""
    if budget.period_days is None or not ledger.entries:
        return None
    costs = set(prices)
    ends = sorted({paid.day + budget.period_days for paid in ledger.entries} | {day})
    for end in (end for end in ends if end >= day):
        if any(how_many_more(ledger, cost, budget=budget, day=end) for cost in costs):
            return end - day or None
    return None


def _smallest(units: Iterable[Unit]) -> Unit:
    order = tuple(Unit)  # from the smallest to the largest
    return min(units, key=order.index, default=Unit.USER)
