"""prirec train: from a data folder to a saved run."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from prirec.cli.options import (
    Address,
    Assignments,
    DataFolder,
    Json,
    Preset,
    Report,
    SettingsFile,
    SkipBad,
    Strict,
    examples,
)
from prirec.config import READ_BY, Settings, load
from prirec.errors import UsageError

if TYPE_CHECKING:
    from prirec import Fit, IterationReport

STOPPED = 130  # the shell's code for Ctrl-C

EPILOG = examples(
    "prirec train city --out runs/first",
    "prirec train city --out runs/first --report first.html",
    "prirec train city --out runs/paper --preset paper --dimension 10 --neighbours 50",
    "prirec train city --out runs/mine --settings mine.toml --set features.areas=12",
    "prirec train city --out runs/large --engine cluster --address head:6379",
)


def train(
    data: DataFolder,
    *,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder to save the run to.")],
    preset: Preset = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    iterations: Annotated[
        int | None, typer.Option(metavar="T", help="Number of rounds, or of passes over the records.")
    ] = None,
    dimension: Annotated[int | None, typer.Option(metavar="K", help="With paper and fm: dimension of V.")] = None,
    neighbours: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="With paper: neighbours of a person.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed; the same seed gives the same bits.")] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=256, metavar="N", show_default="one a core", help="Threads; any number gives the same bits."
        ),
    ] = None,
    engine: Annotated[
        Literal["local", "plain", "protocol", "cluster"],
        typer.Option(
            help="local: fast. plain: the readable reference that local is tested against. protocol: every secure sum "
            "with all its messages between simulated devices; slow, counts bytes. cluster: rounds on Ray."
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
        Path | None,
        typer.Option(metavar="FILE", show_default="RUN.checkpoint", help="Where unfinished training is saved."),
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, metavar="N", help="Iterations between checkpoints.")] = 5,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Resume from a checkpoint of the same run, or start over.")
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in RUN.")] = False,
    report: Report = None,
    strict: Strict = False,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Train a model, measure it on unseen records, and save it."""
    from prirec.cli.output import busy, note

    if not out.name:  # '.', '/' and the empty path
        raise UsageError("--out takes the name of a folder to make for the run, such as --out runs/first")
    if report is not None:
        from prirec.api.comparisons import refuse_report

        refuse_report(report, data=data, out=out)
    checkpoint = checkpoint if checkpoint is not None else out.with_name(f"{out.name}.checkpoint")
    done: list[IterationReport] = []
    try:
        fit, before = _train(
            data, done, preset=preset, file=file, assignments=assignments,
            flags={
                "iterations": iterations, "model.dimension": dimension, "neighbours.count": neighbours, "seed": seed
            },
            how={
                "engine": engine, "threads": threads, "address": address, "actors": actors, "checkpoint": checkpoint,
                "checkpoint_every": checkpoint_every, "resume": resume, "out": out, "overwrite": overwrite,
                "strict": strict, "skip_bad": skip_bad,
            },
        )  # fmt: skip
    except KeyboardInterrupt:  # also while the program loads, which takes a second or two
        note(what_is_saved(checkpoint, done, every=checkpoint_every))
        raise typer.Exit(STOPPED) from None
    if report is not None:
        with busy("drawing the report"):
            fit.report(report)
    _show(fit, before, data=data, out=out, skip_bad=skip_bad, report=report, json=json)


