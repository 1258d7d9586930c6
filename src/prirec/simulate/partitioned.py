"""Training data that no machine holds: a partitioned folder, prepared, learnt from, measured and saved shard by shard.

Two sides, and the steps of simulate/setup.py between them. The driver (`PartitionedSetup`, then the functions at the
end) calls every shard by the name of a method, adds up the counts that come back, and holds only what is public. A
shard (`PartitionedShard`) holds the people of some parts; their records and models never leave it. Results have the
bits of a run on the whole folder: whatever is added up over shards is an integer, or a sum of integers in floats.

What a shard is follows from its parts and from the calls that it was given, so that one that was lost is made again by
the same calls (cluster/worker.py).
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.lib.format import open_memmap, write_array_header_1_0

from prirec.config import Settings
from prirec.data.dataset import Places
from prirec.data.folder import read_public
from prirec.data.partitioned import read_partition, read_parts
from prirec.data.prepare import (
    Prepared,
    TrainTest,
    distinct_visitors,
    drop_unused_people,
    filter_note,
    left_out_note,
    refuse_empty,
    refuse_nothing_left,
    train_and_test,
    with_places,
)
from prirec.engines.shards import Shard, ShardData, ShardPool, ShardSum
from prirec.engines.state import IterationReport, RoundsState
from prirec.errors import StateError, UsageError
from prirec.features.columns import Columns, ModelSize, WordScales
from prirec.features.encoding import Encoding, plan_encoding
from prirec.features.history import only_earlier
from prirec.features.popularity import CountBasis, OwnCounts, Popularity, nothing_left_out, plain_counts
from prirec.features.samples import Records, Samples, assemble, place_features
from prirec.metrics import Quality, auc_within_people, seen_pairs
from prirec.model.scoring import mean_loss, scores
from prirec.privacy.norm import Norm
from prirec.privacy.plan import with_parts
from prirec.privacy.popularity_estimate import POPULARITY, PublicEstimate, opened_of, own_part, public_estimate
from prirec.privacy.weighted_popularity import NoisySums, written
from prirec.rounds.definition import RoundRules
from prirec.simulate.popularity import PlainCounts, SecureSum, mechanism_of, public_features, reporting
from prirec.simulate.saved_runs import Released, names_of_files, place_keys, shared_files, short_files, write_files
from prirec.simulate.setup import columns_of, recipe
from prirec.types import BoolArray, FeatureArray, KeyArray, OffsetArray, RealArray
from prirec.util.files import move_in, room_beside
from prirec.util.geography import morton
from prirec.util.keyed_random import run_key

Pairs = Literal["all", "new"]  # of person and place
FEW = 0.25  # the share of people with fewest records, as in metrics.auc_of_few
LONG = ("people.npy",)  # files of a run that have a row for each person
_CHUNK = 1 << 24  # bytes of a file that are read at a time
_ROWS_A_CALL = 4096  # rows that are written by one call
_ROW_BITS = 31  # for the number of a row, below a code of morton, which has up to 33 bits

# A step is a name of a method of PartitionedShard, and its arguments: what is replayed for a shard that was lost.
Call = tuple[str, tuple[Any, ...]]


def refuse_unpartitionable(settings: Settings) -> None:
    """UsageError for settings that need all records at once."""
    if settings.features.averages:
        raise UsageError("features.averages are not carried over parts: their sums are not exact in any order")
    mechanism = mechanism_of(settings)
    if settings.features.dynamic and not isinstance(mechanism, PlainCounts | SecureSum):
        raise UsageError(f"popularity.mechanism '{mechanism.name}' is not carried over parts; use '{SecureSum.name}'")


def deal_parts(efforts: Sequence[int], *, shards: int) -> list[list[int]]:
    """Parts for each shard, neighbours together, about as much work in each; never more shards than parts."""
    each, many = np.array(efforts, dtype=np.int64), min(shards, len(efforts))
    middles = 2 * np.cumsum(each) - each
    at = middles * many // max(2 * int(each.sum()), 1)
    return [np.flatnonzero(at == shard).tolist() for shard in np.unique(at)]


# The driver: from raw rows to shards that can learn


@dataclass(frozen=True, slots=True)
class PartitionedCity:
    """The public half of a city that shards have prepared."""

    settings: Settings  # with the parts of the budget that the plan chose
    encoding: Encoding = field(repr=False)
    columns: Columns = field(repr=False)  # of the shared model
    places: Places = field(repr=False)
    released: Released = field(repr=False)
    amounts: "Sizes"
    notes: tuple[str, ...] = ()

    @property
    def rules(self) -> RoundRules:
        return RoundRules.sized(
            self.settings, people=self.amounts.people, places=len(self.places), columns=self.columns
        )


class PartitionedSetup:
    """Prepares a partitioned folder in a pool of shards. `calls` are those that change a shard, in order."""

    def __init__(self, pool: ShardPool, folder: Path, settings: Settings):
        self.pool, self.settings, self.calls = pool, settings, list[Call]()
        public = read_public(folder)
        self.places, self.schema = public.places, public.schema
        self.recipe = recipe(settings.data, labelled=read_partition(folder).labelled)
        self.notes: list[str] = []

    def city(self) -> PartitionedCity:
        """All steps, in the order of simulate/setup.py."""
        refuse_unpartitionable(self.settings)
        self._filter()
        amounts: Sizes = self._summed("prepare")
        refuse_empty(range(amounts.train), range(amounts.test))
        self.notes += left_out_note(amounts.left_out, amounts.negatives)
        size: ModelSize = self.pool.one(0, "model_size")  # every shard would give the same, here and below
        self.settings = with_parts(self.settings, people=amounts.people, places=len(self.places), size=size)
        popularity = self._release_popularity(amounts.people)
        encoding: Encoding = self.pool.one(0, "plan")
        self._each("assemble", encoding, place_features(self.places, encoding))
        self._each("begin_training", self.settings, amounts.people)
        released = Released.of(self.places, popularity.released, popularity.opened)
        return PartitionedCity(
            self.settings, encoding, Columns.of(encoding), self.places, released, amounts, tuple(self.notes)
        )

    def _each(self, call: str, *args: Any) -> list[Any]:
        """A call that changes shards, and what each of them answers."""
        self.calls.append((call, args))
        return self.pool.each(call, *args)

    def _summed(self, call: str, *args: Any) -> Any:
        """A call that changes shards, and the sum of their answers."""
        self.calls.append((call, args))
        return self.pool.summed(call, *args)

    # Filter

    def _filter(self) -> None:
        before: Sizes = self.pool.summed("sizes")
        refuse_nothing_left(before.records, before.records, self.recipe)
        if self.recipe.filter == "none":
            return
        if self.recipe.filter == "visitors":
            kept = self.pool.summed("visitors").values >= self.recipe.at_least
            self._summed("drop", kept, 0)
        else:
            kept = self._places_with_enough_records()
        self._each("keep_places", kept)
        many, self.places = len(self.places), self.places.take(kept)
        after: Sizes = self.pool.summed("sizes")
        refuse_nothing_left(before.records, after.records, self.recipe)
        counts = (before.people, many, before.records), (after.people, len(self.places), after.records)
        self.notes.append(filter_note(*counts))

    def _places_with_enough_records(self) -> BoolArray:
        """Repeated until no person and no place has fewer: to drop a place takes records from people, and back."""
        while True:
            enough = self.pool.summed("records_of_places").values >= self.recipe.at_least
            if not self._summed("drop", enough, self.recipe.at_least).values[0]:
                left: BoolArray = self.pool.summed("records_of_places").values > 0
                return left

    # Popularity

    def _release_popularity(self, people: int) -> Popularity:
        """Release popularity. What each person added stays in the person's shard."""
        mechanism = mechanism_of(self.settings)
        if not self.settings.features.dynamic:
            self._each("see_popularity", {})
            return Popularity()
        if isinstance(mechanism, SecureSum):
            return self._release_noisy(mechanism, people)
        basis: CountBasis = self.pool.summed("count_basis")
        released = self._summed("count", basis).sums
        self._each("see_popularity", released)
        return Popularity(released)

    def _release_noisy(self, mechanism: SecureSum, people: int) -> Popularity:
        survivors = int(self.pool.summed("survivors").values[0])
        drawn = mechanism.noise(self.settings, people=people, places=len(self.places), survivors=survivors)
        total: PlaceSums = self._summed("write_vectors", drawn.norm)
        unit = 2.0**-drawn.norm.fraction_bits
        sums, sigma = (total.sums[POPULARITY] + drawn.noise) * unit, sqrt(drawn.variance) * unit
        nobody = OwnCounts(len(self.places), np.empty(0, dtype=np.int64), np.empty(0))
        features = public_features(self.places, self.settings)
        public = public_estimate(NoisySums(sums, sigma, nobody), location=self.places.location, features=features)
        self._each("see_noisy_popularity", public, sums, sigma, unit)
        return Popularity(public.columns, opened=opened_of(sums, sigma, public))


