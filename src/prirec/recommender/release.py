"""What the recommender publishes: the catalogue by region, a charter, an edition (popularity), scales and models.

A region is an h3 cell; devices download whole regions, from any cache.
Places without coordinates are in a region of their own, which everyone downloads. What does not change from one edition
to the next keeps its bytes and its name, and is not downloaded again. All of it is a pure function of public data and
opened sums: no store and no clock.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Generic, Self, TypeAlias, TypeVar

import msgspec
import numpy as np

from prirec.config import Features, Settings, check, dump
from prirec.data.dataset import Places
from prirec.data.folder import read_public
from prirec.errors import DataError, StateError, UsageError
from prirec.features.columns import Columns, Moments, WordScales
from prirec.features.encoding import Encoding, encode_columns, from_json, plan_declared_encoding, with_popularity
from prirec.features.popularity import OwnCounts, Scale, average_column
from prirec.graph.matching import coarse_cells
from prirec.model.shared_model import SharedModel
from prirec.privacy.plan import with_parts
from prirec.privacy.popularity_estimate import (
    NEARBY,
    POPULARITY,
    CityAverage,
    neighbourhoods_of,
    public_average,
    public_estimate,
)
from prirec.privacy.quality_figures import Estimate
from prirec.privacy.quality_figures import read as read_figures
from prirec.privacy.weighted_popularity import NoisySums, split
from prirec.protocols.terms import round_codes
from prirec.rounds.definition import noise_shares
from prirec.types import IndexArray, RealArray, RingArray
from prirec.util.geography import located
from prirec.wire import documents
from prirec.wire.campaign import Basis, Campaign, deployable, write_model, write_scales
from prirec.wire.documents import (
    LIMIT,
    START_VERSION,
    VERSION,
    AverageOfCity,
    Charter,
    Counts,
    Document,
    Edition,
    EditionWithAverages,
    Figure,
    FigureName,
    Figures,
    Head,
    Manifest,
    Offer,
    RegionLine,
    Roster,
    Scales,
    Start,
    octets,
    read,
    written,
)
from prirec.wire.http import FINEST_CELL, refuse_oversized
from prirec.wire.regions import AverageKnown, Fetch, KnownPlaces, PlacePopularity, read_regions
from prirec.wire.settings import CampaignSettings

Documents: TypeAlias = list[tuple[bytes, bytes]]  # names and bodies; the last one names the others

RESOLUTION = 5  # cells of about 250 km²
LONGEST_WORDS = 200


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All regions of a catalogue, and those of its documents that are new."""

    manifest: Manifest
    known: KnownPlaces = field(repr=False)  # all J places, in the catalogue's order
    documents: Documents = field(repr=False, default_factory=list)

    @classmethod
    def read(cls, name: bytes, fetch: Fetch, *, basis: Basis) -> Self:
        """A catalogue that was published before, from the recommender's documents; none of them is new."""
        manifest = read(Manifest, fetch(name), name=name)
        found = read_regions(manifest, fetch, basis=basis)
        if len(found) != basis.offered.places:
            raise StateError("the catalogue in the store has not the places that it was offered with")
        return cls(manifest, found)

    @property
    def name(self) -> bytes:
        """SHA-256 of the manifest."""
        return written(self.manifest)[0]

    def with_counts(self, popular: PlacePopularity) -> Self:
        """The catalogue with popularity in each region."""
        some = (popular.take(rows) for rows in _by_region(self.known))
        pages = [
            Counts(
                cell=line.cell,
                released=octets(one.released, np.float64),
                sums=octets(np.column_stack([one.sums, one.values]), np.float64),
                predicted=octets(one.predicted, np.float64),
                weight=octets(one.weight, np.float64),
            )
            for line, one in zip(self.manifest.regions, some, strict=True)
        ]
        found = [document_page(one) for one in pages]
        lines = [
            msgspec.structs.replace(line, counts=name)
            for line, (name, _) in zip(self.manifest.regions, found, strict=True)
        ]
        manifest = msgspec.structs.replace(self.manifest, regions=tuple(lines))
        return type(self)(manifest, replace(self.known, popular=popular), [*found, document_page(manifest)])


