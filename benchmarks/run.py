"""Every benchmark, or those that are named; writes results.json and RESULTS.md beside this file, and figures into docs.

What is not measured in a run stays on the pages as it is.

`make bench` first makes `.venv-peers` and `.venv-flower` with the libraries to compare with; without them these are
left out.
"""

import json
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

import city_page
import cluster
import cluster_page
import memory
import people
import popularity
import popularity_page
import private
import private_page
import proofs
import scaling
import secure
import service
import speed
import start
import two_operators
import window
from generated_parts import replace_part

HERE = Path(__file__).parent
ROWS = {
    "start": start.measure,
    "speed": speed.measure,
    "memory": memory.measure,
    "scaling": scaling.measure,
    "cluster": cluster.measure,
    "secure": secure.measure,
    "proofs": proofs.measure,
    "service": service.measure,
    "popularity": popularity.measure,
    "private": private.measure,
    "people": people.measure,
}
LONG = {
    "service at length": service.measure_long,
    "window": window.measure_long,
    "city page": city_page.measure,  # which needs a Chromium
    "two operators": two_operators.measure,
}  # only when named, as in `make soak`; else kept as it was


def speed_lines(found: dict[str, Any]) -> list[str]:
    rates = found["rates"]
    floats, ring = rates["per-sample NumPy, float sums"], rates["per-sample NumPy, ring sums"]
    lines = [
        f"## Speed, Koubei's shape: D = {found['features']}, K = 5, N = 30, {found['records']:,} training records",
        "",
        "Training records a second of processor time, in one run. All but the row that says otherwise have the paper's "
        "features and one thread; of two threads each has half of the time.",
        "",
        "| | × per-sample NumPy, float sums | × per-sample NumPy, ring sums |",
        "|---|---|---|",
    ]
    return lines + [f"| {name} | {rate / floats:.1f} | {rate / ring:.1f} |" for name, rate in rates.items()]


def memory_lines(found: dict[str, Any]) -> list[str]:
    lines = ["## Memory at the peak: city, set-up, rounds, evaluation", "", "| | GB |", "|---|---|"]
    return lines + [f"| {name}, D = {row['features']} | {row['gigabytes']:.2f} |" for name, row in found.items()]


def scaling_lines(found: dict[str, Any]) -> list[str]:
    lines = [
        "## Processor time against interactions, one thread, people and places growing alongside",
        "",
        "| | slope, µs a sample | offset, s | R² of the affine fit | µs a sample, smallest | largest |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        ends = [1e6 * seconds / samples for samples, seconds in (row["points"][0], row["points"][-1])]
        lines.append(
            f"| {name} | {row['microseconds a sample']:.2f} | {row['offset in seconds']:.2f} | {row['R2']:.4f} "
            f"| {ends[0]:.2f} | {ends[1]:.2f} |"
        )
    return lines


LINES = {
    "start": start.lines,
    "speed": speed_lines,
    "memory": memory_lines,
    "scaling": scaling_lines,
    "cluster": cluster.lines,
    "secure": secure.lines,
    "proofs": proofs.lines,
    "service": service.lines,
    "service at length": service.lines_long,
    "window": window.lines,
    "city page": city_page.lines,
    "two operators": two_operators.lines,
    "popularity": popularity.lines,
    "private": private.lines,
    "people": people.lines,
}


PAGES = {
    "popularity": popularity_page.write,
    "private": private_page.write,
    "people": people.write,
    "cluster": cluster_page.write,
}


def page(text: str, found: dict[str, Any], measured: list[str]) -> str:
    """The page with the parts of what was measured written anew."""
    made = f"Made with Python {found['python']}, NumPy {found['numpy']}."
    for name in measured:
        lines = [*LINES[name](found[name]), "", made]
        text = replace_part(text, begin=f"<!-- generated: {name} -->\n", lines=lines)
    return text


def main(chosen: list[str]) -> None:
    file, results = HERE / "results.json", HERE / "RESULTS.md"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    found |= {"python": platform.python_version(), "numpy": np.__version__}
    measured = chosen or list(ROWS)
    for name in measured:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found[name] = (ROWS | LONG)[name]()
        file.write_text(json.dumps(found, indent=1) + "\n")
    results.write_text(page(results.read_text(), found, measured))
    for name in measured:
        if name in PAGES:
            PAGES[name](found[name])
    print(results.read_text())


if __name__ == "__main__":
    main(sys.argv[1:])
