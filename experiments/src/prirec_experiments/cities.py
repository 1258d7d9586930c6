"""The data of every experiment, and for which of the paper's they stand. None of them is in the program: folders of
published data are named by the reader, the rest is made up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import prirec
from prirec.data.dataset import Dataset
from prirec.data.folder import read_folder
from prirec.data.published import import_published
from prirec.data.synthetic import CityPlan, koubei_size, make_city
from prirec.errors import UsageError
from prirec.util.keyed_random import generator
from prirec_experiments.results_store import Scalar

FOLDER = "folder"  # in the format of docs/how-to/your-own-data.md already
QUICK = "Quick mode: a small made-up city, not comparable with the paper."
SEED = 0  # of cities that are made up: splits vary, the city does not
FRESH = (2301, 2302, 2303)  # of cities that nothing was chosen on


@dataclass(frozen=True, slots=True)
class City:
    """A data set by name. `settings` are what its kind of data asks of every model; `paper` what Algorithm 2 needs."""

    name: str
    title: str
    stands_for: str = ""  # which of the paper's data, and in what it differs; empty: a city of the quick mode
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    paper: Mapping[str, Scalar] = field(default_factory=dict)
    published: tuple[str, str] | None = None  # the format's name, FOLDER for a data folder, and the folder's name
    made: Callable[[], Dataset] | None = field(default=None, repr=False)
    most_lists: int = 1000  # people whose lists are looked at: they take most of the time

    @property
    def note(self) -> str:
        """What a reader of a table must know about these data."""
        return f"Stands for {self.stands_for}." if self.stands_for else QUICK

    def available(self, data: Path | None) -> bool:
        return self.published is None or (data is not None and (data / self.published[1]).is_dir())

    def open(self, data: Path | None) -> Dataset:
        if self.made is not None:
            return self.made()
        if self.published is None or data is None:
            raise UsageError(f"{self.title} is read from published data: name their folder")
        name, folder = self.published
        if name == FOLDER:
            return read_folder(data / folder).dataset
        with TemporaryDirectory(prefix="prirec-") as target:
            return import_published(name, data / folder, Path(target) / name).dataset


FEW_PEOPLE = {"floor": 50}  # the fewest people over whom a sum may be opened
RANDOM = {"neighbours.kind": "random"}  # no coordinates: the paper draws neighbours anew for each interaction
SEARCHED = {"neighbours.kind": "alike", "neighbours.alike": "city"}  # those who searched the same town, or one near it


def _small() -> Dataset:
    return make_city(CityPlan(people=400, places=160, records=9_600, districts=3, categories=8), _rng("small"))


def _small_visits_located() -> Dataset:
    """Visits alone, as Yelp's are."""
    city = _small()
    return replace(city.with_visits(city.visits.take(city.visits.label > 0)), labelled=False)


def _small_visits() -> Dataset:
    """Visits alone, nowhere in particular, as Foursquare's are in the paper."""
    kept = _small_visits_located()
    people, places = replace(kept.people, location=None), replace(kept.places, location=None)
    return replace(kept, people=people, places=places)


def _like_the_demo(seed: int) -> Callable[[], Dataset]:
    """A city as `prirec demo --seed SEED` makes it."""
    return lambda: prirec.make_city(10_000, seed=seed).dataset


def _rng(purpose: str) -> np.random.Generator:
    return generator(SEED, f"experiments, {purpose}")


ALL = (
    City(
        "tokyo", "Foursquare Tokyo (LBSN2Vec)",
        "Foursquare: same author, city and service, about half its people and pairs; no gender, no times",
        paper=RANDOM, published=("foursquare-tokyo", "foursquare_tokyo"),
    ),
    City(
        "tokyo, complete", "Foursquare Tokyo (TIST 2015 with UbiComp 2016 profiles)",
        "Foursquare: the paper's own set, where the reader has it",
        paper=RANDOM, published=("tist2015-tokyo", "tist2015_tokyo"),
    ),
    City(
        "tokyo, profiles", "a small part of Foursquare Tokyo with profiles",
        "Foursquare: the paper's own tables, linked, but 62 places after the filter; an illustration, no conclusion",
        settings=FEW_PEOPLE, paper=RANDOM, published=("foursquare-tokyo-profiles", "foursquare_tokyo_profiles"),
    ),
    City(
        "trivago", "trivago hotels (RecSys Challenge 2019 sample)",
        "Koubei: labels are clicks and what was shown and ignored, thinned to 1:3 within sessions; no coordinates, so "
        "the neighbours of Algorithm 2 are by the town searched; lists are kept whole by the split",
        settings={"data.thin": 3, "data.split": "moment"}, paper=SEARCHED, published=("trivago", "trivago"),
        most_lists=300,
    ),
    City(
        "trivago, by record", "trivago hotels, lists cut in two by the split",
        "the paper's split: half a list in training tells of its other half, see the leak checker's flag",
        settings={"data.thin": 3}, paper=SEARCHED, published=("trivago", "trivago"),
        most_lists=300,
    ),
    City(
        "koubei-sized", "a made-up city of Koubei's size",
        "Koubei: its people, places, records, features and 1:3 labels; everything else is made up",
        settings={"data.keep": "all", "features.words": 64},
        made=lambda: make_city(koubei_size(), _rng("koubei-sized")),
    ),
    City("yelp", "Yelp (CAPRI)", "geography: real places, coordinates and categories", published=("yelp", "yelp")),
    City(
        "new york", "Foursquare New York (TSMC 2014, as prepared by STAN)",
        "later visits among places nearby: times and coordinates, but few people", published=(FOLDER, "foursquare_nyc"),
    ),
    City("demo", "the made-up city of the demo", "no city: what `prirec demo` makes up", made=_like_the_demo(0)),
    *(
        City(
            f"fresh {at}", f"made-up city {at} of the demo's kind", "no city: never looked at before this table",
            made=_like_the_demo(seed), most_lists=300,
        )
        for at, seed in enumerate(FRESH, start=1)
    ),
    City("clock", "made-up cities of many sizes", "time and bytes alone"),
    City("small", "a small made-up city", settings=FEW_PEOPLE, made=_small),
    City(
        "small visits located", "a small made-up city, visits alone, with coordinates", settings=FEW_PEOPLE,
        made=_small_visits_located,
    ),
    City(
        "small visits", "a small made-up city, visits alone", settings=FEW_PEOPLE, paper=RANDOM, made=_small_visits
    ),
)  # fmt: skip
CITIES: Mapping[str, City] = {city.name: city for city in ALL}


def fingerprint(dataset: Dataset) -> str:
    """A hash of all records, ids and names of columns: results belong to the data that they were measured on."""
    digest = blake2b(digest_size=16)
    for column in (dataset.visits.person, dataset.visits.place, dataset.visits.label, dataset.visits.time):
        digest.update(b"-" if column is None else np.ascontiguousarray(column).tobytes())
    digest.update("\0".join((*dataset.places.ids, *dataset.people.columns, *dataset.places.columns)).encode())
    return digest.hexdigest()
