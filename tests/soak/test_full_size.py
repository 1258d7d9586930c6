"""What only shows at full size. Run by `make soak`."""

import json
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from prirec import config
from prirec.data.synthetic import CityPlan, koubei_size, make_city
from prirec.engines.state import State
from prirec.engines.train import make_engine
from prirec.simulate.setup import Setup, set_up
from support.cities import same_state

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("full size")]
PRESETS = {"rounds": 89, "private": 88}  # with how many features: popularity has three columns, or two with noise
WIDE = {"data.keep": "all", "features.words": 64, "features.own_history": False, "features.areas": 0}
ONE_RUN = """
import json, resource, sys
import numpy as np
from prirec import config
from prirec.data.synthetic import CityPlan, make_city
from prirec.simulate.setup import run, set_up
plan = CityPlan(**json.loads(sys.argv[1]))
city = make_city(plan, np.random.Generator(np.random.PCG64(0)))
made = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
wide = {"data.keep": "all", "features.words": 64, "features.own_history": False, "features.areas": 0, "iterations": 8}
settings = config.load(changes={"preset": sys.argv[2], **wide})
outcome = run(set_up(city, settings))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
print(json.dumps({"city": made, "run": peak, "features": outcome.setup.samples.features, "auc": outcome.quality.auc}))
"""


def gigabytes(preset: str, **plan: float) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", ONE_RUN, json.dumps(plan), preset], capture_output=True, text=True, check=True
    )  # fmt: skip
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


@cache
def koubei(preset: str) -> Setup:
    settings = config.load(changes={"preset": preset, **WIDE})
    return set_up(make_city(koubei_size(), np.random.default_rng(0)), settings)


def after(setup: Setup, *, engine: str, threads: int, changes: dict[str, object]) -> State:
    settings = config.load(changes={**WIDE, **changes, "iterations": 2})
    motor = make_engine(engine, setup.samples, settings, threads=threads)
    state: State = motor.start()
    for _ in range(2):
        motor.advance(state)
    return state


@pytest.mark.parametrize(("preset", "features"), PRESETS.items())
def test_the_city_of_koubeis_size_has_as_many_features(preset: str, features: int) -> None:
    assert koubei(preset).samples.features == features


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("lost", [0.0, 0.2])
def test_at_koubeis_size_every_number_of_threads_and_the_oracle_give_the_same_bits(preset: str, lost: float) -> None:
    changes = {"preset": preset, "participation.dropout": lost}
    oracle = after(koubei(preset), engine="plain", threads=1, changes=changes)
    for threads in (1, 2, 5):
        found = after(koubei(preset), engine="local", threads=threads, changes=changes)
        assert same_state(found, oracle)


@pytest.mark.parametrize(("preset", "features"), PRESETS.items())
def test_koubeis_size_needs_less_than_two_gigabytes(preset: str, features: int) -> None:
    plan = koubei_size()
    found = gigabytes(
        preset, people=plan.people, places=plan.places, records=plan.records, districts=16, categories=40, span_km=60.0
    )  # fmt: skip
    assert found["city"] < 2
    assert found["run"] < 2
    assert found["features"] == features


@pytest.mark.parametrize(("preset", "features"), PRESETS.items())
def test_a_million_people_and_ten_million_interactions_need_less_than_eight_gigabytes(
    preset: str, features: int
) -> None:
    found = gigabytes(
        preset, people=1_000_000, places=200_000, records=10_000_000, districts=16, categories=40, span_km=60.0
    )  # fmt: skip
    assert found["run"] < 8
    assert found["features"] == features
    assert found["auc"] > 0.5


def test_the_papers_schedule_gives_the_oracles_bits_on_a_city_of_a_thousand() -> None:
    city = make_city(CityPlan(people=1000, places=600, records=12_000), np.random.default_rng(1))
    for changes in ({"preset": "paper"}, {"preset": "paper", "neighbours.kind": "random"}):
        setup = set_up(city, config.load(changes={**WIDE, **changes}))
        plain, local = (after(setup, engine=name, threads=1, changes=changes) for name in ("plain", "local"))
        assert same_state(plain, local)
