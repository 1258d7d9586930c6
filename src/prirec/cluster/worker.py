"""What runs in an actor: one shard, and how it is made. Nothing here knows of Ray."""

import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from prirec import __version__
from prirec.config import Settings
from prirec.engines.shards import Shard, ShardData
from prirec.engines.state import RoundsState
from prirec.simulate.partitioned import PartitionedShard
from prirec.types import FeatureArray


class ShardSource(Protocol):
    """How the shard of an actor is made; sent to the actor, and again to its replacement."""

    def shard(self, settings: Settings, public: Any) -> Any:
        """The shard; `public` is what all shards share."""


class GivenPeople:
    """People whom the driver sends. Features of places are left out: they are the same for all shards, and public."""

    def __init__(self, share: ShardData):
        none = share.samples.popularity[:0]
        self.share = replace(share, samples=replace(share.samples, places=none, popularity=none))

    def shard(self, settings: Settings, public: Any) -> Shard:
        return Shard(self.with_places(public), settings)

    def with_places(self, places: FeatureArray) -> ShardData:
        return replace(self.share, samples=replace(self.share.samples, places=places))


class PartitionedPeople:
    """People in some parts of a partitioned folder, and the calls that bring a new shard to where the lost one was."""

    def __init__(self, folder: str, which: Sequence[int], calls: Sequence[tuple[str, tuple[Any, ...]]]):
        self.folder, self.which, self.calls = folder, which, calls

    def shard(self, settings: Settings, public: Any) -> PartitionedShard:
        del public  # features of places are an argument of the call that assembled the shard
        made = PartitionedShard(Path(self.folder), self.which, settings)
        for name, args in self.calls:
            getattr(made, name)(*args)
        return made


class Worker:
    """The actor: answers calls by name, with methods of its own and of its shard."""

    def __init__(self) -> None:
        self.shard: Any = None

    def load(self, source: ShardSource, settings: Settings, public: Any) -> None:
        """Not done by the constructor, so that a refusal is an error of this call and not a dead actor."""
        self.shard = source.shard(settings, public)

    def call(self, name: str, args: tuple[Any, ...]) -> tuple[Any, int]:
        """The answer, and how many bytes of arrays are in it."""
        answer = self._method(name)(*args)
        return answer, array_bytes(answer)

    def receive(self, name: str, value: Any) -> None:
        """A call whose argument Ray fetches from the object store of another node."""
        self._method(name)(value)

    def _method(self, name: str) -> Any:
        return getattr(self if hasattr(self, name) else self.shard, name)

    def made_with(self) -> dict[str, str]:
        """Versions of whatever results depend on, to the bit."""
        return versions()

    def process(self) -> int:
        return os.getpid()


def versions() -> dict[str, str]:
    return {
        "prirec": __version__,
        "numpy": np.__version__,
        "numba": version("numba"),
        "h3": version("h3"),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
    }


def array_bytes(value: Any) -> int:
    """Bytes of the arrays in an answer or in arguments; everything else is small."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, tuple | list):
        return sum(array_bytes(part) for part in value)
    if isinstance(value, RoundsState):
        return array_bytes(list(value.arrays().values()))
    return 0
