"""What is published for recommending, and what a catalogue is published from. Pure, but for the folder that is read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from prirec.contract.campaign import Campaign, cohorts_by
from prirec.contract.documents import Line, Publication, Start, octets, written
from prirec.data.dataset import Places
from prirec.data.folder import read_public
from prirec.engines.starts import Starts, starts_of
from prirec.errors import DataError, UsageError
from prirec.features.encoding import Encoding
from prirec.features.planning import plan_declared
from prirec.protocols.prediction import PlacePart
from prirec.recommender.catalogue import Catalogue, page
from prirec.recommender.editions import Issued
from prirec.settings import Features
from prirec.types import RealArray


@dataclass(frozen=True, slots=True)
class Source:
    """A catalogue before it is packed, and the encoding that devices will use; popularity has no part in it yet."""

    places: Places = field(repr=False)
    encoding: Encoding = field(repr=False)
    notes: tuple[str, ...] = ()  # in plain sentences, what looks odd


def from_folder(path: Path, settings: Features, *, timed: bool = True) -> Source:
    """From `pois` and schema.toml of a data folder; no file with people or visits is opened. Private columns are those
    that schema.toml names as [users.*] and [visits.*]: devices are asked for them, and keep them."""
    if not path.is_dir():
        raise DataError("there is no such folder; places are published from its pois.csv or pois.parquet", file=path)
    public = read_public(path)
    encoding = plan_declared(public.places, public.schema, settings, timed=timed)
    return Source(public.places, encoding, public.notes)


def publication(
    campaign: Campaign, catalogue: Catalogue, people: Sequence[Line], *, iteration: int, V: RealArray, means: RealArray
) -> Issued[Publication]:  # fmt: skip
    """V after so many rounds, the places' half of Eq. (1) under it, and where people who are new start.

    The catalogue is the edition's, with popularity; means (C, D + 1) are what cohorts opened last, 0 where one never
    did. All of it has been opened already, so nobody pays for it."""
    if campaign.edition is None:
        raise UsageError("a model is published under an edition")
    encoding = campaign.encoding
    features = len(encoding.names())
    if V.shape != (features, campaign.settings.model.dimension) or means.shape[1:] != (features + 1,):
        raise UsageError("V and the means have not the size that the edition's encoding calls for")
    first = encoding.width(encoding.person)
    parted = catalogue.with_parts(PlacePart.of(V, catalogue.known.catalogue(encoding), first=first))
    document = Publication(
        edition=written(campaign.edition)[0],
        iteration=iteration,
        interaction=octets(V, np.float64),
        manifest=parted.name,
        starts=_starts(starts_for(campaign, people, means)),
    )
    return Issued(document, parted, [*parted.documents, page(document)])


def starts_for(campaign: Campaign, people: Sequence[Line], means: RealArray) -> Starts:
    """From the roster, which is public, and the means of its cohorts."""
    cells = np.array([line.cell for line in people], dtype=np.uint64)
    return starts_of(cells, cohorts_by(people, campaign.settings), means=means, floor=campaign.settings.floor)


def _starts(found: Starts) -> tuple[Start, ...]:
    rows = zip(found.cells.tolist(), found.models, strict=True)
    return tuple(Start(cell, octets(model, np.float64)) for cell, model in rows)
