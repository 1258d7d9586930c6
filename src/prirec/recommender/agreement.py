"""Whether what the recommender publishes after a sum is what the helper has computed from the same sum.

Kinds of processors and libraries compute other last bits of products and exponentials. So whatever is exact must be
the same: whole numbers, the opened sum, hashes of public inputs, which columns there are. Floats may differ within
rounding, and entries of B and of scales by the one step to which they are rounded. The helper then goes on from what
was published, so that nothing adds up.

A recommender that uses this freedom moves a number by a billionth, or an entry of B by a millionth, for everyone alike:
there is one log. No person's price depends on what is published, since the norm of each report is proven.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

import msgspec
import numpy as np

from prirec.errors import Fault, PeerError
from prirec.features.columns import FINE
from prirec.model.shared_model import FINE_B
from prirec.recommender.campaign import CampaignState, replaced
from prirec.types import RealArray
from prirec.wire.campaign import Campaign, read_encoding
from prirec.wire.documents import (
    Charter,
    Counts,
    Edition,
    Figures,
    LogEntry,
    Manifest,
    Model,
    Scales,
    array,
    octets,
    read,
)

WITHIN: Final = 1e-9  # of the largest number of its kind, or of 1 where numbers are scaled to about 1

Fetch = Callable[[bytes], bytes]


def after_entry(state: CampaignState | None, entry: LogEntry, fetch: Fetch) -> CampaignState:
    """The state of the helper's campaign when the log has the entry that it must have next. PeerError unless that is
    what the helper has computed."""
    if state is None or not state.owed or state.owed[0].subject != entry.subject:
        raise _differs()
    owed, name = state.owed[0].document, entry.document
    state = replaced(state, owed=state.owed[1:])
    if entry.subject == "edition":
        mine, theirs = (read(Edition, fetch(one), name=one) for one in (owed, name))
        _agree_on_editions(mine, theirs, fetch)
        return replaced(state, edition=name)
    if entry.subject == "scales":
        _agree_on_scales(*(read(Scales, fetch(one), name=one) for one in (owed, name)))
        return replaced(state, scales=name)
    if entry.subject == "figures":
        _agree_on_figures(*(read(Figures, fetch(one), name=one) for one in (owed, name)))
        return state
    mine_B, their_B = (read(Model, fetch(one), name=one) for one in (owed, name))
    B = _campaign(state, fetch).shared(their_B)  # refuses other scales than those that were published
    live = _campaign(state, fetch).columns.groups >= 0
    steps = np.abs(array(mine_B.shared, np.float32, (-1,)).astype(np.float64) - B[live])
    _demand(mine_B.iteration == their_B.iteration and bool((steps * FINE_B <= 1).all()))
    published = {"published": name} if entry.subject == "publication" else {}
    return replaced(state, shared=octets(B[live], np.float64), **published)


def _campaign(state: CampaignState, fetch: Fetch) -> Campaign:
    charter = read(Charter, fetch(state.charter), name=state.charter)
    edition = read(Edition, fetch(state.edition), name=state.edition)
    return Campaign.of(charter, edition, read(Scales, fetch(state.scales), name=state.scales))


def _agree_on_editions(mine: Edition, theirs: Edition, fetch: Fetch) -> None:
    encodings = (read_encoding(one.encoding) for one in (mine, theirs))
    _demand(mine.charter == theirs.charter and _alike(*(msgspec.to_builtins(one) for one in encodings)))
    _demand(_alike([mine.sigma, mine.shape], [theirs.sigma, theirs.shape]))
    manifests = [read(Manifest, fetch(one.manifest), name=one.manifest) for one in (mine, theirs)]
    lines = [[(line.cell, line.places, bool(line.counts)) for line in one.regions] for one in manifests]
    _demand(lines[0] == lines[1] and manifests[0].resolution == manifests[1].resolution)
    for pair in zip(*(one.regions for one in manifests), strict=True):
        counts = [read(Counts, fetch(line.counts), name=line.counts) for line in pair]
        _demand((counts[0].cell, counts[0].sums) == (counts[1].cell, counts[1].sums))
        _agree_on_arrays(*counts, names=("released", "predicted", "weight"))


def _agree_on_scales(mine: Scales, theirs: Scales) -> None:
    _demand(mine.edition == theirs.edition)
    _demand(_alike([mine.positive, mine.root_records], [theirs.positive, theirs.root_records]))
    _agree_on_arrays(mine, theirs, names=("person_mean", "person_sd", "moment_mean", "moment_sd"))
    _agree_on_arrays(mine, theirs, names=("word_factor", "word_centre"), step=1 / FINE)


def _agree_on_figures(mine: Figures, theirs: Figures) -> None:
    _demand(_alike(msgspec.to_builtins(mine), msgspec.to_builtins(theirs)))


def _agree_on_arrays(mine: Any, theirs: Any, *, names: tuple[str, ...], step: float = 0.0) -> None:
    for name in names:
        one, other = (array(getattr(document, name), np.float64, (-1,)) for document in (mine, theirs))
        _demand(one.shape == other.shape and _close(one, other, step))


def _close(mine: RealArray, theirs: RealArray, step: float) -> bool:
    """False where theirs are no numbers."""
    most = max(WITHIN * float(np.abs(mine).max(initial=0.0)), step)
    return bool((np.abs(mine - theirs) <= most).all())


def _alike(mine: Any, theirs: Any) -> bool:
    """Whether two values of JSON agree."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(_alike(mine[name], theirs[name]) for name in mine)
    if isinstance(mine, list | tuple) and isinstance(theirs, list | tuple):
        return len(mine) == len(theirs) and all(map(_alike, mine, theirs))
    if isinstance(mine, float) and isinstance(theirs, float) and isfinite(mine):
        return abs(mine - theirs) <= WITHIN * max(abs(mine), 1.0)
    return bool(mine == theirs)


def _demand(good: bool) -> None:  # noqa: FBT001  a condition
    if not good:
        raise _differs()


def _differs() -> PeerError:
    return PeerError(
        Fault.EQUIVOCATION,
        "the log publishes something else than follows from the sums; the helper does not sign it",
    )