# What shards answer; the driver adds it up


class Sizes(NamedTuple):
    people: int
    records: int
    train: int = 0
    test: int = 0
    negatives: int = 0
    left_out: int = 0

    def plus(self, other: "Sizes") -> "Sizes":
        return Sizes(*(a + b for a, b in zip(self, other, strict=True)))


class Amounts(NamedTuple):
    """Numbers of something, of places say."""

    values: OffsetArray

    def plus(self, other: "Amounts") -> "Amounts":
        return Amounts(self.values + other.values)


class PlaceSums(NamedTuple):
    """Sums for each place, by name."""

    sums: Mapping[str, RealArray]

    def plus(self, other: "PlaceSums") -> "PlaceSums":
        return PlaceSums({name: values + other.sums[name] for name, values in self.sums.items()})


class QualitySums(NamedTuple):
    """Sums over test records."""

    losses: float
    records: int
    weighted: float  # AUC within each person, times the person's records
    within: int
    seen: int  # records of a person and a place that a training record has together
    people: OffsetArray  # (n,): how many tested people have so many training records

    def plus(self, other: "QualitySums") -> "QualitySums":
        longest = max(len(self.people), len(other.people))
        people = sum(np.pad(one.people, (0, longest - len(one.people))) for one in (self, other))
        sums = (a + b for a, b in zip(self[:5], other[:5], strict=True))
        return QualitySums(*sums, people)  # type: ignore[call-arg, arg-type]


