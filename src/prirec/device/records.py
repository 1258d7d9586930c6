"""A person's records, encoded on their own device: X^i, the places that the records name, and the moments.

They come to the same bits that a simulation of the whole city encodes (features/samples.py). None of them leaves the
device.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal, Self

import numpy as np

from prirec.config import Settings
from prirec.data.dataset import Dataset, People, Places, Visits
from prirec.data.prepare import POOL
from prirec.device.person import Person, Point, Visit, fitting
from prirec.errors import DataError, PrirecError
from prirec.features.columns import (
    Columns,
    Moments,
    PlaceColumns,
    columns_of_places,
    moment_rows,
    person_rows,
)
from prirec.features.encoding import (
    LARGEST,
    Encoding,
    Range,
    encode_context,
    encode_person,
    encode_popularity,
    rows_to_columns,
)
from prirec.features.history import UNKNOWN, History, only_earlier
from prirec.features.location import homes
from prirec.features.popularity import OwnCounts
from prirec.model.shared_model import OwnRecords
from prirec.sharing.keys import derive
from prirec.types import BoolArray, FeatureArray, IndexArray, LabelArray, OffsetArray, RealArray
from prirec.util.geography import haversine_km, located, unit_vectors
from prirec.util.keyed_random import mix_each
from prirec.wire.campaign import Basis, Campaign
from prirec.wire.http import most_records
from prirec.wire.regions import KnownPlaces


@dataclass(frozen=True, slots=True)
class Records:
    """All that sums and the person's own model need of a person. Encoded again when visits, profile or catalogue have
    changed."""

    person: FeatureArray = field(repr=False)  # (m,): X^i
    place: IndexArray = field(repr=False)  # (R,): positions in `places`
    context: FeatureArray = field(repr=False)  # (R, c): popularity and the moment
    label: LabelArray = field(repr=False)  # (R,)
    places: FeatureArray = field(repr=False)  # (n, p): X^j, static, of the places that the records name
    unknown: int = field(repr=False)  # visits outside the downloaded regions: nothing is learnt from them

    @property
    def offsets(self) -> OffsetArray:
        """This person's records begin and end here, where they stand for a city of one."""
        return np.array([0, len(self.place)], dtype=np.int64)

    def scaled(self, columns: Columns, moments: Moments) -> tuple[OwnRecords, PlaceColumns]:
        """The records as the shared model sees them, and the places that they name."""
        own = OwnRecords(
            person_rows(self.person[None], moments), self.offsets, self.place,
            moment_rows(self.context, columns, moments), self.label,
        )  # fmt: skip
        return own, columns_of_places(self.places, columns)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Records before encoding."""

    visits: Sequence[Visit] = field(repr=False)  # whose moment each record has
    place: IndexArray = field(repr=False)  # positions among the known places
    label: LabelArray = field(repr=False)

    def as_visits(self) -> Visits:
        return Visits(np.zeros(len(self.place), dtype=np.int32), self.place, self.label)

    def take(self, wanted: Sequence[bool]) -> Self:
        at = np.flatnonzero(wanted)
        return type(self)([self.visits[row] for row in at.tolist()], self.place[at], self.label[at])


def encode_records(person: Person, basis: Basis, known: KnownPlaces, *, negatives: bool = True) -> Records:
    """The person's records under a basis, the latest of them (`most_records`). StateError for a device that belongs to
    no deployment.

    Without `negatives`, the recorded ones alone: enough to see whether the person's data can be encoded."""
    rows, unknown = _all_rows(person, basis, known, negatives=negatives)
    return _encoded(rows, person, basis, known, learnt=rows, unknown=unknown)


def learnt_records(person: Person, campaign: Campaign, known: KnownPlaces) -> Records:
    """The records that the sums of a campaign are made of: all but those that are held out."""
    return parted_records(person, campaign, known, share=campaign.charter.settings.held_out)[0]


