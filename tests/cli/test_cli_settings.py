"""From flags to settings, and back to TOML."""

import tomllib

import pytest

from prirec import config
from prirec.cli.options import assignment, choose
from prirec.config import preset
from prirec.errors import UsageError
from support import messages
from support.shell import call, says


@pytest.mark.parametrize("name", ["paper", "rounds", "private", "fm"])
def test_the_printed_settings_of_a_preset_read_back_as_that_preset(name, tmp_path):
    printed = call("settings", "--preset", name)
    file = tmp_path / "mine.toml"
    file.write_text(printed.stdout)
    assert printed.exit_code == 0
    assert config.load(file) == preset(name)


def test_without_a_preset_the_printed_settings_are_the_private_ones():
    assert call("settings").stdout == call("settings", "--preset", "private").stdout


def test_settings_that_have_no_value_are_named_in_a_comment():
    unset = "data.at_least, data.thin, popularity.cap, privacy.period_days, privacy.popularity, privacy.moments, "
    unset += "privacy.interaction, neighbours.alike, neighbours.among"
    assert f"# Left to their defaults: {unset}\n" in call("settings").stdout
    assert "popularity.cap, privacy.epsilon_per_user, " in call("settings", "--preset", "rounds").stdout


def test_a_file_and_flags_are_shown_as_the_settings_they_amount_to(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('preset = "paper"\n[model]\ndimension = 9\n')
    shown = tomllib.loads(call("settings", "--settings", file, "--set", "linear.alpha=0.5").stdout)
    assert (shown["schedule"], shown["model"]["dimension"], shown["linear"]["alpha"]) == ("samples", 9, 0.5)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("k=200", 200),
        ("k=0.5", 0.5),
        ("k=true", True),
        ("k=nearest", "nearest"),
        ('k="a b"', "a b"),
        ("k = 1e-3", 1e-3),
    ],
)
def test_values_are_toml_and_bare_words_are_strings(text, value):
    assert assignment(text) == ("k", value)


def test_a_value_cannot_smuggle_in_a_second_setting():
    assert assignment("seed=1\niterations=2") == ("seed", "1\niterations=2")


@pytest.mark.parametrize("text", ["seed", "seed=", "=3", ""])
def test_an_assignment_without_key_or_value_is_refused(text):
    with pytest.raises(UsageError, match=messages.SET_WITHOUT_A_VALUE):
        assignment(text)


@pytest.mark.parametrize(
    "assignments", [["seed=1", "seed=2"], ["model=1", "model.dimension=2"], ["model.dimension=2", "model=1"]]
)
def test_a_setting_given_twice_is_refused(assignments):
    with pytest.raises(UsageError, match=messages.SETTING_GIVEN_TWICE):
        choose(preset=None, file=None, assignments=assignments)


def test_a_flag_and_set_of_the_same_setting_are_refused():
    with pytest.raises(UsageError, match=messages.setting_given_twice("seed")):
        choose(preset=None, file=None, assignments=["seed=1"], flags={"seed": 2})


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (
            ["--set", "neighbours.coun=200"],
            2,
            messages.unknown_setting("neighbours.coun") + messages.did_you_mean("neighbours.count"),
        ),
        (["--set", "model.dimension.x=1"], 2, messages.unknown_setting("model.dimension.x")),
        (["--set", "model.lambda_w=nan"], 2, messages.setting_out_of_range("model.lambda_w", "finite")),
        (["--set", "linear.alpha=-1"], 2, messages.setting_out_of_range("linear.alpha", "positive")),
        (["--set", "model.dimension=0"], 2, messages.setting_out_of_range("model.dimension (K)", "between 1 and 256")),
        (["--set", "schedule=samples"], 4, messages.EPSILON_OUTSIDE_ROUNDS),
        (
            ["--set", "model.dimension=many"],
            2,
            messages.takes("model.dimension", "a whole number"),
        ),
        (["--set", "privacy.delta=0"], 2, messages.setting_out_of_range("privacy.delta", "between 0 and 1")),
        (["--set", "privacy.mixing=0.4"], 2, messages.setting_of_an_earlier_version("privacy.mixing")),
        (["--set", "privacy.moments=-1"], 2, messages.setting_out_of_range("privacy.moments", "between 0 and 1000000")),
        (["--set", "privacy.moments=0.1"], 2, messages.PARTS_OF_ONE_WHOLE),
        (
            ["--set", "privacy.popularity=1", "--set", "privacy.moments=0", "--set", "privacy.interaction=1"],
            4,
            messages.PART_OF_THE_BUDGET_MISSING,
        ),
        (["--set", "popularity.mechanism=plain"], 4, messages.mechanism_outside_the_budget("plain")),
        (["--set", "stopping.patience=2"], 4, messages.EARLY_STOPPING_OUTSIDE_THE_BUDGET),
        (
            ["--preset", "rounds", "--set", "popularity.mechanism=secure-sum"],
            4,
            messages.mechanism_needs_a_budget("secure-sum"),
        ),
        (["--preset", "paper", "--set", "privacy.epsilon_per_user=1"], 4, messages.EPSILON_OUTSIDE_ROUNDS),
        (["--set", "neighbours.size=60"], 2, messages.setting_of_an_earlier_version("neighbours.size")),
        (["--set", "floor=10"], 4, messages.floor_too_low(50)),
        pytest.param(
            ["--set", "seed=" + 5000 * "1"],
            2,
            messages.takes("seed", "a whole number"),
            id="thousands of digits",
        ),
        pytest.param(
            ["--set", "seed=" + 100_000 * "["],
            2,
            messages.takes("seed", "a whole number"),
            id="nested without end",
        ),
        pytest.param(["--set", "seed=" + 400 * "1"], 2, messages.NUMBER_OVER_64_BITS, id="hundreds of digits"),
        (["--settings", "nowhere.toml"], 2, messages.no_settings_file("nowhere.toml")),
    ],
)
def test_invalid_settings_are_refused_in_one_line(words, code, text):
    found = call("settings", *words)
    assert (found.exit_code, found.stdout) == (code, "")
    assert found.stderr.startswith("error: ")
    assert says(found.stderr, text)
    assert found.stderr.count("\n") == 1


def test_a_settings_file_that_is_not_toml_is_a_data_error(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("seed = = 1")
    assert call("settings", "--settings", file).exit_code == 3
