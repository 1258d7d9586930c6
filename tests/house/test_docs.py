"""The documentation cannot drift: generated pages are compared, commands are run, links lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import get_args, get_type_hints

import pytest

from prirec.errors import UsageError
from prirec.protocols import moves
from prirec.protocols.meeting import Task
from prirec.protocols.messages import Round, Terms
from prirec.protocols.seen import SEEN

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
WITH_COMMANDS = [page for page in PAGES if "```sh\n" in page.read_text(encoding="utf-8")]


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/make.py, which finds its helpers beside it."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    spec = spec_from_file_location("make_docs", ROOT / "docs" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_what_the_code_says(generator: ModuleType) -> None:
    for page, write in generator.PAGES.items():
        assert page.read_text(encoding="utf-8") == write(), f"{page.name} is old: run make docs"


def test_the_paper_map_lacks_only_what_is_not_built(generator: ModuleType) -> None:
    built = [line for line in generator.paper_map().splitlines() if line.startswith(("| Eq.", "| Alg"))]
    missing = [line.split("|")[1].strip() for line in built if "not built yet" in line]
    assert missing == []


def test_every_table_of_legal_moves_is_drawn(generator: ModuleType) -> None:
    page = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"<!-- generated: diagram (\w+) -->\n```mermaid\nstateDiagram-v2\n", page))
    tables = {name for name, value in vars(moves).items() if name.isupper() and not name.endswith("_STEPS")}
    assert tables <= drawn == set(import_module("protocol_parts").TABLES)


def test_every_legal_way_to_take_a_sum_is_rehearsed(generator: ModuleType) -> None:
    hints = get_type_hints(Terms)
    legal = {pair for pair in product(get_args(hints["method"]), get_args(hints["opening"])) if task_exists(*pair)}
    assert legal == set(import_module("rehearsal").WAYS.values())


def task_exists(method: str, opening: str) -> bool:
    try:
        Task(Round(bytes(16), "linear", 1), bytes(32), Terms(method, opening, 3, 64, 24, 2**32), bytes(32))
    except UsageError:
        return False
    return True


def test_messages_go_the_ways_that_who_learns_what_tells_of(generator: ModuleType) -> None:
    rehearsal, seen = import_module("rehearsal"), dict[type, set[tuple[str, str]]]()
    for way in rehearsal.WAYS:
        played = rehearsal.play(way)
        for message in played.sent:
            ends = (played.roles[message.sender], played.roles[message.receiver])
            seen.setdefault(type(message), set()).add(ends)
    assert seen == {kind: set(told.ways) for kind, told in SEEN.items()}


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_every_command_in_the_docs_runs(page: Path, tmp_path: Path) -> None:
    here = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    assert commands(page)
    for line in commands(page):
        done = subprocess.run(shlex.split(line), cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} points to {target}, which is not there"
