"""What the product answers to vectors of the accountant and the ledger."""

from fractions import Fraction
from math import log
from typing import Any

from prirec.privacy.accountant import Spent
from prirec.privacy.ledger import Budget, Charge, Ledger, LedgerEntry, admit, how_many_more
from prirec.privacy.noise import OperatorNoise
from prirec.privacy.norm import Norm
from prirec.privacy.plan import cost


def charge(given: list[str]) -> Charge:
    deployment, kind, number, attempt, grains = given
    return Charge(bytes.fromhex(deployment), kind, int(number), int(attempt), "rounds", Spent(int(grains)))


def ledger(i: dict[str, Any]) -> Ledger:
    return Ledger(tuple(LedgerEntry(charge(paid), int(day)) for paid, day in i["entries"]))


def budget(i: dict[str, Any]) -> Budget:
    epsilon, delta, period = i["budget"]
    return Budget(float(epsilon), float(delta), int(period) or None)


def price(i: dict[str, Any]) -> int:
    norm = Norm(float(i["sensitivity"]), int(i["fraction_bits"]))
    noise = int(i["noise"])
    return cost(norm, OperatorNoise(Fraction(noise), 100, 0).hides() if noise else Fraction(0)).grains


OPERATIONS = {
    "log_delta": lambda i: log(Spent(int(i["grains"])).delta(float(i["epsilon"]))),
    "epsilon": lambda i: Spent(int(i["grains"])).epsilon(float(i["delta"])),
    "price": price,
    "admit": lambda i: str(admit(ledger(i), charge(i["charge"]), budget=budget(i), day=int(i["day"]))),
    "how_many_more": lambda i: how_many_more(ledger(i), Spent(int(i["grains"])), budget=budget(i), day=int(i["day"])),
}
