"""A campaign begins with a charter; when its sum of visits is open, an edition follows. Pure: no store and no clock.

What the recommender works out here it works out from the opened sum and from what is public, and all of it is
published. It must come to the same bits as evaluate/counting.py and features/planning.py in a simulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Generic, TypeVar

import msgspec
import numpy as np
from h3.api import basic_int as h3

from prirec.contract.campaign import Campaign, cohorts_by, deployable, seed_of
from prirec.contract.catalogue import Popular
from prirec.contract.documents import VERSION, Charter, Document, Edition, Line, People, octets
from prirec.engines.codes import codes_for
from prirec.errors import DataError, UsageError
from prirec.features.encoding import Encoding
from prirec.features.planning import with_popularity
from prirec.features.popularity import OwnCounts
from prirec.geography import located
from prirec.graph.cohorts import NO_CELL
from prirec.privacy.budget import sized
from prirec.privacy.post_processing import Shrunk, shrunk
from prirec.privacy.posterior import Gamma
from prirec.privacy.surroundings import nearby_means
from prirec.privacy.weighted_popularity import NoisySums
from prirec.protocols.noise import share_for
from prirec.recommender.catalogue import Catalogue, Documents, page
from prirec.settings import Settings
from prirec.settings_check import check
from prirec.settings_file import dump
from prirec.types import RealArray, RingArray

_ENOUGH = 1000  # places that show whether there are surroundings

_Kind = TypeVar("_Kind", bound=Document)


@dataclass(frozen=True, slots=True)
class Issued(Generic[_Kind]):
    """A document for the log to name, with everything that it names itself and that is new."""

    document: _Kind
    catalogue: Catalogue = field(repr=False)
    documents: Documents = field(repr=False)  # the document itself is the last

    @property
    def name(self) -> bytes:
        return self.documents[-1][0]


def charter(
    catalogue: Catalogue, people: Sequence[Line], *, deployment: bytes, campaign: int, recommender: bytes,
    settings: Settings, encoding: Encoding,
) -> Issued[Charter]:  # fmt: skip
    """What a campaign starts from. Everything that devices would refuse later is refused here."""
    roster = People(tuple(sorted(people, key=lambda line: line.name)))
    _refuse_odd_people(roster.lines)
    _refuse_odd_encoding(encoding)
    many, listed = len(roster.lines), page(roster)
    features = len(encoding.names()) + columns(catalogue)
    settled = sized(deployable(check(settings)), people=many, features=features)
    codes_for(settled, people=many, places=len(catalogue.known), features=features)  # refuses what no ring could hold
    document = Charter(
        version=VERSION,
        deployment=deployment,
        campaign=campaign,
        recommender=recommender,
        settings=dump(settled),
        encoding=encoding.to_json(),
        people=listed[0],
        many=many,
        manifest=catalogue.name,
        places=len(catalogue.known),
    )
    Campaign.of(document).popularity()  # and so are terms
    return Issued(document, catalogue, [*catalogue.documents, listed, page(document)])


def columns(catalogue: Catalogue) -> int:
    """How many columns of popularity there will be, but for those that turn out to be the same everywhere."""
    some = catalogue.known.location[located(catalogue.known.location)][:_ENOUGH]
    return 1 + bool(nearby_means(some, np.zeros(len(some))).shape[1])


def edition(
    campaign: Campaign, catalogue: Catalogue, people: Sequence[Line], *, opened: RingArray, survivors: int,
    rostered: int,
) -> Issued[Edition]:  # fmt: skip
    """From the sum of visits as it was opened, over so many survivors of a roster of so many."""
    release = noisy(campaign, opened, survivors=survivors, rostered=rostered)
    found = shrunk(release, location=catalogue.known.location, features=_public(catalogue))
    encoding = with_popularity(campaign.encoding, found.columns)
    popular = _popular(release, found, names=tuple(block.column for block in encoding.popularity))
    counted = catalogue.with_counts(popular)
    seed = seed_of(campaign.name, octets(opened, np.uint64))
    cohort = cohorts_by(people, msgspec.structs.replace(campaign.settings, seed=seed))
    document = Edition(
        charter=campaign.name,
        encoding=encoding.to_json(),
        manifest=counted.name,
        shape=popular.shape,
        sigma=popular.sigma,
        seed=seed,
        cohorts=int(cohort.max()) + 1,
    )
    return Issued(document, counted, [*counted.documents, page(document)])


def noisy(campaign: Campaign, opened: RingArray, *, survivors: int, rostered: int) -> NoisySums:
    """The sum in units of a person's norm, and the noise that it is known to have: the survivors' shares, as the signed
    terms size them for this roster. Nobody's own part is known here."""
    task, bits = campaign.popularity(), campaign.visits.norm.fraction_bits
    if opened.shape != (task.terms.length,) or opened.dtype != np.uint64:
        raise UsageError("the opened sum has not one entry of the ring for each place")
    variance = share_for(task.terms, rostered).total_variance(survivors)
    sums = opened.view(np.int64).astype(np.float64) * 2.0**-bits
    none = OwnCounts(len(opened), np.empty(0, dtype=np.int64), np.empty(0))
    return NoisySums(sums, sqrt(variance) * 2.0**-bits, none)


def _public(catalogue: Catalogue) -> RealArray | None:
    features = catalogue.known.features.astype(np.float64)
    return features if features.shape[1] else None


def _popular(release: NoisySums, found: Shrunk, *, names: tuple[str, ...]) -> Popular:
    """Columns that are the same everywhere are left out: no feature is made of them."""
    nothing, released = np.zeros(len(release.sums)), [found.columns[name] for name in names]
    predicted, shape = (found.prior.predicted, found.prior.shape) if isinstance(found.prior, Gamma) else (nothing, 0.0)
    return Popular(
        names=names,
        released=np.stack(released, axis=1) if released else np.empty((len(nothing), 0)),
        sums=release.sums,
        predicted=predicted,
        weight=found.weight,
        sigma=release.sigma,
        shape=shape,
    )


def _refuse_odd_people(lines: Sequence[Line]) -> None:
    if len({line.name for line in lines}) < len(lines):
        raise UsageError("a device is on the roster twice")
    if not all(line.cell == NO_CELL or h3.is_valid_cell(line.cell) for line in lines):
        raise UsageError("a device on the roster names a cell that is none of h3's")


def _refuse_odd_encoding(encoding: Encoding) -> None:
    if encoding.popularity:
        raise UsageError("a charter's encoding has no popularity: it comes with the edition")
    if not encoding.names():
        raise DataError("there is no feature to learn from: give places or schema.toml columns, or coordinates")
