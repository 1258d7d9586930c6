"""A fixed set of small runs, and the hash of everything that each of them comes to.

    python tests/recorded/runs.py          writes hashes.json anew
    python tests/recorded/runs.py --add    adds this processor's hashes to those of others

The hashes hold models, saved runs and documents on the wire to the bit, whatever is renamed or moved. Those of the
paper's schedule and of FM are as they were before the source tree was rebuilt. Some of what they hold goes through the
processor's own exp, log and matrix products, so there is a set of hashes for each kind of processor: see `processor`.
On a processor without one, check out a commit that is known to be right, add the hashes there, and take the file along.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from prirec.config import FM, PAPER, PRIVATE, ROUNDS, Settings, dump
from prirec.data.write_folder import write_folder
from prirec.engines.shards import ShardDriver
from prirec.engines.state import FactorizationState, State
from prirec.engines.train import make_engine
from prirec.recommender import campaign as rules
from prirec.recommender.conductor import Conductor, Pace
from prirec.recommender.operator import found_deployment
from prirec.simulate.saved_runs import Released, save_run, to_run
from prirec.simulate.setup import run, set_up
from support import deployment as deployments
from support.cities import (
    SMALL_FM,
    SMALL_PAPER,
    SMALL_PRIVATE,
    SMALL_ROUNDS,
    change,
    samples_of,
    small_city,
    with_moods,
    without_coordinates,
)
from support.deployment import Direct, Entropy, agents_of, deployed, run_campaign
from support.https_deployment import served, take_part
from support.low_floors import low_floor
from support.shards import cut, in_one_process, pieces_of, rules_of

HASHES = Path(__file__).with_name("hashes.json")
LOST = {"participation": {"online": 0.85, "dropout": 0.15}}
BARE = {"features": {"own_history": False, "areas": 0}}
SIMULATED: dict[str, Settings] = {
    "paper": SMALL_PAPER,
    "paper, some offline": change(SMALL_PAPER, participation={"online": 0.6}),
    "paper, neighbours drawn anew": change(SMALL_PAPER, neighbours={"kind": "random"}),
    "paper, weights by distance": change(SMALL_PAPER, neighbours={"weights": "exponential"}),
    "paper, windows": change(SMALL_PAPER, order="windows"),
    "paper, batches": change(SMALL_PAPER, interaction={"batch": 7}),
    "paper, randomized response": change(SMALL_PAPER, popularity={"mechanism": "randomized-response"}),
    "rounds": SMALL_ROUNDS,
    "rounds, drop-outs": change(SMALL_ROUNDS, **LOST),
    "rounds, 32 bits": change(SMALL_ROUNDS, ring={"bits": 32, "fraction_bits": 20}),
    "rounds, bare": change(SMALL_ROUNDS, **BARE),
    "rounds, later records": change(SMALL_ROUNDS, data={"split": "time"}),
    "private": SMALL_PRIVATE,
    "private, drop-outs": change(SMALL_PRIVATE, **LOST),
    "private, capped": change(SMALL_PRIVATE, popularity={"cap": 2}),
    "fm": change(SMALL_FM, **BARE),
}
CITIES: dict[str, Callable[[], object]] = {
    "no coordinates": lambda: without_coordinates(small_city()),
    "context columns": lambda: with_moods(small_city(), np.random.default_rng(1)),
}


def digest(*parts: np.ndarray | bytes | str) -> str:
    """A hash of arrays, by their types, shapes and bits, and of bytes and texts."""
    total = sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(f"{part.dtype} {part.shape} ".encode() + part.tobytes())
        else:
            total.update(part.encode() if isinstance(part, str) else part)
    return total.hexdigest()


def processor() -> str:
    """A hash of what this processor and its libraries make of functions that no standard fixes to the bit."""
    x = np.linspace(0.01, 30.0, 20_001)
    table = np.sin(np.outer(np.arange(1.0, 190.0), np.arange(1.0, 24.0)))
    solved = np.linalg.solve(table.T @ table + np.eye(23), table.T @ np.cos(np.arange(189.0)))
    return digest(np.exp(-x), np.log(x), np.log1p(x), np.sin(x), np.cos(x), np.arctan2(x, 3.0), np.tanh(x), solved)


def of_state(state: State) -> dict[str, str]:
    if isinstance(state, FactorizationState):
        return {"V": digest(state.interaction), "W": digest(state.linear)}
    arrays = state.arrays()
    return {"B": digest(arrays.pop("B")), "rest": digest(*arrays.values())}


def simulated(name: str, engine: str) -> dict[str, str]:
    settings = SIMULATED[name]
    samples = samples_of(small_city(), settings)
    return of_state(_trained(make_engine(engine, samples, settings, threads=2), settings))


def in_a_city(name: str) -> dict[str, str]:
    settings = SMALL_ROUNDS
    samples = samples_of(CITIES[name](), settings)  # type: ignore[arg-type]
    return of_state(_trained(make_engine("local", samples, settings), settings))


def _trained(engine: Any, settings: Settings) -> State:
    state: State = engine.start()
    for _ in range(settings.iterations):
        engine.advance(state)
    return state


def sharded(name: str) -> dict[str, str]:
    """Three shards in one process."""
    settings = SIMULATED[name]
    samples = samples_of(small_city(), settings)
    crew = in_one_process(pieces_of(samples, cut(samples, 3)), settings)
    return of_state(_trained(ShardDriver(crew, rules_of(samples, settings)), settings))


def saved(name: str) -> dict[str, str]:
    """The files of a saved run, but for what tells the time and the versions of libraries."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(set_up(small_city(), SIMULATED[name]))
        save_run(Path(folder) / "run", to_run(outcome, source="a small city"))
        files = {file.name: file.read_bytes() for file in sorted((Path(folder) / "run").iterdir())}
    released = msgspec.json.decode(files["popularity.json"], type=Released)
    # sums that were opened are kept since version 4 of runs; the rest is as it was recorded before
    files["popularity.json"] = msgspec.json.encode(msgspec.structs.replace(released, opened=None))
    return {name: digest(data) for name, data in files.items() if name not in ("run.json", "history.jsonl")}


