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


@pytest.mark.parametrize("latent", [{"dimension": 8}, {"dimension": 3, "weight": 0.25}, {"pace": 0.5}], ids=str)
def test_a_latent_part_is_dumped_and_loaded_again(latent):
    settings = change(ROUNDS, latent=latent)
    assert config.loads(config.dump(settings)) == settings


@pytest.mark.parametrize("settings", [PAPER, ROUNDS, PRIVATE, FM], ids=lambda one: one.preset)
def test_settings_without_a_latent_part_are_written_as_before_there_was_any(settings):
    assert "latent" not in config.dump(settings)
    assert config.written(settings).keys() == msgspec.to_builtins(settings).keys() - {"latent"}


def test_settings_without_areas_are_written_as_before_there_were_any():
    assert "areas" not in config.written(PRIVATE)["features"]
    with_areas = config.load(changes={"features.areas": 6})
    assert config.loads(config.dump(with_areas)) == with_areas


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
    """Settings without either keep the text, and so the hash, that they had."""
    assert config.loads('preset = "rounds"\n[features]\nown_visits = false\n') == ROUNDS
    with pytest.raises(
        UsageError,
        match=messages.beginning(
            messages.setting_of_an_earlier_version("features.own_visits"), messages.OWN_VISITS_REPLACED
        ),
    ):
        config.loads('preset = "rounds"\n[features]\nown_visits = true\n')
    with_it = change(ROUNDS, features={"own_history": True})
    assert "own_visits = false\n" in config.dump(ROUNDS)
    assert "own_history" not in config.dump(ROUNDS)
    assert "own_history = true\n" in config.dump(with_it)
    assert "own_visits" not in config.dump(with_it)
    assert [config.loads(config.dump(one)) for one in (ROUNDS, with_it)] == [ROUNDS, with_it]


@pytest.mark.parametrize("name", config.REMOVED)
def test_settings_of_earlier_versions_are_not_current_ones_and_have_a_current_section(name):
    section, _, key = name.partition(".")
    assert key not in msgspec.to_builtins(Settings())[section]


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