class Wins(NamedTuple):
    """Pairs in which a positive scores above a negative, doubled so that a tie is one."""

    won: int
    positives: int
    negatives: int

    def plus(self, other: "Wins") -> "Wins":
        return Wins(*(a + b for a, b in zip(self, other, strict=True)))

    def auc(self) -> float:
        """To the bits of metrics.auc, which divides the wins of the smaller class."""
        pairs = self.positives * self.negatives
        if pairs == 0:
            return float("nan")
        if self.positives <= self.negatives:
            return self.won / (2 * pairs)
        return 1.0 - (2 * pairs - self.won) / (2 * pairs)


# A shard


class PartitionedShard:
    """The people of some parts, from raw rows to a trained shard, and what is asked of it when training is done."""

    def __init__(self, folder: Path, which: Sequence[int], settings: Settings):
        read = read_parts(folder, which)
        self.dataset, self.rows, self.settings = read.loaded.dataset, read.rows, settings
        self.catalogue: Places = self.dataset.places  # before any filter
        self.recipe = recipe(settings.data, labelled=self.dataset.labelled)
        self.shard: Shard

    def sizes(self) -> Sizes:
        return Sizes(len(self.dataset.people), len(self.dataset.visits))

    # Filter

    def visitors(self) -> Amounts:
        return Amounts(distinct_visitors(self.dataset))

    def records_of_places(self) -> Amounts:
        return Amounts(np.bincount(self.dataset.visits.place, minlength=len(self.dataset.places)))

    def drop(self, places: BoolArray, at_least: int) -> Amounts:
        """Drop records of other places, and of people with fewer records; how many were dropped."""
        visits = self.dataset.visits
        busy = np.bincount(visits.person, minlength=len(self.dataset.people)) >= at_least
        keep = busy[visits.person] & places[visits.place]
        self.dataset = self.dataset.with_visits(visits.take(keep))
        return Amounts(np.array([np.count_nonzero(~keep)]))

    def keep_places(self, places: BoolArray) -> None:
        """Only these places, and only people who have a record left."""
        kept, stay = drop_unused_people(self.dataset)
        self.dataset, self.rows = with_places(kept, places), self.rows[stay]

    # Prepare

    def prepare(self) -> Sizes:
        self.made: TrainTest = train_and_test(self.dataset, self.recipe, partial(run_key, self.settings.seed))
        self.prepared = Prepared(self.dataset, self.made.train, self.made.test)
        made, (people, records, *_) = self.made, self.sizes()
        return Sizes(people, records, len(made.train), len(made.test), made.negatives, made.left_out)

    # Popularity

    def count_basis(self) -> CountBasis:
        return CountBasis.of(self.made.train)

    def count(self, basis: CountBasis) -> PlaceSums:
        """Plain counts of this shard's people."""
        days = self.settings.features.recent_days
        mine = plain_counts(self.made.train, places=len(self.dataset.places), recent_days=days, basis=basis)
        self.own = dict(mine.own)
        return PlaceSums(dict(mine.released))

    def see_popularity(self, released: Mapping[str, RealArray]) -> None:
        """Plain counts over everyone; empty where dynamic features are off."""
        self._see(Popularity(released, {name: self.own[name] for name in released}))

    def survivors(self) -> Amounts:
        return Amounts(np.array([reporting(self.prepared, self.settings).survivors]))

    def write_vectors(self, norm: Norm) -> PlaceSums:
        """The sum of visit vectors of norm 1, in whole numbers."""
        devices = reporting(self.prepared, self.settings)
        self.vectors: OwnCounts = written(SecureSum().contributions(devices), norm)
        return PlaceSums({POPULARITY: self.vectors.total()})

    def see_noisy_popularity(self, shrunk: PublicEstimate, sums: RealArray, sigma: float, unit: float) -> None:
        """What the noisy sum came to; everyone leaves the own part out by the same public map."""
        own = OwnCounts(self.vectors.places, self.vectors.pairs, self.vectors.counts * unit)
        part = own_part(NoisySums(sums, sigma, own), shrunk.prior, shrunk.columns[POPULARITY], shrunk.weight)
        self._see(Popularity(shrunk.columns, {POPULARITY: part}))

    def _see(self, found: Popularity) -> None:
        self.popularity = found if self.settings.features.own_left_out else nothing_left_out(found)

    # Encode: of private tables only names and kinds of columns are looked at, so that every shard has the same plan

    def model_size(self) -> ModelSize:
        return columns_of(replace(self.dataset, places=self.catalogue), self.settings).size

    def plan(self) -> Encoding:
        return plan_encoding(replace(self.dataset, places=self.catalogue), self.popularity, self.settings.features)

    def assemble(self, encoding: Encoding, places: FeatureArray) -> None:
        self.samples: Samples = assemble(
            self.dataset, train=self.made.train, test=self.made.test, encoding=encoding, popularity=self.popularity,
            places=places, earlier=only_earlier(self.settings.data),
        )  # fmt: skip
        row = {name: at for at, name in enumerate(self.dataset.people.ids)}
        self.rows = self.rows[[row[name] for name in self.samples.ids]]

    # Rounds

    def begin_training(self, settings: Settings, people: int) -> None:
        """The shard of engines/shards.py: with settings in which the plan has chosen what was left to it, and sized for
        the people of the whole run."""
        self.shard = Shard(ShardData(self.samples, people), settings)
        self.samples = self.shard.samples  # one copy is enough
        del self.made, self.prepared

    def moment_sum(self) -> ShardSum:
        return self.shard.moment_sum()

    def gradient_sum(self, state: RoundsState) -> ShardSum:
        return self.shard.gradient_sum(state)

    # The row that each person has in the whole run
    #
    # Rows are ordered as in features/samples.py: along a Z-order curve of homes, then as in the tables. Nobody holds
    # all of it: every shard is sent the sorted codes of every other, and counts how many come before each of its own.

    def begin_ranks(self) -> None:
        rows, home = self.rows.astype(np.uint64), self.samples.home
        self._codes: KeyArray = rows if home is None else (morton(home) << np.uint64(_ROW_BITS)) | rows
        self.rank: OffsetArray = np.zeros(len(rows), dtype=np.int64)

    def codes(self) -> KeyArray:
        return np.sort(self._codes)

    def count_before(self, others: KeyArray) -> None:
        self.rank += np.searchsorted(others, self._codes)

    def write(self, folder: str) -> None:
        """Keys of people and numbers of records, each person's in the person's row."""
        for name, values in (
            ("people", self.samples.keys),
            ("train counts", self.samples.train.counts()),
            ("test counts", self.samples.test.counts()),
        ):
            _write_rows(Path(folder) / f"{name}.npy", self.rank, values)

    def write_records(self, folder: str, side: str) -> None:
        """Places and labels of everyone, from where the file of offsets says."""
        records: Records = getattr(self.samples, side)
        begin = np.load(Path(folder) / f"{side} offsets.npy", mmap_mode="r")[self.rank]
        at = np.repeat(begin - records.offsets[:-1], records.counts()) + np.arange(len(records))
        _write_rows(Path(folder) / f"{side} place.npy", at, records.place)
        _write_rows(Path(folder) / f"{side} label.npy", at, records.label)

    # Quality on the test records

    def measure(self, state: RoundsState) -> QualitySums:
        samples, test = self.samples, self.samples.test
        self._scores = scores(self.shard.models(state), samples, test)
        within = auc_within_people(test.label, self._scores, person=test.person)
        tested = np.flatnonzero(test.counts() > 0)
        return QualitySums(
            mean_loss(test, self._scores) * len(test) if len(test) else 0.0,
            len(test),
            float(within.auc @ within.records),
            int(within.records.sum()),
            int(seen_pairs(samples.train, test).sum()),
            np.bincount(samples.train.counts()[tested]),
        )

    def begin_wins(self, most: int | None, pairs: Pairs) -> None:
        """Compare the scores of people with at most so many training records, None: of all; and of all pairs of person
        and place, or of those alone that are in no training record."""
        samples, test = self.samples, self.samples.test
        few: BoolArray = np.ones(len(samples.ids), dtype=np.bool_) if most is None else samples.train.counts() <= most
        rows = few[test.person] & ~seen_pairs(samples.train, test) if pairs == "new" else few[test.person]
        label, found = test.label[rows], self._scores[rows]
        self._positive, self._negative = np.sort(found[label > 0]), np.sort(found[label < 0])
        self._won = 0

    def negatives(self) -> RealArray:
        return self._negative

    def count_wins(self, negative: RealArray) -> None:
        below = np.searchsorted(negative, self._positive, side="left").sum()
        self._won += int(below) + int(np.searchsorted(negative, self._positive, side="right").sum())  # a tie: once

    def wins(self) -> Wins:
        return Wins(self._won, len(self._positive), len(self._negative))


