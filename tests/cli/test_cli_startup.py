"""What happens before any work: help, version, completion, and refusals of every kind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from prirec import __version__
from prirec.cli.commands import Commands
from prirec.cli.main import OWN_FILE, app, build
from prirec.cli.output import finite
from prirec.device.device import Device
from prirec.errors import DataError, Fault, PeerError, PolicyError, ProtocolError, StateError, UsageError
from prirec.util.shown import printable
from support import messages
from support.shell import says


def paths(command, path=()):
    """All commands and groups of commands."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from paths(inner, (*path, name))


PATHS = list(paths(get_command(app)))


def test_the_program_starts_without_anything_that_takes_long_to_load():
    heavy = ("numpy", "numba", "polars", "matplotlib", "h3", "scipy")
    heavy += ("fastapi", "uvicorn", "httpx", "psycopg", "cryptography", "sqlite3", "asyncio", "ssl")
    script = "import json, sys; from prirec.cli.main import app;"
    script += f"print(json.dumps([m for m in {heavy!r} if m in sys.modules]))"
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert json.loads(found.stdout) == []


@pytest.mark.parametrize("command", [["visit", "p1"], ["status"], ["profile", "age=31"], ["export"]])
def test_a_device_that_stores_or_shows_a_row_loads_no_compiler(command, tmp_path):
    """They took 1.7 s of processor time, most of it to import Numba and SciPy."""
    file = tmp_path / "phone.db"
    with Device.open(file):
        pass
    arguments = ["device", command[0], str(file), *command[1:]]
    script = "import sys; from prirec.cli.main import app; app(sys.argv[1:], standalone_mode=False)\n"
    script += "print([name for name in ('numba', 'llvmlite', 'scipy') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script, *arguments], check=True, capture_output=True, text=True)
    assert found.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", OWN_FILE)
def test_a_command_with_a_file_of_its_own_is_the_same_when_nothing_else_is_loaded(name):
    whole, alone = (CliRunner().invoke(one, [name, "--help"], prog_name="prirec") for one in (app, build(name)))
    assert (whole.exit_code, alone.exit_code) == (0, 0)
    assert whole.stdout == alone.stdout
    assert CliRunner().invoke(build(name), ["train"]).exit_code == 2


def test_the_installed_script_prints_the_version():
    script = Path(sys.executable).with_name("prirec")
    found = subprocess.run([script, "--version"], check=True, capture_output=True, text=True)
    assert (found.stdout, found.stderr) == (f"prirec {__version__}\n", "")


@pytest.mark.parametrize("path", PATHS)
def test_every_command_has_help_that_fits_eighty_columns_and_ends_with_examples(path):
    found = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "80"})
    assert found.exit_code == 0
    help_text, _, examples = found.stdout.partition("Examples:")
    assert all(len(line) <= 80 for line in found.stdout.splitlines())
    _, _, described = help_text.partition("Options:")
    assert "..." not in described  # no description is cut short
    assert path == ("data",) or "prirec " in examples


def test_every_example_in_the_help_is_accepted_by_the_parser():
    command = get_command(app)
    for path in PATHS:
        inner = command
        for name in path:
            inner = inner.commands[name]
        for line in (inner.epilog or "").replace("\\\n", "").splitlines()[2:]:
            words = line.split(" > ")[0].split()[1:]
            if "--list" not in words:
                _parse(command, words)


def _parse(command, words):
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("prirec", words, resilient_parsing=False)


def test_completion_is_offered():
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).stdout


def test_a_misspelt_command_and_a_missing_argument_are_usage_errors():
    assert CliRunner().invoke(app, ["trane"]).exit_code == 2
    assert CliRunner().invoke(app, ["train"]).exit_code == 2


KINDS = [(UsageError, 2), (DataError, 3), (PolicyError, 4), (StateError, 5), (ProtocolError, 6)]


@pytest.mark.parametrize(("kind", "code"), KINDS)
def test_a_refusal_is_one_line_on_stderr_with_its_own_exit_code(kind, code):
    found = CliRunner().invoke(_failing(kind("no")), ["fail"])
    assert (found.exit_code, found.stdout, found.stderr) == (code, "", "error: no\n")


def test_a_peer_at_fault_is_one_line_with_the_name_of_the_fault():
    found = CliRunner().invoke(_failing(PeerError(Fault.AUTH, "no")), ["fail"])
    assert (found.exit_code, found.stderr) == (6, "error: AUTH: no\n")


def test_an_error_of_the_operating_system_is_one_line():
    found = CliRunner().invoke(_failing(PermissionError(13, "Permission denied", "visits.csv")), ["fail"])
    assert (found.exit_code, found.stderr) == (5, "error: visits.csv: Permission denied\n")


def test_an_unexpected_error_shows_a_traceback_without_local_variables():
    script = (
        "from prirec.cli.main import app, run\n"
        "def crash():\n"
        "    home = 'a private ' + 'value'\n"
        "    raise RuntimeError('unexpected')\n"
        "app.command('crash')(crash)\n"
        "import sys; sys.argv = ['prirec', 'crash']; run()\n"
    )
    found = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert found.returncode == 1
    assert says(found.stderr, messages.Foreign.UNEXPECTED)
    assert "a private value" not in found.stderr


def test_a_reader_that_goes_away_is_no_error():
    script = Path(sys.executable).with_name("prirec")
    with subprocess.Popen([script, "settings"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        writer.stdout.close()
        complaint = writer.stderr.read()
    assert complaint == b""


def test_json_has_null_for_what_is_not_a_number():
    answer = {"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": (-float("inf"), "x", None, 2)}}
    assert finite(answer) == {"a": None, "b": [None, 1.5], "c": {"d": [None, "x", None, 2]}}


def test_control_characters_never_reach_a_terminal():
    assert printable("a\x1b[31mb\nc\rd") == "a [31mb c d"


def _failing(error):
    program = typer.Typer(cls=Commands, rich_markup_mode=None)
    program.callback()(lambda: None)

    def fail():
        raise error

    program.command("fail")(fail)
    return program
