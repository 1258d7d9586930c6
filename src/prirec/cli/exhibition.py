"""The work behind prirec demo. Everything is written beside the target and moved there at the end."""

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import typer

from prirec.beside import room_beside
from prirec.cli.advice import advise, show_advice
from prirec.cli.contenders import CHOSEN, contenders
from prirec.cli.output import SIMULATION, figure, program, show_table
from prirec.cli.progress import bar, bars
from prirec.data.city import CityPlan, make_city
from prirec.data.dataset import Dataset
from prirec.data.folder_tables import require_polars
from prirec.data.writing import write_folder
from prirec.engines.randomness import generator
from prirec.engines.run_folder import save_run
from prirec.engines.state import Passed
from prirec.errors import UsageError
from prirec.evaluate.comparison import Contender, Entry, compare
from prirec.evaluate.person import Advisor
from prirec.evaluate.report import Advice, write_report
from prirec.evaluate.saved_run import to_run

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


def hold(out: Path, *, people: int, seed: int) -> None:
    """Make, train, compare, recommend, save."""
    city = make_city(CityPlan(people=people, places=2 * people // 5, records=40 * people), generator(seed, "city"))
    typer.echo(
        f"a city of {people:,} people, {len(city.places):,} places and {len(city.visits):,} records, all made up\n"
    )
    entries = _compared(city, contenders(seed))
    chosen = next(entry for entry in entries if entry.contender.name == CHOSEN)
    _show_comparison(entries)
    person_id, advice = _advised(chosen)
    show_advice(advice.lines, origin="home", title=f"Places for {person_id}: {advice.person_note}")
    typer.echo("")
    with _replacing(out) as beside:
        write_folder(city, beside / DATA)
        save_run(beside / RUN, to_run(chosen.outcome, str(out / DATA)))
        write_report(beside / REPORT, city=city, entries=entries, advice=advice)
    _say_where(out, person_id)


def _compared(city: Dataset, models: Sequence[Contender]) -> tuple[Entry, ...]:
    with bars() as shown:
        names = [model.name for model in models]
        rows = {model.name: bar(shown, model.name, iterations=model.settings.iterations) for model in models}

        def tell(model: Contender, passed: Passed) -> None:
            rows[model.name].tell(passed)
            if passed.iteration == model.settings.iterations and (later := names[names.index(model.name) + 1 :]):
                rows[later[0]].begin()

        rows[names[0]].begin()
        return compare(city, models, threads=os.cpu_count() or 1, tell=tell)


def _show_comparison(entries: Sequence[Entry]) -> None:
    qualities = [(entry.contender, entry.outcome.quality) for entry in entries]
    rows = [
        (model.name, figure(q.auc), figure(q.log_loss), figure(q.auc_few), figure(q.gauc), model.collects)
        for model, q in qualities
    ]
    show_table(("model", ">AUC", ">log loss", ">AUC of few", ">GAUC", "what it collects"), rows)
    typer.echo("AUC of few: the quarter of people with fewest records; GAUC: within each person")
    typer.echo("only PriRec, private has noise in its sums; what noise costs falls with the number of people")
    typer.echo(f"{SIMULATION}\n")


def _advised(entry: Entry) -> tuple[str, Advice]:
    """Ten places for a person with a median number of records."""
    setup, state = entry.outcome.setup, entry.outcome.trained.state
    counts = setup.samples.train.counts()
    person = int(np.argsort(counts, kind="stable")[len(counts) // 2])
    advisor, name = Advisor.in_earnest(setup, state.models), setup.samples.ids[person]
    words = f"a person with the median number of training records ({counts[person]})"
    return name, Advice(words, advise(advisor, person))


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


def _say_where(out: Path, person_id: str) -> None:
    typer.echo(f"report  {out / REPORT}")
    typer.echo(f"run     {out / RUN}  ({CHOSEN})")
    typer.echo(f"data    {out / DATA}")
    words = ("recommend", str(out / RUN), str(out / DATA), "--person", person_id, "--at", "2024-05-04T19:30")
    typer.echo(f"next: {shlex.join((*program(), *words))}")
