"""Vectors of what releases cost, and of whether a budget covers them."""

from collections.abc import Iterator
from typing import Any

from vectors.entry import Vector, vector

WHOLE = 4_037_312_329_294_167  # grains that epsilon = 1 and delta = 1e-6 afford
HERE, THERE = bytes(range(16)), bytes(16)
BUDGET = [1.0, 1e-6, 0]
CLOSE = "1e-10"


def charge(number: int, grains: int, *, of: bytes = HERE, kind: str = "interaction", attempt: int = 0) -> list[Any]:
    return [of, kind, number, attempt, grains]


PLAN = [[charge(at, WHOLE // 20), 100 + at] for at in range(20)]
TENTH = [[charge(at, WHOLE // 10), 10 * at] for at in range(10)]


def ledger() -> Iterator[Vector]:
    for grains in (2**24, 2**30, 2**40, WHOLE, 2**54, 2**56, 2**60):
        for epsilon in (0.0, 0.1, 1.0, 8.0):
            if not (grains <= 2**40 and epsilon) and not (grains < 2**52 and epsilon > 1):
                yield vector(
                    f"grains {grains}, epsilon {epsilon}", "log_delta", within=CLOSE, grains=grains, epsilon=epsilon
                )
    for grains, delta in (
        (WHOLE, 1e-6),
        (WHOLE // 20, 1e-6),
        (4 * WHOLE, 1e-6),
        (2**56, 1e-5),
        (2**40, 0.5),
        (1, 1e-9),
    ):
        yield vector(f"grains {grains}, delta {delta}", "epsilon", within="1e-9", grains=grains, delta=delta)
    for claim, given in {
        "a norm of one": {"sensitivity": 1.0, "fraction_bits": 12, "noise": 299_500_000},
        "a norm with many digits": {"sensitivity": 2.23606797749979, "fraction_bits": 9, "noise": 23_399_999},
        "the least noise": {"sensitivity": 1.0, "fraction_bits": 0, "noise": 1},
        "noise below what is drawn even": {"sensitivity": 1.0, "fraction_bits": 8, "noise": 2**20 - 2},
        "the least noise that is drawn even": {"sensitivity": 1.0, "fraction_bits": 8, "noise": 2**20 - 1},
        "the least noise that is more than the least drawn": {"sensitivity": 1.0, "fraction_bits": 3, "noise": 4},
        "no noise": {"sensitivity": 1.0, "fraction_bits": 8, "noise": 0},
    }.items():
        yield vector(claim, "price", **given)
    yield from charges()
    for claim, given in {
        "nothing spent": {"entries": [], "grains": WHOLE // 20},
        "half of it spent": {"entries": PLAN[:10], "grains": WHOLE // 20},
        "all of it spent": {"entries": PLAN, "grains": WHOLE // 20},
        "a larger price than is left": {"entries": PLAN[:10], "grains": WHOLE},
        "no end to it": {"entries": [], "grains": 1, "budget": [8.0, 1e-3, 0]},
        "in a period": {"entries": TENTH, "grains": WHOLE // 100, "budget": [1.0, 1e-6, 30], "day": 95},
    }.items():
        if "no end" not in claim:
            yield vector(claim, "how_many_more", **({"budget": BUDGET, "day": 200} | given))


def charges() -> Iterator[Vector]:
    last = WHOLE - 19 * (WHOLE // 20)
    for claim, given in {
        "the first": {"entries": [], "charge": charge(0, WHOLE)},
        "the last round of a plan": {"entries": PLAN[:19], "charge": charge(19, WHOLE // 20)},
        "all that is left": {"entries": PLAN[:19], "charge": charge(19, last), "flags": ("at the limit",)},
        "a millionth more than is left": {
            "entries": PLAN[:19], "charge": charge(19, last + WHOLE // 10**6), "flags": ("at the limit",),
        },
        "one round too many": {"entries": PLAN, "charge": charge(20, WHOLE // 20)},
        "the same again, with nothing left": {"entries": PLAN, "charge": charge(7, WHOLE // 20)},
        "the same at another price": {"entries": PLAN, "charge": charge(7, WHOLE // 20 - 1)},
        "another attempt": {"entries": PLAN[:10], "charge": charge(7, WHOLE // 20, attempt=1)},
        "another kind": {"entries": PLAN[:10], "charge": charge(7, WHOLE // 20, kind="moments")},
        "another deployment counts together": {"entries": PLAN, "charge": charge(7, 2**40, of=THERE)},
        "for nothing": {"entries": [], "charge": charge(0, 0)},
        "beyond all budgets": {"entries": [], "charge": charge(0, 2**62 + 1)},
        "without noise": {"entries": [], "charge": charge(0, 2**62)},
        "in a period that has passed": {"entries": TENTH, "charge": charge(10, WHOLE // 10), "day": 100},
        "in the last day of a period": {"entries": TENTH, "charge": charge(10, WHOLE // 10), "day": 99},
        "after the clock was set back": {"entries": TENTH, "charge": charge(10, WHOLE // 10), "day": 5},
        "a budget of two": {"entries": PLAN, "charge": charge(20, WHOLE), "budget": [2.0, 1e-6, 0]},
        "a budget of a half": {"entries": [], "charge": charge(0, WHOLE // 2), "budget": [0.5, 1e-6, 0]},
        "a small part of a budget of a half": {
            "entries": [], "charge": charge(0, WHOLE // 5), "budget": [0.5, 1e-6, 0],
        },
        "a budget of nothing": {"entries": [], "charge": charge(0, 1), "budget": [0.0, 1e-6, 0]},
        "a delta of one": {"entries": [], "charge": charge(0, 1), "budget": [1.0, 1.0, 0]},
    }.items():  # fmt: skip
        budget = [1.0, 1e-6, 100] if "period" in claim or "clock" in claim else BUDGET
        yield vector(claim, "admit", **({"budget": budget, "day": 200} | given))  # type: ignore[arg-type]
