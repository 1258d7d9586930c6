"""Negatives for a person who only told where they were: drawn on the device, from the regions that it has downloaded.

Each visit ranks all candidates by a hash under a secret of the device, and takes the first ones: so they stay the same
from round to round and after a restart, and change as little as they can when visits or regions come. Which they are
nobody else can work out, and nobody is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

import numpy as np

from prirec.config import Settings
from prirec.data.dataset import Dataset, People, Places, Visits
from prirec.data.prepare import POOL
from prirec.device.person import Person, Point, Visit
from prirec.device.store import Membership, Visited
from prirec.errors import DataError, StateError
from prirec.features.blocks import LARGEST
from prirec.features.encoding import Encoding, encode_columns, encode_context, encode_popularity, rows_to_columns
from prirec.features.location import OwnVisits, homes
from prirec.features.popularity import OwnCounts
from prirec.model.local_step import DeviceRecords
from prirec.model.public_half import PlaceRows, place_rows
from prirec.rounds.definition import mixing_weights
from prirec.sharing.keys import derive
from prirec.types import FeatureArray, IndexArray, LabelArray, OffsetArray, RealArray
from prirec.util.geography import haversine_km, located, unit_vectors
from prirec.util.keyed_random import mix_each, person_keys
from prirec.wire.campaign import Campaign, person_id
from prirec.wire.regions import Known


def unvisited(
    visits: Sequence[str], place: IndexArray, *, rows: IndexArray, location: RealArray,
    among: Literal["uniform", "nearby"], ratio: int, secret: bytes,
) -> tuple[OffsetArray, IndexArray]:  # fmt: skip
    """For each visit, by its id and its place's position, `ratio` positions of places that the person never visited:
    which visit each belongs to (n,), and the positions (n,). Fewer where fewer are left.

    Nearby: among the closest 200; among all where the visited place has no coordinates."""
    new = np.ones(len(rows), dtype=np.bool_)
    new[place] = False
    anywhere = np.flatnonzero(new).astype(np.int32)
    pools = _nearest(place, location) if among == "nearby" else {}
    of, chosen = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int32)]
    for at, (visit, here) in enumerate(zip(visits, place.tolist(), strict=True)):
        pool = pools[here][new[pools[here]]] if here in pools else anywhere
        ranks = mix_each(_key(secret, visit), rows[pool].astype(np.uint64))
        few = np.argpartition(ranks, ratio)[:ratio] if ratio < len(ranks) else np.arange(len(ranks))
        first = pool[few[np.argsort(ranks[few])]]  # no two ranks are the same: a key maps rows one to one
        of.append(np.full(len(first), at, dtype=np.int64))
        chosen.append(first)
    return np.concatenate(of), np.concatenate(chosen)


def _nearest(place: IndexArray, location: RealArray) -> dict[int, IndexArray]:
    """The closest places to each of these, itself among them, as far as they have coordinates."""
    from scipy.spatial import cKDTree

    there = np.flatnonzero(located(location)).astype(np.int32)
    anchors = np.intersect1d(place, there)
    if not len(anchors):
        return {}
    width = min(POOL + 1, len(there))
    tree = cKDTree(unit_vectors(location[there]))
    near = tree.query(unit_vectors(location[anchors]), k=np.arange(1, width + 1))[1]
    return dict(zip(anchors.tolist(), there[near], strict=True))


def _key(secret: bytes, visit: str) -> np.uint64:
    digest = blake2b(visit.encode(), digest_size=8, key=secret, person=b"prirec unvisited").digest()
    return np.uint64(int.from_bytes(digest, "little"))


# A person's records, encoded on their own device to the bits that a simulation of the whole city encodes them to
# (features/samples.py): X^i, the places that the records name, the moments. None of it leaves the device.


@dataclass(frozen=True, slots=True)
class Records:
    """All that a round needs of a person; made anew when visits, profile or catalogue have changed."""

    own: DeviceRecords = field(repr=False)  # its places are positions in `places`
    places: PlaceRows = field(repr=False)  # of those that the records name
    gamma: float = field(repr=False)  # how much of the others' mean this person takes
    key: np.uint64  # that the order of records follows from: public, as the device's name is
    unknown: int = field(repr=False)  # visits outside the downloaded regions: nothing is learnt from them
    features: int  # D


@dataclass(frozen=True, slots=True)
class _Rows:
    """Records before they are encoded: where, as positions among the known places, when and whether."""

    visits: Sequence[Visit] = field(repr=False)  # whose moment each record has
    place: IndexArray = field(repr=False)
    label: LabelArray = field(repr=False)

    def as_visits(self) -> Visits:
        """Of the one person that a device has."""
        return Visits(np.zeros(len(self.place), dtype=np.int32), self.place, self.label)


@np.errstate(all="ignore")  # what overflows under an odd encoding is cut below
def records_of(person: Person, campaign: Campaign, known: Known) -> Records:
    """Under an edition. StateError for a device that belongs to no deployment."""
    me, encoding, visits = belonging(person), campaign.encoding, person.visits()
    told = _rows(visits, known)
    rows = told if person.labelled() else _with_negatives(told, known, campaign.settings, secret=me.secret)
    home = _home(person.home(), rows, known)
    mine = _cut(encode_columns(encoding.person, rows_to_columns(encoding.person, [person.profile()]), 1)[0])
    context = _cut(_context(rows, known, encoding, home, _own(person.given(campaign.name), campaign, known)))
    if not (np.isfinite(mine).all() and np.isfinite(context).all()):
        raise DataError("a feature is not a finite number; look at the profile and at what visits are described by")
    used, place = np.unique(rows.place, return_inverse=True)
    return Records(
        own=DeviceRecords(mine, place.astype(np.int32), context, rows.label),
        places=place_rows(known.features[used]),
        gamma=float(mixing_weights(np.array([len(place)]), campaign.settings)[0]),
        key=np.uint64(person_keys([person_id(me.name)])[0]),
        unknown=len(visits) - len(told.place),
        features=mine.size + known.features.shape[1] + context.shape[1],
    )


def _cut(features: FeatureArray) -> FeatureArray:
    """What a private value comes to under an encoding that is steeper than any honest one is no reason to stop: whoever
    wrote the encoding would learn of the value by the silence."""
    return np.clip(features, -LARGEST, LARGEST)


def belonging(person: Person) -> Membership:
    membership = person.membership()
    if membership is None:
        raise StateError("this device belongs to no deployment yet; let it join one first")
    return membership


def home_of(person: Person, known: Known) -> Point | None:
    """Where the person said to live, else the middle of where they were, as far as the device can tell."""
    lat, lon = _home(person.home(), _rows(person.visits(), known), known)
    return None if np.isnan(lat) or np.isnan(lon) else (float(lat), float(lon))


def positions_of(visits: Sequence[Visit], known: Known) -> IndexArray:
    """(n,): the places that somebody visited, each once, by position among the known ones."""
    at = known.positions(visit.place for visit in visits if visit.label > 0)
    return np.unique(at[at >= 0])


def _rows(visits: Sequence[Visit], known: Known) -> _Rows:
    at = known.positions(visit.place for visit in visits)
    inside = [visit for visit, where in zip(visits, at, strict=True) if where >= 0]
    return _Rows(inside, at[at >= 0], np.array([visit.label for visit in inside], dtype=np.int8))


def _with_negatives(rows: _Rows, known: Known, settings: Settings, *, secret: bytes) -> _Rows:
    """Where nothing tells what was ignored, places that were not visited stand for it, at the visits' moments."""
    wanted = np.flatnonzero(rows.label > 0)
    which, place = unvisited(
        [str(rows.visits[at].id) for at in wanted.tolist()],
        rows.place[wanted],
        rows=known.rows,
        location=known.location,
        among=settings.data.negatives,
        ratio=settings.data.ratio,
        secret=derive(secret, "prirec places not visited"),
    )
    of = wanted[which]
    order = np.argsort(np.concatenate([np.arange(len(rows.place)), of]), kind="stable")  # each after its own visit
    visits = [*rows.visits, *(rows.visits[at] for at in of)]
    label = np.concatenate([rows.label, np.full(len(of), -1, dtype=np.int8)])
    return _Rows([visits[at] for at in order], np.concatenate([rows.place, place])[order], label[order])