def pack_regions(places: Places, encoding: Encoding, *, resolution: int = RESOLUTION) -> Catalogue:
    """The catalogue before anything is known of visits: ids, descriptions, locations and static features X^j."""
    if not 0 <= resolution <= FINEST_CELL:
        raise UsageError(f"regions are h3 cells of resolution 0 to {FINEST_CELL}")
    known = _known(places, encoding, resolution=resolution)
    some = zip(_by_region(known), known.cells, strict=True)
    pages = [document_page(_places(known.take(rows), cell)) for rows, cell in some]
    lines = tuple(RegionLine(cell, name) for cell, (name, _) in zip(known.cells, pages, strict=True))
    manifest = Manifest(resolution, lines)
    return Catalogue(manifest, known, [*pages, document_page(manifest)])


def document_page(document: Document) -> tuple[bytes, bytes]:
    """A document's name and bytes. UsageError if it is larger than devices accept."""
    name, body = written(document)
    if len(body) > LIMIT:
        raise UsageError("a region has more places than fit into one document: publish by a finer resolution")
    return name, body


def _by_region(known: KnownPlaces) -> list[IndexArray]:
    """Row numbers of the places of each region."""
    ends = np.cumsum(np.bincount(known.region, minlength=len(known.cells)))
    return np.split(np.argsort(known.region, kind="stable").astype(np.int32), ends[:-1])


def _known(places: Places, encoding: Encoding, *, resolution: int) -> KnownPlaces:
    _check_ids(places.ids)
    features = encode_columns(encoding.place, places.columns, len(places))
    if not np.isfinite(features).all():
        raise DataError("a feature of a place is not a finite number; NaN is for what is unknown")
    location = _whole(places)
    cells, region = np.unique(coarse_cells(location, resolution), return_inverse=True)
    return KnownPlaces(
        cells=tuple(cells.tolist()),
        ids=places.ids,
        words=tuple(_shown(places.about(row)) for row in range(len(places))),
        rows=np.arange(len(places), dtype=np.int32),
        location=location,
        features=features,
        region=region.astype(np.int32),
    )


def _whole(places: Places) -> RealArray:
    """Locations, shape (J, 2); NaN in both columns where one is missing."""
    if places.location is None:
        return np.full((len(places), 2), np.nan)
    return np.where(located(places.location)[:, None], places.location, np.nan)


def _check_ids(ids: Sequence[str]) -> None:
    """DataError for ids that devices could not show, and would refuse."""
    if not ids:
        raise DataError("there is no place to publish")
    if len(set(ids)) < len(ids):
        raise DataError("the id of a place is there twice")
    if not all(one.isprintable() for one in ids):
        raise DataError("the id of a place has characters in it that cannot be shown; write it without them")


def _shown(text: str) -> str:
    """A description in one line, without characters that a terminal would act on (escape sequences)."""
    plain = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return plain if len(plain) <= LONGEST_WORDS else plain[: LONGEST_WORDS - 1] + "…"


def _places(region: KnownPlaces, cell: int) -> documents.Places:
    return documents.Places(
        cell=cell,
        ids=region.ids,
        words=region.words,
        rows=octets(region.rows, np.int32),
        location=octets(region.location, np.float64),
        features=octets(region.features, np.float32),
    )


# A campaign begins with a charter; when its sum of visits is opened, the popularity release (edition) follows. It must
# come to the same bits as simulate/popularity.py and features/encoding.py in a simulation.


_Kind = TypeVar("_Kind", bound=Document)


@dataclass(frozen=True, slots=True)
class NewDocuments(Generic[_Kind]):
    """A document for the log to name, with all new documents that it names in turn."""

    document: _Kind
    catalogue: Catalogue = field(repr=False)
    documents: Documents = field(repr=False)  # the document itself is the last

    @property
    def name(self) -> bytes:
        return self.documents[-1][0]


@dataclass(frozen=True, slots=True)
class Operators:
    """The two operators of a campaign: the helper, the box keys of both, and how many people a sum is sized for."""

    helper: bytes
    leader_box: bytes
    helper_box: bytes
    most: int


