"""What a device computes in a campaign: its part of the sum of visits, and steps (b) to (e) of each round.

Every contribution leaves this file in whole numbers and no longer than its norm; what masks it and adds its share of
noise is protocols/secure_sum. The letters are those of docs/rounds.md; engines/plain.py is the same for a whole city.
"""

from dataclasses import dataclass, field

import numpy as np

from prirec.contract.campaign import Campaign
from prirec.contract.catalogue import Known
from prirec.device.models import Visited
from prirec.device.person import Person
from prirec.device.records import Records, positions_of
from prirec.engines.randomness import iteration_key
from prirec.errors import UsageError
from prirec.features.popularity import OwnCounts
from prirec.keyed import mix, shuffle
from prirec.model.contribution import contribution_of, work
from prirec.model.kernels import shrink
from prirec.model.local_step import local_step, rates_of
from prirec.model.public_half import public
from prirec.model.round_steps import away_from, mix_model
from prirec.privacy.budget import popularity_entries
from prirec.privacy.norm import clipped
from prirec.privacy.weighted_popularity import weighted
from prirec.settings import Settings
from prirec.types import RealArray, RingArray


@dataclass(frozen=True, slots=True)
class Learnt:
    """W_i after a round, and what the device adds to the sum over everyone."""

    linear: RealArray = field(repr=False)  # (D + 1,)
    contribution: RingArray = field(repr=False)  # (K * D,)
    loss: float = field(repr=False)  # mean over the own records, before each step


def visited_places(person: Person, campaign: Campaign, known: Known) -> Visited:
    """Where the person was, once a place, at norm 1, in whole numbers: privacy/weighted_popularity.py for one."""
    places = known.rows[positions_of(person.visits(), known)].astype(np.int64)
    once = OwnCounts(campaign.charter.places, places, np.ones(len(places)))
    return Visited(places, clipped(weighted({"visitors": once})["visitors"].counts, campaign.visits.norm))


def visits_vector(visited: Visited, campaign: Campaign) -> RingArray:
    """(J,): the contribution to the sum of visits. Write `visited` down with it (device/models.py, save_given)."""
    vector = np.zeros(popularity_entries(campaign.charter.places, campaign.settings), dtype=np.int64)
    vector[visited.places] = visited.whole
    return vector.view(np.uint64)


def start(campaign: Campaign) -> RealArray:
    """W_i before the first round of a campaign: zero for everyone."""
    return np.zeros(_features(campaign) + 1)


def mixing_vector(campaign: Campaign, linear: RealArray, *, centre: RealArray) -> RingArray:
    """Step (b): clip(W_i - centre), the centre being what the cohort opened last."""
    _check(campaign, linear=linear, other=centre)
    out = np.empty_like(linear)
    away_from(centre, linear, out)
    shrink(out, campaign.rounds.linear.clip, out)
    return campaign.rounds.linear.write(out)


def learn(
    records: Records, campaign: Campaign, *, linear: RealArray, interaction: RealArray, iteration: int,
    mean: RealArray | None = None,
) -> Learnt:  # fmt: skip
    """Steps (c) to (e) of round t: mix with the cohort's mean, if it was opened in this round, then the local step.

    `linear` stays as it is: the new one counts once it is written down with what was masked."""
    code = campaign.rounds.interaction
    w, gradient, loss = _moved(
        records, campaign, linear=linear, interaction=interaction, iteration=iteration, mean=mean, clip=code.clip
    )
    return Learnt(w, code.write(gradient), loss)


def learn_alone(
    records: Records, campaign: Campaign, *, linear: RealArray, interaction: RealArray, iteration: int,
    mean: RealArray | None = None,
) -> RealArray:  # fmt: skip
    """W_i after a round in which the person adds nothing: when the budget is spent, or for somebody who is new.

    Nothing of it leaves the device, so it costs nothing; what others have opened may be taken in all the same."""
    return _moved(
        records, campaign, linear=linear, interaction=interaction, iteration=iteration, mean=mean, clip=np.inf
    )[0]


def _moved(
    records: Records, campaign: Campaign, *, linear: RealArray, interaction: RealArray, iteration: int,
    mean: RealArray | None, clip: float,
) -> tuple[RealArray, RealArray, float]:  # fmt: skip
    """Steps (c) and (d): W_i, the clipped mean gradient of V, and the mean loss."""
    _check(campaign, linear=linear, other=mean, interaction=interaction)
    if records.features != _features(campaign):
        raise UsageError("these records are encoded otherwise than the campaign calls for; make them anew")
    settings, w = campaign.settings, linear.copy()
    if mean is not None:
        mix_model(w, mean, records.gamma)  # (c)
    shared = public(interaction, records.places, first=records.own.person.size)
    D, K = interaction.shape
    made, order = contribution_of(K, D), _order(records, settings, iteration)
    rates, no_latent = rates_of(settings, clip=clip), np.empty(0)  # within a budget there is no latent part
    lost = local_step(w, no_latent, shared, records.own, order, rates, work(K, D), made)  # (d)
    if not np.isfinite(w).all():
        raise UsageError("the linear model has grown beyond all numbers; lower linear.alpha")
    return w, made.whole(), lost / max(len(order), 1)


def _order(records: Records, settings: Settings, iteration: int) -> np.ndarray:
    order = np.empty(len(records.own.place), dtype=np.int32)
    shuffle(mix(iteration_key(settings.seed, "order", iteration), records.key), order)
    return order


def _check(
    campaign: Campaign, *, linear: RealArray, other: RealArray | None, interaction: RealArray | None = None
) -> None:
    """Kernels do not look at the size of an array."""
    D, K = _features(campaign), campaign.settings.model.dimension
    wanted = [(linear, (D + 1,)), (other, (D + 1,)), (interaction, (D, K))]
    if any(one is not None and (one.shape != shape or one.dtype != np.float64) for one, shape in wanted):
        raise UsageError("a model has not the size that the campaign calls for")


def _features(campaign: Campaign) -> int:
    return len(campaign.encoding.names())
