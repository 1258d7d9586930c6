"""What runs in an actor: one shard, from whatever it is made of, with its checkpoints. It knows nothing of Ray."""

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
from prirec.engines.checkpoint import Checkpoint, load, save
from prirec.engines.shards import Shard, Share
from prirec.simulate.partitioned import PartitionedShard
from prirec.types import FeatureArray


class ShardSource(Protocol):
    """Where a shard's people come from."""

    def shard(self, settings: Settings, public: Any) -> Any:
        """With what is public and was handed to all shards alike."""


class GivenPeople:
    """People that the driver hands over; the features of places come apart from them."""

    def __init__(self, share: Share):
        none = share.samples.popularity[:0]
        self.share = replace(share, samples=replace(share.samples, places=none, popularity=none))

    def shard(self, settings: Settings, public: Any) -> Shard:
        return Shard(self.with_places(public), settings)

    def with_places(self, places: FeatureArray) -> Share:
        return replace(self.share, samples=replace(self.share.samples, places=places))


class PartitionedPeople:
    """People in some parts of a partitioned folder, and all that has been said to them so far."""

    def __init__(self, folder: str, which: Sequence[int], calls: Sequence[tuple[str, tuple[Any, ...]]]):
        self.folder, self.which, self.calls = folder, which, calls

    def shard(self, settings: Settings, public: Any) -> PartitionedShard:
        del public  # parts have their own way to it: what was told to assemble them
        apart = PartitionedShard(Path(self.folder), self.which, settings)
        for name, args in self.calls:
            getattr(apart, name)(*args)
        return apart


class Worker:
    """Answers to calls by name: its own, and its shard's."""

    def __init__(self) -> None:
        self.shard: Any = None

    def load(self, source: ShardSource, settings: Settings, public: Any) -> None:
        """Apart from making the actor, so that a refusal is told from a death."""
        self.shard = source.shard(settings, public)

    def call(self, name: str, args: tuple[Any, ...]) -> tuple[Any, int]:
        """The answer, and how many bytes of arrays are in it."""
        answer = self._found(name)(*args)
        return answer, array_bytes(answer)

    def hear(self, name: str, value: Any) -> None:
        """A call whose argument comes out of the store of another node."""
        self._found(name)(value)

    def _found(self, name: str) -> Any:
        """Its own, the shard's, or, where people were read from parts, those of what is made of them."""
        for holder in (self, self.shard, self._moved):
            if hasattr(holder, name):
                return getattr(holder, name)
        raise AttributeError(name)

    @property
    def _moved(self) -> Shard:
        """What rounds move."""
        inner: Shard = getattr(self.shard, "shard", self.shard)
        return inner

    def made_with(self) -> dict[str, str]:
        """What the same bits hang on."""
        return versions()

    def process(self) -> int:
        return os.getpid()

    def keep(self, folder: str, name: str, whose: str) -> None:
        """A checkpoint of this shard, as engines/local writes one."""
        save(Path(folder) / name, Checkpoint(self._moved.state), whose)

    def restore(self, folder: str, name: str, whose: str) -> None:
        """The shard as it was."""
        self._moved.begin(load(Path(folder) / name, whose).state)


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
    """Bytes of the arrays in an answer or in a call's arguments; all else is a few words."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, tuple | list):
        return sum(array_bytes(part) for part in value)
    return 0
