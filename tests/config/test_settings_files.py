"""Settings from and to TOML: what is written is read back, and what is not understood is refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec import config
from prirec.config import FM, PAPER, PRIVATE, ROUNDS, Settings
from prirec.errors import DataError, PrirecError, UsageError
from support import messages
from support.cities import change
from support.hypothesis_settings import PATIENT

SMALL = st.floats(min_value=1e-300, max_value=1e300)


@PATIENT
@given(
    base=st.sampled_from([PAPER, ROUNDS, PRIVATE, FM]),
    seed=st.integers(0, 2**63 - 1),
    alpha=SMALL,
    lambda_v=st.floats(min_value=0.0, max_value=1e300),
    dimension=st.integers(1, 256),
    dynamic=st.booleans(),
    at_least=st.none() | st.integers(1, 1000),
    split=st.sampled_from(["record", "time"]),
    bound=st.floats(min_value=1e-3, max_value=1e6),
)
def test_what_is_dumped_is_loaded_again(base, seed, alpha, lambda_v, dimension, dynamic, at_least, split, bound):
    settings = change(
        base, seed=seed, linear={"alpha": alpha}, model={"lambda_v": lambda_v, "dimension": dimension},
        features={"dynamic": dynamic}, data={"at_least": at_least, "split": split}, ring={"bound": bound},
    )  # fmt: skip
    assert config.loads(config.dump(settings)) == settings


@pytest.mark.parametrize("settings", [PAPER, ROUNDS, PRIVATE, FM], ids=lambda one: one.preset)
def test_a_dumped_file_is_loaded_again(tmp_path, settings):
    (tmp_path / "s.toml").write_text(config.dump(settings))
    assert config.load(tmp_path / "s.toml") == settings


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "s.toml").write_text(config.dump(PAPER), encoding="utf-8-sig")
    assert config.load(tmp_path / "s.toml") == PAPER


def test_a_file_changes_its_preset_and_changes_go_last(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text('preset = "paper"\nseed = 3\n[model]\ndimension = 7\nlambda_w = 1\n')
    settings = config.load(file, changes={"model.dimension": 9})
    assert settings == change(PAPER, seed=3, model={"dimension": 9, "lambda_w": 1.0})


def test_a_budget_is_dumped_and_loaded_again():
    settings = change(
        PRIVATE, popularity={"cap": 20}, privacy={"epsilon_per_user": 0.5, "period_days": 365},
    )  # fmt: skip
    assert config.loads(config.dump(settings)) == settings


def test_changes_may_name_another_preset_than_the_file(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text('preset = "paper"\nseed = 3\n')
    assert config.load(file, changes={"preset": "fm"}) == change(FM, seed=3)


def test_a_base_is_used_where_nothing_names_a_preset(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text("seed = 3\n")
    assert config.load(file, base="paper") == change(PAPER, seed=3)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("model.dimensions", "unknown setting 'model.dimensions'; did you mean 'model.dimension'?"),
        ("itertions", "unknown setting 'itertions'; did you mean 'iterations'?"),
        ("modle.dimension", "unknown setting 'modle'; did you mean 'model'?"),
        ("ring.zzz", "unknown setting 'ring.zzz'; known here: bits, fraction_bits, bound"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(key, hint):
    with pytest.raises(UsageError) as refusal:
        config.load(changes={key: 1})
    assert str(refusal.value) == hint


@pytest.mark.parametrize("value", ["0.0", "0"])
def test_a_setting_of_an_earlier_version_is_ignored_at_its_default(tmp_path, value):
    (tmp_path / "s.toml").write_text(f"seed = 3\n[privacy]\nlocal = {value}\n")
    assert config.load(tmp_path / "s.toml") == change(PRIVATE, seed=3)
    assert config.load(changes={"privacy.local": 0.0}) == PRIVATE
    assert config.loads(f'preset = "rounds"\n[privacy]\nlocal = {value}\n') == ROUNDS
    assert "local" not in config.written(PRIVATE)["privacy"]


EARLIER = {
    "linear.mixing": ("'adaptive'", "'sometimes'"), "linear.kappa": ("50.0", "20.0"), "linear.clip": ("1.0", "0.5"),
    "interaction.clip": ("0.2", "7.0"), "neighbours.size": ("200", "500"), "neighbours.resolution": ("6", "4"),
    "latent.dimension": ("0", "8"), "features.own_visits": ("false", "true"),
}  # fmt: skip


@pytest.mark.parametrize("name", EARLIER)
@pytest.mark.parametrize("preset", [PAPER, ROUNDS, PRIVATE, FM], ids=lambda one: one.preset)
def test_settings_of_cohorts_and_of_the_latent_part_are_ignored_where_they_changed_nothing(preset, name):
    section, _, key = name.partition(".")
    harmless, asking = EARLIER[name]
    assert config.loads(f'preset = "{preset.preset}"\n[{section}]\n{key} = {harmless}\n') == preset
    known = name if section != "latent" else section
    with pytest.raises(UsageError, match=messages.setting_of_an_earlier_version(known)):
        config.loads(f'preset = "{preset.preset}"\n[{section}]\n{key} = {asking}\n')


def test_an_empty_latent_section_is_ignored_and_one_that_asks_for_something_refused():
    assert config.loads('preset = "rounds"\n[latent]\n') == ROUNDS
    with pytest.raises(UsageError, match=messages.setting_of_an_earlier_version("latent")):
        config.loads('preset = "rounds"\n[latent]\ndimension = 0\npace = 0.5\n')


@pytest.mark.parametrize("preset", [PAPER, ROUNDS, PRIVATE, FM], ids=lambda one: one.preset)
def test_the_parts_that_every_file_of_an_earlier_version_had_are_left_to_the_plan(preset):
    parts = "[privacy]\npopularity = 0.7\nmixing = 0.15\ninteraction = {}\n"
    assert config.loads(f'preset = "{preset.preset}"\n' + parts.format(0.15)) == preset
    with pytest.raises(UsageError, match=messages.setting_of_an_earlier_version("privacy.mixing")):
        config.loads(f'preset = "{preset.preset}"\n' + parts.format(0.3))


@pytest.mark.parametrize("value", ["0.2", "-1", "nan", '"none"', "{part = 0.2}"])
def test_a_setting_of_an_earlier_version_at_another_value_is_refused_with_what_to_do(value):
    with pytest.raises(
        UsageError,
        match=messages.beginning(
            messages.setting_of_an_earlier_version("privacy.local"), messages.SETTING_TO_BE_REMOVED
        ),
    ):
        config.loads(f'preset = "private"\n[privacy]\nlocal = {value}\n')


def test_own_visits_became_a_part_of_the_own_history():
    with pytest.raises(
        UsageError,
        match=messages.beginning(
            messages.setting_of_an_earlier_version("features.own_visits"), messages.OWN_VISITS_REPLACED
        ),
    ):
        config.loads('preset = "rounds"\n[features]\nown_visits = true\n')
    for settings in (ROUNDS, change(ROUNDS, features={"own_history": False, "areas": 0})):
        assert config.loads(config.dump(settings)) == settings


@pytest.mark.parametrize("name", config.REMOVED)
def test_settings_of_earlier_versions_are_not_current_ones_and_have_a_current_section(name):
    section, _, key = name.partition(".")
    assert (key or section) not in (
        msgspec.to_builtins(Settings())[section] if key else msgspec.to_builtins(Settings())
    )


def test_a_value_where_a_section_belongs_is_refused():
    with pytest.raises(UsageError, match=messages.section_without_brackets("model")):
        config.load(changes={"model": 5})


@pytest.mark.parametrize("text", ["[seed]\nvalue = 3\n", "[model.dimension]\nvalue = 3\n", "[preset]\nname = 'fm'\n"])
def test_a_section_where_a_value_belongs_is_refused(tmp_path, text):
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(PrirecError):
        config.load(tmp_path / "s.toml")


def test_changes_that_contradict_each_other_are_refused():
    with pytest.raises(UsageError):
        config.load(changes={"seed": 1, "seed.value": 2})


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=messages.no_settings_file(tmp_path / "nowhere.toml")):
        config.load(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("content", [b"seed = ", b"\xff\xfe", b"seed = 1\nseed = 2\n"])
def test_what_is_not_toml_is_a_data_error(tmp_path, content):
    (tmp_path / "s.toml").write_bytes(content)
    with pytest.raises(DataError, match=messages.in_file("s.toml", messages.NOT_TOML)):
        config.load(tmp_path / "s.toml")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(PrirecError):
        config.load(tmp_path)


def test_what_is_changed_is_what_is_not_at_its_default():
    assert config.changed(Settings()) == {}
    chosen = config.load(changes={"preset": "rounds", "seed": 3, "linear.alpha": 0.123})
    told = config.changed(chosen)
    assert (told["seed"], told["linear.alpha"]) == (3, 0.123)
    assert config.load(changes={"preset": "rounds", **told}) == chosen