def city_folder() -> dict[str, str]:
    """A made-up city as tables."""
    with tempfile.TemporaryDirectory() as folder:
        write_folder(small_city(), Path(folder) / "city")
        return {file.name: digest(file.read_bytes()) for file in sorted((Path(folder) / "city").iterdir())}


def texts_of_settings() -> dict[str, str]:
    presets = (PAPER, ROUNDS, PRIVATE, FM)
    return {settings.preset: digest(dump(settings)) for settings in presets}


def vectors() -> dict[str, str]:
    """The files of test vectors."""
    files = sorted((Path(__file__).parents[1] / "vectors").glob("*.json"))
    return {file.name: digest(file.read_bytes()) for file in files}


def deployment(*, https: bool) -> dict[str, str]:
    """A campaign of two rounds with injected entropy: the state at its end, and all documents that were published."""
    people, floor = 24, 20
    settings = change(SMALL_PRIVATE, iterations=2, floor=floor)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        low_floor(patch, floor)
        patch.setattr(deployments, "found_deployment", partial(found_deployment, entropy=Entropy(b"founding")))
        made = deployed(small_city(people=people, places=12, records=5 * people), settings, folder)
        if https:
            with served(made, folder, pace=Pace(900.0, 900.0)) as at:
                asyncio.run(take_part(made, at))
        else:
            agents = agents_of(made, lambda person: Direct(made.store, person.membership().name))
            conductor = Conductor(made.store, pace=Pace(1e9, 1e9), clock=lambda: 0.0, entropy=Entropy(b"server"))
            asyncio.run(run_campaign(made, [agent for agent, _ in agents.values()], conductor))
        progress = rules.decode_state(made.store.progress())
        entries = [(entry.entry.subject, entry.entry.document) for entry in made.store.entries(0)]
        return {
            "B": digest(progress.shared),
            "rest": digest(progress.average, progress.first, repr((progress.curvature, progress.variance))),
            **{f"{at} {kind}": document.hex() for at, (kind, document) in enumerate(entries)},
        }


def all_runs() -> Iterator[tuple[str, Callable[[], dict[str, str]]]]:
    """Every run by name; tests/cluster holds a cluster's to those of one machine."""
    yield "settings", texts_of_settings
    yield "city folder", city_folder
    yield "vectors", vectors
    for name in SIMULATED:
        yield f"local: {name}", partial(simulated, name, "local")
    for name in ("paper", "paper, weights by distance", "rounds, drop-outs", "private, drop-outs"):
        yield f"plain: {name}", partial(simulated, name, "plain")
    for name in ("rounds, drop-outs", "private, drop-outs"):
        yield f"protocol: {name}", partial(simulated, name, "protocol")
    for name in ("rounds, drop-outs", "private, drop-outs"):
        yield f"shards: {name}", partial(sharded, name)
    for name in CITIES:
        yield f"city: {name}", partial(in_a_city, name)
    for name in ("paper", "rounds", "private", "fm"):
        yield f"saved run: {name}", partial(saved, name)
    yield "deployment in one process", partial(deployment, https=False)
    yield "deployment over HTTPS", partial(deployment, https=True)


if __name__ == "__main__":
    others = json.loads(HASHES.read_text(encoding="utf-8")) if "--add" in sys.argv else {}
    hashes = others | {processor(): {name: one() for name, one in all_runs()}}
    HASHES.write_text(json.dumps(hashes, indent=2) + "\n", encoding="utf-8")
