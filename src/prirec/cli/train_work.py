"""What would change nothing is a mistake: whoever asked for it had something else in mind."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import typer

from prirec import config
from prirec.cli.evaluate_work import show_quality
from prirec.cli.output import SIMULATION, bar, bars, busy, note, notes, show_json
from prirec.cli.privacy_figures import Price, price_for, price_of, show_price, with_figures
from prirec.cluster.checkpoints import begun, discard, is_checkpoint_folder, read_manifest
from prirec.config import Settings, preset
from prirec.data.folder import read_folder
from prirec.data.partitioned import is_partitioned
from prirec.engines.checkpoint import Checkpoint, identity, is_checkpoint, load
from prirec.engines.state import IterationReport
from prirec.engines.train import Keeping, Trained, hold_out
from prirec.engines.train import train as train_model
from prirec.errors import StateError, UsageError
from prirec.metrics import Quality
from prirec.simulate.popularity import MECHANISMS, mechanism_of
from prirec.simulate.saved_runs import restore_interrupted, save_run, to_run
from prirec.simulate.setup import (
    Outcome,
    Setup,
    history_notes,
    quality_notes,
    reporting_notes,
    run,
    set_up,
    settings_notes,
)


class Reader(NamedTuple):
    """Who reads a setting, and whether that is part of a training."""

    called: str
    there: Callable[[Settings], bool]


DISTANCE = ("exponential", "gaussian", "inverse")
EVERY = Reader("every training", lambda s: True)
ROUNDS = Reader("rounds", lambda s: s.schedule == "rounds")
SAMPLES = Reader("the paper's schedule", lambda s: s.schedule == "samples")
APART = Reader("rounds and the paper's schedule", lambda s: s.schedule != "centralised")
NEAREST = Reader("neighbours.kind 'nearest'", lambda s: s.neighbours.kind == "nearest")
BY_DISTANCE = Reader("neighbours.weights by distance", lambda s: s.neighbours.weights in DISTANCE)
FIXED = Reader("linear.mixing 'fixed'", lambda s: s.linear.mixing == "fixed")
ADAPTIVE = Reader("linear.mixing 'adaptive' in rounds", lambda s: ROUNDS.there(s) and s.linear.mixing == "adaptive")
LATENT = Reader("a latent part (latent.dimension)", lambda s: s.latent.dimension > 0)
BUDGET = Reader("a budget (privacy.epsilon_per_user)", lambda s: s.privacy.epsilon_per_user is not None)
PATIENCE = Reader("early stopping (stopping.patience)", lambda s: s.stopping.patience > 0)

READ_BY = {
    "order": SAMPLES, "interaction.batch": SAMPLES, "interaction.clip": ROUNDS,
    "linear.clip": ROUNDS, "linear.mixing": APART, "linear.gamma": FIXED, "linear.kappa": ADAPTIVE,
    "neighbours.kind": APART, "neighbours.count": SAMPLES, "neighbours.size": ROUNDS, "neighbours.weights": SAMPLES,
    "neighbours.among": NEAREST, "neighbours.scale_km": BY_DISTANCE,
    "participation.online": APART, "sums.corrupt": ROUNDS, "sums.lost": ROUNDS,
    "ring.bits": APART, "ring.fraction_bits": APART, "ring.bound": SAMPLES,
    **{
        setting: Reader(f"{one.name} (popularity.mechanism)", partial(lambda one, s: mechanism_of(s) is one, one))
        for one in MECHANISMS.values() for setting in one.reads
    },
    "latent.alpha": LATENT, "latent.lambda_u": LATENT, "latent.lambda_p": LATENT, "latent.pace": LATENT,
    "latent.spread": LATENT, "latent.weight": LATENT,
    "privacy.delta": BUDGET, "privacy.period_days": BUDGET, "privacy.popularity": BUDGET, "privacy.mixing": BUDGET,
    "privacy.interaction": BUDGET, "privacy.quality": BUDGET,
    "stopping.share": PATIENCE,
}  # fmt: skip
SET_TOGETHER = ("neighbours.count", "neighbours.size")  # --neighbours sets both, and a run saves both


def refuse_idle(settings: Settings, *, neighbours: int | None, engine: str) -> None:
    """Flags, and settings of how to learn, that this training would not read."""
    central = settings.schedule == "centralised"
    if neighbours is not None and central:
        raise UsageError("--neighbours has no meaning here: the centralised model has no neighbours")
    if engine in ("plain", "protocol") and central:
        raise UsageError(f"--engine {engine} has no meaning here: the centralised model has one engine; leave it out")
    together = SET_TOGETHER if settings.neighbours.count == settings.neighbours.size else ()
    for name in config.changed(settings, since=preset(settings.preset)):
        reader = READ_BY.get(name, EVERY)
        if not reader.there(settings) and name not in together:
            raise UsageError(
                f"{name} is read by {reader.called} alone, which this training has not; leave it as it was"
            )


# --engine cluster: a connection to Ray for as long as something is trained, and flags that belong to it alone.


if TYPE_CHECKING:
    from prirec.cluster.train import PartitionedRun


def refuse_off_cluster(
    engine: str, *, address: str | None, actors: int | None = None, threads: int | None = None
) -> None:  # fmt: skip
    """A flag that would change nothing is a mistake."""
    if engine == "cluster" and threads is not None:
        raise UsageError("--threads belongs to one machine; on a cluster give --actors")
    given = [name for name, value in (("--address", address), ("--actors", actors)) if value is not None]
    if given and engine != "cluster":
        raise UsageError(f"{given[0]} belongs to --engine cluster")


def refuse_unready(settings: Settings, *, address: str | None) -> None:
    """Before any data are read: settings that a cluster does not carry, Ray that is missing, a head out of reach."""
    from prirec.cluster.pool import import_ray, refuse_unreachable
    from prirec.cluster.train import refuse_unfit

    refuse_unfit(settings)
    import_ray()
    if address is not None:
        refuse_unreachable(address)


@contextmanager
def on_cluster(*, address: str | None, actors: int | None) -> Iterator[Callable[..., Trained]]:
    """Trains as engines.training.train does, to the same bits."""
    from prirec.cluster.pool import cluster_cpus, ray_session
    from prirec.cluster.train import train

    with ray_session(address, cpus=actors):
        yield partial(train, actors=actors if actors is not None else cluster_cpus())


@contextmanager
def reached(engine: str, address: str | None) -> Iterator[None]:
    """A connection for tasks; none where all is done on this machine."""
    if engine != "cluster":
        yield
        return
    from prirec.cluster.pool import ray_session

    with ray_session(address):
        yield


@contextmanager
def expedition(
    folder: Path, settings: Settings, *, address: str | None, actors: int | None
) -> Iterator["PartitionedRun"]:
    """A partitioned city in the actors of a cluster."""
    from prirec.cli.output import busy
    from prirec.cluster.pool import cluster_cpus, ray_session
    from prirec.cluster.train import open_partitioned

    with ray_session(address, cpus=actors), ExitStack() as stack:
        with busy("shards are reading the data"):
            shards = actors if actors is not None else cluster_cpus()
            away = stack.enter_context(open_partitioned(folder, settings, actors=shards))
        yield away


# Unfinished training: what a checkpoint holds, whether it may be thrown away, and what to say when stopped by hand.


def iterations_kept(setup: Setup, checkpoint: Path, *, resume: bool) -> int:
    """How many iterations are done already; 0 where there is no checkpoint, or it is not wanted."""
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    if not begun(checkpoint):
        return 0
    if not resume:
        _discard(checkpoint)
        return 0
    kept, asked = _kept(setup, checkpoint), setup.settings.iterations
    if kept > asked:
        raise UsageError(
            f"the checkpoint {checkpoint} holds {kept} iterations, more than the {asked} asked for; "
            "ask for more iterations, or start over with --no-resume"
        )
    note(f"resuming after iteration {kept} of {asked}, from {checkpoint}")
    return kept


def kept_on_cluster(checkpoint: Path, *, resume: bool) -> int:
    """The same for data that nobody holds; whose a checkpoint is the cluster looks at."""
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    if not begun(checkpoint):
        return 0
    if not resume:
        _discard(checkpoint)
        return 0
    kept = read_manifest(checkpoint).iteration
    note(f"resuming after iteration {kept}, from {checkpoint}")
    return kept


def _kept(setup: Setup, checkpoint: Path) -> int:
    seen, _ = hold_out(setup.samples, setup.settings)
    if checkpoint.is_dir():
        return read_manifest(checkpoint).iteration  # whose it is the cluster looks at
    try:
        return load(checkpoint, identity(seen, setup.settings)).state.iteration
    except StateError as refusal:
        starts_over = "; --no-resume starts over" if is_checkpoint(checkpoint) else ""
        raise StateError(f"{refusal}{starts_over}") from None


def _discard(path: Path) -> None:
    """Only what is a checkpoint is removed: a slip of the hand in --checkpoint costs no file."""
    if not _is_checkpoint(path):
        raise UsageError(f"{path} is no checkpoint that could be started over from; remove it or name another")
    drop_checkpoint(path)


def drop_checkpoint(path: Path) -> None:
    """A file, or on a cluster a folder, of a run that is saved or started over."""
    if path.is_dir():
        discard(path)
    else:
        path.unlink(missing_ok=True)


def _is_checkpoint(path: Path) -> bool:
    return is_checkpoint_folder(path) if path.is_dir() else is_checkpoint(path)


def tell_stopped(checkpoint: Path, kept: int, *, iterations: int) -> None:
    """After Ctrl-C: what is kept, and how to go on."""
    if not begun(checkpoint):
        note("stopped before the first checkpoint; nothing was saved yet")
        return
    work = f"the work after iteration {kept} of {iterations}" if kept else "what was done before"
    note(f"stopped; {work} is kept in {checkpoint}; run the same command again to go on")


# The work behind prirec train: read, resume, train, save; a checkpoint is removed once the run is saved.


STOPPED = 130  # the shell's code for Ctrl-C


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All that was asked for."""

    data: Path
    out: Path
    settings: Settings
    engine: str
    threads: int | None
    address: str | None
    actors: int | None
    checkpoint: Path
    every: int
    resume: bool
    overwrite: bool
    strict: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """A saved run, and what there is to say about it."""

    job: Job
    outcome: Outcome
    warnings: tuple[str, ...]  # told before training
    notes: tuple[str, ...]
    resumed_at: int
    price: Price | None  # where the settings promise a budget

    def as_dict(self) -> dict[str, Any]:
        history = self.outcome.trained.history
        return {
            "run": str(self.job.out),
            "source": str(self.job.data),
            "quality": self.outcome.quality.as_dict(),
            "iterations": len(history),
            "resumed_at": self.resumed_at,
            "loss": [passed.loss for passed in history],
            "settings": msgspec.to_builtins(self.outcome.setup.settings),
            "privacy": None if self.price is None else self.price.as_dict(),
            "notes": (*self.warnings, *self.notes),
        }


