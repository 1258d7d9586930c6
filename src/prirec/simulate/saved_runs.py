"""Saved runs: what a training leaves behind, in one folder that is written whole or not at all, and checked when read.

    run.json           what this is, what made it, and what the other files must hash to
    settings.toml      as they were used
    encoding.json      how columns become features
    popularity.json    what was released about places, and the sums that it was made of
    catalogue.npy      a key for each place, by which the city is known again
    people.npy         whose models these are, by keys made from ids
    history.jsonl      everyone's mean loss, iteration by iteration

    shared.npy         after rounds: B (entries,), row 0 and then the crossed columns of the others,
    scales.json        and how the columns are scaled that it sees: moments of private ones, words of places

    interaction.npy    after the paper's schedule, and of the baseline: V (D, K),
    linear.npy         and W (I, D + 1)

None of it is safe to hand out: a simulation wrote it, and its noise follows from the seed in settings.toml. Within a
budget, a deployment publishes B, scales, encoding, popularity and catalogue. It has no such file as linear.npy,
and none with hashes of all records, on which guesses could be tried.
"""

import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from io import BytesIO
from math import inf, isnan
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from prirec import __version__, config
from prirec.config import Settings
from prirec.data.dataset import Dataset, Places
from prirec.data.prepare import Prepared
from prirec.engines.state import IterationReport
from prirec.engines.train import Trained
from prirec.errors import DataError, PolicyError, StateError, UsageError
from prirec.features.columns import Columns, Moments, WordScales
from prirec.features.encoding import Encoding, from_json
from prirec.features.history import only_earlier
from prirec.features.popularity import Counts, Opened, Popularity
from prirec.features.samples import Records, Samples, assemble, in_order, place_features, standing
from prirec.model.scoring import FactorizationModels, Models, SharedModels
from prirec.model.shared_model import SharedModel, rounded_base
from prirec.privacy.plan import popularity_entries
from prirec.privacy.popularity_estimate import POPULARITY
from prirec.simulate.popularity import mechanism_of, release_popularity, seen_again
from prirec.simulate.setup import Outcome, Setup, prepare_for, set_up_prepared
from prirec.types import FeatureArray, KeyArray, OffsetArray, RealArray
from prirec.util.decode_errors import NOT_ARRAYS, NOT_DECODED
from prirec.util.files import EARLIER, left_beside, move_in, open_regular, put_back, room_beside
from prirec.util.keyed_random import person_keys

VERSION = 4
COMMON = ("settings.toml", "encoding.json", "popularity.json", "people.npy", "history.jsonl", "catalogue.npy")
AFTER_ROUNDS = ("shared.npy", "scales.json")
FACTORIZATION = ("interaction.npy", "linear.npy")  # of the paper's schedule and of the baseline
_GRID = 1000  # cells a degree, each about 100 m: coordinates that were written less finely are no other city
Entry = TypeVar("Entry", bound=np.generic)


