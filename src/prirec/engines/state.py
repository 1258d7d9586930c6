"""What a run has learnt so far, what it says about each iteration, and its checkpoint: one file, replaced in one atomic
move, refused when damaged or from another run."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeAlias
from zipfile import ZipFile

import msgspec
import numpy as np

from prirec import config
from prirec.config import Settings
from prirec.errors import StateError
from prirec.features.columns import Columns, Moments
from prirec.features.samples import Samples
from prirec.model.estimate import Estimate
from prirec.model.scoring import FactorizationModels
from prirec.types import RealArray
from prirec.util.decode_errors import NOT_ARRAYS
from prirec.util.files import open_regular, replacing

Arrays: TypeAlias = Mapping[str, np.ndarray]


@dataclass(slots=True)
class FactorizationState:
    """The models of Eq. (1) in a simulated run; engines move them in place."""

    iteration: int
    linear: RealArray = field(repr=False)  # W (I, D + 1); (1, D + 1) where everyone shares one model
    interaction: RealArray = field(repr=False)  # V (D, K)

    @property
    def models(self) -> FactorizationModels:
        return FactorizationModels(self.linear, self.interaction)

    def copy(self) -> Self:
        return replace(self, linear=self.linear.copy(), interaction=self.interaction.copy())

    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps."""
        return {"linear": self.linear, "interaction": self.interaction}

    @classmethod
    def of_arrays(cls, iteration: int, arrays: Arrays, *, samples: Samples, settings: Settings) -> Self:
        """The state in a checkpoint. StateError if it has not the size that these samples and settings call for:
        kernels do not check the size of an array."""
        people = 1 if settings.schedule == "centralised" else len(samples.ids)
        wanted = {"linear": (people, samples.features + 1), "interaction": (samples.features, settings.model.dimension)}
        _check(arrays, wanted)
        return cls(iteration, arrays["linear"], arrays["interaction"])


@dataclass(slots=True)
class RoundsState:
    """What a training by rounds has come to. All of it is public: it follows from opened sums."""

    iteration: int
    moments: Moments = field(repr=False)
    estimate: Estimate = field(repr=False)

    def copy(self) -> Self:
        """Nothing in it is ever changed in place."""
        return replace(self)

    def arrays(self) -> dict[str, np.ndarray]:
        e, m = self.estimate, self.moments
        return {
            "average": e.average, "B": e.B, "first": e.first,
            "estimate": np.array([e.curvature, e.variance, e.rounds]),
            **{name: np.array(getattr(m, name)) for name in m._fields},
        }  # fmt: skip

    @classmethod
    def of_arrays(cls, iteration: int, arrays: Arrays, *, columns: Columns) -> Self:
        """The state in a checkpoint. StateError if it has not the size that these columns call for."""
        shape, moment = columns.groups.shape, (columns.context - columns.popularity,)
        wanted: dict[str, tuple[int, ...]] = {
            "average": shape, "B": shape, "first": shape, "estimate": (3,), "person_mean": (columns.person,),
            "person_sd": (columns.person,), "moment_mean": moment, "moment_sd": moment, "positive": (),
            "root_records": (),
        }  # fmt: skip
        _check(arrays, wanted)
        curvature, variance, rounds = arrays["estimate"].tolist()
        estimate = Estimate(
            columns.groups, curvature, arrays["average"], arrays["B"], arrays["first"], variance, int(rounds)
        )
        moments = Moments(
            arrays["person_mean"], arrays["person_sd"], arrays["moment_mean"], arrays["moment_sd"],
            float(arrays["positive"]), float(arrays["root_records"]),
        )  # fmt: skip
        return cls(iteration, moments, estimate)


State: TypeAlias = FactorizationState | RoundsState
StateOf: TypeAlias = Callable[[int, Arrays], State]  # the state of an iteration from the arrays of a checkpoint


def state_of(samples: Samples, settings: Settings) -> StateOf:
    """How the state of a run is read from its checkpoint."""
    if settings.schedule == "rounds":
        return partial(RoundsState.of_arrays, columns=samples.columns)
    return partial(FactorizationState.of_arrays, samples=samples, settings=settings)


def _check(arrays: Arrays, wanted: Mapping[str, tuple[int, ...]]) -> None:
    for name, shape in wanted.items():
        found = arrays.get(name)
        if found is None or found.shape != shape or found.dtype != np.float64 or not np.isfinite(found).all():
            raise StateError(
                "the models in the checkpoint have not the size or kind that these settings and data call for"
            )


class IterationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one iteration; the history of a run is a list of these."""

    iteration: int
    loss: float  # mean training loss before each step
    took_part: int  # devices that learnt
    in_sum: int  # devices whose gradient was summed
    opened: bool = True  # whether the sum over everyone was opened, and the shared model moved
    alone: int = 0  # devices that learnt without neighbours
    octets: int | None = None  # bytes that crossed between parties, where the protocols were run
    held_out_loss: float | None = None  # with early stopping: mean loss of records held out for it
    seconds: float | None = None  # wall-clock time
    moved: int | None = None  # bytes between the driver and the actors, on a cluster


# Checkpoints


VERSION = 3
# a zip file whose first member is the linear models, or an average of gradients: a matrix of floats
_OPENING = re.compile(
    rb"PK\x03\x04.{26}(?:linear|average)0\.npy.{0,32}\x93NUMPY.{4}\{'descr': '<f8', 'fortran_order': (True|False), "
    rb"'shape': \(\d+, \d+\), \}",
    re.DOTALL,
)
_OPENING_BYTES = 256
_END, _END_BYTES = b"PK\x05\x06", 22  # the record at the end of a zip file that has no comment


@dataclass(slots=True)
class Checkpoint:
    """A run so far: the state, the report of each iteration, and the best state that early stopping has seen."""

    state: State
    history: list[IterationReport] = field(default_factory=list)
    best: State | None = None

    def note(self, report: IterationReport) -> None:
        """Adds an iteration to the history, and keeps a copy of the state if the held-out loss was never lower."""
        losses = [earlier.held_out_loss for earlier in self.history if earlier.held_out_loss is not None]
        self.history.append(report)
        if report.held_out_loss is not None and report.held_out_loss < min(losses, default=float("inf")):
            self.best = self.state.copy()

    def exhausted(self, patience: int) -> bool:
        """Whether early stopping has seen no better state for `patience` iterations; 0 switches it off."""
        return patience > 0 and self.best is not None and self.state.iteration - self.best.iteration >= patience


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    whose: str
    iterations: list[int]  # of the state, and of the best one if there is one
    history: list[IterationReport]
    arrays: str  # what the arrays must hash to


def identity(samples: Samples, settings: Settings) -> str:
    """A hash of the settings and of all that is learnt from: a checkpoint is only continued by the run that wrote it.
    More iterations may be asked for later, but not within a budget: the noise of the first ones was sized for all."""
    open_ended = settings.privacy.epsilon_per_user is None
    compared = msgspec.structs.replace(settings, iterations=1) if open_ended else settings
    digest = blake2b(msgspec.json.encode(config.written(compared)), digest_size=16)
    train = samples.train
    home = np.empty(0) if samples.home is None else samples.home
    learnt_from = (train.offsets, train.place, train.label, train.context)
    # only where neighbours follow from areas: checkpoints of all other runs, written before areas existed, stay valid
    area = () if settings.neighbours.kind != "alike" or samples.area is None else (samples.area,)
    for array in (samples.keys, home, samples.people, samples.places, *learnt_from, *area):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def save_checkpoint(path: Path, run: Checkpoint, whose: str) -> None:
    """Written beside, made durable, then moved over the old one: a crash leaves one or the other, whole."""
    states = [run.state] + ([run.best] if run.best is not None else [])
    arrays = _arrays(states)
    header = _Header(
        version=VERSION,
        whose=whose,
        iterations=[s.iteration for s in states],
        history=run.history,
        arrays=_hash(arrays),
    )
    arrays["header"] = np.frombuffer(msgspec.json.encode(header), dtype=np.uint8)
    try:
        with replacing(path) as file:
            np.savez(file, **arrays)
    except OSError as error:
        raise StateError(
            f"the checkpoint could not be written ({error.strerror}); the one before it is untouched"
        ) from None


def load_checkpoint(path: Path, whose: str, made: StateOf) -> Checkpoint:
    """The run as it was; StateError if the file is damaged, of another version, or from another run."""
    try:
        with open_regular(path) as raw, np.load(raw, allow_pickle=False) as file:
            _refuse_additions(raw, file.zip)
            text = file["header"].tobytes()
            # the version alone first: a newer header may have other fields
            version = msgspec.json.decode(text, type=dict[str, Any]).get("version")
            if version in range(1, VERSION):
                raise StateError(
                    f"the checkpoint {path.name} was saved by an earlier version; remove it and train again"
                )
            if version != VERSION:
                raise StateError(f"the checkpoint {path.name} has version {version}, this program reads {VERSION}")
            header = msgspec.json.decode(text, type=_Header)
            if header.whose != whose:
                raise StateError(
                    f"the checkpoint {path.name} is of another run (other settings or data); remove it or name another"
                )
            arrays = {name: file[name] for name in file.files if name != "header"}
            if not all(isinstance(array, np.ndarray) for array in arrays.values()) or _hash(arrays) != header.arrays:
                raise ValueError("altered")
    except NOT_ARRAYS:
        raise StateError(f"the checkpoint {path.name} is damaged; remove it to start over") from None
    states = [made(iteration, _numbered(arrays, at)) for at, iteration in enumerate(header.iterations)]
    return Checkpoint(states[0], header.history, states[1] if len(states) > 1 else None)


def _refuse_additions(file: BinaryIO, archive: ZipFile) -> None:
    """ValueError where something stands before or behind the archive: readers of zip files look past that, and nobody
    would notice that the file was written to."""
    file.seek(-_END_BYTES, os.SEEK_END)
    ended = file.read(len(_END)) == _END and not archive.comment
    if not ended or min(entry.header_offset for entry in archive.infolist()):
        raise ValueError("more than an archive")


def is_checkpoint(path: Path) -> bool:
    """Whether a file is what `save_checkpoint` writes, damaged or not, so that no other file is ever overwritten as
    one. Where the list of arrays at its end is unreadable or cut off, the first array decides."""
    try:
        with open_regular(path) as raw, ZipFile(raw) as archive:
            names = set(archive.namelist())
            return "header.npy" in names and bool({"linear0.npy", "average0.npy"} & names)
    except NOT_ARRAYS:
        pass
    try:
        with open_regular(path) as file:
            return _OPENING.match(file.read(_OPENING_BYTES)) is not None
    except OSError:
        return False


def _arrays(states: Sequence[State]) -> dict[str, Any]:
    """Arrays by name and number of the state."""
    return {f"{name}{at}": array for at, state in enumerate(states) for name, array in state.arrays().items()}


def _numbered(arrays: Arrays, at: int) -> dict[str, np.ndarray]:
    """Arrays of one state."""
    # not by ascontiguousarray, which makes a number a vector
    return {name[:-1]: np.array(array, order="C") for name, array in arrays.items() if name.endswith(str(at))}


def _hash(arrays: dict[str, Any]) -> str:
    digest = blake2b(digest_size=32)
    for name, array in arrays.items():
        digest.update(f"{name} {array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
