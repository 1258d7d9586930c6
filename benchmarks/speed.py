"""Samples a second of processor time at Koubei's shape (D = 89, K = 5, N = 30), as ratios to per-sample NumPy in
the same run. By the clock a row would hang on what else the machine had to do."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np

from baseline import NumpyPass
from cities import koubei, wide
from prirec.config import Settings
from prirec.engines.train import make_engine
from prirec.simulate.setup import Setup

HERE = Path(__file__).parent
REPEATS = 15  # spread over a second or more: a neighbour on the machine seldom uses its caches for all of it
NARROW = {"ring__bits": 32, "ring__fraction_bits": 20, "ring__bound": 60.0}


def best(task: Callable[[], object], repeats: int) -> float:
    """Processor seconds of the fastest of some repeats, all threads together: the others had company in the caches."""
    times = []
    for _ in range(repeats):
        began = process_time()
        task()
        times.append(process_time() - began)
    return min(times)


def engine_rate(setup: Setup, settings: Settings, *, threads: int) -> float:
    engine = make_engine("local", setup.samples, settings, threads=threads)
    state = engine.start()
    engine.advance(state)  # compiled, neighbours found
    return threads * len(setup.samples.train) / best(lambda: engine.advance(state), REPEATS)


def numpy_rate(setup: Setup, *, ring: bool, samples: int = 4000) -> float:
    order = np.random.Generator(np.random.PCG64(1)).permutation(len(setup.samples.train))[:samples]
    baseline = NumpyPass(setup, ring=ring)
    baseline.run(order[:50])
    return samples / best(lambda: baseline.run(order), REPEATS)


def peers(setup: Setup) -> dict[str, float]:
    """Samples a second of the FM libraries in the environment `.venv-peers`; empty where it does not exist."""
    python = HERE.parent / ".venv-peers" / "bin" / "python"
    if not python.exists():
        return {}
    samples, train = setup.samples, setup.samples.train
    rows = np.arange(min(len(train), 200_000))
    X = np.hstack([samples.people[train.person[rows]], samples.places[train.place[rows]], train.context[rows]])
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "samples.npz", X=X, y=train.label[rows])
        answer = subprocess.run([python, HERE / "peers.py", folder], check=True, capture_output=True, text=True)
    rates: dict[str, float] = json.loads(answer.stdout)
    return rates


def measure() -> dict[str, object]:
    paper = wide("paper")
    setup, own = koubei(paper), koubei(wide("rounds"))
    rates = {
        "per-sample NumPy, float sums": numpy_rate(setup, ring=False),
        "per-sample NumPy, ring sums": numpy_rate(setup, ring=True),
        "paper, 64-bit ring, shuffled": engine_rate(setup, paper, threads=1),
        "paper, 64-bit ring, windows": engine_rate(setup, wide("paper", order="windows"), threads=1),
        "paper, 32-bit ring, shuffled": engine_rate(setup, wide("paper", **NARROW), threads=1),
        "paper, 32-bit ring, windows": engine_rate(setup, wide("paper", order="windows", **NARROW), threads=1),
        "rounds, 1 thread": engine_rate(setup, wide("rounds"), threads=1),
        "rounds, 2 threads": engine_rate(setup, wide("rounds"), threads=2),
        f"rounds with home areas and own history, D = {own.samples.features}, 1 thread": engine_rate(
            own, wide("rounds"), threads=1
        ),
        "centralised FM, 1 thread": engine_rate(setup, wide("fm"), threads=1),
        **{f"{name} (library)": rate for name, rate in peers(setup).items()},
    }
    return {"features": setup.samples.features, "records": len(setup.samples.train), "rates": rates}


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
    sys.exit(0)
