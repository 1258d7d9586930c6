"""prirec train on a partitioned folder, on a cluster: nothing here holds a person."""

from dataclasses import dataclass
from typing import Any

import msgspec
import typer

from prirec.cli.on_cluster import expedition
from prirec.cli.output import SIMULATION, notes, show_json
from prirec.cli.price import Price, price_for, show_price
from prirec.cli.progress import bar, bars, busy
from prirec.cli.quality import show_quality
from prirec.cli.resuming import drop_checkpoint, kept_on_cluster, tell_stopped
from prirec.cli.training import STOPPED, Job, flagged, last_kept, refuse_occupied_run, told_by_reporting
from prirec.data.partition_file import is_partitioned
from prirec.engines.checkpoint import Checkpoint
from prirec.engines.state import Passed
from prirec.engines.training import Keeping
from prirec.errors import UsageError
from prirec.evaluate.metrics import Quality
from prirec.settings import Settings

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
    done: list[Passed] = []
    try:
        finished = _trained(job, done)
    except KeyboardInterrupt:
        tell_stopped(job.checkpoint, last_kept(done, every=job.every), iterations=job.settings.iterations)
        raise typer.Exit(STOPPED) from None
    drop_checkpoint(job.checkpoint)
    return finished


def _trained(job: Job, done: list[Passed]) -> FinishedApart:
    resumed_at = kept_on_cluster(job.checkpoint, resume=job.resume)
    with expedition(job.data, job.settings, address=job.address, actors=job.actors) as away:
        city = away.city
        people, places, features, _ = city.whole
        price = price_for(city.settings, people=people, places=places, features=features)
        warnings = (*told_by_reporting(city.settings), *(() if price is None else price.warnings()))
        notes(warnings)
        with bars() as shown:
            progress = bar(shown, "training", iterations=city.settings.iterations)
            progress.begin()

            def tell(passed: Passed) -> None:
                done.append(passed)
                progress.tell(passed)

            course = away.train(keeping=Keeping(job.checkpoint, every=job.every), tell=tell)
            progress.finish()
        with busy("measuring and saving"):
            quality = away.quality(course)
            away.save(job.out, course, source=str(job.data))
    unread = (UNREAD,) if city.settings.privacy.quality else ()
    told = (*warnings, *city.notes, *unread, *flagged(done, settings=city.settings))
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