class OpenedSums(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`Opened` as a saved run has it."""

    sums: list[float]
    sigma: float
    predicted: list[float]
    weight: list[float]
    shape: float | None  # None: infinite, which JSON cannot say

    @classmethod
    def of(cls, opened: Opened) -> Self:
        """From arrays."""
        shape = None if opened.shape == inf else opened.shape
        sums, predicted, weight = opened.sums.tolist(), opened.predicted.tolist(), opened.weight.tolist()
        return cls(sums=sums, sigma=opened.sigma, predicted=predicted, weight=weight, shape=shape)

    @property
    def arrays(self) -> Opened:
        return Opened(
            np.array(self.sums), self.sigma, np.array(self.predicted), np.array(self.weight),
            inf if self.shape is None else self.shape,
        )  # fmt: skip


class Released(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What was released about places: a noisy release is used again and again, and never made twice."""

    places: tuple[str, ...]
    columns: dict[str, list[float]]
    opened: OpenedSums | None = None  # where it came from a secure sum

    @classmethod
    def of(cls, places: Places, released: Counts, opened: Opened | None) -> Self:
        """The release of these places, in their order."""
        kept = None if opened is None else OpenedSums.of(opened)
        columns = {name: values.tolist() for name, values in released.items()}
        return cls(places=places.ids, columns=columns, opened=kept)

    def popularity(self, settings: Settings) -> Popularity:
        """For the places of the run. StateError if it has not one value for each of them."""
        opened, many = None if self.opened is None else self.opened.arrays, len(self.places)
        whole = all(len(values) == many for values in self.columns.values())
        if opened is not None:
            whole &= len(opened.predicted) == len(opened.weight) == len(self.columns.get(POPULARITY, ())) == many
            whole &= len(opened.sums) == popularity_entries(many, settings)
        if not whole:
            raise StateError("the popularity that this run released has not one value for each place")
        return Popularity({name: np.array(values) for name, values in self.columns.items()}, opened=opened)


class Scales(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the columns of the shared model are scaled. Words of places as the catalogue of the training had them: places
    that came later change no coefficient."""

    person_mean: list[float]
    person_sd: list[float]
    moment_mean: list[float]
    moment_sd: list[float]
    positive: float
    root_records: float
    word_factor: list[float]
    word_centre: list[float]

    @classmethod
    def of(cls, moments: Moments, words: WordScales) -> Self:
        arrays = {**moments._asdict(), "word_factor": words.factor, "word_centre": words.centre}
        return cls(**{name: np.asarray(values).tolist() for name, values in arrays.items()})

    @property
    def moments(self) -> Moments:
        if not 0 < self.positive < 1:
            raise ValueError("the share of positive records is not between 0 and 1")
        person_mean, person_sd, moment_mean, moment_sd = (
            np.array(values, dtype=np.float64)
            for values in (self.person_mean, self.person_sd, self.moment_mean, self.moment_sd)
        )
        return Moments(person_mean, person_sd, moment_mean, moment_sd, self.positive, self.root_records)

    @property
    def words(self) -> WordScales:
        return WordScales(np.array(self.word_factor, dtype=np.float64), np.array(self.word_centre, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class Run:
    """All that training leaves behind, as a folder holds it."""

    settings: Settings
    encoding: Encoding
    models: Models = field(repr=False)
    people: KeyArray = field(repr=False)  # (I,): whose models these are
    released: Released = field(repr=False)
    history: tuple[IterationReport, ...] = field(repr=False)
    source: str  # where the data came from, as it was named
    rows: str  # who is in which row, and which records were learnt from: see `rows_of`
    catalogue: KeyArray = field(repr=False)  # (J,): a key for each released place


def save_run(path: Path, run: Run, *, overwrite: bool = False) -> None:
    """Write a run to a new folder. It is written beside and then moved into place: a crash leaves no half of a run."""
    refuse_occupied(path, overwrite=overwrite)
    beside = room_beside(path)
    try:
        beside.mkdir(parents=True)
        write_files(beside, _contents(run), source=run.source, rows=run.rows)
        move_in(beside, path)
    except OSError as error:
        raise StateError(f"the run could not be saved to {path}: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)  # there only if it was not moved into place


def refuse_occupied(path: Path, *, overwrite: bool) -> None:
    """UsageError unless a run may be written there. An earlier run that was being replaced by a process that was killed
    is put back first: it must not be lost behind a new one, and StateError says where it is if it cannot be."""
    put_back(path)
    if hint := _earlier(path):
        raise StateError(f"there is no run in {path}{hint}, or name another folder")
    if path.exists() and not (overwrite and (path / "run.json").is_file()):
        hint = "it holds no earlier run to overwrite" if overwrite else "overwrite replaces an earlier run"
        raise UsageError(f"{path} exists; name another folder ({hint})")


def load_run(path: Path) -> Run:
    """A saved run; StateError if a file is missing, damaged, or written by a newer program."""
    put_back(path)
    card = read_card(path)
    try:
        settings = config.loads(read_checked(path / "settings.toml", card).decode())
        contents = {name: read_checked(path / name, card) for name in names_of_files(settings)}
        encoding = from_json(contents["encoding.json"])
        history = tuple(
            msgspec.json.decode(line, type=IterationReport) for line in contents["history.jsonl"].splitlines()
        )
        return Run(
            settings=settings,
            encoding=encoding,
            models=_models(contents, encoding),
            people=_array(contents["people.npy"], np.uint64),
            released=msgspec.json.decode(contents["popularity.json"], type=Released),
            history=history,
            source=card.source,
            rows=card.rows,
            catalogue=_array(contents["catalogue.npy"], np.uint64),
        )
    except (UsageError, DataError, PolicyError, *NOT_ARRAYS) as error:
        raise StateError(f"the run in {path} cannot be read by this version: {error}") from None


# From a training to a run, and from a saved run back to models on its data or on data that have grown.


def to_run(outcome: Outcome, source: str) -> Run:
    """A run from a finished training, ready to be saved; `source` names the data for whoever reads the card."""
    setup, trained = outcome.setup, outcome.trained
    return Run(
        settings=setup.settings,
        encoding=setup.encoding,
        models=trained.models,
        people=setup.samples.keys,
        released=Released.of(setup.prepared.dataset.places, setup.popularity.released, setup.popularity.opened),
        history=trained.history,
        source=source,
        rows=rows_of(setup.samples),
        catalogue=place_keys(setup.prepared.dataset.places),
    )


def trained_again(saved: Run) -> Trained:
    """The models and history of a saved run. There is no state: training does not go on from a run."""
    return Trained(None, saved.models, saved.history)


@dataclass(frozen=True, eq=False)
class CityOfRun:
    """A saved run on data at hand: those that it was trained on, or data that have grown since.

    What is the same for everyone is made once; then one person is set up at a time, as a device sets itself up."""

    saved: Run
    dataset: Dataset = field(repr=False)
    prepared: Prepared = field(repr=False)
    order: OffsetArray = field(repr=False)  # the person of each row, as people stand in a set-up

    @classmethod
    def of(cls, dataset: Dataset, saved: Run) -> Self:
        """The data filtered and split as for the training."""
        with _fitting():
            prepared = prepare_for(dataset, saved.settings)
            return cls(saved, dataset, prepared, standing(prepared.dataset, prepared.train)[1])

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Ids of people, row by row."""
        return tuple(self.prepared.dataset.people.ids[row] for row in self.order)

    def counts(self) -> OffsetArray:
        """How many training records each person has, row by row."""
        return np.bincount(self.prepared.train.person, minlength=len(self.order))[self.order]

    @cached_property
    def same(self) -> bool:
        """Whether these are the records of the training, at the same places."""
        places, encoding = self.prepared.dataset.places, self.saved.encoding
        sides = (
            in_order(one, self.order, np.empty((len(one), 0), np.float32))
            for one in (self.prepared.train, self.prepared.test)
        )
        shapes = (len(places), encoding.width(encoding.place)), (len(self.ids), encoding.width(encoding.person))
        found = _fingerprint(person_keys(self.ids), shapes, sides)
        return found == self.saved.rows and self.saved.released.places == places.ids

    def set_up(self) -> Setup:
        """Everyone on the data of the training, to test the run: on others it may have learnt from the test."""
        if not self.same:
            raise StateError(
                "this run was trained on other records than these, so it cannot be tested on them; train again"
            )
        with _fitting():
            setup = set_up_prepared(
                self.prepared, self.dataset, self.saved.settings, encoding=self.saved.encoding, release=self._release
            )
        _refuse_unfit(self.saved.models, setup.samples)
        return setup

    def set_up_alone(self, person: int) -> tuple[Setup, Models]:
        """The person of this row of the data, and nobody else, to recommend to; on data that may have grown.

        After rounds everyone, new or not, learns alone from the own records, as a device does. After the paper's
        schedule people have their own model, found by key, and whoever is new the mean of all. A centralised model
        serves everyone. On the data of the training the person learns from what the training saw. On others a release
        is used as it is, with what a person added to it: to collect once more would cost everyone's budget once more,
        and only the device could leave the own part of the first out."""
        settings, alone = self.saved.settings, self._alone(person)
        with _fitting():
            places = self._catalogue
            popular = self._popularity_for_all
            popular = self._release(alone) if popular is None else popular.of_person(person)
            samples = assemble(
                alone.dataset, train=alone.train, test=alone.test, encoding=self.saved.encoding, popularity=popular,
                places=places, alike=settings.neighbours.alike, earlier=only_earlier(settings.data),
            )  # fmt: skip
        _refuse_unfit(self.saved.models, samples, people=len(self.saved.people))
        return Setup(settings, alone, popular, self.saved.encoding, samples), self._models_of(samples)

    def _alone(self, person: int) -> Prepared:
        prepared, mask = self.prepared, np.arange(len(self.order)) == person
        train, test = (one.take(one.person == person) for one in (prepared.train, prepared.test))
        train, test = (replace(one, person=np.zeros_like(one.person)) for one in (train, test))
        return replace(
            prepared, dataset=replace(prepared.dataset, people=prepared.dataset.people.take(mask)), train=train,
            test=test,
        )  # fmt: skip

    @cached_property
    def _catalogue(self) -> FeatureArray:
        """X^j of all places. StateError for people of whom the run knows nobody."""
        if not np.isin(person_keys(self.ids), self.saved.people).any():
            raise StateError("nobody of this run is in these data; it was trained on other people")
        return place_features(self.prepared.dataset.places, self.saved.encoding)

    @cached_property
    def _popularity_for_all(self) -> Popularity | None:
        """Popularity that is the same for everyone; None where each person's is made of the sums that were opened."""
        settings, released = self.saved.settings, self.saved.released
        if self.same and released.opened is not None:
            return None
        if self.same or not (mechanism_of(settings).spends and settings.features.dynamic):
            return release_popularity(self.prepared, settings)
        return _released_before(released, self.prepared.dataset.places)

    def _release(self, prepared: Prepared) -> Popularity:
        """The release as it was, as these people see it; drawn again where no sums are kept."""
        released = self.saved.released
        if released.opened is None:
            return release_popularity(prepared, self.saved.settings)
        return seen_again(prepared, self.saved.settings, released.popularity(self.saved.settings))

    def _models_of(self, samples: Samples) -> Models:
        models, keys = self.saved.models, self.saved.people
        if not isinstance(models, FactorizationModels) or len(models.linear) == 1:
            return models
        known = np.flatnonzero(keys == samples.keys[0])
        linear = models.linear[known[:1]] if len(known) else models.linear.mean(axis=0, keepdims=True)
        return FactorizationModels(np.ascontiguousarray(linear), models.interaction)


@contextmanager
def _fitting() -> Iterator[None]:
    """StateError where the encoding or a release of a run calls for what data do not have."""
    try:
        yield
    except DataError as error:
        raise StateError(f"this run does not fit these data: {error}") from None


def _refuse_unfit(models: Models, samples: Samples, *, people: int | None = None) -> None:
    """StateError if models have not the size that these samples and so many people (None: those of the samples) call
    for: kernels do not check the size of an array."""
    many = len(samples.ids) if people is None else people
    wanted: list[tuple[RealArray, tuple[int, ...]]]
    if isinstance(models, SharedModels):
        columns, moments = samples.columns, models.moments
        own, moment, words = (columns.person,), (columns.context - columns.popularity,), (columns.layout.core,)
        wanted = [
            (models.shared.everyone, (columns.layout.width,)),
            (models.shared.crossing, (columns.person, len(columns.layout.crossed))),
            (moments.person_mean, own), (moments.person_sd, own), (moments.moment_mean, moment),
            (moments.moment_sd, moment), (models.shared.words.factor, words), (models.shared.words.centre, words),
        ]  # fmt: skip
    else:
        D, rows = samples.features, 1 if len(models.linear) == 1 else many
        wanted = [(models.linear, (rows, D + 1)), (models.interaction, (D, *models.interaction.shape[1:2]))]
    for array, shape in wanted:
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise StateError("the models of this run have not the size or kind that its settings and data call for")


def rows_of(samples: Samples) -> str:
    """A fingerprint of who is in which row of W, and of the records that were learnt from and tested on."""
    return _fingerprint(samples.keys, (samples.places.shape, samples.people.shape), (samples.train, samples.test))


def _fingerprint(keys: KeyArray, shapes: tuple[object, object], sides: Iterable[Records]) -> str:
    digest = blake2b(keys.tobytes(), digest_size=16)
    digest.update("{} {}".format(*shapes).encode())
    for records in sides:
        for array in (records.offsets, records.place, records.label):
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _released_before(released: Released, places: Places) -> Popularity:
    """The saved release for these places; a place that is new has what places have on average."""
    at, many = _rows_before(released, places), len(released.places)
    if any(len(values) != many for values in released.columns.values()):
        raise StateError("the popularity that this run released has not one value for each place")
    return Popularity(
        {name: np.append(values, np.mean(values) if values else 0.0)[at] for name, values in released.columns.items()}
    )


def _rows_before(released: Released, places: Places) -> OffsetArray:
    """(J,): the row that each of these places had in the run; one beyond the last for a place that is new."""
    row = {place: at for at, place in enumerate(released.places)}
    return np.array([row.get(place, len(row)) for place in places.ids], dtype=np.int64)


# Whether a saved run and the data at hand are of one city: their catalogues of places, which are public, say so.
#
# Ids alone do not: many a city has a place called p001, and a person u001 whose model would answer there.


def place_keys(places: Places) -> KeyArray:
    """(J,): what id and position of each place hash to; id and public words, where it has no position."""
    named = (f"{one}\0{where}" for one, where in zip(places.ids, _positions(places), strict=True))
    digests = (blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"prirec place") for text in named)
    return np.frombuffer(b"".join(digest.digest() for digest in digests), dtype="<u8").astype(np.uint64)


def refuse_another_city(saved: Run, places: Places) -> None:
    """StateError if the run knows no place of these data, or less than half of those it knows are where they were.

    Places may have come, gone and moved since."""
    row = {place: at for at, place in enumerate(places.ids)}
    known = np.array([[mine, row[one]] for mine, one in enumerate(saved.released.places) if one in row], dtype=np.int64)
    again = f"give the data that it was trained on ({saved.source}), or train again"
    if not len(known):
        raise StateError(f"no place of this run is in these data: it was trained on another city; {again}")
    if saved.catalogue.shape != (len(saved.released.places),):
        raise StateError("the catalogue of this run has not one key for each place")
    same = int((saved.catalogue[known[:, 0]] == place_keys(places)[known[:, 1]]).sum())
    if 2 * same < len(known):
        raise StateError(
            f"of {len(known):,} places that this run and these data both name {same:,} are the same: it was trained "
            f"on another city; {again}"
        )


def _positions(places: Places) -> Iterator[str]:
    nowhere = [(float("nan"), float("nan"))] * len(places)
    for row, (lat, lon) in enumerate(nowhere if places.location is None else places.location.tolist()):
        unknown = isnan(lat) or isnan(lon)
        name = [places.names[row]] if places.names and places.names[row] else []
        yield ", ".join([*name, *places.words(row)]) if unknown else f"{round(_GRID * lat)},{round(_GRID * lon)}"


# run.json, the card of a run folder. Its own hash stands in it, so that a damaged card is noticed as well.


class Card(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run folder is, what made it, and what its files must hash to."""

    version: int
    source: str
    rows: str
    made_with: dict[str, str]
    files: dict[str, str]
    seal: str = ""  # the hash of all the above

    def sealed(self) -> str:
        return hash_of(msgspec.json.encode(msgspec.structs.replace(self, seal="")))


def read_card(path: Path) -> Card:
    """StateError if there is none, or it is damaged or of another version."""
    try:
        with open_regular(path / "run.json") as file:
            text = file.read()
        version = msgspec.json.decode(text, type=dict[str, object]).get("version")
        if isinstance(version, int) and version < VERSION:
            raise StateError(f"the run in {path} was saved by an earlier version; train again")
        if version != VERSION:
            raise StateError(f"the run in {path} has version {version}, this program reads version {VERSION}")
        card = msgspec.json.decode(text, type=Card)
        if card.sealed() != card.seal:
            raise StateError(f"run.json in {path} is damaged")
        return card
    except OSError:
        raise StateError(f"there is no run in {path} (no run.json){_earlier(path)}") from None
    except NOT_DECODED:
        raise StateError(f"run.json in {path} is damaged") from None


def _earlier(path: Path) -> str:
    """Where it is if it was being replaced, elsewhere or by somebody who was killed."""
    names = [] if path.exists() else sorted(left.name for left in left_beside(path, EARLIER))
    return f"; it was being replaced, and is in {' or '.join(names)} beside it: rename that back" if names else ""


def read_checked(file: Path, card: Card) -> bytes:
    """What is in a file of the folder; StateError if it is not what the card says."""
    try:
        with open_regular(file) as held:
            data = held.read()
    except OSError:
        raise StateError(f"the run in {file.parent} has lost its {file.name}") from None
    if hash_of(data) != card.files.get(file.name):
        raise StateError(f"{file.name} in {file.parent} is damaged: it is not what was saved")
    return data


def made_with() -> dict[str, str]:
    return {
        "prirec": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": version("numba"),
        "machine": platform.machine(),
    }


def hash_of(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()


# Files and arrays.


def write_files(
    folder: Path, contents: Mapping[str, bytes], *, source: str, rows: str, there: Mapping[str, str] | None = None
) -> None:
    """These files, and the card that names them; `there` are the hashes of files that are in the folder already."""
    hashes = {**(there or {}), **{name: hash_of(data) for name, data in contents.items()}}
    card = Card(version=VERSION, source=source, rows=rows, made_with=made_with(), files=hashes)
    sealed = msgspec.structs.replace(card, seal=card.sealed())
    named = {**contents, "run.json": msgspec.json.format(msgspec.json.encode(sealed), indent=2)}
    for name, data in named.items():
        write_file(folder / name, data)


def write_file(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def bytes_of(array: NDArray[Any]) -> bytes:
    buffer = BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def names_of_files(settings: Settings) -> tuple[str, ...]:
    """The files of a run beside run.json, in the order in which the card lists them."""
    return (*COMMON, *(AFTER_ROUNDS if settings.schedule == "rounds" else FACTORIZATION))


def _contents(run: Run) -> dict[str, bytes]:
    models = run.models
    found = {
        **short_files(
            run.settings, run.encoding, released=run.released, history=run.history, catalogue=run.catalogue
        ),
        "people.npy": bytes_of(run.people),
    }  # fmt: skip
    if isinstance(models, SharedModels):
        found |= shared_files(models.shared, models.moments)
    else:
        found |= {"interaction.npy": bytes_of(models.interaction), "linear.npy": bytes_of(models.linear)}
    return {name: found[name] for name in names_of_files(run.settings)}


def short_files(
    settings: Settings, encoding: Encoding, *, released: Released, history: Sequence[IterationReport],
    catalogue: KeyArray,
) -> dict[str, bytes]:  # fmt: skip
    """Files of any run that have no row for each person; those shards write where no machine holds everyone."""
    return {
        "settings.toml": config.dump(settings).encode(),
        "encoding.json": encoding.to_json(),
        "popularity.json": msgspec.json.encode(released),
        "history.jsonl": b"".join(msgspec.json.encode(passed) + b"\n" for passed in history),
        "catalogue.npy": bytes_of(catalogue),
    }


def shared_files(shared: SharedModel, moments: Moments) -> dict[str, bytes]:
    """Files of a run of rounds that have no row for each person."""
    B = np.concatenate([shared.everyone, shared.crossing.ravel()])
    return {"shared.npy": bytes_of(B), "scales.json": msgspec.json.encode(Scales.of(moments, shared.words))}


def _models(contents: Mapping[str, bytes], encoding: Encoding) -> Models:
    if "shared.npy" not in contents:
        return FactorizationModels(*(_array(contents[name], np.float64) for name in ("linear.npy", "interaction.npy")))
    scales = msgspec.json.decode(contents["scales.json"], type=Scales)
    moments, columns, B = scales.moments, Columns.of(encoding), _array(contents["shared.npy"], np.float64)
    everyone, crossing = B[: columns.layout.width], B[columns.layout.width :]
    shared = SharedModel(
        columns.layout, scales.words, rounded_base(moments.positive), everyone.copy(),
        crossing.reshape(columns.person, len(columns.layout.crossed)).copy(),
    )  # fmt: skip
    return SharedModels(shared, moments)


def _array(data: bytes, entry: type[Entry]) -> NDArray[Entry]:
    array: NDArray[Entry] = np.load(BytesIO(data), allow_pickle=False)
    if array.dtype != entry:
        raise ValueError(f"an array has entries of {array.dtype} instead of {np.dtype(entry)}")
    return array
