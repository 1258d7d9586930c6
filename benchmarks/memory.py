"""Peak memory of a whole run, each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

from processes import peak_of

PLANS = {
    "Koubei's size": {"people": 85_466, "places": 118_598, "records": 497_838, "iterations": 2},
    "one million people, ten million interactions": {
        "people": 1_000_000,
        "places": 200_000,
        "records": 10_000_000,
        "iterations": 1,
    },
}


def one(people: int, places: int, records: int, iterations: int) -> None:
    from cities import city, wide
    from prirec.data.synthetic import CityPlan
    from prirec.simulate.setup import run, set_up

    plan = CityPlan(people=people, places=places, records=records, districts=16, categories=40, span_km=60.0)
    outcome = run(set_up(city(plan), wide("rounds", iterations=iterations)))
    print(json.dumps({"gigabytes": peak_of(os.getpid()) / 1e9, "features": outcome.setup.samples.features}))


def measure() -> dict[str, object]:
    """Synthetic city, set-up, rounds, evaluation: gigabytes at the peak."""
    answers: dict[str, object] = {}
    for name, plan in PLANS.items():
        command = [sys.executable, str(Path(__file__)), json.dumps(plan)]
        answers[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return answers


if __name__ == "__main__":
    one(**json.loads(sys.argv[1]))
