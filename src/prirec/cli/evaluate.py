"""prirec evaluate and prirec report: how good a saved run is, in the terminal and as a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from prirec.cli.options import Against, DataFolder, Json, ListLength, Radius, Report, RunFolder, SkipBad, examples

if TYPE_CHECKING:
    from prirec import Fit

EPILOG = examples(
    "prirec evaluate runs/first city",
    "prirec evaluate runs/first city --against fm-tuned --report first.html",
    "prirec evaluate runs/first city --k 20 --candidates all --json",
)


REPORT_EPILOG = examples(
    "prirec report runs/first city",
    "prirec report runs/first city --out first.html --against fm-tuned --against popularity",
)


RANKING_ONLY = {"k": "-k", "radius_km": "--radius-km", "candidates": "--candidates", "people": "--people"}


def evaluate(
    context: typer.Context,
    run: RunFolder,
    data: DataFolder,
    *,
    ranking: Annotated[
        bool,
        typer.Option("--ranking/--no-ranking", help="Rank places for a sample of people, and measure the top k."),
    ] = True,
    k: ListLength = 10,
    radius_km: Radius = 5.0,
    candidates: Annotated[
        Literal["matched", "all"], typer.Option(help="Rank the places near home, or the whole catalogue.")
    ] = "matched",
    people: Annotated[
        int, typer.Option(min=1, max=100_000_000, metavar="N", help="People in the sample, drawn by the run's seed.")
    ] = 500,
    against: Against = None,
    report: Report = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Measure a saved run on its test records.

    Refused if test records have influenced the training (a leak). Notes say what makes a figure less meaningful."""
    from prirec.cli.output import busy, notes, show, show_json
    from prirec.util.shown import SIMULATION, counted, number

    with busy("reading the data"):
        from prirec import load, read_folder
        from prirec.api.comparisons import refuse_report

        if report is not None:
            refuse_report(report)
        fit = load(run, read_folder(data, skip_bad=skip_bad))
    with busy("measuring"):
        quality = fit.quality
        ranked = fit.rank(k=k, radius_km=radius_km, candidates=candidates, people=people) if ranking else None
        remarks = [*fit.quality_notes, *([] if ranking else _unused(context))]
    with busy(f"training {', '.join(against or ())}"):
        comparison = fit.against(against) if against else None
    if report is not None:
        with busy("drawing the report"):
            (comparison or fit).report(report)
    if json:
        answer: dict[str, Any] = {"run": str(run), "source": fit.run.source, "quality": quality.to_dict()}
        if ranked is not None:
            answer["ranking"] = {**ranked.to_dict(), "k": k, "candidates": candidates, "radius_km": radius_km}
        if comparison is not None:
            answer |= {"comparison": comparison.table, "worth": comparison.judged.worth()}
        answer |= {} if report is None else {"report": str(report)}
        show_json({**answer, "notes": [*remarks, *([fit.noise_note] if fit.noise_note else [])]})
        return
    notes((*fit.notes, *remarks))
    typer.echo(f"AUC {number(quality.auc)} on {counted(quality.records, 'test record')} that this run never saw")
    show(quality.panels())
    show([fit.noise_note] if fit.noise_note else [])
    if ranked is not None:
        show(ranked.panels(k=k, among=_candidates(fit, candidates, radius_km)))
    show([SIMULATION] if comparison is None else comparison.panels(seconds=False))  # a comparison ends with it
    if report is not None:
        typer.echo(f"report: {report}")


def report(
    run: RunFolder,
    data: DataFolder,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("report.html"),
    against: Against = None,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Write a saved run as one HTML page, with figures and charts.

    The page of `prirec evaluate --report`: each chart with its numbers, a map, places for one person. It is as private
    as the data."""
    from prirec.cli.output import busy, notes, show_json

    with busy("reading the data"):
        from prirec import load, read_folder
        from prirec.api.comparisons import refuse_report

        refuse_report(out)
        fit = load(run, read_folder(data, skip_bad=skip_bad))
    with busy("measuring"):
        remarks = [*fit.notes, *fit.quality_notes]
    with busy(f"training {', '.join(against or ())}"):
        shown = fit.against(against) if against else fit
    with busy("drawing the report"):
        shown.report(out)
    if json:
        show_json({"run": str(run), "source": fit.run.source, "report": str(out), "notes": remarks})
        return
    notes(remarks)
    typer.echo(f"report: {out}")


def _candidates(fit: "Fit", candidates: str, radius_km: float) -> str:
    located = fit.city is not None and fit.city.dataset.places.location is not None
    return f"the places within {radius_km:g} km of home" if candidates == "matched" and located else "all places"


def _unused(context: typer.Context) -> list[str]:
    """Flags that make no difference with --no-ranking."""
    given = [flag for name, flag in RANKING_ONLY.items() if _by_hand(context, name)]
    return [f"{', '.join(given)} made no difference: there is no list with --no-ranking"] if given else []


def _by_hand(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
