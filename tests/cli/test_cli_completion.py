"""What a shell is told when somebody presses the tab key: the program asked as the shells' own scripts ask it."""

import os
import subprocess

import pytest
from typer.testing import CliRunner

from prirec.cli.main import app
from prirec_experiments import cli
from prirec_experiments.cities import CITIES
from prirec_experiments.reproduce import EXPERIMENTS
from support.terminal import PROGRAM


def bash(line):
    """Asked within this process; the last word is the one to complete."""
    asked = {"_PRIREC_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    found = CliRunner().invoke(app, [], env=asked, prog_name="prirec")
    assert found.exit_code == 0
    return found.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("prirec da", ["data"]),
        ("prirec data ", ["make", "import", "check", "describe", "partition"]),
        ("prirec recommender rounds b", ["begin"]),
        ("prirec data import g", ["gowalla"]),
        ("prirec train --preset p", ["private", "paper"]),
        ("prirec train --engine cl", ["cluster"]),
        ("prirec data make city --format p", ["parquet"]),
        ("prirec demo --q", ["--quick"]),
        ("prirec reproduce table4 t", ["table2", "table3", "table4", "table5"]),
        ("prirec tune y", ["yelp"]),
        ("prirec tune yelp --model P", ["PriRec-", "PriRec"]),
        ("prirec train --settings ", []),  # a file: left to the shell
    ],
)
def test_bash_is_offered_what_can_stand_there_and_nothing_else(line, offered):
    assert sorted(bash(line)) == sorted(offered)


def asked(shell, line, **more):
    words = {"_TYPER_COMPLETE_ARGS": line, "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    env = {**os.environ, "_PRIREC_COMPLETE": f"complete_{shell}", **words, **more}
    found = subprocess.run([PROGRAM], env=env, check=True, capture_output=True, text=True)
    assert found.stderr == ""
    return found.stdout


def test_the_installed_script_answers_bash_zsh_and_fish():
    assert asked("bash", "prirec train --preset p").split() == ["paper", "private"]
    assert '(("paper" "private"))' in asked("zsh", "prirec train --preset p").replace("\n", " ")
    told = asked("fish", "prirec da", _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert told.split("\t")[0] == "data"


def test_bash_completes_with_the_script_that_the_program_hands_out():
    """As after `prirec --install-completion`, in a bash of its own."""
    script = CliRunner().invoke(app, [], env={"_PRIREC_COMPLETE": "source_bash"}, prog_name="prirec").stdout
    press = 'COMP_WORDS=(prirec data import g); COMP_CWORD=3; _prirec_completion "$0"; echo "${COMPREPLY[*]}"'
    found = subprocess.run(
        ["bash", "-c", f"{script}\n{press}", str(PROGRAM)], check=True, capture_output=True, text=True
    )  # fmt: skip
    assert (found.stdout, found.stderr) == ("gowalla\n", "")


def test_the_names_that_are_offered_are_those_that_are_known():
    assert (*EXPERIMENTS, "all") == cli.NAMES
    assert set(cli.TUNED_CITIES) <= set(CITIES)
