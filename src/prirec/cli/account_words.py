"""prirec privacy ledger in words and tables."""

from prirec.cli.account import MOST, Account, Item, Total
from prirec.cli.output import console, figure, note, show_table
from prirec.privacy.ledger import Budget
from prirec.privacy.units import Unit

GOES_ON = "The device still downloads, trains locally and recommends; it sends nothing more for a sum."


def show(account: Account) -> None:
    """What was spent, what it comes to, and what is left."""
    if not account.items:
        _say("Nothing was spent: by this ledger, nothing computed from this person's records has left the device.")
        _say(_words(account.budget))
        return
    _show_items(account)
    _show_totals(account)
    _say(_left(account))
    if account.overspent:
        note("more was spent than these settings allow; the device had another budget: name its settings")


def _show_items(account: Account) -> None:
    lines = [
        (item.what, item.unit, f"{item.releases:,}", figure(item.epsilon, digits=3), _more(item))
        for item in account.items
    ]
    show_table(("spent on", "counted per", ">releases", ">epsilon alone", ">more covered"), lines)


def _show_totals(account: Account) -> None:
    lines = [_total("in all, ever", account.lifetime)]
    if account.period is not None:
        lines.append(_total(f"in the last {account.period.days} days", account.period))
    if account.counted_per is Unit.USER:
        lines.append(("budget", "", figure(account.budget.epsilon, digits=3), ""))
    title = f"Together, per {account.counted_per}, delta = {account.budget.delta:g}"
    show_table(("", ">releases", ">epsilon", ">replace-one epsilon"), lines, title=title)
    _say(f"{_meaning(account.counted_per)} Together is less than the sum of each alone.")


def _meaning(unit: Unit) -> str:
    if unit is not Unit.USER:
        return f"epsilon: how well anyone can tell if one {unit} is in it or not; replace-one: that one or any other."
    return (
        "epsilon: how well anyone can tell if this person took part with these records or with none (each contribution "
        "replaced by zero, the roster public); replace-one: with these or with any others."
    )


def _total(name: str, total: Total) -> tuple[str, str, str, str]:
    epsilon, replaced = figure(total.epsilon, digits=3), figure(total.epsilon_replace_one, digits=3)
    return name, f"{total.releases:,}", epsilon, replaced


def _left(account: Account) -> str:
    if account.counted_per is not Unit.USER:
        return (
            f"Some of it was counted per {account.counted_per} only, which does not bound what is known about the "
            "person: a budget per user cannot cover it, and what is left cannot be said."
        )
    budget = _words(account.budget)
    if not account.nothing_left:
        return f"{budget} More covered: releases at the last price, if nothing else is paid for."
    again = account.covered_again_in_days
    days = "1 day" if again == 1 else f"{again} days"
    when = f" Something is covered again in {days}." if again else ""
    return f"{budget} Nothing is left of it for any of these. {GOES_ON}{when}"


def _words(budget: Budget) -> str:
    days = "for life" if budget.period_days is None else f"in any {budget.period_days} days"
    return f"The budget is epsilon = {budget.epsilon:g} and delta = {budget.delta:g} per user, {days}."


def _more(item: Item) -> str:
    if item.more is None:
        return "-"
    return f"{item.more:,}" if item.more < MOST else f"{MOST:,} or more"


def _say(text: str) -> None:
    console().print(text)