def refuse_nameless(out: Path) -> None:
    """Paths such as '.', '/' and the empty one name no folder that could be made."""
    if not out.name:
        raise UsageError("--out takes the name of a folder to make for the run, such as --out runs/first")


def work(job: Job) -> Finished:
    """Train and save; when stopped by hand, say what is kept."""
    refuse_occupied_run(job)
    done: list[IterationReport] = []
    try:
        finished = _trained(job, done)
        with busy("saving"):
            save_run(job.out, to_run(finished.outcome, str(job.data)), overwrite=job.overwrite)
    except KeyboardInterrupt:
        tell_stopped(job.checkpoint, last_kept(done, every=job.every), iterations=job.settings.iterations)
        raise typer.Exit(STOPPED) from None
    drop_checkpoint(job.checkpoint)
    return _read(finished)


def _read(finished: Finished) -> Finished:
    """Once the run is saved: nothing that cannot be read afterwards may cost a training."""
    if finished.price is None:
        return finished
    price, told = with_figures(finished.price, finished.outcome)
    return replace(finished, price=price, notes=(*finished.notes, *told))


def _trained(job: Job, done: list[IterationReport]) -> Finished:
    with busy("reading the data"):
        loaded = read_folder(job.data, strict=job.strict)
        setup = set_up(loaded.dataset, job.settings)
    settings, price = setup.settings, price_of(setup)
    warnings = (*settings_notes(settings, asked=job.settings), *(() if price is None else price.warnings()))
    resumed_at = iterations_kept(setup, job.checkpoint, resume=job.resume)
    notes(warnings)
    with bars() as shown:
        progress = bar(shown, "training", iterations=settings.iterations)
        progress.begin()

        def tell(passed: IterationReport) -> None:
            done.append(passed)
            progress.tell(passed)

        keeping = Keeping(job.checkpoint, every=job.every)
        with _trainer(job) as trainer:
            outcome = run(setup, keeping=keeping, tell=tell, by=trainer)
        progress.finish()
    events = history_notes(done, settings=settings)
    told = (*loaded.notes, *setup.prepared.notes, *events, *quality_notes(outcome.quality, setup))
    return Finished(job, outcome, warnings, told, resumed_at, price)