def make_charter(
    catalogue: Catalogue, people: Sequence[bytes], *, deployment: bytes, campaign: int, recommender: bytes,
    settings: Settings, encoding: Encoding, operators: Operators | None = None,
) -> NewDocuments[Charter]:  # fmt: skip
    """The charter: what a campaign starts from. Everything that devices would refuse later is refused here. Over two
    operators there is no roster: whoever is enrolled when a window opens may report."""
    if len(set(people)) < len(people):
        raise UsageError("a device is on the roster twice")
    _check_encoding(encoding)
    allowed, wide = deployable(check(with_averages(settings, encoding))), most_columns(encoding, catalogue)
    refuse_oversized(allowed, wide, places=len(catalogue.known), campaign=campaign)
    sized = len(people) if operators is None else operators.most
    size, city = Columns.of(wide).size, {"people": sized, "places": len(catalogue.known)}
    settled = with_parts(allowed, size=size, **city)
    # Called for its refusals: UsageError if a sum could wrap in the ring.
    round_codes(settled, size=size, **city)
    document = Charter(
        version=VERSION,
        deployment=deployment,
        campaign=campaign,
        recommender=recommender,
        settings=CampaignSettings.of(settled),
        encoding=encoding.to_json(),
        people=b"",
        many=0,
        manifest=catalogue.name,
        places=len(catalogue.known),
    )
    if operators is not None:
        keys = {name: getattr(operators, name) for name in ("helper", "leader_box", "helper_box", "most")}
        document = msgspec.structs.replace(document, **keys)
        held = Campaign.of(document)
        held.joint(held.window("popularity", 0, people=sized, listed=Head(), opens=0, closes=0))  # likewise, see below
        return NewDocuments(document, catalogue, [*catalogue.documents, document_page(document)])
    roster = Roster(tuple(sorted(people)))
    document = msgspec.structs.replace(document, people=written(roster)[0], many=len(people))
    Campaign.of(document).popularity()  # UsageError if the terms of its first sum are impossible
    return NewDocuments(document, catalogue, [*catalogue.documents, document_page(roster), document_page(document)])


def most_columns(encoding: Encoding, catalogue: Catalogue) -> Encoding:
    """The encoding with all columns of popularity that an edition may have: those that turn out constant are left out
    later. The budget is split by it before anything is collected, so that no part of it follows from anybody's data."""
    located_places = int(located(catalogue.known.location).sum())
    names = (POPULARITY, NEARBY) if neighbourhoods_of(located_places) else (POPULARITY,)
    averages = (average_column(one.column) for one in encoding.averages)
    return with_popularity(encoding, dict.fromkeys((*names, *averages), np.arange(2.0)))


def with_averages(settings: Settings, encoding: Encoding) -> Settings:
    """The settings with what the catalogue says is averaged. UsageError where they name anything else."""
    named = tuple(one.column for one in encoding.averages)
    if settings.features.averages not in ((), named):
        raise UsageError(
            f"the catalogue was published with averages of {', '.join(named) or 'nothing'}, and devices know of these; "
            "publish it again with the features.averages that are to be collected"
        )
    return msgspec.structs.replace(settings, features=msgspec.structs.replace(settings.features, averages=named))


def popularity_release(
    campaign: Campaign, catalogue: Catalogue, *, opened: RingArray, survivors: int, rostered: int
) -> NewDocuments[Edition]:
    """The edition: popularity, and averages over visits, from the opened sum of visits, over so many survivors of a
    roster of so many."""
    averages, features = campaign.encoding.averages, catalogue.known.features.astype(np.float64)
    release = noisy_sums(campaign, opened, survivors=survivors, rostered=rostered)
    counts, *values = split(release, 1 + len(averages))
    found = public_estimate(counts, location=catalogue.known.location, features=features if features.shape[1] else None)
    columns, visitors, known = dict(found.columns), found.columns[POPULARITY], list[AverageKnown]()
    for one, mine in zip(averages, values, strict=True):
        name, scale = average_column(one.column), Scale(one.low, one.high)
        city, columns[name] = public_average(visitors, mine, scale)
        known.append(AverageKnown(name, scale, city))
    encoding = with_popularity(campaign.encoding, columns)
    names = tuple(block.column for block in encoding.popularity)
    popular = PlacePopularity(
        names=names,
        released=np.stack([columns[name] for name in names], axis=1) if names else np.empty((len(counts.sums), 0)),
        sums=counts.sums,
        predicted=found.prior.predicted,
        weight=found.weight,
        sigma=release.sigma,
        shape=found.prior.shape,
        values=np.stack([one.sums for one in values], axis=1) if values else np.empty((len(counts.sums), 0)),
        averages=tuple(known),
    )
    counted = catalogue.with_counts(popular)
    document = Edition(
        charter=campaign.name,
        encoding=encoding.to_json(),
        manifest=counted.name,
        shape=popular.shape,
        sigma=popular.sigma,
    )
    if known:
        cities = tuple(_of_city(one.city, *one.city.errors(visitors, release.sigma)) for one in known)
        document = EditionWithAverages(**msgspec.structs.asdict(document), averages=cities)
    return NewDocuments(document, counted, [*counted.documents, document_page(document)])


