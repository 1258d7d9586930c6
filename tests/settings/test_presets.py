"""What the names of presets stand for."""

import msgspec
import pytest

from prirec import settings_file
from prirec.errors import PolicyError, UsageError
from prirec.settings import FM, PAPER, ROUNDS, Section, Settings, preset
from prirec.settings_check import check

PRESETS = {"paper": PAPER, "rounds": ROUNDS, "fm": FM}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_loads_passes_every_check_and_knows_its_name(name):
    assert (
        preset(name) == settings_file.load(base=name) == settings_file.load(changes={"preset": name}) == PRESETS[name]
    )
    assert check(PRESETS[name]) is PRESETS[name]
    assert PRESETS[name].preset == name


def test_rounds_is_where_one_starts():
    assert settings_file.load() == ROUNDS == Settings()


def test_private_is_refused_until_its_promise_can_be_kept():
    for ask in (lambda: preset("private"), lambda: settings_file.load(changes={"preset": "private"})):
        with pytest.raises(PolicyError, match="not built yet; use 'rounds'"):
            ask()


def test_private_is_refused_in_a_file_too(tmp_path):
    (tmp_path / "s.toml").write_text('preset = "private"\n')
    with pytest.raises(PolicyError):
        settings_file.load(tmp_path / "s.toml")


@pytest.mark.parametrize("name", ["Paper", "", "none", 3])
def test_an_unknown_preset_is_refused_with_the_names_there_are(name):
    with pytest.raises(UsageError, match="there are paper, rounds, private and fm"):
        settings_file.load(changes={"preset": name})


def test_the_paper_preset_is_the_papers_own_schedule():
    assert (PAPER.schedule, PAPER.neighbours.kind, PAPER.neighbours.weights) == ("samples", "nearest", "uniform")
    assert (PAPER.linear.mixing, PAPER.linear.gamma, PAPER.interaction.batch) == ("fixed", 1.0, 1)


def test_settings_do_not_change_under_anyones_hands():
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
