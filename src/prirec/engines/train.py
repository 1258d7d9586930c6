"""The baseline: a factorization machine of everyone's raw data in one place, learnt by Eqs. (7) and (9)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Protocol

import msgspec
import numpy as np

from prirec.config import Settings
from prirec.engines import local, plain, protocol
from prirec.engines.checkpoint import Checkpoint, identity, load, save
from prirec.engines.local import memory_layout
from prirec.engines.state import IterationReport, State, fits, start
from prirec.errors import StateError, UsageError
from prirec.features.samples import Records, Samples
from prirec.model.block_steps import Everyone
from prirec.model.equations import interaction_gradient_of, linear_step, loss, residual
from prirec.model.public_half import PlaceRows, linear_score_of, load_present, pairs_of
from prirec.model.scoring import mean_loss, scores
from prirec.privacy.plan import sized
from prirec.types import IndexArray, OffsetArray, RealArray
from prirec.util.jit import kernel
from prirec.util.keyed_random import Word, iteration_key, mix, run_key, shuffle


@kernel
def _centralised_pass(
    w: RealArray, T: RealArray, everyone: Everyone, person: IndexArray, places: PlaceRows, order: OffsetArray,
    alpha_w: float, alpha_v: float, lambda_w: float, lambda_v: float,
) -> float:  # fmt: skip
    """Eqs. (7) and (9): sample after sample, one linear model for everyone; the summed loss."""
    K, D = T.shape
    x, pull, losses = np.empty(D), np.empty(K), 0.0
    present = np.empty(D + 1, dtype=np.int32)
    for row in order:
        y = float(everyone.label[row])
        i, j = person[row], everyone.place[row]
        there = present[: load_present(everyone.people[i], places, j, everyone.context[row], x, present)]
        guess = linear_score_of(w, x, there) + pairs_of(T, x, there, pull)
        r = residual(y, guess)
        losses += loss(y, guess)
        linear_step(w, x, r, lambda_w, alpha_w)  # Eq. (7)
        for k in range(K):
            v = T[k]
            for d in range(D):
                v[d] -= alpha_v * interaction_gradient_of(v[d], x[d], pull[k], r, lambda_v)  # Eq. (9)
    return losses


def centralised_pass(
    w: RealArray,
    V: RealArray,
    everyone: Everyone,
    person: IndexArray,
    places: PlaceRows,
    *,
    key: Word,
    settings: Settings,
) -> tuple[RealArray, float]:
    """One pass over all records in a keyed order; moves w, answers with the new V and the mean loss."""
    T, order = np.ascontiguousarray(V.T), np.empty(len(everyone.place), dtype=np.int64)
    shuffle(mix(key, 0), order)
    losses = _centralised_pass(
        w, T, everyone, person, places, order, settings.linear.alpha, settings.interaction.alpha,
        settings.model.lambda_w, settings.model.lambda_v,
    )  # fmt: skip
    return np.ascontiguousarray(T.T), losses / max(len(order), 1)


# The baseline that collects everything: centralised FM, behind the same door as the engines.


class Centralised:
    """Everyone's raw data in one place, one linear model for all."""

    def __init__(self, samples: Samples, settings: Settings):
        self.samples, self.settings = samples, settings
        self.city = memory_layout(samples)

    def advance(self, state: State) -> IterationReport:
        """One pass over all records."""
        samples = self.samples
        state.interaction, loss = centralised_pass(
            state.linear[0],
            state.interaction,
            self.city.everyone,
            samples.train.person,
            self.city.rows,
            key=iteration_key(self.settings.seed, "order", state.iteration),
            settings=self.settings,
        )
        state.iteration += 1
        people = int((samples.train.counts() > 0).sum())
        return IterationReport(iteration=state.iteration, loss=loss, took_part=people, in_sum=people)


# A whole run: iterations, history, early stopping, checkpoints. The engine decides what one iteration is.


class Engine(Protocol):
    """Moves a state on by one iteration, in place."""

    def advance(self, state: State) -> IterationReport: ...


@dataclass(frozen=True, slots=True)
class Trained:
    state: State
    history: tuple[IterationReport, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where and how often a run is written down, so that it survives whatever stops it."""

    path: Path
    every: int = 5


def make_engine(name: str, samples: Samples, settings: Settings, *, threads: int = 2) -> Engine:
    """The engine with this name, for the schedule of these settings."""
    if threads < 1:
        raise UsageError("an engine needs at least one thread")
    settings = sized(settings, people=len(samples.ids), features=samples.features)
    if settings.schedule == "centralised":
        return Centralised(samples, settings)
    if name == "plain":
        return plain.engine(samples, settings)
    if name == "local":
        return local.engine(samples, settings, threads=threads)
    if name == "protocol":
        return protocol.ProtocolEngine(samples, settings)
    raise UsageError(f"no engine is called '{name}'; there are local, plain and protocol")


def train(
    samples: Samples,
    settings: Settings,
    *,
    engine: str = "local",
    threads: int = 2,
    keeping: Keeping | None = None,
    tell: Callable[[IterationReport], None] = lambda passed: None,
) -> Trained:
    """Algorithm 2, or rounds: from the start, or from the last checkpoint of the same run, with the same bits."""
    settings = sized(settings, people=len(samples.ids), features=samples.features)
    seen, held_out = hold_out(samples, settings)
    whose = identity(seen, settings)
    kept = load(keeping.path, whose) if keeping is not None and keeping.path.exists() else None
    run = kept if kept is not None else Checkpoint(state=start(seen, settings))
    if not fits(run.state.models, seen, settings):
        raise StateError("the models in the checkpoint have not the size or kind that these settings and data call for")
    if run.state.iteration > settings.iterations:
        raise StateError(
            f"the checkpoint is at iteration {run.state.iteration}, past the {settings.iterations} asked for"
        )
    motor = make_engine(engine, seen, settings, threads=threads)
    for passed in run.history:
        tell(passed)
    while run.state.iteration < settings.iterations and not run.exhausted(settings.stopping.patience):
        began = monotonic()
        passed = motor.advance(run.state)
        if not isfinite(passed.loss):
            raise UsageError(
                "the loss is no longer a number: give linear.alpha, interaction.alpha or latent.alpha a smaller value"
            )
        run.note(_measured(passed, run.state, seen, held_out, seconds=monotonic() - began))
        if keeping is not None and run.state.iteration % keeping.every == 0:
            save(keeping.path, run, whose)
        tell(run.history[-1])
    return Trained(run.best if run.best is not None else run.state, tuple(run.history))


def _measured(
    passed: IterationReport, state: State, samples: Samples, held_out: Records | None, *, seconds: float
) -> IterationReport:
    if held_out is None:
        return msgspec.structs.replace(passed, seconds=seconds)
    loss = mean_loss(held_out, scores(state.models, samples, held_out))
    return msgspec.structs.replace(passed, seconds=seconds, held_out_loss=loss)


def hold_out(samples: Samples, settings: Settings) -> tuple[Samples, Records | None]:
    """With early stopping, a share of the training records is set aside to watch; else everything is learnt from."""
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