def _of_city(city: CityAverage, noise: float, error: float) -> AverageOfCity:
    return AverageOfCity(city.middle, city.spread, noise, error)


def noise_in_sum(campaign: Campaign, wanted: int, *, survivors: int, rostered: int) -> Fraction:
    """Variance of the noise in an opened sum, in squared whole numbers: the survivors' shares of a roster of so many,
    or both operators' draws, however many came."""
    return noise_shares(wanted, rostered=rostered, settings=campaign.settings).total_variance(survivors)


def noisy_sums(campaign: Campaign, opened: RingArray, *, survivors: int, rostered: int) -> NoisySums:
    """The sum in units of a person's norm, with the standard deviation of its noise: the survivors' shares of noise, as
    the signed terms size them for this roster. No person's own part is known to the recommender."""
    release, bits = campaign.visits, campaign.visits.norm.fraction_bits
    if opened.shape != (release.of.length,) or opened.dtype != np.uint64:
        raise UsageError("the opened sum has not one entry of the ring for each place")
    variance = noise_in_sum(campaign, release.wanted_whole, survivors=survivors, rostered=rostered)
    sums = opened.view(np.int64).astype(np.float64) * 2.0**-bits
    none = OwnCounts(len(opened), np.empty(0, dtype=np.int64), np.empty(0))
    return NoisySums(sums, sqrt(variance) * 2.0**-bits, none)


def moments_release(
    campaign: Campaign, catalogue: Catalogue, *, opened: RingArray, survivors: int, rostered: int
) -> tuple[Moments, Scales]:
    """What the opened sum of moments says, and the scales that follow from it and from the whole catalogue."""
    if campaign.edition is None:
        raise UsageError("moments are summed under an edition")
    if opened.shape != (campaign.columns.moments.length,):
        raise UsageError("the opened sum has not the length of a vector of moments")
    noise = noise_in_sum(campaign, campaign.rules.codes.moments.noise, survivors=survivors, rostered=rostered)
    moments = campaign.rules.moments(opened, survivors=survivors, noise=noise)
    words = WordScales.of(catalogue.known.features, campaign.columns)
    return moments, write_scales(written(campaign.edition)[0], campaign.columns, moments, words)


def quality_release(campaign: Campaign, model: bytes, *, opened: RingArray, reports: int) -> Figures:
    """What the opened sum of quality figures says of the published model, over so many reports."""
    release = campaign.figures
    if opened.shape != (release.of.length,):
        raise UsageError("the opened sum has not the length of a vector of quality figures")
    total = opened.view(np.int64)
    noise = noise_in_sum(campaign, release.wanted_whole, survivors=reports, rostered=reports)
    try:
        found = read_figures(total, norm=release.norm, noise_variance=noise)
    except UsageError:  # noise drowns all of them
        return Figures(model, reports, octets(total, np.int64), ())
    estimates: list[tuple[FigureName, Estimate | None]] = [
        ("auc", found.auc), ("log_loss", found.log_loss), ("base_rate", found.base_rate), ("hit_rate", found.hit_rate)
    ]  # fmt: skip
    figures = tuple(Figure(name, one.value, one.noise, one.sampling) for name, one in estimates if one is not None)
    return Figures(model, reports, octets(total, np.int64), figures)


# A starting model, for devices to recommend with before a campaign has published one


@dataclass(frozen=True, slots=True)
class StartingModel:
    """A shared model that was trained elsewhere, with what it was trained under: `prirec.Fit.starting_model`."""

    settings: Settings
    encoding: Encoding = field(repr=False)  # with popularity
    model: SharedModel = field(repr=False)
    moments: Moments = field(repr=False)
    places: tuple[str, ...] = field(repr=False)  # whose popularity is known,
    popularity: Mapping[str, RealArray] = field(repr=False)  # by column

    @property
    def promise(self) -> str:
        """Preset and ε of its training."""
        return training_in_words(self.settings)


def training_in_words(settings: Settings) -> str:
    """Its preset, and its budget."""
    epsilon = settings.privacy.epsilon_per_user
    within = "without a privacy budget" if epsilon is None else f"with a simulated budget of ε = {epsilon:g}"
    return f"preset {settings.preset}, {within}"