@contextmanager
def _trainer(job: Job) -> Iterator[Callable[..., Trained]]:
    """Whoever trains: an engine in this process, or a cluster."""
    if job.engine == "cluster":
        with on_cluster(address=job.address, actors=job.actors) as trainer:
            yield trainer
    else:
        threads = job.threads if job.threads is not None else os.cpu_count() or 1
        yield partial(train_model, engine=job.engine, threads=threads)


def refuse_occupied_run(job: Job) -> None:
    """Before any work, not after it."""
    restore_interrupted(job.out)
    if job.out.exists() and not (job.overwrite and (job.out / "run.json").is_file()):
        hint = "it holds no earlier run to overwrite" if job.overwrite else "--overwrite replaces an earlier run"
        raise UsageError(f"{job.out} exists; name another folder ({hint})")
    if job.engine != "cluster" and job.checkpoint.is_dir():
        raise UsageError(f"the checkpoint {job.checkpoint} is a folder; name a file")
    if job.engine == "cluster" and job.checkpoint.is_file():
        raise UsageError(f"the checkpoint {job.checkpoint} is a file, and on a cluster it is a folder; name another")


def last_kept(done: Sequence[IterationReport], *, every: int) -> int:
    return max((passed.iteration for passed in done if passed.iteration % every == 0), default=0)


