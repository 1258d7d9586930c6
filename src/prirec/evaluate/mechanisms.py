"""Every way in which popularity can leave devices, by name, simulated at the same price for each USER.

A simulation sees everyone's visits and protects nobody; what devices run is in privacy/.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from prirec.data.recipe import Prepared
from prirec.errors import UsageError
from prirec.evaluate import collecting_local as local
from prirec.evaluate import collecting_sums as sums
from prirec.evaluate.collection import Collection, Estimate, Price, gather
from prirec.evaluate.metrics import auc
from prirec.features.popularity import Popularity
from prirec.privacy.accountant import affordable
from prirec.privacy.randomized_response import Reporters
from prirec.privacy.units import Adjacency
from prirec.settings import Settings

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


_USER = "(ε, δ) per user"
_LOCAL = "ε per user, against the recommender too"
MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism("secure sum, posterior", _USER, sums.posterior),
    Mechanism("secure sum", _USER, sums.scaled),
    Mechanism("secure sum, 20 places", _USER, sums.twenty_places),
    Mechanism("unary encoding", _LOCAL, local.unary, local=True),
    Mechanism("local hashing", _LOCAL, local.hashing, local=True),
    Mechanism("Hadamard response", _LOCAL, local.hadamard, local=True),
    Mechanism("sampled places", _LOCAL, local.sampled_places, local=True),
    Mechanism("randomised response", f"{_USER}, against the recommender too", local.whole_catalogue, local=True),
    Mechanism("secure sum, no loss", "if nobody is lost or colludes", sums.ideal, user_level=False),
    Mechanism("Eq. (6)", "ε = 1 per bit", local.as_printed(Reporters.EVERYONE), user_level=False),
    Mechanism(
        "records only",
        "none: who reports reveals the visit",
        local.as_printed(Reporters.THOSE_WITH_A_RECORD),
        user_level=False,
    ),
)
FIXED = ("Eq. (6)", "records only")  # at ε = 1 per bit, whatever the price is
_NAMED = {mechanism.name: mechanism for mechanism in MECHANISMS}


def mechanism(name: str) -> Mechanism:
    """The mechanism of that name."""
    if name not in _NAMED:
        raise UsageError(f"no mechanism is called '{name}'; there are: {'; '.join(_NAMED)}")
    return _NAMED[name]


def simulated_popularity(
    name: str, prepared: Prepared, *, price: Price, rng: np.random.Generator, settings: Settings | None = None
) -> Popularity:
    """What this mechanism would release about a city for this price, and what each device leaves out of it."""
    return mechanism(name).simulate(gather(prepared, settings), price, rng).popularity


def popularity_auc(popularity: Popularity, prepared: Prepared) -> float:
    """AUC of the first popularity column alone on the test records, as devices see it: their own part left out."""
    seen = popularity.seen_by(prepared.test)
    return auc(prepared.test.label, next(iter(seen.values())))


def plain(collection: Collection) -> Popularity:
    """Plain counts of visitors: the ceiling, with no privacy at all."""
    return Popularity({"visitors": collection.own.total()}, {"visitors": collection.own})