# The driver, when training is done: measure, and save


def partitioned_quality(pool: ShardPool, state: RoundsState) -> Quality:
    """On test records that nobody holds together. AUCs are exact; means of losses may differ in the last digits."""
    found: QualitySums = pool.summed("measure", state)
    tested = int(found.people.sum())
    few = None if not tested else int(np.searchsorted(np.cumsum(found.people), int(np.ceil(FEW * tested))))
    auc = _auc(pool, None)
    return Quality(
        auc=auc,
        log_loss=found.losses / found.records if found.records else float("nan"),
        gauc=found.weighted / found.within if found.within else float("nan"),
        auc_few=_auc(pool, few),
        records=found.records,
        seen=found.seen / found.records if found.records else 0.0,
        auc_new=_auc(pool, None, "new") if found.seen else auc,
    )


def _auc(pool: ShardPool, most: int | None, pairs: Pairs = "all") -> float:
    """Every shard counts the wins of its own positives over the negatives of all shards."""
    pool.each("begin_wins", most, pairs)
    pool.among("negatives", "count_wins")
    won: Wins = pool.summed("wins")
    return won.auc()


def save_partitioned(
    path: Path, pool: ShardPool, city: PartitionedCity, state: RoundsState, history: Sequence[IterationReport], *,
    source: str,
) -> None:  # fmt: skip
    """The folder that any other run has: short files by the driver, long ones by the shards, each in its own rows.

    Written beside, then moved into place. Every node must reach the folder that the run is in."""
    place = path.resolve()
    beside = room_beside(place)
    try:
        beside.mkdir(parents=True)
        rows = _write_long_files(beside, pool, city, state)
        hashes = {name: _hash(beside / name) for name in LONG}
        write_files(beside, _short_files(city, state, history), source=source, rows=rows, there=hashes)
        move_in(beside, place)
    except OSError as error:
        raise StateError(f"the run could not be saved to {path}: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _short_files(city: PartitionedCity, state: RoundsState, history: Sequence[IterationReport]) -> dict[str, bytes]:
    words = WordScales.of(place_features(city.places, city.encoding), city.columns)
    shared = city.rules.model(state.estimate, state.moments, words)
    found = {
        **short_files(
            city.settings, city.encoding, released=city.released, history=history, catalogue=place_keys(city.places)
        ),
        **shared_files(shared, state.moments),
    }  # fmt: skip
    return {name: found[name] for name in names_of_files(city.settings) if name not in LONG}


def _write_long_files(folder: Path, pool: ShardPool, city: PartitionedCity, state: RoundsState) -> str:
    """people.npy, and the fingerprint of rows and records that saved_runs.rows_of has."""
    people = city.amounts.people
    pool.each("begin_ranks")
    pool.among("codes", "count_before")
    _allocate(folder / "people.npy", np.uint64, (people,))
    for side in ("train", "test"):
        _allocate(folder / f"{side} counts.npy", np.int64, (people,))
    pool.each("write", str(folder))
    digest = blake2b(digest_size=16)
    _update(digest, folder / "people.npy")
    persons = city.encoding.width(city.encoding.person)
    digest.update(f"{(len(city.places), city.encoding.width(city.encoding.place))} {(people, persons)}".encode())
    for side in ("train", "test"):
        _update_by_records(digest, folder, side, pool)
    return str(digest.hexdigest())


def _update_by_records(digest: Any, folder: Path, side: str, pool: ShardPool) -> None:
    """All records of one side, in the order of rows, by way of files that are removed again."""
    records = _write_offsets(folder / f"{side} counts.npy", folder / f"{side} offsets.npy")
    _allocate(folder / f"{side} place.npy", np.int32, (records,))
    _allocate(folder / f"{side} label.npy", np.int8, (records,))
    pool.each("write_records", str(folder), side)
    for name in ("offsets", "place", "label"):
        _update(digest, folder / f"{side} {name}.npy")
        (folder / f"{side} {name}.npy").unlink()
    (folder / f"{side} counts.npy").unlink()


# Files that are longer than memory


def _allocate(file: Path, kind: type[np.generic], shape: tuple[int, ...]) -> None:
    """An array for shards to write in; a disk without room says so here."""
    open_memmap(file, mode="w+", dtype=np.dtype(kind), shape=shape)
    with file.open("r+b") as made, suppress(AttributeError):  # not every system can be asked
        os.posix_fallocate(made.fileno(), 0, max(file.stat().st_size, 1))


def _write_rows(file: Path, at: OffsetArray, values: Any) -> None:
    """Rows of a file that other shards write in too, each at its offset. A mapped file will not do: its pages would be
    written back whole, and on another node with what they held before."""
    order = np.argsort(at, kind="stable")
    places, there = at[order], np.load(file, mmap_mode="r")
    begin, kind = there.offset, there.dtype
    edges = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(at)]  # runs of adjacent rows
    with file.open("r+b", buffering=0) as out:
        for first, end in pairwise(edges):
            for a in range(first, end, _ROWS_A_CALL):
                some = np.ascontiguousarray(values[order[a : min(a + _ROWS_A_CALL, end)]], dtype=kind)
                content, offset = memoryview(some.tobytes()), begin + int(places[a]) * some[0].nbytes
                while content:  # a write may be short
                    done = os.pwrite(out.fileno(), content, offset)
                    content, offset = content[done:], offset + done
        os.fsync(out.fileno())


def _write_offsets(counts: Path, offsets: Path) -> int:
    """Where the records of each person begin; how many there are in all."""
    done = 0
    with offsets.open("wb") as out:
        shape = (np.load(counts, mmap_mode="r").size + 1,)
        write_array_header_1_0(out, {"descr": "<i8", "fortran_order": False, "shape": shape})
        out.write(np.int64(0).tobytes())
        for some in _array_chunks(counts):
            ends = done + np.cumsum(np.frombuffer(some, dtype=np.int64))
            out.write(ends.tobytes())
            done = int(ends[-1])
    return done


def _update(digest: Any, file: Path) -> None:
    for some in _array_chunks(file):
        digest.update(some)


def _array_chunks(file: Path) -> Iterator[bytes]:
    """The entries of an array file, without its header. Read as a stream: a mapped file counts as memory, whole."""
    return _chunks(file, np.load(file, mmap_mode="r").offset)


def _hash(file: Path) -> str:
    digest = blake2b(digest_size=32)
    for some in _chunks(file):
        digest.update(some)
    return digest.hexdigest()


def _chunks(file: Path, begin: int = 0) -> Iterator[bytes]:
    with file.open("rb") as stream:
        stream.seek(begin)
        while some := stream.read(_CHUNK):
            yield some
