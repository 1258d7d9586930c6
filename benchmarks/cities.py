"""The cities that benchmarks run on."""

import os
from pathlib import Path

import numpy as np

from prirec import config
from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.data.synthetic import CityPlan, koubei_size, make_city
from prirec.simulate.setup import Setup, set_up

WIDE = {"data.keep": "all", "features.words": 64}  # Koubei's 89 features


def city(plan: CityPlan, seed: int = 0) -> Dataset:
    return make_city(plan, np.random.Generator(np.random.PCG64(seed)))


def koubei(settings: Settings) -> Setup:
    """Koubei's size and shape: 85,466 people, 118,598 places, 497,838 records, 89 features."""
    return set_up(city(koubei_size()), settings)


def wide(preset: str, **changes: object) -> Settings:
    return config.load(changes={"preset": preset, **WIDE, **{k.replace("__", "."): v for k, v in changes.items()}})


def real_data() -> Path | None:
    named = os.environ.get("PRIREC_DATA")
    return Path(named) if named and Path(named).is_dir() else None
