"""A publication as a device uses it: V, and where somebody new starts. PeerError for what does not fit its edition."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from h3.api import basic_int as h3

from prirec.contract.campaign import Campaign
from prirec.contract.documents import Publication, array, written
from prirec.engines.starts import Starts
from prirec.errors import Fault, PeerError, UsageError
from prirec.graph.cohorts import NO_CELL
from prirec.types import RealArray


@dataclass(frozen=True, slots=True)
class Published:
    """A model to recommend with."""

    interaction: RealArray = field(repr=False)  # V (D, K)
    starts: Starts = field(repr=False)


def read_publication(publication: Publication, *, campaign: Campaign) -> Published:
    """Under the campaign whose edition the publication names."""
    if campaign.edition is None:
        raise UsageError("a publication is read under its edition")
    if publication.edition != written(campaign.edition)[0]:
        raise PeerError(Fault.PARAMS_MISMATCH, "a publication is of another edition")
    features = len(campaign.encoding.names())
    V = array(publication.interaction, np.float64, (features, campaign.settings.model.dimension))
    models = [array(one.model, np.float64, (features + 1,)) for one in publication.starts]
    cells = [one.cell for one in publication.starts]
    if not cells or cells[0] != NO_CELL or not all(a < b and h3.is_valid_cell(b) for a, b in pairwise(cells)):
        raise _misfit("there is no start for everywhere, or the others are not for cells, in order")
    if not all(np.isfinite(values).all() for values in (V, *models)):
        raise _misfit("a number is not finite")
    return Published(V, Starts(np.array(cells, dtype=np.uint64), np.stack(models)))


def _misfit(problem: str) -> PeerError:
    return PeerError(Fault.DECODE, f"the publication does not fit together: {problem}")
