"""About how long a cell takes, before it is begun: records times passes times what one of them costs.

The rates were measured with one thread on Yelp at K = 5 and N = 30; `slowness` says how this machine compares. How they
grow with K and N is a guess: a forecast is to tell minutes from hours.
"""

from collections.abc import Callable
from functools import cache
from time import monotonic

from prirec.data.city import CityPlan, make_city
from prirec.data.dataset import Dataset
from prirec.engines.randomness import generator
from prirec.evaluate.experiment import run, set_up
from prirec.experiments.trial import Chosen
from prirec.settings_file import load

MICROSECONDS = {"samples": 1.6, "rounds": 0.4, "centralised": 0.8}  # a record and pass, K = 5
RIVALS = {"MF": 0.13, "DMF": 2.0, "FM + ids": 0.7}
PREPARING = 5.0  # microseconds a record: filter, split, encode, look for leaks, lists
REFERENCE = 0.09  # seconds that the trial below took where the rates come from


def seconds(how: Chosen, *, model: str, dataset: Dataset) -> float:
    """On a machine like the one that the rates are from."""
    settings = how.settings
    ratio = 1 if dataset.labelled else 1 + settings.data.ratio
    records = len(dataset.visits) * ratio * settings.data.train_share
    passes = settings.iterations if how.own is None else how.own.passes
    rate = MICROSECONDS[settings.schedule] if how.own is None else RIVALS[model]
    wide = 0.5 + settings.model.dimension / 10 + settings.latent.dimension / 25
    near = 0.3 + 0.7 * settings.neighbours.count / 30 if settings.schedule == "samples" else 1.0
    if model == "popularity alone":
        passes = 0
    return 1e-6 * records * (PREPARING + rate * passes * wide * near)


@cache
def slowness(clock: Callable[[], float] = monotonic) -> float:
    """How many times as long a small training takes here as where the rates come from; compiled before it is timed."""
    plan = CityPlan(people=400, places=160, records=9_600, districts=3, categories=8)
    city = make_city(plan, generator(0, "speed"))
    settings = load(changes={"preset": "rounds", "floor": 50, "neighbours.size": 100, "iterations": 40})
    setup = set_up(city, settings)
    run(setup, threads=1)
    began = clock()
    run(setup, threads=1)
    return max((clock() - began) / REFERENCE, 0.1)