def parted_records(person: Person, basis: Basis, known: KnownPlaces, *, share: int) -> tuple[Records, Records]:
    """The records that are learnt from, and those that are held out. What is learnt from alone describes both, as in a
    training and in its test (features/samples.py)."""
    rows, unknown = _all_rows(person, basis, known, negatives=True)
    held = held_out(person, [visit.place for visit in rows.visits], share=share)
    learnt = rows.take([not one for one in held])
    return (
        _encoded(learnt, person, basis, known, learnt=learnt, unknown=unknown),
        _encoded(rows.take(held), person, basis, known, learnt=learnt, unknown=unknown, test=True),
    )


def held_out(person: Person, places: Sequence[str], *, share: int) -> list[bool]:
    """Which of these places this device holds out for quality figures: with all visits to it, and their negatives.

    A place is held out where a hash of its id, under a key that nobody else has, is within the share, in thousandths,
    that the charter names. So it depends on nothing that was learnt, and stays as it is when visits are added, and in
    the next campaign."""
    if not share:
        return [False] * len(places)
    key = _places_key(person.require_membership().secret)
    below = share * 2**64
    found = {}
    for place in set(places):
        digest = blake2b(place.encode(), digest_size=8, key=key, person=b"prirec held out").digest()
        found[place] = int.from_bytes(digest, "little") * 1000 < below
    return [found[place] for place in places]


def parted_visits(person: Person, *, share: int) -> tuple[list[Visit], list[Visit]]:
    """The visits that are learnt from, and those that are held out."""
    visits = person.visits()
    parts: tuple[list[Visit], list[Visit]] = [], []
    for visit, held in zip(visits, held_out(person, [one.place for one in visits], share=share), strict=True):
        parts[held].append(visit)
    return parts


