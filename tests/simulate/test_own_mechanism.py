"""A mechanism that is added as docs/how-to/own-mechanism.md says: registered, trained with, priced and refused."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

import prirec
from prirec import config
from prirec.config import POLICIES, Popularity
from prirec.errors import PolicyError, UsageError
from prirec.simulate import popularity
from prirec.simulate.popularity import MECHANISMS, columns, mechanism_of, release_popularity
from prirec.simulate.saved_runs import CityOfRun, to_run
from prirec.simulate.setup import run, set_up
from prirec.wire.campaign import deployable
from support import messages
from support.cities import SMALL_PRIVATE, SMALL_ROUNDS, change, small_city
from support.pages import ROOT

PAGE = ROOT / "docs/how-to/own-mechanism.md"
CITY = small_city(people=150, places=30, records=900)
TOY = change(SMALL_ROUNDS, popularity={"mechanism": "thresholded"})


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page shows, word for word, and only for one test."""
    monkeypatch.setattr(popularity, "MECHANISMS", dict(MECHANISMS))
    monkeypatch.setattr(config, "REGISTERED_MECHANISMS", registered := [])
    monkeypatch.setattr(popularity, "REGISTERED_MECHANISMS", registered)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(code, {})  # noqa: S102


def test_a_model_is_trained_with_what_the_mechanism_releases() -> None:
    setup = set_up(CITY, TOY)
    counts = release_popularity(setup.prepared, SMALL_ROUNDS).released["visitors"]
    assert (counts < 5).any()
    assert (counts >= 5).any()
    assert setup.popularity.released["visitors"].tolist() == np.where(counts >= 5, counts, 0).tolist()
    assert columns(CITY, TOY) == tuple(setup.popularity.released)
    toy, plain = (run(one, threads=1).trained.models for one in (setup, set_up(CITY, SMALL_ROUNDS)))
    assert np.isfinite(toy.shared.everyone).all()
    assert not np.array_equal(toy.shared.everyone, plain.shared.everyone)


def test_a_device_leaves_out_what_the_count_is_without_it() -> None:
    setup = set_up(CITY, TOY)
    own, released = setup.popularity.own["visitors"], setup.popularity.released["visitors"]
    place = own.pairs % own.places
    without = released[place] - own.counts
    assert set(own.counts.tolist()) <= {0.0, 1.0, 5.0}
    assert ((without >= 5) | (without == 0)).all()


def test_what_a_run_has_released_is_used_again() -> None:
    setup = set_up(CITY, TOY)
    later, _ = CityOfRun.of(CITY, to_run(run(setup, threads=1), "toy")).set_up_alone(0)
    assert later.popularity.released["visitors"].tolist() == setup.popularity.released["visitors"].tolist()


def test_a_saved_run_of_a_registered_mechanism_is_loaded_again(tmp_path: Path) -> None:
    city = prirec.City.of(CITY)
    chosen = prirec.settings("rounds", {"popularity.mechanism": "thresholded"}, iterations=2, floor=50)
    fit = prirec.fit(city, chosen, out=tmp_path / "run")
    again = prirec.load(tmp_path / "run", city)
    assert again.settings.popularity.mechanism == "thresholded"
    assert again.quality == fit.quality


def test_no_budget_and_no_deployment_takes_a_mechanism_without_a_policy() -> None:
    assert "thresholded" not in POLICIES
    assert mechanism_of(TOY).refusal == "popularity.mechanism: only 'secure-sum' is collected"
    with pytest.raises(PolicyError, match=messages.mechanism_not_collected("'secure-sum'")):
        deployable(change(SMALL_PRIVATE, popularity={"mechanism": "thresholded"}, sums={"corrupt": 0.1}))


def test_a_name_that_nobody_registered_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=messages.no_such_mechanism("unheard-of", known="plain, secure-sum")):
        mechanism_of(change(SMALL_ROUNDS, popularity={"mechanism": "unheard-of"}))


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_of_the_package_is_known_to_the_settings(name: str) -> None:
    assert name in get_args(get_type_hints(Popularity)["mechanism"])
