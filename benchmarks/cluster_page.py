"""The generated part of docs/cluster.md: what was measured, and what a hundred million people would take by it."""

from pathlib import Path
from typing import Any

import numpy as np

import cluster
from generated_parts import replace_part
from prirec import config

PAGE = Path(__file__).parent.parent / "docs" / "cluster.md"
BEGIN = "<!-- generated: benchmarks/cluster.py -->\n"
PEOPLE, ROUNDS = 10**8, config.ROUNDS.iterations
PROCESSORS, MEMORY, NETWORK = 16, 32e9, 10e9 / 8  # of a node: processors, bytes, bytes a second
ROOM = 0.8  # of a node's memory, for actors


def page(text: str, found: dict[str, Any]) -> str:
    return replace_part(text, begin=BEGIN, lines=[*cluster.lines(found), "", *outlook(found)])


def slope(rows: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """A person's share of something, and what there is of it without anybody."""
    each, rest = np.polyfit([row["people"] for row in rows], [row[name] for row in rows], 1)
    return float(each), float(rest)


def outlook(found: dict[str, Any]) -> list[str]:
    """The arithmetic, spelt out."""
    rows = found["people"]
    features, entries, state, width = (rows[0][name] for name in ("features", "entries", "state", "width"))
    second = 2 * slope(rows, "processor seconds")[0]  # two actors worked at the same time
    octets, empty = (1e9 * part for part in slope(rows, "actors"))
    empty /= cluster.ACTORS
    free = ROOM * MEMORY - PROCESSORS * empty
    total, nodes = octets * PEOPLE, int(np.ceil(octets * PEOPLE / free))
    actors = nodes * PROCESSORS
    work = second * PEOPLE
    up, saved = 8 * entries, 8 * width * PEOPLE
    return [
        "## What a hundred million people would take",
        "",
        f"By the slopes above, for D = {features}, {entries:,} numbers in B, "
        f"{rows[-1]['records'] / rows[-1]['people']:.1f} training records a person, {ROUNDS} rounds, and nodes with "
        f"{PROCESSORS} processors as fast as this one, {MEMORY / 1e9:.0f} GB and a network of 10 Gbit/s. Nothing was "
        "measured beyond three million people, or on more than one machine.",
        "",
        "| | | |",
        "|---|---|---|",
        f"| memory | {octets:,.0f} bytes a person (slope of the actors' memory) × 10⁸ | {total / 1e9:,.0f} GB |",
        f"| a node's memory for people | {ROOM:g} × {MEMORY / 1e9:.0f} GB less {PROCESSORS} actors × "
        f"{empty / 1e9:.2f} GB that an actor has without people | {free / 1e9:.1f} GB |",
        f"| nodes | {total / 1e9:,.0f} GB / {free / 1e9:.1f} GB, rounded up | {nodes} |",
        f"| actors | {nodes} × {PROCESSORS} | {actors:,} |",
        f"| processor time of a round | 2 actors × {second / 2 * 1e6:.2f} µs a person × 10⁸ | {work:,.0f} s |",
        f"| time of a round | {work:,.0f} s / {actors:,} | {work / actors:.1f} s |",
        f"| time of {ROUNDS} rounds | × {ROUNDS} | {ROUNDS * work / actors / 60:.1f} min |",
        f"| to each node, a round | the state, which is public | {state / 1e3:.1f} kB |",
        f"| from each actor, a round | its sum: 8 × {entries:,} | {up / 1e3:.1f} kB |",
        f"| network of the driver, a round | {nodes} × {state / 1e3:.1f} kB + {actors:,} × {up / 1e3:.1f} kB "
        f"| {(nodes * state + actors * up) / 1e6:,.1f} MB |",
        f"| a checkpoint | the state, whatever the number of people | {state / 1e3:.1f} kB |",
        f"| a saved run | 8 × {width} bytes a person × 10⁸ | {saved / 1e9:.0f} GB |",
        f"| writing it | {saved / 1e9:.0f} GB / ({nodes} × 1.25 GB/s), if the shared folder keeps up "
        f"| {saved / nodes / NETWORK:.0f} s |",
        "",
        "What grows beside people is the catalogue: every node holds its features once, every actor its columns of the "
        "shared model.",
    ]


def write(found: dict[str, Any]) -> None:
    if found:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
