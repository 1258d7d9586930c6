"""The documentation cannot drift: generated pages are compared, commands are run, links lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
WITH_COMMANDS = [page for page in PAGES if "```sh\n" in page.read_text(encoding="utf-8")]


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]


def test_the_paper_map_is_what_the_docstrings_say() -> None:
    spec = spec_from_file_location("make_docs", ROOT / "docs" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    for page, write in module.PAGES.items():
        assert page.read_text(encoding="utf-8") == write(), f"{page.name} is old: run make docs"
    built = [line for line in module.paper_map().splitlines() if line.startswith(("| Eq.", "| Alg"))]
    missing = [line.split("|")[1].strip() for line in built if "not built yet" in line]
    assert missing == ["Eq. (5)", "Eq. (6)", "Algorithm 1"]


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
