"""`import prirec` is light, and everything that it promises is there."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import prirec
from support import messages

HEAVY = ("numpy", "numba", "scipy", "polars", "msgspec", "cryptography", "asyncio", "typer", "httpx", "fastapi")


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after this code."""
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_loads_nothing_but_itself() -> None:
    before, after = loaded_by(""), loaded_by("import prirec")
    assert not [name for name in HEAVY if name in after - before]
    assert {name for name in after - before if name.startswith("prirec")} == {"prirec"}


def test_settings_and_plans_do_not_load_the_compiler_of_training_loops() -> None:
    after = loaded_by("import prirec\nprirec.settings('rounds')")
    assert "numba" not in after
    assert "numpy" not in after


def test_every_name_is_there_and_listed() -> None:
    for name in prirec.__all__:
        assert getattr(prirec, name) is not None, name
        assert name in dir(prirec)
    assert set(prirec._HOMES) | {"errors", "__version__"} == set(prirec.__all__)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(prirec.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == {**prirec._HOMES, "errors": "prirec"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=messages.no_such_attribute("recomend")):
        _ = prirec.recomend


def test_every_public_name_has_a_docstring() -> None:
    for name in prirec.__all__:
        found = getattr(prirec, name)
        if name == "__version__":
            continue
        assert found.__doc__, name
        if isinstance(found, type) and found.__module__.startswith(("prirec.api.", "prirec.recommender.recommender")):
            bare = [key for key, value in vars(found).items() if not key.startswith("_") and not _documented(value)]
            assert set(bare) <= {"panels", "close", "person", "distance_from", "notes"}, (name, bare)


def _documented(value: object) -> bool:
    inner = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", None) or value
    return bool(inner.__doc__)
