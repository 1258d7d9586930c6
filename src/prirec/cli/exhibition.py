"""The work behind prirec demo. Everything is written beside the target and moved there at the end."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from prirec.beside import room_beside
from prirec.cli.advice import advise
from prirec.cli.comparing import compared
from prirec.cli.contenders import CHOSEN, contenders
from prirec.cli.demo_words import Words
from prirec.cli.progress import busy
from prirec.data.city import CityPlan, make_city
from prirec.data.folder_tables import require_polars
from prirec.data.writing import write_folder
from prirec.engines.randomness import generator
from prirec.engines.run_folder import save_run
from prirec.errors import UsageError
from prirec.evaluate.comparison import Entry
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


def hold(out: Path, *, people: int, seed: int, words: Words) -> None:
    """Make, train, compare, recommend, save; each is told as soon as it is there."""
    with busy("making the city"):
        city = make_city(CityPlan(people=people, places=2 * people // 5, records=40 * people), generator(seed, "city"))
    words.city(city)
    entries = compared(city, contenders(seed))
    words.models(entries)
    chosen = next(entry for entry in entries if entry.contender.name == CHOSEN)
    with busy("recommending"):
        person, advice = _advised(chosen)
    words.places(person, advice)
    with _replacing(out) as beside:
        with busy("writing the city and the run"):
            write_folder(city, beside / DATA)
            save_run(beside / RUN, to_run(chosen.outcome, str(out / DATA)))
        with busy("drawing the report"):
            write_report(beside / REPORT, city=city, entries=entries, advice=advice)
    words.end(report=out / REPORT, run=out / RUN, data=out / DATA)


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
