"""What the names of presets stand for."""

import msgspec
import pytest

from prirec import config
from prirec.config import FM, PAPER, PRIVATE, ROUNDS, Section, Settings, check, preset
from prirec.errors import UsageError
from prirec.features.columns import ModelSize
from prirec.privacy.plan import Kind, plan_for
from support import messages
from support.cities import change

PRESETS = {"paper": PAPER, "rounds": ROUNDS, "private": PRIVATE, "fm": FM}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_loads_passes_every_check_and_knows_its_name(name):
    assert preset(name) == config.load(base=name) == config.load(changes={"preset": name}) == PRESETS[name]
    assert check(PRESETS[name]) is PRESETS[name]
    assert PRESETS[name].preset == name


def test_private_is_the_default_preset(tmp_path):
    (tmp_path / "s.toml").write_text("seed = 3\n")
    assert config.load() == PRIVATE
    assert config.load(tmp_path / "s.toml") == change(PRIVATE, seed=3)


def test_rounds_has_the_default_of_every_section():
    assert Settings() == ROUNDS
    assert ROUNDS.privacy.epsilon_per_user is None


def test_private_is_rounds_under_one_budget():
    assert (PRIVATE.schedule, PRIVATE.neighbours.kind) == (ROUNDS.schedule, ROUNDS.neighbours.kind)
    assert (PRIVATE.privacy.epsilon_per_user, PRIVATE.privacy.delta, PRIVATE.privacy.period_days) == (1.0, 1e-6, None)
    assert (PRIVATE.popularity.mechanism, PRIVATE.stopping.patience) == ("secure-sum", 0)
    assert (PRIVATE.iterations, PRIVATE.floor) == (ROUNDS.iterations, ROUNDS.floor)
    assert PRIVATE.features == ROUNDS.features
    assert {PRIVATE.privacy.popularity, PRIVATE.privacy.moments, PRIVATE.privacy.interaction} == {None}  # by the plan


@pytest.mark.parametrize("people", [1000, 50_000])
@pytest.mark.parametrize("changes", [{}, {"features": {"dynamic": False}}, {"privacy": {"quality": 0.1}}], ids=str)
def test_all_that_private_sums_comes_to_its_epsilon_and_not_more(people, changes):
    settings = check(change(PRIVATE, **changes))
    made = plan_for(settings, people=people, pois=5000, size=ModelSize.assumed(89))
    assert {release.of.kind: release.of.releases for release in made.releases} == {
        **({Kind.POPULARITY: 1} if settings.features.dynamic else {}),
        Kind.MOMENTS: 1,
        Kind.INTERACTION: 20,
        **({Kind.QUALITY: 1} if settings.privacy.quality else {}),
    }
    assert made.spent.within(1.0, 1e-6)
    assert made.loss().epsilon > 0.999  # and what is promised is used


@pytest.mark.parametrize("name", ["Paper", "", "none", 3])
def test_an_unknown_preset_is_refused_with_the_names_there_are(name):
    with pytest.raises(UsageError, match=messages.no_such_preset(name)):
        config.load(changes={"preset": name})


@pytest.mark.parametrize(("name", "meant"), [("Paper", "paper"), ("round", "rounds"), ("privat", "private")])
def test_an_unknown_preset_that_is_near_one_is_refused_with_that(name, meant):
    with pytest.raises(UsageError, match=messages.did_you_mean(meant)):
        config.load(changes={"preset": name})


def test_the_paper_preset_is_the_papers_own_schedule():
    assert (PAPER.schedule, PAPER.neighbours.kind, PAPER.neighbours.weights) == ("samples", "nearest", "uniform")
    assert (PAPER.linear.gamma, PAPER.interaction.batch) == (1.0, 1)
    assert (PAPER.features.own_history, PAPER.features.areas) == (False, 0)  # which the paper does not have


def test_settings_are_immutable():
    with pytest.raises(AttributeError):
        ROUNDS.seed = 4
    with pytest.raises(AttributeError):
        ROUNDS.model.dimension = 4


def test_every_section_is_strict_and_every_setting_has_a_value():
    for name in ROUNDS.__struct_fields__:
        section = getattr(ROUNDS, name)
        if isinstance(section, Section):
            assert type(section).__struct_config__.forbid_unknown_fields
            assert type(section).__struct_config__.frozen
            assert msgspec.structs.replace(section) == section
