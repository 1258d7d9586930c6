"""A whole training: iterations, history, early stopping, checkpoints. An engine decides what one iteration is."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, Self

import msgspec
import numpy as np

from prirec.config import Settings
from prirec.engines.state import (
    Checkpoint,
    FactorizationState,
    IterationReport,
    State,
    StateOf,
    identity,
    is_checkpoint,
    load_checkpoint,
    save_checkpoint,
    state_of,
)
from prirec.errors import StateError, UsageError
from prirec.features.samples import Records, Samples
from prirec.model.scoring import Models, mean_loss, scores
from prirec.util.keyed_random import run_key, shuffle


class Engine(Protocol):
    """Moves a state on by one iteration, in place."""

    def start(self) -> Any: ...

    def advance(self, state: Any) -> IterationReport: ...


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a training: state, models, history."""

    state: State | None = field(repr=False)  # None: of a saved run, from which no training goes on
    models: Models = field(repr=False)
    history: tuple[IterationReport, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """Where a run's checkpoint is written, and after how many iterations."""

    path: Path
    every: int = 5


def train(
    samples: Samples,
    settings: Settings,
    *,
    engine: str = "local",
    threads: int = 2,
    checkpointing: Checkpointing | None = None,
    progress: Callable[[IterationReport], None] = lambda report: None,
) -> Trained:
    """Algorithm 2, or rounds: from the start, or from the last checkpoint of the same run, to the same bits.

    `progress` is called with the report of each iteration, those before the checkpoint first."""
    seen, held_out = hold_out(samples, settings)
    file = None if checkpointing is None else CheckpointFile.of(checkpointing, samples, settings)
    made = make_engine(engine, seen, settings, threads=threads)

    def models(state: State) -> Models:
        return models_of(state, seen, settings, threads=threads)

    def watched(state: State) -> float | None:
        return None if held_out is None else mean_loss(held_out, scores(models(state), seen, held_out))

    run = run_engine(made, settings, file=file, watch=watched, progress=progress)
    best = run.best if run.best is not None else run.state
    return Trained(best, models(best), tuple(run.history))


def models_of(state: State, samples: Samples, settings: Settings, *, threads: int = 2) -> Models:
    """The models of a state."""
    if isinstance(state, FactorizationState):
        return state.models
    from prirec.engines import local

    return local.Rounds(samples, settings, threads=threads).models(state)


def run_engine(
    engine: Engine,
    settings: Settings,
    *,
    file: "CheckpointFile | None" = None,
    watch: Callable[[State], float | None] = lambda state: None,
    progress: Callable[[IterationReport], None] = lambda report: None,
) -> Checkpoint:
    """The training loop, on one machine and on a cluster: from the start or from the checkpoint, until there are enough
    iterations, or until early stopping has seen no better loss on held-out records (`watch`) for long enough."""
    run = None if file is None else file.load(settings)
    if run is None:
        run = Checkpoint(engine.start())
    for report in run.history:
        progress(report)
    while run.state.iteration < settings.iterations and not run.exhausted(settings.stopping.patience):
        began = monotonic()
        report = engine.advance(run.state)
        seconds = monotonic() - began
        if not isfinite(report.loss):
            raise UsageError("the loss is no longer a number: give linear.alpha or interaction.alpha a smaller value")
        run.note(msgspec.structs.replace(report, seconds=seconds, held_out_loss=watch(run.state)))
        if file is not None:
            file.offer(run)
        progress(run.history[-1])
    return run


def make_engine(name: str, samples: Samples, settings: Settings, *, threads: int = 2) -> Engine:
    """The engine with this name, for the schedule of these settings. Only that one is loaded: whoever reads a saved run
    needs none."""
    if threads < 1:
        raise UsageError("an engine needs at least one thread")
    if name == "local" or settings.schedule == "centralised":  # the baseline has one engine, whatever it is called
        from prirec.engines import local

        return local.engine(samples, settings, threads=threads)
    if name == "plain":
        from prirec.engines import plain

        return plain.engine(samples, settings)
    if name == "protocol":
        from prirec.engines import protocol

        return protocol.ProtocolEngine(samples, settings)
    raise UsageError(f"no engine is called '{name}'; there are local, plain, protocol and cluster")


# Checkpoints


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """The checkpoint of one run: the same file for every engine and any number of shards."""

    path: Path
    every: int
    identity: str
    made: StateOf

    @classmethod
    def of(cls, checkpointing: Checkpointing, samples: Samples, settings: Settings) -> Self:
        seen, _ = hold_out(samples, settings)
        return cls(checkpointing.path, checkpointing.every, identity(seen, settings), state_of(seen, settings))

    def load(self, settings: Settings) -> Checkpoint | None:
        """The run so far, if any of it was saved; StateError if this run cannot resume from what is there."""
        if not self.path.exists():
            return None
        run = load_checkpoint(self.path, self.identity, self.made)
        if run.state.iteration > settings.iterations:
            raise StateError(
                f"the checkpoint is at iteration {run.state.iteration}, past the {settings.iterations} asked for"
            )
        return run

    def offer(self, run: Checkpoint) -> None:
        """Save the run, if so many iterations have passed."""
        if run.state.iteration % self.every == 0:
            save_checkpoint(self.path, run, self.identity)

    def resumed_iteration(self, settings: Settings, *, resume: bool) -> int:
        """Iterations that the checkpoint holds; 0 where there is none. Without `resume` it is removed: only what is a
        checkpoint ever is, so that a slip of the hand in a path costs no file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            return 0
        known = is_checkpoint(self.path)
        if not resume:
            if not known:
                raise UsageError(
                    f"{self.path} is no checkpoint that could be started over from; remove it or name another"
                )
            self.path.unlink()
            return 0
        try:
            done = load_checkpoint(self.path, self.identity, self.made).state.iteration
        except StateError as refusal:
            raise StateError(f"{refusal}; without resume it starts over" if known else str(refusal)) from None
        if done > settings.iterations:
            raise UsageError(
                f"the checkpoint {self.path} holds {done} iterations, more than the {settings.iterations} asked for; "
                "ask for more iterations, or start over without resume"
            )
        return done


def refuse_folder(checkpoint: Path) -> None:
    """UsageError for a folder where a checkpoint, which is a file, would be."""
    if checkpoint.is_dir():
        raise UsageError(
            f"the checkpoint {checkpoint} is a folder; name a file. If an earlier version saved it on a cluster, it "
            "cannot be resumed from: remove it, and train again"
        )


# Early stopping


def hold_out(samples: Samples, settings: Settings) -> tuple[Samples, Records | None]:
    """With early stopping a share of the training records, drawn by the seed, is not learnt from but watched."""
    if settings.stopping.patience == 0:
        return samples, None
    many = round(settings.stopping.share * len(samples.train))
    if not 0 < many < len(samples.train):
        raise UsageError(f"stopping.share would set {many} of {len(samples.train)} training records aside; change it")
    order = np.empty(len(samples.train), dtype=np.int64)
    shuffle(run_key(settings.seed, "held out"), order)
    aside = np.zeros(len(order), dtype=bool)
    aside[order[:many]] = True
    return replace(samples, train=_part(samples.train, ~aside)), _part(samples.train, aside)


def _part(records: Records, chosen: np.ndarray) -> Records:
    person = records.person[chosen]
    counts = np.bincount(person, minlength=len(records.offsets) - 1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Records(offsets, person, records.place[chosen], records.label[chosen], records.context[chosen])