def _train(
    data: Path, done: "list[IterationReport]", *, preset: str | None, file: Path | None, assignments: list[str] | None,
    flags: dict[str, Any], how: dict[str, Any],
) -> "tuple[Fit, tuple[str, ...]]":  # fmt: skip
    """The fit, and the notes that were printed before training."""
    from prirec.cli.options import changes_from
    from prirec.cli.output import bar, bars, busy, note, notes

    changes = changes_from(preset=preset, assignments=assignments, flags=flags)
    _refuse_idle_flags(load(file, changes=changes), flags)
    with busy("reading the data"):
        from prirec import Training
        from prirec import settings as choose

        training = Training(data, choose(changes=changes, file=file), **how)
    with training, bars() as shown:
        if training.resumed_at:
            rounds = training.settings.iterations
            note(f"resuming after iteration {training.resumed_at} of {rounds}, from {how['checkpoint']}")
        notes(training.notes)
        progress = bar(shown, "training", iterations=training.settings.iterations)
        progress.begin()

        def report(passed: "IterationReport") -> None:
            done.append(passed)
            progress.tell(passed)

        fit = training.run(report)
        progress.finish()
    return fit, training.notes


def _refuse_idle_flags(settings: Settings, flags: Mapping[str, Any]) -> None:
    """UsageError for a flag that the schedule does not read, by the name of the flag."""
    for flag, name in (("--dimension", "model.dimension"), ("--neighbours", "neighbours.count")):
        if flags[name] is not None and not READ_BY[name].used(settings):
            raise UsageError(f"{flag} has no meaning here: it is read by {READ_BY[name].name} alone")


def what_is_saved(checkpoint: Path, done: "list[IterationReport]", *, every: int) -> str:
    """After Ctrl-C: what was saved, and how to go on."""
    if not checkpoint.exists():
        return "stopped before the first checkpoint; nothing was saved yet"
    last = max((passed.iteration for passed in done if passed.iteration % every == 0), default=0)
    work = f"the work up to iteration {last}" if last else "what was done before"
    return f"stopped; {work} is saved in {checkpoint}; run the same command again to go on"


def _show(
    fit: "Fit", before: Sequence[str], *, data: Path, out: Path, skip_bad: bool, report: Path | None, json: bool
) -> None:  # fmt: skip
    from prirec.cli.output import notes, program, say, show, show_json
    from prirec.util.shown import SIMULATION, counted, number

    if json:
        show_json({**_as_dict(fit, data=data, out=out), **({} if report is None else {"report": str(report)})})
        return
    notes(words for words in fit.notes if words not in before)
    quality, plan = fit.quality, fit.plan
    records, iterations = counted(quality.records, "test record"), counted(len(fit.history), "iteration")
    typer.echo(f"AUC {number(quality.auc)} on {records}; {iterations}; saved to {out}")
    show(quality.panels())
    if fit.operator_quality is not None:
        show(fit.operator_quality.panels())
    if plan.noise is not None:
        say(f"With devices, all this would cost each person {plan.price}; prirec privacy plan shows the parts.")
        say(plan.noise.in_words)
    if report is not None:
        typer.echo(f"report: {report}")
    how = ("--skip-bad",) if skip_bad else ()  # without it the same rows would stop the next command
    typer.echo(f"next: {shlex.join((*program(), 'recommend', str(out), str(data), '--person', 'ID', *how))}")
    typer.echo(SIMULATION)


def _as_dict(fit: "Fit", *, data: Path, out: Path) -> dict[str, Any]:
    from dataclasses import asdict

    import msgspec

    privacy, figures = None, fit.operator_quality
    if fit.plan.plan is not None and fit.plan.noise is not None:
        first = fit.plan.terms[0]
        privacy = {
            "epsilon": first.epsilon,
            "epsilon_replace_one": first.epsilon_replace_one,
            "delta": fit.plan.plan.delta,
            "period_days": first.days,
            "terms": [asdict(term) for term in fit.plan.terms],
            "noise": asdict(fit.plan.noise),
            "figures": None if figures is None else figures.to_dict(),
        }
    return {
        "run": str(out),
        "source": str(data),
        "quality": fit.quality.to_dict(),
        "iterations": len(fit.history),
        "resumed_at": fit.resumed_at,
        "loss": [passed.loss for passed in fit.history],
        "settings": msgspec.to_builtins(fit.settings),
        "privacy": privacy,
        "notes": fit.notes,
    }
