"""prirec demo: a made-up city, three models and popularity alone compared, ten places for one person, and a report."""

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from prirec.cli.options import Json, Seed, examples

EPILOG = examples("prirec demo", "prirec demo --quick --out try", "prirec demo --quick --json > demo.json")
USUAL, QUICK, FEWEST = 10_000, 500, 200
CHOSEN = "PriRec, private"  # the one that recommends and is saved
MODELS = {  # on later records, which is what a person asks of a recommender
    "popularity": "popularity",
    "FM, tuned": "fm-tuned",
    "PriRec, rounds": "rounds",
    CHOSEN: "private",
}
REPORT, RUN, DATA = "report.html", "run", "data"


def demo(
    *,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where report, run and data go.")] = Path("demo"),
    people: Annotated[
        int | None, typer.Option(min=FEWEST, metavar="N", show_default=str(USUAL), help="People in the city.")
    ] = None,
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help=f"A small city of {QUICK} people.")] = False,
    json: Json = False,
) -> None:
    """Compare models on a made-up city and recommend places.

    Tuned centralised FM, PriRec without and with noise, and popularity alone, on each person's latest records."""
    from prirec.cli.output import busy, model_bars, program, show, show_json
    from prirec.cli.recommend import show_suggestions
    from prirec.errors import UsageError

    if quick and people is not None:
        raise UsageError("--quick sets the number of people; give --quick or --people")
    with busy("loading"):
        from prirec import compare, make_city
        from prirec.api.comparisons import expected_iterations, refuse_report

    refuse_report()
    _refuse_foreign(out)
    with busy("making the city"):
        city = make_city(people if people is not None else (QUICK if quick else USUAL), seed=seed)
    counts = {"people": len(city.people), "places": len(city.places), "records": city.records}
    if not json:
        from prirec.util.shown import counted

        people_and_places = f"{counted(counts['people'], 'person')}, {counted(counts['places'], 'place')}"
        typer.echo(f"a city of {people_and_places} and {counted(counts['records'], 'record')}, all made up\n")
    with model_bars({name: expected_iterations(model) for name, model in MODELS.items()}) as progress:
        comparison = compare(city, MODELS, progress=progress, seed=seed, data={"split": "time"})
    if not json:
        show(comparison.panels(seconds=False))
    with busy("recommending"):
        fit = comparison[CHOSEN]
        if not json:
            costs = fit.noise_note or "What noise costs falls with the number of people."
            show([f"Only '{CHOSEN}' has noise in its sums. {costs}", ""])
        places = fit.recommend(fit.typical_person)
    if not json:
        show_suggestions(
            places, title=f"Places for {places.person}: a person with the median number of training records"
        )
    with _replacing(out) as beside:
        with busy("writing the city and the run"):
            city.save(beside / DATA)
            fit.save(beside / RUN, source=str(out / DATA))
        with busy("drawing the report"):
            comparison.report(beside / REPORT)
    if json:
        rows = [
            {
                "model": one.contender.name,
                "collects": one.contender.collects,
                "quality": one.outcome.quality.to_dict(),
                "ranking": one.ranked.mean().to_dict(),
                "intervals": {name: [found.low, found.high] for name, found in figures.items()},
                "chosen": None if one.chosen is None else one.chosen.to_dict(),
            }
            for one, figures in zip(comparison.entries, comparison.judged.estimates, strict=True)
        ]
        files = {"report": str(out / REPORT), "run": str(out / RUN), "data": str(out / DATA)}
        worth = comparison.judged.worth()
        show_json(
            {"city": counts, "models": rows, "worth": worth, "recommended": {"by": CHOSEN, **places.to_dict()}, **files}
        )
        return
    typer.echo(f"\nreport  {out / REPORT}\nrun     {out / RUN}  ({CHOSEN})\ndata    {out / DATA}")
    words = ("recommend", str(out / RUN), str(out / DATA), "--person", places.person, "--at", "2024-05-04T19:30")
    typer.echo(f"next: {shlex.join((*program(), *words))}")


def _refuse_foreign(out: Path) -> None:
    """An earlier demo may be replaced, unless it holds the working directory; anything else is left alone."""
    from prirec.errors import UsageError

    if Path.cwd().is_relative_to(out.resolve()):
        raise UsageError(f"{out} is the folder you are in, or holds it; name a new folder with --out")
    if not out.exists():
        return
    found = {entry.name for entry in out.iterdir()} if out.is_dir() else {""}
    if found and (found != {REPORT, RUN, DATA} or not (out / RUN / "run.json").is_file()):
        raise UsageError(f"{out} exists and is not an earlier demo; name another folder with --out")


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """A folder beside the target that takes its place when all is written."""
    from prirec.util.files import room_beside

    out = out.resolve()
    beside = room_beside(out)
    beside.mkdir(parents=True)
    try:
        yield beside
        _refuse_foreign(out)
        if out.exists():
            shutil.rmtree(out)
        beside.rename(out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
