"""What a run has learnt so far, what it says about each iteration, and its checkpoint: one file, replaced in one atomic
move, refused when damaged or from another run."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Self
from zipfile import ZipFile

import msgspec
import numpy as np

from prirec import config
from prirec.config import Settings
from prirec.errors import StateError
from prirec.features.samples import Samples
from prirec.model.local_step import Latent
from prirec.model.public_half import Moments, no_moments
from prirec.model.scoring import Models
from prirec.types import RealArray
from prirec.util.decode_errors import NOT_ARRAYS
from prirec.util.files import open_regular, replacing


@dataclass(slots=True)
class State:
    """All models of a simulated run; engines move it in place. In a deployment each linear model is on a device."""

    iteration: int
    linear: RealArray = field(repr=False)  # W (I, D + 1); (1, D + 1) where everyone shares one model
    interaction: RealArray = field(repr=False)  # V (D, K)
    moments: Moments = field(repr=False)
    means: RealArray = field(repr=False)  # (C, D + 1): what each cohort opened last; no rows before the first round
    latent: Latent | None = field(default=None, repr=False)  # u (I, K') and P (J, K'), where settings ask for them
    factor_moments: Moments = field(default_factory=lambda: no_moments((0, 0)), repr=False)  # Adam's, of P

    @property
    def models(self) -> Models:
        return Models(self.linear, self.interaction, self.latent)

    def copy(self) -> Self:
        """A copy of the models. Moments are shared: Adam makes new ones and never changes them in place."""
        latent = None if self.latent is None else Latent(*(part.copy() for part in self.latent))
        return replace(
            self, linear=self.linear.copy(), interaction=self.interaction.copy(), means=self.means.copy(), latent=latent
        )


class IterationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one iteration; the history of a run is a list of these."""

    iteration: int
    loss: float  # mean training loss before each step
    took_part: int  # devices that learnt
    in_sum: int  # devices whose gradient of V was summed
    cohorts_opened: int = 0
    opened: bool = True  # whether the sum over everyone was opened, and V moved
    alone: int = 0  # devices that learnt without neighbours
    octets: int | None = None  # bytes that crossed between parties, where the protocols were run
    held_out_loss: float | None = None
    seconds: float | None = None
    moved: int | None = None  # bytes between the driver and the actors, on a cluster


def fits(models: Models, samples: Samples, settings: Settings) -> bool:
    """Whether models have the shapes and types that these samples and settings call for, and are numbers. What was read
    from a file is asked first: kernels do not check the size of an array."""
    D, K, L = samples.features, settings.model.dimension, settings.latent.dimension
    people = 1 if settings.schedule == "centralised" else len(samples.ids)
    wanted = [(models.linear, (people, D + 1)), (models.interaction, (D, K))]
    if models.latent is not None:
        wanted += zip(models.latent, ((people, L), (len(samples.places), L)), strict=True)
    return (models.latent is not None) == (L > 0) and all(
        array.shape == shape
        and array.dtype == np.float64
        and array.flags.c_contiguous
        and bool(np.isfinite(array).all())
        for array, shape in wanted
    )


# Checkpoints


VERSION = 2
# a zip file whose first member is the linear models: a matrix of floats
_OPENING = re.compile(
    rb"PK\x03\x04.{26}linear0\.npy.{0,32}\x93NUMPY.{4}\{'descr': '<f8', 'fortran_order': (True|False), "
    rb"'shape': \(\d+, \d+\), \}",
    re.DOTALL,
)
_OPENING_BYTES = 256
_END, _END_BYTES = b"PK\x05\x06", 22  # the record at the end of a zip file that has no comment
_LATENT = ("latent", "factors", "factors_first", "factors_second")


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
    steps: list[int]  # Adam's, the same for V and for the factors of places
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
        steps=[s.moments.steps for s in states],
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


def load_checkpoint(path: Path, whose: str) -> Checkpoint:
    """The run as it was; StateError if the file is damaged, newer than this program, or from another run."""
    try:
        with open_regular(path) as raw, np.load(raw, allow_pickle=False) as file:
            _refuse_additions(raw, file.zip)
            text = file["header"].tobytes()
            # the version alone first: a newer header may have other fields
            version = msgspec.json.decode(text, type=dict[str, Any]).get("version")
            if version != VERSION:
                raise StateError(f"the checkpoint {path.name} has version {version}, this program reads {VERSION}")
            header = msgspec.json.decode(text, type=_Header)
            if header.whose != whose:
                raise StateError(
                    f"the checkpoint {path.name} is of another run (other settings or data); remove it or name another"
                )
            states = [_state(file, at, header) for at in range(len(header.iterations))]
            arrays = _arrays(states)
            if _hash(arrays) != header.arrays or {*file.files} != {"header", *arrays}:
                raise ValueError("altered")
    except NOT_ARRAYS:
        raise StateError(f"the checkpoint {path.name} is damaged; remove it to start over") from None
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
            return {"header.npy", "linear0.npy"} <= set(archive.namelist())
    except NOT_ARRAYS:
        pass
    try:
        with open_regular(path) as file:
            return _OPENING.match(file.read(_OPENING_BYTES)) is not None
    except OSError:
        return False


def _arrays(states: Sequence[State]) -> dict[str, Any]:
    """Arrays by name and number of the state. Those of a latent part only where there is one: without it the file is as
    it was before latent parts existed."""
    found: dict[str, Any] = {}
    for at, s in enumerate(states):
        arrays = {"linear": s.linear, "interaction": s.interaction}
        arrays |= {"first": s.moments.first, "second": s.moments.second, "means": s.means}
        if s.latent is not None:
            parts = (*s.latent, s.factor_moments.first, s.factor_moments.second)
            arrays |= dict(zip(_LATENT, parts, strict=True))
        found |= {f"{name}{at}": array for name, array in arrays.items()}
    return found


def _hash(arrays: dict[str, Any]) -> str:
    digest = blake2b(digest_size=32)
    for name, array in arrays.items():
        digest.update(f"{name} {array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _state(file: "np.lib.npyio.NpzFile", at: int, header: _Header) -> State:
    moments = Moments(file[f"first{at}"], file[f"second{at}"], header.steps[at])
    state = State(header.iterations[at], file[f"linear{at}"], file[f"interaction{at}"], moments, file[f"means{at}"])
    if f"{_LATENT[0]}{at}" in file:
        vectors, factors, first, second = (file[f"{name}{at}"] for name in _LATENT)
        state.latent, state.factor_moments = Latent(vectors, factors), Moments(first, second, moments.steps)
    return state
