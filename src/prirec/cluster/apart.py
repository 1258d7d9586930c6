"""Training on data that no machine holds: shards read parts of a partitioned folder, and write the run."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from prirec.cluster.crew import LostError, RayCrew
from prirec.cluster.keeping import Shelf
from prirec.cluster.training import Run, refuse_unfit
from prirec.cluster.worker import Replayed
from prirec.data.partition_file import MANIFEST, PLACES, read_partition
from prirec.data.schema import FILE as SCHEMA
from prirec.engines.checkpoint import Checkpoint
from prirec.engines.state import Passed
from prirec.engines.training import Keeping
from prirec.errors import StateError
from prirec.evaluate.apart import refuse_unfit_apart
from prirec.evaluate.apart_conducting import Call, CityApart, Preparing, dealt
from prirec.evaluate.apart_saving import quality_apart, save_apart
from prirec.evaluate.metrics import Quality
from prirec.settings import Settings

ATTEMPTS = 3  # to get a city ready; what is lost on the way costs all of it


@dataclass(slots=True)
class Expedition:
    """A crew that has a partitioned city, and what has become of it."""

    crew: RayCrew = field(repr=False)
    city: CityApart = field(repr=False)
    whose: str
    run: Run = field(init=False, repr=False)

    def train(self, *, keeping: Keeping | None, tell: Callable[[Passed], None]) -> Checkpoint:
        """Rounds, to the bits of engines/local on the same folder."""
        shelf = None if keeping is None else Shelf(keeping.path, self.whose, len(self.crew.actors))
        every = 1 if keeping is None else keeping.every
        city = self.city
        self.run = Run(self.crew, city.settings, city.whole, bool(len(city.split)), shelf, every, tell)
        return self.run.finished()

    def quality(self, course: Checkpoint) -> Quality:
        """When all rounds are done."""
        return self.run.afterwards(lambda: quality_apart(self.crew, course.state.interaction))

    def save(self, path: Path, course: Checkpoint, *, source: str) -> None:
        """The same."""
        self.run.afterwards(lambda: save_apart(path, self.crew, self.city, course, source=source))


@contextmanager
def opened(folder: Path, settings: Settings, *, actors: int) -> Iterator[Expedition]:
    """The city of this folder in so many actors, or in as many as it has parts."""
    refuse_unfit(settings)
    refuse_unfit_apart(settings)
    parts = dealt([part.people + part.records for part in read_partition(folder).parts], shards=actors)
    calls: list[Call] = []
    where = str(folder.resolve())
    crew = RayCrew(lambda at: Replayed(where, parts[at], tuple(calls)), len(parts), settings)
    try:
        city = _ready(crew, folder, settings, calls)
        yield Expedition(crew, city, _whose(folder, city.settings))
    finally:
        crew.dismiss()


def _ready(crew: RayCrew, folder: Path, settings: Settings, calls: list[Call]) -> CityApart:
    for _ in range(ATTEMPTS):
        preparing = Preparing(crew, folder, settings)
        try:
            city = preparing.city()
        except LostError:
            crew.renew()
        else:
            calls.extend(preparing.calls)
            return city
    raise StateError("actors were lost again and again while the data were read; the nodes may lack memory")


def _whose(folder: Path, settings: Settings) -> str:
    """What a checkpoint must agree with: the settings, what is public, and the folder's parts by their sizes."""
    open_ended = settings.privacy.epsilon_per_user is None
    compared = msgspec.structs.replace(settings, iterations=1) if open_ended else settings
    digest = hashlib.blake2b(msgspec.json.encode(compared), digest_size=16)
    for public in (MANIFEST, PLACES, SCHEMA):
        digest.update(hashlib.blake2b((folder / public).read_bytes()).digest())
    for file in sorted(folder.glob("*/part=*/*.parquet")):
        digest.update(f"{file.relative_to(folder)} {file.stat().st_size}".encode())
    return digest.hexdigest()