def _home(told: Point | None, rows: _Rows, known: Known) -> RealArray:
    """(2,), NaN where nothing is known: features/location.py for a city of one."""
    location = None if told is None else np.array([told])
    city = Dataset(
        "", People(("",), location), Places(known.ids, known.location), rows.as_visits(), labelled=True
    )  # fmt: skip
    found = homes(city, city.visits)
    return np.full(2, np.nan) if found is None else found[0]


def _own(given: Visited, campaign: Campaign, known: Known) -> OwnCounts | None:
    """What the device added to the sum of visits, in units of a person's norm, by position; None: leave nothing out."""
    if not campaign.settings.features.own_left_out:
        return None
    unit = float(2.0**-campaign.visits.norm.fraction_bits)
    at = np.searchsorted(known.rows, given.places)
    here = np.flatnonzero(np.isin(given.places, known.rows))
    return OwnCounts(len(known), at[here].astype(np.int64), given.whole[here].astype(np.float64) * unit)


def _context(
    rows: _Rows, known: Known, encoding: Encoding, home: RealArray, own: OwnCounts | None
) -> FeatureArray:  # fmt: skip
    """(R, c): popularity as this person sees it, and the moment."""
    seen = known.counted.seen_with(own).seen_by(rows.as_visits())
    popular = encode_popularity(encoding, seen, len(rows.place))
    km = haversine_km(np.tile(home, (len(rows.place), 1)), known.location[rows.place])
    visited = OwnVisits.of_one(unit_vectors(known.location), rows.place[rows.label > 0])
    near = visited.nearest_km(np.zeros(len(rows.place), dtype=np.int32), rows.place)
    columns = rows_to_columns(encoding.context, [visit.context for visit in rows.visits])
    time = np.array([visit.time or 0 for visit in rows.visits], dtype=np.int64)
    timed = np.array([visit.time is not None for visit in rows.visits], dtype=np.bool_)
    at_times, at_none = (encode_context(encoding, columns, km=km, nearest=near, time=told) for told in (time, None))
    moment = np.where(timed[:, None], at_times, at_none)
    return np.ascontiguousarray(np.hstack([popular, moment]))
