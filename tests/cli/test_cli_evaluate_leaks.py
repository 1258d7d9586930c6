"""prirec evaluate looks for leaks before it measures anything."""

import json
from pathlib import Path

import numpy as np
import pytest

from prirec.data.folder import read_folder
from support import messages
from support.shell import call, says, write_city


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_city(tmp_path_factory.mktemp("leaks") / "city")


def trained(city: Path, out: Path) -> Path:
    done = call("train", city, "--out", out, "--preset", "fm", "--iterations", 2)
    assert done.exit_code == 0, done.stderr
    return out


def with_column(city: Path, target: Path, name: str, values: np.ndarray) -> Path:
    """The same city with one more column in its table of people."""
    target.mkdir()
    for file in city.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    lines = (target / "users.csv").read_text().splitlines()
    more = [name, *(repr(float(value)) for value in values)]
    (target / "users.csv").write_text(
        "\n".join(f"{line},{word}" for line, word in zip(lines, more, strict=True)) + "\n"
    )
    return target


def test_a_fair_evaluation_passes(city: Path, tmp_path: Path) -> None:
    done = call("evaluate", trained(city, tmp_path / "run"), city)
    assert (done.exit_code, "AUC" in done.stdout) == (0, True)


def test_a_table_that_counts_all_visits_is_refused(city: Path, tmp_path: Path) -> None:
    dataset = read_folder(city).dataset
    rates = np.bincount(dataset.visits.person, weights=dataset.visits.label > 0) / np.bincount(dataset.visits.person)
    other = with_column(city, tmp_path / "counting", "liked", rates)
    done = call("evaluate", trained(other, tmp_path / "run"), other)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says(done.stderr, messages.joined(messages.LEARNS_FROM_THE_TEST, messages.columns_of_the_test("liked")))


def test_labels_anti_correlated_by_the_split_are_noted(tmp_path: Path) -> None:
    """Visits alone, split by record: people's shares of positives turn against the test."""
    city = write_city(tmp_path / "city")
    rows = [line.split(",") for line in (city / "visits.csv").read_text().splitlines()]
    label = rows[0].index("label")
    visits = [",".join(row[:label] + row[label + 1 :]) for row in rows if row[label] in ("label", "1")]
    (city / "visits.csv").write_text("\n".join(visits) + "\n")
    run = trained(city, tmp_path / "run")
    told = json.loads(call("evaluate", run, city, "--json").stdout)["notes"]
    assert any(says(note, messages.LABELS_ANTI_CORRELATED) for note in told)
    assert says(call("evaluate", run, city).stderr, messages.LABELS_ANTI_CORRELATED)
