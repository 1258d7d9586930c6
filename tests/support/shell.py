"""The program, called with words as from a shell, but inside this process."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner, Result

from prirec.cli.main import app
from prirec.data.synthetic import CityPlan, make_city
from prirec.data.write_folder import write_folder


def call(*words: object, columns: int = 80, typed: str | None = None) -> Result:
    """`typed` is what comes on its standard input."""
    return CliRunner().invoke(app, [str(word) for word in words], input=typed, env={"COLUMNS": str(columns)})


def told(*words: object) -> Any:
    """The JSON of a command that goes well and has nothing to warn of."""
    found = call(*words, "--json")
    if (found.exit_code, found.stderr) != (0, ""):
        raise AssertionError(f"the command ended with {found.exit_code}: {found.stderr}")
    return json.loads(found.stdout)


def flat(text: str) -> str:
    """However it was broken into lines."""
    return " ".join(text.split())


def says(printed: str, message: str) -> bool:
    """Whether a command's error is this entry of the catalogue of messages."""
    return re.search(message, flat(printed).removeprefix("error: ")) is not None


def write_city(folder: Path, *, seed: int = 1) -> Path:
    """A made-up one, with people enough to train on."""
    write_folder(make_city(CityPlan(people=260, places=80, records=5200), np.random.default_rng(seed)), folder)
    return folder


def make_city_by_command(folder: Path) -> Path:
    """The same by `prirec data make`: 150 people, 40 places, 3,000 records."""
    found = call("data", "make", folder, "--people", 150, "--places", 40, "--records", 3000, "--seed", 3)
    assert found.exit_code == 0, found.stderr
    return folder
