"""What only shows at full size. Run by `make soak`."""

import json
import subprocess
import sys

import numpy as np
import pytest

from prirec import settings_file
from prirec.data.city import CityPlan, koubei_size, make_city
from prirec.engines.state import State, start
from prirec.engines.training import make_engine
from prirec.evaluate.experiment import Setup, set_up

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("full size")]
WIDE = {"data.keep": "all", "features.words": 64}
ONE_RUN = """
import json, resource, sys
import numpy as np
from prirec import settings_file
from prirec.data.city import CityPlan, make_city
from prirec.evaluate.experiment import run, set_up
plan = CityPlan(**json.loads(sys.argv[1]))
city = make_city(plan, np.random.Generator(np.random.PCG64(0)))
made = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
settings = settings_file.load(changes={"data.keep": "all", "features.words": 64, "iterations": 8})
outcome = run(set_up(city, settings))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
print(json.dumps({"city": made, "run": peak, "features": outcome.setup.samples.features, "auc": outcome.quality.auc}))
"""


def gigabytes(**plan: float) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", ONE_RUN, json.dumps(plan)], capture_output=True, text=True, check=True
    )  # fmt: skip
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def koubei() -> Setup:
    return set_up(make_city(koubei_size(), np.random.default_rng(0)), settings_file.load(changes=WIDE))


def after(setup: Setup, *, engine: str, threads: int, changes: dict[str, object]) -> State:
    settings = settings_file.load(changes={**WIDE, **changes, "iterations": 2})
    state = start(setup.samples, settings)
    motor = make_engine(engine, setup.samples, settings, threads=threads)
    for _ in range(2):
        motor.advance(state)
    return state


def test_the_city_of_koubeis_size_has_89_features(koubei: Setup) -> None:
    assert koubei.samples.features == 89


@pytest.mark.parametrize("lost", [0.0, 0.2])
def test_at_koubeis_size_every_number_of_threads_and_the_oracle_give_the_same_bits(koubei: Setup, lost: float) -> None:
    changes = {"participation.dropout": lost}
    oracle = after(koubei, engine="plain", threads=1, changes=changes)
    for threads in (1, 2, 5):
        found = after(koubei, engine="local", threads=threads, changes=changes)
        assert found.linear.tobytes() == oracle.linear.tobytes()
        assert found.interaction.tobytes() == oracle.interaction.tobytes()


def test_koubeis_size_needs_less_than_two_gigabytes() -> None:
    plan = koubei_size()
    found = gigabytes(
        people=plan.people, places=plan.places, records=plan.records, districts=16, categories=40, span_km=60.0
    )  # fmt: skip
    assert found["city"] < 2
    assert found["run"] < 2
    assert found["features"] == 89


def test_a_million_people_and_ten_million_interactions_need_less_than_eight_gigabytes() -> None:
    found = gigabytes(
        people=1_000_000, places=200_000, records=10_000_000, districts=16, categories=40, span_km=60.0
    )  # fmt: skip
    assert found["run"] < 8
    assert found["features"] == 89
    assert found["auc"] > 0.5


def test_the_papers_schedule_gives_the_oracles_bits_on_a_city_of_a_thousand() -> None:
    city = make_city(CityPlan(people=1000, places=600, records=12_000), np.random.default_rng(1))
    for changes in ({"preset": "paper"}, {"preset": "paper", "neighbours.kind": "random"}):
        setup = set_up(city, settings_file.load(changes={**WIDE, **changes}))
        plain, local = (after(setup, engine=name, threads=1, changes=changes) for name in ("plain", "local"))
        assert plain.linear.tobytes() == local.linear.tobytes()
        assert plain.interaction.tobytes() == local.interaction.tobytes()