def start_release(offer: Offer, catalogue: Catalogue, start: StartingModel) -> NewDocuments[Start]:
    """The documents of a starting model for a catalogue. Popularity is that of the training; a place that is new has
    what places have on average. UsageError if it was trained on other features than devices would use here."""
    refuse_unfit_start(from_json(offer.encoding), catalogue.known.ids, start)
    columns, shared = Columns.of(start.encoding), start.model
    names = tuple(block.column for block in start.encoding.popularity)
    released, none = _released_to(catalogue.known.ids, start, names), np.zeros(len(catalogue.known))
    popular = PlacePopularity(names, released, none, none, none, 1.0, 0.0, np.empty((len(none), 0)))
    counted = catalogue.with_counts(popular)
    edition = document_page(Edition(written(offer)[0], start.encoding.to_json(), counted.name, shape=0.0, sigma=1.0))
    scales = document_page(write_scales(edition[0], columns, start.moments, shared.words))
    B = np.zeros(columns.groups.shape)
    B[0], B[1:, columns.layout.crossed] = shared.everyone, shared.crossing
    model = document_page(write_model(scales[0], columns, B, iteration=start.settings.iterations))
    # the seed is nobody's business: the noise of a simulation follows from it
    settings = dump(msgspec.structs.replace(start.settings, seed=0))
    document = Start(START_VERSION, model[0], settings)
    pages = [*counted.documents, edition, scales, model, document_page(document)]
    return NewDocuments(document, counted, pages)


def refuse_unfit_start(encoding: Encoding, places: Sequence[str], start: StartingModel) -> None:
    """UsageError if devices could not use the model, and what to do about it. Places must be described alike, since
    their features are published; of people and visits it may use less than the deployment declares, in any order."""
    again = "train on the folder that is published, with data.keep = 'all', so that no place is left out"
    known = len(set(places) & set(start.places))
    if 2 * known < len(places):
        raise UsageError(
            f"the starting model knows {known:,} of the {len(places):,} places: it is of another city; {again}"
        )
    if start.encoding.place != encoding.place:
        other = {block.column for block in start.encoding.place} ^ {block.column for block in encoding.place}
        raise UsageError(f"the starting model describes places otherwise{_named(other)}; {again}")
    for whose, mine, theirs in (
        ("people", start.encoding.person, encoding.person), ("visits", start.encoding.context, encoding.context)
    ):  # fmt: skip
        if unknown := {block.column for block in mine if block not in theirs}:
            raise UsageError(
                f"the starting model describes {whose} by what devices do not use{_named(unknown)}: declare it in "
                f"schema.toml as it was in training, or {again}"
            )


def _named(columns: Collection[str]) -> str:
    return f" ({', '.join(sorted(columns))})" if columns else ""


def _released_to(places: Sequence[str], start: StartingModel, names: Sequence[str]) -> RealArray:
    """(n, columns): the popularity of these places."""
    row = {place: at for at, place in enumerate(start.places)}
    at = np.array([row.get(place, len(row)) for place in places], dtype=np.int64)
    columns = [np.append(start.popularity[name], np.mean(start.popularity[name]))[at] for name in names]
    return np.stack(columns, axis=1) if columns else np.empty((len(places), 0))


def _check_encoding(encoding: Encoding) -> None:
    if encoding.popularity:
        raise UsageError("a charter's encoding has no popularity: it comes with the edition")
    if not encoding.names():
        raise DataError("there is no feature to learn from: give places or schema.toml columns, or coordinates")


# What a catalogue is published from


@dataclass(frozen=True, slots=True)
class CatalogueSource:
    """Places to publish, and the encoding that devices will use, as yet without popularity."""

    places: Places = field(repr=False)
    encoding: Encoding = field(repr=False)
    notes: tuple[str, ...] = ()  # sentences about what looks odd in the data


def from_folder(path: Path, settings: Features, *, timed: bool = True) -> CatalogueSource:
    """Read `pois` and schema.toml of a data folder; no file with people or visits is opened. Columns that schema.toml
    names as [users.*] and [visits.*] are private: devices ask their person for them, and never send them."""
    if not path.is_dir():
        raise DataError("there is no such folder; places are published from its pois.csv or pois.parquet", file=path)
    public = read_public(path)
    encoding = plan_declared_encoding(public.places, public.schema, settings, timed=timed)
    return CatalogueSource(public.places, encoding, public.notes)