# prirec train on a partitioned folder, on a cluster: nothing here holds a person.


UNREAD = "what an operator would read of the quality is not worked out over parts"


@dataclass(frozen=True, slots=True)
class FinishedApart:
    """A saved run, and what there is to say about it."""

    job: Job
    settings: Settings
    course: Checkpoint
    quality: Quality
    resumed_at: int
    notes: tuple[str, ...]
    price: Price | None

    def as_dict(self) -> dict[str, Any]:
        history = self.course.history
        return {
            "run": str(self.job.out),
            "source": str(self.job.data),
            "quality": self.quality.as_dict(),
            "iterations": len(history),
            "resumed_at": self.resumed_at,
            "loss": [passed.loss for passed in history],
            "settings": msgspec.to_builtins(self.settings),
            "privacy": None if self.price is None else self.price.as_dict(),
            "notes": self.notes,
        }


def is_apart(job: Job) -> bool:
    return job.engine == "cluster" and is_partitioned(job.data)


def work_apart(job: Job) -> FinishedApart:
    """Train, measure and save; when stopped by hand, say what is kept."""
    refuse_occupied_run(job)
    if job.strict:
        raise UsageError("--strict needs all records in one place: prirec data describe --strict looks at them")
    done: list[IterationReport] = []
    try:
        finished = _trained_training_apart(job, done)
    except KeyboardInterrupt:
        tell_stopped(job.checkpoint, last_kept(done, every=job.every), iterations=job.settings.iterations)
        raise typer.Exit(STOPPED) from None
    drop_checkpoint(job.checkpoint)
    return finished


def _trained_training_apart(job: Job, done: list[IterationReport]) -> FinishedApart:
    resumed_at = kept_on_cluster(job.checkpoint, resume=job.resume)
    with expedition(job.data, job.settings, address=job.address, actors=job.actors) as away:
        city = away.city
        people, places, features, _ = city.whole
        price = price_for(city.settings, people=people, places=places, features=features)
        warnings = (*reporting_notes(city.settings), *(() if price is None else price.warnings()))
        notes(warnings)
        with bars() as shown:
            progress = bar(shown, "training", iterations=city.settings.iterations)
            progress.begin()

            def tell(passed: IterationReport) -> None:
                done.append(passed)
                progress.tell(passed)

            course = away.train(keeping=Keeping(job.checkpoint, every=job.every), tell=tell)
            progress.finish()
        with busy("measuring and saving"):
            quality = away.quality(course)
            away.save(job.out, course, source=str(job.data))
    unread = (UNREAD,) if city.settings.privacy.quality else ()
    told = (*warnings, *city.notes, *unread, *history_notes(done, settings=city.settings))
    return FinishedApart(job, city.settings, course, quality, resumed_at, told, price)


def show_apart(finished: FinishedApart, *, json: bool, following: str) -> None:
    if json:
        show_json(finished.as_dict())
        return
    notes(finished.notes)
    show_quality(finished.quality)
    if finished.price is not None:
        show_price(finished.price)
    typer.echo(f"{len(finished.course.history)} iterations; saved to {finished.job.out}")
    typer.echo(f"next: {following}")
    typer.echo(SIMULATION)
