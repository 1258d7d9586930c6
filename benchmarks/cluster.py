"""The cluster engine with two actors on this machine: beside the local engine, and against the number of people."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import msgspec
import polars as pl

from cities import city, wide
from prirec.cluster.pool import import_ray, ray_session
from prirec.cluster.train import open_partitioned
from prirec.data.folder import read_folder
from prirec.data.partition import partition_folder
from prirec.data.partitioned import ROW, Partition, read_partition
from prirec.data.sources import MANIFEST
from prirec.data.synthetic import CityPlan
from prirec.data.write_folder import write_folder
from prirec.engines.train import make_engine
from prirec.simulate.setup import set_up
from processes import cpu_of, peak_of
from scaling import fit

REGIONS, REGION = 10, CityPlan(people=10_000, places=10_000, records=60_000, districts=16, categories=40, span_km=60.0)
PEOPLE = (100_000, 300_000, 1_000_000, 2_000_000, 3_000_000)
BESIDE = 1_000_000
ACTORS, CLUSTER = 2, "cluster, 2 actors"
ROUNDS = 8


def make(folder: Path, people: int) -> None:
    """Regions of one shape side by side, each with its places, and as many people in them as are wanted: copies of the
    region's, under other names. The catalogue is the same whatever the number of people."""
    write_folder(city(REGION), folder / "region", table_format="parquet")
    partition_folder(folder / "region", folder / "one", parts=1)
    users, visits = (pl.read_parquet(folder / "one" / name / "part=0") for name in ("users", "visits"))
    pois, target = pl.read_parquet(folder / "one" / "pois.parquet"), folder / "parts"
    for number in range(people // REGION.people):
        region, copy = number * REGIONS * REGION.people // people, f"{number}-"  # parts stand along the map
        who, shift = pl.lit(copy) + pl.col("user"), pl.col("lon") + 2.0 * region
        _write(users.with_columns(shift, user=who, **_rows(users, number)), target / "users" / f"part={number}")
        where = pl.lit(f"{region}-") + pl.col("poi")
        _write(visits.with_columns(user=who, poi=where, **_rows(visits, number)), target / "visits" / f"part={number}")
    shifted = [
        pois.with_columns(pl.col("lon") + 2.0 * region, poi=pl.lit(f"{region}-") + pl.col("poi"))
        for region in range(REGIONS)
    ]
    pl.concat(shifted).write_parquet(target / "pois.parquet")
    (target / "schema.toml").write_bytes((folder / "one" / "schema.toml").read_bytes())
    one = read_partition(folder / "one")
    made = Partition(parts=one.parts * (people // REGION.people), labelled=one.labelled)
    (target / MANIFEST).write_bytes(msgspec.json.encode(made))


def _rows(frame: pl.DataFrame, number: int) -> dict[str, Any]:
    return {ROW: (pl.col(ROW).cast(pl.Int64) + number * frame.height).cast(pl.UInt32)}


def _write(frame: pl.DataFrame, folder: Path) -> None:
    folder.mkdir(parents=True)
    frame.write_parquet(folder / "0.parquet")


def against_people(folder: Path) -> dict[str, Any]:
    """In a process of its own: a round's best time, and the most memory that driver and actors had until the run was
    measured and saved."""
    settings = wide("rounds", iterations=ROUNDS)
    with ray_session(cpus=ACTORS), open_partitioned(folder, settings, actors=ACTORS) as away:
        clock = Processors(away.pool.each("process"))
        course = away.train(checkpointing=None, progress=clock.progress)
        times = [passed.seconds for passed in course.history[1:]]
        away.quality(course)
        away.save(folder.parent / "run", course, source="made up")
        actors = [peak_of(process) for process in away.pool.each("process")]
    driver, city = peak_of(os.getpid()), away.city
    return {
        "seconds": min(times), "processor seconds": min(clock.rounds[1:]), "moved": course.history[-1].moved,
        "features": len(city.encoding.names()), "entries": city.columns.entries,
        "state": sum(array.nbytes for array in course.state.arrays().values()), "width": city.columns.layout.width,
        "driver": driver / 1e9, "actors": sum(actors) / 1e9, "people": city.amounts.people,
        "records": city.amounts.train,
    }  # fmt: skip


class Processors:
    """Processor time of the busiest actor in each round: what a round takes where nobody else is on the machine."""

    def __init__(self, processes: list[int]):
        self.processes, self.rounds = processes, list[float]()
        self._before = [cpu_of(process) for process in processes]

    def progress(self, passed: object) -> None:
        del passed
        now = [cpu_of(process) for process in self.processes]
        self.rounds.append(max(b - a for a, b in zip(self._before, now, strict=True)))
        self._before = now


def beside_local(folder: Path) -> dict[str, dict[str, float]]:
    """Rounds taken in turns by all three, on the same people: the best time of each, and of processors that of the
    busiest thread or actor (for two threads, half of both)."""
    settings = wide("rounds", iterations=1000)
    samples = set_up(read_folder(folder).dataset, settings).samples
    engines = {f"local, {n} thread{'s' * (n > 1)}": make_engine("local", samples, settings, threads=n) for n in (1, 2)}
    states = {name: engine.start() for name, engine in engines.items()}
    times: dict[str, list[float]] = {name: [] for name in (*engines, CLUSTER)}
    busy: dict[str, list[float]] = {name: [] for name in times}
    with ray_session(cpus=ACTORS), open_partitioned(folder, settings, actors=ACTORS) as away:
        cluster = away.engine
        moved = cluster.start()
        clock = Processors(away.pool.each("process"))
        for _ in range(ROUNDS):
            for name, engine in engines.items():
                began = process_time()
                times[name].append(_timed(engine.advance, states[name]))
                busy[name].append((process_time() - began) / (1 if name.endswith("thread") else 2))
            times[CLUSTER].append(_timed(cluster.advance, moved))
            clock.progress(None)
            busy[CLUSTER].append(clock.rounds[-1])
    import_ray().shutdown()
    assert (moved.estimate.B == states["local, 1 thread"].estimate.B).all()  # the same bits, or no comparison
    return {kind: {name: min(some[1:]) for name, some in found.items()} for kind, found in
            (("seconds", times), ("processor seconds", busy))}  # fmt: skip


def _timed(task: Any, state: Any) -> float:
    began = perf_counter()
    task(state)
    return perf_counter() - began


def measure() -> dict[str, Any]:
    return {"beside": _apart("beside", BESIDE), "people": [_apart("people", people) for people in PEOPLE]}


def _apart(kind: str, people: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="prirec-benchmark-") as folder:
        make(Path(folder), people)
        command = [sys.executable, str(Path(__file__)), kind, str(Path(folder) / "parts")]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def compared(beside: dict[str, dict[str, float]], kind: str) -> tuple[float, float]:
    """How many times as fast as one local thread, and how much slower than two."""
    cluster, one, two = (beside[kind][name] for name in (CLUSTER, "local, 1 thread", "local, 2 threads"))
    return one / cluster, cluster / two - 1


def lines(found: dict[str, Any]) -> list[str]:
    rows = found["people"]
    (faster, slower), (free, behind) = (compared(found["beside"], kind) for kind in ("processor seconds", "seconds"))
    line, clock = (fit([(row["people"], row[kind]) for row in rows]) for kind in ("processor seconds", "seconds"))
    return [
        f"## The cluster engine, two actors on one machine, D = {rows[0]['features']}, {rows[0]['entries']:,} numbers "
        "in B, preset rounds",
        "",
        f"At {BESIDE:,} people, rounds taken in turns, by processor time of the busiest actor or thread: {faster:.2f} "
        f"times as fast as the local engine with one thread, in {100 + 100 * slower:.0f} % of the time that it takes "
        f"with two. By the clock, on a machine that others used, too: {free:.2f} times, in {100 + 100 * behind:.0f} %.",
        "",
        "A round against people, by processor time of the busier actor: "
        f"{line['microseconds a sample']:.2f} µs a person, R² of the affine fit {line['R2']:.4f} (by the "
        f"clock {clock['R2']:.4f}).",
        "",
        "| people | training records | µs a person | driver, GB | actors, GB | bytes moved in a round |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['people']:,} | {row['records']:,} | {1e6 * row['processor seconds'] / row['people']:.2f} "
            f"| {row['driver']:.2f} | {row['actors']:.2f} | {row['moved']:,} |"
            for row in rows
        ),
    ]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps({"beside": beside_local, "people": against_people}[sys.argv[1]](Path(sys.argv[2]))))
    else:
        print(json.dumps(measure(), indent=2))
