"""The work behind prirec train: read, resume, train, save; a checkpoint is removed once the run is saved."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import typer

from prirec.cli.on_cluster import on_cluster
from prirec.cli.outlook_words import REVEALS
from prirec.cli.output import notes
from prirec.cli.price import Price, price_of, with_figures
from prirec.cli.progress import bar, bars, busy
from prirec.cli.quality import doubts
from prirec.cli.resuming import drop_checkpoint, iterations_kept, tell_stopped
from prirec.data.folder import read_folder
from prirec.engines.run_card import settle
from prirec.engines.run_folder import save_run
from prirec.engines.state import Passed
from prirec.engines.training import Keeping, Trained, train
from prirec.errors import UsageError
from prirec.evaluate.experiment import Outcome, run, set_up
from prirec.evaluate.saved_run import to_run
from prirec.settings import DIVERGES, Settings

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
    done: list[Passed] = []
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


def _trained(job: Job, done: list[Passed]) -> Finished:
    with busy("reading the data"):
        loaded = read_folder(job.data, strict=job.strict)
        setup = set_up(loaded.dataset, job.settings)
    settings, price = setup.settings, price_of(setup)
    warnings = (*told_by_settings(settings, asked=job.settings), *(() if price is None else price.warnings()))
    resumed_at = iterations_kept(setup, job.checkpoint, resume=job.resume)
    notes(warnings)
    with bars() as shown:
        progress = bar(shown, "training", iterations=settings.iterations)
        progress.begin()

        def tell(passed: Passed) -> None:
            done.append(passed)
            progress.tell(passed)

        keeping = Keeping(job.checkpoint, every=job.every)
        with _trainer(job) as trainer:
            outcome = run(setup, keeping=keeping, tell=tell, by=trainer)
        progress.finish()
    events = flagged(done, settings=settings)
    told = (*loaded.notes, *setup.prepared.notes, *events, *doubts(outcome.quality, setup))
    return Finished(job, outcome, warnings, told, resumed_at, price)


@contextmanager
def _trainer(job: Job) -> Iterator[Callable[..., Trained]]:
    """Whoever trains: an engine in this process, or a cluster."""
    if job.engine == "cluster":
        with on_cluster(address=job.address, actors=job.actors) as trainer:
            yield trainer
    else:
        threads = job.threads if job.threads is not None else os.cpu_count() or 1
        yield partial(train, engine=job.engine, threads=threads)


def told_by_settings(settings: Settings, *, asked: Settings) -> Iterator[str]:
    """What a reader of the settings would not expect."""
    yield from told_by_reporting(settings)
    if settings.neighbours.kind != asked.neighbours.kind:
        yield "this city has no coordinates: neighbours are drawn anew for each interaction, as in the paper's Tokyo"
    if settings.schedule == "samples" and settings.neighbours.weights == "ones-diverges":
        yield f"{DIVERGES}; no learning rate helps"


def told_by_reporting(settings: Settings) -> Iterator[str]:
    """What who reports about a place gives away."""
    counted = settings.features.dynamic and settings.popularity.mechanism == "randomized-response"
    if counted and settings.popularity.reporters != "everyone":
        yield f"popularity.reporters is '{settings.popularity.reporters}': {REVEALS[0].lower()}{REVEALS[1:]}"


def refuse_occupied_run(job: Job) -> None:
    """Before any work, not after it."""
    settle(job.out)
    if job.out.exists() and not (job.overwrite and (job.out / "run.json").is_file()):
        hint = "it holds no earlier run to overwrite" if job.overwrite else "--overwrite replaces an earlier run"
        raise UsageError(f"{job.out} exists; name another folder ({hint})")
    if job.engine != "cluster" and job.checkpoint.is_dir():
        raise UsageError(f"the checkpoint {job.checkpoint} is a folder; name a file")
    if job.engine == "cluster" and job.checkpoint.is_file():
        raise UsageError(f"the checkpoint {job.checkpoint} is a file, and on a cluster it is a folder; name another")


def last_kept(done: Sequence[Passed], *, every: int) -> int:
    return max((passed.iteration for passed in done if passed.iteration % every == 0), default=0)


def flagged(history: Sequence[Passed], *, settings: Settings) -> Iterator[str]:
    """What did not go as a reader would assume."""
    if alone := max((passed.alone for passed in history), default=0):
        yield f"up to {alone:,} people had no neighbours online and learnt alone"
    if octets := sum(passed.octets or 0 for passed in history):
        each = octets / max(sum(passed.took_part for passed in history), 1)
        yield f"{octets / 1e6:,.1f} MB crossed between the parties, {each / 1e3:,.1f} kB a person and iteration"
    if settings.schedule != "rounds":
        return
    few = f"fewer than {settings.floor} people, or than {1 - settings.sums.lost:.0%} of those who had come, were left"
    if still := sum(not passed.opened for passed in history):
        yield f"in {still} of {len(history)} rounds {few} in the sum over everyone, and V did not move"
    noisy = settings.privacy.epsilon_per_user is not None  # then models, all 0, are not summed in the first round
    if closed := sum(passed.cohorts_opened == 0 for passed in history if passed.iteration > 1 or not noisy):
        yield f"in {closed} of {len(history)} rounds {few} in every cohort, and nobody mixed models"
