"""`prirec.Training`, `forecast`, `read_ledger` and `City.describe`: what commands show, for programs."""

from pathlib import Path

import pytest

import prirec
from prirec.device.store import Store
from prirec.errors import PolicyError, StateError, UsageError
from prirec.privacy.plan import MOMENTS_PART
from support import messages

SMALL = {"iterations": 3, "floor": 50}


@pytest.fixture(scope="module")
def city() -> prirec.City:
    return prirec.make_city(people=300, seed=5)


def test_a_training_shows_its_plan_and_settings_before_it_is_run(city: prirec.City, tmp_path: Path) -> None:
    chosen = prirec.settings("private", iterations=2)
    with prirec.Training(
        city, chosen, checkpoint=tmp_path / "half", checkpoint_every=1, out=tmp_path / "run"
    ) as training:
        assert (training.settings.privacy.moments, training.resumed_at) == (MOMENTS_PART, 0)
        assert not training.plan.usable
        assert any("noise in the shared model" in words for words in training.notes)
        assert not (tmp_path / "run").exists()
        fit = training.run()
    assert fit.plan.to_dict() == training.plan.to_dict()
    assert prirec.load(tmp_path / "run", city).quality == fit.quality
    assert not (tmp_path / "half").exists()  # the run is saved
    assert set(training.notes) <= set(fit.notes)


def test_an_interrupted_training_goes_on_or_starts_over(city: prirec.City, tmp_path: Path) -> None:
    chosen, half = prirec.settings("rounds", **SMALL), tmp_path / "half"

    def stop(report: prirec.IterationReport) -> None:
        if report.iteration == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prirec.fit(city, chosen, checkpoint=half, checkpoint_every=1, progress=stop)
    whole = prirec.fit(city, chosen)
    gone_on = prirec.fit(city, chosen, checkpoint=half, checkpoint_every=1)
    assert (gone_on.resumed_at, gone_on.quality) == (2, whole.quality)
    over = prirec.fit(city, chosen, checkpoint=half, checkpoint_every=1, resume=False)
    assert (over.resumed_at, over.quality) == (0, whole.quality)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"actors": 3}, UsageError, messages.BELONGS_TO_THE_CLUSTER),
        ({"engine": "cluster", "threads": 3}, UsageError, messages.THREADS_ON_A_CLUSTER),
        ({"settings": "fm", "engine": "plain"}, UsageError, messages.ENGINE_OF_A_CENTRALISED_MODEL),
        ({"settings": "paper", "engine": "cluster"}, UsageError, messages.CLUSTER_RUNS_ROUNDS_ONLY),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(city: prirec.City, given, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        prirec.fit(city, **given)


def test_a_folder_that_is_there_is_refused_before_any_work(city: prirec.City, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=messages.FOLDER_EXISTS):
        prirec.Training(city, "rounds", out=tmp_path)


def test_settings_that_nothing_would_read_are_refused() -> None:
    with pytest.raises(UsageError, match=messages.SETTING_NOT_READ):
        prirec.settings("rounds", linear={"gamma": 0.5})
    with pytest.raises(UsageError, match=messages.SETTING_NOT_READ):
        prirec.settings("rounds", {"popularity.epsilon_per_bit": 3.0})


def test_leaks_are_looked_for_and_notes_say_what_is_flagged(city: prirec.City) -> None:
    fit = prirec.fit(city, prirec.settings("rounds", **SMALL))
    assert [one for one in fit.leaks if one.severity == "refused"] == []
    assert len(fit.quality_notes) >= len(fit.leaks)
    assert fit.typical_person in fit.people


def test_quality_figures_as_an_operator_reads_them_need_a_part_of_the_budget(city: prirec.City) -> None:
    rich = {"epsilon_per_user": 50.0, "quality": 1.0}
    fit = prirec.fit(city, prirec.settings("private", iterations=1, privacy=rich))
    assert fit.operator_quality is not None
    assert "as the operator reads it" in repr(fit.operator_quality)
    assert prirec.fit(city, prirec.settings("private", iterations=1)).operator_quality is None


def test_a_forecast_says_its_verdict_first(city: prirec.City) -> None:
    seen: list[tuple[int, int]] = []
    found = prirec.forecast(city, progress=lambda done, of, name: seen.append((done, of)))
    assert repr(found).splitlines()[0] == found.verdict
    assert seen == [(at, len(seen)) for at in range(len(seen))]
    assert found.plan is not None
    with pytest.raises(UsageError, match=messages.FORECAST_WITHOUT_NUMBERS):
        prirec.forecast()
    with pytest.raises(PolicyError, match=messages.NOTHING_PROMISED_TO_COMPARE):
        prirec.forecast(city, settings="rounds", train=True)


def test_a_ledger_is_read_against_a_budget(tmp_path: Path) -> None:
    with Store.open(tmp_path / "phone.db"):
        pass
    found = prirec.read_ledger(tmp_path / "phone.db")
    assert found.verdict.startswith("Nothing was spent")
    with pytest.raises(PolicyError, match=messages.NO_BUDGET_PROMISED):
        prirec.read_ledger(tmp_path / "phone.db", "rounds")
    with pytest.raises(StateError, match=messages.NO_DEVICE_FILE):
        prirec.read_ledger(tmp_path / "nothing.db")


def test_a_city_is_described_after_its_filter(city: prirec.City) -> None:
    all_of_it = city.describe(prirec.settings("rounds", data={"keep": "all"}))
    assert all_of_it.description.people == len(city.people) == len(all_of_it.people)
    assert city.describe().description.people <= len(city.people)
    assert "people_ids" not in city.describe().to_dict()
