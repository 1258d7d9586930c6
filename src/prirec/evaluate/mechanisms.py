"""The mechanisms by which popularity can leave devices, by name, simulated at the same price for each USER.

A simulation sees everyone's visits and protects nobody; what devices run is in privacy/. Another mechanism is compared
with these by being a `Mechanism` too, as experiments/unary.py is: nothing here has to know of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from prirec.data.recipe import Prepared
from prirec.evaluate import collecting_sums as sums
from prirec.evaluate.collection import Collection, Estimate, Price
from prirec.evaluate.counting import answered
from prirec.evaluate.metrics import auc
from prirec.features.popularity import Popularity
from prirec.privacy.accountant import affordable
from prirec.privacy.randomized_response import Reporters, reports_about
from prirec.privacy.units import Adjacency

PAPER_EPSILON_PER_BIT = 1.0

Simulation: TypeAlias = Callable[[Collection, Price, np.random.Generator], Estimate]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One way, and what it promises for an (ε, δ)."""

    name: str
    promise: str
    simulate: Simulation = field(repr=False)
    user_level: bool = True  # False: no (ε, δ) for a person comes of it, or only one with ifs
    local: bool = False  # noise in each answer by itself: the promise is between any two people's as it stands

    def epsilon_replace_one(self, price: Price) -> float:
        """The ε between any two contributions; that of a price is between a contribution and none."""
        if self.local:
            return price.epsilon_per_user
        spent = affordable(price.epsilon_per_user, price.delta)
        return spent.loss(price.delta, Adjacency.REPLACE_ONE).epsilon


def as_printed(reporters: Reporters) -> Simulation:
    """The paper's own: Eq. (6) at ε = 1 for each BIT, which no price for a user enters."""

    def simulated(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
        del price
        reports = reports_about(
            reporters, people=collection.people, with_a_record=collection.with_a_record, in_simulation=True
        )
        found = answered(collection.own, reports=reports, epsilon_per_bit=PAPER_EPSILON_PER_BIT, rng=rng)
        return Estimate(found, collection.visitors().astype(np.float64))

    return simulated


_USER = "(ε, δ) per user"
MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism("secure sum, posterior", _USER, sums.posterior),
    Mechanism("secure sum", _USER, sums.scaled),
    Mechanism("secure sum, 20 places", _USER, sums.twenty_places),
    Mechanism("secure sum, no loss", "if nobody is lost or colludes", sums.ideal, user_level=False),
    Mechanism("Eq. (6)", "ε = 1 per bit", as_printed(Reporters.EVERYONE), user_level=False),
    Mechanism(
        "records only",
        "none: who reports reveals the visit",
        as_printed(Reporters.THOSE_WITH_A_RECORD),
        user_level=False,
    ),
)
FIXED = ("Eq. (6)", "records only")  # at ε = 1 per bit, whatever the price is


def popularity_auc(popularity: Popularity, prepared: Prepared) -> float:
    """AUC of the first popularity column alone on the test records, as devices see it: their own part left out."""
    seen = popularity.seen_by(prepared.test)
    return auc(prepared.test.label, next(iter(seen.values())))


def plain(collection: Collection) -> Popularity:
    """Plain counts of visitors: the ceiling, with no privacy at all."""
    return Popularity({"visitors": collection.own.total()}, {"visitors": collection.own})
