"""prirec evaluate: how good a saved run is."""

from typing import Annotated, Any, Literal

import typer

from prirec.cli.options import DataFolder, Json, ListLength, Radius, RunFolder, examples

EPILOG = examples(
    "prirec evaluate runs/first city",
    "prirec evaluate runs/first city --ranking --k 20 --candidates all --json",
)


RANKING_ONLY = {"k": "-k", "radius_km": "--radius-km", "candidates": "--candidates", "people": "--people"}


def evaluate(
    context: typer.Context,
    run: RunFolder,
    data: DataFolder,
    *,
    ranking: Annotated[bool, typer.Option("--ranking", help="Also ask for the top k of a sample of people.")] = False,
    k: ListLength = 10,
    radius_km: Radius = 5.0,
    candidates: Annotated[
        Literal["matched", "all"], typer.Option(help="Rank the places near home, or the whole catalogue.")
    ] = "matched",
    people: Annotated[
        int, typer.Option(min=1, max=100_000_000, metavar="N", help="People in the sample, drawn by the run's seed.")
    ] = 500,
    json: Json = False,
) -> None:
    """Measure a saved run on its test records.

    Refused where test records got into what was learnt from. What makes a figure say less than it seems to is noted."""
    from prirec.cli.evaluate_work import reopen, show_quality, show_ranking
    from prirec.cli.output import SIMULATION, busy, notes, show_json
    from prirec.evaluate.leaks import check, refuse
    from prirec.simulate.recommend import Advisor, rank
    from prirec.simulate.setup import quality, quality_notes

    opened = reopen(run, data)
    with busy("looking for leaks"):
        findings = check(opened.setup)
    refuse(findings)
    with busy("measuring"):
        figures = quality(opened.setup.samples, opened.run.models)
    with busy("ranking"):
        advisor = Advisor.of(opened.setup, opened.run.models)
        ranked = rank(advisor, candidates=candidates, k=k, radius_km=radius_km, people=people) if ranking else None
    flagged = [f"{one.name}: {one.words}" for one in findings]
    told = [*quality_notes(figures, opened.setup), *flagged, *([] if ranking else _idle(context))]
    if json:
        answer: dict[str, Any] = {"run": str(run), "source": opened.run.source, "quality": figures.as_dict()}
        answer["notes"] = told
        if ranked is not None:
            answer["ranking"] = {**ranked.as_dict(), "k": k, "candidates": candidates, "radius_km": radius_km}
        show_json(answer)
        return
    notes(told)
    show_quality(figures)
    if ranked is not None:
        located = opened.setup.prepared.dataset.places.location is not None
        near = f"the places within {radius_km:g} km of home" if candidates == "matched" and located else "all places"
        show_ranking(ranked, k=k, among=near)
    typer.echo(SIMULATION)


def _idle(context: typer.Context) -> list[str]:
    """What was asked for and makes no difference."""
    given = [flag for name, flag in RANKING_ONLY.items() if _by_hand(context, name)]
    return [f"{', '.join(given)} made no difference: there is a list only with --ranking"] if given else []


def _by_hand(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
