"""Rules of the house that no linter knows."""

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest

import prirec

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-uv.lock"])
def test_a_lock_file_names_no_registry_and_hashes_everything(name: str) -> None:
    lock = (ROOT / name).read_text()
    assert "://" not in lock
    packages = re.split(r"\n(?=\S)", lock.strip())
    assert packages
    assert all("--hash=sha256:" in package for package in packages)


def test_the_lock_file_of_the_web_names_no_registry_and_hashes_everything() -> None:
    lock = json.loads((ROOT / "web/package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package for package in packages.values())


def test_make_sets_up_by_hash_alone() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("$(READY):")[2].partition("\n\n")[0]
    installs = [line for line in recipe.splitlines() if re.search(r"pip (install|sync)", line)]
    others = [line for line in installs if "--require-hashes" not in line]
    assert len(installs) == 3
    assert all("--no-deps" in line and "--editable ." in line for line in others)  # this project itself


def test_the_version_is_stated_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == prirec.__version__


def test_assert_is_not_used_on_input() -> None:
    asserting = [str(file.relative_to(ROOT)) for file in SOURCES if re.search(r"^\s*assert ", file.read_text(), re.M)]
    assert not asserting


def test_texts_of_the_library_name_no_flag_of_the_command_line() -> None:
    """A message speaks of settings and arguments; the command line may add its flag."""
    others = ("pg_dump --", "ray start --")  # programs that are not ours
    naming = [
        f"{file.relative_to(ROOT)}:{text.lineno}"
        for file in SOURCES
        if "cli" not in file.parts
        for text in ast.walk(ast.parse(file.read_text()))
        if isinstance(text, ast.Constant) and re.search(r"[a-z,;:]\W? \(?--[a-z]", str(text.value))
        and "python -m" not in str(text.value) and not any(other in str(text.value) for other in others)
    ]  # fmt: skip
    assert not naming


def test_no_text_promises_that_nothing_leaks() -> None:
    promise = "no private " + "information leakage"
    pages = [*SOURCES, *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert not [str(page) for page in pages if promise in page.read_text(encoding="utf-8").lower()]


def test_how_ready_it_is_stands_in_three_places_in_the_same_words() -> None:
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "SECURITY.md", "docs/limitations.md")]
    statements = [
        re.findall(r"^\*\*How ready it is\.\*\*.*?(?=\n\n)", page, re.MULTILINE | re.DOTALL) for page in pages
    ]
    assert [len(found) for found in statements] == [1, 1, 1]
    (said,) = {" ".join(found[0].split()) for found in statements}
    assert "not ready to protect anyone" in said
    assert "What is missing for that: " in said


def test_kernels_that_count_no_references_return_numbers_alone() -> None:
    """An array that one of them returned would be freed while it is in use."""
    answers = {
        f"{file.stem}.{function.name}": ast.unparse(function.returns) if function.returns else "nothing said"
        for file in SOURCES
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef)
        and {"inlined", "lean_kernel", "_instructions"} & {ast.unparse(one) for one in function.decorator_list}
    }
    assert len(answers) > 50
    number = r"(int|float|bool|Word|Scalar|Eight|Reached|np\.u?int64)"
    fine = re.compile(rf"None|{number}|tuple\[{number}(, {number})+\]")
    assert not {name: answer for name, answer in answers.items() if not fine.fullmatch(answer)}
