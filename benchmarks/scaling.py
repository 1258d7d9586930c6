"""Processor time of one round, and of one pass of Algorithm 2, against the number of interactions: affine fits."""

import json

import numpy as np

from cities import city, wide
from prirec.data.synthetic import CityPlan
from prirec.engines.train import make_engine
from prirec.simulate.setup import set_up
from speed import best

RECORDS = (400_000, 800_000, 1_200_000, 1_600_000, 2_000_000)


def seconds(preset: str, records: int) -> tuple[int, float]:
    plan = CityPlan(
        people=records // 6, places=records // 8, records=records, districts=16, categories=40, span_km=60.0
    )
    settings = wide(preset)
    samples = set_up(city(plan), settings).samples
    engine = make_engine("local", samples, settings, threads=1)
    state = engine.start()
    engine.advance(state)
    return len(samples.train), best(lambda: engine.advance(state), 7)


def fit(points: list[tuple[int, float]]) -> dict[str, object]:
    x, t = np.array(points, dtype=float).T
    slope, offset = np.polyfit(x, t, 1)
    rest = t - (slope * x + offset)
    return {
        "points": points,
        "microseconds a sample": slope * 1e6,
        "offset in seconds": offset,
        "R2": 1 - (rest @ rest) / ((t - t.mean()) @ (t - t.mean())),
    }


def measure() -> dict[str, object]:
    return {preset: fit([seconds(preset, records) for records in RECORDS]) for preset in ("rounds", "paper")}


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