def _all_rows(person: Person, basis: Basis, known: KnownPlaces, *, negatives: bool) -> tuple[_Rows, int]:
    """The latest records, and how many visits are outside the downloaded regions."""
    me, complete = person.require_membership(), person.labelled() or not negatives
    most = most_records(basis.columns.layout.width)
    visits = person.visits()[-(most if complete else most // (1 + basis.settings.data.ratio)) :]
    recorded = _rows(visits, known)
    rows = recorded if complete else _with_negatives(recorded, known, basis.settings, secret=me.secret)
    return rows, len(visits) - len(recorded.place)


@np.errstate(all="ignore")  # what overflows under a steep encoding is clipped
def _encoded(
    rows: _Rows, person: Person, basis: Basis, known: KnownPlaces, *, learnt: _Rows, unknown: int, test: bool = False
) -> Records:
    """These records; home and own history come from the learnt ones. In a test, from all of these."""
    encoding = basis.encoding
    home = _home(person.home(), learnt, known)
    own = _own_popularity(person, basis, known)
    mine = _clip(encode_profile(person, encoding, home))
    earlier = only_earlier(basis.settings.data) and not test
    context = _clip(_context(rows, known, encoding, home, own, learnt=learnt, earlier=earlier))
    if not (np.isfinite(mine).all() and np.isfinite(context).all()):
        raise DataError("a feature is not a finite number; look at the profile and at what visits are described by")
    used, place = np.unique(rows.place, return_inverse=True)
    return Records(
        person=mine,
        place=place.astype(np.int32),
        context=context,
        label=rows.label,
        places=np.ascontiguousarray(known.features[used]),
        unknown=unknown,
    )


def reason(problem: Exception) -> str:
    """What went wrong, without a value of the person's: texts of other errors than our own could repeat one."""
    return str(problem) if isinstance(problem, PrirecError) else f"an unforeseen fault, {type(problem).__name__}"


def home_of(person: Person, known: KnownPlaces, visits: Sequence[Visit] | None = None) -> Point | None:
    """The home that the person gave, else the middle of the known places that they visited, in these visits or all."""
    lat, lon = _home(person.home(), _rows(person.visits() if visits is None else visits, known), known)
    return None if np.isnan(lat) or np.isnan(lon) else (float(lat), float(lon))


def encode_profile(person: Person, encoding: Encoding, home: RealArray) -> FeatureArray:
    """X^i, (m,), from the profile and the home, (2,), NaN if unknown."""
    mine: FeatureArray = encode_person(
        encoding, rows_to_columns(encoding.person, fitting(encoding.person, [person.profile()])), home=home[None]
    )[0]  # fmt: skip
    return mine


def visited_positions(visits: Sequence[Visit], known: KnownPlaces) -> IndexArray:
    """(n,): the visited places, each once, by position among the known ones."""
    at = known.positions(visit.place for visit in visits if visit.label > 0)
    return np.unique(at[at >= 0])


def recorded_values(visits: Sequence[Visit], blocks: Sequence[Range], known: KnownPlaces) -> Visits:
    """What these columns say of the visits to known places, by row of the catalogue; a value that does not fit the
    deployment counts as unknown."""
    rows = _rows(visits, known)
    columns = rows_to_columns(blocks, fitting(blocks, [visit.context for visit in rows.visits]))
    return replace(rows.as_visits(), place=known.rows[rows.place], context=columns)


def _clip(features: FeatureArray) -> FeatureArray:
    """A value beyond all use is clipped rather than refused: whoever wrote the encoding could make it so steep that
    refusals, and with them silence, tell something about a private value."""
    return np.clip(features, -LARGEST, LARGEST)


def _rows(visits: Sequence[Visit], known: KnownPlaces) -> _Rows:
    at = known.positions(visit.place for visit in visits)
    inside = [visit for visit, where in zip(visits, at, strict=True) if where >= 0]
    return _Rows(inside, at[at >= 0], np.array([visit.label for visit in inside], dtype=np.int8))


def _home(given: Point | None, rows: _Rows, known: KnownPlaces) -> RealArray:
    """(2,), NaN if unknown: features/location.py for a city of one person."""
    location = None if given is None else np.array([given])
    city = Dataset(
        "", People(("",), location), Places(known.ids, known.location), rows.as_visits(), labelled=True
    )  # fmt: skip
    found = homes(city, city.visits)
    return np.full(2, np.nan) if found is None else found[0]


def _own_popularity(person: Person, basis: Basis, known: KnownPlaces) -> OwnCounts | None:
    """What the device added to the sum of visits, in units of a person's norm, by position; None: leave nothing out."""
    if not isinstance(basis, Campaign) or not basis.settings.features.own_left_out:
        return None
    given = person.visit_contribution(basis.name)
    unit, many = float(2.0**-basis.visits_norm.fraction_bits), basis.charter.places
    places, statistic = given.entries % many, given.entries // many
    here = np.flatnonzero(np.isin(places, known.rows))
    at = np.searchsorted(known.rows, places[here]) + statistic[here] * len(known)
    entries = len(known) * (1 + len(basis.encoding.averages))
    return OwnCounts(entries, at.astype(np.int64), given.whole[here].astype(np.float64) * unit)


def _context(
    rows: _Rows, known: KnownPlaces, encoding: Encoding, home: RealArray, own: OwnCounts | None, *, learnt: _Rows,
    earlier: bool,
) -> FeatureArray:  # fmt: skip
    """(R, c): popularity with the own part left out, and the moment, with the learnt visits as the person's history;
    with `earlier`, without later visits."""
    seen = known.popularity(encoding, own).seen_by(rows.as_visits())
    popular = encode_popularity(encoding, seen, len(rows.place))
    km = haversine_km(np.tile(home, (len(rows.place), 1)), known.location[rows.place])
    columns = rows_to_columns(encoding.context, fitting(encoding.context, [visit.context for visit in rows.visits]))
    # records without a time are encoded as a data set without times is, the others as one in which all have a time
    time, timed = _times(rows)
    # and a visit without a time is not known to be earlier than any record
    then, known_then = _times(learnt)
    visits = replace(learnt.as_visits(), time=np.where(known_then, then, UNKNOWN))
    points = unit_vectors(known.location)
    visited = History.of(encoding, visits, people=1, features=known.features, points=points)
    before = np.where(timed, time, -UNKNOWN) if earlier else None
    history = visited.encode(np.zeros(len(rows.place), dtype=np.int32), rows.place, before=before)
    with_time, without = (encode_context(encoding, columns, km=km, history=history, time=at) for at in (time, None))
    return np.ascontiguousarray(np.hstack([popular, np.where(timed[:, None], with_time, without)]))


def _times(rows: _Rows) -> tuple[OffsetArray, BoolArray]:
    """The time of each record, 0 where it is not known; and whether it is known."""
    return (
        np.array([visit.time or 0 for visit in rows.visits], dtype=np.int64),
        np.array([visit.time is not None for visit in rows.visits], dtype=np.bool_),
    )


# --- Negatives for a person who only recorded visits ----------------------------------------------------------------
# Each visit ranks all candidate places by a hash under a secret of the device and takes the first ones. So they stay
# the same from round to round and after a restart, change as little as possible when visits or regions are added, and
# nobody else can compute them.


def _with_negatives(rows: _Rows, known: KnownPlaces, settings: Settings, *, secret: bytes) -> _Rows:
    """Each visit followed by its negatives, which have the visit's moment."""
    wanted = np.flatnonzero(rows.label > 0)
    which, place = draw_negatives(
        [str(rows.visits[at].id) for at in wanted.tolist()],
        rows.place[wanted],
        rows=known.rows,
        location=known.location,
        among=settings.data.negatives,
        ratio=settings.data.ratio,
        secret=_places_key(secret),
    )
    of = wanted[which]
    order = np.argsort(np.concatenate([np.arange(len(rows.place)), of]), kind="stable")  # each after its own visit
    visits = [*rows.visits, *(rows.visits[at] for at in of)]
    label = np.concatenate([rows.label, np.full(len(of), -1, dtype=np.int8)])
    return _Rows([visits[at] for at in order], np.concatenate([rows.place, place])[order], label[order])


def _places_key(secret: bytes) -> bytes:
    """Under which places are drawn, as negatives or to be held out."""
    return derive(secret, "prirec places not visited")


def draw_negatives(
    visits: Sequence[str], place: IndexArray, *, rows: IndexArray, location: RealArray,
    among: Literal["uniform", "nearby"], ratio: int, secret: bytes,
) -> tuple[OffsetArray, IndexArray]:  # fmt: skip
    """For each visit (its id, and its place's position) `ratio` positions of places that the person never visited.

    Returns the visit that each belongs to (n,), and the positions (n,). Fewer where fewer are left. "nearby" draws from
    the 200 closest places, or from all where the visited place has no coordinates."""
    new = np.ones(len(rows), dtype=np.bool_)
    new[place] = False
    anywhere = np.flatnonzero(new).astype(np.int32)
    pools = _nearest(place, location) if among == "nearby" else {}
    of, chosen = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int32)]
    for at, (visit, here) in enumerate(zip(visits, place.tolist(), strict=True)):
        pool = pools[here][new[pools[here]]] if here in pools else anywhere
        digest = blake2b(visit.encode(), digest_size=8, key=secret, person=b"prirec unvisited").digest()
        ranks = mix_each(np.uint64(int.from_bytes(digest, "little")), rows[pool].astype(np.uint64))
        few = np.argpartition(ranks, ratio)[:ratio] if ratio < len(ranks) else np.arange(len(ranks))
        first = pool[few[np.argsort(ranks[few])]]  # no ties: for one key, mixing maps rows one to one
        of.append(np.full(len(first), at, dtype=np.int64))
        chosen.append(first)
    return np.concatenate(of), np.concatenate(chosen)


def _nearest(place: IndexArray, location: RealArray) -> dict[int, IndexArray]:
    """The places closest to each of these, itself included, as far as they have coordinates."""
    from scipy.spatial import cKDTree

    there = np.flatnonzero(located(location)).astype(np.int32)
    anchors = np.intersect1d(place, there)
    if not len(anchors):
        return {}
    width = min(POOL + 1, len(there))
    tree = cKDTree(unit_vectors(location[there]))
    near = tree.query(unit_vectors(location[anchors]), k=np.arange(1, width + 1))[1]
    return dict(zip(anchors.tolist(), there[near], strict=True))
