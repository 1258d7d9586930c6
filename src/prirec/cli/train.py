"""prirec train: from a data folder to a saved run."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prirec.cli.options import Address, Assignments, DataFolder, Json, Preset, SettingsFile, Strict, examples

if TYPE_CHECKING:
    from prirec.cli.train_work import Finished, Job

EPILOG = examples(
    "prirec train city --out runs/first",
    "prirec train city --out runs/paper --preset paper --dimension 10 --neighbours 50",
    "prirec train city --out runs/mine --settings mine.toml --set linear.alpha=0.1",
    "prirec train city --out runs/large --engine cluster --address head:6379",
)


def train(
    data: DataFolder,
    *,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder to save the run to.")],
    preset: Preset = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    iterations: Annotated[int | None, typer.Option(metavar="T", help="Rounds, or passes T over the records.")] = None,
    dimension: Annotated[int | None, typer.Option(metavar="K", help="Dimension of V.")] = None,
    neighbours: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="Neighbours of a person; with rounds, the smallest cohort.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed; the same seed gives the same bits.")] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=256, metavar="N", show_default="one a core", help="Any number gives the same bits."),
    ] = None,
    engine: Annotated[
        Literal["local", "plain", "protocol", "cluster"],
        typer.Option(
            help="local is fast; plain is the readable one it is tested against; protocol takes every sum of the "
            "training by the real protocols between simulated devices, which is slow, and counts their bytes; cluster "
            "runs rounds on Ray."
        ),
    ] = "local",
    address: Address = None,
    actors: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            metavar="N",
            show_default="one a processor",
            help="With --engine cluster: shards of people. Any number gives the same bits.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default="RUN.checkpoint", help="Where unfinished work is kept.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, metavar="N", help="Iterations between checkpoints.")] = 5,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on from a checkpoint of the same run, or start over.")
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in RUN.")] = False,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Train a model, measure it on unseen records, and save it."""
    with _nothing_saved_yet():
        from prirec.cli.options import choose
        from prirec.cli.train_work import Job, refuse_idle, refuse_nameless, refuse_off_cluster, refuse_unready, work

        refuse_nameless(out)
        flags = {"iterations": iterations, "model.dimension": dimension, "seed": seed}
        around = {"neighbours.count": neighbours, "neighbours.size": neighbours}  # a schedule reads one of the two
        settings = choose(preset=preset, file=file, assignments=assignments, flags={**flags, **around})
        refuse_idle(settings, neighbours=neighbours, engine=engine)
        refuse_off_cluster(engine, address=address, actors=actors, threads=threads)
        if engine == "cluster":
            refuse_unready(settings, address=address)
        job = Job(
            data=data,
            out=out,
            settings=settings,
            engine=engine,
            threads=threads,
            address=address,
            actors=actors,
            checkpoint=checkpoint if checkpoint is not None else out.with_name(f"{out.name}.checkpoint"),
            every=checkpoint_every,
            resume=resume,
            overwrite=overwrite,
            strict=strict,
        )
        from prirec.cli.train_work import is_apart, show_apart, work_apart
    if is_apart(job):
        show_apart(work_apart(job), json=json, following=_next(job))
        return
    _show(work(job), json=json)


@contextmanager
def _nothing_saved_yet() -> Iterator[None]:
    """Loading the program takes a second or two, and Ctrl-C may come then too."""
    from prirec.cli.output import note

    try:
        yield
    except KeyboardInterrupt:
        note("stopped before training began; nothing was saved yet")
        raise


def _show(finished: "Finished", *, json: bool) -> None:
    from prirec.cli.evaluate_work import show_quality
    from prirec.cli.output import SIMULATION, notes, show_json
    from prirec.cli.privacy_figures import show_price

    if json:
        show_json(finished.as_dict())
        return
    job, trained = finished.job, finished.outcome.trained
    notes(finished.notes)
    show_quality(finished.outcome.quality)
    if finished.price is not None:
        show_price(finished.price)
    typer.echo(f"{len(trained.history)} iterations; saved to {job.out}")
    typer.echo(f"next: {_next(job)}")
    typer.echo(SIMULATION)


def _next(job: "Job") -> str:
    from prirec.cli.output import program

    return shlex.join((*program(), "recommend", str(job.out), str(job.data), "--person", "ID"))
