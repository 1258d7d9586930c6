"""The models that the demo compares. What each collects is said of the design; the demo itself sees everything."""

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import typer

from prirec.cli.advice import show_advice
from prirec.cli.output import SIMULATION, Bar, bar, bars, busy, figure, program, show_json, show_table
from prirec.config import load
from prirec.data.dataset import Dataset
from prirec.data.synthetic import CityPlan, make_city
from prirec.data.tables import require_polars
from prirec.data.write_folder import write_folder
from prirec.errors import UsageError
from prirec.evaluate.report import Advice, advise_somebody, write_report
from prirec.simulate.compare import Contender, Entry, compare
from prirec.simulate.saved_runs import save_run, to_run
from prirec.simulate.setup import Outcome
from prirec.util.files import room_beside
from prirec.util.keyed_random import generator

CHOSEN = "PriRec, private"  # the one that recommends and is saved


def contenders(seed: int) -> tuple[Contender, ...]:
    """Centralised FM, the paper's PriRec without and with popularity, and PriRec in rounds without and with noise."""
    return (
        Contender("FM", "every profile, every record", load(changes={"preset": "fm", "seed": seed})),
        Contender(
            "PriRec-, paper",
            "gradients of V",
            load(changes={"preset": "paper", "seed": seed, "features.dynamic": False}),
        ),
        Contender("PriRec, paper", "gradients of V, counts of visits", load(changes={"preset": "paper", "seed": seed})),
        Contender(
            "PriRec, rounds",
            "sums over 100 people or more, counts of visits",
            load(changes={"preset": "rounds", "seed": seed}),
        ),
        Contender(
            CHOSEN,
            "noisy sums, at ε = 1 a person in all",
            load(changes={"preset": "private", "seed": seed}),
        ),
    )


# Several models on one city, a bar for each.


def compared(city: Dataset, models: Sequence[Contender]) -> tuple[Entry, ...]:
    """Each in turn, on all cores; its bar says what is being done for it."""
    with bars() as shown:
        rows = [bar(shown, model.name, iterations=model.settings.iterations) for model in models]
        return tuple(_entry(city, model, row) for model, row in zip(models, rows, strict=True))


def _entry(city: Dataset, model: Contender, row: Bar) -> Entry:
    row.begin()
    (entry,) = compare(city, [model], threads=os.cpu_count() or 1, tell=lambda _, passed: row.tell(passed))
    row.finish()
    return entry


# What prirec demo says: to people as soon as it is known, to programs as one JSON object in the end.


class Words(Protocol):
    """Told in this order, once each."""

    def city(self, city: Dataset) -> None: ...
    def models(self, entries: Sequence[Entry]) -> None: ...
    def places(self, person: str, advice: Advice) -> None: ...
    def end(self, *, report: Path, run: Path, data: Path) -> None: ...


class ForPeople:
    """Lines and tables."""

    def __init__(self) -> None:
        self._person = ""

    def city(self, city: Dataset) -> None:
        counts = f"{len(city.people):,} people, {len(city.places):,} places and {len(city.visits):,} records"
        typer.echo(f"a city of {counts}, all made up\n")

    def models(self, entries: Sequence[Entry]) -> None:
        qualities = [(entry.contender, entry.outcome.quality) for entry in entries]
        rows = [
            (model.name, figure(q.auc), figure(q.log_loss), figure(q.auc_few), figure(q.gauc), model.collects)
            for model, q in qualities
        ]
        show_table(("model", ">AUC", ">log loss", ">AUC of few", ">GAUC", "what it collects"), rows)
        typer.echo("AUC of few: the quarter of people with fewest records; GAUC: within each person")
        typer.echo("only PriRec, private has noise in its sums; what noise costs falls with the number of people")
        typer.echo(f"{SIMULATION}\n")

    def places(self, person: str, advice: Advice) -> None:
        self._person = person
        show_advice(advice.lines, origin="home", title=f"Places for {person}: {advice.person_note}")
        typer.echo("")

    def end(self, *, report: Path, run: Path, data: Path) -> None:
        typer.echo(f"report  {report}")
        typer.echo(f"run     {run}  ({CHOSEN})")
        typer.echo(f"data    {data}")
        asked = ("recommend", str(run), str(data), "--person", self._person, "--at", "2024-05-04T19:30")
        typer.echo(f"next: {shlex.join((*program(), *asked))}")


class ForPrograms:
    """One JSON object; nothing where something is refused."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] = {}

    def city(self, city: Dataset) -> None:
        counts = {"people": len(city.people), "places": len(city.places), "records": len(city.visits)}
        self._answer["city"] = counts

    def models(self, entries: Sequence[Entry]) -> None:
        self._answer["models"] = [
            {"model": one.contender.name, "collects": one.contender.collects, "quality": one.outcome.quality.as_dict()}
            for one in entries
        ]

    def places(self, person: str, advice: Advice) -> None:
        self._answer["recommended"] = {
            "by": CHOSEN,
            "person": person,
            "places": [line.as_dict() for line in advice.lines],
            "distance_from": "home",
        }

    def end(self, *, report: Path, run: Path, data: Path) -> None:
        show_json({**self._answer, "report": str(report), "run": str(run), "data": str(data)})


# The work behind prirec demo. Everything is written beside the target and moved there at the end.


REPORT, RUN, DATA = "report.html", "run", "data"


def require_tools() -> None:
    """Before any work: what tables and plots are made with."""
    require_polars()
    if find_spec("matplotlib") is None:
        raise UsageError("the report is drawn with matplotlib; install it with: pip install 'prirec[report]'")


def refuse_foreign(out: Path) -> None:
    """An earlier demo may be replaced, unless someone stands in it; anything else is left alone."""
    if Path.cwd().is_relative_to(out.resolve()):
        raise UsageError(f"{out} is the folder you are in, or holds it; name a new folder with --out")
    if not out.exists():
        return
    found = {entry.name for entry in out.iterdir()} if out.is_dir() else {""}
    if found and (found != {REPORT, RUN, DATA} or not (out / RUN / "run.json").is_file()):
        raise UsageError(f"{out} exists and is not an earlier demo; name another folder with --out")


def hold(out: Path, *, people: int, seed: int, words: Words) -> None:
    """Make, train, compare, recommend, save; each is told as soon as it is there."""
    with busy("making the city"):
        city = make_city(CityPlan(people=people, places=2 * people // 5, records=40 * people), generator(seed, "city"))
    words.city(city)
    entries = compared(city, contenders(seed))
    words.models(entries)
    chosen = next(
        entry.outcome for entry in entries if entry.contender.name == CHOSEN and isinstance(entry.outcome, Outcome)
    )
    with busy("recommending"):
        person, advice = advise_somebody(chosen)
    words.places(person, advice)
    with _replacing(out) as beside:
        with busy("writing the city and the run"):
            write_folder(city, beside / DATA)
            save_run(beside / RUN, to_run(chosen, str(out / DATA)))
        with busy("drawing the report"):
            write_report(beside / REPORT, city=city, entries=entries, advice=advice)
    words.end(report=out / REPORT, run=out / RUN, data=out / DATA)


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """A folder beside the target that takes its place when all is written."""
    out = out.resolve()
    beside = room_beside(out)
    beside.mkdir(parents=True)
    try:
        yield beside
        refuse_foreign(out)
        if out.exists():
            shutil.rmtree(out)
        beside.rename(out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
