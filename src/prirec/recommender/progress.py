"""How far a campaign has come, and what each opened sum leads to: rules only. The conductor gathers sums, and writes
what follows from here in one transaction with the fact that they were opened.

visits -> (mixing -> learning) for each round -> over. A sum that was not opened changes nothing: V or a mean stays as
it was, and the campaign goes on. Without the sum of visits there is nothing to go on with, and if V never moved nothing
to publish: the campaign has failed.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from prirec.contract.campaign import Campaign
from prirec.contract.documents import Edition, MaybeDigest, Mean, Model, array, octets, written
from prirec.damage import NOT_DECODED
from prirec.engines.randomness import generator
from prirec.errors import StateError
from prirec.model import adam
from prirec.model.adam import Moments, no_moments
from prirec.protocols.actions import Finished
from prirec.protocols.codec import bitmap
from prirec.protocols.messages import Digest, Natural, Part
from prirec.types import RealArray

MOST_PAST = 1000  # sums that are over: so many are told of, the last

Documents = list[tuple[bytes, bytes]]


class Past(Part, frozen=True):
    """What one sum came to, for whoever runs the deployment."""

    kind: str
    iteration: Natural
    opened: Natural  # sums: cohorts, or the one over everyone
    gathered: Natural  # sums that were begun
    survivors: Natural
    rostered: Natural


class Progress(Part, frozen=True, tag="prirec progress"):
    """Public, all of it: nothing but opened sums and what is made of them."""

    charter: Digest
    phase: Literal["visits", "mixing", "learning", "over", "failed"]
    iteration: Natural = 0
    attempt: Natural = 0
    edition: MaybeDigest = b""
    shape: tuple[Natural, Natural] = (0, 0)  # D, K
    interaction: bytes = b""
    first: bytes = b""  # Adam's moments
    second: bytes = b""
    steps: Natural = 0
    means: bytes = b""  # float64 (C, D + 1)
    past: Annotated[tuple[Past, ...], Meta(max_length=200_000)] = ()

    @property
    def ended(self) -> bool:
        return self.phase in ("over", "failed")

    @property
    def V(self) -> RealArray:  # noqa: N802  the paper's name
        return array(self.interaction, np.float64, self.shape)

    @property
    def moments(self) -> Moments:
        return Moments(
            array(self.first, np.float64, self.shape), array(self.second, np.float64, self.shape), self.steps
        )  # fmt: skip

    @property
    def centres(self) -> RealArray:
        return array(self.means, np.float64, (-1, self.shape[0] + 1))


_decoder: msgspec.msgpack.Decoder[Progress] = msgspec.msgpack.Decoder(Progress)


def read(data: bytes) -> Progress:
    """What the conductor has written itself."""
    try:
        return _decoder.decode(data)
    except NOT_DECODED:
        raise StateError("the store's account of the campaign is damaged; restore the store from a backup") from None


def first_round(progress: Progress, campaign: Campaign) -> tuple[Progress, Documents]:
    """The sum of visits is open: V starts small and random, from the public seed, and every model at 0."""
    edition, s = _edition(campaign), campaign.settings
    features = len(campaign.encoding.names())
    shape = (features, s.model.dimension)
    V = generator(s.seed, "start of V").normal(0.0, s.model.spread, size=shape)
    none = no_moments(shape)
    begun = _replace(
        progress,
        phase="learning",  # the first round mixes nothing
        attempt=0,
        edition=written(edition)[0],
        shape=shape,
        means=octets(np.zeros((edition.cohorts, features + 1)), np.float64),
        **_learnt(V, none),
    )
    return begun, model_of(begun, mixed=True)


def after_mixing(progress: Progress, campaign: Campaign, opened: Mapping[int, Finished]) -> tuple[Progress, Documents]:
    """Steps (b) and (c): each cohort's new mean, around its last one."""
    means, ring = progress.centres, campaign.rounds.linear.ring
    for cohort, total in opened.items():
        means[cohort] = means[cohort] + ring.decode(total.total) / total.summands
    mixed = _replace(progress, phase="learning", attempt=0, means=octets(means, np.float64))
    return mixed, model_of(mixed, mixed=True, opened=sorted(opened))


def after_learning(progress: Progress, campaign: Campaign, opened: Finished | None) -> tuple[Progress, Documents]:
    """Step (f): V moves on, if its sum was opened, and the next round begins; after the last one there is none."""
    settings, after = campaign.settings, progress.iteration + 1
    learnt: dict[str, object] = {}
    if opened is not None:
        mean = campaign.rounds.interaction.ring.decode(opened.total) / opened.summands
        V, moments = adam.move(
            progress.V, mean, progress.moments, alpha=settings.interaction.alpha, lambda_v=settings.model.lambda_v
        )
        learnt = _learnt(V, moments)
    phase = "over" if after == settings.iterations else "mixing"
    moved = _replace(progress, phase=phase, attempt=0, iteration=after, **learnt)
    return moved, [] if phase == "over" else model_of(moved, mixed=False)


def model_of(progress: Progress, *, mixed: bool, opened: Sequence[int] = ()) -> Documents:
    """V and the cohorts' means as they are published; the model itself is the last."""
    means = [
        written(Mean(number, octets(mean, np.float64))) for number, mean in enumerate(progress.centres)
    ]  # fmt: skip
    model = Model(
        progress.edition, progress.iteration, mixed, progress.interaction, tuple(name for name, _ in means),
        bitmap(opened, size=len(means)),
    )  # fmt: skip
    return [*means, written(model)]


def noted(progress: Progress, past: Past) -> Progress:
    return _replace(progress, past=(*progress.past, past)[-MOST_PAST:])


def failed(progress: Progress) -> Progress:
    """Nothing follows any more, and nothing is published."""
    return _replace(progress, phase="failed")


def _learnt(V: RealArray, moments: Moments) -> dict[str, object]:
    return {
        "interaction": octets(V, np.float64),
        "first": octets(moments.first, np.float64),
        "second": octets(moments.second, np.float64),
        "steps": moments.steps,
    }


def _edition(campaign: Campaign) -> Edition:
    if campaign.edition is None:
        raise StateError("rounds begin with an edition")
    return campaign.edition


def _replace(progress: Progress, **changes: object) -> Progress:
    return msgspec.structs.replace(progress, **changes)
