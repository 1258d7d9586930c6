"""The real data that PRIREC_DATA names, for tests of figures. They run one after another: each takes all cores."""

import os
from functools import cache
from pathlib import Path

import pytest

from prirec.data.dataset import Dataset
from prirec.data.published import FORMATS

DATA = os.environ.get("PRIREC_DATA")
ON_REAL_DATA = [
    pytest.mark.real,
    pytest.mark.skipif(not DATA, reason="PRIREC_DATA does not name the folder with the real data"),
    pytest.mark.xdist_group("figures"),
]


@cache
def real_city(name: str) -> Dataset:
    return FORMATS[name].read(Path(str(DATA)) / name.replace("-", "_")).dataset
